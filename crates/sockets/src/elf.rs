//! Finds the next definition of a name behind this library, in the order in which the dynamic linker
//! searches.
//!
//! Not `dlsym(RTLD_NEXT)`: that may allocate, takes the loader's locks, and interposers are called from
//! within `malloc`, in signal handlers and in the child of a fork whose other threads held those locks. This
//! walk reads what the loader has laid down, and ends at the objects that were there when the program
//! started, which are never unloaded. It works before any constructor ran.

use core::arch::{asm, global_asm};
use core::ffi::{CStr, c_char};

use crate::sync::{AtomicPtr, Ordering};

// Weak: each loader has one of the two. With one that has neither, nothing is found, and interposers make
// their system calls themselves.
global_asm!(".weak _r_debug", ".weak _dl_debug_addr", ".weak __environ", ".hidden _DYNAMIC");

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

const DT_NEEDED: usize = 1;
const DT_HASH: usize = 4;
const DT_STRTAB: usize = 5;
const DT_SYMTAB: usize = 6;
const DT_SONAME: usize = 14;
const DT_GNU_HASH: usize = 0x6fff_fef5;
const DT_VERSYM: usize = 0x6fff_fff0;
/// An older version of a name, which only programs that ask for it get.
const VERSION_HIDDEN: u16 = 0x8000;
const TYPE_IFUNC: u8 = 10;

/// In an address: the function only shares its name with the C library's.
pub(crate) const FOREIGN: usize = 1 << 63;

/// How the files of those begin whose functions of these names do what the C library's do: itself, in its
/// parts, and sanitizers. One text, as a list would hold addresses.
const OF_THE_C_LIBRARY: &[u8] = b"libc.so. libc-2. libc.musl- libpthread.so. libpthread-2. librt.so. librt-2. libutil.so.1 libutil-2. \
    libdl.so. libdl-2. ld-linux ld-musl- ld-2. libasan.so libtsan.so liblsan.so libubsan.so libhwasan.so libclang_rt. ";

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

/// Whether the loader is that of the GNU C library. Before this library is relocated nobody is known.
pub(crate) fn is_gnu() -> bool {
    let debug: usize;
    // SAFETY: reads the address of a symbol from the offset table.
    unsafe {
        asm!("mov {}, qword ptr [rip + _r_debug@GOTPCREL]", out(reg) debug, options(nostack, readonly, preserves_flags));
    }
    debug != 0
}

/// The environment as the C library keeps it; null if it has none.
pub(crate) fn environment() -> *mut *mut c_char {
    let environment: *const *mut *mut c_char;
    // SAFETY: as above.
    unsafe {
        asm!("mov {}, qword ptr [rip + __environ@GOTPCREL]", out(reg) environment, options(nostack, readonly, preserves_flags));
    }
    // SAFETY: the C library's variable.
    if environment.is_null() { core::ptr::null_mut() } else { unsafe { *environment } }
}

/// What the loader tells debuggers; null if it tells nothing.
fn debug() -> *const Debug {
    let (debug, other): (*const Debug, *const *const Debug);
    // SAFETY: reads the addresses of symbols from the offset table.
    unsafe {
        asm!("mov {}, qword ptr [rip + _r_debug@GOTPCREL]", out(reg) debug, options(nostack, readonly));
        asm!("mov {}, qword ptr [rip + _dl_debug_addr@GOTPCREL]", out(reg) other, options(nostack, readonly));
    }
    if debug.is_null() && !other.is_null() {
        // SAFETY: musl's loader keeps the address of the same structure there; it enters children of programs
        // that are entered.
        return unsafe { *other };
    }
    debug
}

/// Whether an object is loaded whose file's name begins like this. For the constructor: later objects may be
/// unloaded meanwhile.
pub(crate) fn is_loaded(beginning: &[u8]) -> bool {
    let debug = debug();
    // SAFETY: the loader's list, which nobody changes while constructors run.
    let mut object = if debug.is_null() { core::ptr::null_mut() } else { unsafe { (*debug).first } };
    while !object.is_null() {
        // SAFETY: an object of the list. Its name ends with 0, and is not read behind that: there it differs.
        unsafe {
            let file = file_name((*object).name);
            if !file.is_null() && beginning.iter().enumerate().all(|(at, byte)| *file.add(at) == *byte) {
                return true;
            }
            object = (*object).next;
        }
    }
    false
}

