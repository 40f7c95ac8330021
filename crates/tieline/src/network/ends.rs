//! The end points of this program: one for each provider and rail that was needed so far.
//!
//! Those of several rails are of two kinds, for segments of this program and for those that it reaches: the
//! former are closed when a peer finds that the rail has failed, which must not end what goes the other way.
//! Interrupts have others, for both ways, which are not closed: what they send may come late, and does not
//! wait behind blocks.

use std::net::IpAddr;

use node_client::OwnLock;
use ofi::{Endpoint, OfiError, Settings, Wanted};
use proto::ids::NodeId;
use proto::wire::network::MAX_RAILS;
use shm::process::SignalsBlocked;

use super::of_parent;

/// What an end point is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The only rail, and all rails of interrupts: no peer has it closed.
    Both,
    Owner,
    /// The first of several rails, for importers of this node: what is under way on it must not be done a
    /// second time, so that others are not to lose it with them.
    OwnerFor(NodeId),
    Importer,
}

#[derive(Debug)]
struct End {
    /// That was asked for.
    address: Option<IpAddr>,
    role: Role,
    end_point: Endpoint,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Ends(OwnLock<Vec<End>>);

impl Ends {
    /// The end points of the rails of these addresses, at most so many: of one provider, or the best that the
    /// first of them has. The roles are that of the first of several, and that of the others. The end point
    /// of the first one is needed. Rails are paired by their number, so a rail that cannot be opened leaves
    /// out those after it.
    pub(super) fn of_rails(
        &self,
        provider: Option<&str>,
        addresses: &[IpAddr],
        most: usize,
        (first, role): (Role, Role),
    ) -> Result<Vec<Endpoint>, OfiError> {
        let first = if addresses.len().min(most) > 1 { first } else { Role::Both };
        let first = self.first(provider, addresses.first().copied(), first)?;
        let provider = first.offer().provider;
        let others = addresses.iter().take(most.min(MAX_RAILS)).skip(1);
        let others = others.map_while(|address| self.at(Some(&provider), Some(*address), role, None).ok());
        Ok(std::iter::once(first).chain(others).collect())
    }

    fn first(
        &self,
        provider: Option<&str>,
        address: Option<IpAddr>,
        role: Role,
    ) -> Result<Endpoint, OfiError> {
        match self.at(provider, address, role, None) {
            // Networks that have no addresses of the internet.
            Err(OfiError::NoProvider { .. }) if address.is_some() => self.at(provider, None, role, None),
            other => other,
        }
    }

    /// The end point of a rail that is used again, another one than it had.
    pub(super) fn again(
        &self,
        provider: &str,
        address: IpAddr,
        role: Role,
        old: Option<&Endpoint>,
    ) -> Result<Endpoint, OfiError> {
        self.at(Some(provider), Some(address), role, old)
    }

    /// Whether others may be given it.
    pub(super) fn has(&self, end_point: &Endpoint) -> bool {
        self.0.lock().is_some_and(|ends| ends.iter().any(|end| end.end_point.is(end_point)))
    }

    /// From now on nobody is given it.
    pub(super) fn remove(&self, end_point: &Endpoint) {
        let Some(mut ends) = self.0.lock() else { return };
        let (removed, kept) = ends.drain(..).partition(|end| end.end_point.is(end_point));
        *ends = kept;
        drop(ends);
        // To close one takes a while: not behind the lock.
        drop::<Vec<End>>(removed);
    }

    fn at(
        &self,
        provider: Option<&str>,
        address: Option<IpAddr>,
        role: Role,
        not: Option<&Endpoint>,
    ) -> Result<Endpoint, OfiError> {
        if let Some(old) = not {
            self.remove(old);
        }
        let Some(mut ends) = self.0.lock() else { return Err(of_parent()) };
        let fits = |end: &&End| {
            let is_of_provider = provider.is_none_or(|provider| end.end_point.offer().provider == provider);
            end.address == address && end.role == role && is_of_provider
        };
        if let Some(end) = ends.iter().find(fits) {
            return Ok(end.end_point.clone());
        }
        // Exactly: one of another name would not be found again, and each request would open one more.
        let wanted = Wanted { provider: provider.map(str::to_owned), source: address, is_exact: true };
        let _quiet = SignalsBlocked::here();
        let end_point = Endpoint::open(&wanted, Settings::default())?;
        ends.push(End { address, role, end_point: end_point.clone() });
        Ok(end_point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer names the provider. libfabric takes `tcp` for a part of `tcp;ofi_rxm`, and some versions have
    /// one of this name.
    #[test]
    fn a_name_that_is_a_part_of_another_opens_no_end_point_for_each_request() {
        let ends = Ends::default();
        let here = [IpAddr::from([127, 0, 0, 1])];
        for _ in 0..3 {
            match ends.of_rails(Some("tcp"), &here, 1, (Role::Owner, Role::Owner)) {
                Err(OfiError::Load(error)) => return println!("skipped: {error}"),
                Err(OfiError::NoProvider { .. }) => {}
                Ok(opened) => assert_eq!(opened[0].offer().provider, "tcp"),
                Err(error) => panic!("{error}"),
            }
        }
        assert!(ends.0.lock().unwrap().len() <= 1);
    }
}
