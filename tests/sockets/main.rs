//! The sockets library in programs: what they print with it is what they print without, and what its file
//! shows and needs.
//!
//! The programs lie in the folder `c`. Each makes its calls and says what came of them, with errors; two runs
//! must say the same.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod built;
mod counters;
mod ended;
mod epolls;
mod equal;
mod file;
mod holders;
mod hostile;
mod killed;
mod launcher;
mod narrow;
mod planted;
mod rings;
mod started;
mod statistics;
mod strangers;