/// The address of the next definition of a name behind this library; 0 if there is none. With [`FOREIGN`]
/// where it is a library's that the program needs: such a one has functions of its own under these names,
/// while one that was preloaded stands in for the C library's.
///
/// # Safety
/// The name must end with 0, and the hash be its own.
pub(crate) unsafe fn next(name: *const u8, hash: u32) -> usize {
    let debug = debug();
    let own: *const Dynamic;
    // SAFETY: computes an address of this object.
    unsafe { asm!("lea {}, [rip + _DYNAMIC]", out(reg) own, options(nostack, nomem)) };
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
                    return if is_foreign(&*object, (*debug).first, last) { found | FOREIGN } else { found };
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

/// Whether an object's functions are its own, whatever their names.
///
/// # Safety
/// All must be objects of the loader's list that stay loaded.
unsafe fn is_foreign(object: &Object, first: *mut Object, last: *mut Object) -> bool {
    // SAFETY: names end with 0, lists as said.
    unsafe {
        let file = file_name(object.name);
        if is_of_the_c_library(file) {
            return false;
        }
        // Others name it by its own name, by its file's, or by the whole path.
        let names = [Tables::of(object).own_name, file, object.name];
        let mut other = first;
        while !other.is_null() {
            if names.iter().any(|name| !name.is_null() && needs(&*other, *name)) {
                return true;
            }
            if core::ptr::eq(other, last) {
                break;
            }
            other = (*other).next;
        }
    }
    false
}

/// What stands behind the last slash.
///
/// # Safety
/// The text must end with 0.
unsafe fn file_name(mut text: *const u8) -> *const u8 {
    let mut file = text;
    // SAFETY: the loop ends with the text.
    unsafe {
        while !text.is_null() && *text != 0 {
            if *text == b'/' {
                file = text.add(1);
            }
            text = text.add(1);
        }
    }
    file
}

/// Whether a file's name begins as one of those.
///
/// # Safety
/// The text must end with 0.
unsafe fn is_of_the_c_library(file: *const u8) -> bool {
    if file.is_null() {
        return false;
    }
    let (mut at, mut same) = (0, true);
    for byte in OF_THE_C_LIBRARY {
        if *byte == b' ' {
            if same && at > 0 {
                return true;
            }
            (at, same) = (0, true);
        } else if same {
            // SAFETY: what was compared so far was equal, so the text has not ended before this.
            same = unsafe { *file.add(at) } == *byte;
            at += 1;
        }
    }
    false
}

/// Whether an object names another as one that it needs.
///
/// # Safety
/// The object must be loaded; the name must end with 0.
unsafe fn needs(object: &Object, name: *const u8) -> bool {
    // SAFETY: as the caller says, and a dynamic section ends with an entry 0.
    unsafe {
        let strings = Tables::of(object).strings;
        let mut entry = object.dynamic;
        while !entry.is_null() && !strings.is_null() && (*entry).tag != 0 {
            if (*entry).tag == DT_NEEDED {
                let needed = strings.add((*entry).value);
                if equal(needed, name) || equal(file_name(needed), name) {
                    return true;
                }
            }
            entry = entry.add(1);
        }
    }
    false
}

/// The address of a name that an object defines, or 0.
///
/// # Safety
/// The object must be loaded, and stay so.
unsafe fn in_object(object: &Object, name: *const u8, hash: u32) -> usize {
    // SAFETY: as the caller says.
    let tables = unsafe { Tables::of(object) };
    if tables.strings.is_null() || tables.symbols.is_null() {
        return 0;
    }
    // SAFETY: the tables are those of a loaded object.
    unsafe {
        if !tables.gnu_hash.is_null() {
            tables.look_up(object.base, name, hash)
        } else if !tables.old_hash.is_null() {
            tables.look_up_old(object.base, name)
        } else {
            0
        }
    }
}

/// Where an object keeps its names. What it does not have is null.
struct Tables {
    strings: *const u8,
    symbols: *const Symbol,
    versions: *const u16,
    gnu_hash: *const u32,
    old_hash: *const u32,
    /// What it calls itself.
    own_name: *const u8,
}

impl Tables {
    /// # Safety
    /// The object must be loaded.
    unsafe fn of(object: &Object) -> Self {
        let (mut strings, mut symbols, mut versions, mut gnu_hash, mut old_hash) = (0, 0, 0, 0, 0);
        let mut own_name = None;
        let mut entry = object.dynamic;
        // SAFETY: a dynamic section ends with an entry 0.
        unsafe {
            while !entry.is_null() && (*entry).tag != 0 {
                // Some loaders add the base to what lies in memory, some do not, and none does for the
                // kernel's own object.
                let value = (*entry).value;
                let address = if value < object.base { value + object.base } else { value };
                match (*entry).tag {
                    DT_STRTAB => strings = address,
                    DT_SYMTAB => symbols = address,
                    DT_GNU_HASH => gnu_hash = address,
                    DT_HASH => old_hash = address,
                    DT_VERSYM => versions = address,
                    DT_SONAME => own_name = Some(value),
                    _ => {}
                }
                entry = entry.add(1);
            }
        }
        let strings = strings as *const u8;
        let own_name = match own_name {
            // SAFETY: an offset into the object's own strings.
            Some(at) if !strings.is_null() => unsafe { strings.add(at) },
            _ => core::ptr::null(),
        };
        Self {
            strings,
            symbols: symbols as _,
            versions: versions as _,
            gnu_hash: gnu_hash as _,
            old_hash: old_hash as _,
            own_name,
        }
    }

    /// By the table that System V has, which few still bring.
    ///
    /// # Safety
    /// All must be the tables of one loaded object.
    unsafe fn look_up_old(&self, base: usize, name: *const u8) -> usize {
        let (mut hash, mut byte) = (0_u32, name);
        // SAFETY: the name ends with 0.
        while unsafe { *byte } != 0 {
            // SAFETY: as above.
            hash = (hash << 4).wrapping_add(u32::from(unsafe { *byte }));
            hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fff_ffff;
            // SAFETY: as above.
            byte = unsafe { byte.add(1) };
        }
        // SAFETY: the layout of the table is System V's: two words, a bucket each, and chains that end
        // with 0.
        unsafe {
            let (buckets, symbols) = (*self.old_hash, *self.old_hash.add(1));
            if buckets == 0 {
                return 0;
            }
            let bucket = self.old_hash.add(2);
            let chains = bucket.add(buckets as usize);
            let mut at = *bucket.add((hash % buckets) as usize);
            // No chain is longer than there are symbols.
            for _ in 0..symbols {
                if at == 0 || at >= symbols {
                    break;
                }
                let address = self.address(base, at as usize, name);
                if address != 0 {
                    return address;
                }
                at = *chains.add(at as usize);
            }
        }
        0
    }

    /// By the table that linkers make today.
    ///
    /// # Safety
    /// All must be the tables of one loaded object.
    unsafe fn look_up(&self, base: usize, name: *const u8, hash: u32) -> usize {
        let table = self.gnu_hash;
        // SAFETY: the layout of the table is the linker's: four words, the filter, a bucket each, and chains
        // that end with an odd hash.
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
    unsafe fn address(&self, base: usize, at: usize, name: *const u8) -> usize {
        // SAFETY: the index comes from the object's own table.
        let symbol = unsafe { &*self.symbols.add(at) };
        // SAFETY: there is a version for each symbol, if there are versions; names end with 0.
        let (hidden, same) = unsafe {
            let version = if self.versions.is_null() { 1 } else { *self.versions.add(at) };
            let same = equal(self.strings.add(symbol.name as usize), name);
            (version & VERSION_HIDDEN != 0, same)
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

/// Whether two texts are the same.
///
/// # Safety
/// Both must end with 0.
unsafe fn equal(mut text: *const u8, mut wanted: *const u8) -> bool {
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
