//! Generates sequences of calls that matter together: resets, ends in both orders, nested epolls,
//! interrupted waits, passed descriptors.

use super::model::{Id, Model, Object, What};
use super::openings;
use super::traffic;
use crate::program::call::{
    AcceptBy, At, CtlOp, Direction, Disposition, EpollBy, EpollEvent, KillBy, Kind, Make, Opt, PollBy,
    PollEvent, Polled, RangeFlag, RecvBy, RecvFlag, SendBy, SendFlag, Signal,
};
use crate::program::{Actor, Call, Set, Slot};

fn receive(fd: Slot, len: u32, flags: &[RecvFlag]) -> Call {
    Call::Recv { fd, len, by: RecvBy::Recv, flags: Set::of(flags), bad: false }
}

fn look(fd: Slot) -> Call {
    let events = Set::of(&[PollEvent::In, PollEvent::Out, PollEvent::Rdhup]);
    Call::Poll { by: PollBy::Poll, set: vec![Polled { fd, events }], timeout: 0 }
}

/// Both ends of a stream, of which an idle actor has each.
fn both_ends(model: &mut Model, wanted: impl Fn(&Object) -> bool) -> Option<[(Actor, Slot, Id); 2]> {
    let (actor, fd, id) = model.find(|object| matches!(object.what, What::Stream(_)) && wanted(object))?;
    let peer = model.objects[id].peer?;
    let other = traffic::holder(model, Some(peer)).filter(|_| wanted(&model.objects[peer]))?;
    (!model.is_waited_for(id) && !model.is_waited_for(peer)).then_some([(actor, fd, id), other])
}

/// A connection that is thrown away: no wait for what is sent, a reset for the other end.
pub(super) fn reset(model: &mut Model) {
    let Some([(actor, fd, id), (other, other_fd, peer)]) = both_ends(model, Object::is_tcp) else { return };
    model.step(actor, Call::SetOption { fd, option: Opt::Linger, value: 0 });
    if model.random.percent(50) {
        let len = model.random.within(1, 300);
        traffic::send_from(model, actor, (fd, id), len);
    }
    if model.random.percent(40) {
        let len = model.random.within(1, 300);
        traffic::send_from(model, other, (other_fd, peer), len);
    }
    model.step(actor, Call::Close { fd });
    model.put(actor, fd, None);
    for _ in 0..model.random.within(1, 3) {
        let call = match model.random.below(4) {
            0 => look(other_fd),
            1 => Call::GetOption { fd: other_fd, option: Opt::Error },
            2 => Call::Queued { fd: other_fd },
            _ => receive(other_fd, 500, &[RecvFlag::Dontwait]),
        };
        model.step(other, call);
    }
}

/// Directions that end one after the other, with bytes on their way the other way.
pub(super) fn farewell(model: &mut Model) {
    let open = |object: &Object| !object.shut && !object.ended && object.queued == 0;
    let Some([one, two]) = both_ends(model, open) else { return };
    for ((actor, fd, id), (other, other_fd, peer)) in [(one, two), (two, one)] {
        if model.random.percent(60) {
            let len = model.random.within(0, 400);
            traffic::send_from(model, actor, (fd, id), len);
        }
        let how = if model.random.percent(80) { Direction::Write } else { Direction::Both };
        model.step(actor, Call::Shutdown { fd, how });
        model.objects[id].shut = true;
        model.objects[peer].ended = true;
        model.step(other, look(other_fd));
        for _ in 0..model.random.within(0, 2) {
            model.step(other, receive(other_fd, 500, &[RecvFlag::Dontwait]));
            model.objects[peer].queued = 0;
        }
    }
}

/// Looking ahead, in every mixture, and then taking what was seen.
pub(super) fn peeks(model: &mut Model) {
    let full = |object: &Object| {
        matches!(object.what, What::Stream(_) | What::Dgram(..)) && object.queued > 0 && !object.times_out
    };
    let Some((actor, fd, id)) = model.find(full).filter(|(.., id)| !model.is_waited_for(*id)) else { return };
    let by = [RecvBy::Recv, RecvBy::Recvfrom, RecvBy::Recvmsg, RecvBy::RecvChk];
    for round in 0..3 {
        let len = model.random.within(0, 600);
        // What is there need not be waited for.
        let there = len as usize <= model.objects[id].queued && model.objects[id].is_stream();
        let mut flags = model.random.set(&[
            (RecvFlag::Trunc, 40),
            (RecvFlag::Waitall, 50),
            (RecvFlag::Dontwait, if there { 50 } else { 100 }),
        ]);
        if round < 2 {
            flags = flags.with(RecvFlag::Peek);
        }
        let by = model.random.pick(&by).unwrap_or(RecvBy::Recv);
        model.step(actor, Call::Recv { fd, len, by, flags, bad: false });
        if round == 2 {
            traffic::taken(model, id, len);
        }
    }
    model.step(actor, Call::Queued { fd });
}

