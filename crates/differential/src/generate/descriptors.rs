//! Generates calls that give a descriptor number a new meaning.

use super::model::{Model, What};
use super::openings;
use crate::program::call::{Make, RangeFlag, SetBy};
use crate::program::{Call, SLOTS, Set, Slot};

/// Another number for the same, or the same for another.
pub(super) fn duplicate(model: &mut Model) {
    let Some((actor, fd, id)) = model.find(|_| true) else { return };
    match model.random.below(6) {
        0 | 1 => {
            let to = model.new_slot();
            model.step(actor, Call::Dup { fd, to });
            model.put(actor, to, Some(id));
        }
        2 => {
            let (with, _) = openings::make(model);
            // High ones too, where a library may keep its own.
            let high = model
                .random
                .pick(&[100, 255, 256, 500, 512, 900, 1000, 1023])
                .filter(|_| model.random.percent(35));
            let (to, least) = (model.new_slot(), high.unwrap_or_else(|| model.random.within(0, 40)));
            model.step(actor, Call::DupFd { fd, to, least, with });
            model.put(actor, to, Some(id));
        }
        _ => {
            let Some((onto, before)) = model.find_for(actor, |_| true) else { return };
            if model.may_block(actor, &[before]) || before == id {
                let with = model.random.set(&[(Make::Cloexec, 50)]);
                let call = if model.random.percent(60) {
                    Call::Dup2 { fd, onto }
                } else {
                    Call::Dup3 { fd, onto, with }
                };
                model.step(actor, call);
                model.put(actor, onto, Some(id));
            }
        }
    }
}

/// One less.
pub(super) fn close(model: &mut Model) {
    let Some((actor, fd, _)) = model.find(|_| true) else { return };
    model.step(actor, Call::Close { fd });
    forget(model, actor, fd);
}

fn forget(model: &mut Model, actor: crate::program::Actor, slot: Slot) {
    model.put(actor, slot, None);
    let process = model.process(actor);
    model.stale.push((process, slot));
}

/// Many less at once, or marked to be closed by exec.
pub(super) fn close_many(model: &mut Model) {
    let Some((actor, first, _)) = model.find(|_| true) else { return };
    let Some((last, _)) = model.find_for(actor, |_| true) else { return };
    let (first, last) = (first.min(last), first.max(last));
    if model.random.percent(40) {
        model.step(actor, Call::CloseRange { first, last, with: Set::of(&[RangeFlag::Cloexec]) });
        return;
    }
    if model.random.percent(25) {
        model.step(actor, Call::Closefrom { first });
        for slot in first.0..SLOTS as u8 {
            model.put(actor, Slot(slot), None);
        }
        return;
    }
    // Near each other, so that something is left.
    let last = Slot(last.0.min(first.0 + 3));
    model.step(actor, Call::CloseRange { first, last, with: Set::none() });
    for slot in first.0..=last.0 {
        model.put(actor, Slot(slot), None);
    }
}

/// Marks of a descriptor, read or changed.
pub(super) fn flags(model: &mut Model) {
    let Some((actor, fd, id)) = model.find(|_| true) else { return };
    let by = if model.random.percent(60) { SetBy::Fcntl } else { SetBy::Ioctl };
    match model.random.below(5) {
        0 => model.step(actor, Call::Flags { fd }),
        1 => model.step(actor, Call::Table {}),
        2 => {
            let on = model.random.percent(60);
            model.step(actor, Call::SetCloexec { fd, on, by });
        }
        _ => {
            let waited_for = !model.may_block(actor, &[id]);
            let on = model.random.percent(70) || waited_for;
            if model.objects[id].what != What::Memfd {
                model.step(actor, Call::SetNonblock { fd, on, by });
                model.objects[id].nonblock = on;
            }
        }
    }
}

/// A number is closed and comes back as something else, while the slot is used on.
pub(super) fn reuse(model: &mut Model) {
    let Some((actor, fd, old)) = model.find(|object| object.kind().is_some()) else { return };
    if !model.may_block(actor, &[old]) && model.all().len() > 1 {
        return;
    }
    model.step(actor, Call::Close { fd });
    model.put(actor, fd, None);
    // The lowest free number is given again, mostly the one that was just closed; the old slot means it too.
    let before = model.objects.len();
    openings::open(model);
    if let Some((slot, id)) = model.find_for(actor, |_| true).filter(|(_, id)| *id >= before) {
        model.step(actor, Call::Flags { fd: slot });
        model.step(actor, Call::Queued { fd });
        if model.objects[id].carries() && model.random.percent(50) {
            model.step(actor, Call::Address { fd, of: crate::program::call::Whose::Own });
        }
    }
}

/// Numbers that are closed, or never were.
pub(super) fn wrong(model: &mut Model) {
    let Some(actor) = model.anyone() else { return };
    let process = model.process(actor);
    let stale: Vec<Slot> =
        model.stale.iter().filter(|(of, _)| *of == process).map(|(_, slot)| *slot).collect();
    let Some(fd) = model.random.pick(&stale) else { return };
    let call = match model.random.below(6) {
        0 => Call::Flags { fd },
        1 => Call::Queued { fd },
        2 => Call::Address { fd, of: crate::program::call::Whose::Own },
        3 => Call::Listen { fd, backlog: 4 },
        4 => Call::Dup { fd, to: model.new_slot() },
        _ => Call::GetOption { fd, option: crate::program::call::Opt::Type },
    };
    model.step(actor, call);
}
