//! A program and a manager that misbehaves, is slow, or dies.

// Helpers of tests are tests, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod loss;
mod stage;

use std::os::fd::AsFd;
use std::sync::mpsc::channel;
use std::time::Duration;

use link::page::{ImportState as Word, PageWriter};
use node_client::{BlockingClient, Client, ClientError, ClientEvent, ImportState};
use proto::ids::NodeId;
use proto::wire::program::{
    Access, ConnectionId, Event, ImportSlot, Incarnation, LossReason, Refusal, Reply, Request, ToProgram,
};
use proto::wire::{PROTOCOL_VERSION, encode};

use stage::{KEY, Stage, await_event, four, granted, info, memory};

#[test]
fn a_manager_of_another_version_is_named() {
    let stage = Stage::new();
    std::thread::scope(|scope| {
        let attach = scope.spawn(|| Client::attach(&stage.options(), |_| {}).unwrap_err());
        let talk = stage.accept();
        let mut answer = encode(&ToProgram::Welcome { info: info() }).unwrap();
        answer[4..6].copy_from_slice(&(PROTOCOL_VERSION + 1).to_le_bytes());
        talk.socket.send(&answer, &[]).unwrap();
        let error = attach.join().unwrap();
        assert!(
            matches!(error, ClientError::Version { theirs } if theirs == PROTOCOL_VERSION + 1),
            "{error}"
        );
    });
}

#[test]
fn a_manager_that_makes_no_sense_is_an_error_and_never_more() {
    let stage = Stage::new();
    let good = encode(&ToProgram::Welcome { info: info() }).unwrap();
    // Cut off behind the version, and before the end.
    for nonsense in [&b"x"[..], &good[..6], &good[..good.len() - 1], &good] {
        std::thread::scope(|scope| {
            let attach = scope.spawn(|| Client::attach(&stage.options(), |_| {}).unwrap_err());
            // The last one is a good welcome, but without a state page.
            stage.accept().socket.send(nonsense, &[]).unwrap();
            let error = attach.join().unwrap();
            assert!(matches!(error, ClientError::Protocol { .. }), "{error}");
        });
    }
    let other = memory();
    std::thread::scope(|scope| {
        let attach = scope.spawn(|| Client::attach(&stage.options(), |_| {}).unwrap_err());
        stage.accept().socket.send(&good, &[other.fd()]).unwrap();
        assert!(matches!(attach.join().unwrap(), ClientError::Page { .. }));
    });
}

#[test]
fn a_silent_manager_is_given_up() {
    let stage = Stage::new();
    let error =
        BlockingClient::open(&stage.dir, four(), "test", false, Duration::from_millis(20)).unwrap_err();
    assert!(matches!(error, ClientError::TimedOut { what: "the connection", .. }), "{error}");
    let _first = stage.accept();
    let (client, _events, talk) = stage.attached();
    let error = client.request_within(Request::NodeInfo, &[], Duration::from_millis(20)).unwrap_err();
    assert!(matches!(error, ClientError::TimedOut { .. }), "{error}");
    // The late answer confuses nobody.
    let (late, ..) = talk.request();
    talk.answer(late, Ok(Reply::Info(info())), &[]);
    std::thread::scope(|scope| {
        let probe = scope.spawn(|| client.probe(four()).unwrap());
        let (id, body, _) = talk.request();
        assert_eq!(body, Request::Probe { node: four() });
        talk.answer(id, Ok(Reply::Probed { reachable: true }), &[]);
        assert!(probe.join().unwrap());
    });
}

#[test]
fn a_detach_from_a_manager_that_was_silent_is_brief_but_is_carried_out() {
    let limit_of = |error| match error {
        ClientError::TimedOut { limit, .. } => limit,
        other => panic!("{other}"),
    };
    let stage = Stage::new();
    let (client, _events, talk) = stage.attached();
    let silence = Duration::from_millis(300);
    client.request_within(Request::NodeInfo, &[], silence).unwrap_err();
    let (late, ..) = talk.request();
    for _ in 0..2 {
        // The error says how long was waited: not the ten seconds that a goodbye is worth otherwise.
        assert!(limit_of(client.remove_segment(KEY, true).unwrap_err()) < silence);
        assert_eq!(talk.request().1, Request::RemoveSegment { key: KEY, force: true });
    }
    talk.answer(late, Ok(Reply::Info(info())), &[]);
    std::thread::scope(|scope| {
        let goodbye = scope.spawn(|| client.remove_segment(KEY, true));
        let (id, ..) = talk.request();
        talk.answer(id, Ok(Reply::Done), &[]);
        goodbye.join().unwrap().unwrap();
    });
}

