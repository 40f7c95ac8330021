//! Generates transfers of bytes, messages and descriptors.

use super::model::{Id, Model, Object, What};
use crate::program::call::{Disposition, Kind, RecvBy, RecvFlag, SendBy, SendFlag, Signal, StdioBy};
use crate::program::{Actor, Call, Name, Set, Slot};

/// More than this is never left unread: a full buffer's size is chance.
const MUCH: usize = 24_000;

/// Sends something small.
pub(super) fn send(model: &mut Model) {
    let Some((actor, slot, id)) = model.find(|object| object.carries() && object.what != What::PipeOut)
    else {
        return;
    };
    let len = match model.random.below(10) {
        0 => 0,
        1..=3 => model.random.within(1, 16),
        4..=8 => model.random.within(17, 900),
        _ => model.random.within(1000, 5000),
    };
    send_from(model, actor, (slot, id), len);
}

/// Sends so much, if that can neither block nor be chance.
pub(super) fn send_from(model: &mut Model, actor: Actor, (slot, id): (Slot, Id), len: u32) -> bool {
    let object = model.objects[id].clone();
    let (len, by) = match object.what {
        What::Eventfd => (8, SendBy::Write),
        What::PipeIn => (len, pipe_writer(model)),
        _ => (len, model.random.choice()),
    };
    // To a peer without a reader a byte may end the process: so rarely.
    let broken =
        object.shut || object.peer.is_none_or(|peer| model.objects[peer].ended && model.objects[peer].shut);
    let raises = model.disposition(actor, Signal::Pipe) == Disposition::Default;
    let mut flags = model.random.set(&[(SendFlag::Dontwait, 8), (SendFlag::Nosignal, 15)]);
    if broken && raises && object.what != What::Eventfd && !model.random.percent(12) {
        flags = flags.with(SendFlag::Nosignal);
        if !matches!(by, SendBy::Send | SendBy::Sendto | SendBy::Sendmsg | SendBy::Sendmmsg) {
            return false;
        }
    }
    if object.is_tcp() && model.random.percent(4) {
        flags = flags.with(SendFlag::Oob);
    }
    if object.kind() == Some(Kind::UnixSeq) && model.random.percent(10) {
        flags = flags.with(SendFlag::Eor);
    }
    let name = destination(model, &object);
    if !fits(model, &object, len) {
        return false;
    }
    // Two messages wake a reader of a stream twice, or once; and who is told of the first one's error is
    // chance.
    let alone = model.all().len() == 1;
    let chance = !alone && (object.is_stream() || model.is_waited_for(id));
    let by = if by == SendBy::Sendmmsg && chance { SendBy::Sendmsg } else { by };
    let bad = model.random.percent(3);
    model.step(actor, Call::Send { fd: slot, len, by, flags, name, bad });
    if !bad {
        arrives(model, id, &object, len, name);
    }
    true
}

fn pipe_writer(model: &mut Model) -> SendBy {
    model.random.pick(&[SendBy::Write, SendBy::Writev, SendBy::Raw]).unwrap_or(SendBy::Write)
}

/// Datagrams without a fixed peer need one; with one they may name another.
fn destination(model: &mut Model, object: &Object) -> Option<Name> {
    let What::Dgram(kind, _) = object.what else { return None };
    if object.peer.is_some() && !model.random.percent(15) {
        return None;
    }
    let names: Vec<Name> = model
        .objects
        .iter()
        .filter_map(|other| match other.what {
            What::Dgram(of, name) if of == kind => name,
            _ => None,
        })
        .collect();
    model.random.pick(&names)
}

/// Whether so much more fits without doubt.
pub(super) fn has_room(model: &Model, id: Id, len: u32) -> bool {
    let object = &model.objects[id];
    !object.shut && fits(model, object, len)
}

/// So much was sent by other means than a send.
pub(super) fn sent(model: &mut Model, id: Id, len: u32) {
    let object = model.objects[id].clone();
    arrives(model, id, &object, len, None);
}

/// So much was received by other means.
pub(super) fn taken(model: &mut Model, id: Id, len: u32) {
    let object = &mut model.objects[id];
    let taken = if object.is_stream() { len as usize } else { 1 };
    object.queued = object.queued.saturating_sub(taken);
}

