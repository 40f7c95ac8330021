//! The end points of this program: one for each provider and rail that was needed so far.

use std::net::IpAddr;

use node_client::OwnLock;
use ofi::{Endpoint, OfiError, Settings, Wanted};
use proto::wire::network::MAX_RAILS;
use shm::process::SignalsBlocked;

use super::of_parent;

/// See the module. Each with the address that was asked for.
#[derive(Debug, Default)]
pub(super) struct Ends(OwnLock<Vec<(Option<IpAddr>, Endpoint)>>);

impl Ends {
    /// The end points of the rails of these addresses, at most so many: of one provider, or the best that the first of them has.
    /// The first one is needed. Rails are paired by their number, so a rail that cannot be opened leaves out those after it.
    pub(super) fn of_rails(
        &self,
        provider: Option<&str>,
        addresses: &[IpAddr],
        most: usize,
    ) -> Result<Vec<Endpoint>, OfiError> {
        let first = self.first(provider, addresses.first().copied())?;
        let provider = first.offer().provider;
        let others = addresses.iter().take(most.min(MAX_RAILS)).skip(1);
        let others = others.map_while(|address| self.at(Some(&provider), Some(*address)).ok());
        Ok(std::iter::once(first).chain(others).collect())
    }

    fn first(&self, provider: Option<&str>, address: Option<IpAddr>) -> Result<Endpoint, OfiError> {
        match self.at(provider, address) {
            // Networks that have no addresses of the internet.
            Err(OfiError::NoProvider { .. }) if address.is_some() => self.at(provider, None),
            other => other,
        }
    }

    fn at(&self, provider: Option<&str>, address: Option<IpAddr>) -> Result<Endpoint, OfiError> {
        let Some(mut ends) = self.0.lock() else { return Err(of_parent()) };
        let fits = |(at, end): &&(Option<IpAddr>, Endpoint)| {
            *at == address && provider.is_none_or(|provider| end.offer().provider == provider)
        };
        if let Some((_, end)) = ends.iter().find(fits) {
            return Ok(end.clone());
        }
        let wanted = Wanted { provider: provider.map(str::to_owned), source: address };
        let _quiet = SignalsBlocked::here();
        let opened = Endpoint::open(&wanted, Settings::default())?;
        ends.push((address, opened.clone()));
        Ok(opened)
    }
}
