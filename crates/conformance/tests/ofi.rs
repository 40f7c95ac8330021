//! The contract of remote memory over libfabric: both ends in this process, on loopback.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::Arc;

use conformance::memory::{BODIES, SIZE_BYTES};
use conformance::{Outcome, Subject};
use link::error::Result;
use link::{Capabilities, Grant, Link, LinkError, RemoteMemory};
use ofi::{Endpoint, OfiError, OfiMemory, Settings, Wanted, random_u64};
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

fn end(provider: &str) -> std::result::Result<Endpoint, OfiError> {
    let source = (provider != "shm").then(|| [127, 0, 0, 1].into());
    Endpoint::open(&Wanted { provider: Some(provider.to_owned()), source }, Settings::default())
}

fn run_all(provider: &str) {
    let (own, other) = match end(provider).and_then(|own| Ok((own, end(provider)?))) {
        Ok(ends) => ends,
        Err(error) => return println!("skipped: {error}"),
    };
    let session = random_u64().unwrap();
    let peer = Arc::new(own.connect("the other end", &other.card().unwrap(), session).unwrap());
    let back = other.connect("this end", &own.card().unwrap(), session).unwrap();
    let mut skipped = 0;
    for (name, needs, body) in BODIES {
        let owner = Arc::new(Region::create(&RegionOptions::new("conformance", SIZE_BYTES)).unwrap());
        let exported = other.export(&owner).unwrap();
        let remote = OfiMemory::new(Arc::clone(&peer), NodeId::new(8).unwrap(), exported.card().clone());
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
    drop(back);
}

#[test]
fn over_tcp_with_rxm() {
    run_all("tcp;ofi_rxm");
}

#[test]
fn over_net() {
    run_all("net");
}

#[test]
fn over_shm() {
    run_all("shm");
}
