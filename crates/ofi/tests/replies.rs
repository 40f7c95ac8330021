//! Importers whose addresses take no reply: what others ask for is carried out all the same.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use ofi::{Endpoint, EndpointCard, OfiError, Settings, Wanted, random_u64};
use shm::region::{Region, RegionOptions};
use shm::sync::Ordering;

/// More than the owner has slots for messages that come in.
const REQUESTS: u64 = 80;

fn end(give_up_after: Duration) -> Result<Endpoint, OfiError> {
    let (provider, source) = (Some("tcp;ofi_rxm".to_owned()), Some([127, 0, 0, 1].into()));
    Endpoint::open(
        &Wanted { provider, source, is_exact: false },
        Settings { give_up_after, ..Settings::default() },
    )
}

/// The card of an end point that accepts no connection: the kernel does, and nobody answers on it.
fn deaf(like: &EndpointCard) -> (TcpListener, EndpointCard) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut card = like.clone();
    // A `sockaddr_in`: the port comes after the family.
    card.address[2..4].copy_from_slice(&listener.local_addr().unwrap().port().to_be_bytes());
    (listener, card)
}

#[test]
fn an_importer_that_takes_no_reply_does_not_stop_the_owner() {
    // Requests whose replies never come are given up soon.
    let ends = end(Duration::from_secs(30)).and_then(|owner| Ok((owner, end(Duration::from_millis(2))?)));
    let (owner, bad) = match ends {
        Ok(ends) => ends,
        Err(error) => return println!("skipped: {error}"),
    };
    let region = Arc::new(Region::create(&RegionOptions::new("replies", 4096)).unwrap());
    let exported = owner.export(&region).unwrap();
    let card = owner.card().unwrap();
    let (_listener, nowhere) = deaf(&bad.card().unwrap());
    let session = random_u64().unwrap();
    let _dead = owner.connect("a dead address", &nowhere, session).unwrap();
    let word = region.window().atomic_u64(0).unwrap();
    // The first ones may be given up before the connection stands.
    for _ in 0..50 * REQUESTS {
        if word.load(Ordering::SeqCst) >= REQUESTS {
            break;
        }
        let peer = bad.connect("the owner", &card, session).unwrap();
        let error = peer.fetch_add_u64(exported.card(), 0, 1).unwrap_err();
        assert!(matches!(error, OfiError::TimedOut { .. }), "{error}");
    }
    let carried_out = word.load(Ordering::SeqCst);
    assert!(carried_out >= REQUESTS, "only {carried_out} requests were read");
    let counters = owner.counters();
    assert!(counters.iter().any(|(name, count)| *name == "replies-dropped" && *count > 0), "{counters:?}");

    let good = end(Duration::from_secs(30)).unwrap();
    let session = random_u64().unwrap();
    let _back = owner.connect("the importer", &good.card().unwrap(), session).unwrap();
    let peer = good.connect("the owner", &card, session).unwrap();
    for number in 0..REQUESTS {
        assert_eq!(peer.fetch_add_u64(exported.card(), 8, 1).unwrap(), number);
    }
}
