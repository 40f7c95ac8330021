//! A link over rails goes on without one whose end point at the owner is closed in the middle of transfers, and takes it back: both ends
//! in this process, on loopback.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ofi::{
    Bell, Endpoint, Exported, MemoryCard, OfiError, OwnerRails, Peer, Rails, Recover, Settings, Task, Wanted,
    random_u64,
};
use shm::region::{Region, RegionOptions};

const BYTES: usize = 4 << 20;
/// Ends a test that hangs.
const LIMIT: Duration = Duration::from_secs(120);

fn end(rail: u8) -> Result<Endpoint, OfiError> {
    let wanted =
        Wanted { provider: Some("tcp;ofi_rxm".to_owned()), source: Some([127, 0, 0, rail + 1].into()) };
    Endpoint::open(&wanted, Settings::default())
}

/// What the owner has of a rail.
type OwnRail = Option<(Endpoint, Peer, Exported)>;

struct Owner {
    memory: Arc<Region>,
    rails: Arc<Mutex<Vec<OwnRail>>>,
    control: Arc<OwnerRails>,
    bell: Bell,
}

fn own_rail(rail: u8, memory: &Arc<Region>, importer: &Endpoint, session: u64) -> (Endpoint, Peer, Exported) {
    let end_point = end(rail).unwrap();
    let exported = end_point.export(memory).unwrap();
    let peer = end_point.connect("the importer", &importer.card().unwrap(), session).unwrap();
    (end_point, peer, exported)
}

/// Carries out what the importer asks for, as a program does.
fn serve(tasks: &Receiver<Task>, owner: &Mutex<Vec<OwnRail>>, memory: &Arc<Region>, control: &OwnerRails) {
    for task in tasks {
        match task {
            Task::Close { rail } => drop(owner.lock().unwrap()[rail].take()),
            Task::Open { rail, generation, session, end_point: card } => {
                let end_point = end(rail as u8).unwrap();
                let exported = end_point.export(memory).unwrap();
                let peer = end_point.connect("the importer", &card, session).unwrap();
                let new = (end_point.card().unwrap(), exported.card().clone(), peer.fence());
                owner.lock().unwrap()[rail] = Some((end_point, peer, exported));
                control.opened(rail, generation, Some(new));
            }
        }
    }
}

/// Both ends; `None`, with the reason printed, where the provider is missing.
fn link(rails: u8) -> Option<(Owner, Rails, Vec<MemoryCard>)> {
    let importers = match (0..rails).map(end).collect::<Result<Vec<_>, _>>() {
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
        own.push(Some((end_point, peer, exported)));
    }
    let fences = own[1..].iter().map(|rail| rail.as_ref().unwrap().1.fence()).collect();
    let (sender, tasks): (Sender<Task>, _) = channel();
    let control = Arc::new(OwnerRails::new(fences, move |task| drop(sender.send(task))));
    let asked = Arc::clone(&control);
    let first = own[0].as_ref().unwrap().0.clone();
    let bell = first.bell_answering(move |question| asked.answer(question)).unwrap();
    let own = Arc::new(Mutex::new(own));
    let owner = Owner { memory, rails: own, control, bell };
    let (own, memory, control) =
        (Arc::clone(&owner.rails), Arc::clone(&owner.memory), Arc::clone(&owner.control));
    std::thread::spawn(move || serve(&tasks, &own, &memory, &control));
    let open = Box::new(|rail: usize, _: &Endpoint| end(rail as u8));
    let link = Rails::recovering(
        lanes,
        Recover { bell: owner.bell.id(), numbers: (0..rails).collect(), open, tell: Box::new(|_| true) },
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
fn closes_under_transfers(rails: u8) {
    let Some((owner, link, cards)) = link(rails) else { return };
    let mut put = 0_u64;
    for round in 0..6_u64 {
        let rail = 1 + (round as usize % (usize::from(rails) - 1));
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
                // Behind the block: seen no earlier, and not overwritten by anything of it.
                link.put(&cards, BYTES / 2, &put.to_le_bytes()).unwrap();
                link.barrier().unwrap();
                let mut expected = block;
                expected[BYTES / 2..BYTES / 2 + 8].copy_from_slice(&put.to_le_bytes());
                assert!(written(owner) == expected, "round {round}: what was put is not there");
                let mut read = vec![0; BYTES];
                link.get(&cards, 0, &mut read).unwrap();
                assert!(read == expected, "round {round}: what was got is something else");
            }
        });
        put += 1;
        link.put(&cards, 0, &bytes(put)).unwrap();
        link.barrier().unwrap();
        until("the rail comes back", || link.reduced().is_empty());
    }
    assert_eq!(link.failure().map(|error| error.to_string()), None);
}

#[test]
fn a_rail_whose_end_point_is_closed_under_transfers_costs_nothing_and_comes_back() {
    closes_under_transfers(2);
    closes_under_transfers(3);
}
