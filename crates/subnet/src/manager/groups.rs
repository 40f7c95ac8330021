//! Writes multicast forwarding tables after members of groups, or cables, changed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mad::sm::MulticastTable;
use mad::windowed::Outcome;
use mad::{Mad, MadTransport};
use topology::Kind;

use super::{Event, Failures, ManageError, Manager, Work, elapsed, meanwhile};
use crate::model::Model;
use crate::multicast::{self, Leaf, MulticastBlock, Planner, Tree};
use crate::report::{Grouped, Sets};
use crate::sa::registry::Registry;
use crate::set::{Set, Subject};

/// Pauses until what could not be written is tried again.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// The trees of groups, and whether one of them needs two steps.
struct Plan {
    wanted: BTreeMap<u16, Tree>,
    /// What is in the former and the new trees, of groups whose former and new entries together could make a
    /// loop.
    first: BTreeMap<u16, Tree>,
}

/// The entries of a block as a switch has returned it.
fn returned(mad: &Mad) -> MulticastBlock {
    let table: &MulticastTable = mad.data();
    std::array::from_fn(|at| table.ports(at).unwrap_or(0))
}

fn planned(model: &Model, registry: &Registry, groups: &BTreeSet<u16>) -> Plan {
    let graph = &model.graph;
    let mut planner = Planner::new(graph);
    let (mut wanted, mut first) = (BTreeMap::new(), BTreeMap::new());
    for group in groups {
        let members = registry.groups.members_of(*group);
        let leaves: Vec<Leaf> = members
            .filter_map(|(guid, receives)| Leaf::of(graph, model.end_port(guid)?, receives))
            .filter(|leaf| model.path(leaf.switch).is_some())
            .collect();
        let tree = planner.tree(*group, &leaves);
        let held = registry.held.tree(graph, *group);
        if held != tree && multicast::is_round(graph, &held, &tree) {
            first.insert(*group, multicast::common(&held, &tree));
        }
        wanted.insert(*group, tree);
    }
    Plan { wanted, first }
}

impl Manager {
    /// When multicast tables are to be written.
    pub(super) fn groups_due(&self) -> Option<Duration> {
        let at_once = self.registry.groups.has_changed().then_some(Duration::ZERO);
        at_once.or(self.groups_again.map(|again| again.0))
    }

    /// Looks which end ports are there, if it was not done before.
    pub(super) fn look_first(&mut self) {
        if !self.registry.has_looked() {
            self.look_at_ports(false);
        }
    }

    /// Looks which end ports are there, after a change. After a sweep, what switches hold is not known any
    /// more: one of them may have lost it.
    pub(super) fn look_at_ports(&mut self, is_swept: bool) {
        let Some(subnet) = &self.subnet else { return };
        let model = &subnet.model;
        let there = model.lids.ends().filter(|(_, port)| model.path_to(*port).is_some());
        let there = there.map(|(_, port)| model.graph.port_guid(port)).collect();
        self.registry.look(there, model.sm_lid(), model.sm_guid());
        if is_swept {
            self.registry.held.forget();
        }
        // Trees are computed anew; those that the change does not concern come out as they were.
        self.groups_again = (!self.registry.written.is_empty()).then_some((Duration::ZERO, Duration::ZERO));
    }

