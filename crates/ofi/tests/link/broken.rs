//! Peers that die or freeze, and a library that is not there: an error that says so, no hang.

use std::process::Command;

use crate::end::{End, Pair, Place};

fn is_typed(error: &str) -> bool {
    error.starts_with("the ofi link to node 8 failed: ")
        && [" to the peer failed: ", " made no progress for ", "the peer is gone"]
            .iter()
            .any(|part| error.contains(part))
}

/// A peer is killed while puts are under way. Providers that do not notice it end by the limit.
fn killed(provider: &str, place: Place) {
    let Some(mut pair) = Pair::open(provider, place, 3000) else { return };
    pair.a.ask("put 0 8 1");
    pair.a.send("flood 0 100000 1");
    // So that the flood has begun.
    std::thread::sleep(std::time::Duration::from_millis(300));
    pair.b.signal("KILL");
    let error = pair.a.answer().unwrap_err();
    println!("{provider}: {error}");
    assert!(is_typed(&error), "{error}");
    // All that follows fails at once, with the same error, and this end can be closed.
    for line in ["put 0 8 1", "get 0 8 1", "add 0 1 0"] {
        assert_eq!(pair.a.try_ask(line).unwrap_err(), error);
    }
    pair.a.ask("close");
}

#[test]
fn a_peer_is_killed_under_tcp_with_rxm() {
    killed("tcp;ofi_rxm", Place::Loopback);
    killed("tcp;ofi_rxm", Place::Namespaces);
}

#[test]
fn a_peer_is_killed_under_net() {
    killed("net", Place::Loopback);
}

#[test]
fn a_peer_is_killed_under_sockets() {
    killed("sockets", Place::Loopback);
}

#[test]
fn a_peer_is_killed_under_shm() {
    killed("shm", Place::Loopback);
}

/// The control plane knows sooner than the provider: a process that waits gets its error.
#[test]
fn a_peer_that_is_said_to_be_lost_is_waited_for_no_more() {
    let Some(mut pair) = Pair::open("tcp;ofi_rxm", Place::Loopback, 600_000) else { return };
    pair.a.ask("put 0 8 1");
    pair.a.ask("lost");
    let error = pair.a.try_ask("put 0 8 1").unwrap_err();
    assert!(error.contains("the peer is gone (the test says so): connect again"), "{error}");
}

/// Buffers of operations that were given up are still the provider's: they end later, or with the end point.
#[test]
fn a_peer_freezes_for_longer_than_the_limit() {
    let Some(mut pair) = Pair::open("tcp;ofi_rxm", Place::Loopback, 400) else { return };
    pair.a.try_ask("put 0 8 1").unwrap();
    pair.b.signal("STOP");
    let error = pair.a.try_ask("flood 0 1000000 1").unwrap_err();
    println!("{error}");
    assert!(error.contains("made no progress for 400 ms"), "{error}");
    pair.b.signal("CONT");
    // A new session begins anew, with the same end points.
    let (card_a, card_b) = (pair.a.card.clone(), pair.b.card.clone());
    let mut tries = 0;
    loop {
        pair.a.ask(&format!("connect {card_b} 4712"));
        pair.b.ask(&format!("connect {card_a} 4712"));
        let memory = pair.b.ask("export 4096");
        pair.a.ask(&format!("memory {memory}"));
        match pair.a.try_ask("put 1 1000 5") {
            Ok(_) => break,
            // On a busy machine the limit may be too short once more.
            Err(error) => assert!(tries < 20 && is_typed(&error), "{error}"),
        }
        tries += 1;
    }
    pair.b.ask("check 1 1000 5");
}

/// With a file in the library's place that is none, as after a broken installation.
#[test]
fn without_the_library_the_package_is_named() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-libfabric");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("libfabric.so.1"), "no library").unwrap();
    let mut end = End::start(Command::new(env!("CARGO_BIN_EXE_ofi-peer")).env("LD_LIBRARY_PATH", &folder));
    let error = end.try_ask("open - - 1000").unwrap_err();
    assert!(error.starts_with("libfabric cannot be loaded ("), "{error}");
    assert!(error.contains("install the package libfabric1"), "{error}");
}

#[test]
fn a_provider_that_does_not_exist_is_named() {
    let mut end = End::here();
    let error = end.try_ask("open no-such-one - 1000").unwrap_err();
    assert!(
        error.contains("offers no provider `no-such-one`") || error.contains("libfabric cannot be loaded"),
        "{error}"
    );
    let error = end.try_ask("open tcp;ofi_rxm 192.0.2.77 1000").unwrap_err();
    println!("{error}");
    assert!(
        error.contains("at 192.0.2.77")
            || error.contains("give an address that an interface of this machine has")
            || error.contains("libfabric cannot be loaded"),
        "{error}"
    );
}
