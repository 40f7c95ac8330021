//! Tests an adapter through its own link back to itself, and in the same way through a link to
//! another node.

use std::cell::Cell;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tieline::{
    Direction, DmaEntry, DmaState, InterruptOptions, Node, RemoteSegment, Segment, SegmentOptions,
};

use crate::late::Trouble;

const SIZE_BYTES: usize = 32 * 1024;
/// Puts are so small, and so many, that one that is lost or changed of a hundred is found almost surely.
const PIECE_BYTES: usize = 64;
const TIMEOUT: Duration = Duration::from_secs(5);
/// A part that has not ended by then is given up; it takes less than a millisecond.
const LONGEST_PART: Duration = Duration::from_secs(2);
const PIECES: usize = SIZE_BYTES / PIECE_BYTES;
/// So many puts say what each of them takes.
const ENOUGH_PUTS: usize = 8;

/// One part of the self test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelfTest {
    /// What was tried.
    pub name: String,
    /// What was wrong, if anything.
    pub error: Option<String>,
    /// That was only that it took too long, while the machine was busy with other work: no link or node is
    /// blamed for it.
    #[serde(default)]
    pub in_doubt: bool,
    /// How long it took, in nanoseconds.
    #[serde(default)]
    pub duration_ns: u64,
}

type Outcome = Result<(), Trouble>;

/// Runs all parts; the later ones also run when an earlier one fails.
pub(super) fn run(node: &Node) -> Vec<SelfTest> {
    between(node, node)
}

/// The same from one node to the memory of another.
pub(super) fn between(near: &Node, far: &Node) -> Vec<SelfTest> {
    let start = Instant::now();
    let ends = match unless_late_again(|| Ends::new(near, far)) {
        Ok(ends) => ends,
        Err(error) => return vec![outcome("connecting", start, Err(error))],
    };
    let part = |name: &str, test: fn(&Ends<'_>) -> Outcome| {
        let start = Instant::now();
        outcome(name, start, unless_late_again(|| test(&ends)))
    };
    vec![
        part("memory pattern", memory_pattern),
        part("put and get", put_and_get),
        part("atomics", atomics),
        part("DMA", dma),
        part("doorbell", doorbell),
    ]
}

/// Repeats what was late: no node is blamed for being late once.
fn unless_late_again<T>(mut attempt: impl FnMut() -> Result<T, Trouble>) -> Result<T, Trouble> {
    match attempt() {
        Err(trouble) if trouble.late => attempt(),
        other => other,
    }
}

fn outcome(name: &str, start: Instant, result: Outcome) -> SelfTest {
    let duration_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    // Whether the machine was busy is known when all is done.
    let (error, in_doubt) = result.err().map(|trouble| (trouble.text, trouble.late)).unzip();
    SelfTest { name: name.into(), error, in_doubt: in_doubt.unwrap_or(false), duration_ns }
}

struct Ends<'n> {
    near: &'n Node,
    far: &'n Node,
    local: Segment,
    target: Segment,
    remote: RemoteSegment,
    /// Nothing large is moved any more: it would take too long.
    crawls: Cell<bool>,
}

impl<'n> Ends<'n> {
    fn new(near: &'n Node, far: &'n Node) -> Result<Self, Trouble> {
        let create = |node: &Node| node.create_segment_with(&SegmentOptions::new(SIZE_BYTES));
        let (local, target) = (create(near)?, create(far)?);
        target.window().put(0, &identity(far)).map_err(|error| error.to_string())?;
        target.make_available()?;
        let id = target.id().ok_or("a plain segment without an id")?;
        let remote = near.connect_segment(far.id(), id, TIMEOUT)?;
        let mut found = [0; 8];
        remote.get(0, &mut found)?;
        if found != identity(far) {
            return Err(
                format!("the memory that it reaches as node {} belongs to another node", far.id()).into()
            );
        }
        Ok(Self { near, far, local, target, remote, crawls: Cell::new(false) })
    }

    /// Compares each byte of the target with `expected`.
    fn check(&self, expected: impl Fn(usize) -> u8) -> Outcome {
        let mut found = vec![0; SIZE_BYTES];
        self.target.window().get(0, &mut found).map_err(|error| error.to_string())?;
        match found.iter().enumerate().find(|(at, byte)| **byte != expected(*at)) {
            None => Ok(()),
            Some((at, byte)) => {
                Err(format!("byte {at} is {byte:#04x}, should be {:#04x}", expected(at)).into())
            }
        }
    }
}

/// Whose memory this is, as its owner writes it.
fn identity(node: &Node) -> [u8; 8] {
    u64::from(node.id().get()).to_le_bytes()
}

fn memory_pattern(ends: &Ends<'_>) -> Outcome {
    let map = ends.remote.map()?;
    let window = map.window()?;
    for pattern in [0x00, 0xFF, 0x55, 0xAA] {
        window.fill(0, SIZE_BYTES, pattern).map_err(|error| error.to_string())?;
        ends.remote.barrier()?;
        ends.check(|_| pattern)?;
    }
    // Each word its own address: finds words that land in the wrong place.
    for at in (0..SIZE_BYTES).step_by(8) {
        window.store_u64(at, at as u64).map_err(|error| error.to_string())?;
    }
    ends.check(|at| ((at & !7) as u64).to_le_bytes()[at % 8])
}

