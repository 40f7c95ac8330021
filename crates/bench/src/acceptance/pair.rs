//! Figures between two nodes.

use tieline::{Node, SegmentOptions};

use super::{
    Context,
    catalogue::{Entry, Kind},
    control, control_error,
};
use crate::{
    baseline::{line::Lines, wake::WAKES},
    cluster::ClusterControl,
    cpus,
    error::Result,
    figure::{Figure, ReferenceKind, Spec, Stat},
    patterns::{
        attach::{Where, connected, path_of},
        connect::{self, ConnectSides},
        dma::{Against, DmaSides, Shape},
        dma_bench::{self, LONG_BYTES},
        interrupt::{BASELINE_LINES, SleepingSides, SpinningSides, Wires},
        pio::{PLACES, Placement},
        put::PutField,
        rendezvous::{Tool, memory::check_here},
        scibench2::{Way, sides::StoreSides},
        scipp::{duplex::Duplex, far::FarThread, near::Near, sides::ScippSides},
    },
    pinned_pair,
    run::BlockPlan,
    verdict::Goal,
};

/// Messages of each size that are checked before the timing.
const CHECKED: u32 = 500;

pub(super) fn measure(
    context: &mut Context<'_>,
    entries: &[Entry],
    cluster: &mut Option<&mut dyn ClusterControl>,
) {
    let Some(first) = entries.first() else { return };
    if context.progress.stop() {
        return context.miss_all(entries, &super::EndedEarly);
    }
    if let Some(place) = context.options.place.clone() {
        return measure_at(context, entries, &place);
    }
    let running = control(cluster, first.id).and_then(|cluster| cluster.up(2).map_err(control_error));
    match running {
        Ok(running) => {
            let near = running.nodes.first().copied();
            let far = running.nodes.get(1).copied();
            measure_at(context, entries, &Where { near, far, ..running.place });
        }
        Err(error) => context.miss_all(entries, &error),
    }
    // Also after a failed start: something may be left of it.
    let stopped = control(cluster, first.id).and_then(|cluster| cluster.down().map_err(control_error));
    if let Err(error) = stopped
        && !matches!(error, crate::error::BenchError::NoCluster { .. })
    {
        context.miss("cluster.down", &error);
    }
}

fn measure_at(context: &mut Context<'_>, entries: &[Entry], place: &Where) {
    let pair = match Pair::new(context, place) {
        Ok(pair) => pair,
        Err(error) => return context.miss_all(entries, &error),
    };
    for entry in entries {
        if context.is_ended(entry.id) {
            continue;
        }
        context.tell(entry.id);
        let figure = pair.measure(context, entry);
        context.keep(entry.id, figure);
    }
}

/// The time that a short entry of a vector may take in addition to its copy.
const ENTRY_NS: f64 = 8.0;

/// The command that measures this figure, and its rival, alone.
pub(super) fn alone(id: &str) -> Vec<String> {
    ["tieline", "bench", "acceptance", "--json", "--only", id].map(ToOwned::to_owned).to_vec()
}

pub(super) struct Pair {
    pub(super) place: Where,
    pub(super) nodes: [Node; 2],
    pub(super) cpus: [usize; 2],
    path: String,
}

impl Pair {
    fn new(context: &Context<'_>, place: &Where) -> Result<Self> {
        let cpus = cpus::pair(context.options.cpus, "bench acceptance")?;
        let nodes = place.both()?;
        let path = path_of(&nodes[0]);
        Ok(Self { place: place.clone(), nodes, cpus, path })
    }

    fn measure(&self, context: &mut Context<'_>, entry: &Entry) -> Result<Figure> {
        match entry.kind {
            Kind::Scipp { size_bytes, shared, goal } => {
                let placement = if shared { Placement::Shared } else { Placement::Own };
                self.scipp(context, entry, size_bytes, placement, goal)
            }
            Kind::Put { size_bytes, cold, goal } => self.put(context, entry, size_bytes, cold, goal),
            Kind::Dma { size_bytes, cold, goal } => {
                self.dma(context, entry, dma_bench::shape(size_bytes), cold, goal)
            }
            Kind::Copies(what) => super::copies::measure(context, entry, what, self.cpus[0]),
            Kind::Store { size_bytes, goal } => self.store(context, entry, size_bytes, goal),
            Kind::Spinning { goal } => self.spinning(context, entry, goal),
            Kind::Sleeping { goal } => self.sleeping(context, entry, goal),
            Kind::Connect { at_most } => self.connect(context, entry, at_most),
            Kind::Memory(what) => super::access::measure(context, self, entry, what),
            Kind::Sisci(what) => super::sisci::measure(context, self, entry, what),
            Kind::Ring { .. }
            | Kind::Sockets(_)
            | Kind::Ofi(_)
            | Kind::Messages(_)
            | Kind::Fleet { .. }
            | Kind::Fabric(_)
            | Kind::Overhead { .. }
            | Kind::Load { .. }
            | Kind::Shadow { .. }
            | Kind::Verify { .. }
            | Kind::IdleCpu { .. }
            | Kind::IdlePss { .. }
            | Kind::Up { .. }
            | Kind::UpPss { .. } => {
                // The catalogue puts those elsewhere.
                Err(crate::error::BenchError::Usage(format!(
                    "{} is not measured between two nodes",
                    entry.id
                )))
            }
        }
    }

