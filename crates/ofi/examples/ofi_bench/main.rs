//! The link over libfabric beside a bare loop of libfabric's calls and raw TCP, between two network namespaces, in alternating blocks.
//!
//! `ofi_bench [PROVIDER [BLOCKS]]`, as root. Prints the median of each kind's block medians, and ratios.
#![allow(unsafe_code, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod bare;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bare::{Bare, LARGE_BYTES};
use ofi::{Endpoint, EndpointCard, MemoryCard, Settings, Wanted};
use shm::region::{Region, RegionOptions};

/// Operations of a block.
const EACH: u64 = 200;
const ADDRESSES: [&str; 2] = ["10.11.12.1", "10.11.12.2"];
const KINDS: [&str; 7] = [
    "ofi.echo.8B",
    "bare fi_tsend echo",
    "ofi.put.8B",
    "bare fi_write of 8 B",
    "raw TCP echo",
    "ofi.put.1MiB",
    "bare fi_write of 1 MiB",
];
/// Large operations of a block.
const FEW: u64 = 20;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |nth: usize| words.get(nth).map(String::as_str);
    match word(0) {
        Some("end") => end(
            word(1).expect("provider"),
            word(2) == Some("0"),
            word(3).expect("blocks").parse().expect("a number"),
        ),
        provider => both(provider.unwrap_or("tcp;ofi_rxm"), word(1).unwrap_or("30")),
    }
}

/// Starts two ends in namespaces, and passes what each says first to the other.
fn both(provider: &str, blocks: &str) {
    let own = std::env::current_exe().expect("own path");
    let start = |nth: &str| {
        let mut command = Command::new("unshare");
        command.arg("--net").arg(&own).args(["end", provider, nth, blocks]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("unshare")
    };
    let mut ends = [start("0"), start("1")];
    // Each says a line when it is in its namespace.
    let mut outputs = ends.each_mut().map(|end| BufReader::new(end.stdout.take().expect("output")));
    let mut line = String::new();
    for output in &mut outputs {
        output.read_line(&mut line).expect("a line");
    }
    let pids = ends.each_ref().map(|end| end.id().to_string());
    run(&[
        "ip", "link", "add", "va", "netns", &pids[0], "type", "veth", "peer", "name", "vb", "netns", &pids[1],
    ]);
    for ((pid, name), address) in pids.iter().zip(["va", "vb"]).zip(ADDRESSES) {
        let inside = |words: &[&str]| run(&[&["nsenter", "--net", "--target", pid, "ip"], words].concat());
        inside(&["address", "add", &format!("{address}/24"), "dev", name]);
        inside(&["link", "set", name, "up"]);
    }
    let say = |end: &mut Child, line: &str| {
        end.stdin.as_mut().expect("input").write_all(line.as_bytes()).expect("a pipe");
    };
    ends.iter_mut().for_each(|end| say(end, "go\n"));
    let lines = outputs.each_mut().map(|output| {
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        line
    });
    say(&mut ends[0], &lines[1]);
    say(&mut ends[1], &lines[0]);
    let mut results = String::new();
    outputs[0].read_to_string(&mut results).expect("results");
    print!("{results}");
    ends.iter_mut().for_each(|end| drop(end.wait()));
}

fn run(words: &[&str]) {
    assert!(Command::new(words[0]).args(&words[1..]).status().expect("a program").success(), "{words:?}");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len() / 2).map(|nth| digit(2 * nth)).collect()
}

fn read_line() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("input");
    line.trim().to_owned()
}

fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().expect("output");
}

