//! Figures of accesses to memory of another node, beside one-sided operations of an MPI.

use super::{
    Context,
    catalogue::{Entry, Memory},
    pair::{Pair, alone},
};
use crate::{
    error::Result,
    figure::{Figure, ReferenceKind},
    patterns::{
        messages::Mpi,
        pt2pt::{Access, Accessed},
    },
    pinned_pair,
    run::{BlockPlan, Sides},
};

/// As many times as long as others such a figure is measured: its readings start programs.
const RIVAL_TIMES: u32 = 10;

struct BesideMpi {
    ours: Accessed,
    mpi: Mpi,
    access: Access,
}

impl Sides for BesideMpi {
    fn ours(&mut self) -> Result<f64> {
        self.ours.reading_ns()
    }

    fn reference(&mut self) -> Result<f64> {
        self.mpi.access_ns(self.access)
    }
}

pub(super) fn measure(context: &mut Context<'_>, pair: &Pair, entry: &Entry, what: Memory) -> Result<Figure> {
    let Memory { access, mpi, goal } = what;
    let (cpus, waiter) = (pair.cpus, context.progress.waiter());
    let plan = BlockPlan::against_rival(context.options.max_time * RIVAL_TIMES, context.options.seed);
    let rival = Mpi::new(mpi, cpus, &waiter)?;
    pinned_pair::pinned(cpus[0], || {
        let ours = Accessed::new(&pair.place, access, &waiter)?;
        context.paired(&plan, BesideMpi { ours, mpi: rival, access }, access.count() as u64, |_| {
            let mut spec = pair.spec(entry, "ns", goal);
            spec.size_bytes = Some(access.size_bytes as u64);
            (spec.kind, spec.version) = (ReferenceKind::Rival, mpi.version());
            spec.reference = format!("{}, one-sided operations with a flush behind each", mpi.name());
            spec.argv = alone(entry.id);
            spec.notes.push(format!("rival: `{}`", mpi.access_argv(access, cpus).join(" ")));
            spec.notes
                .push("the rival is started for each reading, and not counted while it starts".to_owned());
            spec
        })
    })
}
