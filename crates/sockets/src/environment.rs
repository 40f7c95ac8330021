//! Reads the launcher's settings from the environment before the program changes it; and the
//! constructor.
//!
//! Everything works without it: interposers that are called earlier find what they need themselves, and there
//! are no statistics.

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int};

use sockets_rules::layout::Note;

use crate::near::NEAR;
use crate::state;
use crate::sync::{AtomicU32, Ordering};

/// Longest path of a statistics file, with its end.
const PATH_BYTES: usize = 512;

struct Path(UnsafeCell<[u8; PATH_BYTES]>);

// SAFETY: written by the constructor alone, before PATH_SET says so; read only after that.
unsafe impl Sync for Path {}

static PATH: Path = Path(UnsafeCell::new([0; PATH_BYTES]));
static PATH_SET: AtomicU32 = AtomicU32::new(0);

const STATISTICS: &[u8] = b"TIELINE_SOCKETS_STATISTICS=";
const RINGS: &[u8] = b"TIELINE_SOCKETS_RINGS=";
const CHILDREN: &[u8] = b"TIELINE_SOCKETS_CHILDREN=";
const LIBRARY: &[u8] = b"TIELINE_SOCKETS_LIBRARY=";
const PRELOAD: &[u8] = b"LD_PRELOAD=";
/// This library makes its system calls by instructions of its own, which are not seen.
const LIBURING: &[u8] = b"liburing.so";
/// How the library's file is named, wherever it lies.
const OWN_NAMES: [&[u8]; 2] = [b"libtieline-sockets.so", b"libtieline_sockets.so"];

// SAFETY: the section holds pointers to functions of this signature, which the loader calls once each, with
// the program's own arguments. `start` needs nothing that has to be set up first, and shows nothing to the
// program but what it was told to take out of the environment.
#[used]
#[cfg(not(test))]
#[unsafe(link_section = ".init_array")]
static START: unsafe extern "C" fn(c_int, *mut *mut c_char, *mut *mut c_char) = start;

// SAFETY: the section holds pointers to functions without arguments, which are called once each when the
// program ends. `end` only reads and writes the library's own memory, and asks the kernel.
#[used]
#[cfg(not(test))]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

/// The destructor: what open connections have moved is counted, as nobody can ask for it later.
#[cfg_attr(test, allow(dead_code, reason = "a test is not to be entered"))]
extern "C" fn end() {
    crate::seen::ending();
}

/// The constructor.
///
/// # Safety
/// Called by the loader.
#[cfg_attr(test, allow(dead_code, reason = "a test is not to be entered"))]
unsafe extern "C" fn start(_: c_int, _: *mut *mut c_char, environment: *mut *mut c_char) {
    state::started();
    // Only the GNU C library hands the environment over; others leave anything in the register.
    let environment = if crate::elf::is_gnu() { environment } else { crate::elf::environment() };
    if environment.is_null() {
        return;
    }
    // SAFETY: the program's environment: pointers to texts, with a null pointer at its end. There is one
    // thread.
    unsafe {
        // Under a filter of system calls the file could not be looked at.
        if let Some(path) = find(environment, STATISTICS)
            && state::may_ask()
        {
            keep(path);
            crate::page::map_file();
        }
        let rings = match find(environment, RINGS).map(|value| *value) {
            Some(b'1') => ON,
            Some(b'2') => FORCED,
            _ => 0,
        };
        if rings != 0 && state::may_ask() && crate::rings::tables::make() {
            NEAR.rings.store(rings, Ordering::Relaxed);
            if crate::elf::is_loaded(LIBURING) {
                crate::seen::note(Note::Uring);
                crate::rings::pair::stop();
            }
        }
        #[cfg(feature = "planted")]
        crate::planted::choose(find(environment, b"TIELINE_SOCKETS_PLANT="));
        if find(environment, CHILDREN).is_some_and(|value| *value == b'0') {
            withdraw(environment);
        }
    }
}

const ON: u32 = 1;
const FORCED: u32 = 2;

/// Whether connections may get rings.
#[inline(always)]
pub(crate) fn has_rings() -> bool {
    NEAR.rings.load(Ordering::Relaxed) != 0
}

