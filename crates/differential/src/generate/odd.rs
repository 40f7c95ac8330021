//! Generates rare calls.

use super::model::{Id, Model, Object, Player, What};
use super::traffic;
use crate::program::call::{
    AioBy, CancelAt, CancelHow, CrowdBy, Disposition, Kind, NumberOf, PollBy, PollEvent, Polled, RecvBy,
    RecvFlag, RingOp, Scarce, SendBy, SendFlag, Signal, Whose, WrongBy,
};
use crate::program::{ACTORS, Actor, Call, Set, Slot};

/// A request by a ring.
pub(super) fn ring(model: &mut Model) {
    let op: RingOp = model.random.choice();
    let to = Slot(0);
    match op {
        RingOp::Send => {
            let Some((actor, fd, id)) = model.find(|object| object.carries() && object.kind().is_some())
            else {
                return;
            };
            let len = model.random.within(0, 700);
            if model.objects[id].peer.is_some() && traffic::has_room(model, id, len) {
                model.waiting_step(actor, Call::Ring { fd, op, len, to });
                traffic::sent(model, id, len);
            }
        }
        RingOp::Recv | RingOp::Poll => {
            let Some((actor, fd, id)) = quiet(model, |object| object.carries() && object.is_readable())
            else {
                return;
            };
            let len = model.random.within(1, 700);
            model.waiting_step(actor, Call::Ring { fd, op, len, to });
            if op == RingOp::Recv {
                traffic::taken(model, id, len);
            }
        }
        RingOp::Accept => {
            let waits = |object: &Object| matches!(&object.what, What::Listener(_, _, waiting) if !waiting.is_empty());
            let Some((actor, fd, id)) = quiet(model, waits) else { return };
            super::openings::accept_by_ring(model, actor, (fd, id));
        }
        RingOp::Close => {
            let Some((actor, fd, id)) = quiet(model, |_| true) else { return };
            if model.may_block(actor, &[id]) {
                model.waiting_step(actor, Call::Ring { fd, op, len: 0, to });
                model.put(actor, fd, None);
                let process = model.process(actor);
                model.stale.push((process, fd));
            }
        }
        RingOp::Socket => {
            let Some(actor) = model.anyone() else { return };
            let to = model.new_slot();
            model.waiting_step(actor, Call::Ring { fd: to, op, len: 0, to });
            model.hold(actor, to, What::Fresh(Kind::Tcp4), false);
        }
    }
}

/// One for which nobody waits.
fn quiet(model: &mut Model, wanted: impl Fn(&Object) -> bool) -> Option<(Actor, Slot, Id)> {
    model.find(wanted).filter(|(.., id)| !model.is_waited_for(*id))
}

/// POSIX aio. Its thread is not in a forked child, where libc would wait for it: so only in a process that
/// never comes from one that has used it.
pub(super) fn aio(model: &mut Model) {
    let by: AioBy = model.random.choice();
    let reads = matches!(by, AioBy::Read | AioBy::ListRead);
    let fit = |object: &Object| {
        object.is_stream() && object.peer.is_some() && if reads { object.is_readable() } else { !object.shut }
    };
    let Some((actor, fd, id)) = quiet(model, fit) else { return };
    let process = model.process(actor);
    if model.aio[process.index()] == Some(false) || !reads && model.objects[id].what == What::PipeOut {
        return;
    }
    let len = model.random.within(1, 600);
    let ignored = model.disposition(actor, Signal::Pipe) != Disposition::Default;
    if reads {
        model.waiting_step(actor, Call::Aio { fd, by, len });
        traffic::taken(model, id, len);
    } else if ignored && traffic::has_room(model, id, len) {
        model.waiting_step(actor, Call::Aio { fd, by, len });
        traffic::sent(model, id, len);
    } else {
        return;
    }
    model.aio[process.index()] = Some(true);
}

