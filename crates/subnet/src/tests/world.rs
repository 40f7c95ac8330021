//! A simulated fabric with several managers in one virtual time, and a network between them that loses,
//! doubles and delays.
//!
//! Each manager runs in a thread of its own, but only one runs at a time: the one whose next event is the
//! earliest. So a run with a seed is the same each time, and waiting takes no time.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use fabric::agents::{Agents, Carried};
use mad::sm::attribute;
use mad::values::{Method, SmState};
use mad::{Address, Lid, Mad, MadTransport, Received, TransportError};
use seeded_random::SplitMix64;
use topology::PortIx;

use crate::{Event, ManageError, Manager, Options};

/// From a request to its response, and from one manager to another.
const TRIP: Duration = Duration::from_micros(20);

/// After what time a manager that ended, as it has no link, is started again.
const RESTART: Duration = Duration::from_secs(1);

/// What the network does to datagrams, in thousandths of them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Net {
    pub(super) lose: u64,
    pub(super) double: u64,
    pub(super) delay: u64,
    /// Longest delay.
    pub(super) late_by: Duration,
}

/// What happens to the fabric from outside.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    /// A manager begins at this port.
    Start(PortIx, u8),
    /// The manager of this number, which ended by itself, begins again, unless it was killed meanwhile.
    Again(usize),
    /// The manager at this port is killed; its port goes on saying that it has one, or not.
    Kill(PortIx, bool),
    /// Cables are pulled, or put back.
    Cables(Vec<PortIx>, bool),
    /// From now on the network is like this.
    Net(Net),
    /// What was sent so far is forgotten.
    Quiet,
    /// The run is over.
    End,
}

/// A manager.
pub(super) struct Actor {
    pub(super) port: PortIx,
    pub(super) priority: u8,
    pub(super) alive: bool,
    killed: bool,
    pub(super) role: SmState,
    inbox: BTreeMap<(Duration, u64), Received>,
    /// Until when it waits.
    wake: Duration,
    /// Wakes its thread.
    bell: Arc<Condvar>,
    pub(super) error: Option<String>,
}

pub(super) struct World {
    pub(super) agents: Agents,
    pub(super) now: Duration,
    pub(super) actors: Vec<Actor>,
    /// Sets since the last [`Fault::Quiet`], by attribute.
    pub(super) sets: BTreeMap<u16, u64>,
    /// Sets that one sent which was not master.
    pub(super) unlawful: Vec<String>,
    /// What happened: when, to which manager, what.
    pub(super) told: Vec<(Duration, usize, String)>,
    faults: std::collections::VecDeque<(Duration, Fault)>,
    options: Options,
    net: Net,
    random: SplitMix64,
    sent: u64,
    turn: usize,
    over: bool,
    threads: Vec<JoinHandle<()>>,
}

