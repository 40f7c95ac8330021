//! Random schedules: programs come, work and die, managers are stopped, killed and suspended, connections are
//! cut and nodes parted, all at once. When it has settled, everything must be true and nothing left over.

use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use proto::ids::{GroupId, InterruptNo, NodeId, SegmentId, SegmentKey};
use proto::wire::program::{Access, Imported, Incarnation, InterruptKind, Request};

use crate::actor::{memory, new_interrupt};
use crate::tally::Tally;
use crate::truth::Truth;
use crate::world::World;

const NODES: usize = 4;
const MAX_PROGRAMS: usize = 12;

/// One thing that happens; the numbers choose among what there is.
#[derive(Debug, Clone, Copy)]
pub enum Act {
    Spawn(u8),
    KillProgram(u8),
    CreateSegment(u8, u8, bool),
    CreateInterrupt(u8, u8, bool),
    SetAvailable(u8, u8, bool, bool),
    Remove(u8, u8, bool),
    Share(u8, u8),
    Attach(u8, u8),
    Connect(u8, u8, u8),
    Disconnect(u8, u8),
    Watch(u8, u8, bool),
    Probe(u8, u8),
    Status(u8),
    KillManager(u8),
    StopManager(u8),
    StartManager(u8),
    Hang(u8),
    Unhang(u8),
    Cut(u8, u8),
    Part(u8, u8),
    Heal,
    /// Until everything has settled; then all is checked.
    Settle,
}

pub fn act() -> impl Strategy<Value = Act> {
    let n = any::<u8>;
    let b = any::<bool>;
    let mostly = || prop::bool::weighted(0.85);
    prop_oneof![
        7 => n().prop_map(Act::Spawn),
        3 => n().prop_map(Act::KillProgram),
        12 => (n(), n(), mostly()).prop_map(|(a, k, o)| Act::CreateSegment(a, k, o)),
        8 => (n(), n(), b()).prop_map(|(a, k, o)| Act::CreateInterrupt(a, k, o)),
        6 => (n(), n(), b(), b()).prop_map(|(a, k, o, d)| Act::SetAvailable(a, k, o, d)),
        3 => (n(), n(), b()).prop_map(|(a, k, f)| Act::Remove(a, k, f)),
        4 => (n(), n()).prop_map(|(a, k)| Act::Share(a, k)),
        10 => (n(), n()).prop_map(|(a, k)| Act::Attach(a, k)),
        36 => (n(), n(), n()).prop_map(|(a, o, k)| Act::Connect(a, o, k)),
        4 => (n(), n()).prop_map(|(a, i)| Act::Disconnect(a, i)),
        3 => (n(), n(), b()).prop_map(|(a, g, o)| Act::Watch(a, g, o)),
        1 => (n(), n()).prop_map(|(a, o)| Act::Probe(a, o)),
        1 => n().prop_map(Act::Status),
        3 => n().prop_map(Act::KillManager),
        1 => n().prop_map(Act::StopManager),
        6 => n().prop_map(Act::StartManager),
        3 => n().prop_map(Act::Hang),
        6 => n().prop_map(Act::Unhang),
        3 => (n(), n()).prop_map(|(x, y)| Act::Cut(x, y)),
        2 => (n(), n()).prop_map(|(x, y)| Act::Part(x, y)),
        2 => Just(Act::Heal),
        1 => Just(Act::Settle),
    ]
}

/// A schedule: acts, each followed by a pause in units of its own choice.
pub fn schedule(length: usize) -> impl Strategy<Value = Vec<(Act, u32)>> {
    let pause = prop_oneof![4 => 0u32..2_000, 4 => 0u32..50_000, 2 => 0u32..1_000_000, 1 => 0u32..6_000_000];
    proptest::collection::vec((act(), pause), 0..length)
}

pub struct Chaos {
    pub world: World,
    truth: Truth,
    next_incarnation: u64,
}

impl Chaos {
    pub fn new(seed: u64) -> Self {
        let mut world = World::new(NODES, seed);
        for node in 0..NODES {
            world.start(node);
        }
        Self { world, truth: Truth::default(), next_incarnation: 1 }
    }

    pub fn run(&mut self, schedule: &[(Act, u32)]) {
        for (act, pause_us) in schedule {
            self.perform(*act);
            self.world.run_for(Duration::from_micros(u64::from(*pause_us)));
        }
        self.settle();
    }

    /// Everything comes back and has the time that it needs.
    fn settle(&mut self) {
        self.world.heal();
        for node in 0..NODES {
            self.world.unhang(node);
            if self.world.nodes[node].manager.is_none() {
                self.world.start(node);
            }
        }
        self.world.run_for(Duration::from_secs(25));
        self.truth.check(&self.world);
    }

    fn actor(&self, pick: u8) -> Option<usize> {
        let ready = |actor: &crate::actor::Actor| !actor.dead && actor.attached;
        let ready: Vec<usize> =
            (0..self.world.actors.len()).filter(|&a| ready(&self.world.actors[a])).collect();
        (!ready.is_empty()).then(|| ready[usize::from(pick) % ready.len()])
    }

