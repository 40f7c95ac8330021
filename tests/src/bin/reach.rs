//! Programs on two hosts, for tests: `own ID SIZE` owns an available segment, `reach NODE ID` is connected to
//! it; `member GROUP SIZE` has a copy of a group, `group GROUP` writes to all copies. Those for interrupts
//! have an interrupt, trigger one, or do so again and again ([`series`]). `queue PORT` has a message queue
//! ([`messages`]), and `hostile-queue NODE PORT` meets one and breaks the protocol ([`hostile`]).
//!
//! Each says a line when it is ready, obeys lines on standard input, answers each with a line, and ends when
//! that closes. What is written is a pattern, which the other end checks byte by byte.
#![forbid(unsafe_code)]

#[path = "reach/hostile.rs"]
mod hostile;
#[path = "reach/messages.rs"]
mod messages;
#[path = "reach/series.rs"]
mod series;

use std::collections::BTreeSet;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use series::{Series, Taker};
use shm::sync::{AtomicBool, Ordering};
use tieline::messages::Settings;
use tieline::{
    DataInterrupt, Direction, DmaEntry, DmaState, Group, GroupId, InterruptNo, InterruptOptions, LinkError,
    Node, RemoteSegment, Segment, SegmentId,
};

const TIMEOUT: Duration = Duration::from_secs(60);
/// Longest message of a data interrupt.
const MESSAGE_BYTES: usize = 9000;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let node = Node::attach()?;
    match words.as_slice() {
        ["own", id, size] => {
            let segment = node.create_segment(SegmentId(id.parse()?), size.parse()?)?;
            segment.make_available()?;
            say("ready")?;
            obey(|words| own(&segment, words))
        }
        ["member", group, size] => {
            let member = node.join_group(GroupId(group.parse()?), size.parse()?)?;
            say("ready")?;
            obey(|words| own(member.segment(), words))
        }
        ["group", group] => {
            let group = node.connect_group(GroupId(group.parse()?))?;
            say("ready")?;
            obey(|words| write_to_all(&group, words))
        }
        ["own-interrupt", number] => {
            let options =
                InterruptOptions { number: Some(InterruptNo(number.parse()?)), ..Default::default() };
            let interrupt = node.create_interrupt(&options)?;
            say("ready")?;
            let mut sum = 0;
            obey(|words| series::count(&interrupt, &mut sum, TIMEOUT, words))
        }
        ["trigger", peer, number] => {
            let (peer, number) = (peer.parse().map_err(anyhow::Error::msg)?, InterruptNo(number.parse()?));
            let interrupt = Arc::new(node.connect_interrupt(peer, number, TIMEOUT)?);
            say("ready")?;
            let mut threads = Series::default();
            obey(|words| series::trigger(&interrupt, &mut threads, words))
        }
        ["own-data", number, depth] => {
            let options =
                InterruptOptions { number: Some(InterruptNo(number.parse()?)), ..Default::default() };
            let interrupt = node.create_data_interrupt(&options, MESSAGE_BYTES, depth.parse()?)?;
            say("ready")?;
            obey(|words| take(&interrupt, words))
        }
        ["own-series", number] => {
            let options =
                InterruptOptions { number: Some(InterruptNo(number.parse()?)), ..Default::default() };
            let taker = Taker::start(node.create_data_interrupt(&options, 16, 64)?);
            say("ready")?;
            obey(|_| taker.obey())
        }
        ["send-series", peer, number] => {
            let (peer, number) = (peer.parse().map_err(anyhow::Error::msg)?, InterruptNo(number.parse()?));
            let interrupt = Arc::new(node.connect_data_interrupt(peer, number, TIMEOUT)?);
            say("ready")?;
            let mut threads = Series::default();
            obey(|words| series::send(&interrupt, &mut threads, words))
        }
        ["trigger-data", peer, number] => {
            let (peer, number) = (peer.parse().map_err(anyhow::Error::msg)?, InterruptNo(number.parse()?));
            let interrupt = match node.connect_data_interrupt(peer, number, TIMEOUT) {
                Ok(interrupt) => interrupt,
                Err(error) => return say(&format!("error: {error}")),
            };
            say("ready")?;
            obey(|words| {
                let [seed, len] = words else { bail!("a seed and a length are needed") };
                Ok(interrupt.trigger(&pattern(seed, 0, len.parse()?)?).map(|()| "done".to_owned())?)
            })
        }
        ["queue", port] => {
            let port = tieline::PortNo(port.parse()?);
            let mut queue = messages::Queue::new(node.message_queue(port, &Settings::from_environment()?)?);
            say("ready")?;
            obey(|words| queue.obey(words))
        }
        ["hostile-queue", peer, port] => {
            let (peer, port) = (peer.parse().map_err(anyhow::Error::msg)?, tieline::PortNo(port.parse()?));
            let mut hostile = hostile::Hostile::meet(&node, peer, port)?;
            say("ready")?;
            obey(|words| hostile.obey(words))
        }
        [reach @ ("reach" | "reach-now"), peer, id] => {
            let (peer, id) = (peer.parse().map_err(anyhow::Error::msg)?, SegmentId(id.parse()?));
            let limit = if *reach == "reach" { TIMEOUT } else { Duration::ZERO };
            let mut remote = match node.connect_segment(peer, id, limit) {
                Ok(remote) => remote,
                Err(error) => return say(&format!("error: {error}")),
            };
            say("ready")?;
            obey(|words| {
                if words == ["again"] {
                    remote = node.connect_segment(peer, id, TIMEOUT)?;
                    return Ok("done".to_owned());
                }
                self::reach(&node, &remote, words)
            })
        }
        other => bail!("unknown role {other:?}"),
    }
}

fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

fn obey(mut order: impl FnMut(&[&str]) -> Result<String>) -> Result<()> {
    for line in std::io::stdin().lock().lines().map_while(std::result::Result::ok) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match order(&words) {
            Ok(said) => say(&said)?,
            Err(error) => say(&format!("error: {error}"))?,
        }
    }
    Ok(())
}

/// Bytes that differ from place to place and from seed to seed.
fn pattern(seed: &str, offset: usize, len: usize) -> Result<Vec<u8>> {
    let seed: u64 = seed.parse()?;
    let byte = |at: usize| {
        let mixed = (at as u64 ^ seed.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 56) as u8
    };
    Ok((offset..offset + len).map(byte).collect())
}

/// Says where the first byte differs.
fn compare(found: &[u8], wanted: &[u8]) -> String {
    match found.iter().zip(wanted).position(|(found, wanted)| found != wanted) {
        None => "same".to_owned(),
        Some(at) => format!("other at {at} of {}", wanted.len()),
    }
}

/// The next message is compared with what it should be.
fn take(interrupt: &DataInterrupt, words: &[&str]) -> Result<String> {
    let [seed, len] = words else { bail!("a seed and a length are needed") };
    let mut buffer = vec![0; MESSAGE_BYTES];
    let taken = interrupt.wait(&mut buffer, Some(TIMEOUT))?;
    let wanted = pattern(seed, 0, len.parse()?)?;
    if taken != wanted.len() {
        return Ok(format!("{taken} bytes"));
    }
    Ok(compare(buffer.get(..taken).unwrap_or_default(), &wanted))
}

fn own(segment: &Segment, words: &[&str]) -> Result<String> {
    match words {
        ["check", seed, offset, len] => {
            let (offset, mut found) = (offset.parse()?, vec![0; len.parse()?]);
            segment.window().get(offset, &mut found)?;
            Ok(compare(&found, &pattern(seed, offset, found.len())?))
        }
        ["fill", seed, offset, len] => {
            let offset = offset.parse()?;
            segment.window().put(offset, &pattern(seed, offset, len.parse()?)?)?;
            Ok("done".to_owned())
        }
        ["poll", offset, wanted] => {
            let (offset, wanted) = (offset.parse()?, wanted.parse()?);
            while segment.window().atomic_u32(offset)?.load(Ordering::Acquire) != wanted {
                std::thread::yield_now();
            }
            Ok("there".to_owned())
        }
        ["withdraw"] => segment.withdraw(true).map(|()| "done".to_owned()).map_err(Into::into),
        ["available"] => segment.make_available().map(|()| "done".to_owned()).map_err(Into::into),
        ["event"] => Ok(format!("{:?}", segment.wait_event(TIMEOUT)?)),
        other => bail!("unknown order {other:?}"),
    }
}

fn reach(node: &Node, remote: &RemoteSegment, words: &[&str]) -> Result<String> {
    match words {
        ["what"] => {
            let capabilities = remote.capabilities().names().join(" ");
            Ok(format!("{} {} bytes {capabilities}", remote.link(), remote.size_bytes()))
        }
        ["put", seed, offset, len] => {
            let offset = offset.parse()?;
            remote.put(offset, &pattern(seed, offset, len.parse()?)?)?;
            remote.barrier()?;
            Ok("done".to_owned())
        }
        ["put-watched", seed, offset, len] => put_watched(remote, seed, offset.parse()?, len.parse()?),
        ["put-and-store", seed, len, at, value] => {
            remote.put(0, &pattern(seed, 0, len.parse()?)?)?;
            remote.store_u32(at.parse()?, value.parse()?)?;
            Ok("done".to_owned())
        }
        ["get", seed, offset, len] => {
            let (offset, mut found) = (offset.parse()?, vec![0; len.parse()?]);
            remote.get(offset, &mut found)?;
            Ok(compare(&found, &pattern(seed, offset, found.len())?))
        }
        ["add", offset, number] => {
            Ok(remote.fetch_add_u64(offset.parse()?, number.parse()?).map(|was| format!("was {was}"))?)
        }
        // From one to that many, each found to be one more than the one before.
        ["count", offset, times] => {
            let (offset, times) = (offset.parse()?, times.parse::<u64>()?);
            for expected in 0..times {
                let was = remote.fetch_add_u64(offset, 1)?;
                if was != expected {
                    return Ok(format!("{was} instead of {expected}"));
                }
            }
            Ok("counted".to_owned())
        }
        ["words", offset, times] => {
            let (mut number, mut doubts) = (1, 0);
            match put_words(remote, offset.parse()?, times.parse()?, (&mut number, &mut doubts)) {
                Ok(()) => Ok(format!("put, in doubt {doubts} times")),
                Err(error) => {
                    bail!("{error} [word {number}, in doubt {doubts} times, rails: {}]", rails(remote))
                }
            }
        }
        ["dma", seed, len] => dma(node, remote, seed, len.parse()?),
        ["rails"] => Ok(rails(remote)),
        ["map"] => remote.map().map(|_| "mapped".to_owned()).map_err(Into::into),
        ["sequence"] => Ok(format!("{:?}", remote.sequence()?.check()?)),
        ["event"] => Ok(format!("{:?}", remote.wait_event(TIMEOUT)?)),
        other => bail!("unknown order {other:?}"),
    }
}

