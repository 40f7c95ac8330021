//! Rates of the rings that have no goal of their own: the byte stream and the ring of many
//! producers.
//!
//! They are printed with the machine's limits, for information. The consumer measures the time, and
//! checks what it takes: both ends of each read of the stream, and every record.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use shm::{
    clock::now_ticks,
    ring::{
        PopError,
        byte::{self, Reader, Writer},
        many::{self, ClaimError, Consumer, Popped, Producer},
    },
};

use crate::{
    error::{BenchError, Result},
    pinned_pair::PinnedPair,
    poll::Poll,
    stats::order,
    timer::Timer,
};

const WHAT: &str = "ring rates";
/// Bytes of a write to the stream.
const WRITE_BYTES: usize = 4096;
/// Room of the stream.
const STREAM_BYTES: usize = 64 << 10;
/// Writes of one reading: a few milliseconds.
const WRITES: u64 = 4 << 10;
/// Slots of the ring of many producers, and bytes of one.
const SLOTS: usize = 1024;
const SLOT_BYTES: usize = 48;
/// Records of one reading, of each producer.
const RECORDS: u64 = 32 << 10;

/// The rate of a ring.
#[derive(Debug, Clone, Serialize)]
pub struct RingRate {
    /// Name.
    pub id: &'static str,
    /// A description.
    pub what: &'static str,
    /// Bytes handed over at once.
    pub size_bytes: usize,
    /// Millions of these a second, the median of the readings.
    pub millions_per_s: f64,
    /// The same in GB/s.
    pub gb_per_s: f64,
    /// Readings.
    pub readings: u32,
}

/// Measures all of them between the two threads.
pub fn measure(timer: &Timer, pair: &mut PinnedPair<'_>, readings: u32) -> Result<Vec<RingRate>> {
    let mut stream = || stream_rate(timer, pair, WRITES);
    let mut rates =
        vec![rate("ring.byte.4KiB", "byte stream, writes of 4 KiB", WRITE_BYTES, readings, &mut stream)?];
    let mut one = || records_rate(timer, pair, 1, RECORDS);
    rates.push(rate("ring.many.8B.1producer", "many-producer ring, one producer", 8, readings, &mut one)?);
    // Two processors suffice.
    let what = "many-producer ring, two producers, one of them the consumer's thread";
    let mut two = || records_rate(timer, pair, 2, RECORDS);
    rates.push(rate("ring.many.8B.2producers", what, 8, readings, &mut two)?);
    Ok(rates)
}

fn rate(
    id: &'static str,
    what: &'static str,
    size_bytes: usize,
    readings: u32,
    reading: &mut dyn FnMut() -> Result<f64>,
) -> Result<RingRate> {
    let per_us = (0..readings).map(|_| reading()).collect::<Result<Vec<_>>>()?;
    let millions_per_s = order::median(&per_us).unwrap_or(f64::NAN);
    let gb_per_s = millions_per_s * size_bytes as f64 / 1000.0;
    Ok(RingRate { id, what, size_bytes, millions_per_s, gb_per_s, readings })
}

/// Byte `at` of the stream.
const fn byte_at(at: u64) -> u8 {
    (at % 251) as u8
}

/// Writes of 4 KiB through the stream: millions a second.
fn stream_rate(timer: &Timer, pair: &mut PinnedPair<'_>, writes: u64) -> Result<f64> {
    let (writer, mut reader) = byte::pair(STREAM_BYTES)?;
    let (taken, ()) =
        pair.both(WHAT, || take_stream(&mut reader, writes), move || write_stream(writer, writes))?;
    let (bytes, ticks) = taken;
    Ok(bytes as f64 / WRITE_BYTES as f64 / timer.ns(ticks) * 1000.0)
}

fn write_stream(mut writer: Writer, writes: u64) -> Result<()> {
    // Every start of a period that a write can begin with.
    let bytes: Vec<u8> = (0..WRITE_BYTES as u64 + 251).map(byte_at).collect();
    let mut at = 0;
    while at < writes * WRITE_BYTES as u64 {
        let from = (at % 251) as usize;
        let len = WRITE_BYTES.min((writes * WRITE_BYTES as u64 - at) as usize);
        let mut wrote = Ok(0);
        Poll::Paused.until(WHAT, || {
            wrote = writer.write(&bytes[from..from + len]);
            wrote != Ok(0)
        })?;
        at += wrote.map_err(|error| other_end(&error))? as u64;
    }
    Ok(())
}

/// Bytes after those of the first read, and how long they took.
fn take_stream(reader: &mut Reader, writes: u64) -> Result<(u64, u64)> {
    let mut buffer = vec![0; WRITE_BYTES];
    let (mut at, mut first, mut start) = (0, 0, 0);
    while at < writes * WRITE_BYTES as u64 {
        let mut read = Ok(0);
        Poll::Paused.until(WHAT, || {
            read = reader.read(&mut buffer);
            read != Ok(0)
        })?;
        let len = read.map_err(|error| other_end(&error))?;
        check(buffer[0], byte_at(at), at)?;
        at += len as u64;
        check(buffer[len - 1], byte_at(at - 1), at - 1)?;
        if start == 0 {
            (start, first) = (now_ticks(), at);
        }
    }
    Ok((at - first, now_ticks().saturating_sub(start).max(1)))
}

