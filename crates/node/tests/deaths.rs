//! Programs and managers that are killed, and managers that come back.
// Helpers of tests are tests, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use node_client::{Client, ClientEvent, ImportState};
use proto::ids::{GroupId, SegmentKey};
use proto::wire::program::{Access, Imported, LossReason, Refusal, Request};
use support::{ChildProcess, Place, await_event, eventually, is_gone, memory, node, offer, segment};

/// What children of these tests do.
#[test]
fn child_role() {
    support::child_role(|role, place| match role {
        "owner" => {
            let client = place.attach(8);
            let _region = offer(&client, 1);
            sleep_for_ever();
        }
        "importer" => {
            let client = place.attach(4);
            let _import = client.connect_segment_within(node(8), segment(1), support::WATCHDOG).unwrap();
            sleep_for_ever();
        }
        // Its socket survives in a process that knows nothing of it.
        "forker" => {
            let raw = support::Raw::hello(place, 4);
            let flags = rustix::io::fcntl_getfd(&raw.socket).unwrap();
            rustix::io::fcntl_setfd(&raw.socket, flags - rustix::io::FdFlags::CLOEXEC).unwrap();
            let mut heir = std::process::Command::new("sleep").arg("60").spawn().unwrap();
            std::fs::write(place.root.join("heir"), heir.id().to_string()).unwrap();
            heir.wait().unwrap();
        }
        other => panic!("{other}"),
    });
}

fn sleep_for_ever() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(60));
    }
}

fn child(place: &Place, role: &str) -> ChildProcess {
    ChildProcess::start(role, &[("TL_ROOT", place.root.to_str().unwrap())])
}

#[test]
fn the_death_of_an_owner_reaches_its_importers() {
    let place = Place::new();
    let _managers = place.start_all(&[4, 8]);
    let (importer, events) = place.attach_with_events(4);
    let owner = child(&place, "owner");
    let (import, ..) = importer.connect_segment_within(node(8), segment(1), support::WATCHDOG).unwrap();
    assert_eq!(import.state(), ImportState::Alive);
    owner.kill();
    let reason = await_event(&events, |event| match event {
        ClientEvent::Lost { import: id, reason } if *id == import.id() => Some(*reason),
        _ => None,
    });
    assert_eq!((reason, import.state()), (LossReason::OwnerDied, ImportState::Ended(LossReason::OwnerDied)));
    assert_eq!(place.attach(8).status().unwrap().segments_total, 0);
}

#[test]
fn the_death_of_an_importer_reaches_the_owner() {
    let place = Place::new();
    let _managers = place.start_all(&[4, 8]);
    let (owner, events) = place.attach_with_events(8);
    let _region = offer(&owner, 1);
    let importer = child(&place, "importer");
    await_event(&events, |event| matches!(event, ClientEvent::Connected { .. }).then_some(()));
    // The owner hears of it before the importer has it.
    let there = place.attach(4);
    eventually("it is connected", || {
        there.status().unwrap().programs.iter().any(|program| program.imports == 1)
    });
    importer.kill();
    let died = await_event(&events, |event| match event {
        ClientEvent::Disconnected { died, .. } => Some(*died),
        _ => None,
    });
    assert!(died);
}

