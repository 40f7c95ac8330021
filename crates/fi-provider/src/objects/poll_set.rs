//! `fid_poll`: sets of queues and counters of a domain that a program asks at once whether anything has come.

use std::sync::{Arc, Mutex, PoisonError};

use cancellation::no_points;
use fabric_sys::abi::{fi_ops, fid, fid_domain};
use fabric_sys::constants::FI_EINVAL;
use libc::{c_int, c_void};

use super::{Object, cntr, cq};
use crate::abi::{FI_CLASS_CNTR, FI_CLASS_CQ, FI_CLASS_POLL, FI_EBUSY, fi_ops_poll, fi_poll_attr, fid_poll};
use crate::absent::Table;
use crate::engine::state::{Domain, State};
use crate::engine::wait::{Awaited, Member};
use crate::trace::{Op, count};

static OPS: Table<fi_ops> = Table(super::ops(close, None, None));
static POLL_OPS: Table<fi_ops_poll> =
    Table(fi_ops_poll { size: size_of::<fi_ops_poll>(), poll, poll_add: add, poll_del: remove });

#[repr(C)]
struct SetObject {
    c: fid_poll,
    domain: Arc<Domain>,
    entries: Mutex<Vec<Entry>>,
}

/// A queue or a counter of a set.
struct Entry {
    awaited: Awaited,
    /// The program's own pointer.
    context: *mut c_void,
    /// Of a counter: how many operations had ended when the program was last told of it.
    told: u64,
}

impl SetObject {
    /// # Safety
    /// A poll set of the program's.
    unsafe fn of<'a>(set: *mut fid_poll) -> &'a Self {
        // SAFETY: by the caller's word; made by `open`, whose first field it is.
        unsafe { &*set.cast() }
    }
}

/// `fi_poll_open(3)`.
pub(super) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_poll_attr,
    set: *mut *mut fid_poll,
) -> c_int {
    let _no_points = no_points();
    count(Op::PollOpen);
    // SAFETY: a domain of the program's, and attributes or null.
    let (object, attr) = unsafe { (Object::of(domain), attr.as_ref()) };
    if attr.is_some_and(|attr| attr.flags != 0) {
        return -FI_EINVAL;
    }
    let fid = fid { fclass: FI_CLASS_POLL, context: std::ptr::null_mut(), ops: OPS.pointer() };
    let (c, domain) = (fid_poll { fid, ops: POLL_OPS.pointer() }, Arc::clone(&object.domain));
    let made = Box::new(SetObject { c, domain, entries: Mutex::default() });
    // SAFETY: the program's place for the pointer.
    unsafe { *set = Box::into_raw(made).cast() };
    0
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    let _no_points = no_points();
    // SAFETY: a poll set of the program's.
    let object = unsafe { SetObject::of(fid.cast()) };
    if !object.entries.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
        return -FI_EBUSY;
    }
    // SAFETY: made by `open`, and used no more.
    drop(unsafe { Box::from_raw(fid.cast::<SetObject>()) });
    0
}

/// The queue or counter of an object, if it is one.
///
/// # Safety
/// An object of the program's.
unsafe fn member(fid: *mut fid) -> Option<Member> {
    // SAFETY: by the caller's word; the class says what it is.
    unsafe {
        match (*fid).fclass {
            FI_CLASS_CQ => Some(cq::member(fid)),
            FI_CLASS_CNTR => Some(cntr::member(fid)),
            _ => None,
        }
    }
}

/// A queue or counter is in one set more, or less.
fn count_sets(state: &mut State, awaited: Awaited, is_more: bool) {
    match awaited {
        Awaited::Queue(number) => {
            if let Some(queue) = state.shared.queues.get_mut(number) {
                queue.sets = if is_more { queue.sets + 1 } else { queue.sets.saturating_sub(1) };
            }
        }
        Awaited::Counter(number) if is_more => state.shared.bind(number),
        Awaited::Counter(number) => state.shared.unbind(number),
    }
}

unsafe extern "C" fn add(set: *mut fid_poll, other: *mut fid, flags: u64) -> c_int {
    let _no_points = no_points();
    // SAFETY: a poll set and an object of the program's.
    let (object, member, context) = unsafe { (SetObject::of(set), member(other), (*other).context) };
    let Some(Member { domain, awaited }) = member else { return -FI_EINVAL };
    let mut entries = object.entries.lock().unwrap_or_else(PoisonError::into_inner);
    let is_known = entries.iter().any(|entry| entry.awaited == awaited);
    if flags != 0 || is_known || !Arc::ptr_eq(&domain, &object.domain) {
        return -FI_EINVAL;
    }
    count_sets(&mut object.domain.lock(), awaited, true);
    // What has ended before is told, too.
    entries.push(Entry { awaited, context, told: 0 });
    0
}

unsafe extern "C" fn remove(set: *mut fid_poll, other: *mut fid, flags: u64) -> c_int {
    let _no_points = no_points();
    // SAFETY: a poll set and an object of the program's.
    let (object, member) = unsafe { (SetObject::of(set), member(other)) };
    let Some(Member { domain, awaited }) = member else { return -FI_EINVAL };
    let mut entries = object.entries.lock().unwrap_or_else(PoisonError::into_inner);
    let at = entries.iter().position(|entry| entry.awaited == awaited);
    let Some(at) = at.filter(|_| flags == 0 && Arc::ptr_eq(&domain, &object.domain)) else {
        return -FI_EINVAL;
    };
    entries.remove(at);
    count_sets(&mut object.domain.lock(), awaited, false);
    0
}

/// Tells the contexts of queues that have completions, and of counters of which operations have ended since
/// the program was last told.
unsafe extern "C" fn poll(set: *mut fid_poll, contexts: *mut *mut c_void, room: c_int) -> c_int {
    let _no_points = no_points();
    count(Op::Poll);
    // SAFETY: a poll set of the program's.
    let object = unsafe { SetObject::of(set) };
    let room = usize::try_from(room).unwrap_or(0);
    let mut entries = object.entries.lock().unwrap_or_else(PoisonError::into_inner);
    let mut state = object.domain.lock();
    let has_counters = entries.iter().any(|entry| matches!(entry.awaited, Awaited::Counter(_)));
    if has_counters {
        state.progress_all();
    } else {
        entries.iter().for_each(|entry| state.progress_for(entry.awaited));
    }
    let mut told = 0;
    for entry in entries.iter_mut() {
        if told == room {
            break;
        }
        let has_come = match entry.awaited {
            Awaited::Queue(_) => state.shared.has_news(entry.awaited),
            Awaited::Counter(number) => {
                let events = state.shared.counters.get(number).map_or(0, |counter| counter.events());
                std::mem::replace(&mut entry.told, events) != events
            }
        };
        if has_come {
            // SAFETY: the program's array has so many places.
            unsafe { *contexts.add(told) = entry.context };
            told += 1;
        }
    }
    // No more than there was room for, which was an `int`.
    told as c_int
}
