//! What peers get that were not let in: nothing, and no other peer notices them.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::end::{Pair, Place};

/// Bytes that are no connection of the provider's, on its port: from nothing to more than any buffer, and
/// connections that stay open.
fn garbage(provider: &str) {
    let Some(mut pair) = Pair::open(provider, Place::Loopback, 60_000) else { return };
    pair.a.ask("put 1 1000 1");
    let random: Vec<u8> =
        (0..100_000_u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u8).collect();
    let said: [&[u8]; 6] = [b"", b"\n", b"GET / HTTP/1.1\r\n\r\n", &[0; 4096], &[255; 4096], &random];
    let mut left_open = Vec::new();
    for (nth, bytes) in said.into_iter().enumerate() {
        for is_left_open in [false, true] {
            let mut stream = TcpStream::connect(("127.0.0.1", pair.b.port())).unwrap();
            // It may be closed by the other side at any time.
            let _ = stream.write_all(bytes);
            if is_left_open {
                left_open.push(stream);
                continue;
            }
            let _ = stream.shutdown(Shutdown::Write);
            let _ = stream.set_read_timeout(Some(Duration::from_millis(20)));
            let _ = stream.read(&mut [0; 100]);
        }
        pair.a.ask(&format!("put 1 100000 {nth}"));
        pair.b.ask(&format!("check 1 100000 {nth}"));
    }
    pair.a.ask("get 1 100000 5");
    // A peer that comes now is served, too.
    let (card_a, card_b) = (pair.a.card.clone(), pair.b.card.clone());
    let memory = pair.a.ask("export 4096");
    pair.a.ask(&format!("connect {card_b} 5"));
    pair.b.ask(&format!("connect {card_a} 5"));
    pair.b.ask(&format!("memory {memory}"));
    pair.b.ask("put 0 4096 3");
    pair.a.ask("check 0 4096 3");
    drop(left_open);
}

#[test]
fn garbage_on_the_port_of_tcp_with_rxm() {
    garbage("tcp;ofi_rxm");
}

#[test]
fn garbage_on_the_port_of_net() {
    garbage("net");
}

/// This provider does not survive it: its connections may stall from then on. What is ours ends with an
/// error.
#[test]
fn garbage_on_the_port_of_sockets_ends_with_an_error_at_worst() {
    let Some(mut pair) = Pair::open("sockets", Place::Loopback, 3000) else { return };
    pair.a.ask("put 1 1000 1");
    let mut stream = TcpStream::connect(("127.0.0.1", pair.b.port())).unwrap();
    let _ = stream.write_all(&[255; 100_000]);
    drop(stream);
    match pair.a.try_ask("put 1 100000 2") {
        Ok(_) => println!("it survived"),
        Err(error) => {
            println!("skipped: provider sockets lacks resistance to garbage: {error}");
            assert!(error.starts_with("the ofi link to node 8 failed: "), "{error}");
        }
    }
    pair.a.ask("close");
}

/// A peer of another session rings nothing, and its atomic operations are not carried out.
#[test]
fn messages_of_another_session_are_dropped() {
    let Some(mut pair) = Pair::apart("tcp;ofi_rxm", Place::Loopback, 1000) else { return };
    let (card_a, card_b) = (pair.a.card.clone(), pair.b.card.clone());
    pair.a.ask(&format!("connect {card_b} 1"));
    pair.b.ask(&format!("connect {card_a} 2"));
    let memory = pair.b.ask("export 4096");
    pair.a.ask(&format!("memory {memory}"));
    pair.b.ask("fill 0 64 9");
    let bell = pair.b.ask("bell");
    pair.a.ask(&format!("ring {bell}"));
    assert_eq!(pair.b.try_ask("wait 0").unwrap_err(), "it did not ring");
    let error = pair.a.try_ask("add 0 1 0").unwrap_err();
    assert!(error.contains("made no progress for 1000 ms"), "{error}");
    pair.b.ask("check 0 64 9");
    assert!(pair.b.ask("counters").contains("strangers=2"));
}

/// A wrong key opens nothing; the error is that peer's alone.
#[test]
fn a_wrong_key_and_withdrawn_memory_are_refused() {
    for provider in ["tcp;ofi_rxm", "net", "sockets"] {
        for is_withdrawn in [false, true] {
            let Some(mut pair) = Pair::open(provider, Place::Loopback, 3000) else { continue };
            pair.b.ask("fill 0 1000 4");
            if is_withdrawn {
                pair.b.ask("withdraw");
            } else {
                let memory = pair.b.ask("export 1000");
                pair.b.ask("fill 0 1000 4");
                let first = if memory.starts_with('0') { "1" } else { "0" };
                pair.a.ask(&format!("memory {first}{}", &memory[1..]));
            }
            let error = pair.a.try_ask("put 0 1000 5").unwrap_err();
            println!("{provider}: {error}");
            assert!(error.starts_with("the ofi link to node 8 failed: a put to the peer "), "{error}");
            pair.b.ask("check 0 1000 4");
        }
    }
}
