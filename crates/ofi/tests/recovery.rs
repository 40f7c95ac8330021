//! A link over rails goes on without one whose end point at the owner is closed in the middle of transfers,
//! and takes it back: both ends in this process, on loopback.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use link::{RemoteMemory, Stores};
use ofi::{
    ANSWER_WORDS, Bell, Endpoint, Exported, MemoryCard, OfiError, OfiMemory, Opened, OwnerRails, Peer, Rails,
    Recover, Settings, Task, Wanted, random_u64,
};
use proto::ids::NodeId;
use shm::region::{Region, RegionOptions};

const BYTES: usize = 4 << 20;
/// Ends a test that hangs.
const LIMIT: Duration = Duration::from_secs(120);

fn end(rail: u8) -> Result<Endpoint, OfiError> {
    end_with(rail, Settings::default())
}

fn end_with(rail: u8, settings: Settings) -> Result<Endpoint, OfiError> {
    let wanted = Wanted {
        provider: Some("tcp;ofi_rxm".to_owned()),
        source: Some([127, 0, 0, rail + 1].into()),
        is_exact: false,
    };
    Endpoint::open(&wanted, settings)
}

/// What the owner has of a rail.
type OwnRail = Option<(Endpoint, Peer, Exported, Option<Bell>)>;

struct Owner {
    memory: Arc<Region>,
    rails: Arc<Mutex<Vec<OwnRail>>>,
    control: Arc<OwnerRails>,
    /// How often the importer has asked for an end point to be closed.
    closed: Arc<AtomicUsize>,
}

fn own_rail(rail: u8, memory: &Arc<Region>, importer: &Endpoint, session: u64) -> (Endpoint, Peer, Exported) {
    let end_point = end(rail).unwrap();
    let exported = end_point.export(memory).unwrap();
    let peer = end_point.connect("the importer", &importer.card().unwrap(), session).unwrap();
    (end_point, peer, exported)
}

/// Carries out what the importer asks for, as a program does.
fn serve(
    tasks: &Receiver<Task>,
    owner: &Mutex<Vec<OwnRail>>,
    memory: &Arc<Region>,
    control: &Arc<OwnerRails>,
    closed: &AtomicUsize,
) {
    for task in tasks {
        match task {
            Task::Close { rail } => {
                closed.fetch_add(1, Ordering::SeqCst);
                drop(owner.lock().unwrap()[rail].take());
            }
            Task::Open { rail, generation, session, end_point: card } => {
                let end_point = end(rail as u8).unwrap();
                let exported = end_point.export(memory).unwrap();
                let peer = end_point.connect("the importer", &card, session).unwrap();
                let bell = end_point.bell_numbered(control).unwrap();
                let new = Opened {
                    end_point: end_point.card().unwrap(),
                    memory: Some(exported.card().clone()),
                    fence: peer.fence(),
                    bell: bell.id(),
                };
                owner.lock().unwrap()[rail] = Some((end_point, peer, exported, Some(bell)));
                control.opened(rail, generation, Some(new));
            }
        }
    }
}

/// Both ends; `None`, with the reason printed, where the provider is missing.
fn link(rails: u8) -> Option<(Owner, Rails, Vec<MemoryCard>)> {
    link_with(rails, Settings::default())
}

/// With these settings of the importer, whose questions nobody carries but the rails.
fn link_with(rails: u8, settings: Settings) -> Option<(Owner, Rails, Vec<MemoryCard>)> {
    link_and_ask(rails, settings, |_| Box::new(|_, _| None))
}

type Ask = Box<dyn Fn(&[u8], Duration) -> Option<[u64; ANSWER_WORDS]> + Send + Sync>;

/// The owner is asked over no rail, too, as by way of the managers. What takes long on a busy machine ends
/// no link.
fn link_with_managers(rails: u8) -> Option<(Owner, Rails, Vec<MemoryCard>)> {
    let settings = Settings { give_up_after: LIMIT, ..Settings::default() };
    link_and_ask(rails, settings, |control| {
        let control = Arc::clone(control);
        Box::new(move |question, _| Some(control.answer(question)))
    })
}

