//! Triggers and messages over rails whose end points at the owner are closed at any moment: each is carried
//! out once. Both ends are in this process, on loopback.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ofi::{
    Bell, Delivery, Endpoint, Inbox, OfiError, Opened, Outbox, OwnerRails, Peer, Rails, Recover, Settings,
    Task, Wanted, random_u64,
};
use shm::sync::{AtomicU64, Ordering};

/// Ends a test that hangs.
const LIMIT: Duration = Duration::from_secs(120);

fn end(rail: u8) -> Result<Endpoint, OfiError> {
    let wanted = Wanted {
        provider: Some("tcp;ofi_rxm".to_owned()),
        source: Some([127, 0, 0, rail + 1].into()),
        is_exact: false,
    };
    Endpoint::open(&wanted, Settings::default())
}

/// What the owner has of a rail, and how it leads to the importer.
type OwnRails = Arc<Mutex<Vec<Option<(Peer, Bell)>>>>;

fn own_rail(
    rail: u8,
    importer: &ofi::EndpointCard,
    session: u64,
    control: &Arc<OwnerRails>,
) -> (Endpoint, Peer, Bell) {
    let end_point = end(rail).unwrap();
    let peer = end_point.connect("the importer", importer, session).unwrap();
    let bell = end_point.bell_numbered(control).unwrap();
    (end_point, peer, bell)
}

/// Carries out what the importer asks for, as a program does.
fn serve(tasks: &Receiver<Task>, own: &OwnRails, control: &Arc<OwnerRails>) {
    for task in tasks {
        let Task::Open { rail, generation, session, end_point: card } = task else { panic!("{task:?}") };
        let (end_point, peer, bell) = own_rail(rail as u8, &card, session, control);
        let new = Opened {
            end_point: end_point.card().unwrap(),
            memory: None,
            fence: peer.fence(),
            bell: bell.id(),
        };
        own.lock().unwrap()[rail] = Some((peer, bell));
        control.opened(rail, generation, Some(new));
    }
}

/// Both ends; `None`, with the reason printed, where the provider is missing.
fn link(rails: u8, inbox: Inbox) -> Option<(OwnRails, Arc<Rails>)> {
    let importers = match (0..rails).map(end).collect::<Result<Vec<_>, _>>() {
        Ok(importers) => importers,
        Err(error) => {
            println!("skipped: {error}");
            return None;
        }
    };
    let (sender, tasks): (Sender<Task>, _) = channel();
    let control = Arc::new(OwnerRails::with_inbox(rails.into(), inbox, move |task| drop(sender.send(task))));
    let (mut lanes, mut own, mut bells) = (Vec::new(), Vec::new(), Vec::new());
    for (nth, importer) in importers.iter().enumerate() {
        let session = random_u64().unwrap();
        let (end_point, peer, bell) = own_rail(nth as u8, &importer.card().unwrap(), session, &control);
        lanes.push(Arc::new(importer.connect("the owner", &end_point.card().unwrap(), session).unwrap()));
        bells.push(bell.id());
        own.push(Some((peer, bell)));
    }
    let own = Arc::new(Mutex::new(own));
    let (its, its_control) = (Arc::clone(&own), Arc::clone(&control));
    std::thread::spawn(move || serve(&tasks, &its, &its_control));
    lanes.iter().for_each(|lane: &Arc<Peer>| lane.responds_within(LIMIT).unwrap());
    let open = Box::new(|rail: usize, _: &Endpoint| end(rail as u8));
    let recover = Recover {
        bells,
        numbers: (0..rails).collect(),
        open,
        outbox: Some(Outbox::default()),
        tell: Box::new(|_| true),
        ask: Box::new(|_, _| None),
    };
    Some((own, Arc::new(Rails::recovering(lanes, recover).unwrap())))
}

fn until(what: &str, mut ready: impl FnMut() -> bool) {
    let started = Instant::now();
    while !ready() {
        assert!(started.elapsed() < LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Two threads do something that often, while a rail after the other is closed at the owner at any moment.
fn closes_under(own: &OwnRails, link: &Arc<Rails>, times: u64, act: impl Fn(u64, u64) + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let act = &act;
            scope.spawn(move || (0..times).for_each(|nth| act(thread, nth)));
        }
        for round in 0..6_u64 {
            std::thread::sleep(Duration::from_micros(700 * round));
            let rail = round as usize % link.count();
            drop(own.lock().unwrap()[rail].take());
            until("the rail comes back", || own.lock().unwrap()[rail].is_some() && link.reduced().is_empty());
        }
    });
    assert_eq!(link.failure().map(|error| error.to_string()), None);
}

#[test]
fn triggers_are_counted_once_when_rails_are_closed_under_them() {
    for rails in [2, 3] {
        let count = Arc::new(AtomicU64::new(0));
        let into = Arc::clone(&count);
        let inbox = Inbox::counting(move |new| {
            into.fetch_add(new.into(), Ordering::SeqCst);
        });
        let Some((own, link)) = link(rails, inbox) else { return };
        closes_under(&own, &link, 20_000, |_, _| link.ring(0).unwrap());
        link.confirm_rings().unwrap();
        assert_eq!(count.load(Ordering::SeqCst), 40_000);
    }
}

#[test]
fn messages_are_taken_once_and_in_order_when_rails_are_closed_under_them() {
    for rails in [2, 3] {
        let came: Arc<Mutex<[Vec<u64>; 2]>> = Arc::default();
        let into = Arc::clone(&came);
        let inbox = Inbox::taking(move |data| {
            let word = |nth: usize| u64::from_le_bytes(std::array::from_fn(|at| data[8 * nth + at]));
            let nth = word(1);
            // Each third is refused once; who sends it tries again, with a number of its own.
            let of_thread = &mut into.lock().unwrap()[word(0) as usize];
            of_thread.push(nth);
            if nth % 3 == 2 && !of_thread.ends_with(&[nth, nth]) { Delivery::Full } else { Delivery::Taken }
        });
        let Some((own, link)) = link(rails, inbox) else { return };
        closes_under(&own, &link, 5000, |thread, nth| {
            let data = [thread.to_le_bytes(), nth.to_le_bytes()].concat();
            let first = if nth % 3 == 2 { Delivery::Full } else { Delivery::Taken };
            assert_eq!(link.deliver(0, &data).unwrap(), first);
            if first == Delivery::Full {
                assert_eq!(link.deliver(0, &data).unwrap(), Delivery::Taken);
            }
        });
        let wanted: Vec<u64> =
            (0..5000).flat_map(|nth| vec![nth; if nth % 3 == 2 { 2 } else { 1 }]).collect();
        for came in came.lock().unwrap().iter() {
            assert!(*came == wanted, "a message is missing, or came twice");
        }
    }
}

/// All rails at once: what is done from then on is an error, and so is the wait for what was done.
#[test]
fn an_owner_that_is_gone_is_an_error() {
    let Some((own, link)) = link(2, Inbox::counting(|_| {})) else { return };
    link.ring(0).unwrap();
    link.confirm_rings().unwrap();
    own.lock().unwrap().clear();
    let mut failed = None;
    until("an error", || {
        failed = link.ring(0).err();
        failed.is_some()
    });
    assert!(link.confirm_rings().is_err() && link.failure().is_some(), "{failed:?}");
}
