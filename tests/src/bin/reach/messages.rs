//! A message queue of a host, which exchanges patterns with others.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tieline::MessageQueue;
use tieline::messages::{Envelope, PeerId, Request, Status, Want};

use super::{TIMEOUT, compare, pattern};

/// The queue, and the peers in the order in which they were asked for.
pub(super) struct Queue {
    queue: Option<MessageQueue>,
    peers: Vec<PeerId>,
}

/// A wait of a test ends with it.
const LIMIT: Option<Duration> = Some(TIMEOUT);

/// The tag of the nth message.
fn tag(seed: &str, nth: usize) -> Result<u64> {
    Ok(seed.parse::<u64>()? << 32 | nth as u64)
}

fn message(seed: &str, nth: usize, len: usize) -> Result<Vec<u8>> {
    pattern(&(seed.parse::<u64>()? * 1000 + nth as u64).to_string(), 0, len)
}

fn lengths(words: &[&str]) -> Result<Vec<usize>> {
    words.iter().map(|len| len.parse().map_err(Into::into)).collect()
}

/// Compares what has come with the nth message of a seed.
fn check(status: Status, seed: &str, nth: usize, len: usize) -> Result<String> {
    if let Some(error) = status.error {
        return Ok(format!("message {nth}: {error}"));
    }
    let Some(Envelope { len_bytes, tag: came, .. }) = status.envelope else { bail!("no envelope") };
    if (len_bytes, came) != (len, tag(seed, nth)?) {
        return Ok(format!("message {nth}: {len_bytes} bytes with tag {came:#x}"));
    }
    let found = status.buffers.into_owned().unwrap_or_default();
    let compared = compare(found.get(..len).unwrap_or_default(), &message(seed, nth, len)?);
    Ok(if compared == "same" { compared } else { format!("message {nth}: {compared}") })
}

impl Queue {
    pub(super) fn new(queue: MessageQueue) -> Self {
        Self { queue: Some(queue), peers: Vec::new() }
    }

