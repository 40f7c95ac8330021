//! The generator's model of the program so far, to make meaningful calls and to know which may
//! block.
//!
//! It need not be right. What it does not foresee is run and compared all the same; it only must not make
//! programs whose outcome is chance: two calls that wait for the same bytes, or a wait that nobody ends.

use crate::program::call::{Disposition, Kind, Signal};
use crate::program::{ACTORS, Actor, Call, NAMES, Name, SLOTS, Slot, Step};
use crate::random::Random;

/// An open file, which slots of several processes may hold.
pub(super) type Id = usize;

/// What is behind a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    /// A socket that is nothing yet.
    Fresh(Kind),
    /// Bound and listening, with the clients that wait to be accepted.
    Listener(Kind, Name, Vec<Id>),
    /// One end of a stream, or of a pair with limits between messages.
    Stream(Kind),
    /// A datagram socket, bound to a name if it has one.
    Dgram(Kind, Option<Name>),
    /// A pipe's end to read from.
    PipeOut,
    /// A pipe's end to write to.
    PipeIn,
    Epoll,
    Eventfd,
    Memfd,
}

/// An open file.
#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) what: What,
    pub(super) nonblock: bool,
    /// Waits end after a while.
    pub(super) times_out: bool,
    /// The other end.
    pub(super) peer: Option<Id>,
    /// Bytes, or messages, that wait to be read here.
    pub(super) queued: usize,
    /// Nothing more will come.
    pub(super) ended: bool,
    /// Nothing more can be sent.
    pub(super) shut: bool,
    /// Members of an epoll set.
    pub(super) members: Vec<Id>,
}

impl Object {
    fn new(what: What, nonblock: bool) -> Self {
        Self {
            what,
            nonblock,
            times_out: false,
            peer: None,
            queued: 0,
            ended: false,
            shut: false,
            members: Vec::new(),
        }
    }

    pub(super) fn kind(&self) -> Option<Kind> {
        match &self.what {
            What::Fresh(kind) | What::Listener(kind, ..) | What::Stream(kind) | What::Dgram(kind, _) => {
                Some(*kind)
            }
            _ => None,
        }
    }

    pub(super) fn is_tcp(&self) -> bool {
        matches!(self.kind(), Some(Kind::Tcp4 | Kind::Tcp6))
    }

    pub(super) fn is_unix(&self) -> bool {
        matches!(self.kind(), Some(Kind::UnixStream | Kind::UnixDgram | Kind::UnixSeq))
    }

    /// Bytes without limits between messages.
    pub(super) fn is_stream(&self) -> bool {
        matches!(
            self.what,
            What::Stream(Kind::Tcp4 | Kind::Tcp6 | Kind::UnixStream) | What::PipeIn | What::PipeOut
        )
    }

    pub(super) fn carries(&self) -> bool {
        matches!(self.what, What::Stream(_) | What::Dgram(..) | What::PipeIn | What::PipeOut | What::Eventfd)
    }

    pub(super) fn is_readable(&self) -> bool {
        match &self.what {
            What::Listener(_, _, waiting) => !waiting.is_empty(),
            What::Fresh(_) | What::Memfd => true,
            What::PipeIn | What::Epoll => false,
            _ => self.queued > 0 || self.ended,
        }
    }
}

/// Someone who makes calls.
#[derive(Debug, Clone)]
pub(super) struct Player {
    /// The actor that the process began with.
    pub(super) process: Actor,
    /// In a call that waits for one of these.
    pub(super) blocked: Option<Vec<Id>>,
}

/// Everything that is believed.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) random: Random,
    pub(super) steps: Vec<Step>,
    pub(super) players: [Option<Player>; ACTORS],
    pub(super) slots: [[Option<Id>; SLOTS]; ACTORS],
    pub(super) objects: Vec<Object>,
    pub(super) handled: [Vec<(Signal, Disposition)>; ACTORS],
    /// Slots that were used once and hold a number that means something else now, or nothing.
    pub(super) stale: Vec<(Actor, Slot)>,
    /// Whether a process has used aio: not, itself, or before it was forked.
    pub(super) aio: [Option<bool>; ACTORS],
    /// Waits that time out: they cost real time, so there are few.
    pub(super) waits_left: usize,
    next_slot: u8,
    next_name: u8,
}

impl Model {
    pub(super) fn new(seed: u64) -> Self {
        let mut players: [Option<Player>; ACTORS] = std::array::from_fn(|_| None);
        players[0] = Some(Player { process: Actor(0), blocked: None });
        Self {
            random: Random::new(seed),
            steps: Vec::new(),
            players,
            slots: [[None; SLOTS]; ACTORS],
            objects: Vec::new(),
            handled: std::array::from_fn(|_| Vec::new()),
            stale: Vec::new(),
            aio: [None; ACTORS],
            waits_left: 2,
            next_slot: 0,
            next_name: 0,
        }
    }

    /// Writes a step.
    pub(super) fn step(&mut self, actor: Actor, call: Call) {
        self.steps.push(Step { actor, wait: false, call });
    }

    /// Writes a step that ends by itself after a while.
    pub(super) fn waiting_step(&mut self, actor: Actor, call: Call) {
        self.steps.push(Step { actor, wait: true, call });
    }

    pub(super) fn process(&self, actor: Actor) -> Actor {
        self.players[actor.index()].as_ref().map_or(Actor(0), |player| player.process)
    }

    pub(super) fn is_blocked(&self, actor: Actor) -> bool {
        self.players[actor.index()].as_ref().is_some_and(|player| player.blocked.is_some())
    }

