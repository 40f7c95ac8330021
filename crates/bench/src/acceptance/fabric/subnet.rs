//! Figures of the subnet manager, on a served fabric; OpenSM once on the same fabric where it is
//! installed.

use std::sync::Arc;

use super::*;
use crate::{
    patterns::subnet::{self, Load, OpenSm, Outcome},
    progress::Waiter,
};

/// The time that OpenSM gets for each step.
const RIVAL_LIMIT: Duration = Duration::from_secs(180);
/// Requests for paths of one reading.
const REQUESTS: usize = 20_000;

pub(super) fn measure(
    context: &Context<'_>,
    entry: &Entry,
    load: Load,
    radix: u32,
    limit: f64,
) -> Result<Figure> {
    let graph = tree(radix)?;
    let program = std::env::current_exe().map_err(BenchError::io("the path of this program"))?;
    let waiter = context.progress.waiter();
    match load {
        Load::Paths => return paths(context, entry, &program, &graph, limit),
        Load::Memory => {
            let peak = subnet::memory(&program, &graph, &waiter)?;
            let note = "the largest resident size, after a bring-up and the repair of a cable";
            let spec =
                Spec { path: "fabric".to_owned(), ..spec(entry, "MB", Stat::Max, limit, note.to_owned()) };
            return figure(spec, vec![Block { ours: peak / 1e6, reference: limit }], context.options.seed);
        }
        _ => {}
    }
    let outcomes = match load {
        Load::OneLink => subnet::one_link(&program, &graph, LONG_READINGS, &waiter)?,
        Load::Switch => subnet::switch(&program, &graph, LONG_READINGS, &waiter)?,
        _ => repeated(context, || match load {
            Load::Failover { tuned } => subnet::failover(&program, &graph, tuned, &waiter),
            _ => subnet::bring_up(&program, &graph, &waiter),
        })?,
    };
    let mut notes: Vec<String> = outcomes.iter().map(|one| one.note.clone()).collect();
    notes.dedup();
    notes.push(rival(load, &program, &graph, &waiter));
    let blocks = outcomes.iter().map(|one| Block { ours: one.seconds, reference: limit }).collect();
    of_seconds(context, entry, limit, blocks, notes)
}

fn repeated(context: &Context<'_>, mut one: impl FnMut() -> Result<Outcome>) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    while outcomes.len() < LONG_READINGS && (outcomes.is_empty() || !context.progress.stop()) {
        outcomes.push(one()?);
    }
    Ok(outcomes)
}

/// What OpenSM takes for the same, once, in words.
fn rival(load: Load, program: &std::path::Path, graph: &Graph, waiter: &Arc<dyn Waiter>) -> String {
    if matches!(load, Load::Failover { .. }) {
        return "known of OpenSM 3.3.23: 30.8 s by default, 3.0 s tuned (1 s, 2 retries); not run here"
            .to_owned();
    }
    let measured = OpenSm::start(program, graph, waiter).and_then(|mut opensm| {
        let up = opensm.bring_up(RIVAL_LIMIT)?;
        match load {
            Load::OneLink if up.is_some() => opensm.one_link(RIVAL_LIMIT),
            Load::Switch if up.is_some() => opensm.switch(RIVAL_LIMIT),
            _ => Ok(up),
        }
    });
    match measured {
        Ok(Some(seconds)) => format!("OpenSM (ftree) on the same served fabric, once: {seconds:.2} s"),
        Ok(None) => {
            format!("OpenSM (ftree) on the same served fabric was not done after {} s", RIVAL_LIMIT.as_secs())
        }
        Err(error) => format!("OpenSM was not measured: {error}"),
    }
}

fn paths(
    context: &Context<'_>,
    entry: &Entry,
    program: &std::path::Path,
    graph: &Graph,
    at_least: f64,
) -> Result<Figure> {
    let rates = subnet::paths(program, graph, REQUESTS, LONG_READINGS, &context.progress.waiter())?;
    let slowest = rates.iter().map(|rate| rate.p99_us).fold(0.0, f64::max);
    let notes = [
        entry.what.to_owned(),
        format!(
            "{REQUESTS} requests by LIDs from one program, 64 in flight, by turns to the manager and to an echo at another host"
        ),
        format!(
            "one request at a time: 99 of 100 take {slowest:.0} us at most; many clients were not measured"
        ),
        "known of OpenSM: not measured".to_owned(),
    ];
    let spec = Spec {
        path: "fabric".to_owned(),
        goal: Goal::at_least(at_least),
        kind: ReferenceKind::Baseline,
        reference: "requests that a program sends back as they came".to_owned(),
        notes: notes.to_vec(),
        ..spec(entry, "M/s", Stat::Mean, at_least, String::new())
    };
    let blocks =
        rates.iter().map(|rate| Block { ours: rate.ours / 1e6, reference: rate.echo / 1e6 }).collect();
    figure(spec, blocks, context.options.seed)
}
