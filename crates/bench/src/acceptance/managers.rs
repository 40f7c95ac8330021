//! Figures of the node managers: their cost while idle, and how fast a cluster starts.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{
    Context,
    catalogue::{Entry, Kind},
    control, control_error, shadow, tests_of_clusters as tests,
};
use crate::{
    cluster::{ClusterControl, Running},
    error::{BenchError, Result},
    figure::{Figure, ReferenceKind, Spec, Stat},
    patterns::manager::{idle_blocks, pss_bytes},
    stats::paired::Block,
    verdict::Goal,
};

/// The idle clusters: each manager has eight sessions, or fifteen with TLS.
pub(super) const IDLE: Size = Size::Nodes(9);
pub(super) const IDLE_HOSTS: Size = Size::Hosts(16);
/// A few hosts, for a test of all of them.
pub(super) const FOUR_HOSTS: Size = Size::Hosts(4);
/// The large clusters.
pub(super) const MANY: Size = Size::Nodes(64);
pub(super) const MANY_HOSTS: Size = Size::Hosts(64);
/// After the start managers may still be busy with it.
const SETTLE: Duration = Duration::from_secs(2);
/// Windows of the idle measurement: 12 s in all.
const WINDOWS: u32 = 6;
const WINDOW: Duration = Duration::from_secs(2);
/// How often a large cluster is started.
const STARTS: usize = 3;
const MEGABYTE: f64 = 1e6;

/// A cluster that is started to be measured.
#[derive(Debug, Clone, Copy)]
pub(super) enum Size {
    /// All nodes on this host.
    Nodes(usize),
    /// A node on each of so many hosts in namespaces.
    Hosts(usize),
}

impl Size {
    fn start(self, cluster: &mut dyn ClusterControl) -> Result<Running> {
        let running = match self {
            Self::Nodes(nodes) => cluster.up(nodes),
            Self::Hosts(hosts) => cluster.up_hosts(hosts),
        };
        running.map_err(control_error)
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nodes(nodes) => write!(f, "{nodes} nodes"),
            Self::Hosts(hosts) => write!(f, "{hosts} hosts in namespaces"),
        }
    }
}

pub(super) fn measure_idle(
    context: &mut Context<'_>,
    entries: &[Entry],
    cluster: &mut Option<&mut dyn ClusterControl>,
    size: Size,
) {
    let Some(first) = entries.first() else { return };
    if context.progress.stop() {
        return context.miss_all(entries, &super::EndedEarly);
    }
    let cluster = match control(cluster, first.id) {
        Ok(cluster) => cluster,
        Err(error) => return context.miss_all(entries, &error),
    };
    match size.start(cluster) {
        Ok(running) => {
            thread::sleep(SETTLE);
            for entry in entries {
                if context.is_ended(entry.id) {
                    continue;
                }
                context.tell(entry.id);
                let figure = match entry.kind {
                    Kind::Load { .. } | Kind::Verify { .. } => tests::of(context, entry, cluster),
                    Kind::Shadow { above_us } => shadow::measure(context, entry, above_us, &running),
                    _ => idle(context, entry, &running),
                };
                context.keep(entry.id, figure);
            }
        }
        Err(error) => context.miss_all(entries, &error),
    }
    if let Err(error) = cluster.down() {
        context.miss("cluster.down", &control_error(error));
    }
}

pub(super) fn spec(entry: &Entry, unit: &'static str, stat: Stat, at_most: f64, note: String) -> Spec {
    Spec {
        id: entry.id.to_owned(),
        unit,
        stat,
        size_bytes: None,
        cpus: Vec::new(),
        path: "shm".to_owned(),
        kind: ReferenceKind::Fixed,
        reference: format!("at most {at_most} {unit}"),
        version: String::new(),
        argv: Vec::new(),
        goal: Goal::at_most(1.0),
        distribution: None,
        notes: vec![entry.what.to_owned(), note],
    }
}

