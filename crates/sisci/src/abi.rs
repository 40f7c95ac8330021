//! The functions that C programs call. Each checks its pointers, calls one function of this crate,
//! and returns the result to the program.
//!
//! Each function has three names: the plain one, and the two that the vendor's headers use for
//! programs with and without threads, which a program may look up by name.

// The names are the API's; these functions are called from C only.
#![allow(non_snake_case, missing_docs, clippy::too_many_arguments)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::code::{Code, Result};
use crate::last_error;

/// Exports functions under their three names. `@held_off_briefly` is for those that take some nanoseconds
/// and do not wait, unless another host is involved ([`cancel`]).
macro_rules! export {
    (@$guard:ident $($(#[$attribute:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $returned:ty)? $body:block)*) => {$(
        $(#[$attribute])*
        // SAFETY: no other library of a program defines the API's names.
        #[unsafe(no_mangle)]
        pub extern "C-unwind" fn $name($($argument: $type),*) $(-> $returned)? {
            #[inline(never)]
            fn body($($argument: $type),*) $(-> $returned)? $body
            $crate::abi::cancel::$guard(|| body($($argument),*))
        }

        const _: () = {
            // SAFETY: as above.
            #[unsafe(export_name = concat!("_SISCI_PUBLIC_FUNC_ST_", stringify!($name)))]
            extern "C-unwind" fn without_threads($($argument: $type),*) $(-> $returned)? {
                $name($($argument),*)
            }
            // SAFETY: as above.
            #[unsafe(export_name = concat!("_SISCI_PUBLIC_FUNC_MT_", stringify!($name)))]
            extern "C-unwind" fn with_threads($($argument: $type),*) $(-> $returned)? {
                $name($($argument),*)
            }
        };
    )*};
    ($($functions:tt)*) => {
        export! { @held_off $($functions)* }
    };
}

pub mod blocks;
mod cancel;
pub mod channels;
pub mod dma;
pub mod information;
pub mod interrupts;
pub mod lifetime;
pub mod maps;
pub mod names;
pub mod segments;
pub mod unsupported;

/// A pointer to which a result is written.
#[repr(transparent)]
#[derive(Debug)]
pub struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    /// Writes it, if the program wants it.
    fn put(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: the program gave this address, of this type, to be written to by the call;
            // only C code makes this type.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// Returns an error if the pointer is NULL.
    fn needed(self, name: &str) -> Result<()> {
        if self.0.is_null() {
            Err(Code::ILLEGAL_PARAMETER.because(format!("{name} is NULL")))
        } else {
            Ok(())
        }
    }
}

impl<T: Copy> Out<T> {
    /// Reads the value. NULL is an error.
    fn take(self, name: &str) -> Result<T> {
        self.needed(name)?;
        // SAFETY: the program gave this address, of this type, to be read by the call; only C code
        // makes this type.
        Ok(unsafe { self.0.read_unaligned() })
    }
}

/// Runs the body of a function, and stores its result for the program. A failure returns `failed`.
fn call<T>(name: &str, error: Out<Code>, failed: T, body: impl FnOnce() -> Result<T>) -> T {
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        Err(Code::SYSTEM
            .because("an error of the library itself: report it with what it printed on standard error"))
    });
    match result {
        Ok(value) => {
            error.put(Code::OK);
            value
        }
        Err(failure) => {
            last_error::keep(name, &failure);
            error.put(failure.code);
            failed
        }
    }
}

/// As [`call`], for functions without an error argument: the details are stored all the same.
fn quiet<T>(name: &str, failed: T, body: impl FnOnce() -> Result<T>) -> T {
    call(name, Out(std::ptr::null_mut()), failed, body)
}
