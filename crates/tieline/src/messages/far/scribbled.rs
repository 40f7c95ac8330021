//! Whole queues over rings between hosts in made-up memory, with a peer that writes over all of it while
//! messages go both ways: an error of that pair at worst, and every other pair goes on.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use message_queue::lane::{Found, Inlet, LaneError, Outlet};
use message_queue::meet::{Arrival, Meeting, NotAsked};
use message_queue::{Endpoint, Error, MessageQueue, Name, PeerId, Request, Settings, Want};
use seeded_random::SplitMix64;
use shm::doorbell::Waiter;
use shm::region::{Region, RegionOptions};
use shm::sync::{AtomicU32, Ordering};
use shm::window::Window;

use super::forms::{CREDIT_AT, RING_AT, TAIL_AT, store};
use super::mailbox::{Mailbox, PORT_BYTES};
use super::ring::{Carrier, Gone, Incoming, Outgoing, Ring};
use super::table::{Hosts, Table};
use super::workers::Workers;

const RING_BYTES: usize = 32 << 10;
const LIMIT: Option<Duration> = Some(Duration::from_secs(60));

/// Puts into memory of the same process, as many as it is told.
struct Puts<'a>(&'a Region, &'a Cell<u32>);

impl Carrier for Puts<'_> {
    fn try_put(&self, offset: usize, source: Window<'_>) -> Result<bool, Gone> {
        let nth = self.1.get();
        self.1.set(nth.wrapping_add(1));
        if nth.is_multiple_of(5) {
            return Ok(false);
        }
        let mut bytes = vec![0; source.len()];
        source.get(0, &mut bytes).unwrap();
        self.0.window().put(offset, &bytes).unwrap();
        Ok(true)
    }
}

/// What a queue has of a pair.
#[derive(Debug)]
struct Side {
    own: Rc<Region>,
    its: Rc<Region>,
    outgoing: RefCell<Outgoing>,
    puts: Cell<u32>,
}

impl Side {
    fn flush(&self) {
        let _ = self.outgoing.borrow_mut().flush(&Puts(&self.its, &self.puts));
    }
}

#[derive(Debug)]
struct Out(Rc<Side>);

impl Outlet for Out {
    fn send(&mut self, len: usize, fill: impl FnOnce(&Window<'_>)) -> Result<(), LaneError> {
        let sent = self.0.outgoing.borrow_mut().send(&self.0.own.window(), len, fill);
        self.0.flush();
        sent
    }

    fn find_room(&mut self, bytes: usize) -> Result<(), LaneError> {
        let found = self.0.outgoing.borrow_mut().find_room(&self.0.own.window(), bytes);
        self.0.flush();
        found
    }

    fn max_record_bytes(&self) -> usize {
        self.0.outgoing.borrow().ring().max_record_bytes()
    }

    fn memory_bytes(&self) -> usize {
        RING_BYTES
    }
}

#[derive(Debug)]
struct In {
    side: Rc<Side>,
    incoming: Incoming,
}

impl Inlet for In {
    fn take_if<R>(&mut self, look: impl FnOnce(&Window<'_>) -> Option<R>) -> Result<Found<R>, LaneError> {
        let found = self.incoming.take_if(&self.side.own.window(), look);
        if let Some(taken) = self.incoming.due(!matches!(found, Ok(Found::Taken(_)))) {
            self.side.outgoing.borrow_mut().give_back(taken);
        }
        self.side.flush();
        found
    }

    fn knows_more(&self) -> bool {
        self.incoming.knows_more()
    }

    fn expects_more(&self) -> bool {
        true
    }

    fn is_empty(&self) -> bool {
        self.incoming.is_empty(&self.side.own.window())
    }

    fn waiter(&self) -> Option<Waiter<'_>> {
        None
    }

    fn memory_bytes(&self) -> usize {
        RING_BYTES
    }
}

/// Pairs are made by the test, and end when it says so.
struct Made {
    name: Name,
    arrivals: Rc<RefCell<Vec<Arrival<Out, In>>>>,
    ended: Rc<RefCell<Vec<Name>>>,
}

impl Meeting for Made {
    type Outlet = Out;
    type Inlet = In;

    fn name(&self) -> Name {
        self.name
    }