#[test]
fn what_comes_too_late_is_given_back() {
    let stage = Stage::new();
    let (client, _events, talk) = stage.attached();
    let short = Duration::from_millis(20);
    let region = memory();
    client.request_within(Request::ConnectSegment { node: four(), key: KEY }, &[], short).unwrap_err();
    let (id, ..) = talk.request();
    talk.answer(id, Ok(granted(3)), &[region.fd()]);
    assert_eq!(talk.request().1, Request::Disconnect { import: ImportSlot(3) });
    let create = Request::CreateSegment {
        key: KEY,
        size_bytes: 4096,
        access: Access::default(),
        incarnation: Incarnation(1),
        available: false,
        shared: false,
    };
    client.request_within(create, &[region.fd()], short).unwrap_err();
    let (id, _, descriptors) = talk.request();
    assert_eq!(descriptors.len(), 1);
    talk.answer(id, Ok(Reply::Done), &[]);
    assert_eq!(talk.request().1, Request::RemoveSegment { key: KEY, force: true });
}

#[test]
fn answers_reach_those_who_asked_in_any_order() {
    let stage = Stage::new();
    let (client, _events, talk) = stage.attached();
    std::thread::scope(|scope| {
        let probes: Vec<_> = (1..=8)
            .map(|index| {
                let client = &client;
                scope.spawn(move || client.probe(NodeId::new(index * 4).unwrap()).unwrap())
            })
            .collect();
        let mut asked: Vec<_> = (0..8).map(|_| talk.request()).collect();
        asked.reverse();
        for (id, body, _) in asked {
            let Request::Probe { node } = body else { panic!("{body:?}") };
            talk.answer(id, Ok(Reply::Probed { reachable: node.get() % 8 == 0 }), &[]);
        }
        let reached: Vec<_> = probes.into_iter().map(|probe| probe.join().unwrap()).collect();
        assert_eq!(reached, [false, true, false, true, false, true, false, true]);
    });
}

#[test]
fn a_connection_without_its_memory_is_a_broken_protocol() {
    let stage = Stage::new();
    let (client, _events, talk) = stage.attached();
    std::thread::scope(|scope| {
        let connect = scope.spawn(|| client.connect_segment(four(), KEY).unwrap_err());
        let (id, ..) = talk.request();
        talk.answer(id, Ok(granted(0)), &[]);
        assert!(matches!(connect.join().unwrap(), ClientError::Protocol { .. }));
        let probe = scope.spawn(|| client.probe(four()).unwrap_err());
        let (id, ..) = talk.request();
        talk.answer(id, Ok(Reply::Done), &[]);
        assert!(matches!(probe.join().unwrap(), ClientError::Protocol { .. }));
    });
}

#[test]
fn events_come_in_order_and_may_call_back_and_panic() {
    let stage = Stage::new();
    let (sender, events) = channel();
    let (client, talk) = std::thread::scope(|scope| {
        let attach = scope.spawn(|| {
            let callback = move |event| {
                let last = matches!(event, ClientEvent::Link { node, .. } if node.get() == 8);
                sender.send(event).unwrap();
                assert!(last, "a callback that fails");
            };
            Client::attach(&stage.options(), callback).unwrap()
        });
        let talk = stage.accept();
        stage.welcome(&talk);
        (attach.join().unwrap(), talk)
    });
    for (node, up) in [(4, true), (4, false), (8, true)] {
        talk.say(&ToProgram::Event(Event::Link { node: NodeId::new(node).unwrap(), up }), &[]);
    }
    let seen: Vec<_> = (0..3)
        .map(|_| {
            await_event(&events, |event| match event {
                ClientEvent::Link { node, up } => Some((node.get(), *up)),
                _ => None,
            })
        })
        .collect();
    assert_eq!(seen, [(4, true), (4, false), (8, true)]);
    drop(client);
    assert!(talk.receive().is_none());
}