/// Whether there is room without doubt.
fn fits(model: &Model, object: &Object, len: u32) -> bool {
    let Some(peer) = object.peer else { return true };
    let queued = model.objects[peer].queued;
    match object.what {
        What::Dgram(..) | What::Stream(Kind::UnixSeq) => queued < 7,
        // A value is any: a second one may not fit beside it.
        What::Eventfd => queued == 0,
        _ => queued + len as usize <= MUCH,
    }
}

/// The model's side of a send.
fn arrives(model: &mut Model, id: Id, object: &Object, len: u32, name: Option<Name>) {
    let named = name.and_then(|name| {
        model.objects.iter().position(|other| matches!(other.what, What::Dgram(_, Some(of)) if of == name))
    });
    let Some(peer) = named.or(object.peer) else {
        // Not accepted yet: counted here, and handed over by accept.
        model.objects[id].members.push(id);
        return;
    };
    let counts = match object.what {
        What::Dgram(..) | What::Stream(Kind::UnixSeq) | What::Eventfd => 1,
        _ => len as usize,
    };
    model.objects[peer].queued += counts;
    model.wake(peer);
}

/// A receive that does not block, as far as can be foreseen.
pub(super) fn receive(model: &mut Model) {
    let readable = |object: &Object| {
        (object.carries() && (object.is_readable() || object.nonblock)) && object.what != What::PipeIn
    };
    let Some((actor, slot, id)) = model.find(readable).or_else(|| model.find(Object::carries)) else {
        return;
    };
    let ready = model.objects[id].is_readable() || model.objects[id].nonblock;
    let mut flags = model.random.set(&[
        (RecvFlag::Dontwait, if ready { 10 } else { 100 }),
        (RecvFlag::Peek, 14),
        (RecvFlag::Trunc, 5),
    ]);
    if model.objects[id].nonblock || flags.has(RecvFlag::Dontwait) {
        if model.random.percent(10) {
            flags = flags.with(RecvFlag::Waitall);
        }
        if model.random.percent(3) {
            flags = flags.with(RecvFlag::Oob);
        }
    }
    receive_into(model, actor, (slot, id), flags);
}

/// Writes the receive and what it takes away.
fn receive_into(model: &mut Model, actor: Actor, (slot, id): (Slot, Id), flags: Set<RecvFlag>) {
    let object = model.objects[id].clone();
    let takes_flags = [
        RecvBy::Recv,
        RecvBy::Recvfrom,
        RecvBy::Recvmsg,
        RecvBy::RecvChk,
        RecvBy::RecvfromChk,
        RecvBy::Recvmmsg,
    ];
    let by = match object.what {
        What::Eventfd | What::PipeOut | What::PipeIn => {
            if !(object.is_readable() || object.nonblock) {
                return;
            }
            model.random.pick(&[RecvBy::Read, RecvBy::ReadChk, RecvBy::Raw]).unwrap_or(RecvBy::Read)
        }
        _ if flags == Set::none() => model.random.choice(),
        _ => model.random.pick(&takes_flags).unwrap_or(RecvBy::Recv),
    };
    // The second message of two is waited for, unless nothing is.
    let doubtful = by == RecvBy::Recvmmsg && !object.nonblock && !flags.has(RecvFlag::Dontwait);
    let flags = if doubtful { flags.with(RecvFlag::Dontwait) } else { flags };
    let len = match model.random.below(8) {
        0 => model.random.within(0, 8),
        1..=4 => model.random.within(9, 600),
        _ => model.random.within(600, 6000),
    };
    let len = if object.what == What::Eventfd { 8 } else { len };
    let bad = model.random.percent(2) && object.is_stream();
    model.step(actor, Call::Recv { fd: slot, len, by, flags, bad });
    if !flags.has(RecvFlag::Peek) && !bad {
        let taken = if object.is_stream() { len as usize } else { 1 };
        model.objects[id].queued = object.queued.saturating_sub(taken);
        if object.what == What::Eventfd {
            model.objects[id].queued = 0;
        }
    }
}

