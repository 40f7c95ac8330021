//! Which nodes the authority has given certificates, and from when on the next certificate of a node is
//! valid.

use std::time::SystemTime;

use proto::ids::NodeId;
use rustls::pki_types::CertificateDer;

use crate::authority::{Authority, PUBLIC_KEY_BYTES, begin_of, seconds};
use crate::error::Result;
use crate::hosts::HostMap;
use crate::revocation_list::RevocationList;
use crate::store::Store;

pub(crate) const FOLDER: &str = "issued";

/// Its file: the moment, in seconds since 1970, from which on its last certificate is valid. Empty where an
/// older version of tieline has issued it.
pub(crate) fn marker(node: NodeId) -> String {
    format!("{FOLDER}/{node}")
}

/// Whether a node has a certificate. The list of hosts alone does not tell: every manager of this host writes
/// it, and others add to it.
pub(crate) fn is_issued(store: &Store, hosts: &HostMap, node: NodeId) -> bool {
    hosts.get(node).is_some() || store.has(&marker(node))
}

/// From when on the last certificate that is known to have been issued to a node is valid; 0: not known.
pub(crate) fn last_begin(store: &Store, node: NodeId) -> Result<u64> {
    let name = marker(node);
    let Some(bytes) = store.read(&name)? else { return Ok(0) };
    let text = String::from_utf8_lossy(&bytes);
    match text.trim() {
        "" => Ok(0),
        text => text.parse().map_err(|_| store.damaged(&name, "it is not a time in seconds")),
    }
}

/// A certificate that none of the list's entries covers, and the moment from which on it is valid.
pub(crate) fn issue(
    authority: &Authority,
    list: &RevocationList,
    node: NodeId,
    key: [u8; PUBLIC_KEY_BYTES],
    now: SystemTime,
) -> Result<(CertificateDer<'static>, u64)> {
    let usual = seconds(begin_of(now));
    let begin = list.moment(node).map_or(usual, |revoked| usual.max(revoked + 1));
    Ok((authority.issue_from(node, key, begin, now)?, begin))
}

/// Notes it, so that it is found when the node's certificates are revoked, whatever this host's clock says
/// then.
pub(crate) fn note(store: &Store, node: NodeId, begin: u64) -> Result<()> {
    store.make_dir(FOLDER)?;
    let begin = begin.max(last_begin(store, node)?);
    store.write(&marker(node), format!("{begin}\n").as_bytes())
}
