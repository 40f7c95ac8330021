//! A program that speaks the protocol of message queues between hosts by hand, and breaks it in one way of
//! its choice (crates/tieline/src/messages/far/forms.rs and ring.rs, crates/message-queue/src/wire.rs).
//!
//! It meets a queue as another queue would: memory with a header, a request in the queue's port, the answer
//! in its own memory, and the ring in the memory that the answer names. Then it writes whatever it is told.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use shm::sync::Ordering;
use tieline::messages::Name;
use tieline::{Node, NodeId, PortNo, RemoteSegment, Segment, SegmentId, SegmentOptions};

use super::TIMEOUT;

const MAGIC: u64 = u64::from_ne_bytes(*b"tl-far\0\x01");
const WELCOME_AT: usize = 128;
const TAIL_AT: usize = 256;
const RING_AT: usize = 512;
const RING_BYTES: usize = 64 << 10;
/// Of a port.
const COUNT_AT: usize = 64;
const PLACE_AT: usize = 128;
const HELLO_KEY: u64 = 0x0068_656c_6c6f;
const HEADER_WORDS: usize = 11;
/// Of its own memory: any number.
const OWN_KEY: u64 = 0x1234_5678_9abc_def1;
const GRAIN: u64 = 16;

// Kinds and flags of records.
const EAGER: u64 = 1;
const OFFER: u64 = 2;
const DONE: u64 = 3;
const ASK: u64 = 4;
const PART: u64 = 5;
const MORE: u64 = 7;
const STOPPED: u64 = 8;
const HAS_MORE: u64 = 32 << 8;
const SHORT_TAG: u64 = 128 << 8;

const fn mixed(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

fn check(words: &[u64], key: u64) -> u64 {
    words.iter().fold(mixed(key.wrapping_add(MAGIC)), |sum, word| mixed(sum ^ word).wrapping_add(1))
}

fn form(words: &[u64], key: u64) -> Vec<u8> {
    bytes_of(&[words, &[check(words, key)]].concat())
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn words_of(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_ne_bytes)).collect()
}

/// The program, once it has met the queue.
pub(super) struct Hostile {
    /// The queue's memory for it.
    remote: RemoteSegment,
    ring_bytes: u64,
    key: u64,
    /// Where its next record goes.
    tail: u64,
    /// Its own memory, which the queue is connected to.
    _own: Segment,
}

impl Hostile {
    /// Meets the queue at a port, which has to make calls meanwhile.
    pub(super) fn meet(node: &Node, peer: NodeId, port: PortNo) -> Result<Self> {
        let Some(name) = Name::new() else { bail!("no random numbers") };
        let own_name = words_of(&name.bytes());
        let contact = node.connect_port(peer, port, TIMEOUT)?;
        let mut there = [0; 32];
        contact.get(0, &mut there)?;
        let its_name = words_of(&there);

        let own = node.create_segment_with(&SegmentOptions::new(RING_AT + RING_BYTES))?;
        let numbers = [RING_BYTES as u64, OWN_KEY];
        let header = [&[MAGIC][..], &own_name, &its_name, &numbers].concat();
        own.window().put(0, &form(&header, 0))?;
        own.make_available()?;
        let Some(id) = own.id() else { bail!("a segment without a number") };

        let numbers = [u64::from(node.id().get()), u64::from(id.0), OWN_KEY];
        let hello = [&own_name[..], &its_name, &numbers].concat();
        if contact.compare_swap_u64(PLACE_AT, 0, 1)? != 0 {
            bail!("the first place of the port is taken");
        }
        contact.put(PLACE_AT + 8, &form(&hello, HELLO_KEY))?;
        contact.fetch_add_u32(COUNT_AT, 1)?;

        let segment = answer(&own)?;
        let remote = node.connect_segment(peer, segment, TIMEOUT)?;
        let mut bytes = [0; (HEADER_WORDS + 1) * 8];
        remote.get(0, &mut bytes)?;
        let words = words_of(&bytes);
        let [ring_bytes, key] = words[HEADER_WORDS - 2..HEADER_WORDS] else { bail!("a short header") };
        if words[0] != MAGIC || words[HEADER_WORDS] != check(&words[..HEADER_WORDS], 0) {
            bail!("the queue's memory has no header");
        }
        Ok(Self { remote, ring_bytes, key, tail: 0, _own: own })
    }

