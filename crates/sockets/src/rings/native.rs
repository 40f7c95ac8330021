//! The program's own call as an argument, without relocations, because interposers run before those are
//! made. It is a pointer to its data and one to its function, both found relative to the code; a
//! `dyn` would have to be relocated.

use core::ffi::c_void;
use core::marker::PhantomData;

/// A closure that is not looked into.
pub(crate) struct Native<'a> {
    data: *mut c_void,
    call: unsafe fn(*mut c_void) -> isize,
    closure: PhantomData<&'a mut c_void>,
}

impl<'a> Native<'a> {
    pub(crate) fn of<F: FnMut() -> isize>(closure: &'a mut F) -> Self {
        /// # Safety
        /// The data is a pointer to the closure.
        unsafe fn call<F: FnMut() -> isize>(data: *mut c_void) -> isize {
            // SAFETY: the caller's promise; it is borrowed for as long as the `Native` lives.
            unsafe { (*data.cast::<F>())() }
        }
        Self { data: (&raw mut *closure).cast(), call: call::<F>, closure: PhantomData }
    }

    /// Makes the call.
    pub(crate) fn call(&mut self) -> isize {
        // SAFETY: made of a closure of just this function.
        unsafe { (self.call)(self.data) }
    }
}
