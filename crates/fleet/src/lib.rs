//! Commands on the hosts of a cluster, over the user's own `ssh`: one for many hosts, and starting and
//! stopping their node managers.
//!
//! What it is for: `tieline fleet`, `tieline up --hosts FILE` and `tieline down --hosts FILE`. Each host
//! needs a user that may log in without being asked for a password. Everything that ssh is configured to do
//! (names, keys, agents, jump hosts, known hosts) holds.
//!
//! The program `ssh` is used, and no library: the crate `openssh` needs an asynchronous runtime, and starts
//! two programs for each host where one will do.
//!
//! What it must never do: ask for a password; put a token or a key on a command line; let a host that does
//! not respond delay the others without limit; take a line of a file for an option of ssh; leave a command
//! running on a host when it ends itself.
//!
//! Where to start reading: [`OnMany`] in `remote`, and [`up()`]; `hosts_file` reads the list, `ssh` knows how
//! a host is reached, `children` runs many programs at a time.
#![forbid(unsafe_code)]

mod answers;
mod children;
mod connections;
mod copy;
mod down;
mod error;
mod fetch;
mod host_set;
mod hosts_file;
mod install;
mod on_host;
mod reasons;
mod reboot;
mod remote;
mod selection;
mod setup;
mod spool;
mod ssh;
mod state;
mod up;
mod verify;

pub use answers::{Group, difference, grouped};
pub use connections::{Kept, close};
pub use copy::Source;
pub use down::{Ended, down};
pub use error::{FleetError, Result};
pub use fetch::place_of;
pub use host_set::fold;
pub use hosts_file::{Line, read};
pub use install::{Installing, Parcel};
pub use reasons::{Failure, Kind};
pub use remote::{Answer, OnMany, command_of};
pub use selection::{Selection, parallel_by_environment, uploads_by_environment};
pub use setup::{Installed, install_key};
pub use spool::Spool;
pub use ssh::Ssh;
pub use state::State;
pub use up::{HostReport, HostState, Progress, UpOptions, UpReport, up};
pub use verify::{Deviation, Expected, Facts, Rules, Verified, read_rules};
