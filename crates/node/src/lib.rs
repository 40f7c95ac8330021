//! The node manager: names, permissions, descriptors, sessions and link state of one node.
//!
//! What it is for: the daemon behind `tieline node run` ([`Daemon`]), and the handling of whole clusters of
//! them on one machine behind `tieline up` and `tieline down` ([`cluster`]). The decisions are made in crate
//! `proto`; here are the sockets, the files, the processes.
//!
//! What it must never do: touch a byte of payload, wait for anybody (one thread serves all), or trust a
//! descriptor that it has not looked at.
//!
//! Where to start reading: [`daemon`], then its `inputs` and `outputs`; [`runtime_dir`] and [`lock`] say what
//! lies where on disk and who may touch it.
#![forbid(unsafe_code)]

mod acl;
mod agent;
pub mod cluster;
pub mod config;
mod connection;
pub mod copy_plan;
mod credentials;
pub mod daemon;
pub mod descriptor;
mod dial_addresses;
mod dials;
mod door;
mod error;
mod forward;
pub mod hosts;
mod in_flight;
mod interrupt_sockets;
mod listener;
pub mod lock;
mod log_gate;
mod network;
mod news;
mod notify;
pub mod relay;
mod remote;
pub mod runtime_dir;
mod watch;

pub use daemon::{Daemon, DaemonOptions, StopHandle};
pub use error::{NodeError, Result};
