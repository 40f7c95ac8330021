//! What the sockets library, its launcher and the readers of its statistics must agree on.
//!
//! What it is for: [`launch`] finds the library, and starts programs as crate `entry` says, [`statistics`]
//! makes the statistics file and reads it, [`kernel`] and [`tcp_info`] know what the kernel counts of
//! connections, and [`status`] says whose all of that is.
//!
//! What it must never do: trust a statistics file, which any process of the user may write; run anything;
//! print.
//!
//! Where to start reading: [`launch`].
#![forbid(unsafe_code)]

pub mod kernel;
pub mod launch;
pub mod statistics;
pub mod status;
pub mod tcp_info;

pub use entry::{
    ENV_CHILDREN, ENV_LIBRARY, ENV_RINGS, ENV_STATISTICS, LIBRARY, RINGS_FORCED, environment, layout, program,
};