/// A thread that is cancelled in a call that waits, or on its way into one that would not.
pub(super) fn cancel(model: &mut Model) {
    let how: CancelHow = model.random.choice();
    let at = match how {
        CancelHow::Blocked | CancelHow::Asynchronous => model.random.pick(&[
            CancelAt::Read,
            CancelAt::Recv,
            CancelAt::Recvmsg,
            CancelAt::Accept,
            CancelAt::Poll,
            CancelAt::Select,
            CancelAt::Epoll,
        ]),
        CancelHow::Pending => Some(model.random.choice()),
        CancelHow::Disabled => model.random.pick(&[CancelAt::Read, CancelAt::Recv, CancelAt::Poll]),
    };
    let at = at.unwrap_or(CancelAt::Read);
    let fit = |object: &Object| {
        let waits = matches!(how, CancelHow::Blocked | CancelHow::Asynchronous);
        let kind = match at {
            CancelAt::Accept => matches!(object.what, What::Listener(..)),
            CancelAt::Epoll => object.what == What::Epoll,
            _ => matches!(object.what, What::Stream(_) | What::Dgram(..)),
        };
        let ready = object.is_readable();
        kind && (!waits || !ready && !object.nonblock && !object.times_out)
            && (how != CancelHow::Disabled || ready)
    };
    let Some((actor, fd, id)) = quiet(model, fit) else { return };
    let reach = model.reach(id);
    let still = reach.iter().all(|member| !model.objects[*member].is_readable());
    if matches!(how, CancelHow::Blocked | CancelHow::Asynchronous) && !still {
        return;
    }
    model.waiting_step(actor, Call::Cancel { fd, at, how });
    if how == CancelHow::Disabled && matches!(at, CancelAt::Read | CancelAt::Recv) {
        traffic::taken(model, id, 8);
    }
    model.step(actor, Call::Queued { fd });
}

/// `vfork`: what the child closes and replaces stays as it was in the parent, which looks.
pub(super) fn vfork(model: &mut Model) {
    let Some((actor, close, _)) = model.find(|_| true) else { return };
    let dup = model.find_for(actor, |_| true).zip(model.find_for(actor, |_| true));
    let (close, fd, onto) = match dup {
        Some(((fd, _), (onto, _))) if model.random.percent(70) => {
            (Some(close).filter(|_| model.random.percent(60)), Some(fd), Some(onto))
        }
        _ => (Some(close), None, None),
    };
    let free = (1..ACTORS as u8).map(Actor).find(|actor| {
        model.players[actor.index()].is_none() && !model.steps.iter().any(|step| makes(&step.call, *actor))
    });
    match free.filter(|_| model.random.percent(35)) {
        Some(free) => {
            model.step(actor, Call::Vfork { actor: free, close, fd, onto });
            let parent = model.process(actor);
            model.players[free.index()] = Some(Player { process: free, blocked: None });
            model.slots[free.index()] = model.slots[parent.index()];
            model.handled[free.index()] = model.handled[parent.index()].clone();
            if let Some(close) = close {
                model.put(free, close, None);
            }
        }
        None => {
            let status = model.random.within(0, 9) as u8;
            model.step(actor, Call::VforkExit { close, fd, onto, status });
        }
    }
    for slot in [close, onto].into_iter().flatten() {
        let call = match model.random.below(3) {
            0 => Call::Queued { fd: slot },
            1 => Call::Address { fd: slot, of: Whose::Own },
            _ => Call::Flags { fd: slot },
        };
        model.step(actor, call);
    }
}

/// Whether this call makes the actor.
pub(super) fn makes(call: &Call, wanted: Actor) -> bool {
    matches!(call,
        Call::Fork { actor } | Call::Spawn { actor } | Call::PosixSpawn { actor, .. } | Call::Vfork { actor, .. }
            if *actor == wanted)
}