    pub(super) fn obey(&mut self, words: &[&str]) -> Result<String> {
        match words {
            // A message as a queue sends it.
            ["message", tag, len] => {
                let mut record = bytes_of(&[EAGER | SHORT_TAG | tag.parse::<u64>()? << 32]);
                record.resize(8 + len.parse::<usize>()?, 7);
                self.record(&record)?;
            }
            ["attack", how @ ..] => self.attack(&how.join(" "))?,
            other => bail!("unknown order {other:?}"),
        }
        Ok("done".to_owned())
    }

    /// Bytes at a place of the ring, with the two words before them.
    fn compose(&self, place: u64, said_place: u64, said_len: u64, bytes: &[u8]) -> Result<()> {
        let mut all = bytes_of(&[said_place ^ self.key, said_len]);
        all.extend(bytes);
        let at = RING_AT + (place % self.ring_bytes) as usize;
        Ok(self.remote.put(at, &all)?)
    }

    /// Says where its records end.
    fn ends_at(&mut self, tail: u64) -> Result<()> {
        self.tail = tail;
        self.remote.put(TAIL_AT, &form(&[tail], self.key))?;
        Ok(self.remote.barrier()?)
    }

    /// A record that is in order, whatever it says.
    fn record(&mut self, bytes: &[u8]) -> Result<()> {
        let len = bytes.len() as u64;
        self.compose(self.tail, self.tail, len, bytes)?;
        self.ends_at(self.tail + GRAIN + len.next_multiple_of(GRAIN))
    }

    fn attack(&mut self, how: &str) -> Result<()> {
        let tail = self.tail;
        let head = |kind: u64, id: u64| kind | id << 32;
        let words: &[u64] = match how {
            // The ring itself: lengths, places, ends.
            "a length beyond the ring" => {
                self.compose(tail, tail, 1 << 40, &[])?;
                return self.ends_at(tail + 64);
            }
            "a length beyond its end" => {
                self.compose(tail, tail, 4096, &[])?;
                return self.ends_at(tail + 64);
            }
            "an earlier record once more" => {
                self.compose(tail, 0, 16, &bytes_of(&[EAGER | SHORT_TAG, 0]))?;
                return self.ends_at(tail + 32);
            }
            "a later record first" => {
                self.compose(tail, tail + 32, 16, &bytes_of(&[EAGER | SHORT_TAG, 0]))?;
                return self.ends_at(tail + 32);
            }
            "an end beyond the ring" => return self.ends_at(tail + 4 * self.ring_bytes),
            "an end before the last" => return self.ends_at(tail - 16),
            "an end between two grains" => return self.ends_at(tail + 24),
            // Records that no queue writes.
            "an unknown kind" => &[head(99, 0)],
            "bits without a meaning" => &[EAGER | SHORT_TAG | 1 << 20],
            "the end of no send" => &[head(DONE, 77)],
            "a question for no message" => &[head(ASK, 77), 1, 8],
            "a part of no message" => &[head(PART, 3), 0, 0],
            "more of no message" => &[MORE, 0, 0],
            "the end of no parts" => &[head(STOPPED, 2)],
            "a tag in place of an operation" => &[OFFER | SHORT_TAG, 7, 100, 4096],
            "a first part that is longer than all" => &[EAGER | HAS_MORE, 7, 8, 1, 2, 3],
            other => bail!("unknown attack {other}"),
        };
        self.record(&bytes_of(words))
    }
}

/// The number of the memory that the queue has made.
fn answer(own: &Segment) -> Result<SegmentId> {
    let (window, until) = (own.window(), Instant::now() + TIMEOUT);
    while Instant::now() < until {
        let word = |at: usize| window.atomic_u64(at).map(|word| word.load(Ordering::Acquire));
        let (segment, sum) = (word(WELCOME_AT)?, word(WELCOME_AT + 8)?);
        if sum == check(&[segment], OWN_KEY) {
            return Ok(SegmentId(u32::try_from(segment)?));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    bail!("the queue does not answer")
}
