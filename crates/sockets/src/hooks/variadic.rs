//! Functions whose arguments or whose way of returning a Rust function can't have: `vfork`, which returns twice on one stack frame, and those
//! with arguments on the stack. Their hooks leave stack and registers as they found them, and jump.
//!
//! Each saves the registers that carry arguments, calls a function that notes the call and says where the next definition is, puts
//! the registers back, and jumps there: to the next definition it looks as if the program had called it.

use core::arch::naked_asm;

use libc::c_int;
use sockets_rules::layout::Note;

use crate::hook::{Slot, nothing};
use crate::seen;

/// The registers of the first arguments, as a trampoline has put them down.
#[repr(C)]
struct Registers {
    /// In the order of arguments.
    arguments: [usize; 6],
}

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
                static NEXT: Slot<Code> =
                    Slot::new($crate::hook::name(concat!(stringify!($name), "\0")), missing);
                $note;
                NEXT.get()
            }
            naked_asm!(
                "endbr64",
                "push rax",
                "push r9", "push r8", "push rcx", "push rdx", "push rsi", "push rdi",
                "mov rdi, rsp",
                "sub rsp, 128",
                "movups [rsp], xmm0", "movups [rsp + 16], xmm1", "movups [rsp + 32], xmm2", "movups [rsp + 48], xmm3",
                "movups [rsp + 64], xmm4", "movups [rsp + 80], xmm5", "movups [rsp + 96], xmm6", "movups [rsp + 112], xmm7",
                "call {before}",
                "mov r11, rax",
                "movups xmm0, [rsp]", "movups xmm1, [rsp + 16]", "movups xmm2, [rsp + 32]", "movups xmm3, [rsp + 48]",
                "movups xmm4, [rsp + 64]", "movups xmm5, [rsp + 80]", "movups xmm6, [rsp + 96]", "movups xmm7, [rsp + 112]",
                "add rsp, 128",
                "pop rdi", "pop rsi", "pop rdx", "pop rcx", "pop r8", "pop r9", "pop rax",
                "jmp r11",
                before = sym before,
            )
        }
    )*};
}

trampolines! {
    vfork: |_r| vforking();
    __vfork: |_r| vforking();
    clone: |r| seen::cloning(r.arguments[2] as u32 as u64);
    __clone: |r| seen::cloning(r.arguments[2] as u32 as u64);
    execl: |_r| seen::note(Note::Executed);
    execle: |_r| seen::note(Note::Executed);
    execlp: |_r| seen::note(Note::Executed);
    dprintf: |_r| seen::note(Note::Streamed);
    __dprintf_chk: |_r| seen::note(Note::Streamed);
}

fn vforking() {
    seen::cloning((libc::CLONE_VM | libc::CLONE_VFORK) as c_int as u64);
}
