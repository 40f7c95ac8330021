//! What must hold when everything has settled: nobody believes what is not so.

use std::collections::{BTreeMap, BTreeSet};

use proto::ids::{GroupId, NodeId, SegmentKey};
use proto::time::Instant;
use proto::wire::program::{Imported, Incarnation, InterruptKind, LossReason};
use proto::wire::status::SessionState;

use crate::actor::{Actor, Held, Shape};
use crate::world::World;

type Object = (NodeId, Imported, Incarnation);

/// What owners have done to their objects, beyond owning them.
#[derive(Debug, Default)]
pub struct Truth {
    /// All connections were ended at some time.
    pub severed: BTreeSet<Object>,
    /// When somebody tried to create an object under this name. While its owner has yet to re-attach, that
    /// succeeds.
    pub contested: BTreeMap<(NodeId, Imported), Vec<Instant>>,
}

impl Truth {
    pub fn check(&self, world: &World) {
        assert!(world.all_valid(), "all sessions are valid");
        programs_are_served(world);
        self.imports_are_right(world);
        owners_are_right(world);
        groups_are_right(world);
        for node in 0..world.nodes.len() {
            status_is_right(world, node);
        }
    }

    fn imports_are_right(&self, world: &World) {
        for actor in living(world) {
            let own = world.nodes[actor.node].id;
            for (&(node, connection), held) in &actor.imports {
                let page = &world.nodes[actor.node].page;
                let slot = held.slot.expect("every import has its slot again");
                assert_eq!(held.ended.is_none(), page.alive(slot), "the page and the program of {held:?}");
                if held.ended.is_some() {
                    self.check_loss(world, actor, node, held);
                    continue;
                }
                let Some(owner) = owner_of(world, node, held.what, held.incarnation) else {
                    panic!("{} believes that {held:?} is alive, and nobody owns it", actor.name)
                };
                let Some(known) = owner.objects[&held.what].connections.get(&connection) else {
                    panic!("{} does not know that {} on node {own} has {held:?}", owner.name, actor.name)
                };
                assert_eq!(known.node, own);
            }
            for (node, held) in &actor.not_resumed {
                self.check_loss(world, actor, *node, held);
            }
        }
    }

    /// No import ends while its object lives, unless there is a reason.
    fn check_loss(&self, world: &World, actor: &Actor, node: NodeId, held: &Held) {
        let object = (node, held.what, held.incarnation);
        // An orderly stop ends everything; a program that was not attached at that moment hears of it later,
        // as it resumes.
        let by_stop = stopped_since(world, actor.node, node, held);
        let owned = owner_of(world, node, held.what, held.incarnation).is_some();
        let severed = !held.attached && self.severed.contains(&object);
        let by_owner = !owned || severed || self.displaced(world, node, held);
        let fair = by_stop || (held.ended != Some(LossReason::NodeLost) && by_owner);
        assert!(fair, "{} has lost {held:?} of node {node} without a reason", actor.name);
    }

    /// After a restart somebody else was quicker under this name, for a while at least.
    fn displaced(&self, world: &World, node: NodeId, held: &Held) -> bool {
        let restarted = world.nodes[world.index(node)].kills.iter().any(|&at| at >= held.since);
        let tries = self.contested.get(&(node, held.what));
        restarted && tries.is_some_and(|times| times.iter().any(|&at| at >= held.since))
    }
}

fn stopped_since(world: &World, a: usize, b: NodeId, held: &Held) -> bool {
    [a, world.index(b)].iter().any(|&node| world.nodes[node].stops.iter().any(|&at| at >= held.since))
}

fn living(world: &World) -> impl Iterator<Item = &Actor> {
    world.actors.iter().filter(|actor| !actor.dead)
}

fn owner_of(world: &World, node: NodeId, what: Imported, incarnation: Incarnation) -> Option<&Actor> {
    living(world).find(|actor| {
        world.nodes[actor.node].id == node
            && actor.objects.get(&what).is_some_and(|owned| owned.incarnation == incarnation)
    })
}

