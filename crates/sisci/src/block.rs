//! `sci_block_transfer_t` (SISCI 1.x): a copy between two maps, whose completion is queried later.
//!
//! The copy is complete before SCITransferBlockAsync returns: a processor makes it in any case, and
//! the caller's has the data in its cache. Only the callback comes from another thread, as
//! callbacks do.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::code::{Code, Result};
use crate::handle::{Handle, Handled, Kind};
use crate::library::Library;
use crate::worker::Worker;

/// `sci_cb_block_transfer_t`.
pub type BlockTransferFn = unsafe extern "C" fn(*mut c_void, Handle<BlockTransfer>, Code) -> c_int;

/// A transfer that has ended and was not queried yet.
#[derive(Debug, Default)]
pub struct BlockTransfer {
    worker: Worker,
}

impl Handled for BlockTransfer {
    const KIND: Kind = Kind::BlockTransfer;
}

impl BlockTransfer {
    /// Waits for the callback to end.
    pub fn stop(&self) {
        self.worker.stop(|| {});
    }
}

/// Gives a transfer that has been made its handle.
pub fn made() -> Result<Handle<BlockTransfer>> {
    Library::get()?.block_transfers.insert(Arc::new(BlockTransfer::default()))
}

/// Lets the worker call `callback` for a transfer; the handle ends when it returns.
pub fn tell(handle: Handle<BlockTransfer>, callback: impl FnOnce() + Send + 'static) -> Result<()> {
    let library = Library::get()?;
    let transfer = library.block_transfers.get(handle)?;
    let work = move || {
        callback();
        // It may be gone already, if the callback or SCITerminate has ended it.
        drop(library.block_transfers.remove(handle));
    };
    transfer.worker.start("sisci-block", work).inspect_err(|_| drop(library.block_transfers.remove(handle)))
}

/// SCIWaitForBlockTransfer: it has ended, and so does its handle.
pub fn wait(handle: Handle<BlockTransfer>) -> Result<()> {
    let library = Library::get()?;
    if library.block_transfers.get(handle)?.worker.is_there() {
        return Err(Code::ILLEGAL_OPERATION
            .because("it has a callback, which gets its end: no thread can wait for it"));
    }
    library.block_transfers.remove(handle).map(drop)
}

/// SCIAbortBlockTransfer: nothing is left to be stopped.
pub fn abort(handle: Handle<BlockTransfer>) -> Result<()> {
    let library = Library::get()?;
    if library.block_transfers.get(handle)?.worker.is_there() {
        // The callback's thread ends it.
        return Ok(());
    }
    library.block_transfers.remove(handle).map(drop)
}
