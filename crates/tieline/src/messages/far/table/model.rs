//! Searches how queues meet: random orders of all that happens, in virtual time. Queues that are closed, and
//! opened again at the same port under another name while requests for the one before are on their way;
//! numbers of memory that are used again at once; steps that fail for now, and puts that fail for good at one
//! end. At the end nobody waits for a peer that will never be there: both have met, or each that wants the
//! other knows that it is gone.
//!
//! The table is the real one. What threads do (`job.rs`) is done here in the same steps, in made-up memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use message_queue::Name;
use message_queue::meet::NotAsked;
use proto::ids::{NodeId, SegmentId};
use seeded_random::SplitMix64;

use super::super::forms::{Hello, Welcome};
use super::super::job::Job;
use super::super::workers::Workers;
use super::{Asked, Owing, Pauses, Step, Table, World};

const RUNS: u64 = 1000;
/// What happens before all failures end, at most.
const STEPS: usize = 200;
/// A port has so many places, so that there is no room now and then.
const PLACES: usize = 2;
const AGAIN: Duration = Duration::from_millis(200);
const PAUSES: Pauses = Pauses { left: Duration::from_secs(1), no_room: Duration::from_millis(10) };

#[derive(Debug, Default)]
struct Cell<T>(Mutex<T>);

impl<T: Clone> Cell<T> {
    fn get(&self) -> T {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, value: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = value;
    }
}

/// A queue's port.
#[derive(Debug, Default)]
struct Port {
    is_closed: Cell<bool>,
    left: Cell<Vec<Hello>>,
}

/// Memory that a queue has made for a peer.
#[derive(Debug)]
struct Memory {
    number: u32,
    key: u64,
    owner: Name,
    peer: Name,
    answer: Cell<Option<Welcome>>,
    is_removed: Cell<bool>,
}

/// The owner's hold of it.
#[derive(Debug)]
struct Own(Arc<Memory>);

impl Drop for Own {
    fn drop(&mut self) {
        self.0.is_removed.set(true);
    }
}

#[derive(Debug)]
struct Pair {
    own: Own,
    its: Arc<Memory>,
    /// A put has failed for good.
    is_gone: Cell<bool>,
}

#[derive(Debug)]
struct Sim;

impl World for Sim {
    type Contact = Port;
    type Own = Own;
    type Pair = Pair;

    fn is_usable(contact: &Port) -> bool {
        !contact.is_closed.get()
    }

    fn answer(own: &Own) -> Option<Welcome> {
        own.0.answer.get()
    }

    fn is_there(pair: &Pair) -> bool {
        !pair.is_gone.get() && !pair.its.is_removed.get()
    }

    fn is_met(_: &Pair) -> bool {
        true
    }
}

/// What a thread is at.
#[derive(Debug)]
enum Work {
    Make(Name),
    Leave { name: Name, own: Own },
    Complete { name: Name, number: SegmentId, own: Own },
    Answer(Owing<Sim>),
    MeetAndAnswer { hello: Hello, own: Option<Own>, its: Arc<Memory> },
    PutAnswer(Arc<Pair>),
    TurnAway(Hello),
}

#[derive(Debug)]
struct Queue {
    name: Name,
    node: NodeId,
    port: Arc<Port>,
    table: Table<Sim>,
    work: Vec<Work>,
    /// Of peers that were met, until they are lost.
    pairs: BTreeMap<[u8; 32], Arc<Pair>>,
    wanted: BTreeSet<[u8; 32]>,
    asked: BTreeSet<[u8; 32]>,
    lost: BTreeSet<[u8; 32]>,
}

struct Net {
    random: SplitMix64,
    now: Instant,
    /// By number; a number is used again at once.
    memory: Vec<Arc<Memory>>,
    /// One for each port: the queue that is there.
    queues: Vec<Queue>,
    may_fail: bool,
}

fn name_of(random: &mut SplitMix64) -> Name {
    let mut bytes = Name::new().unwrap().bytes();
    bytes[4..8].fill(0);
    bytes[16..24].copy_from_slice(&random.next_u64().to_ne_bytes());
    bytes[24..].copy_from_slice(&random.next_u64().to_ne_bytes());
    Name::of_any_machine(&bytes).unwrap()
}

