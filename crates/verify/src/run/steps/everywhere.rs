//! The steps that reach nodes of other hosts, too.

use shm::sync::{AtomicBool, Ordering};
use tieline::NodeId;

use super::{MEET, Steps, outcome};
use crate::cable::{self, CableError, CableReport};
use crate::capacity::CouldNotRun;
use crate::conntest::{self, ConntestReport};
use crate::diag::{self, DiagReport};
use crate::run::counted;
use crate::run::depth::Plan;
use crate::run::others::Others;
use crate::speed::{self, SpeedReport};
use crate::status::Hosts;
use crate::swap::Swaps;
use crate::target::Target;
use crate::verdict::Verdict;

impl Steps<'_, '_> {
    pub(in crate::run) fn diag(
        &mut self,
        hosts: Hosts,
        target: &Target,
        expected: &diag::Expected,
        others: &Others,
    ) -> Result<DiagReport, CouldNotRun> {
        let report = self.unless_ended("diag", |control| {
            let far = if hosts == Hosts::All { others.nodes.clone() } else { Vec::new() };
            let count = far.len();
            let tested = if far.is_empty() {
                diag::run(target, expected, control.stop)
            } else {
                let everywhere = diag::Everywhere { dir: &others.dir, nodes: far, clear: false };
                let tested =
                    diag::run_everywhere(target, expected, everywhere, &Default::default(), control.stop);
                tested.map(|(report, _)| report)
            };
            outcome(tested, |report| {
                let far = report.nodes.iter().filter(|node| !expected.nodes.contains(&node.node));
                let mut detail = format!(
                    "{} of {} nodes tested, {} failed, {} see another topology",
                    target.nodes.len() + far.filter(|node| node.info.is_some()).count(),
                    expected.nodes.len() + count,
                    report.failed().len(),
                    report.disagreements.len()
                );
                let in_doubt = report.in_doubt().len();
                if in_doubt > 0 {
                    detail.push_str(&format!(", {in_doubt} late"));
                }
                detail.push_str(&report.first_error().map(|first| format!(": {first}")).unwrap_or_default());
                (report.verdict, detail)
            })
        });
        let report = report.unwrap_or_else(|| Ok(DiagReport::of_nothing()))?;
        self.saw(report.load);
        Ok(report)
    }

    pub(in crate::run) fn cable(
        &mut self,
        hosts: Hosts,
        target: &Target,
        plan: Option<&cable::Plan>,
        others: &Others,
    ) -> Result<Option<CableReport>, CouldNotRun> {
        let far = others.ids().filter(|_| hosts == Hosts::All);
        let everyone: Vec<NodeId> = target.nodes.iter().copied().chain(far).collect();
        if plan.is_none() && everyone.len() < 2 && self.is_alone("cable", target) {
            return Ok(None);
        }
        let (mesh, judged_by) = match plan {
            Some(plan) => (plan.clone(), "the plan"),
            None => (cable::Plan::full_mesh(&everyone), "a full mesh"),
        };
        // A plan may have links between other hosts.
        let hosts = if plan.is_some() { Hosts::All } else { hosts };
        let request = cable::Request { plan: mesh, hosts, only: None, measure_all: false };
        let report = self.unless_ended("cable", |control| {
            match cable::run(target, request, control.tell, control.stop) {
                Ok(report) => {
                    let links: usize = report.nodes.iter().map(|node| node.links.len()).sum();
                    let detail = format!(
                        "{links} ends of links, {} from {judged_by}, {} inconclusive",
                        counted(report.deviations.len(), "deviation"),
                        report.doubts.len()
                    );
                    let first =
                        report.deviations.first().map(|one| format!(": {}: {}", one.text, one.next_step));
                    let detail = detail + &first.unwrap_or_default();
                    let verdict = report.verdict;
                    (Ok(Some(report)), verdict, detail)
                }
                Err(CableError::CouldNotRun(error)) => {
                    let detail = error.to_string();
                    (Err(error), Verdict::Fail, detail)
                }
                Err(error @ CableError::Plan(_)) => (Ok(None), Verdict::Fail, error.to_string()),
            }
        });
        let report = report.unwrap_or(Ok(None))?;
        self.swaps = report.as_ref().map(Swaps::of).unwrap_or_default();
        Ok(report)
    }

    pub(in crate::run) fn load(
        &mut self,
        target: &Target,
        seed: u64,
        plan: Plan,
        others: &Others,
    ) -> Option<ConntestReport> {
        if others.nodes.is_empty() && self.is_alone("load", target) {
            return None;
        }
        let swaps = self.swaps.clone();
        let report = self.unless_ended("load", |control| {
            let options = conntest::Options {
                seed,
                meet_within: MEET,
                only_listed: true,
                ..conntest::Options::for_target(target, plan.load)
            };
            let stop: &AtomicBool = &options.stop;
            let mut tell = |progress: conntest::Progress| {
                let (elapsed_s, whole_s) = (progress.elapsed.as_secs_f64(), plan.load.as_secs_f64());
                (control.tell)(&format!("load: {elapsed_s:.1} s of {whole_s:.1} s"));
                // Relaxed: nothing is published with it.
                stop.store((control.stop)(), Ordering::Relaxed);
            };
            let mut report = match others.nodes.as_slice() {
                [] => conntest::run(target, &options, &mut tell),
                far => conntest::run_everywhere(target, &others.dir, far.to_vec(), &options, &mut tell),
            };
            report.blame(&swaps);
            let (verdict, detail) = (report.verdict, report.summary() + &swaps.cause(&report.suspects));
            (report, verdict, detail)
        });
        self.saw(report.as_ref().map(|report| report.load).unwrap_or_default());
        if !others.nodes.is_empty() {
            // Instances of other programs, which may be on this machine, are no other work.
            self.saw_nothing();
        }
        report
    }

    /// Links between hosts, compared with each other.
    pub(in crate::run) fn hosts(
        &mut self,
        target: &Target,
        seed: u64,
        plan: Plan,
        others: &Others,
    ) -> Option<SpeedReport> {
        if others.nodes.is_empty() {
            return None;
        }
        let report = self.unless_ended("hosts", |control| {
            let Plan { most_pairs_of_hosts: most_pairs, longest_of_hosts: longest, .. } = plan;
            let plan = speed::Plan { most_pairs, longest, seed, ..speed::Plan::default() };
            let far = others.nodes.clone();
            let report = speed::run(target, &others.dir, far, &plan, control.tell, control.stop);
            let (verdict, detail) = (report.verdict, report.summary());
            (report, verdict, detail)
        });
        self.saw_nothing();
        report
    }
}
