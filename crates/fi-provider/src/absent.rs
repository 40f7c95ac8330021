//! Members of C's tables for what this provider does not have.
//!
//! libfabric's inline functions call most members without a look whether they are there, so each needs a
//! function. One that takes no arguments serves for all: by C's calling conventions of the processors that
//! tieline runs on, the caller removes the arguments.

use fabric_sys::constants::FI_ENOSYS;
use libc::c_void;

/// Answers that there is no such operation, as an `int` and as an `ssize_t`.
extern "C" fn not_there() -> isize {
    crate::trace::count(crate::trace::Op::Absent);
    -(FI_ENOSYS as isize)
}

/// The member of a table for an operation that this provider does not have.
pub(crate) const ABSENT: *const c_void = not_there as *const c_void;

/// A table of functions, which nobody writes to.
#[repr(transparent)]
pub(crate) struct Table<T>(pub(crate) T);

// SAFETY: tables are never written, and what their pointers lead to is code.
unsafe impl<T> Sync for Table<T> {}

impl<T> Table<T> {
    /// As C has it: the headers do not say `const`.
    pub(crate) const fn pointer(&'static self) -> *mut T {
        (&raw const self.0).cast_mut()
    }
}