/// Records through the ring of many producers: millions a second.
fn records_rate(timer: &Timer, pair: &mut PinnedPair<'_>, producers: u64, each: u64) -> Result<f64> {
    let (mut consumer, far) = many::pair(SLOTS, SLOT_BYTES)?;
    let near = if producers > 1 { Some(consumer.add_local(1)?) } else { None };
    let far = Arc::new(Mutex::new(far));
    let theirs = Arc::clone(&far);
    let send_far = move || {
        let producer = theirs.lock().unwrap_or_else(PoisonError::into_inner);
        for payload in 0..each {
            let mut sent = Ok(());
            Poll::Paused.until(WHAT, || {
                sent = producer.send(&payload.to_le_bytes());
                sent != Err(ClaimError::Full)
            })?;
            sent.map_err(|error| other_end(&error))?;
        }
        Ok(())
    };
    let ((records, ticks), ()) =
        pair.both(WHAT, || take_records(&mut consumer, near.as_ref(), each), send_far)?;
    Ok(records as f64 / timer.ns(ticks) * 1000.0)
}

/// Takes what the far producer and, if there is one, the near producer send. How many after the
/// first, and how long.
fn take_records(consumer: &mut Consumer, near: Option<&Producer>, each: u64) -> Result<(u64, u64)> {
    let all = each * (1 + u64::from(near.is_some()));
    let (mut next, mut sent, mut taken, mut start) = ([0_u64; 2], 0, 0, 0);
    let mut record = [0; SLOT_BYTES];
    while taken < all {
        if let Some(near) = near
            && sent < each
        {
            match near.send(&u64::to_le_bytes(sent)) {
                Ok(()) => sent += 1,
                // The far one has filled it: room is made below.
                Err(ClaimError::Full) => {}
                Err(error) => return Err(other_end(&error)),
            }
        }
        // Takes all that has arrived, and waits only if nothing can be sent.
        let mut popped = consumer.pop_into(&mut record);
        if near.is_none() || sent == each {
            Poll::Paused.until(WHAT, || {
                if !is_taken(&popped) {
                    popped = consumer.pop_into(&mut record);
                }
                is_taken(&popped)
            })?;
        }
        match popped {
            Ok(Popped::Taken { producer, .. }) => {
                let place = usize::from(producer != 0);
                let payload = record.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes));
                check(payload, next[place], taken)?;
                next[place] += 1;
                taken += 1;
                if start == 0 {
                    start = now_ticks();
                }
            }
            Ok(Popped::Empty | Popped::Pending(_)) => {}
            Err(error) => return Err(other_end(&error)),
        }
    }
    Ok((all - 1, now_ticks().saturating_sub(start).max(1)))
}

const fn is_taken(popped: &std::result::Result<Popped<usize>, PopError>) -> bool {
    matches!(popped, Ok(Popped::Taken { .. }) | Err(_))
}

fn check<T: PartialEq + std::fmt::Debug>(got: T, want: T, at: u64) -> Result<()> {
    if got == want { Ok(()) } else { Err(other_end(&format!("{got:?} instead of {want:?} at {at}"))) }
}

#[cold]
fn other_end(reason: &impl std::fmt::Display) -> BenchError {
    BenchError::OtherEnd { what: WHAT, reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ring_delivers_everything_and_gives_a_rate() {
        let Ok(cpus) = crate::cpus::pair(None, "test") else {
            println!("skipped: needs two processors");
            return;
        };
        let timer = Timer::new().unwrap();
        let rates = crate::pinned_pair::on(cpus, |pair| measure(&timer, pair, 1)).unwrap();
        let ids: Vec<_> = rates.iter().map(|rate| rate.id).collect();
        assert_eq!(ids, ["ring.byte.4KiB", "ring.many.8B.1producer", "ring.many.8B.2producers"]);
        assert!(rates.iter().all(|rate| rate.millions_per_s > 0.0 && rate.gb_per_s > 0.0), "{rates:?}");
    }

    #[test]
    fn a_wrong_byte_or_record_is_told() {
        let (mut writer, mut reader) = byte::pair(STREAM_BYTES).unwrap();
        writer.write(&[1; WRITE_BYTES]).unwrap();
        let error = take_stream(&mut reader, 1).unwrap_err().to_string();
        assert!(error.contains("1 instead of 0 at 0"), "{error}");
        let (mut consumer, producer) = many::pair(SLOTS, SLOT_BYTES).unwrap();
        producer.send(&7_u64.to_le_bytes()).unwrap();
        let error = take_records(&mut consumer, None, 1).unwrap_err().to_string();
        assert!(error.contains("7 instead of 0 at 0"), "{error}");
    }
}
