//! Generates connections, as programs open them.

use super::model::{Id, Model, What};
use crate::program::call::{AcceptBy, At, Kind, Make, Opt, RingOp};
use crate::program::{Actor, Call, Name, Set, Slot};

/// Opens one of some kind.
pub(super) fn open(model: &mut Model) {
    let Some(actor) = model.anyone() else { return };
    match model.random.below(12) {
        0..=4 => tcp(model, actor),
        5 | 6 => pair(model, actor),
        7 | 8 => datagrams(model, actor),
        9 => unix_server(model, actor),
        10 => pipe(model, actor),
        _ => eventfd(model, actor),
    }
}

/// Flags of a new descriptor, and whether it does not block.
pub(super) fn make(model: &mut Model) -> (Set<Make>, bool) {
    let with = model.random.set(&[(Make::Nonblock, 25), (Make::Cloexec, 35)]);
    (with, with.has(Make::Nonblock))
}

pub(super) fn socket(model: &mut Model, actor: Actor, kind: Kind) -> (Slot, Id) {
    let (with, nonblock) = make(model);
    let to = model.new_slot();
    model.step(actor, Call::Socket { to, kind, with });
    (to, model.hold(actor, to, What::Fresh(kind), nonblock))
}

fn tcp(model: &mut Model, actor: Actor) {
    let kind = if model.random.percent(35) { Kind::Tcp6 } else { Kind::Tcp4 };
    let (server, listener) = listen(model, actor, kind);
    if model.random.percent(90) {
        connect_and_accept(model, actor, (server, listener), kind);
    }
}

fn unix_server(model: &mut Model, actor: Actor) {
    let kind = if model.random.percent(35) { Kind::UnixSeq } else { Kind::UnixStream };
    let (server, listener) = listen(model, actor, kind);
    connect_and_accept(model, actor, (server, listener), kind);
}

/// A socket that listens.
fn listen(model: &mut Model, actor: Actor, kind: Kind) -> (Slot, Id) {
    let (slot, id) = socket(model, actor, kind);
    if model.random.percent(30) {
        model.step(actor, Call::SetOption { fd: slot, option: Opt::ReuseAddr, value: 1 });
    }
    let name = model.new_name();
    let at = place(model, kind);
    model.step(actor, Call::Bind { fd: slot, at, name });
    let backlog = model.random.within(4, 16).cast_signed();
    model.step(actor, Call::Listen { fd: slot, backlog });
    model.objects[id].what = What::Listener(kind, name, Vec::new());
    (slot, id)
}

fn place(model: &mut Model, kind: Kind) -> At {
    match kind {
        Kind::UnixStream | Kind::UnixDgram | Kind::UnixSeq => At::Abstract,
        _ if model.random.percent(20) => At::Any,
        _ => At::Loopback,
    }
}

/// A client that has called `connect`.
pub(super) fn connect(model: &mut Model, actor: Actor, listener: Id) -> Option<Id> {
    let What::Listener(kind, name, waiting) = model.objects[listener].what.clone() else { return None };
    if waiting.len() >= 3 {
        return None;
    }
    let (slot, id) = socket(model, actor, kind);
    model.step(actor, Call::Connect { fd: slot, name });
    model.objects[id].what = What::Stream(kind);
    if let What::Listener(_, _, waiting) = &mut model.objects[listener].what {
        waiting.push(id);
    }
    model.wake(listener);
    Some(id)
}

/// Takes a client from a listener's queue, by a request to a ring.
pub(super) fn accept_by_ring(model: &mut Model, actor: Actor, (server, listener): (Slot, Id)) {
    let to = model.new_slot();
    model.waiting_step(actor, Call::Ring { fd: server, op: RingOp::Accept, len: 0, to });
    accepted(model, actor, listener, to, false);
}

/// Takes a client from a listener's queue.
pub(super) fn accept(model: &mut Model, actor: Actor, (server, listener): (Slot, Id)) {
    if !matches!(model.objects[listener].what, What::Listener(..)) {
        return;
    }
    let by = if model.random.percent(60) { AcceptBy::Accept4 } else { model.random.choice() };
    let with = model.random.set(&[(Make::Nonblock, 25), (Make::Cloexec, 50)]);
    let to = model.new_slot();
    model.step(actor, Call::Accept { fd: server, to, by, with });
    let nonblock = by == AcceptBy::Accept4 && with.has(Make::Nonblock);
    accepted(model, actor, listener, to, nonblock);
}

