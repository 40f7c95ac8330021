//! Limits for one user: segments, interrupts, and imports.
//!
//! As with the places for programs: of each, one other user than the manager's gets a quarter, and all other
//! users together three quarters. The manager's own user and root could end the manager as well, and have no
//! limit but the node's.

use std::collections::BTreeMap;

use super::admission::{count, give_back, part};
use super::objects::{Object, limit};
use super::{Manager, ProgramConn};
use crate::wire::program::{Imported, Refusal};

/// What is shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shared {
    Segments,
    Interrupts,
    Imports,
}

impl Shared {
    fn name(self) -> &'static str {
        match self {
            Self::Segments => "segments",
            Self::Interrupts => "interrupts",
            Self::Imports => "connections",
        }
    }
}

impl From<Imported> for Shared {
    fn from(what: Imported) -> Self {
        match what {
            Imported::Segment(_) => Self::Segments,
            Imported::Interrupt(_) => Self::Interrupts,
        }
    }
}

/// How much other users than the manager's own and root have.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Quotas {
    by_user: BTreeMap<(Shared, u32), u64>,
    of_others: BTreeMap<Shared, u64>,
}

impl Quotas {
    fn add(&mut self, what: Shared, uid: u32) {
        *self.by_user.entry((what, uid)).or_default() += 1;
        *self.of_others.entry(what).or_default() += 1;
    }
}

impl Manager {
    /// Whether a program's user may have one more.
    pub(super) fn check_quota(&self, program: ProgramConn, what: Shared) -> Result<(), Refusal> {
        let Some(uid) = self.other_user(program) else { return Ok(()) };
        let limits = &self.config.limits;
        let most = match what {
            Shared::Segments => limits.segments,
            Shared::Interrupts => limits.interrupts,
            Shared::Imports => limits.imports,
        };
        if count(&self.quotas.by_user, (what, uid)) >= part(most, 25) {
            return Err(limit(&format!("{} of user {uid} at this node", what.name()), part(most, 25)));
        }
        if count(&self.quotas.of_others, what) >= part(most, 75) {
            return Err(limit(&format!("{} of other users at this node", what.name()), part(most, 75)));
        }
        Ok(())
    }

    /// It has one more.
    pub(super) fn take_quota(&mut self, program: ProgramConn, what: Shared) {
        if let Some(uid) = self.other_user(program) {
            self.quotas.add(what, uid);
        }
    }

    /// It has one less.
    pub(super) fn return_quota(&mut self, program: ProgramConn, what: Shared) {
        if let Some(uid) = self.other_user(program) {
            give_back(&mut self.quotas.by_user, (what, uid));
            give_back(&mut self.quotas.of_others, what);
        }
    }

    fn other_user(&self, program: ProgramConn) -> Option<u32> {
        let uid = self.programs.get(&program)?.credentials.uid;
        (!self.is_privileged(uid)).then_some(uid)
    }

    /// Whether what is counted is what there is.
    pub(super) fn audit_quotas(&self) -> Result<(), String> {
        let mut counted = Quotas::default();
        let objects = self.objects.iter().map(|(&what, Object { owner, .. })| (Shared::from(what), *owner));
        let imports = self.imports.by_slot.values().map(|import| (Shared::Imports, import.program));
        for (what, program) in objects.chain(imports) {
            if let Some(uid) = self.other_user(program) {
                counted.add(what, uid);
            }
        }
        if self.quotas == counted { Ok(()) } else { Err(format!("{:?} is not {counted:?}", self.quotas)) }
    }
}
