//! Descriptors that find no room.

use std::os::fd::{AsFd, BorrowedFd};

use node_client::{ClientEvent, InterruptOffer, Sender};
use proto::ids::{InterruptNo, NodeId};
use proto::wire::encode;
use proto::wire::program::{
    Access, ConnectionId, Event, Imported, Importer, InterruptKind, Reply, ToProgram,
};

use crate::stage::{Stage, Talk, await_event, memory};

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
                event: None,
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
