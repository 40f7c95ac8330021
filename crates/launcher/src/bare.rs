//! The start without a C library, and the few functions that the compiler needs of one.

use core::alloc::{GlobalAlloc, Layout};
use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int};
use core::panic::PanicInfo;
use core::ptr::null_mut;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use crate::process::{self, Process};

// The kernel starts here, with the number of arguments on top of the stack, the arguments and the environment
// behind it.
global_asm!(
    ".globl _start",
    ".hidden __ehdr_start",
    ".hidden _DYNAMIC",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "lea rsi, [rip + __ehdr_start]",
    "lea rdx, [rip + _DYNAMIC]",
    "and rsp, -16",
    "call {first}",
    "ud2",
    first = sym first,
);

/// The first function.
///
/// # Safety
/// `stack` as the kernel leaves it, `base` where the program was loaded, and its dynamic section.
unsafe extern "C" fn first(stack: *const usize, base: usize, dynamic: *const [usize; 2]) -> ! {
    // SAFETY: the caller's word: behind the number of arguments stand their pointers with a null pointer,
    // then the environment.
    let status = unsafe {
        relocate(base, dynamic);
        let arguments = stack.add(1).cast::<*const c_char>();
        crate::begin(&Process::new(arguments, arguments.add(*stack + 1)))
    };
    end(status)
}

/// Adds the address at which the program was loaded to the pointers in its data. Nothing in here may need
/// one.
///
/// # Safety
/// As [`first`].
#[inline(always)]
unsafe fn relocate(base: usize, mut dynamic: *const [usize; 2]) {
    const RELA: usize = 7;
    const RELA_BYTES: usize = 8;
    const RELATIVE: usize = 8;
    let (mut table, mut bytes) = (0, 0);
    // SAFETY: the dynamic section ends with an entry of kind 0; its table lies in the program, as many bytes
    // as it says, and each entry names a word of the program's data. The linker makes no other kind in a
    // program without libraries.
    unsafe {
        while (*dynamic)[0] != 0 {
            match *dynamic {
                [RELA, at] => table = at,
                [RELA_BYTES, count] => bytes = count,
                _ => {}
            }
            dynamic = dynamic.add(1);
        }
        // Where the dynamic linker has started the program, by hand, it has put addresses here, and done the
        // same already.
        let mut entry = (if table < base { base + table } else { table }) as *const [usize; 3];
        let end = entry.byte_add(bytes);
        while entry < end {
            let [offset, kind, addend] = *entry;
            if kind == RELATIVE {
                ((base + offset) as *mut usize).write(base + addend);
            }
            entry = entry.add(1);
        }
    }
}

fn end(status: i32) -> ! {
    const EXIT_GROUP: usize = 231;
    // SAFETY: ends the process.
    unsafe { asm!("syscall", in("rax") EXIT_GROUP, in("rdi") status, options(noreturn, nostack)) }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    process::say(b"tieline: out of memory\n");
    end(crate::CANNOT)
}

/// Memory that is never given back: this program ends, or becomes another one, in a moment.
struct Memory(UnsafeCell<Free>);

/// What is left of the piece of memory in use.
struct Free {
    next: *mut u8,
    left: usize,
}

/// Bytes asked of the kernel at a time. Pages of it that are not used cost nothing.
const PIECE: usize = 256 << 10;

// SAFETY: there is one thread.
unsafe impl Sync for Memory {}

#[global_allocator]
static MEMORY: Memory = Memory(UnsafeCell::new(Free { next: null_mut(), left: 0 }));

// SAFETY: each block lies in a piece of memory that the kernel gave, behind those that were given before, and
// is never used again.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: there is one thread, and nothing in here allocates.
        let free = unsafe { &mut *self.0.get() };
        let wanted = layout.size() + layout.align();
        if free.left < wanted {
            let bytes = wanted.max(PIECE);
            // SAFETY: new memory, where the kernel likes.
            let piece = unsafe {
                mmap_anonymous(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
            };
            let Ok(piece) = piece else { return null_mut() };
            *free = Free { next: piece.cast(), left: bytes };
        }
        let skipped = free.next.align_offset(layout.align());
        let block = free.next.wrapping_add(skipped);
        free.next = block.wrapping_add(layout.size());
        free.left -= skipped + layout.size();
        block
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    // SAFETY: the caller's word. The direction flag is clear, as the calling convention says.
    unsafe {
        asm!("rep movsb", inout("rcx") bytes => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags));
    }
    to
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    if to.addr().wrapping_sub(from.addr()) >= bytes {
        // SAFETY: what is overwritten was read before.
        return unsafe { memcpy(to, from, bytes) };
    }
    // SAFETY: the caller's word, from the end to the beginning.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rcx") bytes => _,
            inout("rdi") to.wrapping_add(bytes).wrapping_sub(1) => _,
            inout("rsi") from.wrapping_add(bytes).wrapping_sub(1) => _, options(nostack));
    }
    to
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: c_int, bytes: usize) -> *mut u8 {
    // SAFETY: the caller's word. The direction flag is clear, as the calling convention says.
    unsafe {
        asm!("rep stosb", inout("rcx") bytes => _, inout("rdi") to => _, in("al") byte as u8,
            options(nostack, preserves_flags));
    }
    to
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(one: *const u8, other: *const u8, bytes: usize) -> c_int {
    for at in 0..bytes {
        // SAFETY: the caller's word.
        let [a, b] = unsafe { [*one.add(at), *other.add(at)] };
        if a != b {
            return c_int::from(a) - c_int::from(b);
        }
    }
    0
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(one: *const u8, other: *const u8, bytes: usize) -> c_int {
    // SAFETY: the caller's word.
    unsafe { memcmp(one, other, bytes) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const c_char) -> usize {
    let mut length = 0;
    // SAFETY: the caller's word. Read so that no compiler makes a call of this very function of the loop.
    while unsafe { text.add(length).read_volatile() } != 0 {
        length += 1;
    }
    length
}

/// What the compiled library of the language names, and nothing calls where panics end the process.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
