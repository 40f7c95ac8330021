//! Messages by plain stores into the other side's memory: one cache line if they are small.
//!
//! A message is sent *with* its sequence number: up to 4 bytes in the same 8-byte word, up to 56
//! bytes in the same cache line, so that the transfer of one line is the whole cost. Longer
//! messages are stored next to the line, in chunks that are announced one by one, so that the
//! receiver copies the first while the sender still writes the next.
//!
//! The caller chooses where the line is ([`Placement`]): in a segment of the receiver for each
//! direction (two lines; the classic arrangement, which also works without remote loads), or in one
//! segment for both directions (one line; needs a link with coherent loads).

use serde::Serialize;
use shm::{
    sync::{AtomicU64, Ordering},
    window::Window,
};

use crate::{
    error::{BenchError, Result},
    poll::Poll,
};

/// Largest message.
pub const MESSAGE_BYTES_MAX: usize = 8192;
/// Largest message in the sequence word itself.
pub(super) const WORD_BYTES_MAX: usize = 4;
/// Largest message in the line of the sequence word.
const LINE_BYTES_MAX: usize = 56;
/// Lines of announcements lie this far apart: adjacent lines are fetched in pairs.
const LINE_STRIDE: usize = 128;
/// Announcements of one message at most.
const CHUNKS_MAX: usize = MESSAGE_BYTES_MAX / CHUNK_BYTES_MIN;
const CHUNK_BYTES_MIN: usize = 2048;
/// Places for the line; successive blocks use successive places, because a line's price depends on
/// its address.
pub const PLACES: usize = 16;
/// After the lines of all places.
const BULK_OFFSET: usize = PLACES * CHUNKS_MAX * LINE_STRIDE;
/// Bytes of a segment for this pattern.
pub const SEGMENT_BYTES: usize = BULK_OFFSET + MESSAGE_BYTES_MAX;

const WHAT: &str = "scipp";

/// The place of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Request and reply in one segment, that of the far side.
    Shared,
    /// Each direction in the receiver's own segment.
    Own,
}

impl Placement {
    /// Chunks of long messages. Measured: with one buffer for both directions shorter chunks
    /// overlap better; with two the lines must be fetched from the other side's old copies, and
    /// more announcements cost more than they gain.
    const fn chunk_bytes(self) -> usize {
        match self {
            Self::Shared => CHUNK_BYTES_MIN,
            Self::Own => 2 * CHUNK_BYTES_MIN,
        }
    }
}

/// One side's view of the two directions.
#[derive(Debug, Clone, Copy)]
pub struct End<'a> {
    /// The memory that this side writes.
    pub out: Window<'a>,
    /// The memory that it reads.
    pub input: Window<'a>,
    /// Whether those are the same memory.
    pub placement: Placement,
}

/// An end, at one place, for one message size; everything that needs a check has been checked.
#[derive(Debug, Clone, Copy)]
pub struct Port<'a> {
    out: Window<'a>,
    input: Window<'a>,
    /// Announcements of the chunks, first chunk first.
    out_words: [&'a AtomicU64; CHUNKS_MAX],
    input_words: [&'a AtomicU64; CHUNKS_MAX],
    size_bytes: usize,
    line_offset: usize,
    chunk_bytes: usize,
}

/// Offset of the line of a place.
pub(super) const fn line_offset(place: usize) -> usize {
    (place % PLACES) * CHUNKS_MAX * LINE_STRIDE
}

impl<'a> End<'a> {
    /// The words of a place, for a baseline on the same line: (written by this side, read by it).
    pub fn words(&self, place: usize) -> Result<(&'a AtomicU64, &'a AtomicU64)> {
        let at = line_offset(place);
        Ok((self.out.atomic_u64(at)?, self.input.atomic_u64(at)?))
    }

    /// The memory in which long messages arrive at this end, for a baseline on the same buffer.
    pub fn bulk_input(&self, size_bytes: usize) -> Result<Window<'a>> {
        Ok(self.input.sub(BULK_OFFSET, size_bytes)?)
    }

    /// The memory to which long messages of this end are written.
    pub fn bulk_output(&self, size_bytes: usize) -> Result<Window<'a>> {
        Ok(self.out.sub(BULK_OFFSET, size_bytes)?)
    }

    /// Prepares messages of one size at one place.
    pub fn port(&self, place: usize, size_bytes: usize) -> Result<Port<'a>> {
        if size_bytes > MESSAGE_BYTES_MAX {
            let text = format!("a message of {size_bytes} bytes: {WHAT} sends at most {MESSAGE_BYTES_MAX}");
            return Err(BenchError::Usage(text));
        }
        let at = line_offset(place);
        // The hot path does not check offsets, so the whole layout must fit now.
        self.out.sub(0, SEGMENT_BYTES)?;
        self.input.sub(0, SEGMENT_BYTES)?;
        let words = |window: &Window<'a>| -> Result<[&'a AtomicU64; CHUNKS_MAX]> {
            let mut words = [window.atomic_u64(at)?; CHUNKS_MAX];
            for (chunk, word) in words.iter_mut().enumerate() {
                *word = window.atomic_u64(at + chunk * LINE_STRIDE)?;
            }
            Ok(words)
        };
        Ok(Port {
            out: self.out,
            input: self.input,
            out_words: words(&self.out)?,
            input_words: words(&self.input)?,
            size_bytes,
            line_offset: at,
            chunk_bytes: self.placement.chunk_bytes(),
        })
    }
}