/// A receive that waits, and mostly what ends the wait.
pub(super) fn blocked_receive(model: &mut Model) {
    let empty = |object: &Object| {
        matches!(object.what, What::Stream(_) | What::Dgram(..) | What::PipeOut)
            && !object.is_readable()
            && !object.nonblock
            && !object.times_out
    };
    let Some((actor, slot, id)) = model.find(empty) else { return };
    if !model.may_block(actor, &[id]) {
        return;
    }
    let is_pipe = model.objects[id].what == What::PipeOut;
    let whole = model.objects[id].is_stream() && !is_pipe && model.random.percent(25);
    let len = model.random.within(10, 900);
    let by = if is_pipe || (!whole && model.random.percent(30)) {
        model.random.pick(&[RecvBy::Read, RecvBy::Readv, RecvBy::Raw]).unwrap_or(RecvBy::Read)
    } else {
        model.random.pick(&[RecvBy::Recv, RecvBy::Recvfrom, RecvBy::Recvmsg]).unwrap_or(RecvBy::Recv)
    };
    let looks = whole && model.random.percent(30);
    let flags = match (whole, looks) {
        (_, true) => Set::of(&[RecvFlag::Waitall, RecvFlag::Peek]),
        (true, _) => Set::of(&[RecvFlag::Waitall]),
        _ => Set::none(),
    };
    model.step(actor, Call::Recv { fd: slot, len, by, flags, bad: false });
    model.block(actor, vec![id]);
    if model.random.percent(80) {
        let peer = model.objects[id].peer;
        let Some((other, other_slot, other_id)) =
            model.find(|_| true).filter(|(.., found)| Some(*found) == peer).or_else(|| holder(model, peer))
        else {
            return;
        };
        if whole {
            // In two parts, of which the first does not end the wait.
            send_from(model, other, (other_slot, other_id), len / 2);
            model.block(actor, vec![id]);
            if send_from(model, other, (other_slot, other_id), len - len / 2 + 3) {
                model.objects[id].queued = if looks { len as usize + 3 } else { 3 };
            }
        } else if send_from(model, other, (other_slot, other_id), len / 2 + 1) {
            model.objects[id].queued = 0;
        }
    }
}

/// An idle actor that has this open file.
pub(super) fn holder(model: &Model, id: Option<Id>) -> Option<(Actor, Slot, Id)> {
    let id = id?;
    model.idle().into_iter().find_map(|actor| {
        let slots = &model.slots[model.process(actor).index()];
        slots.iter().position(|held| *held == Some(id)).map(|slot| (actor, Slot(slot as u8), id))
    })
}

/// More than buffers hold, to a reader that wants all of it.
pub(super) fn bulk(model: &mut Model) {
    let quiet = |object: &Object| {
        object.is_stream()
            && !object.nonblock
            && !object.ended
            && !object.times_out
            && object.queued == 0
            && object.peer.is_some()
            && matches!(object.what, What::Stream(_))
    };
    let Some((reader, slot, id)) = model.find(quiet) else { return };
    if !model.may_block(reader, &[id]) {
        return;
    }
    let peer = model.objects[id].peer;
    model.block(reader, vec![id]);
    let Some((writer, from, other)) = holder(model, peer) else { return model.wake(id) };
    if model.objects[other].nonblock || model.objects[other].times_out || model.objects[other].shut {
        return model.wake(id);
    }
    let len = model.random.within(70_000, 300_000);
    model.step(
        reader,
        Call::Recv { fd: slot, len, by: RecvBy::Recv, flags: Set::of(&[RecvFlag::Waitall]), bad: false },
    );
    let by = model
        .random
        .pick(&[SendBy::Write, SendBy::Writev, SendBy::Send, SendBy::Sendmsg])
        .unwrap_or(SendBy::Send);
    model.step(writer, Call::Send { fd: from, len, by, flags: Set::none(), name: None, bad: false });
    model.wake(id);
}

/// From a file.
pub(super) fn sendfile(model: &mut Model) {
    let Some((actor, fd, id)) = model.find(|object| matches!(object.what, What::Stream(_) | What::PipeIn))
    else {
        return;
    };
    let object = model.objects[id].clone();
    if object.shut || object.peer.is_none() || !fits(model, &object, 4000) {
        return;
    }
    let file = model.find_for(actor, |object| object.what == What::Memfd).map(|(slot, _)| slot);
    let from = file.unwrap_or_else(|| {
        let to = model.new_slot();
        let size = model.random.within(100, 4000);
        model.step(actor, Call::Memfd { to, size });
        model.hold(actor, to, What::Memfd, false);
        to
    });
    let len = model.random.within(1, 4500);
    model.step(actor, Call::Sendfile { fd, from, len });
    arrives(model, id, &object, len, None);
}

