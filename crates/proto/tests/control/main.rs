//! The control plane in memory: managers, programs and a network with a virtual clock and an adversary.

mod actor;
mod page;
mod rng;
mod world;

mod smoke;
