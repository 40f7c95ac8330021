//! Tests of a cluster, and the verdict on it.
//!
//! What it is for: [`cable`] compares the links with a plan, [`diag`] tests nodes statically, [`exchange`]
//! sends checked data between every pair, [`run`] tests in order and reports PASS, FAIL or INCONCLUSIVE, as
//! text and as JSON, [`report`] makes a page of that, and [`bundle`] an archive for support.
//!
//! What it must never do: call something passed that did not run; print (it returns reports, the binary
//! prints them).
//!
//! Where to start reading: [`run`].
#![forbid(unsafe_code)]

pub mod agent;
mod agreement;
pub mod baseline;
pub mod bundle;
pub mod cable;
pub mod capacity;
pub mod clusters;
pub mod conntest;
pub mod diag;
pub mod exchange;
pub mod far_end;
mod late;
pub mod latency;
pub mod own;
pub mod pairs;
pub mod report;
pub mod run;
pub mod speed;
pub mod status;
pub mod suspect;
pub mod swap;
pub mod target;
pub mod verdict;
pub mod writer;

pub use target::Target;
pub use verdict::Verdict;
