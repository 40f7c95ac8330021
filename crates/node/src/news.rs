//! New addresses of other hosts: stored, passed on and given to the state machine once a second, however
//! often they come.
//!
//! Addresses come from any member of the cluster, and each news may have a node dialled. A member that
//! changes its own all the time costs a file, a message to each host and an attempt to dial it each pause,
//! and no more.

use std::collections::BTreeSet;
use std::time::Duration;

use proto::ids::NodeId;
use proto::time::Instant;

/// Between two times.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// Something has changed that is to be kept and passed on.
    any: bool,
    /// Nodes of which the machine is told then.
    nodes: BTreeSet<NodeId>,
    /// Not before that.
    again_at: Option<Instant>,
}

impl News {
    /// The addresses of these nodes have changed.
    pub(crate) fn add(&mut self, nodes: &[NodeId]) {
        self.any |= !nodes.is_empty();
        self.nodes.extend(nodes);
    }

    /// The list has changed, and there is no node to be told of.
    pub(crate) fn note(&mut self) {
        self.any = true;
    }

    /// There is something that is not kept yet.
    pub(crate) fn is_any(&self) -> bool {
        self.any
    }

    /// Of which nodes the machine is to be told, if the time for that has come. Who went meanwhile, by a
    /// revocation, is not told of: the machine would keep it for good.
    pub(crate) fn take(&mut self, now: Instant, is_known: impl Fn(NodeId) -> bool) -> Option<Vec<NodeId>> {
        if !self.any || self.again_at.is_some_and(|at| at > now) {
            return None;
        }
        self.any = false;
        self.again_at = Some(now + PAUSE);
        Some(std::mem::take(&mut self.nodes).into_iter().filter(|node| is_known(*node)).collect())
    }

    /// When [`Self::take`] is wanted next.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.again_at.filter(|_| self.any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_all_the_time_is_told_once_a_pause() {
        let (mut news, start) = (News::default(), Instant::from_nanos(5_000_000_000));
        let nodes: Vec<NodeId> = (0..3).map(|nth| NodeId::nth(nth).unwrap()).collect();
        let mut told = Vec::new();
        // Three changes each millisecond for ten seconds.
        for ms in 0..10_000 {
            let now = start + Duration::from_millis(ms);
            for node in &nodes {
                news.add(&[*node]);
                told.extend(news.take(now, |_| true).map(|nodes| (ms, nodes)));
            }
        }
        let moments: Vec<u64> = told.iter().map(|(ms, _)| *ms).collect();
        assert_eq!(moments, (0..10).map(|second| second * 1000).collect::<Vec<_>>());
        // The first one alone is told at once, then all that changed meanwhile.
        assert!(told[0].1 == nodes[..1] && told[1..].iter().all(|(_, told)| *told == nodes));
        // The last change is not lost, and nothing is told twice.
        let last = start + Duration::from_secs(10);
        assert_eq!((news.next_timeout(), news.take(last, |_| true)), (Some(last), Some(nodes.clone())));
        assert_eq!((news.next_timeout(), news.take(last + PAUSE, |_| true)), (None, None));
        // What is only to be kept.
        news.note();
        assert!(news.is_any());
        assert_eq!(news.take(last + PAUSE, |_| true), Some(Vec::new()));
        // Revoked before its turn came.
        news.add(&nodes);
        assert_eq!(news.take(last + PAUSE * 2, |node| node != nodes[1]), Some(vec![nodes[0], nodes[2]]));
    }
}
