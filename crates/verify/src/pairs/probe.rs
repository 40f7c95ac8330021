//! One reading of one pair: the time of a block, and the round trip of a small message.

use shm::sync::{AtomicBool, AtomicU64, Ordering};

use bench::noise::others::Absence;
use shm::clock::{Clock, now_ticks};
use tieline::{Error, RemoteSegment};

use super::arena::{Arena, BLOCK_BYTES, block_at, line_at};

/// Blocks in a reading.
const BLOCKS: u32 = 4;
/// Round trips in a reading.
const ROUND_TRIPS: u64 = 60;
/// A round trip that takes longer than this is given up: the link is down, or the other side got no
/// processor.
const GIVE_UP_NS: u64 = 200_000_000;

/// What `reading` gives, unless this thread lost its processor meanwhile: then it is not valid. A reading
/// takes microseconds, and a thread that loses the processor is away for much longer.
pub(super) fn undisturbed(clock: &Clock, reading: impl FnOnce() -> f64) -> f64 {
    let absence = Absence::since_now();
    let ns = reading();
    let (wall_ns, absent_ns) = absence.of(clock);
    if absent_ns * 2.0 > wall_ns { f64::NAN } else { ns }
}

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

/// Bytes of a first try, so that a very slow link is found before a block is put over it.
const TRY_BYTES: usize = 1024;
/// A try that takes longer, three times, means that blocks would take too much time.
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

/// The same block copied into the very memory of the other node, without any link: what the machine allows at
/// this moment.
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

/// What round trips go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Through {
    /// The links of the pair.
    Links,
    /// Nothing: both sides store to the same lines of the same memory, as their owners map it. What the
    /// machine allows there.
    Memory,
}

/// Lets the far thread know which pair it is to answer for, and when to end.
#[derive(Debug, Default)]
pub(super) struct Baton {
    /// Index of the near seat << 32 | index of the far one << 16 | 2 if through memory | 1; 0: nothing to do.
    pair: AtomicU64,
    /// The far thread has understood.
    taken: AtomicU64,
    pub(super) over: AtomicBool,
}

const MEMORY_BIT: u64 = 2;

fn packed((near, far): (usize, usize), through: Through) -> u64 {
    let through = if through == Through::Memory { MEMORY_BIT } else { 0 };
    (near as u64) << 32 | (far as u64) << 16 | through | 1
}

/// One end of a round trip: where it receives, and how it sends.
struct End<'a> {
    inbox: &'a AtomicU64,
    outbox: &'a AtomicU64,
    /// Where the outbox lies, by way of the link.
    remote: &'a RemoteSegment,
    line: usize,
    through: Through,
}

impl<'a> End<'a> {
    fn of(arena: &'a Arena, from: usize, to: usize, through: Through) -> Option<Self> {
        let (near, far) = (arena.seats.get(from)?, arena.seats.get(to)?);
        Some(Self {
            inbox: near.segment.window().atomic_u64(line_at(to)).ok()?,
            outbox: far.segment.window().atomic_u64(line_at(from)).ok()?,
            remote: arena.remote(from, to)?,
            line: line_at(from),
            through,
        })
    }

    fn say(&self, token: u64) -> Result<(), Error> {
        if self.through == Through::Memory {
            // Release: pairs with the Acquire of the other end.
            self.outbox.store(token, Ordering::Release);
            return Ok(());
        }
        self.remote.put(self.line, &token.to_le_bytes())
    }
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
        let through = if word & MEMORY_BIT == 0 { Through::Links } else { Through::Memory };
        if let Some(end) = End::of(arena, far, near, through) {
            answer_pair(&end, baton, word);
        }
    }
}

fn answer_pair(end: &End<'_>, baton: &Baton, word: u64) {
    let mut last = end.inbox.load(Ordering::Acquire);
    // Release: pairs with the Acquire in `round_trip_ns`; what is put after that is seen as new here.
    baton.taken.store(word, Ordering::Release);
    let mut spins = 0u32;
    while baton.pair.load(Ordering::Relaxed) == word && !baton.over.load(Ordering::Relaxed) {
        let now = end.inbox.load(Ordering::Acquire);
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
        if end.say(now).is_err() {
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
    through: Through,
) -> Result<f64, Error> {
    let Some(end) = End::of(arena, pair.0, pair.1, through) else { return Ok(f64::NAN) };
    // Release: pairs with the Acquire in `answer`.
    baton.pair.store(packed(pair, through), Ordering::Release);
    let begin = now_ticks();
    let give_up = clock.ticks(GIVE_UP_NS);
    // Acquire: pairs with the Release in `answer_pair`.
    while baton.taken.load(Ordering::Acquire) != packed(pair, through) {
        if now_ticks() - begin > give_up {
            baton.pair.store(0, Ordering::Relaxed);
            return Ok(f64::NAN);
        }
        std::hint::spin_loop();
    }
    // Beyond what either side has seen: a message that was lost may have left them apart.
    let seen = end.inbox.load(Ordering::Relaxed).max(end.outbox.load(Ordering::Relaxed));
    let first = seen.wrapping_add(1) | 1 << 63;
    let start = now_ticks();
    let mut result = Ok(());
    'trips: for trip in 0..ROUND_TRIPS {
        let token = first.wrapping_add(trip);
        result = end.say(token);
        if result.is_err() {
            break;
        }
        while end.inbox.load(Ordering::Acquire) != token {
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
