//! What most examples begin with.

use proto::ids::{GroupId, InterruptNo, NodeId, SegmentId, SegmentKey};
use proto::wire::program::{
    Access, ConnectionId, ImportSlot, Incarnation, InterruptKind, Refusal, Reply, Request,
};

use crate::actor::{interrupt_parts, memory};
use crate::world::World;

pub const KIB: u64 = 1024;

pub fn node(number: u32) -> NodeId {
    NodeId::new(number).expect("an id")
}

pub fn segment(number: u32) -> SegmentKey {
    SegmentKey::Segment(SegmentId(number))
}

pub fn copy(group: u32) -> SegmentKey {
    SegmentKey::GroupCopy(GroupId(group))
}

pub fn create_request(key: SegmentKey, access: Access, available: bool) -> Request {
    let incarnation = match key {
        SegmentKey::Segment(id) => Incarnation(1000 + u64::from(id.0)),
        SegmentKey::GroupCopy(id) => Incarnation(2000 + u64::from(id.0)),
        SegmentKey::Port(port) => Incarnation(3000 + u64::from(port.0)),
    };
    Request::CreateSegment { key, size_bytes: 4 * KIB, access, incarnation, available, shared: false }
}

/// A segment of 4 KiB that everybody of the usual user may connect to.
pub fn offer(world: &mut World, actor: usize, key: SegmentKey) {
    let body = create_request(key, Access::default(), true);
    assert_eq!(world.ask_with(actor, body, vec![memory(4 * KIB)]).expect("created").0, Reply::Done);
}

pub fn offer_interrupt(world: &mut World, actor: usize, number: u32, kind: InterruptKind) {
    let number = InterruptNo(number);
    let incarnation = Incarnation(3000 + u64::from(number.0));
    let access = Access::default();
    let body = Request::CreateInterrupt {
        number: Some(number),
        kind,
        access,
        incarnation,
        pollable: false,
        again: false,
    };
    let reply = world.ask_with(actor, body, interrupt_parts(false)).expect("created").0;
    assert_eq!(reply, Reply::InterruptCreated { number });
}

pub fn try_connect(
    world: &mut World,
    actor: usize,
    to: u32,
    key: SegmentKey,
) -> Result<(ImportSlot, ConnectionId), Refusal> {
    match world.ask(actor, Request::ConnectSegment { node: node(to), key })? {
        Reply::Segment { import, connection, .. } => Ok((import, connection)),
        other => panic!("a segment was asked for, not {other:?}"),
    }
}

pub fn connect(world: &mut World, actor: usize, to: u32, key: SegmentKey) -> (ImportSlot, ConnectionId) {
    try_connect(world, actor, to, key).expect("connected")
}

/// The import, the connection, and the producer's number.
pub fn connect_interrupt(
    world: &mut World,
    actor: usize,
    to: u32,
    number: u32,
) -> Result<(ImportSlot, ConnectionId, u16), Refusal> {
    let body = Request::ConnectInterrupt { node: node(to), number: InterruptNo(number) };
    match world.ask(actor, body)? {
        Reply::Interrupt { import, connection, producer, .. } => Ok((import, connection, producer)),
        other => panic!("an interrupt was asked for, not {other:?}"),
    }
}