fn put_and_get(ends: &Ends<'_>) -> Outcome {
    let block: Vec<u8> = (0..SIZE_BYTES).map(|at| (at / 3) as u8).collect();
    let (start, mut took) = (Instant::now(), Vec::with_capacity(PIECES));
    for (piece, at) in block.chunks(PIECE_BYTES).zip((0..SIZE_BYTES).step_by(PIECE_BYTES)) {
        let before = start.elapsed();
        ends.remote.put(at, piece)?;
        took.push(start.elapsed() - before);
        if start.elapsed() > LONGEST_PART {
            let trouble = too_slow(at + PIECE_BYTES, took);
            ends.crawls.set(!trouble.late);
            return Err(trouble);
        }
    }
    ends.remote.barrier()?;
    ends.check(|at| (at / 3) as u8)?;
    let mut back = vec![0; SIZE_BYTES];
    ends.remote.get(0, &mut back)?;
    if back == block { Ok(()) } else { Err("what was read differs from what was written".into()) }
}

/// Puts that took too long in all. If each of them does, that is the link: a process that has no processor is
/// held up a few times for long, and puts thousands of times in between.
fn too_slow(bytes: usize, mut took: Vec<Duration>) -> Trouble {
    took.sort_unstable();
    let each = took.get(took.len() / 2).copied().unwrap_or_default();
    let crawls = took.len() >= ENOUGH_PUTS && each.saturating_mul(PIECES as u32) > LONGEST_PART;
    let text = format!("{bytes} bytes took {} s: it is slow, or stalls", LONGEST_PART.as_secs());
    Trouble { text, late: !crawls }
}

fn atomics(ends: &Ends<'_>) -> Outcome {
    ends.remote.put(0, &[0; 16])?;
    let checks = [
        (ends.remote.fetch_add_u64(0, 5)?, 0),
        (ends.remote.compare_swap_u64(0, 5, 9)?, 5),
        (ends.remote.compare_swap_u64(0, 5, 1)?, 9),
        (u64::from(ends.remote.fetch_add_u32(8, 7)?), 0),
        (u64::from(ends.remote.compare_swap_u32(8, 7, 2)?), 7),
    ];
    match checks.iter().position(|(found, expected)| found != expected) {
        None => Ok(()),
        Some(at) => {
            let (found, expected) = checks[at];
            Err(format!("step {} returned {found}, should be {expected}", at + 1).into())
        }
    }
}

fn dma(ends: &Ends<'_>) -> Outcome {
    if ends.crawls.get() {
        return Err("was not tried, because put and get took too long".into());
    }
    const ENTRIES: usize = 64;
    const PIECE: usize = SIZE_BYTES / ENTRIES;
    let block: Vec<u8> = (0..SIZE_BYTES).map(|at| (at / 5) as u8).collect();
    ends.local.window().put(0, &block).map_err(|error| error.to_string())?;
    let queue = ends.near.dma_queue(ENTRIES)?;
    // Backwards, so that an entry that is skipped or misplaced shows.
    let vector: Vec<DmaEntry> = (0..ENTRIES)
        .map(|at| DmaEntry {
            size_bytes: PIECE,
            local_offset: at * PIECE,
            remote_offset: (ENTRIES - 1 - at) * PIECE,
        })
        .collect();
    queue.gather(&ends.local, &ends.remote, Direction::Push, &vector)?;
    queue.post()?;
    match queue.wait(Some(TIMEOUT))? {
        DmaState::Done => {}
        state => return Err(format!("the queue ended as {state:?}").into()),
    }
    ends.check(|at| (((ENTRIES - 1 - at / PIECE) * PIECE + at % PIECE) / 5) as u8)
}

fn doorbell(ends: &Ends<'_>) -> Outcome {
    let interrupt = ends.far.create_interrupt(&InterruptOptions::default())?;
    let bell = ends.near.connect_interrupt(ends.far.id(), interrupt.number(), TIMEOUT)?;
    for _ in 0..3 {
        bell.trigger()?;
    }
    match interrupt.wait(Some(TIMEOUT))? {
        3 => Ok(()),
        came => Err(format!("3 triggers, {came} counted").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_whose_puts_are_all_slow_crawls_and_one_that_was_held_up_is_late() {
        let ms = Duration::from_millis;
        let crawling = too_slow(2560, vec![ms(50); 40]);
        assert!(!crawling.late && crawling.text.starts_with("2560 bytes took 2 s"), "{crawling:?}");
        let mut held_up = vec![Duration::from_nanos(300); 400];
        held_up.extend([ms(900), ms(1200)]);
        assert!(too_slow(25_728, held_up).late);
        assert!(too_slow(64, vec![ms(2100)]).late, "one put says nothing of the others");
    }

    #[test]
    fn what_was_late_is_tried_once_more_and_what_was_wrong_is_not() {
        let tries = |outcomes: &[Result<(), Trouble>]| {
            let mut number = 0;
            let last = unless_late_again(|| {
                number += 1;
                outcomes[number - 1].clone()
            });
            (last, number)
        };
        let late = || Err(Trouble::late("DMA transfer: nothing happened"));
        assert_eq!(tries(&[late(), Ok(())]), (Ok(()), 2));
        assert_eq!(tries(&[late(), late(), Ok(())]), (late(), 2));
        assert_eq!(tries(&[Err("byte 3".into()), Ok(())]), (Err("byte 3".into()), 1));
    }
}