fn name(bytes: &[u8; 32]) -> Name {
    Name::of_any_machine(bytes).unwrap()
}

impl Queue {
    fn open(random: &mut SplitMix64, nth: usize) -> Self {
        let node = NodeId::new(4 * (nth as u32 + 1)).unwrap();
        let (table, port) = (Table::default(), Arc::default());
        let (name, work, pairs) = (name_of(random), Vec::new(), BTreeMap::new());
        let (wanted, asked, lost) = Default::default();
        Self { name, node, port, table, work, pairs, wanted, asked, lost }
    }

    fn lose(&mut self, peer: &[u8; 32]) {
        self.lost.insert(*peer);
        self.pairs.remove(peer);
    }

    fn not_yet(&mut self, peer: &Name) {
        self.asked.remove(&peer.bytes());
    }

    /// The queue's own thread: takes requests, begins what is due, asks whom it wants, watches.
    fn turn(&mut self, now: Instant) {
        let own_name = self.name;
        for hello in std::mem::take(&mut *self.port.left.0.lock().unwrap()) {
            if hello.to == own_name {
                self.table.hello(&hello, &own_name, 100, now);
            }
        }
        while let Some((job, _)) = self.table.next_due(now, &Workers::default()) {
            self.work.push(match job {
                Job::Ask(name) => Work::Make(name),
                Job::Repeat { name, own, .. } => Work::Leave { name, own },
                Job::Complete { name, answer: Welcome::At(number), own } => {
                    Work::Complete { name, number, own }
                }
                Job::Complete { name, answer: Welcome::Never, .. } => {
                    self.table.set_after_work(&name, Step::Gone, &own_name, now);
                    continue;
                }
                Job::Answer(owing) => Work::Answer(owing),
                Job::TurnAway(hello) => Work::TurnAway(hello),
                Job::Seal { .. } => continue,
            });
        }
        for peer in self.wanted.clone() {
            if self.lost.contains(&peer) {
                continue;
            }
            if !self.pairs.contains_key(&peer) && !self.asked.contains(&peer) {
                match self.table.may_ask(&name(&peer), now) {
                    Ok(is_to_ask) => {
                        self.asked.insert(peer);
                        if is_to_ask {
                            self.table.set(&name(&peer), Step::AtWork);
                            self.work.push(Work::Make(name(&peer)));
                        }
                    }
                    Err(NotAsked::Nobody) => self.lose(&peer),
                    Err(_) => {}
                }
            }
            if !self.table.get(&name(&peer)).is_some_and(super::Peer::is_there) {
                self.lose(&peer);
            }
        }
        let gone = self.pairs.iter().filter(|(_, pair)| !Sim::is_there(pair)).map(|(peer, _)| *peer);
        gone.collect::<Vec<_>>().iter().for_each(|peer| self.lose(peer));
    }
}

impl Net {
    fn new(seed: u64, count: usize) -> Self {
        let mut random = SplitMix64::new(seed);
        let queues = (0..count).map(|nth| Queue::open(&mut random, nth)).collect();
        Self { random, now: Instant::now(), memory: Vec::new(), queues, may_fail: true }
    }

    fn fails(&mut self, one_in: usize) -> bool {
        self.may_fail && self.random.below(one_in) == 0
    }

    fn make(&mut self, owner: Name, peer: Name) -> Own {
        let free = self.memory.iter().position(|memory| memory.is_removed.get());
        let number = free.unwrap_or(self.memory.len());
        let (key, answer, is_removed) = (self.random.next_u64(), Cell::default(), Cell::default());
        let memory = Arc::new(Memory { number: number as u32, key, owner, peer, answer, is_removed });
        match self.memory.get_mut(number) {
            Some(place) => *place = Arc::clone(&memory),
            None => self.memory.push(Arc::clone(&memory)),
        }
        Own(memory)
    }

    /// Memory of that number: as a queue connects to what a peer has named.
    fn connect(&self, number: SegmentId, owner: Name, peer: Name) -> Option<Arc<Memory>> {
        let memory = self.memory.get(number.0 as usize)?;
        let is_meant = memory.owner == owner && memory.peer == peer && !memory.is_removed.get();
        is_meant.then(|| Arc::clone(memory))
    }

