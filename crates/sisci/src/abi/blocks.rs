//! The C functions for block transfers of SISCI 1.x.

use std::ffi::c_void;

use super::{Out, call};
use crate::block::{self, BlockTransfer, BlockTransferFn};
use crate::callback::Callback;
use crate::code::Code;
use crate::copy;
use crate::flags::USE_CALLBACK;
use crate::handle::Handle;
use crate::map::Map;

export! {
    fn SCITransferBlockAsync(
        source: Handle<Map>, source_offset: u32, destination: Handle<Map>, destination_offset: u32, size: u32,
        transfer: Out<Handle<BlockTransfer>>, callback: Option<BlockTransferFn>, argument: *mut c_void, flags: u32,
        error: Out<Code>,
    ) {
        call("SCITransferBlockAsync", error, (), || {
            transfer.needed("block")?;
            let callback = Callback::wanted(callback, argument, flags & USE_CALLBACK != 0);
            let (from, to) = (source_offset as usize, destination_offset as usize);
            copy::transfer_block(source, from, destination, to, size as usize)?;
            let handle = block::made()?;
            // Stored before the callback may look it up.
            transfer.put(handle);
            match callback {
                // Its return value has no meaning: the callback is called once.
                Some(callback) => block::tell(handle, move || {
                    callback.call(handle, Code::OK);
                }),
                None => Ok(()),
            }
        })
    }

    fn SCIWaitForBlockTransfer(transfer: Handle<BlockTransfer>, _timeout: u32, _flags: u32, error: Out<Code>) {
        call("SCIWaitForBlockTransfer", error, (), || block::wait(transfer))
    }

    fn SCIAbortBlockTransfer(transfer: Handle<BlockTransfer>, _flags: u32, error: Out<Code>) {
        call("SCIAbortBlockTransfer", error, (), || block::abort(transfer))
    }
}
