//! The test of an adapter: through its own link, back to itself; and the same through a link to another node.

use std::cell::Cell;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tieline::{
    Direction, DmaEntry, DmaState, InterruptOptions, Node, RemoteSegment, Segment, SegmentOptions,
};

const SIZE_BYTES: usize = 32 * 1024;
/// Puts are so small, and so many, that one that is lost or changed of a hundred is found almost surely.
const PIECE_BYTES: usize = 64;
const PATIENCE: Duration = Duration::from_secs(5);
/// A part that has not ended by then is given up; it takes less than a millisecond.
const LONGEST_PART: Duration = Duration::from_secs(2);

/// One part of the self test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelfTest {
    /// What was tried.
    pub name: String,
    /// What was wrong, if anything.
    pub error: Option<String>,
    /// How long it took, in nanoseconds.
    #[serde(default)]
    pub duration_ns: u64,
}

type Outcome = Result<(), String>;

/// Runs all parts; the later ones also run when an earlier one fails.
pub(super) fn run(node: &Node) -> Vec<SelfTest> {
    between(node, node)
}

/// The same from one node to the memory of another.
pub(super) fn between(near: &Node, far: &Node) -> Vec<SelfTest> {
    let start = Instant::now();
    let ends = match Ends::new(near, far) {
        Ok(ends) => ends,
        Err(error) => return vec![outcome("connecting", start, Err(error))],
    };
    let part = |name: &str, test: fn(&Ends<'_>) -> Outcome| {
        let start = Instant::now();
        outcome(name, start, test(&ends))
    };
    vec![
        part("memory pattern", memory_pattern),
        part("put and get", put_and_get),
        part("atomics", atomics),
        part("DMA", dma),
        part("doorbell", doorbell),
    ]
}

fn outcome(name: &str, start: Instant, result: Outcome) -> SelfTest {
    let duration_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    SelfTest { name: name.into(), error: result.err(), duration_ns }
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
    fn new(near: &'n Node, far: &'n Node) -> Result<Self, String> {
        let create = |node: &Node| node.create_segment_with(&SegmentOptions::new(SIZE_BYTES)).map_err(text);
        let (local, target) = (create(near)?, create(far)?);
        target.window().put(0, &identity(far)).map_err(|error| error.to_string())?;
        target.make_available().map_err(text)?;
        let id = target.id().ok_or("a plain segment without an id")?;
        let remote = near.connect_segment(far.id(), id, PATIENCE).map_err(text)?;
        let mut found = [0; 8];
        remote.get(0, &mut found).map_err(text)?;
        if found != identity(far) {
            return Err(format!("what is called node {} there is another node's memory", far.id()));
        }
        Ok(Self { near, far, local, target, remote, crawls: Cell::new(false) })
    }

    /// Compares the target with what `expected` says of each byte.
    fn check(&self, expected: impl Fn(usize) -> u8) -> Outcome {
        let mut found = vec![0; SIZE_BYTES];
        self.target.window().get(0, &mut found).map_err(|error| error.to_string())?;
        match found.iter().enumerate().find(|(at, byte)| **byte != expected(*at)) {
            None => Ok(()),
            Some((at, byte)) => Err(format!("byte {at} is {byte:#04x}, should be {:#04x}", expected(at))),
        }
    }
}

/// Whose memory this is, as its owner writes it.
fn identity(node: &Node) -> [u8; 8] {
    u64::from(node.id().get()).to_le_bytes()
}

fn text(error: tieline::Error) -> String {
    error.to_string()
}

fn memory_pattern(ends: &Ends<'_>) -> Outcome {
    let map = ends.remote.map().map_err(text)?;
    let window = map.window().map_err(text)?;
    for pattern in [0x00, 0xFF, 0x55, 0xAA] {
        window.fill(0, SIZE_BYTES, pattern).map_err(|error| error.to_string())?;
        ends.remote.barrier().map_err(text)?;
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
    let start = Instant::now();
    for (piece, at) in block.chunks(PIECE_BYTES).zip((0..SIZE_BYTES).step_by(PIECE_BYTES)) {
        ends.remote.put(at, piece).map_err(text)?;
        if start.elapsed() > LONGEST_PART {
            ends.crawls.set(true);
            return Err(format!("{at} bytes took {} s: it is slow, or stalls", LONGEST_PART.as_secs()));
        }
    }
    ends.remote.barrier().map_err(text)?;
    ends.check(|at| (at / 3) as u8)?;
    let mut back = vec![0; SIZE_BYTES];
    ends.remote.get(0, &mut back).map_err(text)?;
    if back == block { Ok(()) } else { Err("what was read differs from what was written".into()) }
}

fn atomics(ends: &Ends<'_>) -> Outcome {
    ends.remote.put(0, &[0; 16]).map_err(text)?;
    let checks = [
        (ends.remote.fetch_add_u64(0, 5).map_err(text)?, 0),
        (ends.remote.compare_swap_u64(0, 5, 9).map_err(text)?, 5),
        (ends.remote.compare_swap_u64(0, 5, 1).map_err(text)?, 9),
        (u64::from(ends.remote.fetch_add_u32(8, 7).map_err(text)?), 0),
        (u64::from(ends.remote.compare_swap_u32(8, 7, 2).map_err(text)?), 7),
    ];
    match checks.iter().position(|(found, expected)| found != expected) {
        None => Ok(()),
        Some(at) => Err(format!("step {} answered {}, should be {}", at + 1, checks[at].0, checks[at].1)),
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
    let queue = ends.near.dma_queue(ENTRIES).map_err(text)?;
    // Backwards, so that an entry that is skipped or misplaced shows.
    let vector: Vec<DmaEntry> = (0..ENTRIES)
        .map(|at| DmaEntry {
            size_bytes: PIECE,
            local_offset: at * PIECE,
            remote_offset: (ENTRIES - 1 - at) * PIECE,
        })
        .collect();
    queue.gather(&ends.local, &ends.remote, Direction::Push, &vector).map_err(text)?;
    queue.post().map_err(text)?;
    match queue.wait(Some(PATIENCE)).map_err(text)? {
        DmaState::Done => {}
        state => return Err(format!("the queue ended as {state:?}")),
    }
    ends.check(|at| (((ENTRIES - 1 - at / PIECE) * PIECE + at % PIECE) / 5) as u8)
}

fn doorbell(ends: &Ends<'_>) -> Outcome {
    let interrupt = ends.far.create_interrupt(&InterruptOptions::default()).map_err(text)?;
    let bell = ends.near.connect_interrupt(ends.far.id(), interrupt.number(), PATIENCE).map_err(text)?;
    for _ in 0..3 {
        bell.trigger().map_err(text)?;
    }
    match interrupt.wait(Some(PATIENCE)).map_err(text)? {
        3 => Ok(()),
        came => Err(format!("3 triggers, {came} counted")),
    }
}
