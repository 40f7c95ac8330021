//! What an instance sees of its own node's manager: whether it ended, or was restarted, during the test.
//!
//! Data goes on without a manager, so blocks alone do not show that a node has failed.

use serde::{Deserialize, Serialize};
use tieline::NodeId;

/// A time without the node's manager.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagerOutage {
    /// Nanoseconds from the start of the run until it was noticed.
    pub at_ns: u64,
    /// Nanoseconds until it was back; absent: it was not back when the run ended.
    pub lasted_ns: Option<u64>,
    /// The cause.
    pub why: String,
}

/// One look at the manager.
#[derive(Debug)]
pub(super) enum Look {
    /// It responded, and drew this number when it started.
    Runs {
        /// See above.
        incarnation: u64,
    },
    /// It has ended.
    Gone(String),
    /// It did not respond in time: it may be held up by other work. If it stays silent, its session is lost.
    Silent,
}

/// The looks so far.
#[derive(Debug, Default)]
pub(super) struct OwnManager {
    incarnation: Option<u64>,
    outages: Vec<ManagerOutage>,
    is_gone: bool,
}

impl OwnManager {
    /// Takes a look into account; returns whether it shows a new outage.
    pub(super) fn note(&mut self, now_ns: u64, look: Look) -> bool {
        match look {
            Look::Silent => false,
            Look::Gone(why) => {
                let is_new = !std::mem::replace(&mut self.is_gone, true);
                if is_new {
                    self.outages.push(ManagerOutage { at_ns: now_ns, lasted_ns: None, why });
                }
                is_new
            }
            Look::Runs { incarnation } => {
                let before = self.incarnation.replace(incarnation);
                if std::mem::take(&mut self.is_gone) {
                    if let Some(outage) = self.outages.last_mut() {
                        outage.lasted_ns = Some(now_ns.saturating_sub(outage.at_ns));
                    }
                    return false;
                }
                let is_new = before.is_some_and(|before| before != incarnation);
                if is_new {
                    // It was away for less time than lies between two looks.
                    let why = "it was restarted".to_owned();
                    self.outages.push(ManagerOutage { at_ns: now_ns, lasted_ns: Some(0), why });
                }
                is_new
            }
        }
    }

    pub(super) fn into_outages(self) -> Vec<ManagerOutage> {
        self.outages
    }
}

impl ManagerOutage {
    /// In words, after "its manager", with what to do if it is still gone.
    pub(super) fn text(&self, node: NodeId) -> String {
        let (at_s, why) = (self.at_ns as f64 / 1e9, &self.why);
        match self.lasted_ns {
            None => format!("ended at {at_s:.1} s ({why}): start it with `tieline node start --node {node}`"),
            Some(0) => format!("was restarted at {at_s:.1} s"),
            Some(lasted_ns) => {
                let lasted_s = lasted_ns as f64 / 1e9;
                format!("ended at {at_s:.1} s ({why}) and was back {lasted_s:.1} s later")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outages(looks: impl IntoIterator<Item = Look>) -> (usize, Vec<(u64, Option<u64>)>) {
        let (mut manager, mut new) = (OwnManager::default(), 0);
        for (look, now_ns) in looks.into_iter().zip((0..).step_by(10)) {
            new += usize::from(manager.note(now_ns, look));
        }
        (new, manager.into_outages().iter().map(|outage| (outage.at_ns, outage.lasted_ns)).collect())
    }

    fn runs(incarnation: u64) -> Look {
        Look::Runs { incarnation }
    }

    fn gone() -> Look {
        Look::Gone("it has ended".into())
    }

    #[test]
    fn each_outage_is_counted_once_and_timed() {
        assert_eq!(outages([runs(1), runs(1), Look::Silent, runs(1)]), (0, vec![]));
        assert_eq!(outages([runs(1), gone(), gone()]), (1, vec![(10, None)]));
        let restarted = [runs(1), gone(), Look::Silent, runs(2), runs(2)];
        assert_eq!(outages(restarted), (1, vec![(10, Some(20))]));
        assert_eq!(outages([gone(), runs(1), gone()]), (2, vec![(0, Some(10)), (20, None)]));
    }

    #[test]
    fn a_restart_between_two_looks_is_seen() {
        assert_eq!(outages([runs(1), runs(2), runs(2)]), (1, vec![(10, Some(0))]));
    }
}