/// From a socket into a pipe, or out of one.
pub(super) fn splice(model: &mut Model) {
    let Some((actor, from, source)) =
        model.find(|object| object.is_readable() && object.queued > 0 && object.is_stream())
    else {
        return;
    };
    let from_pipe = model.objects[source].what == What::PipeOut;
    let wanted = move |object: &Object| {
        if from_pipe { matches!(object.what, What::Stream(_)) } else { object.what == What::PipeIn }
    };
    let Some((fd, target)) = model.find_for(actor, wanted) else { return };
    let object = model.objects[target].clone();
    if object.shut || !fits(model, &object, 4000) || object.is_tcp() {
        return;
    }
    let len = model.random.within(1, 2000);
    model.step(actor, Call::Splice { from, fd, len });
    model.objects[source].queued = model.objects[source].queued.saturating_sub(len as usize);
    arrives(model, target, &object, len, None);
}

/// Descriptors over a UNIX socket.
pub(super) fn pass(model: &mut Model) {
    let connected = |object: &Object| {
        object.is_unix() && object.carries() && object.peer.is_some() && !object.shut && object.queued < 5
    };
    let Some((actor, fd, id)) = model.find(connected) else { return };
    let Some(peer) = model.objects[id].peer else { return };
    if !model.objects[peer].what.eq(&model.objects[id].what) && model.objects[peer].queued > 3
        || model.objects[peer].queued > 0
    {
        return;
    }
    let count = model.random.within(1, 3);
    let mut what = Vec::new();
    let mut passed = Vec::new();
    for _ in 0..count {
        // Not the end that it is passed to: closed then, it exists in its own queue alone, and the kernel
        // drops it at a moment that depends on other programs (unix(7), the collection of descriptors in
        // flight).
        if let Some((slot, passed_id)) = model.find_for(actor, |_| true).filter(|&(_, id)| id != peer) {
            what.push(slot);
            passed.push(passed_id);
        }
    }
    if what.is_empty() {
        return;
    }
    let len = model.random.within(1, 40);
    model.step(actor, Call::Pass { fd, what: what.clone(), len });
    model.objects[peer].queued += 1;
    model.wake(peer);
    let Some((taker, from, _)) = holder(model, Some(peer)) else { return };
    if model.random.percent(85) {
        let to: Vec<Slot> = what.iter().map(|_| model.new_slot()).collect();
        let flags =
            model.random.set(&[(RecvFlag::Cloexec, 50), (RecvFlag::Dontwait, 20), (RecvFlag::Peek, 4)]);
        let room = if model.random.percent(10) { Vec::new() } else { to.clone() };
        model.step(taker, Call::Take { fd: from, to: room.clone(), len: len.max(20), flags });
        model.objects[peer].queued = 0;
        if !room.is_empty() {
            for (slot, id) in to.iter().zip(passed) {
                model.put(taker, *slot, Some(id));
            }
        }
    }
}

/// stdio on a connection, behind the back of whoever replaces functions.
pub(super) fn stdio(model: &mut Model) {
    let Some((actor, fd, id)) = model.find(|object| object.is_stream() && object.what != What::PipeOut)
    else {
        return;
    };
    let object = model.objects[id].clone();
    if object.shut || object.peer.is_none_or(|peer| model.objects[peer].shut) || !fits(model, &object, 900) {
        return;
    }
    let len = model.random.within(1, 800);
    if model.random.percent(50) {
        model.step(actor, Call::Stdio { fd, by: StdioBy::Dprintf, len });
        return arrives(model, id, &object, len, None);
    }
    // fclose closes the number: so of a copy, mostly.
    let to = model.new_slot();
    model.step(actor, Call::Dup { fd, to });
    model.put(actor, to, Some(id));
    let ended = object.ended && object.queued > 0 && object.queued < 3000;
    let by = if ended && model.random.percent(60) { StdioBy::Read } else { StdioBy::Write };
    model.step(actor, Call::Stdio { fd: to, by, len });
    model.put(actor, to, None);
    model.stale.push((model.process(actor), to));
    if by == StdioBy::Write {
        arrives(model, id, &object, len, None);
    }
}
