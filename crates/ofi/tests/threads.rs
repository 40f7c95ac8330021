//! Many threads use one peer at once: they share its slots, and none waits for another that waits for it.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::Arc;

use ofi::{Endpoint, OfiError, Settings, Wanted, random_u64};
use shm::region::{Region, RegionOptions};

const THREADS: usize = 6;
/// More pieces than a peer may have under way.
const EACH_BYTES: usize = 2 << 20;

fn end() -> Result<Endpoint, OfiError> {
    let (provider, source) = (Some("tcp;ofi_rxm".to_owned()), Some([127, 0, 0, 1].into()));
    Endpoint::open(&Wanted { provider, source, is_exact: false }, Settings::default())
}

fn pattern(thread: usize) -> Vec<u8> {
    (0..EACH_BYTES).map(|at| (at * 31 + thread * 7 + at / 4096) as u8).collect()
}

#[test]
fn threads_share_a_peer() {
    let (own, other) = match end().and_then(|own| Ok((own, end()?))) {
        Ok(ends) => ends,
        Err(error) => return println!("skipped: {error}"),
    };
    let session = random_u64().unwrap();
    let peer = own.connect("the other end", &other.card().unwrap(), session).unwrap();
    let _back = other.connect("this end", &own.card().unwrap(), session).unwrap();
    let region = Arc::new(Region::create(&RegionOptions::new("threads", THREADS * EACH_BYTES + 8)).unwrap());
    let exported = other.export(&region).unwrap();
    let (peer, card) = (&peer, exported.card());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let (bytes, offset) = (pattern(thread), 8 + thread * EACH_BYTES);
                for _ in 0..3 {
                    peer.put(card, offset, &bytes).unwrap();
                    let mut found = vec![0; EACH_BYTES];
                    peer.get(card, offset, &mut found).unwrap();
                    assert!(found == bytes, "a get overtook the put before it, or mixed threads up");
                    peer.fetch_add_u64(card, 0, 1).unwrap();
                }
            });
        }
    });
    assert_eq!(peer.fetch_add_u64(card, 0, 0).unwrap(), 3 * THREADS as u64);
    for thread in 0..THREADS {
        let mut found = vec![0; EACH_BYTES];
        region.window().get(8 + thread * EACH_BYTES, &mut found).unwrap();
        assert!(found == pattern(thread));
    }
}
