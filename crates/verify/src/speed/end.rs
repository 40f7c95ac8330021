//! The end of one node: responds to round trips, or measures them.

mod bare;

use std::io::Read;
use std::time::{Duration, Instant};

use bench::patterns::provider;
use bench::stats::median;
use fabric_sys::bare::Bare;
use shm::sync::Ordering;
use tieline::{
    Error, Interrupt, InterruptNo, InterruptOptions, Node, NodeId, RemoteInterrupt, RemoteSegment, Segment,
    SegmentId, SegmentOptions,
};

use super::puts::{BLOCK_AT, bandwidth, block, by_size};
use super::{BLOCK_BYTES, EndSaid, MOST_BLOCK_BYTES, MOST_SIZES, PutReading, Reading, SpeedJob, Turn};
use crate::agent::{Lines, Look};
use crate::target::Target;

/// The number of the turn that is over lies at the start of an end's memory, then how many rows the bare
/// loops have, then the blocks.
const ROWS_AT: usize = 8;
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// Longest wait for the other end.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// How long an end that answers sleeps until it looks whether the turn is over.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Round trips of a row. The first row only warms up; then there are as many rows, or as fit into this time,
/// but some.
const ROW: usize = 10;
const MOST_ROWS: usize = 20;
const LEAST_ROWS: usize = 3;
const ROWS_WITHIN: Duration = Duration::from_millis(60);

/// What an end has, as long as it takes part.
struct End {
    local: Node,
    memory: Segment,
    interrupt: Interrupt,
    /// Until one of its loops fails: then the two ends have counted differently.
    bare: Option<Bare>,
}

/// Takes part for this node, until there are no more lines. `say` says false when nobody listens any more.
pub(crate) fn serve(
    target: &Target,
    node: NodeId,
    job: &SpeedJob,
    lines: &mut Lines<impl Read>,
    say: &dyn Fn(EndSaid) -> bool,
) {
    if let Err(why) = take_part(target, node, job, lines, say) {
        // If nobody listens, nobody misses it.
        let _ = say(EndSaid::Failed { why });
    }
}

fn take_part(
    target: &Target,
    node: NodeId,
    job: &SpeedJob,
    lines: &mut Lines<impl Read>,
    say: &dyn Fn(EndSaid) -> bool,
) -> Result<(), String> {
    let longest = job.longest_block_bytes;
    if longest > MOST_BLOCK_BYTES {
        return Err(format!("blocks of {longest} bytes are longer than {MOST_BLOCK_BYTES}"));
    }
    let mut end = End::open(target, node, longest).map_err(|error| error.to_string())?;
    let segment = end.memory.id().ok_or("its segment has no id")?.0;
    let opened = provider::open(&end.local, BLOCK_BYTES);
    let bare = opened.as_ref().map(|opened| (opened.provider.clone(), opened.card.clone()));
    end.bare = opened.map(|opened| opened.end);
    let mut is_heard = say(EndSaid::Open { segment, interrupt: end.interrupt.number().0, bare });
    while is_heard {
        let line = match lines.look() {
            Look::Line(line) => line,
            Look::Nothing => continue,
            Look::End | Look::TooLong => break,
        };
        let turn: Turn =
            serde_json::from_slice(&line).map_err(|error| format!("the turn is not understood: {error}"))?;
        if turn.number == 0 || !job.nodes.contains(&turn.peer) {
            return Err(format!("node {} takes no part", turn.peer));
        }
        if turn.sizes_bytes.len() > MOST_SIZES
            || turn.sizes_bytes.iter().any(|size| !(1..=longest).contains(size))
        {
            return Err(format!("sizes are 1 to {longest} bytes, at most {MOST_SIZES}"));
        }
        let said = match turn.measures {
            true => end.measure(&turn).map(|(reading, puts)| {
                // What nobody hears of that, nobody hears of what follows.
                let _ = puts.is_empty() || say(EndSaid::Puts(puts));
                EndSaid::Measured(reading)
            }),
            false => end.answer(&turn, say).map(|()| EndSaid::Answered),
        };
        is_heard = say(said.unwrap_or_else(|error| EndSaid::Failed { why: error.to_string() }));
    }
    Ok(())
}

/// The path to the other end.
struct Path {
    memory: RemoteSegment,
    bell: RemoteInterrupt,
}

impl End {
    /// With room for blocks of so many bytes.
    fn open(target: &Target, node: NodeId, longest_block_bytes: u64) -> tieline::Result<Self> {
        let local = target.attach(node, "tieline-verify")?;
        let room = BLOCK_BYTES.max(longest_block_bytes as usize);
        let memory = local.create_segment_with(&SegmentOptions::new(BLOCK_AT + room))?;
        memory.make_available()?;
        let interrupt = local.create_interrupt(&InterruptOptions::default())?;
        Ok(Self { local, memory, interrupt, bare: None })
    }

