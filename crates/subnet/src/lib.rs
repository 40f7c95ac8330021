//! A subnet manager: brings a switched fabric up, and repairs its routes after a fault.
//!
//! What it is for: [`Manager`] sweeps a fabric, gives its ports LIDs ([`record`] keeps them by GUID),
//! computes forwarding tables with the engines of `topology`, writes what differs, and makes the links
//! active. Then it hears traps, looks for changes at an interval, and after a change writes only the entries
//! that differ. [`Manager::plan`] lists what it would set ([`set::Set`]), and sends nothing but requests to
//! read.
//!
//! What it must never do: set anything while another manager is master; make a link active before its tables
//! are written; write entries in an order in which a packet can be caught in a loop, or a credit loop can
//! last; give one LID to two ports; wait without limit, whatever the fabric responds.
//!
//! Where to start reading: [`Manager`]; then [`model`] (what is known of the fabric), [`set`] (what is sent)
//! and [`routes`] (what is decided). Nothing here reads a clock: time is that of the transport, which in
//! tests is virtual.
#![forbid(unsafe_code)]

mod asking;
pub mod change;
mod flaps;
mod front;
mod hearing;
pub mod keys;
pub mod lids;
pub mod manager;
pub mod model;
pub mod multicast;
mod ordered;
pub mod partitions;
pub mod peer;
pub mod protection;
pub mod qos;
pub mod record;
pub mod report;
pub mod routes;
mod sa;
pub mod set;
#[cfg(test)]
mod tests;
pub mod wanted;

pub use manager::{Event, ManageError, Manager, Options, Planned};
pub use report::{BroughtUp, Repaired};
