//! What a hook is: a function with the name and the arguments of the C library's, which finds the next definition of its name and
//! hands the program's own call to it.
//!
//! So whatever the next definition does, it does to the program's call: a thread may be cancelled in it, a sanitizer checks
//! its arguments, errno is its. Unwinding (a cancelled thread) passes through hooks, which therefore hold nothing that would
//! have to be given back. Functions with a variable number of arguments are declared with as many as any call has: registers of
//! arguments that a caller did not give hold anything, and what gets them does not look.

use core::ffi::CStr;

use crate::elf;
use crate::raw;
use crate::state;
use crate::sync::{AtomicUsize, Ordering};

/// The next definition of a name, found at its first use. `F` is the type of a pointer to the function; `HOT` is its place in the line that
/// each hook reads, if it has one there.
pub(crate) struct Slot<F, const HOT: usize = COLD> {
    name: &'static CStr,
    hash: u32,
    address: AtomicUsize,
    /// Stands in where there is no next definition.
    missing: F,
}

/// No place there.
pub(crate) const COLD: usize = usize::MAX;

impl<F: Copy, const HOT: usize> Slot<F, HOT> {
    pub(crate) const fn new(name: &'static CStr, missing: F) -> Self {
        assert!(size_of::<F>() == size_of::<usize>(), "a function pointer");
        Self { name, hash: elf::hash(name), address: AtomicUsize::new(0), missing }
    }

    /// The function to call.
    #[inline]
    pub(crate) fn get(&self) -> F {
        // Relaxed: code does not change, and any thread finds the same.
        let mut address = state::next(HOT).unwrap_or(&self.address).load(Ordering::Relaxed);
        if address == 0 {
            address = self.find();
            if address == 0 {
                return self.missing;
            }
        }
        // SAFETY: the address of a function of this name, whose type is the C library's and that of `F`.
        unsafe { core::mem::transmute_copy(&address) }
    }

    #[cold]
    #[inline(never)]
    fn find(&self) -> usize {
        let mut address = self.address.load(Ordering::Relaxed);
        if address == 0 {
            address = elf::next(self.name, self.hash);
            #[cfg(feature = "planted")]
            {
                address = crate::planted::instead(self.name, address);
            }
            self.address.store(address, Ordering::Relaxed);
        }
        if let Some(hot) = state::next(HOT) {
            hot.store(address, Ordering::Relaxed);
        }
        address
    }
}

/// The C library's errno of this thread, if there is a C library.
fn errno() -> Option<*mut libc::c_int> {
    static LOCATION: Slot<unsafe extern "C" fn() -> *mut libc::c_int> =
        Slot::new(c"__errno_location", no_errno);
    unsafe extern "C" fn no_errno() -> *mut libc::c_int {
        core::ptr::null_mut()
    }
    // SAFETY: takes nothing and gives the address of a thread's own variable.
    let location = unsafe { LOCATION.get()() };
    (!location.is_null()).then_some(location)
}

/// Sets errno, as a function does that fails.
#[cold]
pub(crate) fn set_errno(number: libc::c_int) {
    if let Some(location) = errno() {
        // SAFETY: a variable of this thread.
        unsafe { *location = number };
    }
}

/// errno as it is now.
pub(crate) fn get_errno() -> libc::c_int {
    // SAFETY: a variable of this thread.
    errno().map_or(0, |location| unsafe { *location })
}

/// Where there is no next definition: the system call itself, with errno as the C library sets it.
///
/// # Safety
/// As the system call.
#[cold]
pub(crate) unsafe fn system(number: libc::c_long, arguments: &[usize]) -> isize {
    // One by one: copying a slice would call the C library.
    let at = |number: usize| arguments.get(number).copied().unwrap_or(0);
    // SAFETY: the caller's promise.
    let result = unsafe { raw::call(number, [at(0), at(1), at(2), at(3), at(4), at(5)]) };
    if (-4095..0).contains(&result) {
        set_errno(-result as libc::c_int);
        return -1;
    }
    result
}

/// Where there is no next definition and no system call either.
#[cold]
pub(crate) fn nothing() -> isize {
    set_errno(libc::ENOSYS);
    -1
}

/// Defines hooks: `fn name(arguments) -> result, MISSING; |next| BODY`. MISSING is `as NUMBER` (the system call that does the
/// same) or `else VALUE` (fails with ENOSYS). BODY is safe code; `next` takes the arguments.
macro_rules! hooks {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty, $how:ident $what:expr $(, hot $hot:literal)?; |$next:ident| $body:expr)*) => {$(
        /// As in the C library.
        ///
        /// # Safety
        /// As in the C library.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[allow(dead_code, non_snake_case, reason = "called by programs, by the names that they have in C")]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> $ret {
            unsafe extern "C-unwind" fn missing($($arg: $ty),*) -> $ret {
                $crate::hook::missing!($how $what, $ret, $($arg),*)
            }
            const HOT: usize = { let _hot = $crate::hook::COLD; $(let _hot = $hot;)? _hot };
            static NEXT: $crate::hook::Slot<unsafe extern "C-unwind" fn($($ty),*) -> $ret, HOT> =
                $crate::hook::Slot::new($crate::hook::name(concat!(stringify!($name), "\0")), missing);
            // SAFETY: the caller's promise is the one that the next definition wants.
            let $next = |$($arg: $ty),*| -> $ret { unsafe { NEXT.get()($($arg),*) } };
            $body
        }
    )*};
}

/// Defines hooks that only hand on.
macro_rules! forwards {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty, $how:ident $what:expr;)*) => {
        $crate::hook::hooks! {$(
            fn $name($($arg: $ty),*) -> $ret, $how $what; |next| next($($arg),*)
        )*}
    };
}

/// What stands in for a next definition.
macro_rules! missing {
    (as $number:expr, $ret:ty, $($arg:ident),*) => {
        // SAFETY: the caller's promise is the one that the system call wants.
        unsafe { $crate::hook::system($number, &[$($arg as usize),*]) as $ret }
    };
    (else $value:expr, $ret:ty, $($arg:ident),*) => {{
        $(let _ = $arg;)*
        $crate::hook::nothing();
        $value
    }};
}

pub(crate) use {forwards, hooks, missing};

/// A name with its final 0.
pub(crate) const fn name(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}