fn link_and_ask(
    rails: u8,
    settings: Settings,
    ask: impl FnOnce(&Arc<OwnerRails>) -> Ask,
) -> Option<(Owner, Rails, Vec<MemoryCard>)> {
    let importers = match (0..rails).map(|rail| end_with(rail, settings)).collect::<Result<Vec<_>, _>>() {
        Ok(importers) => importers,
        Err(error) => {
            println!("skipped: {error}");
            return None;
        }
    };
    let memory = Arc::new(Region::create(&RegionOptions::new("recovery", BYTES)).unwrap());
    let (mut lanes, mut cards, mut own) = (Vec::new(), Vec::new(), Vec::new());
    for (nth, importer) in importers.iter().enumerate() {
        let session = random_u64().unwrap();
        let (end_point, peer, exported) = own_rail(nth as u8, &memory, importer, session);
        lanes.push(Arc::new(importer.connect("the owner", &end_point.card().unwrap(), session).unwrap()));
        cards.push(exported.card().clone());
        own.push(Some((end_point, peer, exported, None)));
    }
    let fences = own.iter().map(|rail| rail.as_ref().unwrap().1.fence()).collect();
    let (sender, tasks): (Sender<Task>, _) = channel();
    let control = Arc::new(OwnerRails::new(fences, move |task| drop(sender.send(task))));
    let mut bells = Vec::new();
    for (end_point, _, _, its) in own.iter_mut().flatten() {
        let bell = end_point.bell_numbered(&control).unwrap();
        bells.push(bell.id());
        *its = Some(bell);
    }
    let own = Arc::new(Mutex::new(own));
    let owner = Owner { memory, rails: own, control, closed: Arc::default() };
    let (own, memory, control) =
        (Arc::clone(&owner.rails), Arc::clone(&owner.memory), Arc::clone(&owner.control));
    let closed = Arc::clone(&owner.closed);
    std::thread::spawn(move || serve(&tasks, &own, &memory, &control, &closed));
    lanes.iter().for_each(|lane: &Arc<Peer>| lane.responds_within(LIMIT).unwrap());
    let open = Box::new(move |rail: usize, _: &Endpoint| end_with(rail as u8, settings));
    let link = Rails::recovering(
        lanes,
        Recover {
            bells,
            numbers: (0..rails).collect(),
            open,
            outbox: None,
            tell: Box::new(|_| true),
            ask: ask(&owner.control),
        },
    )
    .unwrap();
    Some((owner, link, cards))
}

fn bytes(seed: u64) -> Vec<u8> {
    (0..BYTES as u64).map(|at| ((at >> 3).wrapping_mul(seed | 1) >> ((at & 7) * 3)) as u8).collect()
}

fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let started = Instant::now();
    while !ready() {
        assert!(started.elapsed() < LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn written(owner: &Owner) -> Vec<u8> {
    let mut found = vec![0; BYTES];
    owner.memory.window().get(0, &mut found).unwrap();
    found
}

/// Blocks, a rail closed under them at any moment, and what programs rely on.
///
/// Short puts are under way only where the rail that carries them is spared.
fn closes_under_transfers(rails: u8, is_first_spared: bool) {
    let Some((owner, link, cards)) = link(rails) else { return };
    let mut put = 0_u64;
    for round in 0..6_u64 {
        let spared = usize::from(is_first_spared);
        let rail = spared + round as usize % (usize::from(rails) - spared);
        std::thread::scope(|scope| {
            let owner = &owner;
            scope.spawn(move || {
                std::thread::sleep(Duration::from_micros(700 * round));
                drop(owner.rails.lock().unwrap()[rail].take());
            });
            for _ in 0..8 {
                put += 1;
                let block = bytes(put);
                link.put(&cards, 0, &block).unwrap();
                let mut expected = block;
                if is_first_spared {
                    // Behind the block: seen no earlier, and not overwritten by anything of it.
                    link.put(&cards, BYTES / 2, &put.to_le_bytes()).unwrap();
                    expected[BYTES / 2..BYTES / 2 + 8].copy_from_slice(&put.to_le_bytes());
                }
                link.barrier().unwrap();
                assert!(written(owner) == expected, "round {round}: what was put is not there");
                let mut read = vec![0; BYTES];
                link.get(&cards, 0, &mut read).unwrap();
                assert!(read == expected, "round {round}: what was got is something else");
            }
        });
        put += 1;
        link.put(&cards, 0, &bytes(put)).unwrap();
        link.barrier().unwrap();
        let is_open = || owner.rails.lock().unwrap()[rail].is_some();
        until("the rail comes back", || is_open() && link.reduced().is_empty());
    }
    assert_eq!(link.failure().map(|error| error.to_string()), None);
}

#[test]
fn a_rail_whose_end_point_is_closed_under_transfers_costs_nothing_and_comes_back() {
    closes_under_transfers(2, true);
    closes_under_transfers(3, true);
    closes_under_transfers(2, false);
}

/// Closes the end points of all rails, one after the other.
fn close_all(owner: &Owner, between: Duration) {
    let count = owner.rails.lock().unwrap().len();
    for rail in 0..count {
        drop(owner.rails.lock().unwrap()[rail].take());
        std::thread::sleep(between);
    }
}

fn until_all_are_back(owner: &Owner, link: &Rails) {
    let are_open = || owner.rails.lock().unwrap().iter().all(Option::is_some);
    until("the rails come back", || are_open() && link.reduced().is_empty());
}

#[test]
fn all_rails_at_once_cost_blocks_nothing_while_the_managers_carry_the_questions() {
    for (rails, rounds) in [(2, 2), (3, 1_u64)] {
        let Some((owner, link, cards)) = link_with_managers(rails) else { return };
        for round in 0..rounds {
            std::thread::scope(|scope| {
                let owner = &owner;
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_micros(700 * round));
                    close_all(owner, Duration::from_micros(300 * (round % 3)));
                });
                for put in 1..=8 {
                    let block = bytes(8 * round + put);
                    link.put(&cards, 0, &block).unwrap();
                    link.barrier().unwrap();
                    assert!(written(owner) == block, "round {round}: what was put is not there");
                    let mut read = vec![0; BYTES];
                    link.get(&cards, 0, &mut read).unwrap();
                    assert!(read == block, "round {round}: what was got is something else");
                }
            });
            link.put(&cards, 0, &bytes(round)).unwrap();
            link.barrier().unwrap();
            until_all_are_back(&owner, &link);
        }
        assert_eq!(link.failure().map(|error| error.to_string()), None);
    }
}