    /// Closes the queue at a port, and opens another one there.
    fn reopen(&mut self, nth: usize) {
        let old = std::mem::replace(&mut self.queues[nth], Queue::open(&mut self.random, nth));
        old.port.is_closed.set(true);
        // All that it has made is dropped with it; a thread that is at it ends.
    }

    /// A queue looks for another one at its port, and wants to exchange messages with it.
    fn find(&mut self, from: usize, to: usize) {
        let (found, node, contact) = {
            let to = &self.queues[to];
            (to.name, to.node, Arc::clone(&to.port))
        };
        let queue = &mut self.queues[from];
        queue.table.found(found, node, contact).unwrap();
        queue.wanted.insert(found.bytes());
    }

    /// A thread of a queue goes on with one of its steps.
    fn work(&mut self, nth: usize, at: usize) {
        let work = self.queues[nth].work.swap_remove(at);
        let (own_name, node, now) = (self.queues[nth].name, self.queues[nth].node, self.now);
        match work {
            Work::Make(name) => {
                if self.fails(8) {
                    let queue = &mut self.queues[nth];
                    queue.table.put_off(&name, &own_name, now, AGAIN);
                    return queue.not_yet(&name);
                }
                let own = self.make(own_name, name);
                self.queues[nth].work.push(Work::Leave { name, own });
            }
            Work::Leave { name, own } => {
                let contact = self.queues[nth].table.get(&name).and_then(|peer| peer.contact.clone());
                let (fails_now, fails) = (self.fails(8), self.fails(40));
                let asked = |own, wait| {
                    Step::Asked(Asked { own, again_at: now + wait, pauses: PAUSES, not_before: now })
                };
                let step = match contact {
                    Some(port) if !fails && !port.is_closed.get() => {
                        let segment = SegmentId(own.0.number);
                        let hello = Hello { from: own_name, to: name, node, segment, key: own.0.key };
                        let mut left = port.left.0.lock().unwrap();
                        if fails_now {
                            asked(own, AGAIN)
                        } else if left.len() < PLACES {
                            left.push(hello);
                            asked(own, PAUSES.left)
                        } else {
                            asked(own, PAUSES.no_room)
                        }
                    }
                    _ => Step::Gone,
                };
                self.queues[nth].table.set_after_work(&name, step, &own_name, now);
            }
            Work::Complete { name, number, own } => {
                if self.fails(8) {
                    let (again_at, not_before) = (now + 30 * PAUSES.left, now + AGAIN);
                    let asked = Step::Asked(Asked { own, again_at, pauses: PAUSES, not_before });
                    return self.queues[nth].table.set_after_work(&name, asked, &own_name, now);
                }
                match self.connect(number, name, own_name) {
                    Some(its) => _ = self.meet(nth, name, own, its),
                    None => self.queues[nth].table.set_after_work(&name, Step::Gone, &own_name, now),
                }
            }
            Work::Answer(Owing { hello, own, failures, .. }) => {
                if self.fails(8) {
                    let owing = Step::Owing(Owing { hello, own, at: now + AGAIN, failures: failures + 1 });
                    return self.queues[nth].table.set_after_work(&hello.from, owing, &own_name, now);
                }
                let its = self.connect(hello.segment, hello.from, own_name);
                match its.filter(|its| its.key == hello.key) {
                    Some(its) => self.queues[nth].work.push(Work::MeetAndAnswer { hello, own, its }),
                    None => self.refuse(nth, &hello.from, own),
                }
            }
            Work::MeetAndAnswer { hello, own, its } => {
                let own = own.unwrap_or_else(|| self.make(own_name, hello.from));
                let pair = self.meet(nth, hello.from, own, its);
                self.queues[nth].work.push(Work::PutAnswer(pair));
            }
            Work::PutAnswer(pair) => {
                if self.fails(20) {
                    return pair.is_gone.set(true);
                }
                pair.its.answer.set(Some(Welcome::At(SegmentId(pair.own.0.number))));
            }
            Work::TurnAway(hello) => {
                let its = self.connect(hello.segment, hello.from, own_name);
                if let Some(its) = its.filter(|its| its.key == hello.key)
                    && !self.fails(3)
                {
                    its.answer.set(Some(Welcome::Never));
                }
                self.queues[nth].table.set_after_work(&hello.from, Step::Gone, &own_name, now);
            }
        }
    }