    /// Writes what differs, if members changed or it is time to try again.
    pub(super) fn write_groups<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        event: &mut dyn FnMut(Event),
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        let mut groups = self.registry.groups.take_changed();
        let again = self.groups_again.filter(|again| transport.now() >= again.0);
        self.registry.written.extend(&groups);
        if again.is_some() {
            groups.extend(&self.registry.written);
            self.groups_again = None;
        }
        if groups.is_empty() {
            return Ok(());
        }
        let Some(subnet) = self.subnet.take() else { return Ok(()) };
        let mut registry = std::mem::take(&mut self.registry);
        let result = self.write_trees(transport, &subnet.model, &mut registry, &groups, stop);
        (self.subnet, self.registry) = (Some(subnet), registry);
        let grouped = result?;
        if grouped.failed_sets > 0 {
            let pause = again.map_or(FIRST_PAUSE, |again| (again.1 * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE));
            self.groups_again = Some((transport.now() + pause, pause));
        }
        if grouped.sets.total() > 0 || grouped.failed_sets > 0 {
            event(Event::Grouped(Box::new(grouped)));
        }
        Ok(())
    }

    fn write_trees<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        model: &Model,
        registry: &mut Registry,
        groups: &BTreeSet<u16>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Grouped, ManageError> {
        let begun = transport.now();
        let (mut sets, mut failures) = (Sets::default(), Failures::default());
        self.read_groups(transport, model, registry, groups, &mut failures, stop)?;
        let Plan { mut wanted, first } = meanwhile(transport, || planned(model, registry, groups))?;
        let in_two_steps = !first.is_empty();
        if in_two_steps {
            let before = failures.count;
            self.write_blocks(transport, model, registry, &first, (&mut sets, &mut failures), stop)?;
            if failures.count > before {
                // Somebody still has former entries: the new ones wait.
                wanted.retain(|group, _| !first.contains_key(group));
            }
            self.drain(transport, model, stop)?;
        }
        self.write_blocks(transport, model, registry, &wanted, (&mut sets, &mut failures), stop)?;
        let unwritten =
            if failures.count > 0 { Vec::new() } else { registry.held.to_write(&model.graph, &wanted) };
        let reached =
            |(switch, ..): &&(topology::NodeIx, u8, u16, MulticastBlock)| model.path(*switch).is_some();
        for (switch, position, block, _) in unwritten.iter().filter(reached) {
            let subject = Subject::Multicast(*switch, *position, *block);
            failures.add(|| format!("{} is not what was set", super::words(&model.graph, subject)));
        }
        let (count, members) = registry.groups.count();
        Ok(Grouped {
            groups: count,
            members,
            computed_groups: groups.len(),
            in_two_steps,
            sets,
            findings: failures.named,
            failed_sets: failures.count,
            seconds: elapsed(transport, begun),
        })
    }

    /// Reads the blocks of these groups that are not known yet.
    fn read_groups<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        model: &Model,
        registry: &mut Registry,
        groups: &BTreeSet<u16>,
        failures: &mut Failures,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        let graph = &model.graph;
        let blocks: BTreeSet<u16> = groups.iter().map(|group| multicast::place(*group).0).collect();
        let mut unknown = Vec::new();
        for switch in graph.nodes_of(Kind::Switch).filter(|switch| model.path(*switch).is_some()) {
            for position in 0..multicast::positions(graph, switch) {
                let guid = graph.node_guid(switch);
                let missing =
                    blocks.iter().filter(|block| registry.held.get(guid, position, **block).is_none());
                unknown.extend(missing.map(|block| Subject::Multicast(switch, position, *block)));
            }
        }
        let requests = unknown.into_iter().filter_map(|subject| {
            let Subject::Multicast(switch, ..) = subject else { return None };
            Some((subject, subject.get(graph, &model.path(switch)?)))
        });
        let mut done = |subject: Subject, outcome: Outcome| {
            let Subject::Multicast(switch, position, block) = subject else { return };
            match outcome {
                Outcome::Answer(mad) => {
                    registry.held.confirm(graph.node_guid(switch), position, block, Some(returned(&mad)));
                }
                outcome => failures
                    .add(|| format!("Get of {}: {}", super::words(graph, subject), super::why(&outcome))),
            }
        };
        if self.asker.all(transport, requests, &mut done, stop)? { Ok(()) } else { Err(ManageError::Stopped) }
    }

    /// Writes blocks in which these groups' entries are not these.
    fn write_blocks<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        model: &Model,
        registry: &mut Registry,
        wanted: &BTreeMap<u16, Tree>,
        (counts, failures): (&mut Sets, &mut Failures),
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        let graph = &model.graph;
        // A switch to which no cable leads keeps what it has: it is written when it is back.
        let all = registry.held.to_write(graph, wanted).into_iter();
        let sets: Vec<Set> = all
            .filter(|(switch, ..)| model.path(*switch).is_some())
            .map(|(switch, position, block, entries)| Set::Multicast(switch, position, block, entries))
            .collect();
        let mut good = |subject: Subject, mad: Option<&Mad>| {
            if let Subject::Multicast(switch, position, block) = subject {
                registry.held.confirm(graph.node_guid(switch), position, block, mad.map(returned));
            }
        };
        let work = Work { good: &mut good, counts, failures };
        self.send(transport, model, work, sets.into_iter(), stop)
    }
}
