//! Interposers of functions that Rust cannot define: `vfork`, which returns twice on one stack frame,
//! `longjmp`, which does not return, and those with arguments on the stack. The interposers leave stack
//! and registers as they found them, and jump.
//!
//! Each has a function of its own [asked](ask), which notes the call and says where the next definition is.

use core::arch::naked_asm;

use libc::c_int;
use sockets_rules::layout::Note;

use super::process::replaced;
use crate::interposer::{Name, Registers, Slot, ask, nothing};
use crate::seen;
use crate::state;

/// Where the next definition is; any function will do as its type.
type Code = unsafe extern "C" fn();

/// Stands in: fails as a system call does.
unsafe extern "C" fn missing() {
    // What it leaves in the register of results is what `nothing` returns, as this is its last call.
    missing_result();
}

extern "C" fn missing_result() -> isize {
    nothing()
}

/// Defines trampolines: `NAME: note-function`.
macro_rules! trampolines {
    ($($name:ident: |$registers:ident| $note:expr;)*) => {$(
        /// As in the C library.
        ///
        /// # Safety
        /// As in the C library.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[allow(dead_code, reason = "called by programs")]
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name() {
            extern "C" fn before($registers: &Registers) -> Code {
                static NEXT: Slot<Code> = Slot::new();
                const NAME: Name = Name::terminated(concat!(stringify!($name), "\0"));
                if !NEXT.is_foreign(NAME) {
                    $note;
                }
                NEXT.get(NAME, missing)
            }
            naked_asm!(
                ".cfi_startproc",
                "endbr64",
                "lea r11, [rip + {before}]",
                "jmp {ask}",
                ".cfi_endproc",
                before = sym before,
                ask = sym ask,
            )
        }
    )*};
}

trampolines! {
    vfork: |_r| vforking();
    __vfork: |_r| vforking();
    clone: |r| seen::cloning(r.arguments[2] as u32 as u64);
    __clone: |r| seen::cloning(r.arguments[2] as u32 as u64);
    longjmp: |_r| state::jumps();
    _longjmp: |_r| state::jumps();
    siglongjmp: |_r| state::jumps();
    __longjmp_chk: |_r| state::jumps();
    execl: |_r| replaced();
    execle: |_r| replaced();
    execlp: |_r| replaced();
    dprintf: |r| printing(r);
    __dprintf_chk: |r| printing(r);
}

fn printing(registers: &Registers) {
    seen::note(Note::Streamed);
    seen::unusual(registers.arguments[0] as c_int);
}

fn vforking() {
    seen::cloning((libc::CLONE_VM | libc::CLONE_VFORK) as c_int as u64);
}