    pub(super) fn obey(&mut self, words: &[&str]) -> Result<String> {
        if words == ["close"] {
            return Ok(format!("closed {}", self.queue.take().is_some_and(|queue| queue.close(TIMEOUT))));
        }
        let Some(queue) = &mut self.queue else { bail!("it is closed") };
        let of = |nth: &str| -> Result<PeerId> {
            match self.peers.get(nth.parse::<usize>()?) {
                Some(peer) => Ok(*peer),
                None => bail!("no peer {nth}"),
            }
        };
        match words {
            ["peer", node, port] => {
                let (node, port) = (node.parse().map_err(anyhow::Error::msg)?, port.parse()?);
                let peer = queue.peer_at(node, tieline::PortNo(port), TIMEOUT)?;
                let is_new = !self.peers.contains(&peer);
                self.peers.push(peer);
                Ok(if is_new { "new" } else { "known" }.to_owned())
            }
            ["send", peer, seed, rest @ ..] => {
                let sends = send_all(queue, of(peer)?, seed, &lengths(rest)?)?;
                let ended = queue.wait_all(&sends, LIMIT)?;
                Ok(ended.iter().find_map(|status| status.error).map_or("done".to_owned(), |e| e.to_string()))
            }
            // Sends that may stay open.
            ["begin", peer, seed, rest @ ..] => {
                send_all(queue, of(peer)?, seed, &lengths(rest)?)?;
                Ok("begun".to_owned())
            }
            // In the order of their tags, or of any source and the last one first.
            ["receive", peer, seed, rest @ ..] => {
                let lengths = lengths(rest)?;
                for (nth, len) in lengths.iter().enumerate() {
                    let receive = queue.receive(Want::exactly(of(peer)?, tag(seed, nth)?), vec![0; *len]);
                    let said = check(queue.wait(receive, LIMIT)?, seed, nth, *len)?;
                    if said != "same" {
                        return Ok(said);
                    }
                }
                Ok("same".to_owned())
            }
            ["receive-any", seed, rest @ ..] => {
                for (nth, len) in lengths(rest)?.iter().enumerate().rev() {
                    let want = Want { source: None, tag: tag(seed, nth)?, ignore: 0 };
                    let receive = queue.receive(want, vec![0; *len]);
                    let said = check(queue.wait(receive, LIMIT)?, seed, nth, *len)?;
                    if said != "same" {
                        return Ok(said);
                    }
                }
                Ok("same".to_owned())
            }
            // The next one of any source with any tag: its peer and its length.
            ["next"] => {
                let receive =
                    queue.receive(Want { source: None, tag: 0, ignore: u64::MAX }, vec![0; 1 << 20]);
                let status = queue.wait(receive, LIMIT)?;
                let Some(envelope) = status.envelope else { bail!("{:?}", status.error) };
                let peer = self.peers.iter().position(|peer| *peer == envelope.source);
                Ok(format!("peer {} {} bytes", peer.map_or(-1, |peer| peer as i64), envelope.len_bytes))
            }
            // The same; its peer is known from then on, by the number that is returned.
            ["adopt"] => {
                let receive =
                    queue.receive(Want { source: None, tag: 0, ignore: u64::MAX }, vec![0; 1 << 20]);
                let status = queue.wait(receive, LIMIT)?;
                let Some(envelope) = status.envelope else { bail!("{:?}", status.error) };
                self.peers.push(envelope.source);
                let (number, tag, len) = (self.peers.len() - 1, envelope.tag, envelope.len_bytes);
                Ok(format!("peer {number} tag {tag} {len} bytes"))
            }
            ["exchange", peer, own_seed, its_seed, times, rest @ ..] => {
                exchange(queue, of(peer)?, (own_seed, its_seed), times.parse()?, &lengths(rest)?)
            }
            ["kept"] => {
                let counters = queue.counters();
                Ok(format!("{} messages", counters.kept_messages))
            }
            ["ways"] => {
                let counters = queue.counters();
                Ok(format!("read {} in parts {}", counters.read, counters.in_parts))
            }
            ["progress", ms] => {
                queue.serve_for(Duration::from_millis(ms.parse()?));
                Ok("done".to_owned())
            }
            // A receive that nobody sends to ends with the peer.
            ["until-gone", peer] => {
                let receive = queue.receive(Want::exactly(of(peer)?, u64::MAX), vec![0; 8]);
                let status = queue.wait(receive, LIMIT)?;
                Ok(format!("{:?}", status.error))
            }
            ["send-until-gone", peer, len] => send_until_gone(queue, of(peer)?, len.parse()?),
            other => bail!("unknown order {other:?}"),
        }
    }
}

fn send_all(queue: &mut MessageQueue, to: PeerId, seed: &str, lengths: &[usize]) -> Result<Vec<Request>> {
    let send =
        |(nth, len): (usize, &usize)| Ok(queue.send(to, tag(seed, nth)?, message(seed, nth, *len)?)?);
    lengths.iter().enumerate().map(send).collect()
}

/// Sends and receives all lengths at once, so many times.
fn exchange(
    queue: &mut MessageQueue,
    peer: PeerId,
    (own_seed, its_seed): (&str, &str),
    times: usize,
    lengths: &[usize],
) -> Result<String> {
    for _ in 0..times {
        let want = |nth| Ok::<_, anyhow::Error>(Want::exactly(peer, tag(its_seed, nth)?));
        let mut receives = Vec::new();
        for (nth, len) in lengths.iter().enumerate() {
            receives.push(queue.receive(want(nth)?, vec![0; *len]));
        }
        let sends = send_all(queue, peer, own_seed, lengths)?;
        let came = queue.wait_all(&receives, LIMIT)?;
        for (nth, status) in came.into_iter().enumerate() {
            let said = check(status, its_seed, nth, lengths[nth])?;
            if said != "same" {
                return Ok(said);
            }
        }
        if let Some(error) = queue.wait_all(&sends, LIMIT)?.iter().find_map(|status| status.error) {
            return Ok(error.to_string());
        }
    }
    Ok("same".to_owned())
}

fn send_until_gone(queue: &mut MessageQueue, peer: PeerId, len: usize) -> Result<String> {
    let until = Instant::now() + TIMEOUT;
    while Instant::now() < until {
        let status = match queue.send(peer, 1, vec![7; len]) {
            Ok(send) => queue.wait(send, LIMIT)?,
            Err(error) => return Ok(format!("{error:?}")),
        };
        if let Some(error) = status.error {
            return Ok(format!("{error:?}"));
        }
    }
    bail!("the peer was there all the time")
}
