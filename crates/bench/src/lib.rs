#![forbid(unsafe_code)]
pub mod cpus;
pub mod duo;
pub mod env;
pub mod error;
pub mod figure;
pub mod floor;
pub mod layout;
pub mod limits;
pub mod patterns;
pub mod poll;
pub mod progress;
pub mod rng;
pub mod run;
pub mod stats;
pub mod timer;
pub mod verdict;
