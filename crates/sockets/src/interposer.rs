//! What an interposer is: a function with the name and arguments of the C library's, which finds the next
//! definition and passes the program's call to it.
//!
//! So whatever the next definition does, it does to the program's call: a thread may be cancelled in it, a
//! sanitizer checks its arguments, errno is its. Unwinding (a cancelled thread) passes through interposers,
//! which therefore hold nothing that would have to be given back. Functions with a variable number of
//! arguments are declared with as many as any call has: registers of arguments that a caller did not give
//! hold anything, and what gets them does not look.

use core::arch::naked_asm;
use core::ffi::CStr;
use core::marker::PhantomData;

use crate::elf::{self, FOREIGN};
use crate::raw;
use crate::state;
use crate::sync::{AtomicUsize, Ordering};

/// The next definition of a name, found at its first use. `F` is the type of a pointer to the function; `HOT`
/// is its place in the lines that each interposer reads, if it has one there.
///
/// It holds no pointer that the loader would have to relocate: interposers are called before it has. So each
/// use says the name again.
#[repr(C)]
pub(crate) struct Slot<F, const HOT: usize = COLD> {
    /// 0 until it was looked for; with [`FOREIGN`] if it is not the C library's function. The first field:
    /// stubs read it.
    address: AtomicUsize,
    function: PhantomData<F>,
}

/// No place there.
pub(crate) const COLD: usize = usize::MAX;

/// A name, which ends with 0, and its hash. Two numbers: in registers, so that no list of them lies in
/// memory.
#[derive(Clone, Copy)]
pub(crate) struct Name {
    text: *const u8,
    hash: u32,
}

impl Name {
    pub(crate) const fn new(text: &'static CStr) -> Self {
        Self { text: text.as_ptr().cast(), hash: elf::hash(text) }
    }

    /// From a text that ends with 0.
    pub(crate) const fn terminated(text: &'static str) -> Self {
        Self::new(name(text))
    }
}

/// A name with its final 0.
pub(crate) const fn name(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => c"",
    }
}

impl<F: Copy, const HOT: usize> Slot<F, HOT> {
    pub(crate) const fn new() -> Self {
        assert!(size_of::<F>() == size_of::<usize>(), "a function pointer");
        Self { address: AtomicUsize::new(0), function: PhantomData }
    }

    /// The function to call, or the one that stands in where there is none.
    #[inline(always)]
    pub(crate) fn get(&self, name: Name, missing: F) -> F {
        // Relaxed: code does not change, and any thread finds the same.
        let mut address = state::next(HOT).unwrap_or(&self.address).load(Ordering::Relaxed);
        if address == 0 {
            address = self.find(name);
            if address == 0 {
                return missing;
            }
        }
        let address = address & !FOREIGN;
        // SAFETY: the address of a function of this name, whose type is the C library's and that of `F`.
        unsafe { core::mem::transmute_copy(&address) }
    }

    /// The function, if there is one and it is the C library's.
    pub(crate) fn of_the_c_library(&self, name: Name) -> Option<F> {
        let address = self.find(name);
        if address == 0 || address & FOREIGN != 0 {
            return None;
        }
        // SAFETY: as in `get`.
        Some(unsafe { core::mem::transmute_copy(&address) })
    }

    /// Where a stub goes on that does not know yet: to `body`, which notes the call, or past it to a function
    /// that only shares its name with the C library's.
    pub(crate) fn way(&self, name: Name, body: usize) -> usize {
        let address = self.find(name);
        if address & FOREIGN == 0 { body } else { address & !FOREIGN }
    }

    /// Whether what comes next only shares its name with the C library's function.
    pub(crate) fn is_foreign(&self, name: Name) -> bool {
        self.find(name) & FOREIGN != 0
    }

    #[cold]
    #[inline(never)]
    fn find(&self, name: Name) -> usize {
        let mut address = self.address.load(Ordering::Relaxed);
        if address == 0 {
            // SAFETY: names are made of texts that end with 0.
            address = unsafe { elf::next(name.text, name.hash) };
            #[cfg(feature = "planted")]
            {
                address = crate::planted::instead(name.text, address);
            }
            if address & FOREIGN != 0 {
                // Somebody's own functions under the C library's names: what is done by them nobody here
                // understands.
                state::shares_memory();
            }
            self.address.store(address, Ordering::Relaxed);
        }
        if let Some(hot) = state::next(HOT) {
            hot.store(address, Ordering::Relaxed);
        }
        address
    }
}

/// The registers of the first arguments, as [`ask`] has put them down.
#[repr(C)]
pub(crate) struct Registers {
    /// In the order of arguments.
    pub(crate) arguments: [usize; 6],
}

