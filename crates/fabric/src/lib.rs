//! Live switched fabrics: discovery, counters and reports, and a simulated fabric with a server.
//!
//! What it is for: [`sweep`] asks its way through a fabric and makes a graph of what it finds, with a list of what is
//! doubtful; [`counters`] reads the counters of all ports at once. [`agents`] is the other side: the management agents of a
//! fabric that is simulated from a graph; [`server`] lets programs of others see that fabric. What was seen is a [`snapshot`],
//! which [`observe`] takes and files keep; [`report`] says of any snapshot what is wrong with it, and [`study`] what its routes
//! are worth and what a fault would do to them.
//!
//! What it must never do: change a fabric that it looks at (only the simulated one is ever set, by who is allowed to); clear
//! a counter; crash, hang or guess silently, whatever a fabric answers.
//!
//! Where to start reading: [`sweep::sweep`]; then [`agents::Agents`] and [`server::serve`].
#![forbid(unsafe_code)]

pub mod agents;
pub mod console;
pub mod counters;
pub mod counting;
pub mod files;
pub mod names;
pub mod observe;
pub mod relook;
pub mod report;
pub mod server;
pub mod snapshot;
pub mod study;
pub mod sweep;
pub mod tables;
pub mod vls;
