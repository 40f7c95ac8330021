//! The partition keys (P_Keys) of ports: which they are to have, and what their tables hold.

use std::collections::{BTreeSet, HashMap};

use topology::{Graph, Kind, PortIx};

use crate::partitions::{Candidate, DEFAULT, Partitions};

/// Keys of a block of a table.
pub const KEYS_PER_BLOCK: u16 = 32;
/// A block of a table.
pub type KeyBlock = [u16; KEYS_PER_BLOCK as usize];

/// The keys of the end ports of a fabric.
#[derive(Debug, Default)]
pub struct Keys {
    wanted: HashMap<PortIx, BTreeSet<u16>>,
    none: BTreeSet<u16>,
    /// Blocks of tables, as far as ports have reported them.
    pub(crate) held: HashMap<(PortIx, u16), KeyBlock>,
}

impl Keys {
    /// Of these partitions. `own` is the manager's port.
    #[must_use]
    pub fn new(
        graph: &Graph,
        partitions: &Partitions,
        ends: impl Iterator<Item = PortIx>,
        own: Option<PortIx>,
    ) -> Self {
        let wanted = ends.map(|port| {
            let (guid, kind) = (graph.port_guid(port), graph.kind(graph.owner(port)));
            (port, partitions.keys(&Candidate { guid, kind, is_own: Some(port) == own }))
        });
        Self { wanted: wanted.collect(), none: BTreeSet::new(), held: HashMap::new() }
    }

    /// The keys that a port is to have.
    #[must_use]
    pub fn of(&self, port: PortIx) -> &BTreeSet<u16> {
        self.wanted.get(&port).unwrap_or(&self.none)
    }

    /// What a port's table holds is not known any more.
    pub(crate) fn forget(&mut self, port: PortIx) {
        self.held.retain(|(one, _), _| *one != port);
    }
}

/// The end ports of a cable: a switch's external port is none.
#[must_use]
pub fn end_of(graph: &Graph, port: PortIx) -> Option<PortIx> {
    (graph.kind(graph.owner(port)) != Kind::Switch).then_some(port)
}

/// The table that holds these keys: those that are there stay where they are, as programs know keys by their
/// places. The key of the partition of all is first (10.9.1.2). Also how many there is no room for.
pub(crate) fn table(held: &[u16], wanted: &BTreeSet<u16>, capacity: usize) -> (Vec<u16>, usize) {
    let mut to_be = held.to_vec();
    let room = capacity.min(to_be.len());
    let mut there = BTreeSet::new();
    for (at, key) in to_be.iter_mut().enumerate() {
        if at >= room || !wanted.contains(key) || !there.insert(*key) {
            *key = 0;
        }
    }
    if let Some(first) = wanted.iter().copied().rfind(|key| key & DEFAULT == DEFAULT)
        && let Some(before) = to_be.first().copied().filter(|before| *before != first)
    {
        if let Some(there) = to_be.iter_mut().find(|key| **key == first) {
            *there = 0;
        }
        to_be[0] = first;
        there.remove(&before);
        there.insert(first);
    }
    let mut left_out = 0;
    for key in wanted.difference(&there) {
        match to_be.iter_mut().take(room).find(|key| **key == 0) {
            Some(free) => *free = *key,
            None => left_out += 1,
        }
    }
    (to_be, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(held: &[u16], wanted: &[u16], capacity: usize) -> (Vec<u16>, usize) {
        table(held, &wanted.iter().copied().collect(), capacity)
    }

    #[test]
    fn keys_stay_where_they_are_and_that_of_all_is_first() {
        assert_eq!(of(&[0xffff, 0, 0, 0], &[0xffff], 4), (vec![0xffff, 0, 0, 0], 0));
        assert_eq!(
            of(&[0xffff, 0, 0x8005, 0], &[0xffff, 0x8005, 0x8006], 4),
            (vec![0xffff, 0x8006, 0x8005, 0], 0)
        );
        assert_eq!(of(&[0xffff, 0x8005, 0, 0], &[0x7fff, 6], 4), (vec![0x7fff, 6, 0, 0], 0));
        assert_eq!(of(&[0x8005, 0xffff, 0, 0], &[0xffff, 0x8005], 4), (vec![0xffff, 0x8005, 0, 0], 0));
        assert_eq!(of(&[5, 5, 0, 0], &[5], 4), (vec![5, 0, 0, 0], 0), "once is enough");
    }

    #[test]
    fn what_has_no_room_is_counted() {
        assert_eq!(of(&[0xffff, 0, 0, 0], &[0xffff, 1, 2, 3], 2), (vec![0xffff, 1, 0, 0], 2));
    }
}