/// The first client of the queue is in this slot now.
fn accepted(model: &mut Model, actor: Actor, listener: Id, to: Slot, nonblock: bool) {
    let What::Listener(kind, name, mut waiting) = model.objects[listener].what.clone() else { return };
    let client = if waiting.is_empty() { None } else { Some(waiting.remove(0)) };
    model.objects[listener].what = What::Listener(kind, name, waiting);
    let id = model.hold(actor, to, What::Stream(kind), nonblock);
    match client {
        Some(client) => {
            model.objects[id].peer = Some(client);
            model.objects[client].peer = Some(id);
            // What the client sent before.
            model.objects[id].queued = std::mem::take(&mut model.objects[client].members).len() * 100;
            model.objects[id].ended = model.objects[client].shut;
        }
        None => (model.objects[id].ended, model.objects[id].shut) = (true, true),
    }
}

fn connect_and_accept(model: &mut Model, actor: Actor, server: (Slot, Id), _: Kind) {
    let others = model.idle();
    let other = model.random.pick(&others).filter(|other| model.process(*other) == model.process(actor));
    let first = other.filter(|other| *other != actor && model.may_block(*other, &[server.1]));
    let waits = !model.objects[server.1].nonblock && model.random.percent(60);
    if let Some(first) = first.filter(|_| waits) {
        // It waits in accept before there is anybody to accept.
        accept(model, first, server);
        model.block(first, vec![server.1]);
        let Some(accepted) = model.objects.len().checked_sub(1) else { return };
        if let Some(client) = connect(model, actor, server.1) {
            model.objects[client].peer = Some(accepted);
            let accepted = &mut model.objects[accepted];
            (accepted.peer, accepted.ended, accepted.shut) = (Some(client), false, false);
            if let What::Listener(_, _, waiting) = &mut model.objects[server.1].what {
                waiting.clear();
            }
        }
        model.wake(server.1);
        return;
    }
    if connect(model, actor, server.1).is_some() {
        accept(model, actor, server);
    }
}

fn pair(model: &mut Model, actor: Actor) {
    let kind = model.random.pick(&[Kind::UnixStream, Kind::UnixStream, Kind::UnixDgram, Kind::UnixSeq]);
    let kind = kind.unwrap_or(Kind::UnixStream);
    let (with, nonblock) = make(model);
    let (to, other) = (model.new_slot(), model.new_slot());
    model.step(actor, Call::Pair { to, other, kind, with });
    let what = if kind == Kind::UnixDgram { What::Dgram(kind, None) } else { What::Stream(kind) };
    let (one, two) =
        (model.hold(actor, to, what.clone(), nonblock), model.hold(actor, other, what, nonblock));
    model.objects[one].peer = Some(two);
    model.objects[two].peer = Some(one);
}

fn datagrams(model: &mut Model, actor: Actor) {
    let kind =
        model.random.pick(&[Kind::Udp4, Kind::Udp4, Kind::Udp6, Kind::UnixDgram]).unwrap_or(Kind::Udp4);
    let mut bound: Vec<(Slot, Id, Name)> = Vec::new();
    for _ in 0..2 {
        let (slot, id) = socket(model, actor, kind);
        let (name, at) = (model.new_name(), place(model, kind));
        model.step(actor, Call::Bind { fd: slot, at, name });
        model.objects[id].what = What::Dgram(kind, Some(name));
        bound.push((slot, id, name));
    }
    let [one, two] = bound[..] else { return };
    for (from, to) in [(one, two), (two, one)] {
        if model.random.percent(75) {
            model.step(actor, Call::Connect { fd: from.0, name: to.2 });
            model.objects[from.1].peer = Some(to.1);
        }
    }
}

fn pipe(model: &mut Model, actor: Actor) {
    let (with, nonblock) = make(model);
    let (to, other) = (model.new_slot(), model.new_slot());
    model.step(actor, Call::Pipe { to, other, with });
    let out = model.hold(actor, to, What::PipeOut, nonblock);
    let inward = model.hold(actor, other, What::PipeIn, nonblock);
    model.objects[out].peer = Some(inward);
    model.objects[inward].peer = Some(out);
}

fn eventfd(model: &mut Model, actor: Actor) {
    let (with, nonblock) = make(model);
    let to = model.new_slot();
    let value = model.random.within(0, 2);
    model.step(actor, Call::Eventfd { to, value, with });
    let id = model.hold(actor, to, What::Eventfd, nonblock);
    model.objects[id].queued = value as usize;
    model.objects[id].peer = Some(id);
}
