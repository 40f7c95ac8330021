//! Many timers with one next deadline.

use std::collections::{BTreeMap, BTreeSet};

use crate::time::Instant;

/// At most one deadline a key; all operations O(log n).
#[derive(Debug)]
pub(super) struct Timers<K> {
    at: BTreeMap<K, Instant>,
    order: BTreeSet<(Instant, K)>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self { at: BTreeMap::new(), order: BTreeSet::new() }
    }
}

impl<K: Ord + Copy> Timers<K> {
    /// Sets the deadline of `key`, in place of the one it had.
    pub(super) fn set(&mut self, key: K, at: Instant) {
        self.clear(key);
        self.at.insert(key, at);
        self.order.insert((at, key));
    }

    pub(super) fn clear(&mut self, key: K) {
        if let Some(old) = self.at.remove(&key) {
            self.order.remove(&(old, key));
        }
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.order.first().map(|&(at, _)| at)
    }

    /// Takes all that are due, in order, with the moments when they were.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<(K, Instant)> {
        let mut due = Vec::new();
        while let Some(&(at, key)) = self.order.first() {
            if at > now {
                break;
            }
            self.clear(key);
            due.push((key, at));
        }
        due
    }

    pub(super) fn clear_all(&mut self) {
        self.at.clear();
        self.order.clear();
    }

    pub(super) fn contains(&self, key: K) -> bool {
        self.at.contains_key(&key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn each_key_has_one_deadline_and_they_come_in_order() {
        let mut timers = Timers::default();
        timers.set('a', at(5));
        timers.set('b', at(3));
        timers.set('a', at(2));
        timers.set('c', at(9));
        assert_eq!(timers.next(), Some(at(2)));
        assert_eq!(timers.take_due(at(1)), []);
        assert_eq!(timers.take_due(at(5)), [('a', at(2)), ('b', at(3))]);
        assert!(!timers.contains('a') && timers.contains('c'));
        timers.clear('c');
        timers.clear('c');
        assert_eq!(timers.next(), None);
    }
}