fn end(provider: &str, is_first: bool, blocks: u64) {
    say("here");
    read_line();
    let source = ADDRESSES[usize::from(!is_first)];
    let wanted = Wanted { provider: Some(provider.to_owned()), source: source.parse().ok() };
    let endpoint =
        Endpoint::open(&wanted, Settings { give_up_after: Duration::from_secs(100), ..Settings::default() })
            .expect("an end point");
    let region = Arc::new(Region::create(&RegionOptions::new("bench", LARGE_BYTES)).expect("memory"));
    let (exported, bell) =
        (endpoint.export(&region).expect("an export"), endpoint.bell().expect("a doorbell"));
    let bare = Bare::open(provider, source);
    bare.post_receive();
    let listener = TcpListener::bind((source, 7777)).expect("a port");
    let own =
        [endpoint.card().expect("a card").to_bytes(), exported.card().to_bytes().to_vec(), bare.address()];
    say(&format!("{} {} {}", own.map(|part| hex(&part)).join(" "), bell.id(), bare.key));
    let said = read_line();
    let words: Vec<&str> = said.split(' ').collect();
    let card = EndpointCard::from_bytes(&unhex(words[0])).expect("a card");
    let memory = MemoryCard::from_bytes(&unhex(words[1])).expect("a card");
    let to = bare.insert(&unhex(words[2]));
    let (its_bell, its_key): (u64, u64) =
        (words[3].parse().expect("a number"), words[4].parse().expect("a number"));
    let peer = endpoint.connect("the other end", &card, 99).expect("a peer");
    let mut stream = if is_first { connect() } else { listener.accept().expect("a connection").0 };
    stream.set_nodelay(true).expect("an option");

    let large = vec![1; LARGE_BYTES];
    let (mut rung, mut messages, mut operations) = (0, 0, 0);
    let mut times: [Vec<Duration>; 7] = Default::default();
    // The first block warms up.
    for block in 0..=blocks {
        let mut measured = [const { Vec::new() }; 7];
        for _ in 0..EACH {
            timed(&mut measured[0], || {
                echo(
                    is_first,
                    || peer.ring(its_bell).expect("a doorbell"),
                    || {
                        rung = bell.wait(rung).expect("a doorbell");
                    },
                )
            });
        }
        for _ in 0..EACH {
            timed(&mut measured[1], || {
                messages += 1;
                operations += 1;
                echo(
                    is_first,
                    || bare.send(to, operations),
                    || {
                        bare.await_message(messages);
                        bare.post_receive();
                    },
                );
            });
        }
        if is_first {
            for _ in 0..EACH {
                timed(&mut measured[2], || {
                    peer.put(&memory, 0, &[1; 8]).expect("a put");
                    peer.barrier().expect("a barrier");
                });
            }
            for _ in 0..EACH {
                timed(&mut measured[3], || {
                    operations += 1;
                    bare.write(8, to, its_key, operations);
                });
            }
            for _ in 0..FEW {
                timed(&mut measured[5], || {
                    peer.put(&memory, 0, &large).expect("a put");
                    peer.barrier().expect("a barrier");
                });
            }
            for _ in 0..FEW {
                timed(&mut measured[6], || {
                    operations += 1;
                    bare.write(LARGE_BYTES, to, its_key, operations);
                });
            }
        }
        let mut bytes = [0; 8];
        for _ in 0..EACH {
            let (mut to, mut from) = (&stream, &stream);
            timed(&mut measured[4], || {
                echo(
                    is_first,
                    || to.write_all(&[1; 8]).expect("a connection"),
                    || {
                        from.read_exact(&mut bytes).expect("a connection");
                    },
                )
            });
        }
        for (times, mut measured) in times.iter_mut().zip(measured).filter(|_| block > 0) {
            measured.sort();
            times.extend(measured.get(measured.len() / 2));
        }
    }
    let _ = stream.write_all(&[bare.first_byte()]);
    if is_first {
        report(&mut times);
    }
}

fn connect() -> TcpStream {
    loop {
        if let Ok(stream) = TcpStream::connect((ADDRESSES[1], 7777)) {
            return stream;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn timed(times: &mut Vec<Duration>, what: impl FnOnce()) {
    let started = Instant::now();
    what();
    times.push(started.elapsed());
}

fn echo(is_first: bool, mut send: impl FnMut(), mut receive: impl FnMut()) {
    if is_first {
        send();
    }
    receive();
    if !is_first {
        send();
    }
}

fn report(times: &mut [Vec<Duration>; 7]) {
    let ratio = |times: &[Vec<Duration>; 7], ours: usize, theirs: usize| {
        let mut ratios: Vec<f64> = times[ours]
            .iter()
            .zip(&times[theirs])
            .map(|(ours, theirs)| ours.as_secs_f64() / theirs.as_secs_f64())
            .collect();
        ratios.sort_by(f64::total_cmp);
        let at = |share: f64| ratios[((ratios.len() - 1) as f64 * share) as usize];
        format!("{:.2} ({:.2} to {:.2} in half of the blocks)", at(0.5), at(0.25), at(0.75))
    };
    println!("echo, ours over bare: {}", ratio(times, 0, 1));
    println!("put, ours over bare: {}", ratio(times, 2, 3));
    println!("put of 1 MiB, ours over bare: {}", ratio(times, 5, 6));
    println!("echo, ours over raw TCP: {}", ratio(times, 0, 4));
    for (kind, times) in KINDS.iter().zip(times) {
        times.sort();
        let us = |at: usize| times[at].as_secs_f64() * 1e6;
        println!(
            "{kind}: {:.1} us a round trip (least block {:.1}, greatest {:.1})",
            us(times.len() / 2),
            us(0),
            us(times.len() - 1)
        );
    }
}