    /// Connects to the other end. What was rung in a turn before is forgotten.
    fn connect(&self, turn: &Turn) -> tieline::Result<Path> {
        let memory = self.local.connect_segment(turn.peer, SegmentId(turn.segment), CONNECT_WITHIN)?;
        let bell = self.local.connect_interrupt(turn.peer, InterruptNo(turn.interrupt), CONNECT_WITHIN)?;
        self.interrupt.take()?;
        Ok(Path { memory, bell })
    }

    fn is_over(&self, turn: &Turn) -> bool {
        // Acquire: what the other end has put before is there.
        self.memory.window().atomic_u64(0).is_ok_and(|word| word.load(Ordering::Acquire) == turn.number)
    }

    /// Its bare loops, prepared for this peer, if both ends can do them.
    fn bare_for(&mut self, turn: &Turn) -> Option<Bare> {
        let card = turn.bare.as_ref()?;
        let mut bare = self.bare.take()?;
        bare.meet(card).ok().map(|()| bare)
    }

    fn answer(&mut self, turn: &Turn, say: &dyn Fn(EndSaid) -> bool) -> tieline::Result<()> {
        let path = self.connect(turn)?;
        let bare = self.bare_for(turn);
        if !say(EndSaid::Answers) {
            return Ok(());
        }
        let mut heard = Instant::now();
        while !self.is_over(turn) {
            match self.interrupt.wait(Some(LOOK_EVERY)) {
                // The last ring only wakes it.
                Ok(_) if self.is_over(turn) => break,
                Ok(_) => {
                    path.bell.trigger()?;
                    heard = Instant::now();
                }
                Err(Error::TimedOut { .. }) if heard.elapsed() < ANSWER_TIMEOUT => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(bare) = bare {
            let announced = || {
                // Acquire: as in `is_over`.
                self.memory.window().atomic_u64(ROWS_AT).map_or(0, |word| word.load(Ordering::Acquire))
            };
            // If that fails, there is no figure of the provider.
            self.bare = bare::answer(bare, turn.number, announced);
        }
        Ok(())
    }

    fn measure(&mut self, turn: &Turn) -> tieline::Result<(Reading, Vec<PutReading>)> {
        let path = self.connect(turn)?;
        let bare = self.bare_for(turn);
        let reading = self.read(&path).and_then(|reading| {
            // The other end ends if it hears nothing for long.
            let rate = reading.0.bandwidth_bytes_per_s;
            let puts = by_size(&path.memory, &turn.sizes_bytes, rate, &|| self.round_trip(&path))?;
            Ok((reading, puts))
        });
        // The other end waits for that, whatever came of it.
        let over = path.memory.put(0, &turn.number.to_ne_bytes()).and_then(|()| path.memory.barrier());
        let over = over.and_then(|()| path.bell.trigger());
        let ((mut reading, blocks), puts) = reading.and_then(|reading| over.map(|()| reading))?;
        // Of a turn that failed the other end waits in vain, and gives its loops up, too.
        let announce = |rows: u64| {
            path.memory.put(ROWS_AT, &rows.to_ne_bytes())?;
            path.memory.barrier()
        };
        if let Some((bare, baseline)) =
            bare.and_then(|bare| bare::measure(bare, turn.number, blocks, announce))
        {
            (self.bare, reading.provider) = (Some(bare), Some(baseline));
        }
        Ok((reading, puts))
    }

    fn round_trip(&self, path: &Path) -> tieline::Result<()> {
        path.bell.trigger()?;
        self.interrupt.wait(Some(ANSWER_TIMEOUT)).map(drop)
    }

    /// With that: how many blocks its streams had.
    fn read(&self, path: &Path) -> tieline::Result<(Reading, u32)> {
        let row = || -> tieline::Result<f64> {
            let began = Instant::now();
            for _ in 0..ROW {
                self.round_trip(path)?;
            }
            Ok(began.elapsed().as_nanos() as f64 / (2 * ROW) as f64)
        };
        row()?;
        let (began, mut rows) = (Instant::now(), Vec::with_capacity(MOST_ROWS));
        while rows.len() < LEAST_ROWS || rows.len() < MOST_ROWS && began.elapsed() < ROWS_WITHIN {
            rows.push(row()?);
        }
        let (bandwidth_bytes_per_s, blocks) = bandwidth(&path.memory, &block(BLOCK_BYTES), &|| Ok(()))?;
        let reading = Reading {
            half_rtt_ns: median(&rows).unwrap_or(f64::NAN),
            least_half_rtt_ns: rows.iter().copied().fold(f64::INFINITY, f64::min),
            round_trips: rows.len() * ROW,
            bandwidth_bytes_per_s,
            provider: None,
        };
        Ok((reading, blocks))
    }
}
