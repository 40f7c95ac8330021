//! The fleet commands against real ssh servers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod files;
mod installs;
mod runs;
mod servers;
