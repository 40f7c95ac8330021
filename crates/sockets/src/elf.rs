//! Finds the next definition of a name behind this library, in the order in which the dynamic linker searches.
//!
//! Not `dlsym(RTLD_NEXT)`: that may allocate, takes the loader's locks, and hooks are called from within `malloc`, in signal
//! handlers and in the child of a fork whose other threads held those locks. This walk reads what the loader has laid down, and
//! ends at the objects that were there when the program started, which are never unloaded. It works before any constructor ran.

use core::arch::{asm, global_asm};
use core::ffi::CStr;

use crate::sync::{AtomicPtr, Ordering};

// Weak: each loader has one of the two. With one that has neither, nothing is found, and hooks make their system calls themselves.
global_asm!(".weak _r_debug", ".weak _dl_debug_addr", ".hidden _DYNAMIC");

/// A loaded object, as the loader lays it down for debuggers.
#[repr(C)]
struct Object {
    base: usize,
    name: *const u8,
    dynamic: *const Dynamic,
    next: *mut Self,
    previous: *mut Self,
}

/// What debuggers are told.
#[repr(C)]
struct Debug {
    version: i32,
    first: *mut Object,
}

/// An entry of an object's dynamic section.
#[repr(C)]
struct Dynamic {
    tag: usize,
    value: usize,
}

/// An entry of a symbol table.
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: usize,
    size: usize,
}

const _: () = assert!(size_of::<Symbol>() == 24 && size_of::<Dynamic>() == 16);

const DT_STRTAB: usize = 5;
const DT_SYMTAB: usize = 6;
const DT_GNU_HASH: usize = 0x6fff_fef5;
const DT_VERSYM: usize = 0x6fff_fff0;
/// An older version of a name, which only programs that ask for it get.
const VERSION_HIDDEN: u16 = 0x8000;
const TYPE_IFUNC: u8 = 10;

/// The last object that was there when the first name was looked up: what comes behind it may be unloaded.
static LAST: AtomicPtr<Object> = AtomicPtr::new(core::ptr::null_mut());

/// The hash of a name in the tables of `DT_GNU_HASH`.
pub(crate) const fn hash(name: &CStr) -> u32 {
    let bytes = name.to_bytes();
    let mut hash: u32 = 5381;
    let mut at = 0;
    while at < bytes.len() {
        hash = hash.wrapping_mul(33).wrapping_add(bytes[at] as u32);
        at += 1;
    }
    hash
}

/// The address of the next definition of a name behind this library; 0 if there is none.
pub(crate) fn next(name: &CStr, hash: u32) -> usize {
    let (mut debug, other, own): (*const Debug, *const *const Debug, *const Dynamic);
    // SAFETY: reads the addresses of symbols from the offset table, and computes one of this object; none enters the program.
    unsafe {
        asm!("mov {}, qword ptr [rip + _r_debug@GOTPCREL]", out(reg) debug, options(nostack, readonly));
        asm!("mov {}, qword ptr [rip + _dl_debug_addr@GOTPCREL]", out(reg) other, options(nostack, readonly));
        asm!("lea {}, [rip + _DYNAMIC]", out(reg) own, options(nostack, nomem));
    }
    if debug.is_null() && !other.is_null() {
        // SAFETY: musl's loader keeps the address of the same structure there; it enters children of programs that are entered.
        debug = unsafe { *other };
    }
    if debug.is_null() {
        return 0;
    }
    // SAFETY: the loader's list; up to LAST its objects stay for as long as the program lives.
    unsafe {
        let mut object = (*debug).first;
        let last = last(object);
        let mut behind = false;
        while !object.is_null() {
            if behind {
                let found = in_object(&*object, name, hash);
                if found != 0 {
                    return found;
                }
            }
            behind |= core::ptr::eq((*object).dynamic, own);
            if core::ptr::eq(object, last) {
                break;
            }
            object = (*object).next;
        }
    }
    0
}

/// The last object to be searched.
///
/// # Safety
/// `first` must be the loader's list, or null.
unsafe fn last(first: *mut Object) -> *mut Object {
    let known = LAST.load(Ordering::Relaxed);
    if !known.is_null() || first.is_null() {
        return known;
    }
    let mut last = first;
    // SAFETY: the first look happens while the program starts, before anything can be unloaded.
    unsafe {
        while !(*last).next.is_null() {
            last = (*last).next;
        }
    }
    // Relaxed: what it points to was there before any thread.
    LAST.store(last, Ordering::Relaxed);
    last
}

