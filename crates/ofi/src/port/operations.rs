//! Posts operations to libfabric (`fi_writemsg`, `fi_read`, `fi_send`, `fi_recv`), and reads their
//! completions.

use std::os::fd::BorrowedFd;
use std::ptr::null_mut;

use fabric_sys::abi::{fi_cq_data_entry, fi_cq_err_entry, fi_msg_rma, fi_rma_iov, fid};
use fabric_sys::calls::{
    fi_cq_read, fi_cq_readerr, fi_cq_strerror, fi_read, fi_recv, fi_send, fi_trywait, fi_writemsg,
};
use fabric_sys::constants::{
    FI_ADDR_UNSPEC, FI_COMPLETION, FI_DELIVERY_COMPLETE, FI_EAGAIN, FI_EAVAIL, FI_EINVAL,
};
use libc::{c_int, c_void};
use shm::sync::Ordering;

use super::{Address, Completion, Context, Failure, Port, Posted, SLOTS, place};
use crate::handles::text;

/// Completions that are read at once.
const BATCH: usize = 16;

/// A block of remote memory.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) address: u64,
    pub(crate) len: usize,
    pub(crate) key: u64,
}

/// What the completion of a write says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteEnd {
    /// The bytes are in the remote memory.
    Arrived,
    /// They are on their way: a later write tells when they have arrived.
    SlotFree,
}

impl Port {
    /// What all posts have in common: the slot is taken, and given back if nothing was posted.
    #[inline]
    fn post(
        &self,
        slot: usize,
        len: usize,
        call: impl FnOnce(*mut c_void, *mut c_void, *mut c_void) -> isize,
    ) -> Posted {
        let (offset, slot_bytes) = place(slot);
        if slot >= SLOTS || len > slot_bytes || self.posted[slot].swap(true, Ordering::Acquire) {
            return Posted::Failed(FI_EINVAL);
        }
        let buffer = self.staging().as_ptr().wrapping_add(offset).cast();
        let descriptor = match self.staging_registration {
            // SAFETY: a live registration.
            Some(registration) => unsafe { (*registration.as_ptr()).mem_desc },
            None => null_mut(),
        };
        let failed = call(self.contexts[slot].0.get().cast(), buffer, descriptor);
        if failed == 0 {
            return Posted::Yes;
        }
        // Release: pairs with the Acquire of the next swap above.
        self.posted[slot].store(false, Ordering::Release);
        if failed == -(FI_EAGAIN as isize) {
            Posted::Again
        } else {
            Posted::Failed(failed.unsigned_abs() as c_int)
        }
    }

    /// Writes the first bytes of a slot to remote memory; it completes when they are there, or when the slot
    /// is free again.
    #[inline]
    pub(crate) fn write(
        &self,
        slot: usize,
        to: Address,
        Target { address, len, key }: Target,
        end: WriteEnd,
    ) -> Posted {
        let flags = match end {
            WriteEnd::Arrived => FI_COMPLETION | FI_DELIVERY_COMPLETE,
            WriteEnd::SlotFree => FI_COMPLETION,
        };
        self.post(slot, len, |context, buffer, mut descriptor| {
            let from = libc::iovec { iov_base: buffer, iov_len: len };
            let target = fi_rma_iov { addr: address, len, key };
            let message = fi_msg_rma {
                msg_iov: &raw const from,
                desc: &raw mut descriptor,
                iov_count: 1,
                addr: to.0,
                rma_iov: &raw const target,
                rma_iov_count: 1,
                context,
                data: 0,
            };
            // SAFETY: a live end point; the description lives through the call; buffer and context of a slot
            // live until the end point is closed, and `post` has made sure that no other operation has them.
            unsafe { fi_writemsg(self.ep.as_ptr(), &raw const message, flags) }
        })
    }