pub(super) fn figure(spec: Spec, blocks: Vec<Block>, seed: u64) -> Result<Figure> {
    let (id, n) = (spec.id.clone(), blocks.len() as u64);
    Figure::of(spec, n, blocks, Vec::new(), seed).ok_or(BenchError::NoBlocks { id })
}

fn idle(context: &mut Context<'_>, entry: &Entry, running: &Running) -> Result<Figure> {
    let seed = context.options.seed;
    match entry.kind {
        Kind::IdleCpu { at_most } => {
            let blocks = idle_blocks(&running.manager_pids, WINDOWS, WINDOW, at_most, &mut |_| {})?;
            let note = format!(
                "{} managers, {WINDOWS} windows of {} s, scaled to a minute; a block for each manager and window",
                running.manager_pids.len(),
                WINDOW.as_secs()
            );
            figure(spec(entry, "ms/min", Stat::Mean, at_most, note), blocks, seed)
        }
        Kind::IdlePss { at_most } => {
            let blocks = memory(&running.manager_pids, at_most)?;
            let note = format!("Pss of {} managers; the largest counts", blocks.len());
            figure(spec(entry, "MB", Stat::Max, at_most, note), blocks, seed)
        }
        _ => Err(BenchError::Usage(format!("{} is no figure of an idle manager", entry.id))),
    }
}

fn memory(pids: &[u32], at_most: f64) -> Result<Vec<Block>> {
    pids.iter()
        .map(|pid| Ok(Block { ours: pss_bytes(*pid)? as f64 / MEGABYTE, reference: at_most }))
        .collect()
}

pub(super) fn measure_up(
    context: &mut Context<'_>,
    entries: &[Entry],
    cluster: &mut Option<&mut dyn ClusterControl>,
    size: Size,
) {
    let Some(first) = entries.first() else { return };
    if context.progress.stop() {
        return context.miss_all(entries, &super::EndedEarly);
    }
    let cluster = match control(cluster, first.id) {
        Ok(cluster) => cluster,
        Err(error) => return context.miss_all(entries, &error),
    };
    context.tell(first.id);
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        let start = one_start(cluster, size);
        if let Err(error) = cluster.down() {
            context.miss("cluster.down", &control_error(error));
        }
        match start {
            Ok(start) => starts.push(start),
            Err(error) => return context.miss_all(entries, &error),
        }
    }
    for entry in entries {
        let figure = up(context, entry, &starts, size);
        context.keep(entry.id, figure);
    }
}

struct Start {
    seconds: f64,
    /// Of each manager.
    pss_bytes: Vec<u64>,
}

fn one_start(cluster: &mut dyn ClusterControl, size: Size) -> Result<Start> {
    let began = Instant::now();
    let running = size.start(cluster)?;
    let seconds = began.elapsed().as_secs_f64();
    let pss_bytes = running.manager_pids.iter().map(|pid| pss_bytes(*pid)).collect::<Result<_>>()?;
    Ok(Start { seconds, pss_bytes })
}

fn up(context: &Context<'_>, entry: &Entry, starts: &[Start], size: Size) -> Result<Figure> {
    let note = format!("the worst of {STARTS} starts of {size}");
    let (unit, at_most, value): (_, _, &dyn Fn(&Start) -> f64) = match entry.kind {
        Kind::Up { at_most } => ("s", at_most, &|start| start.seconds),
        Kind::UpPss { each: false, at_most } => {
            ("MB", at_most, &|start| start.pss_bytes.iter().sum::<u64>() as f64 / MEGABYTE)
        }
        Kind::UpPss { each: true, at_most } => {
            ("MB", at_most, &|start| start.pss_bytes.iter().max().map_or(0.0, |most| *most as f64) / MEGABYTE)
        }
        _ => return Err(BenchError::Usage(format!("{} is no figure of a start", entry.id))),
    };
    let blocks = starts.iter().map(|start| Block { ours: value(start), reference: at_most }).collect();
    figure(spec(entry, unit, Stat::Max, at_most, note), blocks, context.options.seed)
}