/// Asks the function in r11 where to go on, and goes there with all registers and the stack as they were: to
/// whoever gets the call it looks as if the program had made it. The function gets a pointer to
/// [`Registers`].
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn ask() {
    naked_asm!(
        ".cfi_startproc",
        "push rax",
        ".cfi_adjust_cfa_offset 8",
        "push r9",
        ".cfi_adjust_cfa_offset 8",
        "push r8",
        ".cfi_adjust_cfa_offset 8",
        "push rcx",
        ".cfi_adjust_cfa_offset 8",
        "push rdx",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "mov rdi, rsp",
        "sub rsp, 128",
        ".cfi_adjust_cfa_offset 128",
        "movups [rsp], xmm0",
        "movups [rsp + 16], xmm1",
        "movups [rsp + 32], xmm2",
        "movups [rsp + 48], xmm3",
        "movups [rsp + 64], xmm4",
        "movups [rsp + 80], xmm5",
        "movups [rsp + 96], xmm6",
        "movups [rsp + 112], xmm7",
        "call r11",
        "mov r11, rax",
        "movups xmm0, [rsp]",
        "movups xmm1, [rsp + 16]",
        "movups xmm2, [rsp + 32]",
        "movups xmm3, [rsp + 48]",
        "movups xmm4, [rsp + 64]",
        "movups xmm5, [rsp + 80]",
        "movups xmm6, [rsp + 96]",
        "movups xmm7, [rsp + 112]",
        "add rsp, 128",
        ".cfi_adjust_cfa_offset -128",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "pop rcx",
        ".cfi_adjust_cfa_offset -8",
        "pop r8",
        ".cfi_adjust_cfa_offset -8",
        "pop r9",
        ".cfi_adjust_cfa_offset -8",
        "pop rax",
        ".cfi_adjust_cfa_offset -8",
        "jmp r11",
        ".cfi_endproc",
    )
}

