//! The program's own call, handed on: as a pointer to what it takes and one to what makes it, both found relative to the code.
//! What the language makes of a `dyn` would have to be relocated, and hooks are called before that.

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
