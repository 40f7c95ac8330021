//! The end of one node: answers round trips, or measures them.

use std::io::Read;
use std::time::{Duration, Instant};

use bench::stats::median;
use shm::sync::Ordering;
use tieline::{
    Error, Interrupt, InterruptNo, InterruptOptions, Node, NodeId, RemoteInterrupt, RemoteSegment, Segment,
    SegmentId, SegmentOptions,
};

use super::{BLOCK_BYTES, EndSaid, Reading, SpeedJob, Turn};
use crate::agent::{Lines, Look};
use crate::target::Target;

/// The number of the turn that is over lies at the start of an end's memory, the blocks behind it.
const BLOCK_AT: usize = 64;
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// Longest wait for the other end.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long an end that answers sleeps until it looks whether the turn is over.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Round trips that only warm up, and those that count: as many, or as fit into this time, but some.
const WARM_UP: usize = 10;
const MOST_TRIPS: usize = 200;
const LEAST_TRIPS: usize = 20;
const TRIPS_WITHIN: Duration = Duration::from_millis(60);
/// A stream takes at least this long, or has this many blocks.
const STREAM: Duration = Duration::from_millis(5);
const MOST_BLOCKS: u32 = 256;
const STREAMS: usize = 3;

/// What an end has, as long as it takes part.
struct End {
    local: Node,
    memory: Segment,
    interrupt: Interrupt,
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
    let end = End::open(target, node).map_err(|error| error.to_string())?;
    let segment = end.memory.id().ok_or("its segment has no id")?;
    let mut is_heard = say(EndSaid::Open { segment: segment.0, interrupt: end.interrupt.number().0 });
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
        let said = match turn.measures {
            true => end.measure(&turn).map(EndSaid::Measured),
            false => end.answer(&turn, say).map(|()| EndSaid::Answered),
        };
        is_heard = say(said.unwrap_or_else(|error| EndSaid::Failed { why: error.to_string() }));
    }
    Ok(())
}

/// The way to the other end.
struct Way {
    memory: RemoteSegment,
    bell: RemoteInterrupt,
}

impl End {
    fn open(target: &Target, node: NodeId) -> tieline::Result<Self> {
        let local = target.attach(node, "tieline-verify")?;
        let memory = local.create_segment_with(&SegmentOptions::new(BLOCK_AT + BLOCK_BYTES))?;
        memory.make_available()?;
        let interrupt = local.create_interrupt(&InterruptOptions::default())?;
        Ok(Self { local, memory, interrupt })
    }

    /// Connects to the other end. What was rung in a turn before is forgotten.
    fn way(&self, turn: &Turn) -> tieline::Result<Way> {
        let memory = self.local.connect_segment(turn.peer, SegmentId(turn.segment), CONNECT_WITHIN)?;
        let bell = self.local.connect_interrupt(turn.peer, InterruptNo(turn.interrupt), CONNECT_WITHIN)?;
        self.interrupt.take()?;
        Ok(Way { memory, bell })
    }

    fn is_over(&self, turn: &Turn) -> bool {
        // Acquire: what the other end has put before is there.
        self.memory.window().atomic_u64(0).is_ok_and(|word| word.load(Ordering::Acquire) == turn.number)
    }

    fn answer(&self, turn: &Turn, say: &dyn Fn(EndSaid) -> bool) -> tieline::Result<()> {
        let way = self.way(turn)?;
        if !say(EndSaid::Answers) {
            return Ok(());
        }
        let mut heard = Instant::now();
        while !self.is_over(turn) {
            match self.interrupt.wait(Some(LOOK_EVERY)) {
                // The last ring only wakes it.
                Ok(_) if self.is_over(turn) => break,
                Ok(_) => {
                    way.bell.trigger()?;
                    heard = Instant::now();
                }
                Err(Error::TimedOut { .. }) if heard.elapsed() < PATIENCE => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn measure(&self, turn: &Turn) -> tieline::Result<Reading> {
        let way = self.way(turn)?;
        let reading = self.read(&way);
        // The other end waits for that, whatever came of it.
        let over = way.memory.put(0, &turn.number.to_ne_bytes()).and_then(|()| way.memory.barrier());
        let over = over.and_then(|()| way.bell.trigger());
        reading.and_then(|reading| over.map(|()| reading))
    }

    fn read(&self, way: &Way) -> tieline::Result<Reading> {
        let trip = || -> tieline::Result<f64> {
            let began = Instant::now();
            way.bell.trigger()?;
            self.interrupt.wait(Some(PATIENCE))?;
            Ok(began.elapsed().as_nanos() as f64 / 2.0)
        };
        for _ in 0..WARM_UP {
            trip()?;
        }
        let (began, mut trips) = (Instant::now(), Vec::with_capacity(MOST_TRIPS));
        while trips.len() < LEAST_TRIPS || trips.len() < MOST_TRIPS && began.elapsed() < TRIPS_WITHIN {
            trips.push(trip()?);
        }
        Ok(Reading {
            half_rtt_ns: median(&trips).unwrap_or(f64::NAN),
            least_half_rtt_ns: trips.iter().copied().fold(f64::INFINITY, f64::min),
            round_trips: trips.len(),
            bandwidth_bytes_per_s: bandwidth(&way.memory)?,
        })
    }
}

/// Streams that grow until they take long enough; then a few of that length.
fn bandwidth(memory: &RemoteSegment) -> tieline::Result<f64> {
    let block: Vec<u8> = (0..BLOCK_BYTES).map(|at| (at / 7) as u8).collect();
    let stream = |blocks: u32| -> tieline::Result<Duration> {
        let began = Instant::now();
        for _ in 0..blocks {
            memory.put(BLOCK_AT, &block)?;
        }
        memory.barrier()?;
        Ok(began.elapsed())
    };
    let mut blocks = 2;
    while blocks < MOST_BLOCKS && stream(blocks)? < STREAM {
        blocks *= 2;
    }
    let mut rates = Vec::with_capacity(STREAMS);
    for _ in 0..STREAMS {
        let took_s = stream(blocks)?.as_secs_f64().max(1e-9);
        rates.push(f64::from(blocks) * BLOCK_BYTES as f64 / took_s);
    }
    Ok(median(&rates).unwrap_or(f64::NAN))
}