fn programs_are_served(world: &World) {
    for actor in living(world) {
        assert!(actor.attached, "{} is attached", actor.name);
        assert!(actor.outstanding.is_empty(), "{} was never answered: {:?}", actor.name, actor.outstanding);
    }
}

/// Whom an owner believes to be connected, is.
fn owners_are_right(world: &World) {
    for owner in living(world) {
        let own = world.nodes[owner.node].id;
        for (what, owned) in &owner.objects {
            let mut numbers = BTreeSet::new();
            for (connection, producer) in &owned.connections {
                let importer = living(world).find(|actor| {
                    world.nodes[actor.node].id == producer.node
                        && actor.imports.get(&(own, *connection)).is_some_and(|held| held.ended.is_none())
                });
                assert!(
                    importer.is_some(),
                    "{} believes that {connection:?} of {what} on node {own} is held on node {}",
                    owner.name,
                    producer.node
                );
                let data = matches!(owned.shape, Shape::Interrupt { kind: InterruptKind::Data, .. });
                assert!(
                    numbers.insert(producer.number) || !data,
                    "two producers with number {}",
                    producer.number
                );
            }
        }
    }
}

fn groups_are_right(world: &World) {
    let mut members: BTreeMap<GroupId, BTreeSet<NodeId>> = BTreeMap::new();
    for actor in living(world) {
        for (what, owned) in &actor.objects {
            if let (Imported::Segment(SegmentKey::GroupCopy(group)), Shape::Segment { available: true, .. }) =
                (what, &owned.shape)
            {
                members.entry(*group).or_default().insert(world.nodes[actor.node].id);
            }
        }
    }
    for actor in living(world) {
        for (group, seen) in &actor.watches {
            let real = members.get(group).cloned().unwrap_or_default();
            assert_eq!(seen, &real, "members of group {group} as {} sees them", actor.name);
        }
    }
}

fn status_is_right(world: &World, node: usize) {
    let status = world.status(node);
    let here: Vec<&Actor> = living(world).filter(|actor| actor.node == node).collect();
    assert_eq!(status.programs_total, here.len() as u64);
    let (mut segments, mut interrupts, mut descriptors) = (0, 0, here.len() as u64);
    let mut connections: BTreeMap<String, usize> = BTreeMap::new();
    for (what, owned) in here.iter().flat_map(|actor| &actor.objects) {
        match owned.shape {
            Shape::Segment { .. } => {
                (segments, descriptors) = (segments + 1, descriptors + 1);
                connections.insert(what.to_string(), owned.connections.len());
            }
            Shape::Interrupt { pollable, .. } => {
                (interrupts, descriptors) = (interrupts + 1, descriptors + 2 + u64::from(pollable));
            }
        }
    }
    assert_eq!((status.segments_total, status.interrupts_total), (segments, interrupts));
    assert_eq!(status.descriptors, descriptors, "descriptors that node {} holds", status.info.node);
    for segment in &status.segments {
        assert_eq!(
            segment.connections as usize, connections[&segment.what],
            "{} on node {}",
            segment.what, status.info.node
        );
    }
    let imports: usize = here.iter().map(|actor| actor.imports.len()).sum();
    let listed: u32 = status.programs.iter().map(|program| program.imports).sum();
    assert_eq!(listed as usize, imports, "imports of node {}", status.info.node);
    links_are_right(world, node);
}

fn links_are_right(world: &World, node: usize) {
    let status = world.status(node);
    for other in (0..world.nodes.len()).filter(|&other| other != node) {
        let link = status.links.iter().find(|link| link.peer == world.nodes[other].id).expect("a link");
        assert_eq!(link.session, SessionState::Valid);
        assert_eq!(link.reason, None);
        assert_eq!(link.peer_host, format!("host{other}"));
        // The session may have been lost and found more often: that does not end the link.
        let (generation, up) = world.nodes[node].page.links[&link.peer];
        assert!(up && generation <= link.generation, "the page and the status of a link");
        assert!(link.since_ns <= status.uptime_ns && link.downtime_ns <= status.uptime_ns);
    }
}