/// A set in a set, and what its member does shows outside.
pub(super) fn nested(model: &mut Model) {
    let Some((actor, member, id)) =
        model.find(|object| matches!(object.what, What::Stream(_) | What::PipeOut))
    else {
        return;
    };
    let Some(peer) = model.objects[id].peer else { return };
    let (inner, outer) = (model.new_slot(), model.new_slot());
    model.step(actor, Call::EpollCreate { to: inner, with: Set::none() });
    let inner_id = model.hold(actor, inner, What::Epoll, false);
    model.step(actor, Call::EpollCreate { to: outer, with: Set::none() });
    let outer_id = model.hold(actor, outer, What::Epoll, false);
    model.objects[inner_id].members.push(id);
    model.objects[outer_id].members.push(inner_id);
    let edge = |model: &mut Model| model.random.set(&[(EpollEvent::In, 100), (EpollEvent::Edge, 40)]);
    let mut events = edge(model);
    if model.random.percent(30) {
        events = Set::of(&[EpollEvent::In, EpollEvent::Exclusive]);
    }
    model.step(actor, Call::EpollCtl { fd: inner, op: CtlOp::Add, member, events });
    let events = edge(model);
    model.step(actor, Call::EpollCtl { fd: outer, op: CtlOp::Add, member: inner, events });
    if model.random.percent(15) {
        // A ring of sets is refused.
        model.step(actor, Call::EpollCtl { fd: inner, op: CtlOp::Add, member: outer, events });
    }
    let Some((sender, from, _)) = traffic::holder(model, Some(peer)) else { return };
    let len = model.random.within(2, 200);
    if !traffic::send_from(model, sender, (from, peer), len) {
        return;
    }
    for fd in [outer, outer, inner, inner, outer] {
        let by: EpollBy = model.random.choice();
        model.step(actor, Call::EpollWait { fd, by, max: 8, timeout: 0 });
    }
    if model.random.percent(50) {
        model.step(actor, Call::Close { fd: inner });
        model.put(actor, inner, None);
        model.step(actor, Call::EpollWait { fd: outer, by: EpollBy::Wait, max: 8, timeout: 0 });
    }
}

/// A listener whose clients show when they have sent something; and clients that send with their first
/// packet.
pub(super) fn deferred(model: &mut Model) {
    let Some(actor) = model.anyone() else { return };
    let kind = if model.random.percent(30) { Kind::Tcp6 } else { Kind::Tcp4 };
    let (server, listener) = openings::socket(model, actor, kind);
    let defers = model.random.percent(50);
    let name = model.new_name();
    model.step(actor, Call::Bind { fd: server, at: At::Loopback, name });
    let option = if defers { Opt::DeferAccept } else { Opt::FastOpen };
    model.step(actor, Call::SetOption { fd: server, option, value: 5 });
    model.step(actor, Call::Listen { fd: server, backlog: 8 });
    model.objects[listener].what = What::Listener(kind, name, Vec::new());
    let (client, id) = openings::socket(model, actor, kind);
    let opens = !defers && model.random.percent(70);
    let flags = Set::of(&[SendFlag::Nosignal]);
    if opens && model.random.percent(50) {
        let flags = flags.with(SendFlag::Fastopen);
        model.step(
            actor,
            Call::Send { fd: client, len: 40, by: SendBy::Sendto, flags, name: Some(name), bad: false },
        );
    } else {
        if opens {
            model.step(actor, Call::SetOption { fd: client, option: Opt::FastOpenConnect, value: 1 });
        }
        model.step(actor, Call::Connect { fd: client, name });
        model.step(actor, look(server));
        model
            .step(actor, Call::Send { fd: client, len: 40, by: SendBy::Send, flags, name: None, bad: false });
    }
    model.objects[id].what = What::Stream(kind);
    model.objects[id].members.push(id);
    if let What::Listener(_, _, waiting) = &mut model.objects[listener].what {
        waiting.push(id);
    }
    model.step(actor, look(server));
    openings::accept(model, actor, (server, listener));
}

