//! Copies from and to addresses that a program gave, which may lead nowhere.
//!
//! A fault in here is no fault of the program yet: the handler of SIGSEGV moves on to the instruction behind the copy, and
//! who called learns how many bytes are missing. So the kernel does it with the memory of its callers.

use core::arch::naked_asm;

/// `rep movsb`, and what is left of `count` when it ended or faulted.
///
/// # Safety
/// Every byte of both ranges is this process's to read and to write, or not mapped so.
#[unsafe(naked)]
unsafe extern "C" fn copy_bytes(_to: *mut u8, _from: *const u8, _count: usize) -> usize {
    // 3 bytes, 2 bytes, then the place where a fault goes on. The direction flag is clear in every C function.
    naked_asm!("mov rcx, rdx", "rep movsb", "mov rax, rcx", "ret")
}

/// Bytes of the instructions of `copy_bytes` up to the copy, and of the copy.
const BEFORE: usize = 3;
const COPY: usize = 2;

/// Where the copy stands, and where it is to go on after a fault.
fn place() -> (usize, usize) {
    let start = (copy_bytes as *const ()).addr() + BEFORE;
    (start, start + COPY)
}

/// Where a fault at `instruction` goes on, if it is one of these copies.
pub(super) fn landing(instruction: usize) -> Option<usize> {
    let (at, behind) = place();
    (instruction == at).then_some(behind)
}

/// Reads from an address of the program; says how many bytes it got.
pub(super) fn read(from: usize, into: &mut [u8]) -> usize {
    let source = core::ptr::with_exposed_provenance(from);
    // SAFETY: `into` is ours for that many bytes. What cannot be read ends the copy: this is only called when the handler
    // that knows `landing` is installed. Bytes that change meanwhile are copied as they are; nothing else is assumed.
    let left = unsafe { copy_bytes(into.as_mut_ptr(), source, into.len()) };
    into.len() - left
}

/// Writes to an address of the program, which it would have written to itself; says how many bytes it could.
pub(super) fn write(to: usize, from: &[u8]) -> usize {
    let target = core::ptr::with_exposed_provenance_mut(to);
    // SAFETY: the program is about to write these very bytes there, and is stopped until this returns; what cannot be
    // written ends the copy, as in `read`.
    let left = unsafe { copy_bytes(target, from.as_ptr(), from.len()) };
    from.len() - left
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
}