/// Puts a block, and says which rails were not used at any time meanwhile.
fn put_watched(remote: &RemoteSegment, seed: &str, offset: usize, len: usize) -> Result<String> {
    let block = pattern(seed, offset, len)?;
    let is_over = AtomicBool::new(false);
    let (put, seen) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut seen = BTreeSet::new();
            while !is_over.load(Ordering::SeqCst) {
                seen.extend(Some(rails(remote)).filter(|rails| rails != "all"));
                std::thread::sleep(Duration::from_millis(2));
            }
            seen
        });
        let put = remote.put(offset, &block).and_then(|()| remote.barrier());
        is_over.store(true, Ordering::SeqCst);
        (put, watch.join())
    });
    put?;
    let Ok(seen) = seen else { bail!("the thread that watched has panicked") };
    let seen: Vec<_> = seen.into_iter().collect();
    Ok(if seen.is_empty() { "done".to_owned() } else { format!("done, meanwhile {}", seen.join("; ")) })
}

/// Puts the numbers from `number` to `last` at one place, a word each, and waits for each eighth. Where some
/// are in doubt, the link is resumed, and what was put since the last wait is put once more.
fn put_words(
    remote: &RemoteSegment,
    offset: usize,
    last: u32,
    (number, doubts): (&mut u32, &mut u32),
) -> tieline::Result<()> {
    while *number <= last {
        let put = remote.put(offset, &number.to_ne_bytes());
        let done = if *number % 8 == 0 { put.and_then(|()| remote.barrier()) } else { put };
        match done {
            Ok(()) => *number += 1,
            Err(tieline::Error::Link(LinkError::InDoubt { .. })) => {
                *doubts += 1;
                remote.resume(Duration::from_secs(20))?;
                *number = number.saturating_sub(8).max(1);
            }
            Err(error) => return Err(error),
        }
    }
    remote.barrier()
}

/// The rails that are not used, and why.
fn rails(remote: &RemoteSegment) -> String {
    let reduced = remote.reduced_rails();
    let reduced: Vec<_> = reduced.iter().map(|rail| format!("rail {}: {}", rail.number, rail.why)).collect();
    if reduced.is_empty() { "all".to_owned() } else { reduced.join(", ") }
}

/// To all copies of a group: how many were reached.
fn write_to_all(group: &Group, words: &[&str]) -> Result<String> {
    let delivered = match words {
        ["members", count] => {
            let found = group.wait_members(count.parse()?, TIMEOUT)?;
            return Ok(found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "));
        }
        ["put", seed, offset, len] => {
            let offset = offset.parse()?;
            group.put(offset, &pattern(seed, offset, len.parse()?)?)?
        }
        ["store", offset, value] => group.store_u32(offset.parse()?, value.parse()?)?,
        ["barrier"] => group.barrier()?,
        other => bail!("unknown order {other:?}"),
    };
    Ok(format!("{} reached, {} lost", delivered.members, delivered.lost))
}

/// Pushes a local segment and pulls it back.
fn dma(node: &Node, remote: &RemoteSegment, seed: &str, len: usize) -> Result<String> {
    let local = node.create_segment(SegmentId(900), len)?;
    let wanted = pattern(seed, 0, len)?;
    local.window().put(0, &wanted)?;
    for direction in [Direction::Push, Direction::Pull] {
        let queue = node.dma_queue(1)?;
        queue.gather(
            &local,
            remote,
            direction,
            &[DmaEntry { size_bytes: len, local_offset: 0, remote_offset: 0 }],
        )?;
        queue.post()?;
        let ended = queue.wait(Some(TIMEOUT))?;
        if ended != DmaState::Done {
            bail!("the queue ended as {ended:?}");
        }
        if direction == Direction::Push {
            local.window().put(0, &vec![0; len])?;
        }
    }
    let mut found = vec![0; len];
    local.window().get(0, &mut found)?;
    Ok(compare(&found, &wanted))
}
