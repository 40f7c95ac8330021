//! Benchmarks: pattern × transport × statistics, each figure next to a baseline of the machine.
//!
//! What it is for: measuring what tieline does ([`patterns`]) next to what the machine allows at
//! the same moment ([`baseline`]), in alternating blocks ([`run`]), with the uncertainty of the
//! result ([`stats`], [`verdict`]). All results have one form ([`figure`], described in
//! `docs/schema.md`), from which tables, CSV and classic layouts are made ([`layout`]). Results
//! that are read back ([`results`]) are compared with older ones ([`compare`]) and judged by a file
//! ([`thresholds`]).
//!
//! What it must never do: print (it returns reports and reports its progress to a
//! [`progress::Progress`]); compare plain figures of different moments where ratios of one moment
//! each are known; drop a sample or a block without counting it; show a digit that the clock does
//! not resolve; report a pass for something that was not measured.
//!
//! Where to start reading: [`acceptance`] for the whole, [`patterns::scipp`] for one benchmark,
//! [`run`] and [`stats::paired`] for the basis of the verdicts.
#![forbid(unsafe_code)]

pub mod acceptance;
pub mod baseline;
pub mod best;
pub mod builds;
pub mod cluster;
pub mod compare;
pub mod copy_plan;
pub mod cpus;
pub mod env;
pub mod error;
pub mod figure;
pub mod layout;
pub mod limits;
pub mod noise;
pub mod patterns;
pub mod pinned_pair;
pub mod poll;
pub mod progress;
pub mod quantity;
pub mod results;
pub mod rivals;
pub mod rng;
pub mod run;
pub mod stats;
pub mod thresholds;
pub mod timer;
pub mod verdict;
