//! Calls of the program's callbacks: never with a lock held, never while unwinding.

use std::ffi::c_void;

use crate::block::{BlockTransfer, BlockTransferFn};
use crate::code::Code;
use crate::data_interrupt::LocalDataInterrupt;
use crate::dma::DmaQueue;
use crate::handle::Handle;
use crate::interrupt::LocalInterrupt;
use crate::local::LocalSegment;
use crate::remote::RemoteSegment;

/// `sci_callback_action_t`, of which one value means something: call no more.
pub type Action = i32;
/// `SCI_CALLBACK_CANCEL`.
pub const CANCEL: Action = 1;

/// `sci_segment_cb_reason_t`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// `SCI_CB_CONNECT`.
    Connect = 1,
    /// `SCI_CB_DISCONNECT`.
    Disconnect,
    /// `SCI_CB_NOT_OPERATIONAL`.
    NotOperational,
    /// `SCI_CB_OPERATIONAL`.
    Operational,
    /// `SCI_CB_LOST`.
    Lost,
}

/// The reason that a failed wait returns: none.
pub const NO_REASON: u32 = 0;

/// `sci_cb_local_segment_t`.
pub type LocalSegmentFn =
    unsafe extern "C" fn(*mut c_void, Handle<LocalSegment>, Reason, u32, u32, Code) -> Action;
/// `sci_cb_remote_segment_t`.
pub type RemoteSegmentFn = unsafe extern "C" fn(*mut c_void, Handle<RemoteSegment>, Reason, Code) -> Action;
/// `sci_cb_dma_t`.
pub type DmaFn = unsafe extern "C" fn(*mut c_void, Handle<DmaQueue>, Code) -> Action;
/// `sci_cb_interrupt_t`.
pub type InterruptFn = unsafe extern "C" fn(*mut c_void, Handle<LocalInterrupt>, Code) -> Action;
/// `sci_cb_data_interrupt_t`.
pub type DataInterruptFn =
    unsafe extern "C" fn(*mut c_void, Handle<LocalDataInterrupt>, *mut c_void, u32, Code) -> Action;

/// A function with the argument that the program wants to get back.
#[derive(Clone, Copy, Debug)]
pub struct Callback<F> {
    function: F,
    argument: *mut c_void,
}

// SAFETY: the library never examines what the argument points to; by SCI_FLAG_USE_CALLBACK the
// program permits that another thread calls the function.
unsafe impl<F: Send> Send for Callback<F> {}
// SAFETY: as above.
unsafe impl<F: Sync> Sync for Callback<F> {}

impl<F> Callback<F> {
    /// The program's callback, if it gave a function and the flag to use it.
    pub fn wanted(function: Option<F>, argument: *mut c_void, is_used: bool) -> Option<Self> {
        is_used.then_some(())?;
        function.map(|function| Self { function, argument })
    }
}

macro_rules! callable {
    ($($function:ty: ($($name:ident: $type:ty),*);)*) => {$(
        impl Callback<$function> {
            /// Calls it; whether it wants to be called again.
            pub(crate) fn call(&self $(, $name: $type)*) -> bool {
                // SAFETY: the program gave this function, of this type, to be called with this
                // argument.
                let action = unsafe { (self.function)(self.argument $(, $name)*) };
                action != CANCEL
            }
        }
    )*};
}

callable! {
    LocalSegmentFn: (segment: Handle<LocalSegment>, reason: Reason, node: u32, adapter: u32, error: Code);
    RemoteSegmentFn: (segment: Handle<RemoteSegment>, reason: Reason, status: Code);
    DmaFn: (queue: Handle<DmaQueue>, status: Code);
    InterruptFn: (interrupt: Handle<LocalInterrupt>, status: Code);
    BlockTransferFn: (transfer: Handle<BlockTransfer>, status: Code);
    DataInterruptFn: (interrupt: Handle<LocalDataInterrupt>, data: *mut c_void, length: u32, status: Code);
}
