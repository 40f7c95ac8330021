//! The model checker's stacks are used again.
//!
//! It maps a stack for each thread of each execution and unmaps it at its end, and a search has some hundred
//! thousand executions: more than half of its time went to the kernel, into mapping, page faults and
//! unmapping. Neither it nor the library of its coroutines can be told to keep them. In this build alone its
//! calls of `mmap` and `munmap` come here instead of to the C library, which knows its own by other names.

use core::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

/// A stack that was mapped once, and stays.
struct Stack {
    address: usize,
    len: usize,
    is_free: bool,
}

static STACKS: Mutex<Vec<Stack>> = Mutex::new(Vec::new());

/// What `f` finds among the stacks that are kept.
fn with_stacks<T>(f: impl FnOnce(&mut Vec<Stack>) -> T) -> T {
    f(&mut STACKS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A stack of this length that nobody uses.
fn take(len: usize) -> Option<usize> {
    with_stacks(|stacks| {
        let stack = stacks.iter_mut().find(|stack| stack.is_free && stack.len == len)?;
        stack.is_free = false;
        Some(stack.address)
    })
}

/// Whether this was one that is kept: its next user has it.
fn give_back(address: usize) -> bool {
    with_stacks(|stacks| {
        let kept = stacks.iter_mut().find(|stack| stack.address == address);
        kept.is_some_and(|stack| {
            stack.is_free = true;
            true
        })
    })
}

/// In the place of the C library's.
///
/// # Safety
/// As of the C library's.
// SAFETY: The name is the C library's, and so are the arguments and what is done.
#[unsafe(no_mangle)]
unsafe extern "C" fn mmap(
    at: *mut c_void,
    len: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    let is_stack = flags & libc::MAP_STACK != 0;
    if let Some(address) = is_stack.then(|| take(len)).flatten() {
        return address as *mut c_void;
    }
    // SAFETY: The caller's promises are those of the system call.
    let mapped = unsafe { libc::syscall(libc::SYS_mmap, at, len, protection, flags, file, offset) };
    // What failed is -1, as `MAP_FAILED` is.
    if is_stack && mapped != -1 {
        with_stacks(|stacks| stacks.push(Stack { address: mapped as usize, len, is_free: false }));
    }
    mapped as *mut c_void
}

/// In the place of the C library's.
///
/// # Safety
/// As of the C library's.
// SAFETY: As above.
#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(at: *mut c_void, len: usize) -> c_int {
    if give_back(at as usize) {
        return 0;
    }
    // SAFETY: The caller's promises are those of the system call.
    unsafe { libc::syscall(libc::SYS_munmap, at, len) as c_int }
}

#[test]
fn loom_a_stack_that_was_given_back_is_used_again() {
    let map = || {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        let (null, protection) = (core::ptr::null_mut(), libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: A new mapping, of a length that no other stack has, so that no other thread takes it.
        unsafe { mmap(null, 5 << 12, protection, flags, -1, 0) }
    };
    let (first, second) = (map(), map());
    assert!(first != libc::MAP_FAILED && second != libc::MAP_FAILED && first != second);
    // SAFETY: Nothing refers to it.
    assert_eq!(unsafe { munmap(first, 5 << 12) }, 0);
    assert_eq!(map(), first);
    for stack in [first, second] {
        // SAFETY: As above.
        assert_eq!(unsafe { munmap(stack, 5 << 12) }, 0);
    }
}
