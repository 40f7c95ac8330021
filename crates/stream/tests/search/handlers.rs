//! A signal handler that uses the connection of the call that it interrupts.

use stream::Word;

use crate::replay::Do;
use crate::world::{Case, World};

/// The process that has the handler.
pub(crate) const INTERRUPTED: usize = 0;

/// Whether this is the handler.
fn is_handler(case: &Case, who: usize) -> bool {
    case.has_handler && who == handler(case)
}

/// Whether a handler may interrupt it.
pub(crate) fn is_interrupted_one(case: &Case, who: usize) -> bool {
    case.has_handler && who == INTERRUPTED
}

/// Whether the call of the handler has this lock, because the call that it interrupts has it.
pub(crate) fn is_nested(case: &Case, world: &World, who: usize, lock: Word) -> bool {
    is_handler(case, who) && world.lock_holder(who, lock) == INTERRUPTED as u64 + 1
}

/// Whether a call makes this step without a system call.
pub(crate) fn is_step_of_short(step: Do) -> bool {
    matches!(
        step,
        Do::Lock(_)
            | Do::Unlock(_)
            | Do::Load(_)
            | Do::Put { .. }
            | Do::PutInline(_)
            | Do::Store(Word::InlineAt, _)
            | Do::Advance(..)
            | Do::Fence
            | Do::Done(_)
    )
}

fn handler(case: &Case) -> usize {
    case.writers.len() - 1
}

/// Whether a handler that has not run yet may begin: between two steps of a short call, or when nothing is
/// left to interrupt.
pub(crate) fn may_begin(case: &Case, world: &World) -> bool {
    let interrupted = &world.processes[INTERRUPTED];
    let is_over = interrupted.next.is_none() && world.op(case, INTERRUPTED).is_none();
    case.has_handler
        && !has_begun(case, world)
        && (interrupted.is_short && interrupted.next.is_some() || is_over)
}

fn has_begun(case: &Case, world: &World) -> bool {
    let process = &world.processes[handler(case)];
    process.op > 0 || process.next.is_some()
}

/// What a handler interrupts goes on when it is through.
pub(crate) fn may_go_on(case: &Case, world: &World, who: usize) -> bool {
    if is_handler(case, who) {
        return has_begun(case, world) || may_begin(case, world);
    }
    let is_through = || {
        let process = &world.processes[handler(case)];
        !process.is_alive || world.op(case, handler(case)).is_none() && process.next.is_none()
    };
    !is_interrupted_one(case, who) || !has_begun(case, world) || is_through()
}