/// The world, and what wakes the one who waits for its end.
#[derive(Clone)]
pub(super) struct Shared(Arc<(Mutex<World>, Condvar)>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, World> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is this one's turn, or it is dead. False: it is dead.
    fn wait_turn<'a>(&'a self, mut world: MutexGuard<'a, World>, me: usize) -> Option<MutexGuard<'a, World>> {
        let bell = Arc::clone(&world.actors[me].bell);
        while world.turn != me && world.actors[me].alive && !world.over {
            world = bell.wait(world).unwrap_or_else(PoisonError::into_inner);
        }
        (world.actors[me].alive && !world.over).then_some(world)
    }

    /// Gives the turn to the one whose next event is the earliest. What happens before is done.
    fn pass(&self, world: &mut World) {
        loop {
            let next = |actor: &Actor| {
                let first = actor.inbox.keys().next().map(|key| key.0);
                first.map_or(actor.wake, |first| first.min(actor.wake))
            };
            let actors = world.actors.iter().enumerate().filter(|(_, actor)| actor.alive);
            let earliest = actors.map(|(index, actor)| (next(actor), index)).min();
            let fault = world.faults.front().map(|fault| fault.0);
            match (earliest, fault) {
                (Some((at, index)), fault) if fault.is_none_or(|fault| at < fault) => {
                    world.now = world.now.max(at);
                    world.turn = index;
                    break;
                }
                (_, Some(at)) => {
                    world.now = world.now.max(at);
                    let Some((_, fault)) = world.faults.pop_front() else { break };
                    self.happen(world, fault);
                    if world.over {
                        break;
                    }
                }
                (_, None) => {
                    world.over = true;
                    break;
                }
            }
        }
        if world.over {
            world.actors.iter().for_each(|actor| actor.bell.notify_one());
            self.0.1.notify_all();
        } else if let Some(actor) = world.actors.get(world.turn) {
            actor.bell.notify_one();
        }
    }

    fn happen(&self, world: &mut World, fault: Fault) {
        match fault {
            Fault::Start(port, priority) => {
                let me = world.actors.len();
                world.actors.push(Actor {
                    port,
                    priority,
                    alive: true,
                    killed: false,
                    role: SmState::DISCOVERING,
                    inbox: BTreeMap::new(),
                    wake: world.now,
                    bell: Arc::new(Condvar::new()),
                    error: None,
                });
                world.agents.set_is_sm(port, true);
                let (shared, options) = (self.clone(), Options { priority, ..world.options.clone() });
                world.threads.push(std::thread::spawn(move || shared.manage(me, options)));
            }
            Fault::Again(who) => {
                let actor = &world.actors[who];
                if !actor.killed && world.behind(actor.port).is_none() {
                    self.happen(world, Fault::Start(actor.port, actor.priority));
                }
            }
            Fault::Kill(port, says_so) => {
                for actor in world.actors.iter_mut().filter(|actor| actor.port == port) {
                    (actor.alive, actor.killed) = (false, true);
                    actor.bell.notify_one();
                }
                if !says_so {
                    world.agents.set_is_sm(port, false);
                }
            }
            Fault::Cables(cables, pull) => cables.into_iter().for_each(|cable| {
                if pull {
                    world.agents.unlink(cable)
                } else {
                    world.agents.relink(cable)
                };
            }),
            Fault::Net(net) => world.net = net,
            Fault::Quiet => world.sets.clear(),
            Fault::End => world.over = true,
        }
    }

    /// The life of a manager.
    fn manage(&self, me: usize, options: Options) {
        if self.wait_turn(self.lock(), me).is_none() {
            return;
        }
        let mut transport = Port { shared: self.clone(), me };
        let mut event = |event: Event| {
            let mut world = self.lock();
            let said = match &event {
                Event::BroughtUp(why, up) => format!("BroughtUp: {why}: {:?} {:?}", up.sets, up.findings),
                Event::Repaired(it) => format!("Repaired: {}: {:?} {:?}", it.cause, it.sets, it.findings),
                Event::Role { state, why } => format!("Role: {state}: {why}"),
                Event::Grouped(it) => format!("Grouped: {it:?}"),
            };
            let at = world.now;
            if let Event::Role { state, .. } = &event
                && world.actors[me].alive
            {
                world.actors[me].role = *state;
            }
            world.told.push((at, me, said));
        };
        let ended = Manager::new(options)
            .and_then(|mut manager| manager.attend(&mut transport, None, &mut event, &|| false));
        let mut world = self.lock();
        if world.actors[me].alive && !world.over {
            let actor = &mut world.actors[me];
            actor.alive = false;
            match ended {
                // What starts services starts it again.
                Err(ManageError::NoLink) => {
                    let at = world.now + RESTART;
                    let place = world.faults.partition_point(|fault| fault.0 <= at);
                    world.faults.insert(place, (at, Fault::Again(me)));
                }
                ended => actor.error = Some(format!("{ended:?}")),
            }
            self.pass(&mut world);
        }
    }
}

/// What a manager sends by.
struct Port {
    shared: Shared,
    me: usize,
}

fn gone() -> TransportError {
    TransportError::Gone("the manager".to_owned())
}

impl World {
    fn happens(&mut self, thousandths: u64) -> bool {
        thousandths > 0 && self.random.next_u64() % 1000 < thousandths
    }

    /// Into the inbox of the manager behind a port, if there is one.
    fn deliver(&mut self, to: usize, received: Received) {
        if self.happens(self.net.lose) {
            return;
        }
        for _ in 0..1 + u32::from(self.happens(self.net.double)) {
            let mut at = self.now + TRIP;
            if self.happens(self.net.delay) {
                let most = self.net.late_by.as_micros().max(1) as u64;
                at += Duration::from_micros(self.random.next_u64() % most);
            }
            self.sent += 1;
            self.actors[to].inbox.insert((at, self.sent), received);
        }
    }

