//! Generates processes, threads and signals.

use super::model::{Model, Player};
use super::waits;
use crate::program::call::{Disposition, Environment, KillBy, MaskHow, Signal};
use crate::program::{ACTORS, Actor, Call, SLOTS, Slot, Step};

/// What a program does before anything else: mostly it does not want to die of a broken connection.
pub(super) fn prepare(model: &mut Model) {
    if model.random.percent(75) {
        let with = if model.random.percent(50) { Disposition::Handler } else { Disposition::Ignore };
        handle(model, Actor(0), Signal::Pipe, with);
    }
    if model.random.percent(50) {
        let with = if model.random.percent(50) { Disposition::Handler } else { Disposition::Restart };
        handle(model, Actor(0), Signal::Usr1, with);
    }
    for _ in 0..model.random.within(0, 2) {
        multiply(model);
    }
}

pub(super) fn handle(model: &mut Model, actor: Actor, signal: Signal, with: Disposition) {
    model.step(actor, Call::Handle { signal, with });
    let process = model.process(actor);
    model.handled[process.index()].push((signal, with));
}

/// Another thread, or another process.
pub(super) fn multiply(model: &mut Model) {
    let Some(free) = (1..ACTORS as u8).map(Actor).find(|actor| model.players[actor.index()].is_none()) else {
        return;
    };
    // An actor that was there and has ended does not come again.
    if model.steps.iter().any(|step| super::odd::makes(&step.call, free)) {
        return;
    }
    let Some(actor) = model.anyone() else { return };
    let processes =
        model.all().iter().map(|actor| model.process(*actor)).collect::<std::collections::BTreeSet<_>>();
    if processes.len() < 3 && model.random.percent(50) {
        let parent = model.process(actor);
        if model.random.percent(12) {
            let fd = model.find_for(actor, |_| true).map(|(slot, _)| slot);
            let onto = model.find_for(actor, |_| true).map(|(slot, _)| slot);
            model.step(actor, Call::PosixSpawn { actor: free, fd, onto });
        } else {
            model.step(actor, Call::Fork { actor: free });
            model.aio[free.index()] = model.aio[parent.index()].map(|_| false);
        }
        model.players[free.index()] = Some(Player { process: free, blocked: None });
        model.slots[free.index()] = model.slots[parent.index()];
        model.handled[free.index()] = model.handled[parent.index()].clone();
        if model.random.percent(35) {
            divide(model, actor, free);
        }
    } else {
        model.step(actor, Call::Spawn { actor: free });
        let process = model.process(actor);
        model.players[free.index()] = Some(Player { process, blocked: None });
    }
}

/// Parent and child keep an end each, as servers do.
fn divide(model: &mut Model, parent: Actor, child: Actor) {
    let slots = model.slots[model.process(parent).index()];
    for (slot, id) in slots.iter().enumerate().take(SLOTS) {
        let Some(id) = id else { continue };
        let Some(peer) = model.objects[*id].peer.filter(|peer| peer > id) else { continue };
        let Some(other) = slots.iter().position(|held| *held == Some(peer)) else { continue };
        if model.random.percent(60) {
            let (slot, other) = (Slot(slot as u8), Slot(other as u8));
            model.step(child, Call::Close { fd: slot });
            model.put(child, slot, None);
            model.step(parent, Call::Close { fd: other });
            model.put(parent, other, None);
        }
    }
}