/// Messages of one size to the other side and from it, however they travel.
pub trait Messages {
    /// Sends `message` (of the port's size) under a number that differs from the last one seen at
    /// this place.
    fn send(&self, number: u32, message: &[u8]) -> Result<()>;

    /// Waits for the message of this number and copies it out; returns the number of polls that
    /// found nothing.
    fn receive(&self, number: u32, into: &mut [u8], poll: Poll) -> Result<u64>;
}

impl Messages for Port<'_> {
    #[inline(always)]
    fn send(&self, number: u32, message: &[u8]) -> Result<()> {
        let stamp = u64::from(number) << 32;
        if self.size_bytes <= WORD_BYTES_MAX {
            // Release: pairs with the Acquire in `receive`.
            self.out_words[0].store(stamp | u64::from(in_word(message)), Ordering::Release);
        } else if self.size_bytes <= LINE_BYTES_MAX {
            self.out.put(self.line_offset + 8, message)?;
            // Release: pairs with the Acquire in `receive`, publishes the payload before it.
            self.out_words[0].store(stamp, Ordering::Release);
        } else {
            for ((at, chunk), word) in (BULK_OFFSET..)
                .step_by(self.chunk_bytes)
                .zip(message.chunks(self.chunk_bytes))
                .zip(self.out_words)
            {
                self.out.put(at, chunk)?;
                // Release: pairs with the Acquire of the receiver as above, chunk by chunk.
                word.store(stamp, Ordering::Release);
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn receive(&self, number: u32, into: &mut [u8], poll: Poll) -> Result<u64> {
        if self.size_bytes <= LINE_BYTES_MAX {
            let (polls, word) = arrival(self.input_words[0], number, poll)?;
            if self.size_bytes <= WORD_BYTES_MAX {
                out_of_word(word as u32, into);
            } else {
                self.input.get(self.line_offset + 8, into)?;
            }
            return Ok(polls);
        }
        let mut polls = 0;
        for ((at, chunk), word) in (BULK_OFFSET..)
            .step_by(self.chunk_bytes)
            .zip(into.chunks_mut(self.chunk_bytes))
            .zip(self.input_words)
        {
            polls += arrival(word, number, poll)?.0;
            self.input.get(at, chunk)?;
        }
        Ok(polls)
    }
}

/// Up to 4 bytes as the low half of the word. The whole 4 without a loop: that is the case that is
/// measured.
#[inline(always)]
pub(super) fn in_word(message: &[u8]) -> u32 {
    match message {
        [a, b, c, d] => u32::from_le_bytes([*a, *b, *c, *d]),
        short => short.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte)),
    }
}

#[inline(always)]
pub(super) fn out_of_word(word: u32, into: &mut [u8]) {
    match into {
        [a, b, c, d] => [*a, *b, *c, *d] = word.to_le_bytes(),
        short => short.iter_mut().zip(word.to_le_bytes()).for_each(|(byte, value)| *byte = value),
    }
}

