//! The control plane in memory: managers, programs and a network with a virtual clock and an adversary.
//!
//! Where to start reading: `world` (the cluster), `actor` (a program), `truth` (what must hold in the end),
//! `chaos`.
// The modules of a test are no interface, and what is not as expected ends the test.
#![allow(unreachable_pub, clippy::expect_used, clippy::panic)]

mod actor;
mod admin;
mod desk;
mod helpers;
mod kernel;
mod page;
mod rng;
#[path = "../strategies/mod.rs"]
mod strategies;
mod tally;
mod truth;
mod world;

// The tests; above is what they are made of.
mod admission;
mod agents;
mod attach;
mod by_network;
mod chaos;
mod far_status;
mod groups;
mod hostile;
mod hosts;
mod identity;
mod interrupts;
mod peers;
mod quotas;
mod relay;
mod resume;
mod segments;
mod sharing;
mod status;
mod stop;
mod trouble;
