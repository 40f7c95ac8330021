//! Access to what the kernel gave this process, and execve: the unsafe conversions of lists of
//! pointers.

use alloc::vec::Vec;
use core::arch::asm;
use core::ffi::{c_char, c_int};

use entry::Text;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the launcher is written for Linux on x86-64, as the sockets library is");

/// Pointers to texts, with a null pointer at the end.
type List = *const *const c_char;

/// The arguments and the environment, where the kernel put them.
pub(crate) struct Process {
    arguments: List,
    environment: List,
}

impl Process {
    /// # Safety
    /// Lists as the kernel hands them over, with its table of values (auxv) behind the environment, which
    /// stay as they are.
    pub(crate) const unsafe fn new(arguments: List, environment: List) -> Self {
        Self { arguments, environment }
    }

    /// The arguments, with the name first.
    pub(crate) fn words(&self) -> Vec<Text> {
        texts(self.arguments)
    }

    /// All texts of the environment, also what is no `NAME=value`.
    pub(crate) fn environment(&self) -> Vec<Text> {
        texts(self.environment)
    }

    /// The path by which this program was started, if the kernel has told it.
    pub(crate) fn called(&self) -> Option<Text> {
        const END: usize = 0;
        const PATH: usize = 31;
        let mut at = self.environment;
        // SAFETY: the environment ends with a null pointer, behind which the kernel puts pairs of a kind and
        // a value, up to the kind that ends them. The value of this kind is a text.
        unsafe {
            while !(*at).is_null() {
                at = at.add(1);
            }
            let mut pair = at.add(1).cast::<[usize; 2]>();
            loop {
                match *pair {
                    [END, _] => return None,
                    [PATH, value] => return text(value as *const c_char),
                    _ => pair = pair.add(1),
                }
            }
        }
    }

    /// Becomes another program with the same arguments and environment. Comes back with the reason if it
    /// cannot.
    pub(crate) fn become_other(&self, path: &[u8]) -> Errno {
        let path = [path, b"\0"].concat();
        // SAFETY: the path ends with 0; the lists are the kernel's own.
        unsafe { execve(path.as_ptr().cast(), self.arguments, self.environment) }
    }
}

/// Becomes a program. Comes back with the reason if it cannot.
pub(crate) fn execute(path: &[u8], arguments: &[Text], environment: &[Text]) -> Errno {
    let path = [path, b"\0"].concat();
    // They are not touched after their pointers were taken.
    let [(_arguments, to_arguments), (_environment, to_environment)] = [arguments, environment].map(listed);
    // SAFETY: each text ends with 0, each list with a null pointer.
    unsafe { execve(path.as_ptr().cast(), to_arguments.as_ptr(), to_environment.as_ptr()) }
}

/// Says something on standard error, if there is one.
pub(crate) fn say(text: &[u8]) {
    // SAFETY: nobody closes it meanwhile: there is one thread. If there is none, to write to its number is an
    // error.
    let errors = unsafe { BorrowedFd::borrow_raw(2) };
    let _ = rustix::io::write(errors, text);
}

/// Texts one after another, each with its end, and the list of pointers to them.
fn listed(texts: &[Text]) -> (Vec<u8>, Vec<*const c_char>) {
    let mut room = Vec::with_capacity(texts.iter().map(|text| text.len() + 1).sum());
    for text in texts {
        room.extend_from_slice(text);
        room.push(0);
    }
    let mut at = 0;
    let mut list = Vec::with_capacity(texts.len() + 1);
    for text in texts {
        list.push(room.as_ptr().wrapping_add(at).cast());
        at += text.len() + 1;
    }
    list.push(core::ptr::null());
    (room, list)
}

/// The system call. Comes back only with an error.
///
/// # Safety
/// A text, and two lists of texts with a null pointer at their ends.
unsafe fn execve(path: *const c_char, arguments: List, environment: List) -> Errno {
    const EXECVE: usize = 59;
    let result: isize;
    // SAFETY: the kernel reads what the caller vouches for, and changes rax, rcx and r11, which is said.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") EXECVE => result,
            in("rdi") path, in("rsi") arguments, in("rdx") environment,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    Errno::from_raw_os_error(-(result as c_int))
}

/// The texts of a list of the kernel's.
fn texts(mut list: List) -> Vec<Text> {
    let mut all = Vec::new();
    // SAFETY: a list of the kernel's: pointers to texts, up to a null pointer, which is not gone past.
    while let Some(one) = unsafe { text(*list) } {
        all.push(one);
        // SAFETY: as above.
        list = unsafe { list.add(1) };
    }
    all
}

/// A copy of a text; none of a null pointer.
///
/// # Safety
/// Null, or bytes that end with 0.
unsafe fn text(at: *const c_char) -> Option<Text> {
    if at.is_null() {
        return None;
    }
    // SAFETY: the caller's word.
    Some(unsafe { core::ffi::CStr::from_ptr(at) }.to_bytes().to_vec())
}

/// The start where cargo links the program by itself: the C library calls it, with what the kernel gave.
///
/// # Safety
/// Called by the C library alone.
#[cfg(feature = "std")]
#[unsafe(no_mangle)]
unsafe extern "C" fn main(_: c_int, arguments: List, environment: List) -> c_int {
    // SAFETY: the C library hands on what the kernel gave it.
    crate::begin(&unsafe { Process::new(arguments, environment) })
}
