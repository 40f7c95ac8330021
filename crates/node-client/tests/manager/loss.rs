//! Answers that never come, and descriptors that find no room.

use std::os::fd::{AsFd, BorrowedFd};

use node_client::{Client, ClientError, ClientEvent, InterruptOffer, Sender};
use proto::ids::{InterruptNo, NodeId};
use proto::wire::encode;
use proto::wire::program::{
    Access, ConnectionId, Event, Imported, Importer, InterruptKind, Reply, Request, ToProgram,
};

use crate::stage::{KEY, Stage, Talk, await_event, four, memory};

/// A segment that is there, neither available nor shared.
fn create(client: &Client, talk: &Talk) {
    let region = memory();
    std::thread::scope(|scope| {
        let create = scope.spawn(|| client.create_segment(KEY, 4096, Access::default(), region.fd()));
        let (id, ..) = talk.request();
        talk.answer(id, Ok(Reply::Done), &[]);
        create.join().unwrap().unwrap();
    });
}

/// What the next manager is told of the segment: whether it is available, and shared.
fn told_again(stage: &mut Stage) -> (bool, bool) {
    stage.open();
    let talk = stage.accept();
    assert!(stage.welcome(&talk));
    match talk.request().1 {
        Request::CreateSegment { key: KEY, available, shared, .. } => (available, shared),
        other => panic!("{other:?}"),
    }
}

/// The manager reads what is asked, and dies without a word.
fn dies_on(stage: &mut Stage, talk: Talk, ask: impl Fn() -> Result<(), ClientError> + Sync) {
    stage.listener = None;
    std::thread::scope(|scope| {
        let asking = scope.spawn(&ask);
        talk.request();
        drop(talk);
        assert!(matches!(asking.join().unwrap(), Err(ClientError::ManagerGone { .. })));
    });
}

#[test]
fn a_change_that_was_in_doubt_when_the_manager_died_is_told_to_the_next_as_made() {
    for (share, wanted) in [(false, (true, false)), (true, (false, true))] {
        let mut stage = Stage::new();
        let (client, _events, talk) = stage.attached();
        create(&client, &talk);
        dies_on(&mut stage, talk, || {
            if share { client.share_segment(KEY) } else { client.set_available(KEY, true, false) }
        });
        // A manager that is not there was not asked: of this one nothing is in doubt.
        assert!(matches!(client.set_available(KEY, !wanted.0, false), Err(ClientError::ManagerGone { .. })));
        assert_eq!(told_again(&mut stage), wanted);
    }
}

#[test]
fn a_withdrawal_in_doubt_counts_as_made() {
    let mut stage = Stage::new();
    let (client, _events, talk) = stage.attached();
    create(&client, &talk);
    std::thread::scope(|scope| {
        let open = scope.spawn(|| client.set_available(KEY, true, false).unwrap());
        let (id, ..) = talk.request();
        talk.answer(id, Ok(Reply::Done), &[]);
        open.join().unwrap();
    });
    dies_on(&mut stage, talk, || client.set_available(KEY, false, true));
    assert_eq!(told_again(&mut stage), (false, false));
}

#[test]
fn a_change_that_was_answered_too_late_is_made() {
    let mut stage = Stage::new();
    let (client, events, talk) = stage.attached();
    create(&client, &talk);
    let limit = std::time::Duration::from_millis(20);
    for body in [
        Request::SetAvailable { key: KEY, available: true, disconnect: false },
        Request::ShareSegment { key: KEY },
    ] {
        let error = client.request_within(body, &[], limit).unwrap_err();
        assert!(matches!(error, ClientError::TimedOut { .. }), "{error}");
        let (id, ..) = talk.request();
        talk.answer(id, Ok(Reply::Done), &[]);
    }
    talk.say(&ToProgram::Event(Event::Link { node: four(), up: true }), &[]);
    await_event(&events, |event| matches!(event, ClientEvent::Link { .. }).then_some(()));
    stage.listener = None;
    drop(talk);
    assert_eq!(told_again(&mut stage), (true, true));
}

/// Sends more descriptors than a program takes: to it this is as if it had no room.
fn say_without_room(talk: &Talk, message: &ToProgram, fd: BorrowedFd<'_>) {
    let mut space = vec![std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(20))];
    let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
    let many = [fd; 20];
    assert!(control.push(rustix::net::SendAncillaryMessage::ScmRights(&many)));
    let bytes = encode(message).unwrap();
    let flags = rustix::net::SendFlags::empty();
    rustix::net::sendmsg(talk.socket.as_fd(), &[std::io::IoSlice::new(&bytes)], &mut control, flags).unwrap();
}

#[test]
fn an_event_whose_descriptor_finds_no_room_is_told_and_costs_nothing_else() {
    let stage = Stage::new();
    let (client, events, talk) = stage.attached();
    let (trigger, waiter) = (memory(), memory());
    for (number, kind) in [(1, InterruptKind::Data), (2, InterruptKind::Plain)] {
        let number = InterruptNo(number);
        std::thread::scope(|scope| {
            let offer = InterruptOffer {
                number: Some(number),
                kind,
                access: Access::default(),
                trigger: trigger.fd(),
                waiter: waiter.fd(),
                pollable: false,
            };
            let client = &client;
            let create = scope.spawn(move || client.create_interrupt(&offer).unwrap());
            let (id, ..) = talk.request();
            talk.answer(id, Ok(Reply::InterruptCreated { number }), &[]);
            create.join().unwrap();
        });
    }
    let came = |number| Event::Connected {
        what: Imported::Interrupt(InterruptNo(number)),
        node: NodeId::new(8).unwrap(),
        connection: ConnectionId(u64::from(number)),
        producer: 3,
        importer: Importer { uid: 1, pid: 4711 },
    };
    let next = || {
        await_event(&events, |event| match event {
            ClientEvent::Connected { producer: 3, sender, .. } => Some(match sender {
                Some(Sender::Number(number)) => Some(*number),
                Some(Sender::Descriptor(_)) => panic!("there was no room"),
                None => None,
            }),
            _ => None,
        })
    };
    say_without_room(&talk, &ToProgram::Event(came(1)), trigger.fd());
    assert_eq!(next(), Some(4711));
    talk.say(&ToProgram::Event(came(2)), &[]);
    assert_eq!(next(), None, "nobody sends messages to a plain interrupt");
    assert!(client.is_attached());
}