    fn behind(&self, port: PortIx) -> Option<usize> {
        self.actors.iter().position(|actor| actor.alive && actor.port == port)
    }

    fn traps(&mut self) {
        if !self.agents.has_traps() {
            return;
        }
        for (port, to, mad) in self.agents.due_traps(self.now) {
            if let Carried::Arrived(at, lid, mad) = self.agents.carry_trap(port, to, &mad)
                && let Some(to) = self.behind(at)
            {
                let from = Address::management(lid);
                self.deliver(to, Received { from, mad: *mad, undelivered: false });
            }
        }
    }

    fn send(&mut self, me: usize, to: &Address, mad: &Mad) {
        let header = mad.header();
        let is_set = header.method() == Method::SET && header.attribute() != attribute::SM_INFO;
        if is_set {
            *self.sets.entry(header.attribute()).or_default() += 1;
            if self.actors[me].role != SmState::MASTER {
                self.unlawful.push(format!("{me} at {:?} sets {:#x}", self.now, header.attribute()));
            }
        }
        if self.happens(self.net.lose) {
            return;
        }
        match self.agents.carry(self.actors[me].port, to, mad) {
            Carried::Answered(lid, answer) => {
                let from = Address { lid, ..*to };
                self.deliver(me, Received { from, mad: *answer, undelivered: false });
            }
            Carried::Arrived(at, lid, mad) => {
                if let Some(to) = self.behind(at) {
                    let from = Address::management(lid);
                    self.deliver(to, Received { from, mad: *mad, undelivered: false });
                }
            }
            Carried::Taken | Carried::Lost => {}
        }
        self.traps();
    }
}

impl MadTransport for Port {
    fn send(&mut self, to: &Address, mad: &Mad) -> Result<bool, TransportError> {
        let mut world = self.shared.lock();
        if !world.actors[self.me].alive || world.over {
            return Err(gone());
        }
        world.send(self.me, to, mad);
        Ok(true)
    }

    fn receive(&mut self, wait: Duration) -> Result<Option<Received>, TransportError> {
        let mut world = self.shared.lock();
        if !world.actors[self.me].alive || world.over {
            return Err(gone());
        }
        let until = world.now + wait;
        world.actors[self.me].wake = until;
        world.traps();
        self.shared.pass(&mut world);
        let Some(mut world) = self.shared.wait_turn(world, self.me) else { return Err(gone()) };
        let now = world.now;
        let inbox = &mut world.actors[self.me].inbox;
        let first = inbox.keys().next().copied().filter(|(at, _)| *at <= now);
        Ok(first.and_then(|key| inbox.remove(&key)))
    }

    fn now(&self) -> Duration {
        self.shared.lock().now
    }

    fn lid(&self) -> Lid {
        Lid(0)
    }

    fn sm_lid(&self) -> Lid {
        Lid(0)
    }
}

/// Runs a fabric through what happens to it, to the end.
pub(super) fn run(agents: Agents, options: Options, faults: Vec<(Duration, Fault)>, seed: u64) -> World {
    let world = World {
        agents,
        now: Duration::ZERO,
        actors: Vec::new(),
        sets: BTreeMap::new(),
        unlawful: Vec::new(),
        told: Vec::new(),
        faults: faults.into(),
        options,
        net: Net::default(),
        random: SplitMix64::new(seed),
        sent: 0,
        turn: usize::MAX,
        over: false,
        threads: Vec::new(),
    };
    let shared = Shared(Arc::new((Mutex::new(world), Condvar::new())));
    shared.pass(&mut shared.lock());
    loop {
        let mut world = shared.lock();
        while !world.over {
            world = shared.0.1.wait(world).unwrap_or_else(PoisonError::into_inner);
        }
        let threads = std::mem::take(&mut world.threads);
        drop(world);
        if threads.is_empty() {
            break;
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
    let Ok(shared) = Arc::try_unwrap(shared.0) else { panic!("a thread has it still") };
    shared.0.into_inner().unwrap_or_else(PoisonError::into_inner)
}