    fn node(pick: u8) -> usize {
        usize::from(pick) % NODES
    }

    fn key(pick: u8) -> SegmentKey {
        match pick % 8 {
            0 | 1 => SegmentKey::GroupCopy(GroupId(u32::from(pick % 2))),
            other => SegmentKey::Segment(SegmentId(u32::from(other))),
        }
    }

    fn perform(&mut self, act: Act) {
        let world = &mut self.world;
        match act {
            Act::Spawn(node) => {
                if world.actors.iter().filter(|actor| !actor.dead).count() < MAX_PROGRAMS {
                    let pid = 1000 + u32::try_from(world.actors.len()).expect("few");
                    let credentials = proto::manager::Credentials { uid: 1000, gids: vec![100], pid };
                    let actor = world.spawn(Self::node(node), credentials, &format!("program{pid}"));
                    world.actors[actor].keeps = false;
                    world.try_attach(actor);
                }
            }
            Act::KillManager(node) => {
                if world.nodes[Self::node(node)].manager.is_some() {
                    world.kill(Self::node(node));
                }
            }
            Act::StopManager(node) => {
                if !world.nodes[Self::node(node)].hung {
                    world.stop(Self::node(node));
                }
            }
            Act::StartManager(node) => {
                if world.nodes[Self::node(node)].manager.is_none() {
                    world.start(Self::node(node));
                }
            }
            Act::Hang(node) => world.hang(Self::node(node)),
            Act::Unhang(node) => world.unhang(Self::node(node)),
            Act::Cut(a, b) => world.cut(Self::node(a), Self::node(b)),
            Act::Part(a, b) => world.part(Self::node(a), Self::node(b)),
            Act::Heal => world.heal(),
            Act::Settle => self.settle(),
            other => self.perform_by_program(other),
        }
    }

    fn perform_by_program(&mut self, act: Act) {
        let (Act::KillProgram(pick)
        | Act::CreateSegment(pick, ..)
        | Act::CreateInterrupt(pick, ..)
        | Act::SetAvailable(pick, ..)
        | Act::Remove(pick, ..)
        | Act::Share(pick, ..)
        | Act::Attach(pick, ..)
        | Act::Connect(pick, ..)
        | Act::Disconnect(pick, ..)
        | Act::Watch(pick, ..)
        | Act::Probe(pick, _)
        | Act::Status(pick)) = act
        else {
            return;
        };
        let Some(actor) = self.actor(pick) else { return };
        let (body, beside) = match act {
            Act::KillProgram(_) => return self.world.kill_program(actor),
            Act::CreateSegment(_, key, available) => {
                let (key, size_bytes, incarnation) = (Self::key(key), 4096, self.draw());
                self.note_contested(actor, Imported::Segment(key));
                let access = Access::default();
                let body =
                    Request::CreateSegment { key, size_bytes, access, incarnation, available, shared: false };
                (body, vec![memory(size_bytes)])
            }
            Act::CreateInterrupt(_, number, pollable) => {
                let kind = if number % 3 == 0 { InterruptKind::Plain } else { InterruptKind::Data };
                let number = (number < 200).then(|| InterruptNo(u32::from(number % 4)));
                let (access, incarnation) = (Access::default(), self.draw());
                if let Some(number) = number {
                    self.note_contested(actor, Imported::Interrupt(number));
                }
                let body =
                    Request::CreateInterrupt { number, kind, access, incarnation, pollable, again: false };
                (body, new_interrupt(pollable))
            }
            Act::SetAvailable(_, key, available, disconnect) => {
                let Some(key) = self.owned_segment(actor, key) else { return };
                if disconnect && !available {
                    self.note_severed(actor, Imported::Segment(key));
                }
                (Request::SetAvailable { key, available, disconnect }, Vec::new())
            }
            Act::Remove(_, pick, force) => {
                let owned: Vec<Imported> = self.world.actors[actor].objects.keys().copied().collect();
                let Some(what) = choose(&owned, pick) else { return };
                // A forced removal whose answer is lost may have ended the connections and not the object's
                // owner.
                match what {
                    Imported::Segment(key) => (Request::RemoveSegment { key, force }, Vec::new()),
                    Imported::Interrupt(number) => (Request::RemoveInterrupt { number }, Vec::new()),
                }
            }
            Act::Share(_, key) => {
                let Some(key) = self.owned_segment(actor, key) else { return };
                (Request::ShareSegment { key }, Vec::new())
            }
            Act::Attach(_, pick) => {
                let Some(key) = self.segment_of_node(self.world.actors[actor].node, pick) else { return };
                (Request::AttachSegment { key }, Vec::new())
            }
            Act::Connect(_, owner, pick) => {
                let Some((node, what)) = self.something(owner, pick) else { return };
                match what {
                    Imported::Segment(key) => (Request::ConnectSegment { node, key }, Vec::new()),
                    Imported::Interrupt(number) => (Request::ConnectInterrupt { node, number }, Vec::new()),
                }
            }
            Act::Disconnect(_, pick) => {
                let slots: Vec<_> =
                    self.world.actors[actor].imports.values().filter_map(|held| held.slot).collect();
                let Some(import) = choose(&slots, pick) else { return };
                (Request::Disconnect { import }, Vec::new())
            }
            Act::Watch(_, group, on) => {
                let group = GroupId(u32::from(group % 2));
                let body = if on { Request::WatchGroup { group } } else { Request::UnwatchGroup { group } };
                (body, Vec::new())
            }
            Act::Probe(_, node) => {
                (Request::Probe { node: self.world.nodes[Self::node(node)].id }, Vec::new())
            }
            _ => (Request::Status, Vec::new()),
        };
        self.world.request(actor, body, beside);
    }

