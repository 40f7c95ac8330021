//! The rings between processes, some of which are killed.
//!
//! The tests marked as ignored are what runs in the child processes; without their environment they do
//! nothing.
#![cfg(not(loom))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests, with helpers outside test functions"
)]

mod ring_support;

use ring_support::{
    CHILD, descriptor_of, give_way, message, must_end, process_of, run_in_child, wait_for_death,
};
use rustix::fd::AsRawFd;
use shm::ring::many::{Consumer, Popped, Producer};
use shm::ring::{PushError, byte, record};
use std::io::{BufRead, BufReader, Write};
use std::process::Child;

const COUNT: u64 = 20_000;

fn len_of(number: u64) -> usize {
    8 + (number * 37 % 500) as usize
}

/// Numbers that this process got from its parent; `None` in an ordinary run of the ignored tests.
fn from_parent() -> Option<Vec<i32>> {
    let text = std::env::var(CHILD).ok()?;
    Some(text.split(' ').map(|number| number.parse().unwrap()).collect())
}

/// The first line of a child's output that begins with the mark, after the mark.
fn said(child: &mut Child) -> String {
    const MARK: &str = "RING ";
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    lines.map_while(Result::ok).find_map(|line| Some(line.split_once(MARK)?.1.to_owned())).unwrap()
}

fn parent_pid() -> u32 {
    std::os::unix::process::parent_id()
}

/// Waits until the parent has taken what it needs.
fn wait_for_parent() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

fn let_go(child: &mut Child) {
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
}

#[test]
#[ignore = "runs in a child process"]
fn child_sends_records_and_bytes() {
    let Some(fds) = from_parent() else { return };
    let records = record::ProducerHalf::create(4096).unwrap();
    let bytes = byte::WriterHalf::create(4096).unwrap();
    println!("RING {} {}", records.fd().as_raw_fd(), bytes.fd().as_raw_fd());
    let mut records = records.connect(descriptor_of(parent_pid(), fds[0], false)).unwrap();
    let mut bytes = bytes.connect(descriptor_of(parent_pid(), fds[1], false)).unwrap();
    wait_for_parent();
    let mut turns = 0;
    for number in 0..COUNT {
        let text = message(number, len_of(number));
        while let Err(error) = records.push(&text) {
            assert_eq!(error, PushError::Full);
            give_way(&mut turns);
        }
        let mut done = 0;
        while done < text.len() {
            done += bytes.write(&text[done..]).unwrap();
            give_way(&mut turns);
        }
    }
}

#[test]
fn records_and_bytes_from_another_process() {
    must_end(|| {
        let (records, bytes) = (record::ConsumerHalf::create().unwrap(), byte::ReaderHalf::create().unwrap());
        let fds = format!("{} {}", records.fd().as_raw_fd(), bytes.fd().as_raw_fd());
        let mut child = run_in_child("child_sends_records_and_bytes", &fds);
        let theirs: Vec<i32> = said(&mut child).split(' ').map(|number| number.parse().unwrap()).collect();
        let mut records = records.connect(descriptor_of(child.id(), theirs[0], false)).unwrap();
        let mut bytes = bytes.connect(descriptor_of(child.id(), theirs[1], false)).unwrap();
        let_go(&mut child);
        let (mut buffer, mut turns) = ([0; 600], 0);
        for number in 0..COUNT {
            let text = message(number, len_of(number));
            let len = loop {
                match records.pop_into(&mut buffer).unwrap() {
                    Some(len) => break len,
                    None => give_way(&mut turns),
                }
            };
            assert_eq!(buffer[..len], text);
            let mut done = 0;
            while done < text.len() {
                let count = bytes.read(&mut buffer[..text.len() - done]).unwrap();
                assert_eq!(buffer[..count], text[done..done + count]);
                done += count;
                give_way(&mut turns);
            }
        }
        assert!(child.wait().unwrap().success());
        assert_eq!(records.pop_into(&mut buffer), Ok(None));
    });
}

fn connect_to_parent(fds: &[i32], id: u16) -> Producer {
    let [slots, own] =
        [(fds[0], true), (fds[1], false)].map(|(fd, writable)| descriptor_of(parent_pid(), fd, writable));
    Producer::connect(slots, own, id).unwrap()
}

#[test]
#[ignore = "runs in a child process"]
fn child_claims_and_waits_to_be_killed() {
    let Some(numbers) = from_parent() else { return };
    let producer = connect_to_parent(&numbers, numbers[2] as u16);
    producer.send(b"before").unwrap();
    let claim = producer.claim().unwrap();
    claim.window().put(0, b"half a mess").unwrap();
    println!("RING claimed");
    wait_for_parent();
    unreachable!("the parent kills this process");
}

