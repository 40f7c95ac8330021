//! Programs that attach, rightly and wrongly.
// Helpers of tests are tests, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::os::fd::AsFd;

use foreign::trial::send_with;
use node_client::{AttachOptions, Client, ClientError, ClientEvent, InterruptOffer, Sender};
use proto::ids::InterruptNo;
use proto::wire::program::{Access, InterruptKind, Refusal, Reply, Request, ToManager, ToProgram};
use proto::wire::{MAX_DATAGRAM_BYTES, PROTOCOL_VERSION, encode};
use rustix::event::epoll;
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use shm::process::PidFd;
use shm::region::{Region, RegionOptions};
use support::{Place, Raw, await_event, eventually, memory, node};

fn rejected(raw: &Raw) -> Refusal {
    match raw.receive() {
        Some(ToProgram::Rejected(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_program_attaches_asks_and_goes() {
    let place = Place::new();
    let _manager = place.start(4);
    let client = place.attach(4);
    assert_eq!(client.node(), node(4));
    assert_eq!(client.info().cluster, "t");
    assert_eq!(client.info().manager_pid, std::process::id());
    assert!(client.probe(node(4)).unwrap());
    assert!(!client.probe(node(8)).unwrap());
    let status = client.status().unwrap();
    assert_eq!((status.programs.len(), status.programs[0].name.as_str()), (1, "test"));
    assert_eq!(status.programs[0].pid, std::process::id());
    let second = place.attach(4);
    assert_eq!(second.status().unwrap().programs_total, 2);
    drop(client);
    eventually("the first program is gone", || second.status().unwrap().programs_total == 1);
}

#[test]
fn many_threads_share_one_attachment() {
    let place = Place::new();
    let _manager = place.start(4);
    let client = place.attach(4);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..200 {
                    assert!(client.probe(node(4)).unwrap());
                    assert!(matches!(client.request(Request::NodeInfo, &[]).unwrap().0, Reply::Info(_)));
                }
            });
        }
    });
    assert_eq!(client.status().unwrap().counters.protocol_errors, 0);
}

#[test]
fn the_node_is_found_or_the_error_says_how() {
    let place = Place::new();
    let options = |node| AttachOptions { node, ..place.attach_options(4) };
    let attach = |node| Client::attach(&options(node), |_| {}).map(|client| client.node());
    assert!(matches!(attach(None), Err(ClientError::NoManager { .. })));
    let _four = place.start(4);
    assert_eq!(attach(None).unwrap(), node(4));
    let _eight = place.start(8);
    let text = attach(None).unwrap_err().to_string();
    assert!(text.contains("4, 8") && text.contains("TIELINE_NODE"), "{text}");
    assert_eq!(attach(Some(node(8))).unwrap(), node(8));
    let text = attach(Some(node(12))).unwrap_err().to_string();
    assert!(text.contains("no node 12") && text.contains("4, 8"), "{text}");
}

#[test]
fn another_version_is_told_both_versions() {
    let place = Place::new();
    let _manager = place.start(4);
    let raw = Raw::connect(&place, 4);
    let mut hello = encode(&ToManager::Hello { name: "old".into(), reattach: false }).unwrap();
    hello[4..6].copy_from_slice(&(PROTOCOL_VERSION + 7).to_le_bytes());
    raw.socket.send(&hello, &[]).unwrap();
    assert_eq!(rejected(&raw), Refusal::Version { theirs: PROTOCOL_VERSION + 7, ours: PROTOCOL_VERSION });
    assert!(raw.receive().is_none());
}

#[test]
fn garbage_closes_its_own_connection_only() {
    let place = Place::new();
    let _manager = place.start(4);
    let client = place.attach(4);
    let good = encode(&ToManager::Request { id: 1, body: Request::Status }).unwrap();
    let mut truncated = good.clone();
    truncated.pop();
    let mut longer = good.clone();
    longer.push(0);
    let oversize = vec![b'x'; MAX_DATAGRAM_BYTES + 1];
    let of_this_version = [b"TLN1", &PROTOCOL_VERSION.to_le_bytes()[..], &[0xff; 3]].concat();
    for garbage in
        [&b"x"[..], b"TLN1", &of_this_version, b"GET / HTTP/1.0\r\n\r\n", &truncated, &longer, &oversize]
    {
        let raw = Raw::hello(&place, 4);
        raw.socket.send(garbage, &[]).unwrap();
        assert!(matches!(rejected(&raw), Refusal::Invalid(_)), "{garbage:?}");
        assert!(raw.receive().is_none());
    }
    let status = client.status().unwrap();
    assert_eq!(status.counters.protocol_errors, 7);
    assert_eq!(status.programs_total, 1);
}

#[test]
fn a_first_message_that_is_no_hello_is_refused() {
    let place = Place::new();
    let _manager = place.start(4);
    let raw = Raw::connect(&place, 4);
    raw.socket.send(&encode(&ToManager::Request { id: 1, body: Request::Status }).unwrap(), &[]).unwrap();
    assert!(matches!(rejected(&raw), Refusal::Invalid(_)));
}

