//! Hosts on one machine that share nothing with each other: each has a network, processes, mounts and a name
//! of its own.
//!
//! What it is for: `tieline up --hosts-in-namespaces`, which tries and tests what happens between hosts where
//! there is one machine. A host is a set of namespaces of the kernel, with a node manager that has joined the
//! cluster as one on another machine would; a bridge of its own for each rail connects the hosts.
//!
//! What it must never do: leave anything when the hosts are ended, however they end; touch the machine's own
//! network; let two hosts reach the same memory, file or socket.
//!
//! Where to start reading: [`up()`], which starts the process of `hub`, which starts one of `host` for each
//! host. The file `state` says how other commands find them, and docs/adr/0013 why processes hold the
//! namespaces.
#![forbid(unsafe_code)]

mod delay;
mod down;
mod enter;
mod error;
mod forwarder;
mod host;
mod hub;
mod ip;
mod line;
mod loss;
mod mounts;
mod plan;
mod process;
mod rate;
mod state;
mod up;
mod wait;
mod words;

use std::ffi::OsString;

pub use delay::Delay;
pub use down::{DownReport, down};
pub use enter::enter;
pub use error::{NamespacesError, Result};
pub use loss::Loss;
pub use plan::{HOSTS_MAX, HOSTS_MIN, RAILS_MAX};
pub use rate::Rate;
pub use state::{Host, are_up, clusters, find, is_there};
pub use up::{Lease, Progress, UpOptions, UpReport, up};

/// First argument of the processes that this crate starts of its caller's binary.
const HUB: &str = "hosts-in-namespaces-hub";
const HOST: &str = "hosts-in-namespaces-host";
const FORWARDER: &str = "hosts-in-namespaces-forwarder";
const ENTER: &str = "hosts-in-namespaces-enter";

/// If this process was started by this crate: does what it was started for, and returns its exit status.
/// `None`: it is a command of the user. To be called before anything else, while the process has one thread.
pub fn is_part(words: &[OsString]) -> Option<u8> {
    let rest = words.get(2..).unwrap_or_default();
    match words.get(1)?.to_str()? {
        HUB => Some(hub::run(rest)),
        HOST => Some(host::run(rest)),
        FORWARDER => Some(forwarder::run(rest)),
        ENTER => Some(enter::inside(rest)),
        _ => None,
    }
}