#[test]
fn a_fork_that_keeps_the_socket_does_not_hide_a_death() {
    let place = Place::new();
    let _manager = place.start(4);
    let client = place.attach(4);
    let heir_file = place.root.join("heir");
    let forker = child(&place, "forker");
    eventually("the heir lives", || {
        heir_file.exists() && !std::fs::read_to_string(&heir_file).unwrap().is_empty()
    });
    let heir: i32 = std::fs::read_to_string(&heir_file).unwrap().parse().unwrap();
    assert_eq!(client.status().unwrap().programs_total, 2);
    forker.kill();
    eventually("the death is seen", || client.status().unwrap().programs_total == 1);
    let heir = rustix::process::Pid::from_raw(heir).unwrap();
    rustix::process::kill_process(heir, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn a_killed_manager_is_not_noticed_by_data_and_gets_its_programs_back() {
    let place = Place::new();
    let (four, _eight) = (place.start_process(4), place.start(8));
    place.await_sessions(&[4, 8]);
    let ((here, events), there) = (place.attach_with_events(4), place.attach(8));
    let _ours = offer(&here, 1);
    let theirs = offer(&there, 2);
    let (import, ..) = here.connect_segment(node(8), segment(2)).unwrap();
    let (back, ..) = there.connect_segment(node(4), segment(1)).unwrap();
    let watched = here.watch_group(GroupId(3)).unwrap();
    assert!(watched.is_empty());

    four.kill();
    await_event(&events, |event| matches!(event, ClientEvent::ManagerGone { .. }).then_some(()));
    assert!(is_gone(&here.probe(node(8)).unwrap_err()));
    assert!(!here.is_attached());
    // Nothing is reported, data continues.
    assert_eq!((import.state(), back.state()), (ImportState::Alive, ImportState::Alive));
    theirs.window().put(0, b"x").unwrap();

    let _again = place.start_process(4);
    await_event(&events, |event| matches!(event, ClientEvent::ManagerBack { .. }).then_some(()));
    eventually("a valid session", || here.probe(node(8)).unwrap());
    let status = here.status().unwrap();
    assert_eq!((status.segments_total, status.segments[0].available), (1, true));
    eventually("the import is resumed", || {
        here.status().unwrap().programs.iter().any(|program| program.imports == 1)
    });
    assert_eq!((import.state(), back.state()), (ImportState::Alive, ImportState::Alive));
    // Its end is seen in the new manager's page.
    drop(there);
    let reason = await_event(&events, |event| match event {
        ClientEvent::Lost { import: id, reason } if *id == import.id() => Some(*reason),
        _ => None,
    });
    assert_eq!((reason, import.state()), (LossReason::OwnerDied, ImportState::Ended(LossReason::OwnerDied)));
    here.disconnect(&import).unwrap();
    eventually("the import is given up", || {
        here.status().unwrap().programs.iter().all(|program| program.imports == 0)
    });
}

#[test]
fn a_death_in_the_gap_is_reported_after_it() {
    let place = Place::new();
    let (four, _eight) = (place.start_process(4), place.start(8));
    place.await_sessions(&[4, 8]);
    let (here, events) = place.attach_with_events(4);
    let _ours = offer(&here, 1);
    let (there, also_there) = (place.attach(8), place.attach(8));
    let _theirs = offer(&there, 2);
    let (import, ..) = here.connect_segment(node(8), segment(2)).unwrap();
    let (_back, ..) = also_there.connect_segment(node(4), segment(1)).unwrap();
    await_event(&events, |event| matches!(event, ClientEvent::Connected { .. }).then_some(()));
    four.kill();
    await_event(&events, |event| matches!(event, ClientEvent::ManagerGone { .. }).then_some(()));
    drop((there, also_there));
    let _again = place.start_process(4);
    let (mut lost, mut left) = (None, None);
    await_event(&events, |event| {
        match event {
            ClientEvent::Lost { import: id, reason } if *id == import.id() => lost = Some(*reason),
            ClientEvent::Disconnected { what, died, .. } => left = Some((*what, *died)),
            _ => {}
        }
        (lost.is_some() && left.is_some()).then_some(())
    });
    assert_eq!(lost, Some(LossReason::OwnerDied));
    assert_eq!(left, Some((Imported::Segment(segment(1)), true)));
    assert_eq!(import.state(), ImportState::Ended(LossReason::OwnerDied));
}

#[test]
fn what_is_given_up_in_the_gap_stays_given_up() {
    let place = Place::new();
    let four = place.start_process(4);
    let (here, events) = place.attach_with_events(4);
    let _one = offer(&here, 1);
    let _two = offer(&here, 2);
    let (import, ..) = here.connect_segment(node(4), segment(2)).unwrap();
    four.kill();
    await_event(&events, |event| matches!(event, ClientEvent::ManagerGone { .. }).then_some(()));
    here.remove_segment(segment(1), false).unwrap();
    here.disconnect(&import).unwrap();
    let region = memory();
    let create = here.create_segment(segment(3), 4096, Access::default(), region.fd());
    assert!(is_gone(&create.unwrap_err()));
    let _again = place.start_process(4);
    // Patience pays.
    here.request_within(Request::NodeInfo, &[], support::WATCHDOG).unwrap();
    let names: Vec<_> = here.status().unwrap().segments.iter().map(|segment| segment.what.clone()).collect();
    assert_eq!(names, ["segment 2"]);
    eventually("the connection is over", || here.remove_segment(segment(2), false).is_ok());
}

#[test]
fn a_key_that_somebody_took_meanwhile_is_reported() {
    let place = Place::new();
    let four = place.start_process(4);
    // The library's thread is held in the callback, and so comes back second.
    let (sender, events) = channel();
    let (release, released) = channel();
    let released = Mutex::new(released);
    let here = Client::attach(&place.attach_options(4), move |event| {
        if matches!(event, ClientEvent::ManagerGone { .. }) {
            released.lock().unwrap().recv().unwrap();
        }
        drop(sender.send(event));
    });
    let here = here.unwrap();
    let (_one, _two) = (offer(&here, 1), offer(&here, 2));
    four.kill();
    let _again = place.start_process(4);
    let other = place.attach(4);
    let _taken = offer(&other, 1);
    release.send(()).unwrap();
    let refused = await_event(&events, |event| match event {
        ClientEvent::ExportRefused { what, refusal: Refusal::InUse { .. } } => Some(*what),
        _ => None,
    });
    assert_eq!(refused, Imported::Segment(segment(1)));
    await_event(&events, |event| matches!(event, ClientEvent::ManagerBack { .. }).then_some(()));
    assert_eq!(here.status().unwrap().segments_total, 2);
    assert!(here.set_available(segment(1), false, false).is_err());
    here.set_available(segment(2), false, false).unwrap();
}

#[test]
fn members_that_change_in_the_gap_are_told_after_it() {
    let place = Place::new();
    let (four, _eight) = (place.start_process(4), place.start(8));
    place.await_sessions(&[4, 8]);
    let ((here, events), there) = (place.attach_with_events(4), place.attach(8));
    assert!(here.watch_group(GroupId(3)).unwrap().is_empty());
    four.kill();
    await_event(&events, |event| matches!(event, ClientEvent::ManagerGone { .. }).then_some(()));
    let region = memory();
    let copy = SegmentKey::GroupCopy(GroupId(3));
    there.create_segment(copy, 4096, Access::default(), region.fd()).unwrap();
    there.set_available(copy, true, false).unwrap();
    let _again = place.start_process(4);
    let member = await_event(&events, |event| match event {
        ClientEvent::Member { group, node, joined: true } => Some((*group, *node)),
        _ => None,
    });
    assert_eq!(member, (GroupId(3), node(8)));
}
