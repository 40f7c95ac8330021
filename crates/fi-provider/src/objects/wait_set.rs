//! `fid_wait`: sets of queues and counters that a program waits for at once, of any domains.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cancellation::no_points;
use fabric_sys::abi::{fi_ops, fid, fid_fabric};
use fabric_sys::constants::{
    FI_EAGAIN, FI_EINVAL, FI_ENOSYS, FI_ETIMEDOUT, FI_GETWAIT, FI_WAIT_FD, FI_WAIT_UNSPEC,
};
use libc::{c_int, c_void};
use message_queue::Patience;

use crate::abi::{FI_CLASS_WAIT, FI_EBUSY, FI_WAIT_YIELD, fi_ops_wait, fi_wait_attr, fid_wait};
use crate::absent::Table;
use crate::engine::notifier::Notifier;
use crate::engine::state::Domain;
use crate::engine::wait::{self, Awaited, Member};
use crate::trace::{Op, count};

static OPS: Table<fi_ops> = Table(super::ops(close, None, Some(control)));
static WAIT_OPS: Table<fi_ops_wait> = Table(fi_ops_wait { size: size_of::<fi_ops_wait>(), wait });

#[repr(C)]
struct SetObject {
    c: fid_wait,
    inside: Arc<Set>,
}

/// What is in a set.
pub(super) struct Set {
    members: Mutex<Vec<Member>>,
    /// What waits have learnt.
    patience: Mutex<Patience>,
    /// If the program wants to wait for a descriptor.
    notifier: Option<Notifier>,
}

impl Set {
    fn members(&self) -> MutexGuard<'_, Vec<Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, member: Member) {
        self.members().push(member);
    }

    pub(super) fn remove(&self, domain: &Arc<Domain>, awaited: Awaited) {
        self.members().retain(|member| !member.is(domain, awaited));
    }
}

/// What is in a set of the program's.
///
/// # Safety
/// A wait set of the program's.
pub(super) unsafe fn inside(set: *mut fid_wait) -> Arc<Set> {
    // SAFETY: by the caller's word; made by `open`, whose first field it is.
    Arc::clone(&unsafe { &*set.cast::<SetObject>() }.inside)
}

/// `fi_wait_open` in fi_poll(3).
pub(super) unsafe extern "C" fn open(
    _: *mut fid_fabric,
    attr: *mut fi_wait_attr,
    set: *mut *mut fid_wait,
) -> c_int {
    let _no_points = no_points();
    count(Op::WaitOpen);
    // SAFETY: attributes of the program's, or null.
    let Some(attr) = (unsafe { attr.as_ref() }) else { return -FI_EINVAL };
    if attr.flags != 0 {
        return -FI_EINVAL;
    }
    let notifier = match attr.wait_obj {
        FI_WAIT_UNSPEC | FI_WAIT_YIELD => None,
        FI_WAIT_FD => match Notifier::new() {
            Ok(notifier) => Some(notifier),
            Err(errno) => return -errno.raw_os_error(),
        },
        _ => return -FI_ENOSYS,
    };
    let inside = Arc::new(Set { members: Mutex::default(), patience: Mutex::default(), notifier });
    let fid = fid { fclass: FI_CLASS_WAIT, context: std::ptr::null_mut(), ops: OPS.pointer() };
    let made = Box::new(SetObject { c: fid_wait { fid, ops: WAIT_OPS.pointer() }, inside });
    // SAFETY: the program's place for the pointer.
    unsafe { *set = Box::into_raw(made).cast() };
    0
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    let _no_points = no_points();
    // SAFETY: a wait set of the program's.
    if !unsafe { inside(fid.cast()) }.members().is_empty() {
        return -FI_EBUSY;
    }
    // SAFETY: made by `open`, and used no more.
    drop(unsafe { Box::from_raw(fid.cast::<SetObject>()) });
    0
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    let _no_points = no_points();
    // SAFETY: a wait set of the program's.
    let set = unsafe { inside(fid.cast()) };
    match &set.notifier {
        Some(notifier) if command == FI_GETWAIT && !arg.is_null() => {
            // SAFETY: with this command the program passes a place for a descriptor.
            unsafe { *arg.cast::<c_int>() = notifier.descriptor() };
            0
        }
        _ => -FI_ENOSYS,
    }
}

/// Waits until a queue of the set has a completion, or a counter another value than the program was shown.
unsafe extern "C" fn wait(set: *mut fid_wait, timeout: c_int) -> c_int {
    let _no_points = no_points();
    count(Op::Wait);
    // SAFETY: a wait set of the program's.
    let set = unsafe { inside(set) };
    // Looked at each time: the lock is not held while a thread sleeps.
    let members = || set.members().clone();
    if wait::wait_any(members, &set.patience, timeout) { 0 } else { -FI_ETIMEDOUT }
}

/// Whether the program may wait for the descriptor of a set now.
///
/// # Safety
/// A wait set of the program's.
pub(super) unsafe fn try_wait(fid: *mut fid) -> c_int {
    count(Op::Trywait);
    // SAFETY: by the caller's word.
    let set = unsafe { inside(fid.cast()) };
    let Some(notifier) = &set.notifier else { return -FI_EINVAL };
    let members = set.members().clone();
    if notifier.try_wait(&members) { 0 } else { -FI_EAGAIN }
}