    fn ask(&mut self, _: &Name) -> Result<(), NotAsked> {
        Ok(())
    }

    fn invite(&mut self, _: &Name) -> Result<(), NotAsked> {
        Ok(())
    }

    fn is_there(&self, peer: &Name) -> bool {
        !self.ended.borrow().contains(peer)
    }

    fn has_arrivals(&self) -> bool {
        !self.arrivals.borrow().is_empty()
    }

    fn arrivals_word(&self) -> Option<&AtomicU32> {
        None
    }

    fn arrivals(&mut self) -> Vec<Arrival<Out, In>> {
        std::mem::take(&mut self.arrivals.borrow_mut())
    }
}

struct Queue {
    queue: MessageQueue<Made>,
    name: Name,
    arrivals: Rc<RefCell<Vec<Arrival<Out, In>>>>,
}

impl Queue {
    fn new(ended: &Rc<RefCell<Vec<Name>>>) -> Self {
        let (name, arrivals) = (Name::new().unwrap(), Rc::default());
        let made = Made { name, arrivals: Rc::clone(&arrivals), ended: Rc::clone(ended) };
        let settings = Settings { eager_max_bytes: 4096, cut_bytes: 1024, ..Settings::default() };
        Self { queue: MessageQueue::with(Endpoint::with(made, settings)), name, arrivals }
    }

    fn meets(&self, peer: Name, side: &Rc<Side>, own_key: u64) {
        let (process, name) = (None, peer);
        let incoming = Incoming::new(Ring::new(RING_BYTES as u64).unwrap(), own_key);
        let mut arrivals = self.arrivals.borrow_mut();
        arrivals.push(Arrival::Outlet { name, process, outlet: Out(Rc::clone(side)) });
        arrivals.push(Arrival::Inlet { name, process: None, inlet: In { side: Rc::clone(side), incoming } });
    }
}

/// Makes a pair: the memories of the two and their keys.
fn meet(first: &Queue, second: &Queue, random: &mut SplitMix64) -> [(Rc<Region>, u64); 2] {
    let region = || Rc::new(Region::create(&RegionOptions::new("pair", RING_AT + RING_BYTES)).unwrap());
    let ends = [(region(), random.next_u64()), (region(), random.next_u64())];
    let side = |own: &(Rc<Region>, u64), its: &(Rc<Region>, u64)| {
        let outgoing = Outgoing::new(Ring::new(RING_BYTES as u64).unwrap(), its.1, own.1).unwrap();
        let outgoing = RefCell::new(outgoing);
        Rc::new(Side { own: Rc::clone(&own.0), its: Rc::clone(&its.0), outgoing, puts: Cell::new(1) })
    };
    first.meets(second.name, &side(&ends[0], &ends[1]), ends[0].1);
    second.meets(first.name, &side(&ends[1], &ends[0]), ends[1].1);
    ends
}

fn bytes(tag: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u64 * 13 + tag * 7) as u8).collect()
}

const LENGTHS: [usize; 6] = [0, 8, 700, 4000, 20_000, 50_000];

/// Sends and receives one message of each length: the receives, with their tags and lengths.
fn begin(from: &mut Queue, to: &mut Queue, tag: u64) -> (Vec<Request>, Vec<(Request, u64, usize)>) {
    let (to_number, from_number) = (from.queue.peer(to.name), to.queue.peer(from.name));
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    for (nth, len) in LENGTHS.into_iter().enumerate() {
        let tag = tag + nth as u64;
        let receive = to.queue.receive(Want::exactly(from_number, tag), vec![0; len]);
        receives.push((receive, tag, len));
        // Once the pair is lost, that says so.
        sends.extend(from.queue.send(to_number, tag, bytes(tag, len)));
    }
    (sends, receives)
}