    fn draw(&mut self) -> Incarnation {
        self.next_incarnation += 1;
        Incarnation(self.next_incarnation)
    }

    fn owned_segment(&self, actor: usize, pick: u8) -> Option<SegmentKey> {
        let keys = self.world.actors[actor].objects.keys().filter_map(|what| match what {
            Imported::Segment(key) => Some(*key),
            Imported::Interrupt(_) => None,
        });
        choose(&keys.collect::<Vec<_>>(), pick)
    }

    fn segment_of_node(&self, node: usize, pick: u8) -> Option<SegmentKey> {
        let here =
            self.world.actors.iter().enumerate().filter(|(_, actor)| !actor.dead && actor.node == node);
        choose(&here.filter_map(|(actor, _)| self.owned_segment(actor, pick)).collect::<Vec<_>>(), pick)
    }

    fn note_contested(&mut self, actor: usize, what: Imported) {
        let node = self.world.nodes[self.world.actors[actor].node].id;
        self.truth.contested.entry((node, what)).or_default().push(self.world.now);
    }

    /// The order will meet the object that is there now, or one that is being created under the same key.
    fn note_severed(&mut self, actor: usize, what: Imported) {
        let actor = &self.world.actors[actor];
        let node = self.world.nodes[actor.node].id;
        let on_the_way = actor.outstanding.values().filter_map(|(body, _)| match body {
            Request::CreateSegment { key, incarnation, .. } if Imported::Segment(*key) == what => {
                Some(*incarnation)
            }
            _ => None,
        });
        let incarnations = on_the_way.chain([actor.objects[&what].incarnation]);
        self.truth.severed.extend(incarnations.map(|incarnation| (node, what, incarnation)));
    }

    /// Mostly something that exists; sometimes something that does not.
    fn something(&self, owner: u8, pick: u8) -> Option<(NodeId, Imported)> {
        if pick > 240 {
            let id = self.world.nodes[Self::node(owner)].id;
            return Some((id, Imported::Segment(Self::key(pick))));
        }
        let all: Vec<(NodeId, Imported)> = self
            .world
            .actors
            .iter()
            .filter(|actor| !actor.dead)
            .flat_map(|actor| actor.objects.keys().map(|what| (self.world.nodes[actor.node].id, *what)))
            .collect();
        choose(&all, owner.wrapping_mul(31).wrapping_add(pick))
    }
}

fn choose<T: Copy>(among: &[T], pick: u8) -> Option<T> {
    (!among.is_empty()).then(|| among[usize::from(pick) % among.len()])
}

/// As many cases, unless `PROPTEST_CASES` asks for others (a long run).
pub fn config(cases: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    let cases = asked.unwrap_or(cases);
    ProptestConfig { cases, max_shrink_iters: 4000, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn whatever_happens_all_is_true_in_the_end(seed in any::<u64>(), schedule in schedule(120)) {
        Chaos::new(seed).run(&schedule);
    }
}

#[test]
fn the_schedules_reach_what_they_are_for() {
    let mut runner = TestRunner::deterministic();
    let mut tally = Tally::default();
    for seed in 0..100 {
        let schedule = schedule(120).new_tree(&mut runner).expect("a schedule").current();
        let mut chaos = Chaos::new(seed);
        chaos.run(&schedule);
        tally.add(&chaos.world.tally);
    }
    tally.has(&[
        "reply Segment",
        "reply Interrupt",
        "reply Resumed",
        "reply Members",
        "refused NotFound",
        "refused NotAvailable",
        "refused NotShared",
        "refused Unreachable",
        "refused InUse",
        "refused Busy",
        "lost OwnerDied",
        "lost Removed",
        "lost Withdrawn",
        "lost NodeLost",
        "disconnected died=true",
        "disconnected died=false",
        "event Connected",
        "event Member",
        "asks Resume",
        "answers Resumed",
        "denies NotFound",
        "denies NotAvailable",
        "tells released died=true",
        "tells released died=false",
        "says Bye",
    ]);
}