/// A signal to somebody, mostly to one who waits.
pub(super) fn signal(model: &mut Model) {
    let Some(actor) = model.anyone() else { return };
    let all = model.all();
    let blocked: Vec<Actor> = all.iter().copied().filter(|actor| model.is_blocked(*actor)).collect();
    let Some(target) = model.random.pick(&blocked).or_else(|| model.random.pick(&all)) else { return };
    let signal = model.random.pick(&[Signal::Usr1, Signal::Usr1, Signal::Usr2]).unwrap_or(Signal::Usr1);
    if model.disposition(target, signal) == Disposition::Default {
        // Who may set a handler in the target's process.
        let Some(setter) =
            model.idle().into_iter().find(|other| model.process(*other) == model.process(target))
        else {
            return;
        };
        let with = model.random.pick(&[Disposition::Handler, Disposition::Restart, Disposition::Ignore]);
        handle(model, setter, signal, with.unwrap_or(Disposition::Handler));
    }
    let alone = all.iter().filter(|other| model.process(**other) == model.process(target)).count() == 1;
    let by = if alone && model.random.percent(50) { KillBy::Process } else { KillBy::Thread };
    model.step(actor, Call::Kill { actor: target, signal, by });
    let held_back = |step: &Step| step.actor == target && matches!(step.call, Call::Mask { .. });
    if model.disposition(target, signal) == Disposition::Handler
        && !model.steps.iter().any(held_back)
        && let Some(player) = &mut model.players[target.index()]
    {
        player.blocked = None;
    }
}

/// Signals held back, or let through: by the mask, or while somebody waits.
pub(super) fn mask(model: &mut Model) {
    let Some(actor) = model.anyone() else { return };
    let handled =
        matches!(model.disposition(actor, Signal::Usr1), Disposition::Handler | Disposition::Restart);
    if handled && model.random.percent(60) {
        model.step(actor, Call::Mask { signal: Signal::Usr1, how: MaskHow::Block });
        if model.random.percent(80) {
            model.step(actor, Call::Kill { actor, signal: Signal::Usr1, by: KillBy::Thread });
        }
        waits::open(model, actor);
        model.step(actor, Call::Mask { signal: Signal::Usr1, how: MaskHow::Unblock });
    } else if model.disposition(actor, Signal::Usr1) != Disposition::Default {
        let how: MaskHow = model.random.choice();
        model.step(actor, Call::Mask { signal: Signal::Usr1, how });
    }
}

/// Few descriptors, so that the next ones fail; and enough again.
pub(super) fn limit(model: &mut Model) {
    let Some(actor) = model.anyone() else { return };
    let descriptors = model.random.within(0, 14);
    model.step(actor, Call::Limit { descriptors });
    for _ in 0..model.random.within(1, 2) {
        super::openings::open(model);
    }
    model.step(actor, Call::Limit { descriptors: 1024 });
}

/// The same actor in a new image; other threads of its process end.
pub(super) fn exec(model: &mut Model) {
    if model.random.percent(50) {
        return;
    }
    let Some(actor) = model.anyone() else { return };
    let process = model.process(actor);
    if actor != process {
        return;
    }
    let environment = if model.random.percent(80) { Environment::Kept } else { Environment::Empty };
    model.step(actor, Call::Exec { environment });
    for other in (0..ACTORS as u8).map(Actor).filter(|other| *other != actor) {
        if model.players[other.index()].as_ref().is_some_and(|player| player.process == process) {
            model.players[other.index()] = None;
        }
    }
    model.aio[process.index()] = None;
    model.handled[process.index()].retain(|(_, with)| *with == Disposition::Ignore);
    model.step(actor, Call::Table {});
}

/// A process ends, or is made to; another may wait for that.
pub(super) fn end(model: &mut Model) {
    let all = model.all();
    let Some(victim) = model.random.pick(&all).filter(|victim| model.process(*victim) != Actor(0)) else {
        return;
    };
    let process = model.process(victim);
    let Some(killer) = model.idle().into_iter().find(|actor| model.process(*actor) != process) else {
        return;
    };
    if model.is_blocked(victim) || model.random.percent(60) {
        model.step(killer, Call::Kill { actor: victim, signal: Signal::Kill, by: KillBy::Process });
    } else {
        let status = model.random.within(0, 9) as u8;
        model.step(victim, Call::Exit { status });
    }
    model.end_process(process);
    if model.random.percent(60) {
        model.step(killer, Call::Wait { actor: process });
    }
}