/// An epoll set, or a listener, for somebody else: over a pair, mostly to another process.
pub(super) fn hand_over(model: &mut Model) {
    let precious = |object: &Object| object.what == What::Epoll || matches!(object.what, What::Listener(..));
    let Some((actor, what, passed)) = model.find(precious) else { return };
    let way = |object: &Object| {
        object.is_unix() && matches!(object.what, What::Stream(_)) && object.peer.is_some() && !object.shut
    };
    let Some((fd, id)) = model.find_for(actor, way) else { return };
    let Some(peer) = model.objects[id].peer.filter(|peer| model.objects[*peer].queued == 0) else { return };
    let Some((taker, from, _)) = traffic::holder(model, Some(peer)) else { return };
    if model.is_waited_for(peer) {
        return;
    }
    model.step(actor, Call::Pass { fd, what: vec![what], len: 5 });
    let to = model.new_slot();
    let flags = model.random.set(&[(RecvFlag::Cloexec, 50)]);
    model.step(taker, Call::Take { fd: from, to: vec![to], len: 20, flags });
    model.put(taker, to, Some(passed));
    if model.objects[passed].what == What::Epoll {
        let member = model.find_for(taker, |object| matches!(object.what, What::Stream(_)));
        if let Some((member, member_id)) = member.filter(|_| model.random.percent(60)) {
            let events = Set::of(&[EpollEvent::In, EpollEvent::Out]);
            model.step(taker, Call::EpollCtl { fd: to, op: CtlOp::Add, member, events });
            if !model.reach(member_id).contains(&passed) {
                model.objects[passed].members.push(member_id);
            }
        }
        model.step(taker, Call::EpollWait { fd: to, by: EpollBy::Wait, max: 8, timeout: 0 });
        model.step(actor, Call::EpollWait { fd: what, by: EpollBy::Wait, max: 8, timeout: 0 });
    } else if openings::connect(model, actor, passed).is_some() {
        openings::accept(model, taker, (to, passed));
    }
}

/// A set with two numbers: what is registered by one of them shows by both.
pub(super) fn two_numbers(model: &mut Model) {
    let open = |object: &Object| matches!(object.what, What::Stream(_)) && !object.ended;
    let Some((actor, member, id)) = model.find(open) else { return };
    let there = model.find_for(actor, |object| object.what == What::Epoll);
    let there =
        there.filter(|(_, set)| !model.is_waited_for(*set) && !model.objects[*set].members.contains(&id));
    let (fd, set) = there.unwrap_or_else(|| {
        let to = model.new_slot();
        model.step(actor, Call::EpollCreate { to, with: Set::none() });
        (to, model.hold(actor, to, What::Epoll, false))
    });
    let to = model.new_slot();
    model.step(actor, Call::Dup { fd, to });
    model.put(actor, to, Some(set));
    let (by, other) = if model.random.percent(50) { (fd, to) } else { (to, fd) };
    let events = model.random.set(&[(EpollEvent::In, 100), (EpollEvent::Edge, 40)]);
    model.step(actor, Call::EpollCtl { fd: by, op: CtlOp::Add, member, events });
    model.objects[set].members.push(id);
    let Some((sender, from, peer)) = traffic::holder(model, model.objects[id].peer) else { return };
    let len = model.random.within(1, 200);
    if traffic::send_from(model, sender, (from, peer), len) {
        for fd in [other, by, other] {
            let by: EpollBy = model.random.choice();
            model.step(actor, Call::EpollWait { fd, by, max: 8, timeout: 0 });
        }
    }
}