/// All bytes are right.
fn must_be_exact(first: &mut Queue, second: &mut Queue, tag: u64) {
    let (sends, receives) = begin(first, second, tag);
    let until = Instant::now() + Duration::from_secs(60);
    for (receive, tag, len) in receives {
        let status = loop {
            first.queue.progress();
            if let Some(status) = second.queue.test(receive).unwrap() {
                break status;
            }
            assert!(Instant::now() < until, "an honest pair stands still");
        };
        assert_eq!(status.error, None);
        assert!(status.buffers.into_owned().unwrap() == bytes(tag, len), "message {tag} of {len} bytes");
    }
    for send in sends {
        while first.queue.test(send).unwrap().is_none() {
            second.queue.progress();
            assert!(Instant::now() < until, "a send of an honest pair does not end");
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scribbler {
    /// Writes over the words before the ring alone, without the keys: no byte of a message.
    Words,
    /// Writes anything anywhere.
    Blind,
    /// Knows the keys, and what records and messages look like.
    Knowing,
}

fn scribble(kind: Scribbler, (memory, key): &(Rc<Region>, u64), random: &mut SplitMix64) {
    let window = memory.window();
    let words = if kind == Scribbler::Words { RING_AT / 8 } else { (RING_AT + RING_BYTES) / 8 };
    if kind != Scribbler::Knowing {
        return window.store_u64(random.below(words) * 8, random.next_u64()).unwrap();
    }
    let place = random.below(1 << 18) as u64 & !15;
    match random.below(5) {
        0 => store(&window, TAIL_AT, place | random.next_u64() & 1, *key).unwrap(),
        1 => store(&window, CREDIT_AT, place, *key).unwrap(),
        2 => window.store_u64(random.below(words) * 8, random.next_u64() % 40_000).unwrap(),
        // A record, or the beginning of a message in one.
        nth => {
            let at = RING_AT + place as usize % RING_BYTES;
            let head =
                [random.next_u64() % 9, (random.next_u64() & 0xff) << 8, (random.next_u64() % 8) << 32]
                    .iter()
                    .sum::<u64>();
            if nth == 3 {
                window.store_u64(at, place ^ key).unwrap();
                window.store_u64(at + 8, random.next_u64() % 600).unwrap();
            }
            if at + 24 <= RING_AT + RING_BYTES {
                window.store_u64(at + 16, head).unwrap();
            }
        }
    }
}

/// Ends with its message, or with an error of that peer.
fn must_end(queue: &mut Queue, request: Request, peer: PeerId, is_exact: Option<(u64, usize)>) -> bool {
    let status = queue.queue.wait(request, LIMIT).unwrap();
    match status.error {
        None => {
            if let Some((tag, len)) = is_exact.filter(|(tag, _)| *tag > 0) {
                assert!(status.buffers.into_owned().unwrap() == bytes(tag, len), "message {tag}");
            }
            true
        }
        Some(Error::PeerGone { peer: of }) => {
            assert_eq!(of, peer);
            false
        }
        // What is no form is not taken for one.
        Some(Error::PeerWrong { peer: of, .. }) => {
            assert!(of == peer && is_exact.is_none(), "{:?}", status.error);
            false
        }
        Some(Error::Truncated { .. }) => true,
        Some(error) => panic!("{error:?}"),
    }
}

/// One peer of the two others, and what it does to one of them; the pair of that one and the third goes on.
fn round(kind: Scribbler, seed: u64) -> [usize; 2] {
    let (mut random, ended) = (SplitMix64::new(seed), Rc::default());
    let [mut honest, mut other, mut hostile] = [(); 3].map(|()| Queue::new(&ended));
    let ends = meet(&honest, &hostile, &mut random);
    meet(&honest, &other, &mut random);
    must_be_exact(&mut honest, &mut other, 0);
    must_be_exact(&mut honest, &mut hostile, 0);
    let (own_number, its_number) = (honest.queue.peer(hostile.name), hostile.queue.peer(honest.name));
    let mut begun = Vec::new();
    for turn in 0..300 {
        // Traffic both ways at all times.
        if turn % 20 == 0 {
            let tag = 100 + turn;
            begun.push((begin(&mut honest, &mut hostile, tag), (0, own_number), (1, its_number)));
            begun.push((begin(&mut hostile, &mut honest, tag), (1, its_number), (0, own_number)));
        }
        for queue in [&mut honest, &mut other, &mut hostile] {
            queue.queue.progress();
        }
        if random.below(2) == 0 {
            // Either side's, so both ends of a ring are hit.
            scribble(kind, &ends[random.below(2)], &mut random);
        }
        if turn % 100 == 50 {
            must_be_exact(&mut other, &mut honest, 1000 + turn);
        }
    }
    // What has not ended by then ends with the peer.
    ended.borrow_mut().extend([hostile.name, honest.name]);
    let (mut arrived, mut failed) = (0, 0);
    let mut count = |is_there: bool| if is_there { arrived += 1 } else { failed += 1 };
    let is_exact = |tag, len| (kind == Scribbler::Words).then_some((tag, len));
    for ((sends, receives), (from, from_peer), (to, to_peer)) in begun {
        let queues = [&mut honest, &mut hostile];
        for (receive, tag, len) in receives {
            count(must_end(queues[to], receive, to_peer, is_exact(tag, len)));
        }
        for send in sends {
            count(must_end(queues[from], send, from_peer, is_exact(0, 0)));
        }
    }
    ended.borrow_mut().clear();
    must_be_exact(&mut honest, &mut other, 1000);
    must_be_exact(&mut other, &mut honest, 2000);
    [arrived, failed]
}

/// Much of it arrives, and at least so many messages do not.
fn rounds(kind: Scribbler, count: u64, least_failed: usize) {
    let mut sum = [0, 0];
    for seed in 0..count {
        let [arrived, failed] = round(kind, seed);
        sum = [sum[0] + arrived, sum[1] + failed];
    }
    assert!(sum[0] > 20 * count as usize && sum[1] >= least_failed, "{sum:?}");
}

#[test]
fn words_that_are_written_over_blindly_alter_no_byte_of_a_message() {
    rounds(Scribbler::Words, 40, 0);
}

#[test]
fn scribbles_over_all_of_the_memory_are_an_error_of_the_pair_at_worst() {
    rounds(Scribbler::Blind, 40, 100);
}

#[test]
fn forged_records_are_an_error_of_the_pair_at_worst() {
    rounds(Scribbler::Knowing, 60, 1000);
}

/// Whatever is written into the memory of a port, as often as it likes: what is made of it stays bounded.
#[test]
fn scribbles_over_a_port_make_few_requests_and_no_more() {
    let mut random = SplitMix64::new(25);
    let (name, now) = (Name::new().unwrap(), Instant::now());
    let memory = Arc::new(Region::create(&RegionOptions::new("port", PORT_BYTES)).unwrap());
    let (mut mailbox, mut table) = (Mailbox::new(Arc::clone(&memory), name), Table::<Hosts>::default());
    let (mut shown, mut begun, mut most, workers) = (0, 0, 0, Workers::default());
    for turn in 0..20_000_u64 {
        let window = memory.window();
        match random.below(4) {
            0 => window.store_u64(random.below(PORT_BYTES / 8) * 8, random.next_u64()).unwrap(),
            1 => window.store_u64(128 + random.below(31) * 128, random.next_u64()).unwrap(),
            _ => {
                let (from, to) =
                    (Name::new().unwrap(), if random.coin() { name } else { Name::new().unwrap() });
                let node = proto::ids::NodeId::new(4 * (1 + random.below(5) as u32)).unwrap();
                let segment = proto::ids::SegmentId(random.next_u64() as u32);
                let hello = super::forms::Hello { from, to, node, segment, key: random.next_u64() };
                let at = 128 + random.below(31) * 128;
                window.store_u64(at, 1 + turn).unwrap();
                window.put(at + 8, &hello.bytes()).unwrap();
            }
        }
        window.atomic_u32(64).unwrap().fetch_add(1, Ordering::Relaxed);
        assert!(mailbox.has_new());
        mailbox.take(now + Duration::from_millis(turn), |hello| {
            let has_room = table.has_room_for(&hello.from);
            if has_room && hello.to == name {
                shown += 1;
                table.hello(&hello, &name, 1 << 16, now);
            }
            has_room
        });
        most = most.max(table.answered());
        // Threads are slow, and some of them find nobody.
        if random.below(8) == 0
            && let Some((job, _)) = table.next_due(now, &workers)
        {
            begun += 1;
            if random.coin() {
                table.give_up(&job.name());
            } else {
                table.set(&job.name(), super::table::Step::Gone);
            }
        }
        let mut there = [0; 32];
        window.get(0, &mut there).unwrap();
        assert_eq!(there, name.bytes(), "others look for it");
    }
    assert!(shown > 1000 && begun > 1000, "{shown} shown, {begun} begun");
    assert!(most <= 128, "{most} are answered at once");
}
