//! Segments of memory that the program has already: created with `SCI_FLAG_EMPTY`, given memory by
//! SCIRegisterSegmentMemory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shm::adopt::Adopted;

use crate::code::{Code, Result};
use crate::handle::Handle;
use crate::library::Library;
use crate::local::LocalSegment;

/// Whether a segment has its memory yet.
#[derive(Debug)]
pub struct Registration {
    /// It was created without memory.
    is_needed: bool,
    memory: Mutex<Option<Adopted>>,
}

impl Registration {
    /// Creates the state of a segment; `is_needed` if it was created without memory.
    pub fn new(is_needed: bool) -> Self {
        Self { is_needed, memory: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Adopted>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A segment without memory cannot be used.
    pub fn check(&self, id: u32) -> Result<()> {
        if self.is_needed && self.lock().is_none() {
            let detail =
                format!("segment {id} was created with SCI_FLAG_EMPTY: call SCIRegisterSegmentMemory first");
            return Err(Code::ILLEGAL_OPERATION.because(detail));
        }
        Ok(())
    }

    /// The pages become the program's own again, with what they hold.
    pub fn end(&self) {
        if let Some(memory) = self.lock().take() {
            // If the kernel has no memory for that, the pages stay the segment's, which does no
            // harm.
            let _ = memory.release();
        }
    }
}

/// SCIRegisterSegmentMemory.
pub fn register(handle: Handle<LocalSegment>, address: usize, size_bytes: usize) -> Result<()> {
    let segment: Arc<LocalSegment> = Library::get()?.local_segments.get(handle)?;
    let (id, registration) = (segment.id(), segment.registration());
    if !registration.is_needed {
        let detail = format!("segment {id} has memory of its own: it was created without SCI_FLAG_EMPTY");
        return Err(Code::ILLEGAL_OPERATION.because(detail));
    }
    let page = rustix::param::page_size();
    if !address.is_multiple_of(page) {
        let detail = format!("the address {address:#x} is not a multiple of the page size, {page}");
        return Err(Code::OFFSET_ALIGNMENT.because(detail));
    }
    if !size_bytes.is_multiple_of(page) {
        let detail = format!("{size_bytes} bytes are not a multiple of the page size, {page}");
        return Err(Code::SIZE_ALIGNMENT.because(detail));
    }
    let wanted = segment.size_bytes().next_multiple_of(page);
    if size_bytes != wanted {
        let detail = format!("segment {id} was created for {wanted} bytes in whole pages, not {size_bytes}");
        return Err(Code::ILLEGAL_PARAMETER.because(detail));
    }
    let mut memory = registration.lock();
    if memory.is_some() {
        return Err(Code::ILLEGAL_OPERATION.because(format!("segment {id} has its memory already")));
    }
    // SAFETY: by this call the program gives the memory to be shared with others; that no thread
    // has its stack there is its promise, too. No Rust reference to it exists. What is not ordinary
    // memory of the program is refused.
    let adopted = unsafe { segment.memory().region().adopt(address) }?;
    *memory = Some(adopted);
    Ok(())
}
