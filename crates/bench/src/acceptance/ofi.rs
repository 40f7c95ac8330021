//! Figures of the link between hosts, beside bare loops of libfabric's calls.

use std::sync::Arc;

use super::{
    Context,
    catalogue::{Entry, Ofi},
    pair::alone,
};
use crate::{
    cpus,
    error::{BenchError, Result},
    figure::{Figure, ReferenceKind, Spec, Stat},
    patterns::{
        hosts::Hosts,
        ofi::{Beside, Iperf, Load, PROVIDER},
    },
    run::BlockPlan,
    verdict::Goal,
};

/// As many times as long as others a figure with a rate is measured.
const RAILS_TIMES: u32 = 4;
/// The same for one whose readings have some hundred puts that each wait behind blocks.
const URGENT_TIMES: u32 = 20;
/// The same for one whose readings wait for a rail that was cut.
const CUT_TIMES: u32 = 40;
const WHAT: &str = "the link between hosts";

pub(super) fn measure(context: &mut Context<'_>, entry: &Entry, Ofi { load, goal }: Ofi) -> Result<Figure> {
    let cpus = cpus::pair(context.options.cpus, WHAT)?;
    let wanted = ofi::Wanted { provider: Some(PROVIDER.to_owned()), source: None, is_exact: false };
    ofi::offers(&wanted).map_err(|error| BenchError::Absent { what: WHAT, reason: error.to_string() })?;
    let is_rails = load.is_over_rails();
    let hosts = Arc::new(if is_rails { Hosts::with_rails(2)? } else { Hosts::new()? });
    let mut iperf = Iperf::default();
    let is_stream = matches!(load, Load::Stream { .. });
    if is_stream {
        iperf.measure(&hosts, cpus);
    }
    let mut sides = Beside::start(load, cpus, Arc::clone(&hosts), &context.progress.waiter())?;
    let version = sides.version()?;
    // At 1 Gbit/s a reading takes long.
    let times = match load {
        Load::Cut => CUT_TIMES,
        Load::Urgent => URGENT_TIMES,
        load if load.is_over_rails() => RAILS_TIMES,
        _ => 1,
    };
    let max_time = context.options.max_time * times;
    // Each reading of a kernel's connection scatters by itself.
    let plan = BlockPlan { disturbed_above: 0.5, ..BlockPlan::against_rival(max_time, context.options.seed) };
    context.paired(&plan, sides, load.count(), |sides| {
        if is_stream {
            iperf.measure(&hosts, cpus);
        }
        let mut spec = spec(entry, load, goal, cpus);
        spec.version = version;
        spec.notes.push(match sides.beside_ns() {
            Some([tcp_ns, put_and_poll_ns]) => format!(
                "beside it, in the same run: {tcp_ns:.0} ns over a TCP socket whose ends sleep; {put_and_poll_ns:.0} ns \
                 by put and a look at the word that the peer puts"
            ),
            None if is_stream => match sides.copied_gb_s() {
                Some(copied_gb_s) => format!(
                    "a bare loop that copies each block first, as a put must whose caller may change the block at \
                     once: {copied_gb_s:.2} GB/s; {}",
                    iperf.note()
                ),
                None => iperf.note(),
            },
            None if load == Load::Cut => {
                "each cable lets 1 Gbit/s through in each direction (tbf); the second one is taken down after 0.1 s, and what counts begins 0.1 s \
                 later; every byte is compared; both sides run by turns, never at once"
                    .to_owned()
            }
            None if load == Load::Urgent => {
                "each cable lets 1 Gbit/s through in each direction (tbf); until the answer is there, for which both ends look every 20 us and \
                 more; both sides run by turns, never at once"
                    .to_owned()
            }
            None if is_rails => {
                "each cable lets 1 Gbit/s through in each direction (tbf); both sides run by turns, never at once".to_owned()
            }
            None => "each put is confirmed by the owner's thread, which sleeps between two puts on both sides".to_owned(),
        });
        spec
    })
}

fn spec(entry: &Entry, load: Load, goal: Goal, cpus: [usize; 2]) -> Spec {
    let (unit, size_bytes, reference) = match load {
        Load::Echo => ("ns", 8, "a bare loop of fi_tsend and fi_trecv"),
        Load::Put => ("ns", 8, "a bare loop of fi_write, each with its completion"),
        Load::Stream { size_bytes } => ("GB/s", size_bytes, "a bare loop of fi_write, 16 at a time"),
        Load::TwoRails { size_bytes } => ("GB/s", size_bytes, "the same link over one of the two rails"),
        Load::Cut => ("GB/s", 1 << 20, "the same link over one rail"),
        Load::Urgent => ("ns", 64, "a chunk of a block over one rail"),
    };
    let cables = if load.is_over_rails() { "two veth pairs" } else { "a veth pair" };
    Spec {
        id: entry.id.to_owned(),
        unit,
        stat: Stat::P50,
        size_bytes: Some(size_bytes),
        cpus: cpus.to_vec(),
        path: "ofi".to_owned(),
        kind: ReferenceKind::Rival,
        reference: reference.to_owned(),
        version: String::new(),
        argv: alone(entry.id),
        goal,
        distribution: None,
        notes: vec![
            entry.what.to_owned(),
            format!(
                "two hosts in network namespaces, joined by {cables}; provider {PROVIDER}; each end has one processor"
            ),
        ],
    }
}
