//! Generates waits: poll, select, and epoll in every mode.

use super::model::{Id, Model, Object, What};
use super::openings;
use super::traffic;
use crate::program::call::{CtlOp, EpollBy, EpollEvent, Opt, PollBy, PollEvent, Polled, RecvBy, RecvFlag};
use crate::program::{Actor, Call, Choice as _, Set, Slot};

/// How long a wait that times out lasts, in milliseconds.
const SHORT: (u32, u32) = (3, 8);

/// poll or select on a few.
pub(super) fn poll(model: &mut Model) {
    let Some((actor, set, ids)) = polled(model) else { return };
    let by: PollBy = model.random.choice();
    let ready = ids.iter().any(|id| model.objects[*id].is_readable());
    if !ready && model.random.percent(25) && model.may_block(actor, &ids) {
        // Only for what may come: whether there is room is true at once.
        let set = set.iter().map(|entry| Polled { events: Set::of(&[PollEvent::In]), ..*entry }).collect();
        model.step(actor, Call::Poll { by, set, timeout: -1 });
        model.block(actor, ids);
        return;
    }
    model.step(actor, Call::Poll { by, set, timeout: 0 });
}

fn polled(model: &mut Model) -> Option<(Actor, Vec<Polled>, Vec<Id>)> {
    let actor = model.anyone()?;
    let mut set: Vec<Polled> = Vec::new();
    let mut ids = Vec::new();
    for _ in 0..model.random.within(1, 4) {
        let (fd, id) = model.find_for(actor, |_| true)?;
        if set.iter().any(|entry| entry.fd == fd) || ids.contains(&id) {
            continue;
        }
        let events = model.random.set(&[
            (PollEvent::In, 85),
            (PollEvent::Out, 50),
            (PollEvent::Rdhup, 30),
            (PollEvent::Pri, 15),
        ]);
        set.push(Polled { fd, events });
        ids.extend(model.reach(id));
    }
    Some((actor, set, ids))
}

/// A new epoll set with members.
pub(super) fn epoll_new(model: &mut Model) {
    let Some(actor) = model.anyone() else { return };
    let (with, _) = openings::make(model);
    let to = model.new_slot();
    model.step(actor, Call::EpollCreate { to, with });
    let id = model.hold(actor, to, What::Epoll, false);
    for _ in 0..model.random.within(1, 3) {
        add(model, actor, (to, id));
    }
    if model.random.percent(60) {
        wait_at_once(model, actor, to);
    }
}

fn events(model: &mut Model) -> Set<EpollEvent> {
    let mut set = model.random.set(&[
        (EpollEvent::In, 88),
        (EpollEvent::Out, 35),
        (EpollEvent::Rdhup, 35),
        (EpollEvent::Pri, 10),
        (EpollEvent::Edge, 40),
        (EpollEvent::Oneshot, 20),
    ]);
    if model.random.percent(5) {
        set = set.with(EpollEvent::Exclusive);
    }
    set
}

fn add(model: &mut Model, actor: Actor, (fd, id): (Slot, Id)) {
    let Some((member, member_id)) =
        model.find_for(actor, |object| object.what != What::Memfd || object.nonblock)
    else {
        return;
    };
    let events = events(model);
    model.step(actor, Call::EpollCtl { fd, op: CtlOp::Add, member, events });
    if member_id != id
        && !model.reach(member_id).contains(&id)
        && !model.objects[id].members.contains(&member_id)
    {
        model.objects[id].members.push(member_id);
        let reach = model.reach(id);
        // Who waits on the set waits for the new member too.
        for player in model.players.iter_mut().flatten() {
            if let Some(on) = player.blocked.as_mut().filter(|on| on.contains(&id)) {
                on.extend(&reach);
            }
        }
    }
}

fn wait_at_once(model: &mut Model, actor: Actor, fd: Slot) {
    let by: EpollBy = model.random.choice();
    let max = if model.random.percent(85) { 8 } else { model.random.within(0, 2).cast_signed() };
    model.step(actor, Call::EpollWait { fd, by, max, timeout: 0 });
}

/// A member more, changed, or less.
pub(super) fn epoll_change(model: &mut Model) {
    let Some((actor, fd, id)) = model.find(|object| object.what == What::Epoll) else { return };
    match model.random.below(10) {
        0..=3 => add(model, actor, (fd, id)),
        4..=7 => {
            let members = model.objects[id].members.clone();
            let slots = &model.slots[model.process(actor).index()];
            let held: Vec<Slot> = slots
                .iter()
                .enumerate()
                .filter(|(_, held)| held.is_some_and(|held| members.contains(&held)))
                .map(|(slot, _)| Slot(slot as u8))
                .collect();
            let Some(member) = model.random.pick(&held) else { return };
            let op = if model.random.percent(70) { CtlOp::Mod } else { CtlOp::Del };
            let events = events(model);
            model.step(actor, Call::EpollCtl { fd, op, member, events });
            model.wake(id);
        }
        _ => {
            let Some((member, _)) = model.find_for(actor, |_| true) else { return };
            let op = CtlOp::ALL[model.random.below(3)];
            let events = events(model);
            model.step(actor, Call::EpollCtl { fd, op, member, events });
        }
    }
}

