//! Data for the program at the other end: what comes, in which order, and what becomes of data that cannot be
//! taken.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::{Arc, Mutex};

use ofi::{DATA_BYTES_MAX, Delivery, Endpoint, OfiError, Settings, Wanted, random_u64};

fn end(provider: &str) -> Result<Endpoint, OfiError> {
    let (provider, source) = (Some(provider.to_owned()), Some([127, 0, 0, 1].into()));
    Endpoint::open(&Wanted { provider, source, is_exact: false }, Settings::default())
}

fn message(nth: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + nth) as u8).collect()
}

fn data_comes(provider: &str) {
    let (own, other) = match end(provider).and_then(|own| Ok((own, end(provider)?))) {
        Ok(ends) => ends,
        Err(error) => return println!("skipped: {error}"),
    };
    let session = random_u64().unwrap();
    let peer = own.connect("the other end", &other.card().unwrap(), session).unwrap();
    let _back = other.connect("this end", &own.card().unwrap(), session).unwrap();
    let came = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&came);
    let room = 100;
    let bell = other
        .bell_taking(move |data| {
            let mut came = into.lock().unwrap();
            if came.len() == room {
                return Delivery::Full;
            }
            came.push(data.to_vec());
            Delivery::Taken
        })
        .unwrap();
    let lengths: Vec<usize> = [0, 1, 8, 4095, 8176, DATA_BYTES_MAX].into_iter().cycle().take(room).collect();
    for (nth, len) in lengths.iter().enumerate() {
        assert_eq!(peer.deliver(bell.id(), &message(nth, *len)).unwrap(), Delivery::Taken);
        assert_eq!(came.lock().unwrap().len(), nth + 1, "it is there when the call returns");
    }
    assert_eq!(peer.deliver(bell.id(), b"one more").unwrap(), Delivery::Full);
    assert_eq!(peer.deliver(bell.id(), &[0; DATA_BYTES_MAX + 1]).unwrap(), Delivery::TooLong);
    let came: Vec<Vec<u8>> = came.lock().unwrap().drain(..).collect();
    let wanted: Vec<Vec<u8>> = lengths.iter().enumerate().map(|(nth, len)| message(nth, *len)).collect();
    assert!(came == wanted);
    // A doorbell without data takes none, and one that is gone takes nothing.
    let plain = other.bell().unwrap();
    let refused = peer.deliver(plain.id(), b"data").unwrap_err();
    assert!(refused.to_string().contains("no such interrupt"), "{refused}");
    let id = bell.id();
    drop(bell);
    assert!(peer.deliver(id, b"data").is_err());
    // The peer has not failed by that.
    peer.ring(plain.id()).unwrap();
    peer.confirm_rings().unwrap();
    assert_eq!(plain.count(), 1);
}

#[test]
fn data_comes_over_tcp_with_rxm() {
    data_comes("tcp;ofi_rxm");
}

#[test]
fn data_comes_over_net() {
    data_comes("net");
}

#[test]
fn data_comes_over_sockets() {
    data_comes("sockets");
}