/// Whether every connection is to get them, at once: for tests.
#[inline(always)]
pub(crate) fn is_forced() -> bool {
    NEAR.rings.load(Ordering::Relaxed) == FORCED
}

/// The path of the statistics file, if there is to be one. It ends with 0, and is never written again.
pub(crate) fn statistics() -> Option<*const c_char> {
    // Acquire: with the Release in `keep`, so that the path is there.
    if PATH_SET.load(Ordering::Acquire) == 0 {
        return None;
    }
    Some(PATH.0.get().cast())
}

/// Keeps the path; one that is too long is none.
///
/// # Safety
/// A text; called once, by the constructor.
unsafe fn keep(path: *const u8) {
    let to = PATH.0.get().cast::<u8>();
    for at in 0..PATH_BYTES {
        // SAFETY: the loop ends with the text, or with the room for it.
        unsafe {
            *to.add(at) = *path.add(at);
            if *path.add(at) == 0 {
                // Pairs with the Acquire in `statistics`.
                PATH_SET.store(1, Ordering::Release);
                return;
            }
        }
    }
}

/// The value of the variable, if it is there.
///
/// # Safety
/// An environment.
unsafe fn find(environment: *mut *mut c_char, name: &[u8]) -> Option<*mut u8> {
    let mut at = environment;
    // SAFETY: the environment ends with a null pointer.
    unsafe {
        while !(*at).is_null() {
            if let Some(value) = value_of((*at).cast(), name) {
                return Some(value);
            }
            at = at.add(1);
        }
    }
    None
}

/// What stands behind the name in a variable, if it is this one.
///
/// # Safety
/// A text.
unsafe fn value_of(text: *mut u8, name: &[u8]) -> Option<*mut u8> {
    let mut at = text;
    for byte in name {
        // SAFETY: the loop ends at the text's end at the latest, where no byte of a name stands.
        unsafe {
            if *at != *byte {
                return None;
            }
            at = at.add(1);
        }
    }
    Some(at)
}

/// Takes the library and what it was told out of the environment: children start without it.
///
/// # Safety
/// The program's environment, before it is looked at.
pub(crate) unsafe fn withdraw(environment: *mut *mut c_char) {
    let (mut from, mut to) = (environment, environment);
    // SAFETY: moves the pointers of the variables that stay, in order, with the null pointer at the end.
    unsafe {
        while !(*from).is_null() {
            let text = (*from).cast::<u8>();
            let ours =
                [STATISTICS, RINGS, CHILDREN, LIBRARY].iter().any(|name| value_of(text, name).is_some());
            let emptied = value_of(text, PRELOAD).is_some_and(|list| !without_ours(list));
            if !ours && !emptied {
                *to = *from;
                to = to.add(1);
            }
            from = from.add(1);
        }
        *to = core::ptr::null_mut();
    }
}

/// Takes the library out of a list of libraries, in its place; says whether others are left.
///
/// # Safety
/// A text that may be written.
pub(crate) unsafe fn without_ours(list: *mut u8) -> bool {
    let (mut from, mut to) = (list, list);
    // SAFETY: copies within the text, never ahead of what is read.
    unsafe {
        loop {
            let mut end = from;
            while !matches!(*end, 0 | b':' | b' ') {
                end = end.add(1);
            }
            if !is_ours(from, end) && from != end {
                if to != list {
                    *to = b':';
                    to = to.add(1);
                }
                while from != end {
                    *to = *from;
                    to = to.add(1);
                    from = from.add(1);
                }
            }
            if *end == 0 {
                break;
            }
            from = end.add(1);
        }
        *to = 0;
    }
    to != list
}

/// Whether a path between these two is this library's.
///
/// # Safety
/// `from` to `end` must be readable.
unsafe fn is_ours(from: *const u8, end: *const u8) -> bool {
    // SAFETY: both point into one text.
    let length = unsafe { end.offset_from(from) } as usize;
    OWN_NAMES.iter().any(|name| {
        let Some(start) = length.checked_sub(name.len()) else { return false };
        // SAFETY: within the path.
        unsafe { value_of(from.add(start).cast_mut(), name).is_some() }
    })
}
