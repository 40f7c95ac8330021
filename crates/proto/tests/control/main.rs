//! The control plane in memory: managers, programs and a network with a virtual clock and an adversary.
#![allow(unreachable_pub)] // The modules of a test are no interface.

mod actor;
mod helpers;
mod page;
mod rng;
mod truth;
mod world;

mod attach;
mod chaos;
mod groups;
mod interrupts;
mod peers;
mod replay;
mod resume;
mod segments;
mod status;
mod stop;
