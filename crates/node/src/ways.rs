//! At which of its addresses a node of another host is dialled: the one at which it was reached last, and the others where that fails.
//!
//! An attempt of the machine is one of each address, so that one rail that is cut costs no pause of the back-off.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use proto::ids::NodeId;

#[derive(Debug, Default)]
struct Way {
    /// As they were when it was dialled last.
    addresses: Vec<SocketAddr>,
    /// Which of them is dialled next.
    nth: usize,
    /// Why those failed that were dialled in this attempt.
    failed: Vec<String>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Ways(BTreeMap<NodeId, Way>);

impl Ways {
    /// A new attempt begins.
    pub(crate) fn begin(&mut self, node: NodeId) {
        self.0.entry(node).or_default().failed.clear();
    }

    /// Where the node is dialled now; `None`: no address is known.
    pub(crate) fn next(&mut self, node: NodeId, addresses: &[SocketAddr]) -> Option<SocketAddr> {
        let way = self.0.entry(node).or_default();
        if way.addresses != addresses {
            (way.addresses, way.nth) = (addresses.to_vec(), 0);
        }
        way.addresses.get(way.nth).copied()
    }

    /// The address that was dialled does not lead there: `None`, another one is to be dialled; else the attempt has failed for these reasons.
    pub(crate) fn failed(&mut self, node: NodeId, why: String) -> Option<String> {
        let way = self.0.entry(node).or_default();
        way.nth = (way.nth + 1) % way.addresses.len().max(1);
        way.failed.push(why);
        (way.failed.len() >= way.addresses.len()).then(|| way.failed.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_one_of_each_address_and_the_next_begins_where_the_last_one_succeeded() {
        let (mut ways, node) = (Ways::default(), NodeId::new(8).unwrap());
        let [first, second] = ["10.0.0.2:7411", "10.1.0.2:7411"].map(|address| address.parse().unwrap());
        let both = [first, second];
        ways.begin(node);
        assert_eq!(ways.next(node, &both), Some(first));
        assert_eq!(ways.failed(node, "one".to_owned()), None);
        assert_eq!(ways.next(node, &both), Some(second));
        // That was it: the next attempt begins there, and has both again.
        ways.begin(node);
        assert_eq!(ways.next(node, &both), Some(second));
        assert_eq!(ways.failed(node, "two".to_owned()), None);
        assert_eq!(ways.next(node, &both), Some(first));
        assert_eq!(ways.failed(node, "three".to_owned()), Some("two; three".to_owned()));
        // Its addresses have changed.
        ways.begin(node);
        assert_eq!(ways.next(node, &[first]), Some(first));
        assert_eq!(ways.failed(node, "four".to_owned()), Some("four".to_owned()));
        assert_eq!(ways.next(node, &[]), None);
        assert_eq!(ways.failed(node, "five".to_owned()), Some("four; five".to_owned()));
    }
}