    /// The common part of all figures of a pair.
    pub(super) fn spec(&self, entry: &Entry, unit: &'static str, goal: Goal) -> Spec {
        let argv = ["tieline", "bench", "limits", "--json"].map(ToOwned::to_owned).to_vec();
        Spec {
            id: entry.id.to_owned(),
            unit,
            stat: Stat::P50,
            size_bytes: None,
            cpus: self.cpus.to_vec(),
            path: self.path.clone(),
            kind: ReferenceKind::Baseline,
            reference: String::new(),
            version: String::new(),
            argv,
            goal,
            distribution: None,
            notes: vec![entry.what.to_owned()],
        }
    }

    fn plan(context: &Context<'_>) -> BlockPlan {
        BlockPlan::against_baseline(context.options.max_time, context.options.seed)
    }

    fn scipp(
        &self,
        context: &mut Context<'_>,
        entry: &Entry,
        size_bytes: usize,
        placement: Placement,
        goal: Goal,
    ) -> Result<Figure> {
        let timer = context.timer;
        let plan = Self::plan(context);
        let duplex = Duplex::new(&self.nodes)?;
        let (near, far) = duplex.ends(placement)?;
        let near = Near::new(near)?;
        pinned_pair::on(self.cpus, |pair| {
            near.check(&mut FarThread { pair: &mut *pair, end: far }, size_bytes, CHECKED)?;
            let sides = ScippSides::new(&timer, pair, near, far, size_bytes)?;
            let samples = u64::from(sides.pace().shape.samples);
            context.paired(&plan, sides, samples, |sides| {
                let pace = sides.pace();
                let mut spec = self.spec(entry, "ns", goal);
                spec.size_bytes = Some(size_bytes as u64);
                spec.reference = ScippSides::baseline_name(placement, size_bytes);
                spec.distribution = sides.all.summary();
                spec.notes.extend([
                    format!(
                        "{} round trips a sample; {PLACES} places in turn, the baseline on the same lines",
                        pace.shape.batch
                    ),
                    format!(
                        "polls: ours {:?}, baseline {:?}, each the faster when tried",
                        pace.poll,
                        sides.baseline_poll()
                    ),
                    format!("{} messages each way checked byte by byte before", 2 * CHECKED),
                ]);
                spec
            })
        })
    }

    fn put(
        &self,
        context: &mut Context<'_>,
        entry: &Entry,
        size_bytes: usize,
        cold: bool,
        goal: Goal,
    ) -> Result<Figure> {
        let timer = context.timer;
        let plan = BlockPlan::against_rival(context.options.max_time, context.options.seed);
        let [near, far] = &self.nodes;
        let there = connected(far, near, size_bytes)?;
        let target = there.map.window()?;
        pinned_pair::pinned(self.cpus[0], || {
            let field = PutField::new(&timer, &there.remote, target, size_bytes, cold)?;
            let copies = u64::from(field.copies());
            context.against_best(
                &plan,
                field,
                copies,
                |ns| size_bytes as f64 / ns,
                |_| {
                    let mut spec = self.copy_spec(entry, "GB/s", size_bytes, goal);
                    let before = if cold { "whose lines are evicted before each" } else { "each time" };
                    spec.notes.push(format!(
                        "a reading is the fastest of {copies} copies, the same two buffers {before}"
                    ));
                    spec
                },
            )
        })
    }

    /// The common part of the figures of copies, which one processor makes.
    fn copy_spec(&self, entry: &Entry, unit: &'static str, size_bytes: usize, goal: Goal) -> Spec {
        let mut spec = self.spec(entry, unit, goal);
        spec.size_bytes = Some(size_bytes as u64);
        spec.cpus.truncate(1);
        spec.version = crate::env::libc_version().unwrap_or_default();
        spec
    }

    fn store(
        &self,
        context: &mut Context<'_>,
        entry: &Entry,
        size_bytes: usize,
        goal: Goal,
    ) -> Result<Figure> {
        let timer = context.timer;
        let plan = BlockPlan::against_rival(context.options.max_time, context.options.seed);
        let [near, far] = &self.nodes;
        let there = connected(far, near, size_bytes)?;
        let target = there.map.window()?;
        pinned_pair::pinned(self.cpus[0], || {
            let mut sides = StoreSides::new(&timer, &there.remote, target, Way::Map, size_bytes)?;
            sides.store_known(size_bytes as u64)?;
            check_here(Tool::Scibench2, &there.segment, size_bytes, size_bytes as u64)?;
            let stores = sides.pace().events();
            context.against_best(&plan, sides, stores, |ns| size_bytes as f64 / ns, |sides| {
                let mut spec = self.copy_spec(entry, "GB/s", size_bytes, goal);
                spec.notes.push(format!(
                    "stores through a map of the segment, the same two blocks each time; {} share a sample, {} samples a \
                     reading; the bytes were checked by the owner before",
                    sides.pace().batch(),
                    sides.pace().samples(),
                ));
                spec
            })
        })
    }