/// A call that waits, and a signal for who waits.
pub(super) fn interrupted(model: &mut Model) {
    let fit = |object: &Object| {
        (object.carries() || matches!(object.what, What::Listener(..) | What::Epoll))
            && object.what != What::PipeIn
            && object.what != What::Eventfd
            && !object.is_readable()
            && !object.nonblock
    };
    let Some((actor, fd, id)) = model.find(fit) else { return };
    let reach = model.reach(id);
    if !model.may_block(actor, &reach) || reach.iter().any(|member| model.objects[*member].is_readable()) {
        return;
    }
    let with = if model.random.percent(50) { Disposition::Handler } else { Disposition::Restart };
    super::lives::handle(model, actor, Signal::Usr2, with);
    let set = vec![Polled { fd, events: Set::of(&[PollEvent::In]) }];
    let call = match model.objects[id].what {
        What::Epoll => Call::EpollWait { fd, by: model.random.choice(), max: 4, timeout: -1 },
        _ if model.random.percent(35) => Call::Poll { by: model.random.choice(), set, timeout: -1 },
        What::Listener(..) => {
            Call::Accept { fd, to: model.new_slot(), by: AcceptBy::Accept4, with: Set::of(&[Make::Cloexec]) }
        }
        What::PipeOut => Call::Recv { fd, len: 50, by: RecvBy::Read, flags: Set::none(), bad: false },
        _ => {
            let by = [RecvBy::Read, RecvBy::Recv, RecvBy::Recvmsg, RecvBy::Readv, RecvBy::Recvfrom];
            let by = model.random.pick(&by).unwrap_or(RecvBy::Read);
            Call::Recv { fd, len: 50, by, flags: Set::none(), bad: false }
        }
    };
    // What is restarted goes on waiting; poll and epoll_wait never are.
    let waits_on = with == Disposition::Restart && matches!(call, Call::Accept { .. } | Call::Recv { .. });
    model.step(actor, call);
    model.block(actor, reach);
    let Some(killer) = model.anyone() else { return };
    model.step(killer, Call::Kill { actor, signal: Signal::Usr2, by: KillBy::Thread });
    if !waits_on && let Some(player) = &mut model.players[actor.index()] {
        player.blocked = None;
    }
}

/// Waits that a socket's own time ends: nobody comes, or nobody makes room.
pub(super) fn socket_times(model: &mut Model) {
    if model.waits_left == 0 {
        return;
    }
    if model.random.percent(50) {
        let empty = |object: &Object| {
            matches!(object.what, What::Listener(..)) && !object.is_readable() && !object.nonblock
        };
        let Some((actor, fd, id)) = model.find(empty).filter(|(.., id)| !model.is_waited_for(*id)) else {
            return;
        };
        if model.objects[id].shut || model.objects[id].ended {
            return;
        }
        model.waits_left -= 1;
        model.step(actor, Call::SetOption { fd, option: Opt::RcvTimeo, value: 1 });
        let to = model.new_slot();
        model.put(actor, to, None);
        let by = if model.random.percent(50) { AcceptBy::Accept } else { AcceptBy::Accept4 };
        model.waiting_step(actor, Call::Accept { fd, to, by, with: Set::none() });
        model.step(actor, Call::SetOption { fd, option: Opt::RcvTimeo, value: 0 });
        return;
    }
    // Into the smallest buffer that the kernel gives fit fewer messages than this.
    let Some(actor) = model.anyone() else { return };
    model.waits_left -= 1;
    let (to, other) = (model.new_slot(), model.new_slot());
    model.step(actor, Call::Pair { to, other, kind: Kind::UnixDgram, with: Set::none() });
    model.put(actor, to, None);
    model.put(actor, other, None);
    model.step(actor, Call::SetOption { fd: to, option: Opt::SndBuf, value: 1 });
    let flags = Set::of(&[SendFlag::Dontwait, SendFlag::Nosignal]);
    for _ in 0..9 {
        model.step(actor, Call::Send { fd: to, len: 700, by: SendBy::Send, flags, name: None, bad: false });
    }
    model.step(actor, Call::SetOption { fd: to, option: Opt::SndTimeo, value: 1 });
    let by = [SendBy::Send, SendBy::Write, SendBy::Sendmsg, SendBy::Writev];
    let by = model.random.pick(&by).unwrap_or(SendBy::Send);
    model
        .waiting_step(actor, Call::Send { fd: to, len: 700, by, flags: Set::none(), name: None, bad: false });
    model.step(actor, Call::Close { fd: to });
    model.step(actor, Call::Close { fd: other });
}

/// A table of descriptors of its own, for a process of one thread that has one already.
pub(super) fn unshare(model: &mut Model) {
    let Some((actor, first, _)) = model.find(|_| true) else { return };
    let process = model.process(actor);
    if model.all().iter().filter(|other| model.process(**other) == process).count() > 1 {
        return;
    }
    let Some((last, _)) = model.find_for(actor, |_| true) else { return };
    let (first, last) = (first.min(last), first.max(last).min(Slot(first.min(last).0 + 2)));
    let with = model.random.set(&[(RangeFlag::Unshare, 100), (RangeFlag::Cloexec, 50)]);
    model.step(actor, Call::CloseRange { first, last, with });
    if !with.has(RangeFlag::Cloexec) {
        for slot in first.0..=last.0 {
            model.put(actor, Slot(slot), None);
        }
    }
    model.step(actor, Call::Table {});
}