    /// Those who can make a call.
    pub(super) fn idle(&self) -> Vec<Actor> {
        self.all().into_iter().filter(|actor| !self.is_blocked(*actor)).collect()
    }

    /// Those who live.
    pub(super) fn all(&self) -> Vec<Actor> {
        (0..ACTORS as u8).map(Actor).filter(|actor| self.players[actor.index()].is_some()).collect()
    }

    /// Anyone who can make a call.
    pub(super) fn anyone(&mut self) -> Option<Actor> {
        let idle = self.idle();
        self.random.pick(&idle)
    }

    /// A slot that is not in use, round and round.
    pub(super) fn new_slot(&mut self) -> Slot {
        let slot = Slot(self.next_slot % SLOTS as u8);
        self.next_slot = self.next_slot.wrapping_add(1) % SLOTS as u8;
        slot
    }

    pub(super) fn new_name(&mut self) -> Name {
        let name = Name(self.next_name % NAMES as u8);
        self.next_name = (self.next_name + 1) % NAMES as u8;
        name
    }

    /// Puts a new open file into a new slot of this actor's process.
    pub(super) fn hold(&mut self, actor: Actor, slot: Slot, what: What, nonblock: bool) -> Id {
        let id = self.objects.len();
        self.objects.push(Object::new(what, nonblock));
        self.put(actor, slot, Some(id));
        id
    }

    /// Makes a slot hold an open file, or none.
    pub(super) fn put(&mut self, actor: Actor, slot: Slot, id: Option<Id>) {
        let process = self.process(actor);
        let before = self.slots[process.index()][slot.index()];
        self.slots[process.index()][slot.index()] = id;
        if let Some(before) = before {
            self.released(before);
        }
    }

    /// A slot that an idle actor can use, whose open file is as wanted.
    pub(super) fn find(&mut self, wanted: impl Fn(&Object) -> bool) -> Option<(Actor, Slot, Id)> {
        let mut found = Vec::new();
        for actor in self.idle() {
            for (slot, id) in self.slots[self.process(actor).index()].iter().enumerate() {
                if let Some(id) = id.filter(|id| wanted(&self.objects[*id])) {
                    found.push((actor, Slot(slot as u8), id));
                }
            }
        }
        self.random.pick(&found)
    }

    /// A slot of this actor's process, whose open file is as wanted.
    pub(super) fn find_for(&mut self, actor: Actor, wanted: impl Fn(&Object) -> bool) -> Option<(Slot, Id)> {
        let slots = self.slots[self.process(actor).index()].iter().enumerate();
        let found: Vec<(Slot, Id)> = slots
            .filter_map(|(slot, id)| {
                id.filter(|id| wanted(&self.objects[*id])).map(|id| (Slot(slot as u8), id))
            })
            .collect();
        self.random.pick(&found)
    }

    /// Whether this actor may wait for these: others can go on, and nobody waits for the same.
    pub(super) fn may_block(&self, actor: Actor, on: &[Id]) -> bool {
        let others = self.idle().into_iter().filter(|other| *other != actor).count();
        others > 0 && !on.iter().any(|id| self.is_waited_for(*id))
    }

    /// Whether somebody waits for this.
    pub(super) fn is_waited_for(&self, id: Id) -> bool {
        self.players.iter().flatten().filter_map(|player| player.blocked.as_ref()).any(|on| on.contains(&id))
    }

    /// It waits now.
    pub(super) fn block(&mut self, actor: Actor, on: Vec<Id>) {
        if let Some(player) = &mut self.players[actor.index()] {
            player.blocked = Some(on);
        }
    }

    /// Something happened to an open file: who waited for it goes on.
    pub(super) fn wake(&mut self, id: Id) {
        for player in self.players.iter_mut().flatten() {
            if player.blocked.as_ref().is_some_and(|on| on.contains(&id)) {
                player.blocked = None;
            }
        }
    }

    /// An epoll set and all that is in it, sets within sets too.
    pub(super) fn reach(&self, id: Id) -> Vec<Id> {
        let mut all = vec![id];
        let mut at = 0;
        while let Some(next) = all.get(at).copied() {
            for member in self.objects[next].members.clone() {
                if !all.contains(&member) {
                    all.push(member);
                }
            }
            at += 1;
        }
        all
    }

    /// A slot less holds this; with the last one it is closed.
    fn released(&mut self, id: Id) {
        if self.slots.iter().flatten().any(|held| *held == Some(id)) {
            return;
        }
        if let Some(peer) = self.objects[id].peer {
            self.objects[peer].ended = true;
            self.objects[peer].shut = true;
            self.wake(peer);
        }
        if let What::Listener(_, _, waiting) = self.objects[id].what.clone() {
            for client in waiting {
                self.objects[client].ended = true;
                self.objects[client].shut = true;
                self.wake(client);
            }
        }
    }

    /// A process has ended.
    pub(super) fn end_process(&mut self, process: Actor) {
        for player in &mut self.players {
            if player.as_ref().is_some_and(|player| player.process == process) {
                *player = None;
            }
        }
        for slot in 0..SLOTS {
            if let Some(id) = self.slots[process.index()][slot].take() {
                self.released(id);
            }
        }
    }

    /// What a signal does in this actor's process.
    pub(super) fn disposition(&self, actor: Actor, signal: Signal) -> Disposition {
        let handled = self.handled[self.process(actor).index()].iter().rev();
        handled.filter(|(of, _)| *of == signal).map(|(_, with)| *with).next().unwrap_or(Disposition::Default)
    }
}
