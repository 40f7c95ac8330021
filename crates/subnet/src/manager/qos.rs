//! Writes SL-to-VL maps and VL arbitration, where they were given: what differs, and nothing else.

use std::collections::HashMap;

use mad::sm::{PortInfo, SlToVlMap, VlArbitration, capability};
use mad::windowed::Outcome;
use mad::{Mad, MadTransport};
use topology::{Kind, PortIx};

use super::{Failures, ManageError, Manager, Work, why, words};
use crate::model::Model;
use crate::qos::{ENTRIES_PER_BLOCK, Lanes, block_of, blocks, vls_of};
use crate::report::Sets;
use crate::set::{Set, Subject};

/// Ports whose tables are read and written at a time: a switch has a map for each pair of its ports, so all
/// of a large fabric are not held in memory at once.
const PORTS_AT_ONCE: usize = 64;

impl Manager {
    /// Writes what differs at these ports. Nothing, if no settings were given: then tables stay as they are.
    /// Nor is anything written at a port that has one VL.
    pub(super) fn set_lanes<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        model: &Model,
        ports: &[PortIx],
        (counts, failures): (&mut Sets, &mut Failures),
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        if model.qos.is_none() {
            return Ok(());
        }
        for ports in ports.chunks(PORTS_AT_ONCE) {
            let wanted: Vec<Set> = ports.iter().flat_map(|port| tables(model, *port, failures)).collect();
            let differ = self.differing(transport, model, wanted, failures, stop)?;
            let targets: HashMap<Subject, Set> = differ.iter().map(|set| (set.subject(), *set)).collect();
            let mut refused = Vec::new();
            let mut good = |subject: Subject, mad: Option<&Mad>| {
                let is_taken = mad.zip(targets.get(&subject)).is_none_or(|(mad, set)| holds(model, set, mad));
                if !is_taken {
                    refused.push(subject);
                }
            };
            let work = Work { good: &mut good, counts, failures };
            self.send(transport, model, work, differ.into_iter(), stop)?;
            for subject in refused {
                failures.add(|| format!("{} is not as it was set", words(&model.graph, subject)));
            }
        }
        Ok(())
    }

    /// Those that the ports do not hold yet. What can't be read is not written: it is tried again with the
    /// rest.
    fn differing<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        model: &Model,
        wanted: Vec<Set>,
        failures: &mut Failures,
        stop: &dyn Fn() -> bool,
    ) -> Result<Vec<Set>, ManageError> {
        let graph = &model.graph;
        let place: HashMap<Subject, usize> =
            wanted.iter().enumerate().map(|(at, set)| (set.subject(), at)).collect();
        let requests = wanted.iter().filter_map(|set| {
            let subject = set.subject();
            let (Subject::Levels(port, _) | Subject::Arbitration(port, _)) = subject else { return None };
            Some((subject, subject.get(graph, &model.path_to(port)?)))
        });
        let mut differ = Vec::new();
        let mut done = |subject: Subject, outcome: Outcome| match outcome {
            Outcome::Answer(mad) => {
                let at = place.get(&subject).copied();
                differ.extend(at.filter(|at| !holds(model, &wanted[*at], &mad)));
            }
            outcome => failures.add(|| format!("Get of {}: {}", words(graph, subject), why(&outcome))),
        };
        if !self.asker.all(transport, requests, &mut done, stop)? {
            return Err(ManageError::Stopped);
        }
        differ.sort_unstable();
        Ok(differ.into_iter().map(|at| wanted[at]).collect())
    }
}

/// All tables that a port is to have.
fn tables(model: &Model, port: PortIx, failures: &mut Failures) -> Vec<Set> {
    let graph = &model.graph;
    let (Some(lanes), Some(Some(info))) = (model.lanes(port), model.ports.get(port.index())) else {
        return Vec::new();
    };
    if info.vl_capacity() <= 1 || model.path_to(port).is_none() || model.is_foreign(port) {
        return Vec::new();
    }
    let vls = vls_of(info.operational_vls());
    let (low, high) = (info.arbitration_low_capacity(), info.arbitration_high_capacity());
    if let Some(vl) = lanes.starved(vls, low, high).filter(|_| vls > 1 && low.max(high) > 0) {
        failures.add(|| {
            let place = fabric::names::place(graph, port);
            format!("{place} holds {low} entries of low and {high} of high priority, none of which is left for VL {vl}: give shorter lists in the file of --qos; its tables stay as they are")
        });
        return Vec::new();
    }
    let mut sets = maps(model, port, lanes, vls);
    for (is_high, first, capacity) in [(false, 1, low), (true, 3, high)] {
        let entries = lanes.turns(is_high, vls, capacity);
        let all = entries.chunks(ENTRIES_PER_BLOCK).take(blocks(info, is_high)).enumerate();
        sets.extend(all.map(|(at, block)| Set::Arbitration(port, first + at as u8, block_of(block))));
    }
    sets
}

/// The SL-to-VL maps of a port, if its node has such maps: of a switch's port one for each port by which
/// packets may come in.
fn maps(model: &Model, port: PortIx, lanes: &Lanes, vls: u8) -> Vec<Set> {
    let graph = &model.graph;
    let node = graph.owner(port);
    let is_switch = graph.kind(node) == Kind::Switch;
    let end = if is_switch { graph.port(node, 0) } else { Some(port) };
    let info = end.and_then(|end| model.ports.get(end.index())?.as_ref());
    let can = info.is_some_and(|info| info.capability_mask() & capability::SL_TO_VL_MAP != 0);
    if !can {
        return Vec::new();
    }
    let map = lanes.map(vls);
    let came = if is_switch { 0..=graph.port_count(node) } else { 0..=0 };
    came.map(|came| Set::Levels(port, came, map)).collect()
}

/// Does a response show the table that is wanted? Entries beyond those that the port has mean nothing.
fn holds(model: &Model, set: &Set, mad: &Mad) -> bool {
    match set {
        Set::Levels(_, _, map) => mad.data::<SlToVlMap>() == map,
        Set::Arbitration(port, block, entries) => {
            let info: Option<&PortInfo> = model.ports.get(port.index()).and_then(Option::as_ref);
            let capacity = info.map_or(0, |info| {
                let is_high = *block >= 3;
                let all =
                    if is_high { info.arbitration_high_capacity() } else { info.arbitration_low_capacity() };
                usize::from(all).saturating_sub(usize::from((*block - 1) % 2) * ENTRIES_PER_BLOCK)
            });
            let there: &VlArbitration = mad.data();
            // The upper bits of an entry are reserved.
            let entry = |of: &VlArbitration, at| of.entry(at).map(|entry| entry & 0x0fff);
            (0..capacity.min(ENTRIES_PER_BLOCK)).all(|at| entry(there, at) == entry(entries, at))
        }
        _ => false,
    }
}
