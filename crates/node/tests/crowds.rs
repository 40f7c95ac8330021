//! Programs that do not read, that are dead and still talk, and that want all places for themselves.
// Helpers of tests are tests, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use link::page::ImportState;
use node::config::LimitSettings;
use node::{Daemon, DaemonOptions};
use node_client::ClientError;
use node_client::seqpacket::Seqpacket;
use proto::wire::program::{Access, Incarnation, Refusal, Reply, Request, ToManager, ToProgram};
use proto::wire::{MAX_DATAGRAM_BYTES, encode};
use support::{ChildProcess, Place, Raw, Running, eventually, memory, node, segment};

fn create(id: u32) -> Vec<u8> {
    let body = Request::CreateSegment {
        key: segment(id),
        size_bytes: 4096,
        access: Access::default(),
        incarnation: Incarnation(1),
        available: true,
        shared: false,
    };
    encode(&ToManager::Request { id: 1, body }).unwrap()
}

#[test]
fn child_role() {
    support::child_role(|role, place| match role {
        "forks" => {
            let raw = Raw::hello(place, 4);
            let mut command = Command::new(std::env::current_exe().unwrap());
            command
                .args(["--exact", "child_role", "--nocapture", "--test-threads=1"])
                .env("TL_ROLE", "talks");
            command.stdin(raw.socket.as_fd().try_clone_to_owned().unwrap()).stdout(Stdio::null());
            let mut talker = command.spawn().unwrap();
            talker.wait().unwrap();
        }
        // Inherits a socket and, once somebody has connected, never reads, and asks for more than the manager
        // can answer in the time.
        _ => {
            let socket = Seqpacket::from_fd(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
            let status = encode(&ToManager::Request { id: 2, body: Request::Status }).unwrap();
            socket.send(&create(1), &[memory().fd()]).unwrap();
            let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
            // The answer, and that somebody has connected: an owner for which much waits is connected to no
            // more.
            for _ in 0..2 {
                while socket.receive(&mut buffer).is_err() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            loop {
                match socket.send(&status, &[]) {
                    Ok(()) | Err(rustix::io::Errno::AGAIN) => {}
                    Err(_) => return,
                }
            }
        }
    });
}

#[test]
fn an_owner_that_does_not_read_is_not_cut_off_by_those_who_connect() {
    let place = Place::new();
    let _managers = place.start_all(&[4, 8]);
    let owner = Raw::hello(&place, 4);
    owner.socket.send(&create(1), &[memory().fd()]).unwrap();
    assert!(matches!(owner.receive(), Some(ToProgram::Reply { result: Ok(Reply::Done), .. })));
    for importer in [place.attach(8), place.attach(4)] {
        let (kept, ..) = importer.connect_segment(node(4), segment(1)).unwrap();
        let mut refused = None;
        for _ in 0..100_000 {
            match importer.connect_segment(node(4), segment(1)) {
                Ok((import, ..)) => importer.disconnect(&import).unwrap(),
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        let busy = |error: &ClientError| matches!(error, ClientError::Refused(Refusal::OwnerBusy { .. }));
        assert!(refused.as_ref().is_some_and(busy), "{refused:?}");
        assert_eq!(kept.state(), ImportState::Alive, "the owner lives");
        // It continues, reads what was said, and everybody may connect again.
        let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
        eventually("it has caught up", || {
            while let Ok(read) = owner.socket.receive(&mut buffer) {
                assert!(read.is_some(), "it was cut off");
            }
            importer.connect_segment(node(4), segment(1)).is_ok()
        });
        assert_eq!(kept.state(), ImportState::Alive);
    }
}

#[test]
fn who_asks_and_does_not_read_is_not_listened_to_and_not_cut_off() {
    let place = Place::new();
    let _manager = place.start(4);
    let raw = Raw::hello(&place, 4);
    let status = encode(&ToManager::Request { id: 2, body: Request::Status }).unwrap();
    let mut sent = 0;
    // Until nothing has been taken for a while.
    let mut full = 0;
    while full < 50 {
        match raw.socket.send(&status, &[]) {
            Ok(()) => (sent, full) = (sent + 1, 0),
            Err(rustix::io::Errno::AGAIN) => {
                full += 1;
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(error) => panic!("{error}"),
        }
    }
    // Others are served meanwhile.
    assert!(place.attach(4).probe(node(4)).unwrap());
    for _ in 0..sent {
        assert!(matches!(raw.receive(), Some(ToProgram::Reply { result: Ok(Reply::Status(_)), .. })));
    }
}

#[test]
fn who_closes_while_much_waits_is_gone_at_once() {
    let place = Place::new();
    let _manager = place.start(4);
    let client = place.attach(4);
    let raw = Raw::hello(&place, 4);
    let status = encode(&ToManager::Request { id: 2, body: Request::Status }).unwrap();
    while raw.socket.send(&status, &[]).is_ok() {}
    drop(raw);
    eventually("it is gone", || client.status().unwrap().programs_total == 1);
}

#[test]
fn a_dead_program_whose_fork_goes_on_talking_is_dead() {
    let place = Place::new();
    let _manager = place.start(4);
    let client = place.attach(4);
    // The longer an answer takes, the less the manager gets to the end of the questions.
    let _crowd: Vec<Raw> = (0..100).map(|_| Raw::hello(&place, 4)).collect();
    let child = ChildProcess::start("forks", &[("TL_ROOT", place.root.to_str().unwrap())]);
    let (import, ..) =
        client.connect_segment_within(node(4), segment(1), support::WATCHDOG).expect("it is offered");
    std::thread::sleep(Duration::from_millis(50));
    child.kill();
    eventually("its death is seen", || import.state() != ImportState::Alive);
    assert!(client.probe(node(4)).unwrap(), "and others are served");
}

#[test]
fn silent_connections_leave_room_for_programs() {
    let place = Place::new();
    let mut options: DaemonOptions = place.options(4);
    options.settings.limits = LimitSettings { programs: Some(8), ..LimitSettings::default() };
    let daemon = Daemon::start(&options).unwrap();
    let stop = daemon.stop_handle();
    let _manager = Running { stop, thread: Some(std::thread::spawn(move || daemon.run().unwrap())) };
    let silent: Vec<Raw> = (0..100).map(|_| Raw::connect(&place, 4)).collect();
    let client = place.attach(4);
    assert!(client.probe(node(4)).unwrap());
    // The first have been told why they had to go.
    let Some(ToProgram::Rejected(refusal)) = silent[0].receive() else { panic!("no word") };
    assert!(refusal.to_string().contains("have not sent a hello"), "{refusal}");
    // One process does not get all places either.
    let many: Vec<_> = (0..8)
        .map(|_| node_client::Client::attach(&place.attach_options(4), |_| ()))
        .filter(Result::is_ok)
        .collect();
    assert_eq!(many.len(), 3, "half of 8, with the first");
}
