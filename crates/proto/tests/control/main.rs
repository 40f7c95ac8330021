//! The control plane in memory: managers, programs and a network with a virtual clock and an adversary.
// The modules of a test are no interface, and what is not as expected ends the test.
#![allow(unreachable_pub, clippy::expect_used, clippy::panic)]

mod actor;
mod helpers;
mod page;
mod rng;
#[path = "../strategies/mod.rs"]
mod strategies;
mod tally;
mod truth;
mod world;

mod attach;
mod chaos;
mod groups;
mod hostile;
mod interrupts;
mod peers;
mod resume;
mod segments;
mod status;
mod stop;