/// Spins until the word carries this number. Acquire: pairs with the Release of the sender.
#[inline(always)]
pub(super) fn arrival(word: &AtomicU64, number: u32, poll: Poll) -> Result<(u64, u64)> {
    let mut seen = 0;
    let polls = poll.until(WHAT, || {
        seen = word.load(Ordering::Acquire);
        (seen >> 32) as u32 == number
    })?;
    Ok((polls, seen))
}

/// Byte `at` of message `number`: differs between neighbours in place, in time, and between sizes.
const fn expected(number: u32, size_bytes: usize, at: usize) -> u8 {
    (number.wrapping_mul(151) as usize)
        .wrapping_add(at.wrapping_mul(31))
        .wrapping_add(size_bytes)
        .wrapping_add(at >> 8) as u8
}

/// Fills a message for a checked pass.
pub fn fill(message: &mut [u8], number: u32) {
    let size = message.len();
    message.iter_mut().enumerate().for_each(|(at, byte)| *byte = expected(number, size, at));
}

/// Checks a message of a checked pass.
pub fn check(message: &[u8], number: u32) -> Result<()> {
    let wrong = message.iter().enumerate().find(|(at, byte)| **byte != expected(number, message.len(), *at));
    match wrong {
        None => Ok(()),
        Some((at, got)) => Err(BenchError::WrongData {
            what: WHAT,
            message: u64::from(number),
            size_bytes: message.len(),
            at,
            want: expected(number, message.len(), at),
            got: *got,
        }),
    }
}

#[cfg(test)]
mod tests {
    use shm::region::{Region, RegionOptions};

    use super::*;

    fn regions() -> [Region; 2] {
        ["one", "two"].map(|name| Region::create(&RegionOptions::new(name, SEGMENT_BYTES)).unwrap())
    }

    #[test]
    fn every_size_arrives_both_ways_at_every_place() {
        let regions = regions();
        let [a, b] = [regions[0].window(), regions[1].window()];
        let placements = [
            (
                End { out: a, input: b, placement: Placement::Own },
                End { out: b, input: a, placement: Placement::Own },
            ),
            (
                End { out: a, input: a, placement: Placement::Shared },
                End { out: a, input: a, placement: Placement::Shared },
            ),
        ];
        let mut number = 0;
        for (near, far) in placements {
            for size in [0, 1, 4, 5, 8, 55, 56, 57, 64, 128, 2047, 2048, 2049, 4096, 5000, 8192] {
                for place in [0, 7, PLACES - 1] {
                    let (near, far) = (near.port(place, size).unwrap(), far.port(place, size).unwrap());
                    for (from, to) in [(&near, &far), (&far, &near)] {
                        number += 1;
                        let (mut message, mut got) = (vec![0; size], vec![0xee; size]);
                        fill(&mut message, number);
                        from.send(number, &message).unwrap();
                        assert_eq!(to.receive(number, &mut got, Poll::Tight).unwrap(), 0);
                        check(&got, number).unwrap();
                    }
                }
            }
        }
    }

    #[test]
    fn wrong_bytes_are_found() {
        let mut message = vec![0; 300];
        fill(&mut message, 9);
        check(&message, 9).unwrap();
        assert!(check(&message, 10).is_err());
        message[257] ^= 1;
        assert!(matches!(
            check(&message, 9),
            Err(BenchError::WrongData { at: 257, message: 9, size_bytes: 300, .. })
        ));
        // A message that is shifted by one byte, or belongs to another size, is wrong, too.
        fill(&mut message, 9);
        assert!(check(&message[1..], 9).is_err() && check(&message[..299], 9).is_err());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let regions = regions();
        let end = End { out: regions[0].window(), input: regions[1].window(), placement: Placement::Own };
        assert!(matches!(end.port(0, MESSAGE_BYTES_MAX + 1), Err(BenchError::Usage(_))));
        let short = End { input: regions[1].window().sub(0, 4096).unwrap(), ..end };
        assert!(matches!(short.port(0, 4), Err(BenchError::Memory(_))));
    }
}
