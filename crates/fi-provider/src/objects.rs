//! The objects of libfabric's interface: C structures with tables of functions, and behind them numbers of
//! things in a domain.
//!
//! What all functions here rely on is libfabric's own rule, so it is said once. A program passes objects that
//! it got from this provider and has not closed, and pointers that may be used as the manual page of the
//! function says; memory of an operation until its completion has been read or the end point closed. Nothing
//! that a program passes beyond that (flags, lengths, numbers) is trusted.
//!
//! A thread of the program may be cancelled, but in none of these functions: sends, receives and reads of
//! completions make no call in which it would be (crate `message-queue` keeps to that), the others are made
//! with [`cancellation::no_points`]. A thread that can be cancelled at any time must not call libfabric, as
//! POSIX says of all functions that do not say otherwise.

mod atomic;
pub(crate) mod av;
pub(crate) mod cntr;
pub(crate) mod cq;
pub(crate) mod domain;
pub(crate) mod ep;
pub(crate) mod eq;
pub(crate) mod fabric;
mod mr;
mod msg;
mod poll_set;
mod remote;
mod rma;
mod tagged;
mod wait_set;
mod waiting;

use std::sync::Arc;

use fabric_sys::abi::{fi_ops, fid};
use libc::{c_int, c_void};

use crate::absent::ABSENT;
use crate::engine::state::Domain;

/// An object: C's structure, and what it stands for.
#[repr(C)]
pub(crate) struct Object<T> {
    /// First, so that a pointer to it is one to the object.
    pub(crate) c: T,
    pub(crate) domain: Arc<Domain>,
    /// Its number in the domain; which table of the domain is told by the object's class.
    pub(crate) number: u32,
}

impl<T> Object<T> {
    /// Gives the object to the program.
    pub(crate) fn give(c: T, domain: Arc<Domain>, number: u32) -> *mut T {
        Box::into_raw(Box::new(Self { c, domain, number })).cast()
    }

    /// The object that a program means.
    ///
    /// # Safety
    /// The pointer came from [`Object::give`] for this type, and the object is not closed while the reference
    /// lives.
    #[inline]
    pub(crate) unsafe fn of<'a>(pointer: *mut T) -> &'a Self {
        // SAFETY: by the caller's word; the structure is the first field.
        unsafe { &*pointer.cast() }
    }

    /// The object, given back.
    ///
    /// # Safety
    /// The pointer came from [`Object::give`] for this type, and is used no more.
    pub(crate) unsafe fn take_back(pointer: *mut T) -> Box<Self> {
        // SAFETY: by the caller's word.
        unsafe { Box::from_raw(pointer.cast()) }
    }
}

/// What each object can do: be closed; some also be bound and controlled.
pub(crate) const fn ops(
    close: unsafe extern "C" fn(*mut fid) -> c_int,
    bind: Option<unsafe extern "C" fn(*mut fid, *mut fid, u64) -> c_int>,
    control: Option<unsafe extern "C" fn(*mut fid, c_int, *mut c_void) -> c_int>,
) -> fi_ops {
    fi_ops {
        size: size_of::<fi_ops>(),
        close: Some(close),
        bind: if bind.is_some() { bind } else { Some(no_bind) },
        control: if control.is_some() { control } else { Some(no_control) },
        ops_open: ABSENT,
        tostr: ABSENT,
        ops_set: ABSENT,
    }
}

unsafe extern "C" fn no_bind(_: *mut fid, _: *mut fid, _: u64) -> c_int {
    -fabric_sys::constants::FI_ENOSYS
}

unsafe extern "C" fn no_control(_: *mut fid, _: c_int, _: *mut c_void) -> c_int {
    -fabric_sys::constants::FI_ENOSYS
}
