//! At which of its addresses a node of another host is dialled: the one at which it was reached last, and the
//! others where that fails, or where the connection has broken since.
//!
//! An attempt of the machine is one of each address, so that one rail that is cut costs no pause of the
//! back-off.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use proto::ids::NodeId;

#[derive(Debug, Default)]
struct Dial {
    /// As they were when it was dialled last.
    addresses: Vec<SocketAddr>,
    /// Which of them is dialled next.
    nth: usize,
    /// Why those failed that were dialled in this attempt.
    failed: Vec<String>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct DialAddresses(BTreeMap<NodeId, Dial>);

impl DialAddresses {
    /// A new attempt begins.
    pub(crate) fn begin(&mut self, node: NodeId) {
        self.0.entry(node).or_default().failed.clear();
    }

    /// Where the node is dialled now; `None`: no address is known.
    pub(crate) fn next(&mut self, node: NodeId, addresses: &[SocketAddr]) -> Option<SocketAddr> {
        let dial = self.0.entry(node).or_default();
        if dial.addresses != addresses {
            (dial.addresses, dial.nth) = (addresses.to_vec(), 0);
        }
        dial.addresses.get(dial.nth).copied()
    }

    /// The connection that was made last has broken: the next attempt begins with another address.
    pub(crate) fn broke(&mut self, node: NodeId) {
        let dial = self.0.entry(node).or_default();
        dial.nth = (dial.nth + 1) % dial.addresses.len().max(1);
    }

    /// The address that was dialled does not lead there: `None`, another one is to be dialled; else the
    /// attempt has failed for these reasons.
    pub(crate) fn failed(&mut self, node: NodeId, why: String) -> Option<String> {
        self.broke(node);
        let dial = self.0.entry(node).or_default();
        dial.failed.push(why);
        (dial.failed.len() >= dial.addresses.len()).then(|| dial.failed.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_one_of_each_address_and_the_next_begins_where_the_last_one_succeeded() {
        let (mut dials, node) = (DialAddresses::default(), NodeId::new(8).unwrap());
        let [first, second] = ["10.0.0.2:7411", "10.1.0.2:7411"].map(|address| address.parse().unwrap());
        let both = [first, second];
        dials.begin(node);
        assert_eq!(dials.next(node, &both), Some(first));
        assert_eq!(dials.failed(node, "one".to_owned()), None);
        assert_eq!(dials.next(node, &both), Some(second));
        // That was it: the next attempt begins there, and has both again.
        dials.begin(node);
        assert_eq!(dials.next(node, &both), Some(second));
        assert_eq!(dials.failed(node, "two".to_owned()), None);
        assert_eq!(dials.next(node, &both), Some(first));
        assert_eq!(dials.failed(node, "three".to_owned()), Some("two; three".to_owned()));
        // A connection that stood has broken.
        dials.begin(node);
        assert_eq!(dials.next(node, &both), Some(second));
        dials.broke(node);
        dials.begin(node);
        assert_eq!(dials.next(node, &both), Some(first));
        // Its addresses have changed.
        dials.begin(node);
        assert_eq!(dials.next(node, &[first]), Some(first));
        assert_eq!(dials.failed(node, "four".to_owned()), Some("four".to_owned()));
        assert_eq!(dials.next(node, &[]), None);
        assert_eq!(dials.failed(node, "five".to_owned()), Some("four; five".to_owned()));
    }
}
