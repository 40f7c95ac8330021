//! What queues and counters have in common that a program waits for: a descriptor, or a place in a wait set.

use std::sync::Arc;

use fabric_sys::constants::{FI_EINVAL, FI_ENOSYS, FI_GETWAIT, FI_WAIT_FD, FI_WAIT_NONE, FI_WAIT_UNSPEC};
use libc::{c_int, c_void};

use super::wait_set::{self, Set};
use crate::abi::{FI_WAIT_SET, FI_WAIT_YIELD, fid_wait};
use crate::engine::notifier::Notifier;
use crate::engine::state::Domain;
use crate::engine::wait::{Awaited, Member};
use crate::trace::{Op, count};

/// The wait object that the program has chosen.
pub(super) enum WaitObject {
    /// It waits in calls of libfabric alone.
    None,
    Descriptor(Notifier),
    Set(Arc<Set>),
}

impl WaitObject {
    /// One of this kind, or what is wrong with it.
    ///
    /// # Safety
    /// A wait set of the program's, if the kind is a set.
    pub(super) unsafe fn new(kind: u32, set: *mut c_void) -> Result<Self, c_int> {
        match kind {
            FI_WAIT_NONE | FI_WAIT_UNSPEC | FI_WAIT_YIELD => Ok(Self::None),
            FI_WAIT_FD => Notifier::new().map(Self::Descriptor).map_err(|errno| -errno.raw_os_error()),
            FI_WAIT_SET if set.is_null() => Err(-FI_EINVAL),
            // SAFETY: by the caller's word.
            FI_WAIT_SET => Ok(Self::Set(unsafe { wait_set::inside(set.cast::<fid_wait>()) })),
            _ => Err(-FI_ENOSYS),
        }
    }

    /// What is waited for is there from now on.
    pub(super) fn open(&self, domain: &Arc<Domain>, awaited: Awaited) {
        if let Self::Set(set) = self {
            set.add(Member { domain: Arc::clone(domain), awaited });
        }
    }

    /// No more.
    pub(super) fn close(&self, domain: &Arc<Domain>, awaited: Awaited) {
        if let Self::Set(set) = self {
            set.remove(domain, awaited);
        }
    }

    /// `fi_control(3)`: the descriptor.
    ///
    /// # Safety
    /// As the program called it.
    pub(super) unsafe fn control(&self, command: c_int, arg: *mut c_void) -> c_int {
        match self {
            Self::Descriptor(notifier) if command == FI_GETWAIT && !arg.is_null() => {
                // SAFETY: with this command the program passes a place for a descriptor.
                unsafe { *arg.cast::<c_int>() = notifier.descriptor() };
                0
            }
            _ => -FI_ENOSYS,
        }
    }

    /// Whether the program may wait for the descriptor now: `fi_trywait` in fi_poll(3).
    pub(super) fn try_wait(&self, domain: &Arc<Domain>, awaited: Awaited) -> c_int {
        count(Op::Trywait);
        let Self::Descriptor(notifier) = self else { return -FI_EINVAL };
        let may_wait = notifier.try_wait(&[Member { domain: Arc::clone(domain), awaited }]);
        if may_wait { 0 } else { -fabric_sys::constants::FI_EAGAIN }
    }
}