/// Numbers that are none, or lie at the edge, in calls that take any.
pub(super) fn numbers(model: &mut Model) {
    let Some((actor, fd, id)) = model.find(|_| true) else { return };
    let (to, of) = (model.new_slot(), model.random.choice::<NumberOf>());
    model.put(actor, to, None);
    model.step(actor, Call::Number { to, of });
    let events = Set::of(&[PollEvent::In, PollEvent::Out]);
    for _ in 0..model.random.within(1, 3) {
        let call = match model.random.below(12) {
            0..=2 => {
                model.put(actor, to, Some(id));
                Call::Dup2 { fd, onto: to }
            }
            3 => Call::Dup3 { fd, onto: to, with: Set::none() },
            4 => {
                model.put(actor, to, None);
                Call::Close { fd: to }
            }
            5 => {
                let set = vec![Polled { fd: to, events }, Polled { fd, events }];
                Call::Poll { by: PollBy::Poll, set, timeout: 0 }
            }
            6 => {
                let flags = Set::of(&[RecvFlag::Dontwait]);
                Call::Recv { fd: to, len: 9, by: RecvBy::Recv, flags, bad: false }
            }
            7 => {
                let flags = Set::of(&[SendFlag::Nosignal, SendFlag::Dontwait]);
                Call::Send { fd: to, len: 0, by: SendBy::Send, flags, name: None, bad: false }
            }
            8 => Call::Dup { fd: to, to: model.new_slot() },
            9 => Call::Queued { fd: to },
            10 => Call::Flags { fd: to },
            _ => Call::Address { fd: to, of: Whose::Own },
        };
        model.step(actor, call);
    }
}

/// Nothing left of something.
pub(super) fn scarcity(model: &mut Model) {
    let Some((actor, fd, _)) = model.find(|_| true) else { return };
    let of: Scarce = model.random.choice();
    model.step(actor, Call::Scarcity { of, fd });
}

/// More descriptors at a time than fit into a word of bits.
pub(super) fn crowd(model: &mut Model) {
    let Some((actor, fd, id)) = model.find(|object| object.what != What::Memfd) else { return };
    let by: CrowdBy = model.random.choice();
    // The set itself cannot be told what it is in.
    let by = if model.objects[id].what == What::Epoll && by == CrowdBy::Epoll { CrowdBy::Poll } else { by };
    let copies = model.random.pick(&[63, 64, 65, 66, 100, 128, 200, 300]).unwrap_or(65);
    model.step(actor, Call::Crowd { fd, by, copies });
}

/// A call with a wrong argument.
pub(super) fn wrong(model: &mut Model) {
    let by: WrongBy = model.random.choice();
    let fit = |object: &Object| match by {
        WrongBy::ReadvSecond | WrongBy::ReadvMost => object.is_stream() && object.is_readable(),
        WrongBy::WritevMost | WrongBy::WritevSecond | WrongBy::WritevHuge => {
            object.is_stream() && object.what != What::PipeOut && !object.shut && object.peer.is_some()
        }
        WrongBy::EpollWaitNowhere
        | WrongBy::EpollWaitNone
        | WrongBy::EpollCtlNowhere
        | WrongBy::EpollCtlOp => object.what == What::Epoll,
        WrongBy::AcceptLen | WrongBy::AcceptFlags => {
            matches!(&object.what, What::Listener(_, _, waiting) if !waiting.is_empty())
        }
        _ => true,
    };
    let Some((actor, fd, id)) = quiet(model, fit) else { return };
    match by {
        WrongBy::WritevMost | WrongBy::WritevSecond | WrongBy::WritevHuge => {
            let peer = model.objects[id].peer;
            let gone = peer.is_none_or(|peer| model.objects[peer].shut);
            let dies = model.disposition(actor, Signal::Pipe) == Disposition::Default;
            if gone && dies || !traffic::has_room(model, id, 1024) {
                return;
            }
            model.step(actor, Call::Wrong { fd, by });
            traffic::sent(model, id, if by == WrongBy::WritevMost { 1024 } else { 5 });
        }
        WrongBy::ReadvMost | WrongBy::ReadvSecond => {
            model.step(actor, Call::Wrong { fd, by });
            traffic::taken(model, id, if by == WrongBy::ReadvMost { 1024 } else { 5 });
        }
        _ => model.step(actor, Call::Wrong { fd, by }),
    }
}
