//! Writes the partition tables (P_Key tables) of end ports, where partitions were given.

use mad::sm::PartitionTable;
use mad::windowed::Outcome;
use mad::{Mad, MadTransport};
use topology::PortIx;

use super::{Failures, ManageError, Manager, Work, why, words};
use crate::keys::{KEYS_PER_BLOCK, KeyBlock, table};
use crate::model::Model;
use crate::report::Sets;
use crate::set::{Set, Subject};

/// A block as a port has returned it.
fn returned(mad: &Mad) -> KeyBlock {
    let table: &PartitionTable = mad.data();
    std::array::from_fn(|at| table.key(at).unwrap_or(0))
}

impl Manager {
    /// Writes what differs at these end ports. Nothing, if no partitions were given: then tables stay as they
    /// are.
    pub(super) fn set_keys<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        model: &mut Model,
        ports: &[PortIx],
        (counts, failures): (&mut Sets, &mut Failures),
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        let Some(mut keys) = model.keys.take() else { return Ok(()) };
        let result = self.set_these(transport, model, &mut keys, ports, (counts, failures), stop);
        model.keys = Some(keys);
        result
    }

    fn set_these<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        model: &Model,
        keys: &mut crate::keys::Keys,
        ports: &[PortIx],
        (counts, failures): (&mut Sets, &mut Failures),
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        let graph = &model.graph;
        let blocks = |port: PortIx| {
            let node = model.nodes.get(graph.owner(port).index());
            node.map_or(1, |node| node.info.partition_capacity().max(1).div_ceil(KEYS_PER_BLOCK))
        };
        let subjects = ports.iter().flat_map(|port| (0..blocks(*port)).map(|block| (*port, block)));
        let unknown: Vec<(PortIx, u16)> = subjects.filter(|one| !keys.held.contains_key(one)).collect();
        let requests = unknown.into_iter().filter_map(|(port, block)| {
            let subject = Subject::Keys(port, block);
            Some((subject, subject.get(graph, &model.path_to(port)?)))
        });
        let mut done = |subject: Subject, outcome: Outcome| {
            let Subject::Keys(port, block) = subject else { return };
            match outcome {
                Outcome::Answer(mad) => drop(keys.held.insert((port, block), returned(&mad))),
                outcome => failures.add(|| format!("Get of {}: {}", words(graph, subject), why(&outcome))),
            }
        };
        if !self.asker.all(transport, requests, &mut done, stop)? {
            return Err(ManageError::Stopped);
        }
        let mut sets = Vec::new();
        for port in ports {
            let held: Option<Vec<u16>> = (0..blocks(*port))
                .map(|block| keys.held.get(&(*port, block)))
                .collect::<Option<Vec<&KeyBlock>>>()
                .map(|blocks| blocks.into_iter().flatten().copied().collect());
            // What could not be read is not written: it is tried again with the rest.
            let Some(held) = held else { continue };
            let capacity =
                model.nodes.get(graph.owner(*port).index()).map_or(1, |it| it.info.partition_capacity());
            let (to_be, left_out) = table(&held, keys.of(*port), capacity.max(1).into());
            if left_out > 0 {
                failures.add(|| {
                    let place = fabric::names::place(graph, *port);
                    format!("{place} holds {capacity} P_Keys, and {left_out} more are wanted: put it into fewer partitions")
                });
            }
            for (block, entries) in to_be.chunks(KEYS_PER_BLOCK.into()).enumerate() {
                let Ok(entries) = <KeyBlock>::try_from(entries) else { continue };
                if keys.held.get(&(*port, block as u16)) != Some(&entries) {
                    sets.push(Set::Keys(*port, block as u16, entries));
                }
            }
        }
        let mut good = |subject: Subject, mad: Option<&Mad>| {
            if let Subject::Keys(port, block) = subject {
                match mad {
                    Some(mad) => drop(keys.held.insert((port, block), returned(mad))),
                    None => drop(keys.held.remove(&(port, block))),
                }
            }
        };
        let work = Work { good: &mut good, counts, failures };
        self.send(transport, model, work, sets.into_iter(), stop)
    }
}
