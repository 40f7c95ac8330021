//! The contract of remote memory over libfabric: both ends in this process, on loopback.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::Arc;

use conformance::memory::{BODIES, SIZE_BYTES};
use conformance::{Outcome, Subject};
use link::error::Result;
use link::{Capabilities, Grant, Link, LinkError, RemoteMemory};
use ofi::{Endpoint, OfiError, OfiMemory, Peer, Rails, Settings, Wanted, random_u64};
use proto::ids::NodeId;
use shm::region::{MemoryId, Region, RegionOptions};

/// Opens nothing: how a grant of another machine's memory travels is the control plane's.
#[derive(Debug)]
struct Loopback;

impl Link for Loopback {
    fn name(&self) -> &'static str {
        "ofi"
    }

    fn capabilities(&self) -> Capabilities {
        OfiMemory::capabilities()
    }

    fn open(&self, _grant: Grant) -> Result<Arc<dyn RemoteMemory>> {
        Err(LinkError::NotSupported {
            link: "ofi",
            what: "open a grant",
            why: "the test has opened the memory",
        })
    }

    fn is_used_here(&self, _memory: MemoryId) -> bool {
        false
    }
}

fn end(provider: &str, rail: u8) -> std::result::Result<Endpoint, OfiError> {
    let source = (provider != "shm").then(|| [127, 0, 0, rail + 1].into());
    Endpoint::open(
        &Wanted { provider: Some(provider.to_owned()), source, is_exact: false },
        Settings::default(),
    )
}

/// One rail of both ends: this one and the other, and the peers of each.
struct Rail {
    other: Endpoint,
    peer: Arc<Peer>,
    _back: Peer,
}

fn rail(provider: &str, nth: u8) -> std::result::Result<Rail, OfiError> {
    let (own, other) = (end(provider, nth)?, end(provider, nth)?);
    let session = random_u64()?;
    let peer = Arc::new(own.connect("the other end", &other.card()?, session)?);
    let back = other.connect("this end", &own.card()?, session)?;
    Ok(Rail { other, peer, _back: back })
}

fn run_all(provider: &str, rails: u8) {
    let rails = match (0..rails).map(|nth| rail(provider, nth)).collect::<std::result::Result<Vec<_>, _>>() {
        Ok(rails) => rails,
        Err(error) => return println!("skipped: {error}"),
    };
    let peers = rails.iter().map(|rail| Arc::clone(&rail.peer)).collect();
    let link = Arc::new(Rails::new(peers).unwrap());
    let mut skipped = 0;
    for (name, needs, body) in BODIES {
        let owner = Arc::new(Region::create(&RegionOptions::new("conformance", SIZE_BYTES)).unwrap());
        let exported: Vec<_> = rails.iter().map(|rail| rail.other.export(&owner).unwrap()).collect();
        let cards = exported.iter().map(|exported| exported.card().clone()).collect();
        let remote = OfiMemory::over(Arc::clone(&link), NodeId::new(8).unwrap(), cards).unwrap();
        let subject = Subject { link: Arc::new(Loopback), owner, remote: Arc::new(remote) };
        match subject.run(*needs, *body) {
            Outcome::Passed => println!("ofi over {provider}: {name}: passed"),
            Outcome::Skipped(missing) => {
                skipped += 1;
                println!("ofi over {provider}: {name}: skipped, the link lacks {}", missing.join(", "));
            }
        }
    }
    // Those that need a map.
    assert_eq!(skipped, 3);
}

#[test]
fn over_tcp_with_rxm() {
    run_all("tcp;ofi_rxm", 1);
}

#[test]
fn over_rails_of_tcp_with_rxm() {
    run_all("tcp;ofi_rxm", 2);
    run_all("tcp;ofi_rxm", 4);
}

#[test]
fn over_net() {
    run_all("net", 1);
}

#[test]
fn over_shm() {
    run_all("shm", 1);
}
