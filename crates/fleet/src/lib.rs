//! The hosts of a cluster, reached over the user's own `ssh`: starts their node managers, and stops them.
//!
//! What it is for: `tieline up --hosts FILE` and `tieline down --hosts FILE`. Each host needs tieline and a
//! user that may log in without being asked for a password. Everything that ssh is configured to do (names,
//! keys, agents, jump hosts, known hosts) holds.
//!
//! What it must never do: ask for a password; put a token or a key on a command line; let a host that does
//! not respond delay the others without limit; take a line of a file for an option of ssh.
//!
//! Where to start reading: [`up()`]; `hosts_file` reads the list, `ssh` runs a command on a host.
#![forbid(unsafe_code)]

mod down;
mod error;
mod hosts_file;
mod on_host;
mod ssh;
mod up;

pub use down::{Ended, down};
pub use error::{FleetError, Result};
pub use hosts_file::{Line, read};
pub use ssh::Ssh;
pub use up::{HostReport, HostState, Progress, UpOptions, UpReport, up};
