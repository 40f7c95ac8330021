//! `scipp` against its baselines, for the paired runner.

use super::{
    far::{AtPlace, Far, FarThread},
    near::{Near, Pace},
};
use crate::{
    baseline::{
        Shape,
        line::LineProbe,
        memory::{FreshProbe, FreshWindowProbe},
    },
    error::Result,
    patterns::{
        pio::{End, PLACES, Placement},
        sisci::SetPoll,
    },
    pinned_pair::PinnedPair,
    poll::Poll,
    run::Sides,
    stats::Samples,
    timer::Timer,
};

/// One message size against the baseline: the line on the very words of the messages, plus, for
/// long messages, two copies of bytes that the other core has just written.
pub struct ScippSides<'a, 'env> {
    timer: &'a Timer,
    pair: &'a mut PinnedPair<'env>,
    near: Near<'env>,
    far: End<'env>,
    pace: Pace,
    line: LineProbe<'env>,
    copy: Option<CopyBaseline<'env>>,
    place: usize,
    ticks: Vec<u64>,
    /// Every half round trip of ours.
    pub all: Samples,
    /// Round trips of ours.
    pub rounds: u64,
}

impl std::fmt::Debug for ScippSides<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScippSides").field("pace", &self.pace).finish_non_exhaustive()
    }
}

/// The faster of two copies of fresh bytes: the C library's between private buffers, and ours out
/// of the segment.
#[derive(Debug)]
struct CopyBaseline<'env> {
    library: FreshProbe,
    ours: FreshWindowProbe<'env>,
}

/// Copies of one reading of the copy baseline.
const COPIES: u32 = 250;
/// Messages up to this size travel in one line and need no copy worth counting.
const LINE_ONLY_BYTES_MAX: usize = 56;

impl<'a, 'env> ScippSides<'a, 'env> {
    /// Prepares one size.
    pub fn new(
        timer: &'a Timer,
        pair: &'a mut PinnedPair<'env>,
        near: Near<'env>,
        far: End<'env>,
        size_bytes: usize,
    ) -> Result<Self> {
        let mut thread = FarThread { pair: &mut *pair, end: far };
        let pace = near.pace(timer, &mut thread, size_bytes)?;
        let line = near.line_probe(timer, &mut thread, 0)?;
        let copy = if size_bytes > LINE_ONLY_BYTES_MAX {
            let ours = FreshWindowProbe::new(
                near.end().bulk_input(size_bytes)?,
                far.bulk_output(size_bytes)?,
                COPIES,
            );
            Some(CopyBaseline { library: FreshProbe::new(size_bytes, COPIES), ours })
        } else {
            None
        };
        let (ticks, all) = (Vec::new(), Samples::new(false)?);
        Ok(Self { timer, pair, near, far, pace, line, copy, place: 0, ticks, all, rounds: 0 })
    }

    /// Takes readings in this shape, when ours is compared not with its baseline but with a program
    /// that measures in another.
    pub fn shaped(mut self, shape: Shape) -> Self {
        self.pace.shape = shape;
        self
    }

    /// The division of a reading of ours.
    pub const fn pace(&self) -> Pace {
        self.pace
    }

    /// The way in which the baseline polls.
    pub const fn baseline_poll(&self) -> Poll {
        self.line.poll()
    }

    /// The name of the baseline in reports.
    pub fn baseline_name(placement: Placement, size_bytes: usize) -> String {
        let line = match placement {
            Placement::Shared => "half the round trip of the same cache line",
            Placement::Own => "half the round trip of the same two cache lines",
        };
        if size_bytes > LINE_ONLY_BYTES_MAX {
            format!("twice the copy of {size_bytes} bytes just written by the other core + {line}")
        } else {
            line.to_owned()
        }
    }
}

impl SetPoll for ScippSides<'_, '_> {
    fn set_poll(&mut self, poll: Poll) {
        self.pace.poll = poll;
    }
}

impl Sides for ScippSides<'_, '_> {
    fn next_block(&mut self, number: usize) -> Result<()> {
        self.place = number % PLACES;
        self.line.move_to(self.near.words(self.place)?);
        Ok(())
    }

    fn ours(&mut self) -> Result<f64> {
        let mut far = FarThread { pair: &mut *self.pair, end: self.far };
        let reading = self.near.round_trips(
            self.timer,
            &mut far,
            self.place,
            self.pace,
            &mut self.ticks,
            Some(&mut self.all),
        )?;
        self.rounds += reading.rounds;
        Ok(reading.half_ns)
    }

    fn reference(&mut self) -> Result<f64> {
        let mut far = FarThread { pair: &mut *self.pair, end: self.far };
        let far: &mut dyn Far = &mut far;
        let line = self.line.half_round_trip_ns(self.timer, &mut AtPlace { far, place: self.place }, None)?;
        let Some(copy) = &mut self.copy else { return Ok(line) };
        let library = copy.library.copy_ns(self.timer, self.pair, None)?;
        let ours = copy.ours.copy_ns(self.timer, self.pair, None)?;
        Ok(line + 2.0 * library.min(ours))
    }
}