    /// Reads remote memory into the first bytes of a slot.
    #[inline]
    pub(crate) fn read(&self, slot: usize, len: usize, from: Address, address: u64, key: u64) -> Posted {
        self.post(slot, len, |context, buffer, descriptor| {
            // SAFETY: as for `write`.
            unsafe { fi_read(self.ep.as_ptr(), buffer, len, descriptor, from.0, address, key, context) }
        })
    }

    /// Sends the first bytes of a slot.
    #[inline]
    pub(crate) fn send(&self, slot: usize, len: usize, to: Address) -> Posted {
        self.post(slot, len, |context, buffer, descriptor| {
            // SAFETY: as for `write`.
            unsafe { fi_send(self.ep.as_ptr(), buffer, len, descriptor, to.0, context) }
        })
    }

    /// Lets a slot receive a message.
    #[inline]
    pub(crate) fn receive(&self, slot: usize) -> Posted {
        let len = place(slot).1;
        self.post(slot, len, |context, buffer, descriptor| {
            // SAFETY: as for `write`.
            unsafe { fi_recv(self.ep.as_ptr(), buffer, len, descriptor, FI_ADDR_UNSPEC, context) }
        })
    }

    /// Reads completions, which is also how a provider with manual progress gets on. Calls `each` for every
    /// one; returns how many.
    #[inline]
    pub(crate) fn completions(&self, mut each: impl FnMut(Completion)) -> usize {
        let mut entries = [fi_cq_data_entry::zeroed(); BATCH];
        // SAFETY: a live queue of this format, and a place for that many entries.
        let count = unsafe { fi_cq_read(self.cq.as_ptr(), entries.as_mut_ptr().cast(), BATCH) };
        let Ok(count) = usize::try_from(count) else {
            if count != -(FI_EAVAIL as isize) {
                return 0;
            }
            return self.failed_completion().map_or(0, |completion| {
                each(completion);
                1
            });
        };
        for entry in entries.iter().take(count) {
            each(Completion { slot: self.ended(entry.op_context), outcome: Ok(entry.len) });
        }
        count
    }

    #[cold]
    fn failed_completion(&self) -> Option<Completion> {
        let mut entry = fi_cq_err_entry::zeroed();
        let mut words = [0; 128];
        // SAFETY: a live queue, and places for an entry and for text of that length; the answer is read
        // before the queue is used again.
        let detail = unsafe {
            if fi_cq_readerr(self.cq.as_ptr(), &raw mut entry, 0) != 1 {
                return None;
            }
            let (number, data) = (entry.prov_errno, entry.err_data);
            text(fi_cq_strerror(self.cq.as_ptr(), number, data, words.as_mut_ptr(), words.len()))
        };
        Some(Completion {
            slot: self.ended(entry.op_context),
            outcome: Err(Failure { errno: entry.err, detail }),
        })
    }

    /// The slot of a context, which is free for the next operation from here on.
    fn ended(&self, context: *mut c_void) -> Option<usize> {
        let start = self.contexts.as_ptr() as usize;
        let offset = (context as usize).checked_sub(start)?;
        let slot = offset / size_of::<Context>();
        if slot >= SLOTS || !offset.is_multiple_of(size_of::<Context>()) {
            return None;
        }
        // Release: pairs with the Acquire of the swap in `post`.
        self.posted[slot].swap(false, Ordering::Release).then_some(slot)
    }

    /// The descriptor that becomes readable when there may be work; `None` if the provider has none.
    pub(crate) fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the queue's own descriptor, which lives as long as the queue, and so as long as `self`.
        self.wait_fd.map(|fd| unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Whether one may sleep until the descriptor becomes readable.
    pub(crate) fn may_sleep(&self) -> bool {
        let mut objects = [self.cq.as_ptr().cast::<fid>()];
        // SAFETY: live objects, as many as are said.
        unsafe { fi_trywait(self.fabric.as_ptr(), objects.as_mut_ptr(), 1) == 0 }
    }
}
