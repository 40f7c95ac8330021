//! Live switched fabrics: discovery, counters and reports, and a simulated fabric with a server.
//!
//! What it is for: [`sweep`] discovers a fabric and makes a graph of it, with a list of anomalies;
//! [`counters`] reads the counters of all ports in parallel. [`agents`] are the management agents of a fabric
//! that is simulated from a graph; [`server`] offers that fabric to other programs. [`observe`] takes a
//! [`snapshot`] of a fabric, which files keep; [`report`] lists what is wrong with a snapshot, and
//! [`what_if`] judges its routes and computes the effect of a fault.
//!
//! What it must never do: change a fabric that it examines (only the simulated one is ever set, by users that
//! may); clear a counter; crash, hang or guess silently, whatever a fabric responds.
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
pub mod poll;
pub mod report;
pub mod server;
pub mod snapshot;
pub mod sweep;
pub mod tables;
pub mod vls;
pub mod what_if;
