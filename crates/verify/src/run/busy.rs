//! Whether the machine was busy with other work during the speed tests, and in which steps.

use super::Step;
use crate::verdict::Verdict;

/// Steps that judge speed, or time-outs: what other work takes away shows in them.
const OF_SPEED: [&str; 5] = ["cable", "load", "pairs", "scipp", "curves"];

/// Steps that other work can only make late: where nothing was, it has spoilt nothing.
const OF_TIME: [&str; 4] = ["diag", "names", "exchange", "closing"];

/// Whether other work was at hand while this step judged what it can spoil. Thresholds judge what others
/// measured.
pub(super) fn is_spoilt(step: &Step) -> bool {
    let late = OF_TIME.contains(&step.name) && step.verdict == Verdict::Inconclusive;
    (OF_SPEED.contains(&step.name) || late) && step.load.is_busy() || step.name == "thresholds"
}

/// Why speed could not be judged, if so: the worst of the steps that measure it, and which they are.
pub(super) fn reason(steps: &[Step]) -> Option<String> {
    let busy = || steps.iter().filter(|step| step.load.is_busy() && is_spoilt(step));
    let worst = busy().map(|step| step.load).reduce(bench::noise::others::Load::or_worse)?.reason()?;
    let names: Vec<&str> = busy().map(|step| step.name).collect();
    Some(format!("the machine was busy: {worst} (in {})", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use bench::noise::others::Load;

    use super::*;

    #[test]
    fn the_worst_step_of_speed_is_the_reason_and_others_do_not_count() {
        let step = |name, others_percent| Step {
            name,
            verdict: Verdict::Pass,
            detail: String::new(),
            duration_s: 1.0,
            load: Load { processors: 2, others_percent: Some(others_percent), waited_percent: None },
        };
        assert_eq!(reason(&[step("up", 90.0), step("diag", 90.0), step("pairs", 3.0)]), None);
        let late = Step { verdict: Verdict::Inconclusive, ..step("diag", 90.0) };
        assert!(reason(&[late]).unwrap().ends_with("90 % of the 2 processors (in diag)"));
        let flapped = Step { verdict: Verdict::Inconclusive, ..step("closing", 90.0) };
        assert!(reason(&[flapped]).unwrap().ends_with("(in closing)"));
        let busy = [step("load", 2.0), step("pairs", 40.0), step("scipp", 60.4)];
        assert_eq!(
            reason(&busy).unwrap(),
            "the machine was busy: other work used 60 % of the 2 processors (in pairs, scipp)"
        );
    }
}
