//! Revoking the certificates of a node, on the host that has the authority's key.

use std::time::SystemTime;

use proto::ids::NodeId;

use crate::authority::{Authority, begin_of, seconds};
use crate::error::{Result, TrustError};
use crate::hosts::HostMap;
use crate::identity::Identity;
use crate::issued::{self, is_issued, last_begin};
use crate::revocation_list::{ENTRIES_MAX, RevocationList, Standing};
use crate::revocations::{self, keep};
use crate::store::{Lock, Store};
use crate::token;

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The node's certificates are revoked from now on.
    Revoked,
    /// They were before, and it has got no other since.
    Already,
}

/// Revokes all certificates that a node has been given until `now`, the wall clock. Tokens that were made for
/// it are not good any more.
pub fn revoke(store: &Store, node: NodeId, now: SystemTime) -> Result<Outcome> {
    take_out(store, node, Standing::Revoked, now)
}

/// The same for a node that leaves: its ID is free then.
pub(crate) fn let_go(store: &Store, node: NodeId, now: SystemTime) -> Result<Outcome> {
    take_out(store, node, Standing::Left, now)
}

fn take_out(store: &Store, node: NodeId, standing: Standing, now: SystemTime) -> Result<Outcome> {
    let authority = Authority::open(store)?;
    if Identity::nodes(store)?.contains(&node) {
        return Err(TrustError::OwnNode { node });
    }
    let lock = store.lock()?;
    let list = revocations::load(store, authority.certificate())?;
    let mut hosts = HostMap::load(store)?;
    let outcome = if list.is_gone(node) {
        Outcome::Already
    } else if standing == Standing::Left || is_issued(store, &hosts, node) {
        // The clock may have been put back since the last certificate was issued.
        let moment = seconds(begin_of(now)).max(last_begin(store, node)?);
        let moment = moment.max(list.moment(node).unwrap_or_default());
        write(store, &lock, &authority, &list, (node, moment, standing), now)?;
        Outcome::Revoked
    } else {
        return Err(TrustError::UnknownNode { node });
    };
    token::forget_those_of(store, node)?;
    if standing == Standing::Left {
        store.remove(&issued::marker(node))?;
    }
    if hosts.get(node).is_some() {
        hosts.remove(node);
        hosts.save(store)?;
    }
    Ok(outcome)
}

/// Notes that a node has been given a new certificate, or takes that back. Of a node that has no entry there
/// is nothing to note.
pub(crate) fn set_standing(
    store: &Store,
    lock: &Lock,
    authority: &Authority,
    node: NodeId,
    standing: Standing,
    now: SystemTime,
) -> Result<Option<Standing>> {
    let list = revocations::load(store, authority.certificate())?;
    let (Some(moment), Some(before)) = (list.moment(node), list.standing(node)) else { return Ok(None) };
    if before != standing {
        write(store, lock, authority, &list, (node, moment, standing), now)?;
    }
    Ok(Some(before))
}

fn write(
    store: &Store,
    lock: &Lock,
    authority: &Authority,
    list: &RevocationList,
    (node, moment, standing): (NodeId, u64, Standing),
    now: SystemTime,
) -> Result<()> {
    let next = list.with(node, moment, standing, seconds(now));
    let next = next.ok_or(TrustError::ListFull { most: ENTRIES_MAX })?;
    let signed = next.sign(authority.fingerprint(), |bytes| authority.sign(bytes))?;
    keep(store, lock, authority.certificate(), &signed)
}
