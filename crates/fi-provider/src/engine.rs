//! What the provider does, without C's interface: matching, sending and receiving, meeting of processes.

pub(crate) mod buffers;
pub(crate) mod completion;
pub(crate) mod endpoint;
pub(crate) mod matching;
pub(crate) mod meet;
pub(crate) mod name;
pub(crate) mod peer;
pub(crate) mod pull;
pub(crate) mod slab;
pub(crate) mod state;
pub(crate) mod wire;
