//! Copies from and to addresses of a program that may be invalid.
//!
//! A fault in here is no fault of the program yet: the handler of SIGSEGV moves on to the
//! instruction behind the copy, and the caller learns how many bytes are missing. So the kernel
//! does it with the memory of its callers.

use core::arch::naked_asm;

/// `rep movsb`, and what is left of `count` when it ended or faulted.
///
/// # Safety
/// Every byte of both ranges is this process's to read and to write, or not mapped so.
#[unsafe(naked)]
unsafe extern "C" fn copy_bytes(_to: *mut u8, _from: *const u8, _count: usize) -> usize {
    // 3 bytes, 2 bytes, then the place where a fault continues. The direction flag is clear in
    // every C function.
    naked_asm!("mov rcx, rdx", "rep movsb", "mov rax, rcx", "ret")
}

/// One load or store of a word, in one piece: what it loaded, and 0 if it did not fault.
macro_rules! word {
    ($($name:ident $instruction:literal;)*) => {$(
        /// # Safety
        /// The word is this process's to read, or to write, or not mapped so.
        #[unsafe(naked)]
        unsafe extern "C" fn $name(_address: usize, _value: u64) -> Word {
            // The access is 3 bytes long, all the rest up to `LANDING` too.
            naked_asm!($instruction, "xor edx, edx", "ret", "mov edx, 1", "ret")
        }
    )*};
}

/// The address at which the thread continues after a fault of a word's access, relative to its
/// function.
const LANDING: usize = 6;

/// Returned in two registers.
#[derive(Clone, Copy)]
#[repr(C)]
struct Word {
    value: u64,
    fault: u64,
}

word! {
    load_8 "movzx eax, byte ptr [rdi]"; load_16 "movzx eax, word ptr [rdi]"; load_32 "mov eax, [rdi]; nop"; load_64 "mov rax, [rdi]";
    store_8 "mov [rdi], sil"; store_16 "mov [rdi], si"; store_32 "mov [rdi], esi; nop"; store_64 "mov [rdi], rsi";
}

type Access = unsafe extern "C" fn(usize, u64) -> Word;
const LOADS: [Access; 4] = [load_8, load_16, load_32, load_64];
const STORES: [Access; 4] = [store_8, store_16, store_32, store_64];

fn of_width(all: &[Access; 4], width: usize) -> Option<Access> {
    width.is_power_of_two().then(|| all.get(width.trailing_zeros() as usize).copied())?
}

/// Loads a word of 1, 2, 4 or 8 bytes, in one piece.
pub(super) fn load(address: usize, width: usize) -> Option<u64> {
    // SAFETY: as `read`.
    let word = unsafe { of_width(&LOADS, width)?(address, 0) };
    (word.fault == 0).then_some(word.value)
}

/// Stores a word of 1, 2, 4 or 8 bytes, in one piece; false if it did not.
pub(super) fn store(address: usize, value: u64, width: usize) -> bool {
    // SAFETY: the program is about to store this very word there, and is stopped until this
    // returns.
    of_width(&STORES, width).is_some_and(|store| unsafe { store(address, value) }.fault == 0)
}

/// Bytes of the instructions of `copy_bytes` up to the copy, and of the copy.
const BEFORE: usize = 3;
const COPY: usize = 2;

/// The position of the copy, and where it is to continue after a fault.
fn place() -> (usize, usize) {
    let start = (copy_bytes as *const ()).addr() + BEFORE;
    (start, start + COPY)
}

/// The address at which the thread continues after a fault at `instruction`, if that is one of
/// these.
pub(super) fn landing(instruction: usize) -> Option<usize> {
    let (at, behind) = place();
    if instruction == at {
        return Some(behind);
    }
    let is_word = LOADS.iter().chain(&STORES).any(|access| (*access as *const ()).addr() == instruction);
    is_word.then_some(instruction + LANDING)
}

/// Reads from an address of the program; returns the number of bytes read.
pub(super) fn read(from: usize, into: &mut [u8]) -> usize {
    let source = core::ptr::with_exposed_provenance(from);
    // SAFETY: `into` is ours for that many bytes. Memory that cannot be read ends the copy: this is
    // only called when the handler that uses `landing` is installed. Bytes that change during the
    // copy are copied as they are; nothing else is assumed.
    let left = unsafe { copy_bytes(into.as_mut_ptr(), source, into.len()) };
    into.len() - left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_the_copy_is_where_the_handler_believes_it() {
        let (at, behind) = place();
        let instruction: *const [u8; COPY] = core::ptr::with_exposed_provenance(at);
        // SAFETY: these are bytes of the function above, which is readable.
        assert_eq!(unsafe { *instruction }, [0xf3, 0xa4]);
        assert_eq!((landing(at), landing(behind)), (Some(behind), None));
    }

    #[test]
    fn words_are_loaded_and_stored_and_a_fault_is_told() {
        crate::group::trap::install().unwrap();
        let mut memory = [0x1112_1314_1516_1718_u64, u64::MAX];
        let at = memory.as_mut_ptr().expose_provenance();
        assert_eq!(
            [1, 2, 4, 8].map(|width| load(at, width)),
            [0x18, 0x1718, 0x1516_1718, 0x1112_1314_1516_1718].map(Some)
        );
        assert!(store(at, 0xffff_ff01, 1) && store(at + 2, 0xffff_0203, 2) && store(at + 4, 0x0405_0607, 4));
        assert_eq!(load(at, 8), Some(0x0405_0607_0203_1701));
        assert!(store(at + 8, 5, 8));
        assert_eq!(load(at + 8, 8), Some(5));
        for width in [1, 2, 4, 8] {
            assert_eq!((load(16, width), store(16, 1, width)), (None, false));
        }
        assert_eq!((load(at, 3), load(at, 16)), (None, None));
        let mut bytes = [0; 4];
        assert_eq!(read(16, &mut bytes), 0);
    }
}