    fn meet(&mut self, nth: usize, name: Name, own: Own, its: Arc<Memory>) -> Arc<Pair> {
        let pair = Arc::new(Pair { own, its, is_gone: Cell::default() });
        let queue = &mut self.queues[nth];
        queue.table.met(&name, Arc::downgrade(&pair));
        // A second one would break the order of messages, and who is lost is not listened to again.
        if !queue.lost.contains(&name.bytes()) {
            queue.pairs.entry(name.bytes()).or_insert_with(|| Arc::clone(&pair));
        }
        pair
    }

    fn refuse(&mut self, nth: usize, name: &Name, own: Option<Own>) {
        let now = self.now;
        let queue = &mut self.queues[nth];
        let is_asked = queue.table.get(name).is_some_and(|peer| peer.is_asked);
        match own {
            Some(own) if is_asked => {
                let asked = Asked { own, again_at: now, pauses: PAUSES, not_before: now };
                queue.table.set(name, Step::Asked(asked));
            }
            _ => {
                queue.table.give_up(name);
                queue.not_yet(name);
            }
        }
    }

    /// Something happens.
    fn step(&mut self) {
        let nth = self.random.below(self.queues.len());
        match self.random.below(12) {
            0 if self.may_fail => self.reopen(nth),
            1 | 2 if self.may_fail => {
                let other = (nth + 1 + self.random.below(self.queues.len() - 1)) % self.queues.len();
                self.find(nth, other);
            }
            // A request that was left is lost with the thread that has left it half.
            3 if self.may_fail => drop(self.queues[nth].port.left.0.lock().unwrap().pop()),
            4 => self.now += AGAIN / 4,
            5..8 => self.queues[nth].turn(self.now),
            _ => {
                let count = self.queues[nth].work.len();
                if count > 0 {
                    let at = self.random.below(count);
                    self.work(nth, at);
                }
            }
        }
    }

    /// Whom a queue waits for although nothing will come of it.
    fn waits_in_vain(&self) -> Option<String> {
        for queue in &self.queues {
            for peer in queue.wanted.difference(&queue.lost) {
                let other = self.queues.iter().find(|other| other.name.bytes() == *peer);
                let Some(other) = other else {
                    return Some(format!("{queue:#?}\nwaits for one that is gone"));
                };
                let (ours, theirs) = (queue.pairs.get(peer), other.pairs.get(&queue.name.bytes()));
                let is_met = ours.zip(theirs).is_some_and(|(ours, theirs)| {
                    Arc::ptr_eq(&ours.own.0, &theirs.its) && Arc::ptr_eq(&theirs.own.0, &ours.its)
                });
                if !is_met {
                    return Some(format!("{queue:#?}\nhas not met\n{other:#?}"));
                }
            }
        }
        None
    }
}

#[test]
fn whatever_happens_nobody_waits_for_a_peer_that_will_never_be_there() {
    let mut met = 0;
    for seed in 0..RUNS {
        let mut net = Net::new(seed, 2 + (seed % 2) as usize);
        for _ in 0..STEPS {
            net.step();
        }
        net.may_fail = false;
        // All goes on, and requests are repeated, until nothing changes any more.
        for _ in 0..40 {
            net.now += 30 * PAUSES.left;
            for nth in 0..net.queues.len() {
                net.queues[nth].turn(net.now);
                while !net.queues[nth].work.is_empty() {
                    net.work(nth, 0);
                }
            }
        }
        if let Some(who) = net.waits_in_vain() {
            panic!("seed {seed}: {who}");
        }
        met += net.queues.iter().map(|queue| queue.pairs.len()).sum::<usize>();
    }
    assert!(met as u64 > RUNS / 2, "the search has to reach queues that meet: {met}");
}
