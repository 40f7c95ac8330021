//! The data of one actor, and the data that all actors of a program share.

use std::sync::Arc;

use crate::program::{Actor, Program, Slot};
use crate::shared::Shared;

/// One actor's view.
#[derive(Debug, Clone)]
pub(super) struct Context {
    pub(super) shared: Shared,
    pub(super) program: Arc<Program>,
    /// Where the shared memory is opened again after an exec.
    pub(super) path: Arc<str>,
    /// Who this is.
    pub(super) me: Actor,
    /// With whom its process began.
    pub(super) founder: Actor,
}

impl Context {
    /// The first actor of a program.
    pub(super) fn first(shared: Shared, program: Program, path: &str) -> Self {
        Self { shared, program: Arc::new(program), path: path.into(), me: Actor(0), founder: Actor(0) }
    }

    /// Another actor: of a process of its own, or of this one.
    pub(super) fn other(&self, actor: Actor, own_process: bool) -> Self {
        Self { me: actor, founder: if own_process { actor } else { self.founder }, ..self.clone() }
    }

    /// The number in a slot, -1 if there is none.
    pub(super) fn fd(&self, slot: Slot) -> i32 {
        self.shared.slot(self.founder, slot)
    }

    /// Puts a number into a slot.
    pub(super) fn keep(&self, slot: Slot, fd: i32) {
        self.shared.set_slot(self.founder, slot, fd);
    }
}