    fn dma(
        &self,
        context: &mut Context<'_>,
        entry: &Entry,
        shape: Shape,
        cold: bool,
        goal: Goal,
    ) -> Result<Figure> {
        let timer = context.timer;
        let plan = BlockPlan::against_rival(context.options.max_time, context.options.seed);
        let [near, far] = &self.nodes;
        let there = connected(far, near, shape.total_bytes())?;
        let here = near.create_segment_with(&SegmentOptions::new(shape.total_bytes()))?;
        let extra_ns = if shape.size_bytes < LONG_BYTES { ENTRY_NS } else { 0.0 };
        let against = Against::Best { map: there.map.window()?, extra_ns, cold };
        pinned_pair::pinned(self.cpus[0], || {
            let sides = DmaSides::new(&timer, near, &here, &there.remote, shape, against)?;
            sides.check()?;
            let samples = sides.vectors_per_reading();
            context.against_best(
                &plan,
                sides,
                samples,
                |ns| ns,
                |_| {
                    let mut spec = self.copy_spec(entry, "ns", shape.size_bytes, goal);
                    let entries = shape.entries;
                    spec.notes.push(format!("gather, post and wait of {entries} entries, by {entries}"));
                    spec.notes.push(format!("reference: {entries} copies one after the other"));
                    if cold {
                        spec.notes.push("the lines of both sides are evicted before each vector".to_owned());
                    }
                    spec
                },
            )
        })
    }

    fn spinning(&self, context: &mut Context<'_>, entry: &Entry, goal: Goal) -> Result<Figure> {
        let timer = context.timer;
        let plan = Self::plan(context);
        let wires = Wires::new(&self.nodes)?;
        let lines: Vec<_> = (0..BASELINE_LINES).map(|_| Lines::new()).collect();
        pinned_pair::on(self.cpus, |pair| {
            let sides = SpinningSides::new(&timer, pair, wires, &lines)?;
            let samples = u64::from(sides.shape().samples);
            context.paired(&plan, sides, samples, |sides| {
                let mut spec = self.spec(entry, "ns", goal);
                spec.reference = "half the round trip of one cache line".to_owned();
                spec.distribution = sides.all.summary();
                spec.notes
                    .push("half a round trip of trigger and wait; both sides spin inside wait".to_owned());
                spec.notes.push(format!(
                    "baseline on {BASELINE_LINES} other lines in turn: the interrupt's own words are its owner's"
                ));
                if let Some(counted_ns) = sides.counted_ns() {
                    spec.notes.push(format!(
                        "bare loops beside it that raise counts by an atomic addition, each end in a line of its \
                         own, as triggers must: {counted_ns:.1} ns"
                    ));
                }
                spec
            })
        })
    }

    fn sleeping(&self, context: &mut Context<'_>, entry: &Entry, goal: Goal) -> Result<Figure> {
        let timer = context.timer;
        // A reading of a few dozen wake-ups scatters by itself.
        let plan = BlockPlan { disturbed_above: 0.5, half_width: 0.02, ..Self::plan(context) };
        let wires = Wires::new(&self.nodes)?;
        pinned_pair::on(self.cpus, |pair| {
            let sides = SleepingSides::new(&timer, pair, wires)?;
            context.paired(&plan, sides, u64::from(WAKES), |sides| {
                let mut spec = self.spec(entry, "ns", goal);
                spec.reference = "FUTEX_WAKE until the sleeper runs".to_owned();
                spec.distribution = sides.all.summary();
                spec.notes.push(
                    "from before the trigger until wait has returned, one counter read on both processors"
                        .to_owned(),
                );
                spec
            })
        })
    }

    fn connect(&self, context: &mut Context<'_>, entry: &Entry, at_most: f64) -> Result<Figure> {
        let plan = Self::plan(context);
        let sides = ConnectSides::new(&self.nodes, at_most)?;
        context.paired(&plan, sides, connect::CONNECTS as u64, |sides| {
            let mut spec = self.spec(entry, "us", Goal::at_most(1.0));
            spec.size_bytes = Some(connect::SEGMENT_BYTES as u64);
            spec.cpus.clear();
            spec.kind = ReferenceKind::Fixed;
            spec.reference = format!("at most {at_most} us");
            spec.argv.clear();
            spec.distribution = sides.all.summary();
            spec.notes.push("not pinned: the managers take part".to_owned());
            spec
        })
    }
}
