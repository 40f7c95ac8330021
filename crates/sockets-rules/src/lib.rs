//! What the sockets library, its launcher and the readers of its statistics agree upon.
//!
//! What it is for: [`program`] says whether the library can enter a program, [`launch`] how it is started, [`environment`] with what
//! environment, [`layout`] how statistics lie in their file, [`statistics`] reads them, [`kernel`] and [`tcp_info`] know what the kernel
//! counts of connections, and [`status`] says whose all of that is.
//!
//! What it must never do: trust a file of statistics, which any process of the user may write; run anything; print.
//!
//! Where to start reading: [`launch`].
#![forbid(unsafe_code)]

mod elf;
pub mod environment;
pub mod kernel;
pub mod launch;
pub mod layout;
pub mod program;
mod search;
pub mod statistics;
pub mod status;
pub mod tcp_info;

/// Name of the library's file.
pub const LIBRARY: &str = "libtieline-sockets.so";
/// Names the library's file, instead of the one beside the program or in the installation.
pub const ENV_LIBRARY: &str = "TIELINE_SOCKETS_LIBRARY";
/// Names the file of statistics, for the library.
pub const ENV_STATISTICS: &str = "TIELINE_SOCKETS_STATISTICS";
/// `1`: connections inside this machine may go through rings.
pub const ENV_RINGS: &str = "TIELINE_SOCKETS_RINGS";
/// Its value that has each connection go through a ring as soon as both ends exist: for tests.
pub const RINGS_FORCED: &str = "2";
/// `0`: the library takes itself out of the environment, so that it enters no child.
pub const ENV_CHILDREN: &str = "TIELINE_SOCKETS_CHILDREN";
