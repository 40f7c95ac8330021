//! Which provider is used: the one that is named, else the best by the order of [`RANKS`].

use std::net::IpAddr;

use fabric_sys::Library;

use crate::error::{OfiError, Result};
use crate::handles::{Info, InfoList};

/// What a program asks for.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// A provider's name as libfabric has it (`tcp;ofi_rxm`, `verbs;ofi_rxm`, `psm3`); else the best one.
    pub provider: Option<String>,
    /// The own address to be used, for providers that have internet addresses; else that of the first
    /// interface that leaves the machine.
    pub source: Option<IpAddr>,
    /// The named provider alone. Else libfabric's answer to a part of a name counts, too: `tcp;ofi_rxm` for
    /// `tcp`.
    pub is_exact: bool,
}

/// A way into a network that a provider offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The provider's name.
    pub provider: String,
    /// The device or interface.
    pub domain: String,
    /// The network, as the provider names it.
    pub fabric: String,
    /// Whether a put completes while the owner computes without a thread of ours that looks after it.
    pub is_progress_automatic: bool,
    /// Whether it reaches other machines.
    pub leaves_machine: bool,
    /// Whether its addresses are those of IPv4, which are taken before others.
    pub is_ipv4: bool,
}

/// Providers from the best to the last, if none is named. Hardware comes first. Those that are not here are
/// used only if they are named: `sockets` (superseded), `shm` (never leaves the machine, where link `shm` is
/// better), `udp;ofi_rxd`, hooks and rails of libfabric's own. Tested here: `tcp;ofi_rxm`, `net`, `sockets`
/// and `shm` of 1.17; hardware is untested.
pub const RANKS: [&str; 10] =
    ["cxi", "efa", "opx", "psm3", "psm2", "verbs;ofi_rxm", "tcp", "tcp;ofi_rxm", "net", "verbs;ofi_rxd"];

/// tieline's own provider (`libtieline-fi.so`), which stands on this crate: libfabric finds it in this
/// process, too, if `FI_PROVIDER_PATH` is set. A link that used it would go in a circle, so it is never used,
/// not even by name or below another provider.
const OWN: &str = "tieline";

/// All that is offered with remote memory access and messages, in the order of preference.
pub fn offers(wanted: &Wanted) -> Result<Vec<Offer>> {
    let library = Library::load()?;
    Ok(sorted(library, wanted)?.into_iter().map(|(offer, _)| offer).collect())
}

/// The best of what is offered.
pub(crate) fn choose(library: &'static Library, wanted: &Wanted) -> Result<(Offer, Info)> {
    let found = sorted(library, wanted)?;
    let nothing = || no_provider(library, wanted, "none of its providers has a rank, see the documentation");
    found.into_iter().next().ok_or_else(nothing)
}

fn sorted(library: &'static Library, wanted: &Wanted) -> Result<Vec<(Offer, Info)>> {
    let list = InfoList::query(library, wanted)?;
    let list = list.map_err(|errno| no_provider(library, wanted, &library.explain(errno)))?;
    let mut found: Vec<_> = list.infos().into_iter().map(|info| (info.offer(), info)).collect();
    found.retain(|(offer, _)| !is_own(&offer.provider));
    found.retain(|(offer, _)| wanted.provider.is_some() || rank(&offer.provider).is_some());
    // libfabric takes a name for that of a part, too: `tcp` also for `tcp;ofi_rxm`.
    let is_other = |offer: &Offer| wanted.provider.as_ref().is_some_and(|name| *name != offer.provider);
    if wanted.is_exact {
        found.retain(|(offer, _)| !is_other(offer));
        if found.is_empty() {
            return Err(no_provider(library, wanted, "only others that this name is a part of"));
        }
    }
    // Stable: among equals the order is libfabric's.
    found.sort_by_key(|(offer, _)| (is_other(offer), order(offer)));
    Ok(found)
}

fn rank(provider: &str) -> Option<usize> {
    RANKS.iter().position(|known| *known == provider)
}

/// Whether it is tieline's own provider, alone or in layers (`tieline;ofi_rxm`).
fn is_own(provider: &str) -> bool {
    provider.split(';').any(|layer| layer.eq_ignore_ascii_case(OWN))
}

/// Ways that leave the machine first, then by rank, then IPv4 first.
fn order(offer: &Offer) -> (bool, usize, bool) {
    (!offer.leaves_machine, rank(&offer.provider).unwrap_or(RANKS.len()), !offer.is_ipv4)
}

fn no_provider(library: &Library, wanted: &Wanted, reason: &str) -> OfiError {
    let mut what = match &wanted.provider {
        Some(name) => format!("provider `{name}`"),
        None => "provider".to_owned(),
    };
    if let Some(source) = wanted.source {
        what.push_str(&format!(" at {source}"));
    }
    OfiError::NoProvider { version: library.version(), wanted: what, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(provider: &str, leaves_machine: bool, is_ipv4: bool) -> Offer {
        let (domain, fabric) = ("d".to_owned(), "f".to_owned());
        Offer {
            provider: provider.to_owned(),
            domain,
            fabric,
            is_progress_automatic: false,
            leaves_machine,
            is_ipv4,
        }
    }

    #[test]
    fn hardware_comes_first_and_loopback_last() {
        let mut offers = [
            offer("tcp;ofi_rxm", false, true),
            offer("net", true, true),
            offer("tcp;ofi_rxm", true, false),
            offer("tcp;ofi_rxm", true, true),
            offer("verbs;ofi_rxm", true, false),
        ];
        offers.sort_by_key(order);
        let names: Vec<_> =
            offers.iter().map(|offer| (&*offer.provider, offer.leaves_machine, offer.is_ipv4)).collect();
        assert_eq!(
            names,
            [
                ("verbs;ofi_rxm", true, false),
                ("tcp;ofi_rxm", true, true),
                ("tcp;ofi_rxm", true, false),
                ("net", true, true),
                ("tcp;ofi_rxm", false, true)
            ]
        );
    }

    #[test]
    fn tieline_never_stands_on_itself() {
        assert!(is_own("tieline") && is_own("tieline;ofi_rxm") && is_own("ofi_hook_noop;Tieline"));
        assert!(!RANKS.into_iter().chain(["shm", "tielines"]).any(is_own));
    }

    #[test]
    fn a_provider_that_is_not_there_is_named_in_the_error() {
        let wanted = Wanted { provider: Some("no-such-provider".to_owned()), source: None, is_exact: false };
        match offers(&wanted) {
            Err(error @ OfiError::NoProvider { .. }) => {
                let said = error.to_string();
                assert!(
                    said.contains("offers no provider `no-such-provider`") && !said.contains('\n'),
                    "{said}"
                );
            }
            Err(OfiError::Load(error)) => println!("skipped: {error}"),
            other => panic!("{other:?}"),
        }
    }
}