#[test]
fn a_manager_that_dies_fails_what_waits_and_gets_everything_told_again() {
    let mut stage = Stage::new();
    let (client, events, talk) = stage.attached();
    let region = memory();
    stage.page.set_import(ImportSlot(5), Word::Alive).unwrap();
    let import = std::thread::scope(|scope| {
        let create =
            scope.spawn(|| client.create_segment(KEY, 4096, Access::default(), region.fd()).unwrap());
        let (id, ..) = talk.request();
        talk.answer(id, Ok(Reply::Done), &[]);
        create.join().unwrap();
        let available = scope.spawn(|| client.set_available(KEY, true, false).unwrap());
        let (id, ..) = talk.request();
        talk.answer(id, Ok(Reply::Done), &[]);
        available.join().unwrap();
        let connect = scope.spawn(|| client.connect_segment(four(), KEY).unwrap().0);
        let (id, ..) = talk.request();
        talk.answer(id, Ok(granted(5)), &[region.fd()]);
        connect.join().unwrap()
    });
    assert_eq!(import.state(), ImportState::Alive);

    let old_page = client.page().unwrap();
    stage.listener = None;
    std::thread::scope(|scope| {
        let probe = scope.spawn(|| client.probe(four()).unwrap_err());
        talk.request();
        drop(talk);
        assert!(matches!(probe.join().unwrap(), ClientError::ManagerGone { .. }));
    });
    await_event(&events, |event| matches!(event, ClientEvent::ManagerGone { .. }).then_some(()));
    assert_eq!(import.state(), ImportState::Alive);

    stage.page = PageWriter::create(four(), 2).unwrap();
    stage.open();
    let talk = stage.accept();
    assert!(stage.welcome(&talk));
    let (id, body, descriptors) = talk.request();
    assert!(matches!(body, Request::CreateSegment { key: KEY, available: true, .. }), "{body:?}");
    assert_eq!(descriptors.len(), 1);
    talk.answer(id, Ok(Reply::Done), &[]);
    let (id, body, _) = talk.request();
    let Request::ResumeImport { connection: ConnectionId(9), incarnation: Incarnation(8), .. } = body else {
        panic!("{body:?}");
    };
    // Refused for now: it is asked for again.
    talk.answer(id, Err(Refusal::Unreachable { node: four(), why: "not yet".into() }), &[]);
    let (id, ..) = talk.request();
    assert_eq!(import.state(), ImportState::Alive);
    stage.page.set_import(ImportSlot(77), Word::Alive).unwrap();
    talk.answer(id, Ok(Reply::Resumed { import: ImportSlot(77) }), &[]);
    await_event(&events, |event| matches!(event, ClientEvent::ManagerBack { .. }).then_some(()));
    assert!(!std::sync::Arc::ptr_eq(&client.page().unwrap(), &old_page));

    // From here on the new page counts, under the old name.
    stage.page.set_import(ImportSlot(77), Word::Ended(LossReason::Removed)).unwrap();
    talk.say(&ToProgram::Event(Event::Lost { import: ImportSlot(77), reason: LossReason::Removed }), &[]);
    let lost = await_event(&events, |event| match event {
        ClientEvent::Lost { import, reason } => Some((*import, *reason)),
        _ => None,
    });
    assert_eq!(lost, (import.id(), LossReason::Removed));
    assert_eq!(import.state(), ImportState::Ended(LossReason::Removed));
    std::thread::scope(|scope| {
        let disconnect = scope.spawn(|| client.disconnect(&import).unwrap());
        let (id, body, _) = talk.request();
        assert_eq!(body, Request::Disconnect { import: ImportSlot(77) });
        talk.answer(id, Ok(Reply::Done), &[]);
        disconnect.join().unwrap();
    });
    assert_eq!(import.state(), ImportState::Free);
}

#[test]
fn garbage_in_the_middle_ends_the_connection_and_is_survived() {
    let stage = Stage::new();
    let (client, events, talk) = stage.attached();
    let garbage = [b"TLN1", &PROTOCOL_VERSION.to_le_bytes()[..], &[0xff; 2]].concat();
    talk.socket.send(&garbage, &[]).unwrap();
    await_event(&events, |event| matches!(event, ClientEvent::ManagerGone { .. }).then_some(()));
    assert!(talk.receive().is_none());
    let talk = stage.accept();
    assert!(stage.welcome(&talk));
    await_event(&events, |event| matches!(event, ClientEvent::ManagerBack { .. }).then_some(()));
    assert!(client.is_attached());
}

#[test]
fn too_many_descriptors_from_a_manager_are_an_error() {
    let stage = Stage::new();
    let region = memory();
    std::thread::scope(|scope| {
        let attach = scope.spawn(|| Client::attach(&stage.options(), |_| {}).unwrap_err());
        let talk = stage.accept();
        let mut space = vec![std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(20))];
        let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
        let many = [region.fd(); 20];
        assert!(control.push(rustix::net::SendAncillaryMessage::ScmRights(&many)));
        let bytes = encode(&ToProgram::Welcome { info: info() }).unwrap();
        let flags = rustix::net::SendFlags::empty();
        rustix::net::sendmsg(talk.socket.as_fd(), &[std::io::IoSlice::new(&bytes)], &mut control, flags)
            .unwrap();
        assert!(matches!(attach.join().unwrap(), ClientError::Io { .. }));
    });
}