/// The C library's errno of this thread, if there is a C library.
fn errno() -> Option<*mut libc::c_int> {
    static LOCATION: Slot<unsafe extern "C" fn() -> *mut libc::c_int> = Slot::new();
    const NAME: Name = Name::new(c"__errno_location");
    // SAFETY: takes nothing and gives the address of a thread's own variable.
    LOCATION.of_the_c_library(NAME).map(|location| unsafe { location() })
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

/// Defines interposers: `fn name(arguments) -> result, MISSING; |next| BODY`. MISSING is `as NUMBER` (the
/// system call that does the same) or `else VALUE` (fails with ENOSYS). BODY is safe code; `next` takes the
/// arguments.
///
/// What the program calls is a stub, which jumps to the body. With `quick any` behind MISSING it jumps
/// straight to the next definition where nothing is to be noted of the descriptor, the first argument,
/// because it is known to be no connection of TCP: that way is short, reads two lines of the cache and leaves
/// nothing to return to. `hot` is the place of the next definition among the commonest of those, and `near`
/// its place among those of other common calls. The code of both is in a section of its own, `.text.near` or
/// `.text.nearby`, with what else they need: so few pages of code are used around a system call.
macro_rules! interposers {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty, $how:ident $what:expr $(, quick $which:ident $(hot $hot:tt)?)? $(, near $near:tt)?; |$next:ident| $body:expr)*) => {$(
        /// As in the C library.
        ///
        /// # Safety
        /// As in the C library.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[allow(dead_code, non_snake_case, reason = "called by programs, by the names that they have in C")]
        $($(#[unsafe(link_section = $crate::interposer::section!(hot $hot))])?)?
        $(#[unsafe(link_section = $crate::interposer::section!(near $near))])?
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name() {
            unsafe extern "C-unwind" fn missing($($arg: $ty),*) -> $ret {
                $crate::interposer::missing!($how $what, $ret, $($arg),*)
            }
            const HOT: usize = { let _hot = $crate::interposer::COLD; $($(let _hot = $hot;)?)? $(let _hot = $crate::state::HOT + $near;)? _hot };
            const NAME: $crate::interposer::Name = $crate::interposer::Name::terminated(concat!(stringify!($name), "\0"));
            static NEXT: $crate::interposer::Slot<unsafe extern "C-unwind" fn($($ty),*) -> $ret, HOT> = $crate::interposer::Slot::new();
            $($(#[unsafe(link_section = $crate::interposer::section!(hot $hot))])?)?
            $(#[unsafe(link_section = $crate::interposer::section!(near $near))])?
            unsafe extern "C-unwind" fn body($($arg: $ty),*) -> $ret {
                // SAFETY: the caller's promise is the one that the next definition wants.
                let $next = |$($arg: $ty),*| -> $ret { unsafe { NEXT.get(NAME, missing)($($arg),*) } };
                $body
            }
            extern "C" fn way() -> usize {
                NEXT.way(NAME, body as *const () as usize)
            }
            $crate::interposer::stub!(NEXT, body, way $(, $which $($hot)?)? $(, near $near)?)
        }
    )*};
}

/// The section of the code of one of the commonest calls: those whose code is long, which wait or take
/// messages, come behind the others.
macro_rules! section {
    (hot 4) => {
        ".text.nearby"
    };
    (hot 5) => {
        ".text.nearby"
    };
    (near 6) => {
        ".text.nearby"
    };
    (near 7) => {
        ".text.nearby"
    };
    ($which:ident $place:tt) => {
        ".text.near"
    };
}

/// The stub of an interposer.
macro_rules! stub {
    ($next:ident, $body:ident, $way:ident, none $($hot:tt)?) => {
        $crate::interposer::stub!($next, $body, $way)
    };
    ($next:ident, $body:ident, $way:ident, any $hot:tt) => {
        $crate::interposer::stub!(@whole "mov r11, [r11 + {hot}]", "mov r11, [rip + {wiped} + {hot}]", $next, $body, $way, hot = const $crate::state::HOT_AT + 8 * $hot)
    };
    ($next:ident, $body:ident, $way:ident, any) => {
        $crate::interposer::stub!(@whole "mov r11, [rip + {next}]", "mov r11, [rip + {next}]", $next, $body, $way, next = sym $next)
    };
    (@whole $load:literal, $again:literal, $next:ident, $body:ident, $way:ident $(, $($more:tt)*)?) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "endbr64",
            "lea r11, [rip + {wiped}]",
            "cmp dword ptr [r11], {running}",
            "jne 3f",
            "cmp edi, {numbers}",
            "jae 3f",
            "mov r10d, edi",
            "cmp byte ptr [r11 + r10 + {brief}], {no_connection}",
            "jne 3f",
            $load,
            "test r11, r11",
            "jle 3f",
            "jmp r11",
            "3:",
            $again,
            "test r11, r11",
            "jle 4f",
            "jmp {body}",
            "4:",
            "jz 5f",
            "btr r11, 63",
            "jmp r11",
            "5:",
            "lea r11, [rip + {way}]",
            "jmp {ask}",
            ".cfi_endproc",
            wiped = sym $crate::state::WIPED,
            running = const $crate::state::RUNNING,
            numbers = const $crate::state::BRIEF,
            brief = const $crate::state::BRIEF_AT,
            no_connection = const $crate::table::NO_CONNECTION,
            body = sym $body,
            way = sym $way,
            ask = sym $crate::interposer::ask,
            $($($more)*)?
        )
    };
    ($next:ident, $body:ident, $way:ident, near $near:tt) => {
        $crate::interposer::stub!(@plain $body, $way, "mov r11, [rip + {near_lines} + {near}]", near_lines = sym $crate::near::NEAR, near = const $crate::near::NEXT_AT + 8 * $near)
    };
    ($next:ident, $body:ident, $way:ident) => {
        $crate::interposer::stub!(@plain $body, $way, "mov r11, [rip + {next}]", next = sym $next)
    };
    (@plain $body:ident, $way:ident, $load:literal, $($more:tt)*) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "endbr64",
            $load,
            "test r11, r11",
            "jle 4f",
            "jmp {body}",
            "4:",
            "jz 5f",
            "btr r11, 63",
            "jmp r11",
            "5:",
            "lea r11, [rip + {way}]",
            "jmp {ask}",
            ".cfi_endproc",
            body = sym $body,
            way = sym $way,
            ask = sym $crate::interposer::ask,
            $($more)*
        )
    };
}

/// Defines interposers that only hand on.
macro_rules! forwards {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty, $how:ident $what:expr;)*) => {
        $crate::interposer::interposers! {$(
            fn $name($($arg: $ty),*) -> $ret, $how $what; |next| next($($arg),*)
        )*}
    };
}

/// What stands in for a next definition.
macro_rules! missing {
    (as $number:expr, $ret:ty, $($arg:ident),*) => {
        // SAFETY: the caller's promise is the one that the system call wants.
        unsafe { $crate::interposer::system($number, &[$($arg as usize),*]) as $ret }
    };
    (else $value:expr, $ret:ty, $($arg:ident),*) => {{
        $(let _ = $arg;)*
        $crate::interposer::nothing();
        $value
    }};
}

pub(crate) use {forwards, interposers, missing, section, stub};