#[test]
fn the_kernel_says_whose_process_a_program_is_whatever_its_hello_carries() {
    // With a socket that tells its process, without, and as before Linux 6.5.
    for without in ["", "passrights", "passrights,peerpidfd"] {
        let place = Place::new();
        let _manager = place.start_process_without(4, without);
        let (owner, events) = place.attach_with_events(4);
        let options = RegionOptions { read_only_for_others: true, ..RegionOptions::new("waiter", 4096) };
        let (trigger, waiter) = (memory(), Region::create(&options).unwrap());
        let offer = InterruptOffer {
            number: Some(InterruptNo(5)),
            kind: InterruptKind::Data,
            access: Access::default(),
            trigger: trigger.fd(),
            waiter: waiter.fd(),
            pollable: false,
        };
        owner.create_interrupt(&offer).unwrap();
        let hello = encode(&ToManager::Hello { name: "x".into(), reattach: false }).unwrap();
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = rustix::process::Pid::from_raw(other.id().cast_signed()).unwrap();
        let wrong = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        let region = memory();
        for descriptors in [vec![], vec![wrong.as_fd()], vec![region.fd()], vec![region.fd(); 4]] {
            let raw = Raw::connect(&place, 4);
            raw.socket.send_hello(&hello, &descriptors).unwrap();
            assert!(matches!(raw.receive(), Some(ToProgram::Welcome { .. })), "{without}: {descriptors:?}");
            let body = Request::ConnectInterrupt { node: node(4), number: InterruptNo(5) };
            raw.socket.send(&encode(&ToManager::Request { id: 1, body }).unwrap(), &[]).unwrap();
            let sender = await_event(&events, |event| match event {
                ClientEvent::Connected { sender: Some(Sender::Descriptor(pidfd)), .. } => {
                    Some(PidFd::from_fd(pidfd.try_clone().unwrap()).unwrap().pid_of())
                }
                _ => None,
            });
            assert_eq!(sender, Some(std::process::id()), "{without}: {descriptors:?}");
        }
        other.kill().unwrap();
        other.wait().unwrap();
    }
}

#[test]
fn a_program_that_is_not_welcomed_yet_can_send_no_descriptor_and_need_not() {
    let place = Place::new();
    let _manager = place.start(4);
    let raw = Raw::connect(&place, 4);
    let region = memory();
    match raw.socket.send(b"x", &[region.fd()]) {
        Err(errno) => assert_eq!(errno, rustix::io::Errno::PERM),
        Ok(()) => return println!("skipped: this kernel has no SO_PASSRIGHTS (Linux 6.16)"),
    }
    let hello = encode(&ToManager::Hello { name: "x".into(), reattach: false }).unwrap();
    raw.socket.send(&hello, &[]).unwrap();
    assert!(matches!(raw.receive(), Some(ToProgram::Welcome { .. })));
    let region = memory();
    let request = encode(&ToManager::Request { id: 1, body: Request::Status }).unwrap();
    raw.socket.send(&request, &[region.fd()]).unwrap();
}

#[test]
fn child_role() {
    support::child_role(|role, _| panic!("{role}"));
}

#[test]
fn a_flood_of_descriptors_leaves_none_behind() {
    let place = Place::new();
    let _manager = place.start_process_without(4, "passrights,peerpidfd");
    let client = place.attach(4);
    let before = client.status().unwrap().descriptors;
    let region = memory();
    let request = encode(&ToManager::Request { id: 1, body: Request::Status }).unwrap();
    for count in [1, 4, 5, 200] {
        let raw = Raw::hello(&place, 4);
        send_with(&raw.socket, &request, &vec![region.fd(); count]).unwrap();
        // One that is not wanted is refused or passed over; more than a message may have closes the
        // connection.
        let answer = raw.receive();
        if count > 4 {
            assert!(matches!(answer, Some(ToProgram::Rejected(_))), "{count}: {answer:?}");
        }
    }
    eventually("all are closed", || client.status().unwrap().descriptors == before);
    let raw = Raw::connect(&place, 4);
    let myself = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
    send_with(&raw.socket, b"x", &[myself.as_fd(); 250]).unwrap();
    assert!(matches!(rejected(&raw), Refusal::Invalid(_)));
    assert_eq!(client.status().unwrap().descriptors, before);
}

/// To read what a descriptor is from `/proc` takes as long as its maker likes.
#[test]
fn nothing_is_read_of_what_comes_along() {
    let place = Place::new();
    let manager = place.start_process_without(4, "passrights,peerpidfd");
    let client = place.attach(4);
    let reads = || {
        let io = std::fs::read_to_string(format!("/proc/{}/io", manager.child.id())).ok()?;
        io.lines().find_map(|line| line.strip_prefix("syscr: ")?.parse::<u64>().ok())
    };
    let Some(before) = reads() else { return println!("skipped: this kernel does not count reads") };
    let set = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let request = encode(&ToManager::Request { id: 1, body: Request::Status }).unwrap();
    for _ in 0..10 {
        for (message, count) in [(&request[..], 4), (b"garbage", 250)] {
            let raw = Raw::hello(&place, 4);
            send_with(&raw.socket, message, &vec![set.as_fd(); count]).unwrap();
            raw.receive().unwrap();
        }
    }
    assert!(client.probe(node(4)).unwrap());
    let read = reads().unwrap() - before;
    assert!(read < 250, "the manager called read {read} times");
}
