//! The steps: what each calls, and its result in one line.

mod everywhere;

use std::time::{Duration, Instant};

use bench::noise::others::{Load, Meter};
use bench::results::Document;
use bench::thresholds::{Judgements, Thresholds};
use serde_json::Value;
use tieline::NodeId;

use super::closing::{self, Changes};
use super::depth::{Curves, Plan};
use super::others::Others;
use super::{Control, Start, Step, busy, counted, curves};
use crate::capacity::CouldNotRun;
use crate::exchange::{self, ExchangeReport};
use crate::latency::{self, LatencyReport, NotMeasured};
use crate::own::Removal;
use crate::pairs::{self, NamesReport, PairsReport};
use crate::status::{self, ClusterReport, Hosts};
use crate::suspect::Suspected;
use crate::swap::Swaps;
use crate::target::Target;
use crate::verdict::Verdict;

/// How long the instances of the load test wait for each other: they are started together.
const MEET: Duration = Duration::from_secs(5);

/// Does steps, times them, and stops doing them when that is asked for.
pub(super) struct Steps<'a, 'b> {
    done: Vec<Step>,
    control: &'a mut Control<'b>,
    /// Which nodes could not take part, to be added to what a step says.
    left_out: String,
    /// This host has one node, and others have more: what needs two nodes of one host is left out.
    is_one_of_many_hosts: bool,
    /// What the cable test knows to be swapped.
    pub(super) swaps: Swaps,
    /// The suspects, as the tests of one pair say.
    pub(super) of_pair: Vec<Suspected>,
    /// Since when nothing more is done.
    ended_after: Option<&'static str>,
}

/// What a step gave, what came of it, and in one line.
type Outcome<T> = (T, Verdict, String);

impl<'a, 'b> Steps<'a, 'b> {
    pub(super) fn new(control: &'a mut Control<'b>) -> Self {
        Self {
            done: Vec::new(),
            control,
            left_out: String::new(),
            is_one_of_many_hosts: false,
            swaps: Swaps::default(),
            of_pair: Vec::new(),
            ended_after: None,
        }
    }

