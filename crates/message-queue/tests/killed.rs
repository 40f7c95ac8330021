//! A process that is killed at any moment: what waits for it ends with an error, what it sent before is
//! whole, and others go on.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::io::{BufRead, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use message_queue::settings::Bounds;
use message_queue::{Error, Fetch, MessageQueue, Name, PeerId, Request, Settings, Want};
use seeded_random::SplitMix64;

const LIMIT: Option<Duration> = Some(Duration::from_secs(60));
const HELLO: u64 = 1;
/// Messages of the child to be received.
const WORK: u64 = 2;
/// Messages to the child that it receives, and some that it never does.
const TO_CHILD: u64 = 3;
const NEVER: u64 = 4;
/// Offers of the child, so that it is killed before, while and after they are fetched.
const LENGTHS: [usize; 5] = [8, 300, 8_000, 70_000, 1_000_000];

fn bytes_of(number: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(number | 1) >> 3) as u8).collect()
}

fn settings(number: u64) -> Settings {
    let few = Bounds { messages: 3, bytes: 1 << 20 };
    let default = Settings::default();
    let unexpected_per_peer = if number.is_multiple_of(2) { few } else { default.unexpected_per_peer };
    Settings {
        fetch: [Fetch::InParts, Fetch::Read, Fetch::Measured][(number % 3) as usize],
        unexpected_per_peer,
        ..default
    }
}

/// The process that is killed: started by the other test, which writes a name and a number to it.
#[test]
#[ignore = "started by the test beside it"]
fn child() {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).unwrap();
    let (name, number) = line.trim().split_once(' ').unwrap();
    let bytes: Vec<u8> =
        (0..name.len() / 2).map(|at| u8::from_str_radix(&name[at * 2..at * 2 + 2], 16).unwrap()).collect();
    let mut queue = MessageQueue::new(settings(number.parse().unwrap())).unwrap();
    let parent = queue.peer(Name::of_bytes(bytes.first_chunk().unwrap()).unwrap());
    let _ = queue.send_bytes(parent, HELLO, b"hello").unwrap();
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    for number in 0_u64.. {
        let len = LENGTHS[number as usize % LENGTHS.len()];
        sends.push(queue.send(parent, WORK, bytes_of(number, len)).unwrap());
        receives.push(queue.receive(Want::exactly(parent, TO_CHILD), vec![0; 100_000]));
        if sends.len() > 8 {
            // Whoever is not killed must not stay: the parent's end ends it.
            if queue.wait(sends.remove(0), LIMIT).unwrap().error.is_some() {
                return;
            }
            let _ = queue.wait_any(&receives, Some(Duration::ZERO)).map(|(at, _)| receives.remove(at));
        }
    }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(queue: &mut MessageQueue, number: u64) -> (Killed, PeerId) {
    let args = ["--exact", "child", "--ignored", "--nocapture"];
    let exe = std::env::current_exe().unwrap();
    let child = Command::new(exe).args(args).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut child = Killed(child);
    let name: String = queue.name().bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    writeln!(child.0.stdin.as_mut().unwrap(), "{name} {number}").unwrap();
    let hello = queue.receive(Want { source: None, tag: HELLO, ignore: 0 }, vec![0; 8]);
    let status = queue.wait(hello, LIMIT).unwrap();
    assert_eq!(status.error, None);
    (child, status.envelope.unwrap().source)
}

/// Waits for a receive of work: whether it was one. What came is whole.
fn take_work(queue: &mut MessageQueue, request: Request, number: u64) -> bool {
    let status = queue.wait(request, LIMIT).unwrap();
    match status.error {
        None => {
            let len = status.envelope.unwrap().len_bytes;
            assert_eq!(len, LENGTHS[number as usize % LENGTHS.len()], "message {number}");
            assert!(status.buffers.into_owned().unwrap()[..len] == bytes_of(number, len), "message {number}");
            true
        }
        Some(Error::PeerGone { .. }) => false,
        Some(error) => panic!("{error}"),
    }
}

#[test]
fn a_process_that_is_killed_at_any_moment_takes_nobody_with_it() {
    let mut random = SplitMix64::new(1);
    let mut queue = MessageQueue::new(settings(1)).unwrap();
    // Somebody else, in this process, whose messages go on.
    let mut other = MessageQueue::new(Settings::default()).unwrap();
    let to_queue = other.peer(queue.name());
    for round in 0..24 {
        let (mut child, peer) = start(&mut queue, round);
        let kill_at = random.below(60) as u64;
        let mut ends = Vec::new();
        let mut number = 0;
        let is_dead = loop {
            if number == kill_at {
                child.0.kill().unwrap();
            }
            let receive = queue.receive(Want::exactly(peer, WORK), vec![0; 1_000_000]);
            for (tag, len) in [(TO_CHILD, 64), (TO_CHILD, 90_000), (NEVER, 50_000)] {
                if let Ok(send) = queue.send(peer, tag, vec![1; len]) {
                    ends.push(send);
                }
            }
            let wild = queue.receive(Want { source: None, tag: 50, ignore: 0 }, vec![0; 8]);
            let told = other.send_bytes(to_queue, 50, &number.to_ne_bytes()).unwrap();
            if !take_work(&mut queue, receive, number) {
                break true;
            }
            other.wait(told, LIMIT).unwrap();
            let status = queue.wait(wild, LIMIT).unwrap();
            assert_eq!(status.buffers.into_owned().unwrap(), number.to_ne_bytes());
            number += 1;
        };
        assert!(is_dead && number >= kill_at.min(1));
        for status in queue.wait_all(&ends, LIMIT).unwrap() {
            assert!(matches!(status.error, None | Some(Error::PeerGone { .. })), "{:?}", status.error);
        }
        assert_eq!(queue.send_bytes(peer, WORK, b"late").unwrap_err(), Error::PeerGone { peer });
        // The message that was sent to it meanwhile is still received.
        while queue.probe(&Want { source: None, tag: 50, ignore: 0 }).is_some() {
            let wild = queue.receive(Want { source: None, tag: 50, ignore: 0 }, vec![0; 8]);
            queue.wait(wild, LIMIT).unwrap();
        }
    }
}
