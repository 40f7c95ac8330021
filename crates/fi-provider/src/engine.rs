//! What the provider does, without C's interface: end points of crate `message-queue`, and where their
//! completions go.

pub(crate) mod arithmetic;
pub(crate) mod buffers;
pub(crate) mod completion;
pub(crate) mod endpoint;
mod inner;
pub(crate) mod memory;
pub(crate) mod memory_lane;
pub(crate) mod name;
pub(crate) mod notifier;
pub(crate) mod own_progress;
pub(crate) mod request;
pub(crate) mod slab;
pub(crate) mod state;
pub(crate) mod wait;