/// Short puts under way are in doubt, once for each time; orders are carried out once.
#[test]
fn all_rails_at_once_leave_short_puts_in_doubt_and_orders_done_once() {
    const ADDS: u64 = 1_000;
    const ROUNDS: u64 = 2;
    let Some((owner, link, cards)) = link_with_managers(2) else { return };
    let link = Arc::new(link);
    let memory = OfiMemory::over(Arc::clone(&link), NodeId::new(8).unwrap(), cards.clone()).unwrap();
    let mut doubts = 0;
    for round in 0..ROUNDS {
        std::thread::scope(|scope| {
            let owner = &owner;
            scope.spawn(move || {
                std::thread::sleep(Duration::from_micros(900 * round));
                close_all(owner, Duration::ZERO);
            });
            for add in 0..ADDS {
                let (mut done, was) = (link.put(&cards, 64, &add.to_ne_bytes()), round * ADDS + add);
                let mut added = None;
                while added.is_none() {
                    done = done.and_then(|()| link.barrier());
                    match std::mem::replace(&mut done, Ok(())) {
                        Ok(()) => added = memory.fetch_add_u64(8, 1).ok(),
                        Err(OfiError::InDoubt { .. }) => {
                            doubts += 1;
                            link.resume(LIMIT).unwrap();
                            done = link.put(&cards, 64, &add.to_ne_bytes());
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
                assert_eq!(added, Some(was));
                assert_eq!(owner.memory.window().atomic_u64(64).unwrap().load(Ordering::SeqCst), add);
            }
        });
        until_all_are_back(&owner, &link);
    }
    println!("{doubts} times in doubt");
    assert_eq!((number(&owner), link.failure().map(|error| error.to_string())), (ROUNDS * ADDS, None));
}

/// Nobody says that the end points are closed: the link ends when it has waited for that.
#[test]
fn without_any_rail_and_without_managers_the_link_ends_with_the_reason() {
    let settings = Settings { give_up_after: Duration::from_secs(1), ..Settings::default() };
    let Some((owner, link, cards)) = link_with(2, settings) else { return };
    close_all(&owner, Duration::ZERO);
    let mut error = None;
    until("the link ends", || {
        // What is in doubt is told first.
        error = link.put(&cards, 0, &[1]).and_then(|()| link.barrier()).err();
        error.as_ref().is_some_and(|error| !matches!(error, OfiError::InDoubt { .. }))
    });
    let error = error.map(|error| error.to_string()).unwrap();
    assert!(error.contains("the owner"), "{error}");
    assert_eq!(link.failure().map(|error| error.to_string()), Some(error));
}

fn number(owner: &Owner) -> u64 {
    owner.memory.window().atomic_u64(8).unwrap().load(Ordering::SeqCst)
}

#[test]
fn another_rail_takes_over_from_the_first_one_while_nothing_is_under_way() {
    let Some((owner, link, cards)) = link(2) else { return };
    let link = Arc::new(link);
    let memory = OfiMemory::over(Arc::clone(&link), NodeId::new(8).unwrap(), cards.clone()).unwrap();
    for round in 0..4 {
        let rail = round % 2;
        drop(owner.rails.lock().unwrap()[rail].take());
        until("the failure is noticed", || link.reduced().iter().any(|reduced| reduced.rail == rail));
        // Without a rail, and when it is back.
        for _ in 0..2 {
            let was = number(&owner);
            assert_eq!(memory.fetch_add_u64(8, 3).unwrap(), was);
            assert_eq!(number(&owner), was + 3);
            link.put(&cards, 100, &[round as u8; 50]).unwrap();
            link.barrier().unwrap();
            assert_eq!(written(&owner)[100..150], [round as u8; 50]);
            let mut read = [0; 50];
            link.get(&cards, 100, &mut read).unwrap();
            assert_eq!(read, [round as u8; 50]);
            until("the rail comes back", || link.reduced().is_empty());
        }
    }
    assert_eq!(link.failure().map(|error| error.to_string()), None);
}

/// Two threads add and a third one stores, while one rail after the other is closed under them, the one that
/// carries all this too.
#[test]
fn atomic_operations_and_stores_are_carried_out_once_when_rails_are_closed_under_them() {
    const ADDS: u64 = 3_000;
    const ROUNDS: u64 = 6;
    for rails in [2, 3] {
        let Some((owner, link, cards)) = link(rails) else { return };
        let link = Arc::new(link);
        let memory = OfiMemory::over(Arc::clone(&link), NodeId::new(8).unwrap(), cards).unwrap();
        let is_over = AtomicBool::new(false);
        let (stored, moved) = std::thread::scope(|scope| {
            let adds = [(); 2].map(|()| {
                scope.spawn(|| {
                    let before = (0..ADDS).map(|_| memory.fetch_add_u64(8, 1).unwrap()).collect::<Vec<_>>();
                    assert!(before.is_sorted(), "one that was carried out twice");
                    before
                })
            });
            let stores = scope.spawn(|| {
                let mut stored = 0_u64;
                while !is_over.load(Ordering::SeqCst) {
                    let mut stores = Stores::default();
                    stored += 1;
                    stores.push(64, &stored.to_ne_bytes());
                    memory.store_all(&stores).unwrap();
                    // What is carried out late would undo this.
                    assert_eq!(memory.compare_swap_u64(64, stored, stored + 1).unwrap(), stored);
                    stored += 1;
                }
                stored
            });
            let mut moved = 0;
            for round in 0..ROUNDS {
                std::thread::sleep(Duration::from_micros(700 * round));
                let rail = (round % u64::from(rails)) as usize;
                drop(owner.rails.lock().unwrap()[rail].take());
                let is_open = || owner.rails.lock().unwrap()[rail].is_some();
                until("the rail comes back", || is_open() && link.reduced().is_empty());
                moved += 1;
            }
            let mut before = adds.map(|thread| thread.join().unwrap()).concat();
            before.sort_unstable();
            assert!(before.into_iter().eq(0..2 * ADDS), "each number was there once");
            is_over.store(true, Ordering::SeqCst);
            (stores.join().unwrap(), moved)
        });
        assert_eq!(moved, ROUNDS);
        assert_eq!(number(&owner), 2 * ADDS);
        assert_eq!(owner.memory.window().atomic_u64(64).unwrap().load(Ordering::SeqCst), stored);
        assert_eq!(link.failure().map(|error| error.to_string()), None);
    }
}

/// Memory that is not there any more is refused, and the link stays.
#[test]
fn an_order_for_memory_that_was_withdrawn_is_refused() {
    let Some((owner, link, mut cards)) = link(2) else { return };
    let link = Arc::new(link);
    let memory = |cards: &[MemoryCard]| {
        OfiMemory::over(Arc::clone(&link), NodeId::new(8).unwrap(), cards.to_vec()).unwrap()
    };
    assert_eq!(memory(&cards).fetch_add_u64(8, 3).unwrap(), 0);
    cards.iter_mut().for_each(|card| card.token ^= 1);
    let error = memory(&cards).fetch_add_u64(8, 3).unwrap_err().to_string();
    assert!(error.contains("no such memory"), "{error}");
    cards.iter_mut().for_each(|card| card.token ^= 1);
    assert_eq!((memory(&cards).fetch_add_u64(8, 3).unwrap(), number(&owner)), (3, 6));
}

/// Makes the owner's end point of the first rail stand still: its doorbell for that, and what lets it go on.
fn stand_still(end_point: &Endpoint, link: &Rails) -> (Bell, Sender<()>) {
    let ((goes_on, still), (begins, begun)) = (channel(), channel());
    let still = Mutex::new(still);
    let wait = move || {
        begins.send(()).unwrap();
        still.lock().unwrap().recv().unwrap();
    };
    let stops = end_point.bell_calling(wait).unwrap();
    link.ring(stops.id()).unwrap();
    begun.recv_timeout(LIMIT).unwrap();
    (stops, goes_on)
}

/// Others may use the same end point of the owner: it is closed only if something could land late.
#[test]
fn a_rail_that_fails_while_nothing_is_under_way_is_opened_again_and_not_closed_for_others() {
    let Some((owner, link, cards)) = link(2) else { return };
    let end_point = owner.rails.lock().unwrap()[0].as_ref().map(|rail| rail.0.clone()).unwrap();
    let (stops, goes_on) = stand_still(&end_point, &link);
    until("the failure is noticed", || link.reduced().iter().any(|reduced| reduced.rail == 0));
    link.put(&cards, 8, &5_u64.to_ne_bytes()).unwrap();
    link.barrier().unwrap();
    assert_eq!(number(&owner), 5);
    goes_on.send(()).unwrap();
    until("the rail comes back", || link.reduced().is_empty());
    assert_eq!(owner.closed.load(Ordering::SeqCst), 0);
    drop((stops, end_point));
    assert_eq!(link.failure().map(|error| error.to_string()), None);
}

/// The owner's end point of the first rail stands still while an order is under way to it, and goes on after
/// the order was sent again over the other rail: what comes late is not carried out a second time.
#[test]
fn an_order_that_comes_late_over_a_rail_that_stood_still_does_nothing() {
    let Some((owner, link, cards)) = link(2) else { return };
    let link = Arc::new(link);
    let memory = OfiMemory::over(Arc::clone(&link), NodeId::new(8).unwrap(), cards).unwrap();
    let rails = owner.rails.lock().unwrap();
    let end_point = rails[0].as_ref().map(|rail| rail.0.clone()).unwrap();
    let (stops, goes_on) = stand_still(&end_point, &link);
    let behind = end_point.bell().unwrap();
    drop(end_point);
    std::thread::scope(|scope| {
        let added = scope.spawn(|| memory.fetch_add_u64(8, 5).unwrap());
        std::thread::sleep(Duration::from_millis(100));
        assert!(!added.is_finished(), "the rail does not stand still");
        link.ring(behind.id()).unwrap();
        // The end point is not closed as long as this test has the lock.
        assert_eq!((added.join().unwrap(), number(&owner)), (0, 5));
    });
    goes_on.send(()).unwrap();
    until("what is late comes", || behind.count() == 1);
    assert_eq!(number(&owner), 5);
    drop((stops, behind, rails));
    until("the rail comes back", || link.reduced().is_empty());
    assert_eq!(memory.fetch_add_u64(8, 1).unwrap(), 5);
    assert_eq!(link.failure().map(|error| error.to_string()), None);
}

/// Whatever is put next goes over the link; what a failed rail leaves in doubt is told once, and nothing
/// lands late.
///
/// Two words count up: the second follows the first. An owner that finds the second has found the first,
/// whatever is in doubt.
#[test]
fn short_puts_under_a_rail_that_is_closed_are_in_doubt_and_the_link_goes_on() {
    for rails in [2, 3] {
        let Some((owner, link, cards)) = link(rails) else { return };
        let is_over = AtomicBool::new(false);
        let word = |at: usize| owner.memory.window().atomic_u64(at).unwrap().load(Ordering::SeqCst);
        let mut doubts = 0;
        std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let (mut first, mut second) = (0, 0);
                while !is_over.load(Ordering::SeqCst) {
                    let follows = word(4096);
                    let leads = word(64);
                    assert!(
                        follows >= second && leads >= first,
                        "{follows} after {second}, {leads} after {first}"
                    );
                    assert!(leads >= follows, "{follows} was put behind {leads}");
                    (first, second) = (leads, follows);
                }
            });
            let puts = scope.spawn(|| {
                let (mut number, mut doubts) = (0_u64, 0);
                let put_both = |number: u64| {
                    link.put(&cards, 64, &number.to_ne_bytes())?;
                    link.put(&cards, 4096, &number.to_ne_bytes())
                };
                while !is_over.load(Ordering::SeqCst) {
                    number += 1;
                    let done =
                        put_both(number).and_then(|()| if number % 8 == 0 { link.barrier() } else { Ok(()) });
                    match done {
                        Ok(()) => {}
                        Err(OfiError::InDoubt { .. }) => {
                            doubts += 1;
                            link.resume(LIMIT).unwrap();
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
                while link.barrier().is_err() {
                    link.resume(LIMIT).unwrap();
                }
                put_both(number + 1).unwrap();
                link.barrier().unwrap();
                (number + 1, doubts)
            });
            for round in 0..8_u64 {
                std::thread::sleep(Duration::from_micros(900 * round));
                let rail = (round % u64::from(rails)) as usize;
                drop(owner.rails.lock().unwrap()[rail].take());
                let is_open = || owner.rails.lock().unwrap()[rail].is_some();
                until("the rail comes back", || is_open() && link.reduced().is_empty());
            }
            is_over.store(true, Ordering::SeqCst);
            let (last, told) = puts.join().unwrap();
            watch.join().unwrap();
            assert_eq!([word(64), word(4096)], [last; 2]);
            doubts = told;
        });
        println!("{rails} rails: {doubts} times in doubt");
        assert!(doubts > 0, "no rail failed under a put");
        assert_eq!(link.failure().map(|error| error.to_string()), None);
    }
}

/// The owner's end point of the rail stands still under a put. The link is not resumed before that end point
/// is closed: what it still has lands before that, and not on what is put afterwards.
#[test]
fn a_link_in_doubt_is_not_resumed_while_a_put_may_land_late() {
    let settings = Settings { give_up_after: Duration::from_secs(2), ..Settings::default() };
    let Some((owner, link, cards)) = link_with(2, settings) else { return };
    let rails = owner.rails.lock().unwrap();
    let (stops, goes_on) = stand_still(rails[0].as_ref().map(|rail| &rail.0).unwrap(), &link);
    link.put(&cards, 8, &5_u64.to_ne_bytes()).unwrap();
    let mut error = None;
    until("the doubt is told", || {
        error = link.barrier().err();
        error.is_some()
    });
    assert!(matches!(error, Some(OfiError::InDoubt { .. })), "{error:?}");
    // The end point is not closed as long as this test has the lock.
    let error = link.resume(Duration::from_millis(500)).unwrap_err();
    assert!(matches!(error, OfiError::InDoubt { .. }), "{error}");
    let error = link.put(&cards, 8, &6_u64.to_ne_bytes()).unwrap_err();
    assert!(matches!(error, OfiError::InDoubt { .. }), "{error}");
    goes_on.send(()).unwrap();
    until("the put lands late", || number(&owner) == 5);
    drop((stops, rails));
    link.resume(LIMIT).unwrap();
    link.put(&cards, 8, &7_u64.to_ne_bytes()).unwrap();
    link.barrier().unwrap();
    assert_eq!(number(&owner), 7);
    until("the rail comes back", || link.reduced().is_empty());
    assert_eq!((number(&owner), link.failure().map(|error| error.to_string())), (7, None));
}