    fn run<T>(&mut self, name: &'static str, work: impl FnOnce(&mut Control<'b>) -> Outcome<T>) -> T {
        let (start, meter) = (Instant::now(), Meter::start());
        (self.control.tell)(name);
        let (result, verdict, mut detail) = work(self.control);
        detail.push_str(&self.left_out);
        let (duration_s, load) = (start.elapsed().as_secs_f64(), meter.read());
        let step = Step { name, verdict, detail, duration_s, load };
        (self.control.done)(&step);
        self.done.push(step);
        if self.ended_after.is_none() && (self.control.stop)() {
            self.ended_after = Some(name);
        }
        result
    }

    /// What the step before has seen of other work itself.
    fn saw(&mut self, load: Load) {
        if let Some(step) = self.done.last_mut() {
            step.load = step.load.or_worse(load);
        }
    }

    /// What the step before has seen of other work says nothing.
    fn saw_nothing(&mut self) {
        if let Some(step) = self.done.last_mut() {
            step.load = Load::default();
        }
    }

    /// A step that is left out when the end was asked for.
    fn unless_ended<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce(&mut Control<'b>) -> Outcome<T>,
    ) -> Option<T> {
        if self.ended_after.is_some() { None } else { Some(self.run(name, work)) }
    }

    /// All steps, and why there are not more, if so.
    pub(super) fn end(self) -> (Vec<Step>, Option<String>) {
        let why =
            self.ended_after.map(|step| format!("ended early by a signal, in or after the step `{step}`"));
        (self.done, why)
    }

    /// Does in place of a step that needs two nodes what can be done with fewer: it says so.
    fn is_alone(&mut self, name: &'static str, target: &Target) -> bool {
        let Some(why) = target.lacks_a_peer() else { return false };
        if self.is_one_of_many_hosts {
            return true;
        }
        self.unless_ended(name, |_| ((), Verdict::Inconclusive, format!("{}{why}", super::SKIPPED)));
        true
    }

    /// From now on steps name these nodes as not having taken part.
    pub(super) fn leave_out(&mut self, silent: &[(NodeId, String)]) {
        let ids: Vec<String> = silent.iter().map(|(node, _)| node.to_string()).collect();
        if !ids.is_empty() {
            self.left_out = format!("; node {} does not respond", ids.join(", "));
        }
    }

    /// Starts the cluster, if it is one of the test's own.
    pub(super) fn reach(&mut self, start: &Start) -> Result<(Target, Option<Removal>), CouldNotRun> {
        match start {
            Start::Running(target) => Ok((target.clone(), None)),
            Start::Own(own) => {
                let (target, removal) = self.run("up", |control| match own.up(control.tell) {
                    Ok((target, removal, took)) => {
                        let detail = format!(
                            "{} nodes, all sessions valid after {:.2} s",
                            target.nodes.len(),
                            took.as_secs_f64()
                        );
                        (Ok((target, removal)), Verdict::Pass, detail)
                    }
                    Err(error) => {
                        let detail = error.to_string();
                        (Err(error), Verdict::Fail, detail)
                    }
                })?;
                Ok((target, Some(removal)))
            }
        }
    }

    /// How the managers are, and which nodes other hosts have.
    pub(super) fn status(
        &mut self,
        hosts: Hosts,
        target: &Target,
    ) -> Result<(ClusterReport, Others), CouldNotRun> {
        let found = self.run("status", |control| {
            let report = status::collect_settled_on(hosts, target, control.stop).map_err(CouldNotRun::from);
            let both = report.and_then(|report| {
                let others = Others::of(target, &report)?;
                Ok((report, others))
            });
            outcome(both, |(report, others)| {
                let (nodes, problems) = (report.nodes.len(), report.problems.len());
                let mut detail = format!("{}, {}", counted(nodes, "node"), counted(problems, "problem"));
                detail.push_str(&others.summary(nodes));
                if let (Verdict::Fail, Some(first)) = (report.verdict, report.problems.first()) {
                    detail.push_str(&format!(": {first}"));
                }
                (report.verdict, detail)
            })
        })?;
        self.is_one_of_many_hosts = found.0.nodes.len() < 2 && !found.1.nodes.is_empty();
        Ok(found)
    }

    pub(super) fn names(&mut self, target: &Target) -> NamesReport {
        if self.is_alone("names", target) {
            return NamesReport::of_nobody();
        }
        let swaps = self.swaps.clone();
        let report = self.unless_ended("names", |_| {
            let report = pairs::names(target);
            let suspects = report.suspects(&target.nodes);
            let verdict = report.verdict;
            let detail = report.summary() + &reason(verdict, &suspects) + &swaps.cause(&suspects);
            (report, verdict, detail)
        });
        let report = report.unwrap_or_else(NamesReport::of_nobody);
        self.saw(report.load);
        report
    }

    pub(super) fn exchange(&mut self, target: &Target, seed: u64, names: &NamesReport) -> ExchangeReport {
        if self.is_alone("exchange", target) {
            return ExchangeReport::of_nothing();
        }
        let swaps = self.swaps.clone();
        let report = self.unless_ended("exchange", |control| {
            let obstacle = |from, to| names.obstacle(from, to).map(|obstacle| obstacle.why.clone());
            let report = exchange::run(target, seed, obstacle, |done, total| {
                (control.tell)(&format!("exchange: pair {done} of {total}"));
                (control.stop)()
            });
            let suspects = swaps.name(&target.nodes, report.bad_links(|_, _| false));
            let verdict = report.verdict;
            let detail = report.summary() + &reason(verdict, &suspects) + &swaps.cause(&suspects);
            (report, verdict, detail)
        });
        let report = report.unwrap_or_else(ExchangeReport::of_nothing);
        self.saw(report.load);
        report
    }

    pub(super) fn pairs(&mut self, target: &Target, seed: u64, plan: Plan) -> Option<PairsReport> {
        if self.is_alone("pairs", target) {
            return None;
        }
        let swaps = self.swaps.clone();
        let report = self.unless_ended("pairs", |control| {
            let Plan { rounds, watch, most_pairs, .. } = plan;
            let plan = pairs::Plan { rounds, watch, limits: pairs::Limits::default(), seed, most_pairs };
            let report = pairs::run(target, &plan, control.tell, control.stop);
            let (verdict, suspects) = (report.verdict, &report.suspects);
            let detail = report.summary() + &reason(verdict, suspects) + &swaps.cause(suspects);
            (report, verdict, detail)
        });
        self.saw(report.as_ref().map(|report| report.load).unwrap_or_default());
        report
    }

    pub(super) fn scipp(&mut self, target: &Target) -> Option<LatencyReport> {
        if self.is_alone("scipp", target) {
            return None;
        }
        let swaps = self.swaps.clone();
        let mut blamed = Vec::new();
        let report =
            self.unless_ended("scipp", |control| match latency::run(target, control.tell, control.stop) {
                Ok(report) => {
                    blamed = swaps.name(&target.nodes, report.bad_link().into_iter().collect());
                    let (verdict, detail) = (report.verdict, report.summary() + &swaps.cause(&blamed));
                    (Some(report), verdict, detail)
                }
                Err(NotMeasured::Link([a, b], why)) => {
                    blamed = swaps.name(&target.nodes, vec![([a, b], format!("latency: {why}"))]);
                    let cause = swaps.cause(&blamed);
                    (None, Verdict::Fail, format!("nodes {a} and {b}: not measured: {why}{cause}"))
                }
                Err(NotMeasured::Impossible(why)) => {
                    (None, Verdict::Inconclusive, format!("{}{why}", super::SKIPPED))
                }
                // Ended by its own limit of time or by a signal, before there was anything.
                Err(NotMeasured::Busy(why)) => (None, Verdict::Inconclusive, format!("not measured: {why}")),
                Err(NotMeasured::Failed(why)) => (None, Verdict::Fail, format!("did not run: {why}")),
            });
        self.of_pair.extend(blamed);
        let report = report.flatten();
        self.saw(report.as_ref().map(|report| report.load).unwrap_or_default());
        report
    }

    pub(super) fn curves(&mut self, target: &Target, curves: Curves, seed: u64) -> Vec<Value> {
        if self.is_alone("curves", target) {
            return Vec::new();
        }
        let swaps = self.swaps.clone();
        let mut blamed = Vec::new();
        let documents = self.unless_ended("curves", |control| {
            let measured = curves::measure(target, curves, seed, control);
            blamed = swaps.name(&target.nodes, measured.bad_links.clone());
            let verdict = match (measured.failed, measured.missing.is_empty()) {
                (true, _) => Verdict::Fail,
                (false, true) => Verdict::Pass,
                (false, false) => Verdict::Inconclusive,
            };
            let mut detail = format!("{} benchmarks of one pair", measured.documents.len());
            if verdict == Verdict::Inconclusive && !measured.unanswered {
                detail.insert_str(0, super::SKIPPED);
            }
            for missing in &measured.missing {
                detail.push_str("; ");
                detail.push_str(missing);
            }
            detail.push_str(&swaps.cause(&blamed));
            (measured.documents, verdict, detail)
        });
        self.of_pair.extend(blamed);
        documents.unwrap_or_default()
    }

    /// Whether all is as it was at the beginning. Also when the end was asked for: it takes no time.
    pub(super) fn closing(&mut self, hosts: Hosts, target: &Target, before: &ClusterReport) -> Changes {
        // What changed may have done so in any step.
        let load = self.done.iter().map(|step| step.load).reduce(Load::or_worse);
        let is_busy = load.is_some_and(|load| load.is_busy());
        let after = |control: &Control<'_>| status::collect_settled_on(hosts, target, control.stop);
        let changes = self.run("closing", |control| match after(control) {
            Ok(after) => {
                let changes = closing::changes(before, &after, is_busy);
                let mut detail = format!(
                    "{} changed during the test, {}",
                    counted(changes.suspects.len(), "node or link")
                        .replace("node or links", "nodes or links"),
                    counted(after.problems.len(), "problem")
                );
                if let Some(first) = changes.late.first() {
                    detail.push_str(&format!(", {} late ({first})", changes.late.len()));
                }
                // The first check has reported what was wrong before.
                let worse = after.verdict > before.verdict;
                let verdict = match (!changes.suspects.is_empty() || worse, changes.late.is_empty()) {
                    (true, _) => Verdict::Fail,
                    (false, true) => Verdict::Pass,
                    (false, false) => Verdict::Inconclusive,
                };
                if verdict == Verdict::Fail
                    && let Some(reason) = changes.reason(before, &after)
                {
                    detail.push_str(&format!(": {reason}"));
                }
                (changes, verdict, detail)
            }
            Err(error) => (Changes::default(), Verdict::Fail, error.to_string()),
        });
        if let Some(load) = load.filter(|_| !changes.late.is_empty()) {
            self.saw(load);
        }
        changes
    }

    /// Judges what was measured by limits from a file. Each document says in itself what was said of it.
    pub(super) fn thresholds(
        &mut self,
        thresholds: &Thresholds,
        latency: Option<&LatencyReport>,
        benchmarks: &mut [Value],
    ) -> Vec<Judgements> {
        let busy = busy::reason(&self.done).is_some();
        self.unless_ended("thresholds", |_| {
            let mut judged = Vec::new();
            let scipp = latency.and_then(|latency| serde_json::to_value(&latency.scipp).ok());
            for value in scipp.iter().chain(benchmarks.iter()) {
                if let Ok(document) = Document::of("this run", value) {
                    judged.push(thresholds.judge(&document));
                }
            }
            judged.retain(|judgements| !judgements.figures.is_empty());
            let figures = judged.iter().map(|judgements| judgements.figures.len()).sum::<usize>();
            let verdict = Verdict::worst(judged.iter().map(|judgements| Verdict::from(judgements.verdict)));
            let failed: Vec<&str> = judged
                .iter()
                .flat_map(|judgements| &judgements.figures)
                .filter(|figure| figure.verdict != bench::verdict::Verdict::Pass)
                .map(|figure| figure.id.as_str())
                .collect();
            let mut detail = format!("{figures} figures judged by {}", thresholds.source);
            if !failed.is_empty() {
                detail.push_str(&format!(", not kept: {}", failed.join(", ")));
            }
            // Nothing that was judged is nothing that passed; what was measured beside other work cannot be
            // judged.
            let verdict = match (figures, busy) {
                (0, false) => Verdict::Fail,
                (_, true) => verdict.min(Verdict::Inconclusive),
                (_, false) => verdict,
            };
            (judged, verdict, detail)
        })
        .unwrap_or_default()
    }
}

/// For the line of a step that failed: the first suspect, what was seen of it, and what to do.
fn reason(verdict: Verdict, suspects: &[Suspected]) -> String {
    let first = suspects.first().filter(|_| verdict == Verdict::Fail);
    first.map(|first| format!(": {}", first.reason())).unwrap_or_default()
}

/// What a step came to; one that could not run ends the whole, and is in no report.
fn outcome<T, E: ToString>(
    result: Result<T, E>,
    judged: impl FnOnce(&T) -> (Verdict, String),
) -> Outcome<Result<T, E>> {
    let (verdict, detail) = match &result {
        Ok(report) => judged(report),
        Err(error) => (Verdict::Fail, error.to_string()),
    };
    (result, verdict, detail)
}
