//! What a link does, provider by provider.

use crate::end::{MEMORY_BYTES, Pair, Place};

/// Long enough for a machine that is busy with something else.
const LIMIT_MS: u64 = 60_000;

fn everything(provider: &str, place: Place) {
    let Some(mut pair) = Pair::open(provider, place, LIMIT_MS) else { return };
    if pair.a.provider != provider {
        println!(
            "skipped: this libfabric has no provider `{provider}` with such end points, but {}",
            pair.a.provider
        );
        return;
    }
    blocks(&mut pair);
    doorbells(&mut pair);
    atomics(&mut pair);
    owner_computes(&mut pair);
}

/// Sizes around those of slots, injected messages and pages, at odd offsets; nothing else changes.
fn blocks(pair: &mut Pair) {
    let sizes = [
        0,
        1,
        7,
        8,
        64,
        65,
        128,
        129,
        255,
        256,
        4095,
        4096,
        16_385,
        65_535,
        65_536,
        65_537,
        1 << 20,
        16 << 20,
    ];
    for (seed, size) in sizes.into_iter().enumerate() {
        let offset = 1 + 3 * seed;
        let around = offset + size + 100;
        pair.b.ask(&format!("fill 0 {around} 1000"));
        pair.a.ask(&format!("put {offset} {size} {seed}"));
        pair.b.ask(&format!("check {offset} {size} {seed}"));
        pair.b.ask(&format!("check 0 {offset} 1000"));
        pair.b.ask(&format!("check {} 100 1000", offset + size));
        pair.a.ask(&format!("get {offset} {size} {seed}"));
        pair.a.ask(&format!("get 0 {offset} 1000"));
    }
    let refused = pair.a.try_ask(&format!("put {MEMORY_BYTES} 1 0")).unwrap_err();
    assert!(refused.contains("lie outside of remote memory"), "{refused}");
}

/// What was put before, without a barrier, is there when it rings.
fn doorbells(pair: &mut Pair) {
    let bell = pair.b.ask("bell");
    for round in 0..20 {
        pair.a.ask(&format!("begin 100 200000 {round}"));
        pair.a.ask(&format!("ring {bell}"));
        assert_eq!(pair.b.ask(&format!("wait {round}")), (round + 1).to_string());
        pair.b.ask(&format!("check 100 200000 {round}"));
    }
}

/// With the owner's own atomics at the same time.
fn atomics(pair: &mut Pair) {
    pair.b.ask("fill 0 64 0");
    let before: u64 = pair.b.ask("own 8 0 0").parse().unwrap();
    pair.b.send("own 8 100000 0");
    pair.a.ask("add 8 300 0");
    pair.b.answer().unwrap();
    assert_eq!(pair.b.ask("own 8 0 0").parse::<u64>().unwrap(), before.wrapping_add(100_300));
    let was = before.wrapping_add(100_300);
    assert_eq!(pair.a.ask(&format!("swap 8 {was} 42")), was.to_string());
    assert_eq!(pair.a.ask("swap 8 41 43"), "42");
    assert_eq!(pair.a.ask("swap 8 42 4294967295"), "42");
    assert_eq!(pair.a.ask("add32 8 2 0"), u32::MAX.to_string());
    assert_eq!(pair.a.ask("swap32 8 1 7"), "1");
    // The upper half was left alone by both.
    assert_eq!(pair.b.ask("own 8 0 0"), "7");
    assert!(pair.a.try_ask("add 12 1 0").unwrap_err().contains("not aligned"));
}

/// The owner's program makes no call: its progress thread lets puts complete and carries out atomic
/// operations.
fn owner_computes(pair: &mut Pair) {
    pair.b.send("busy 1500");
    pair.a.ask("put 5 100000 77");
    pair.a.ask("get 5 100000 77");
    pair.a.ask("add 8 3 0");
    pair.b.answer().unwrap();
    pair.b.ask("check 5 1 77");
}

#[test]
fn tcp_with_rxm_on_loopback() {
    everything("tcp;ofi_rxm", Place::Loopback);
}

#[test]
fn net_on_loopback() {
    everything("net", Place::Loopback);
}

#[test]
fn sockets_on_loopback() {
    everything("sockets", Place::Loopback);
}

/// Of libfabric 2; 1.17 has it only below `ofi_rxm`.
#[test]
fn tcp_without_rxm_on_loopback() {
    everything("tcp", Place::Loopback);
}

#[test]
fn tcp_without_rxm_between_namespaces() {
    everything("tcp", Place::Namespaces);
}

#[test]
fn shm() {
    everything("shm", Place::Loopback);
}

#[test]
fn tcp_with_rxm_between_namespaces() {
    everything("tcp;ofi_rxm", Place::Namespaces);
}

#[test]
fn net_between_namespaces() {
    everything("net", Place::Namespaces);
}

#[test]
fn sockets_between_namespaces() {
    everything("sockets", Place::Namespaces);
}

/// Without a name the best provider that leaves the machine is taken.
#[test]
fn a_provider_is_chosen() {
    let Some(mut pair) = Pair::open("-", Place::Namespaces, LIMIT_MS) else { return };
    println!("chosen: {}", pair.a.provider);
    pair.a.ask("put 1 1000 1");
    pair.b.ask("check 1 1000 1");
}