/// The address of a name that an object defines, or 0.
///
/// # Safety
/// The object must be loaded, and stay so.
unsafe fn in_object(object: &Object, name: &CStr, hash: u32) -> usize {
    let (mut strings, mut symbols, mut table, mut versions) = (0, 0, 0, 0);
    let mut entry = object.dynamic;
    if entry.is_null() {
        return 0;
    }
    // SAFETY: a dynamic section ends with an entry 0.
    unsafe {
        while (*entry).tag != 0 {
            // Some loaders add the base to what lies in memory, some do not, and none does for the kernel's own object.
            let value = (*entry).value;
            let address = if value < object.base { value + object.base } else { value };
            match (*entry).tag {
                DT_STRTAB => strings = address,
                DT_SYMTAB => symbols = address,
                DT_GNU_HASH => table = address,
                DT_VERSYM => versions = address,
                _ => {}
            }
            entry = entry.add(1);
        }
    }
    if strings == 0 || symbols == 0 || table == 0 {
        return 0;
    }
    let found = Tables { strings: strings as _, symbols: symbols as _, versions: versions as _ };
    // SAFETY: the tables are those of a loaded object.
    unsafe { found.look_up(object.base, table as *const u32, name, hash) }
}

/// Where an object keeps its names.
struct Tables {
    strings: *const u8,
    symbols: *const Symbol,
    versions: *const u16,
}

impl Tables {
    /// # Safety
    /// All must be the tables of one loaded object.
    unsafe fn look_up(&self, base: usize, table: *const u32, name: &CStr, hash: u32) -> usize {
        // SAFETY: the layout of the table is the linker's: four words, the filter, a bucket each, and chains that end with an odd
        // hash.
        unsafe {
            let (buckets, first, words, shift) = (*table, *table.add(1), *table.add(2), *table.add(3));
            if buckets == 0 || words == 0 {
                return 0;
            }
            let filter = table.add(4).cast::<u64>();
            let word = *filter.add(((hash / 64) & (words - 1)) as usize);
            let mask = (1 << (hash % 64)) | (1 << ((hash >> (shift & 31)) % 64));
            if word & mask != mask {
                return 0;
            }
            let bucket = filter.add(words as usize).cast::<u32>();
            let chains = bucket.add(buckets as usize);
            let mut at = *bucket.add((hash % buckets) as usize);
            if at < first {
                return 0;
            }
            loop {
                let chained = *chains.add((at - first) as usize);
                if (chained ^ hash) >> 1 == 0 {
                    let address = self.address(base, at as usize, name);
                    if address != 0 {
                        return address;
                    }
                }
                if chained & 1 == 1 {
                    return 0;
                }
                at += 1;
            }
        }
    }

    /// The address of a symbol, if it is this name's and one that programs get by default.
    ///
    /// # Safety
    /// As [`Tables::look_up`].
    unsafe fn address(&self, base: usize, at: usize, name: &CStr) -> usize {
        // SAFETY: the index comes from the object's own table.
        let symbol = unsafe { &*self.symbols.add(at) };
        // SAFETY: there is a version for each symbol, if there are versions; names end with 0.
        let (hidden, same) = unsafe {
            let version = if self.versions.is_null() { 1 } else { *self.versions.add(at) };
            (version & VERSION_HIDDEN != 0, equal(self.strings.add(symbol.name as usize), name))
        };
        if hidden || !same || symbol.section == 0 || symbol.value == 0 {
            return 0;
        }
        let address = base + symbol.value;
        if symbol.info & 15 != TYPE_IFUNC {
            return address;
        }
        // SAFETY: what this kind of symbol stands for is asked of itself.
        unsafe { core::mem::transmute::<usize, extern "C" fn() -> usize>(address)() }
    }
}

/// Whether a text is the name.
///
/// # Safety
/// The text must end with 0.
unsafe fn equal(mut text: *const u8, name: &CStr) -> bool {
    let mut wanted = name.as_ptr().cast::<u8>();
    // SAFETY: both end with 0, and the loop with the first difference or the end.
    unsafe {
        while *text == *wanted {
            if *text == 0 {
                return true;
            }
            text = text.add(1);
            wanted = wanted.add(1);
        }
    }
    false
}