/// Killed for real between claim and commit: what it had sent stays, its claim is found by the kernel's word
/// that the process is dead, and what others sent behind it arrives.
#[test]
fn a_producer_killed_between_claim_and_commit() {
    must_end(|| {
        let mut consumer = Consumer::create(8, 48).unwrap();
        let fds = [consumer.slots_fd(), consumer.fd()].map(|fd| fd.as_raw_fd().to_string());
        let other = consumer.add_local(9).unwrap();
        let mut buffer = [0; 48];
        for id in 0..8u16 {
            let environment = format!("{} {id}", fds.join(" "));
            let mut child = run_in_child("child_claims_and_waits_to_be_killed", &environment);
            let process = process_of(&child);
            assert_eq!(said(&mut child), "claimed");
            other.send(b"behind").unwrap();
            assert_eq!(consumer.pop_into(&mut buffer), Ok(Popped::Taken { value: 6, producer: id }));
            assert_eq!(&buffer[..6], b"before");
            // It lives, so its claim stands, however long it takes.
            assert!(process.proof_of_death().is_none());
            assert_eq!(consumer.pop_into(&mut buffer), Ok(Popped::Pending(id)));
            assert!(consumer.is_empty());
            child.kill().unwrap();
            let proof = wait_for_death(&process);
            assert_eq!(consumer.pop_into(&mut buffer), Ok(Popped::Pending(id)));
            assert_eq!(consumer.discard_claims(&proof, id), 1);
            assert_eq!(consumer.pop_into(&mut buffer), Ok(Popped::Taken { value: 6, producer: 9 }));
            assert_eq!(&buffer[..6], b"behind");
            assert_eq!(consumer.pop_into(&mut buffer), Ok(Popped::Empty));
            child.wait().unwrap();
        }
    });
}

#[test]
#[ignore = "runs in a child process"]
fn child_sends_until_it_is_killed() {
    let Some(numbers) = from_parent() else { return };
    let producer = connect_to_parent(&numbers, numbers[2] as u16);
    println!("RING begins");
    let mut turns = 0;
    for number in 0u64.. {
        while producer.send(&number.to_ne_bytes()).is_err() {
            give_way(&mut turns);
        }
    }
}

/// Killed anywhere: the ring never stops for good, and each process's messages arrive in order and without a
/// hole.
#[test]
fn producers_killed_at_any_point() {
    must_end(|| {
        let mut consumer = Consumer::create(8, 48).unwrap();
        let fds = [consumer.slots_fd(), consumer.fd()].map(|fd| fd.as_raw_fd().to_string());
        let mut buffer = [0; 8];
        for round in 0..8u64 {
            let mut children = [1u16, 2].map(|id| {
                let environment = format!("{} {id}", fds.join(" "));
                let mut child = run_in_child("child_sends_until_it_is_killed", &environment);
                assert_eq!(said(&mut child), "begins");
                let process = process_of(&child);
                (id, child, process)
            });
            let mut next = [0; 3];
            let mut turns = 0;
            let mut take = |consumer: &mut Consumer, enough: &mut dyn FnMut(&[u64; 3]) -> bool| {
                while !enough(&next) {
                    match consumer.pop_into(&mut buffer).unwrap() {
                        Popped::Taken { value, producer } => {
                            assert_eq!(value, 8);
                            let expected = &mut next[usize::from(producer)];
                            assert_eq!(u64::from_ne_bytes(buffer), *expected, "producer {producer}");
                            *expected += 1;
                        }
                        Popped::Empty | Popped::Pending(_) => give_way(&mut turns),
                    }
                }
            };
            take(&mut consumer, &mut |next| next[1] > 50 + 13 * round && next[2] > 50 + 13 * round);
            for (_, child, _) in &mut children {
                child.kill().unwrap();
            }
            for (id, _, process) in &children {
                let proof = wait_for_death(process);
                let claims = consumer.discard_claims(&proof, *id);
                assert!(claims <= 1, "one thread has one claim at most, not {claims}");
            }
            // Everybody is dead: take what is left, until nothing is.
            let mut quiet = 0;
            take(&mut consumer, &mut |_| {
                quiet += 1;
                quiet > 100
            });
            assert_eq!(consumer.pop_into(&mut buffer), Ok(Popped::Empty), "nothing is in the way");
            for (_, child, _) in &mut children {
                child.wait().unwrap();
            }
        }
    });
}

/// Flags of the mappings of rings in this process.
fn flags_of_rings() -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut flags = Vec::new();
    let mut inside = false;
    for line in maps.lines() {
        if line.contains("/memfd:") {
            inside = line.contains("memfd:ring-");
        } else if inside && line.starts_with("VmFlags:") {
            flags.push(line.to_owned());
            inside = false;
        }
    }
    flags
}

/// A forked child must not have a ring's memory: two processes on one end would break it.
#[test]
fn a_ring_is_not_inherited_by_a_fork() {
    let (producer, consumer) = record::pair(512).unwrap();
    let (many, one) = shm::ring::many::pair(2, 48).unwrap();
    // Other tests of this process may have rings, too, some of them mapped a moment ago and not yet kept from
    // children.
    let mut flags = flags_of_rings();
    let is_kept = |line: &String| line.split(' ').any(|flag| flag == "dc");
    for _ in 0..100 {
        if flags.iter().all(is_kept) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
        flags = flags_of_rings();
    }
    assert!(flags.iter().all(is_kept), "{flags:#?}");
    assert!(flags.len() >= 8, "{flags:#?}");
    drop((producer, consumer, many, one));
}
