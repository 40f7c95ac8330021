//! One reading of one pair: how long a block takes, and how long a small message there and back.

use shm::sync::{AtomicBool, AtomicU64, Ordering};

use shm::clock::{Clock, now_ticks};
use tieline::Error;

use super::arena::{Arena, BLOCK_BYTES, block_at, line_at};

/// Blocks in a reading.
const BLOCKS: u32 = 4;
/// Round trips in a reading.
const ROUND_TRIPS: u64 = 60;
/// A round trip that takes longer than this is given up: the link is down, or the other side got no processor.
const GIVE_UP_NS: u64 = 200_000_000;

/// Nanoseconds that one block takes from this node to that one.
pub(super) fn block_ns(
    arena: &Arena,
    clock: &Clock,
    pair: (usize, usize),
    source: &[u8],
) -> Result<f64, Error> {
    let Some(remote) = arena.remote(pair.0, pair.1) else { return Ok(f64::NAN) };
    let at = block_at(arena.seats.len());
    let start = now_ticks();
    for _ in 0..BLOCKS {
        remote.put(at, source)?;
    }
    remote.barrier()?;
    Ok(clock.ns(now_ticks() - start) / f64::from(BLOCKS))
}

/// Bytes of a first try, so that a link that crawls is told from one that can be measured before a block is put over it.
const TRY_BYTES: usize = 1024;
/// A try that takes longer, three times, says that blocks would take all the time that there is.
const CRAWL_NS: f64 = 5e6;

/// How long a kilobyte takes at best, in nanoseconds, if that is too long for anything else to be measured.
pub(super) fn crawls(arena: &Arena, clock: &Clock, pair: (usize, usize), source: &[u8]) -> Option<f64> {
    let (remote, piece) = (arena.remote(pair.0, pair.1)?, source.get(..TRY_BYTES)?);
    let mut best_ns = f64::INFINITY;
    for _ in 0..3 {
        let start = now_ticks();
        // A link that fails is found by what comes next.
        remote.put(block_at(arena.seats.len()), piece).ok()?;
        best_ns = best_ns.min(clock.ns(now_ticks() - start));
        if best_ns < CRAWL_NS {
            return None;
        }
    }
    Some(best_ns)
}

/// The same block copied into the very memory of the other node, without any link: what the machine allows at this moment.
pub(super) fn copy_ns(arena: &Arena, clock: &Clock, to: usize, source: &[u8]) -> f64 {
    let Some(seat) = arena.seats.get(to) else { return f64::NAN };
    let (window, at) = (seat.segment.window(), block_at(arena.seats.len()));
    let start = now_ticks();
    for _ in 0..BLOCKS {
        // Cannot fail: the block lies in the segment, by construction.
        let _ = window.put(at, source);
    }
    clock.ns(now_ticks() - start) / f64::from(BLOCKS)
}

/// Lets the far thread know which pair it is to answer for, and when to end.
#[derive(Debug, Default)]
pub(super) struct Baton {
    /// Index of the near seat << 32 | index of the far one << 16 | 1; 0: nothing to do.
    pair: AtomicU64,
    /// The far thread has understood.
    taken: AtomicU64,
    pub(super) over: AtomicBool,
}

fn packed((near, far): (usize, usize)) -> u64 {
    (near as u64) << 32 | (far as u64) << 16 | 1
}

/// The far thread: answers round trips of the pair of the moment until it is over.
pub(super) fn answer(arena: &Arena, baton: &Baton) {
    let mut spins = 0u32;
    while !baton.over.load(Ordering::Relaxed) {
        // Acquire: pairs with the Release in `round_trip_ns`.
        let word = baton.pair.load(Ordering::Acquire);
        if word == 0 {
            spins = spins.wrapping_add(1);
            if spins.is_multiple_of(1024) {
                std::thread::yield_now()
            } else {
                shm::cpu::pause()
            }
            continue;
        }
        let (near, far) = ((word >> 32) as usize, (word >> 16 & 0xffff) as usize);
        answer_pair(arena, baton, word, near, far);
    }
}

fn answer_pair(arena: &Arena, baton: &Baton, word: u64, near: usize, far: usize) {
    let (Some(remote), Some(seat)) = (arena.remote(far, near), arena.seats.get(far)) else { return };
    let Ok(inbox) = seat.segment.window().atomic_u64(line_at(near)) else { return };
    let mut last = inbox.load(Ordering::Acquire);
    // Release: pairs with the Acquire in `round_trip_ns`; what is put after that is seen as new here.
    baton.taken.store(word, Ordering::Release);
    let mut spins = 0u32;
    while baton.pair.load(Ordering::Relaxed) == word && !baton.over.load(Ordering::Relaxed) {
        let now = inbox.load(Ordering::Acquire);
        if now == last {
            spins = spins.wrapping_add(1);
            // Where both ends share a processor, the other one must get it.
            if spins.is_multiple_of(4096) {
                std::thread::yield_now()
            } else {
                shm::cpu::pause()
            }
            continue;
        }
        last = now;
        if remote.put(line_at(far), &now.to_le_bytes()).is_err() {
            break;
        }
    }
}

/// Half of the mean round trip of a small message from the near seat to the far one and back.
pub(super) fn half_round_trip_ns(
    arena: &Arena,
    clock: &Clock,
    baton: &Baton,
    pair: (usize, usize),
) -> Result<f64, Error> {
    let (near, far) = pair;
    let (Some(remote), Some(seat)) = (arena.remote(near, far), arena.seats.get(near)) else {
        return Ok(f64::NAN);
    };
    let Ok(reply) = seat.segment.window().atomic_u64(line_at(far)) else { return Ok(f64::NAN) };
    // Release: pairs with the Acquire in `answer`.
    baton.pair.store(packed(pair), Ordering::Release);
    let begin = now_ticks();
    let give_up = clock.ticks(GIVE_UP_NS);
    // Acquire: pairs with the Release in `answer_pair`.
    while baton.taken.load(Ordering::Acquire) != packed(pair) {
        if now_ticks() - begin > give_up {
            baton.pair.store(0, Ordering::Relaxed);
            return Ok(f64::NAN);
        }
        std::hint::spin_loop();
    }
    let first = reply.load(Ordering::Relaxed).wrapping_add(1) | 1 << 63;
    let start = now_ticks();
    let mut result = Ok(());
    'trips: for trip in 0..ROUND_TRIPS {
        let token = first.wrapping_add(trip);
        result = remote.put(line_at(near), &token.to_le_bytes());
        if result.is_err() {
            break;
        }
        while reply.load(Ordering::Acquire) != token {
            if now_ticks() - start > give_up {
                result = Err(Error::TimedOut { what: "a reply of the far end".into() });
                break 'trips;
            }
            shm::cpu::pause();
        }
    }
    let took_ns = clock.ns(now_ticks() - start);
    baton.pair.store(0, Ordering::Relaxed);
    baton.taken.store(0, Ordering::Relaxed);
    result.map(|()| took_ns / 2.0 / ROUND_TRIPS as f64)
}

/// What is put.
pub(super) fn source() -> Vec<u8> {
    (0..BLOCK_BYTES).map(|at| (at * 131) as u8).collect()
}