/// A wait on an epoll set.
pub(super) fn epoll_wait(model: &mut Model) {
    let Some((actor, fd, id)) = model.find(|object| object.what == What::Epoll) else { return };
    let reach = model.reach(id);
    let ready = reach.iter().any(|member| model.objects[*member].is_readable());
    if !ready && model.random.percent(40) && model.may_block(actor, &reach) {
        let by: EpollBy = model.random.choice();
        model.step(actor, Call::EpollWait { fd, by, max: 8, timeout: -1 });
        model.block(actor, reach);
        return;
    }
    wait_at_once(model, actor, fd);
}

/// An edge: seen once, not again, and again after more has come.
pub(super) fn edge_dance(model: &mut Model) {
    let Some((actor, member, id)) =
        model.find(|object| matches!(object.what, What::Stream(_) | What::PipeOut))
    else {
        return;
    };
    let Some(peer) = model.objects[id].peer else { return };
    if model.objects[id].ended {
        return;
    }
    let to = model.new_slot();
    model.step(actor, Call::EpollCreate { to, with: Set::none() });
    let set = model.hold(actor, to, What::Epoll, false);
    model.objects[set].members.push(id);
    let mode = if model.random.percent(70) { EpollEvent::Edge } else { EpollEvent::Oneshot };
    let events = Set::of(&[EpollEvent::In, mode]);
    model.step(actor, Call::EpollCtl { fd: to, op: CtlOp::Add, member, events });
    for _ in 0..model.random.within(1, 3) {
        let len = model.random.within(2, 200);
        let Some((sender, from)) = sender_of(model, peer) else { return };
        if !traffic::send_from(model, sender, (from, peer), len) {
            return;
        }
        wait_at_once(model, actor, to);
        wait_at_once(model, actor, to);
        if model.random.percent(50) {
            let some =
                Call::Recv { fd: member, len: len / 2 + 1, by: RecvBy::Read, flags: Set::none(), bad: false };
            model.step(actor, some);
            model.objects[id].queued = model.objects[id].queued.saturating_sub(len as usize / 2 + 1);
        }
        if mode == EpollEvent::Oneshot && model.random.percent(60) {
            model.step(actor, Call::EpollCtl { fd: to, op: CtlOp::Mod, member, events });
            wait_at_once(model, actor, to);
        }
    }
}

fn sender_of(model: &Model, id: Id) -> Option<(Actor, Slot)> {
    model.idle().into_iter().find_map(|actor| {
        let slots = &model.slots[model.process(actor).index()];
        slots.iter().position(|held| *held == Some(id)).map(|slot| (actor, Slot(slot as u8)))
    })
}

/// A wait that lets signals through.
pub(super) fn open(model: &mut Model, actor: Actor) {
    let Some((fd, _)) =
        model.find_for(actor, |object| object.what == What::Epoll).filter(|_| model.random.percent(40))
    else {
        let Some((fd, _)) = model.find_for(actor, |object| object.what != What::Epoll) else { return };
        let by = if model.random.percent(50) { PollBy::PpollOpen } else { PollBy::PselectOpen };
        let set = vec![Polled { fd, events: Set::of(&[PollEvent::In]) }];
        return model.waiting_step(actor, Call::Poll { by, set, timeout: 2 });
    };
    let by = if model.random.percent(50) { EpollBy::PwaitOpen } else { EpollBy::Pwait2Open };
    model.waiting_step(actor, Call::EpollWait { fd, by, max: 8, timeout: 2 });
}

/// A wait that runs out.
pub(super) fn timed(model: &mut Model) {
    if model.waits_left == 0 {
        return;
    }
    model.waits_left -= 1;
    let timeout = model.random.within(SHORT.0, SHORT.1).cast_signed();
    match model.random.below(3) {
        0 => {
            let Some((actor, set, _)) = polled(model) else { return };
            let set =
                set.iter().map(|entry| Polled { events: Set::of(&[PollEvent::In]), ..*entry }).collect();
            let by: PollBy = model.random.choice();
            model.waiting_step(actor, Call::Poll { by, set, timeout });
        }
        1 => {
            let Some((actor, fd, _)) = model.find(|object| object.what == What::Epoll) else { return };
            let by: EpollBy = model.random.choice();
            model.waiting_step(actor, Call::EpollWait { fd, by, max: 8, timeout });
        }
        _ => receive_timeout(model),
    }
}

/// `SO_RCVTIMEO`, and a receive of nothing.
fn receive_timeout(model: &mut Model) {
    let empty = |object: &Object| {
        matches!(object.what, What::Stream(_) | What::Dgram(..))
            && !object.is_readable()
            && !object.nonblock
            && object.peer.is_some()
    };
    let Some((actor, fd, id)) = model.find(empty) else { return };
    if !model.may_block(actor, &[id]) && model.all().len() > 1 {
        return;
    }
    model.step(actor, Call::SetOption { fd, option: Opt::RcvTimeo, value: 1 });
    let by = [RecvBy::Read, RecvBy::Recv, RecvBy::Recvmsg, RecvBy::Readv][model.random.below(4)];
    let flags = if by == RecvBy::Recv && model.random.percent(30) {
        model.random.set(&[(RecvFlag::Waitall, 100), (RecvFlag::Peek, 30)])
    } else {
        Set::none()
    };
    model.waiting_step(actor, Call::Recv { fd, len: 50, by, flags, bad: false });
    model.step(actor, Call::SetOption { fd, option: Opt::RcvTimeo, value: 0 });
}
