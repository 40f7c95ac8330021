//! Configuration files: `/etc/tieline/*.toml`, then the user's `$XDG_CONFIG_HOME/tieline/*.toml`; a later
//! file overrides an earlier one key by key. `TIELINE_CONFIG` or `--config` names a file (or a directory of
//! them) to be read instead. A cluster with defaults needs none.

mod document;
mod files;
mod place;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proto::ids::NodeId;
use proto::manager::Limits;
use proto::wire::program::Access;
use shm::copy::Plan;

use crate::runtime_dir::Sharing;
use document::apply;
use files::files_in;
pub(crate) use files::user_directory;

pub use files::read_file;

/// Names the configuration.
pub const ENV_CONFIG: &str = "TIELINE_CONFIG";

/// `1`: programs of this node inject faults, no matter what the configuration contains.
pub const ENV_FAULTS: &str = "TIELINE_FAULTS";

/// The configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("configuration {path} cannot be read: {source}: name another with --config or TIELINE_CONFIG")]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// It is not TOML, has an unknown key, or a value of the wrong kind.
    #[error("{path}, line {line}{}: {message}: correct it, or name another configuration with --config",
            key.as_ref().map(|key| format!(", {key}")).unwrap_or_default())]
    Malformed {
        /// The path of the file.
        path: PathBuf,
        /// Where in it, from 1.
        line: usize,
        /// Which key, with its section.
        key: Option<String>,
        /// What is wrong.
        message: String,
    },
    /// A value that cannot be.
    #[error("{path}{}, {key}: {message}: correct it, or name another configuration with --config",
            line.map(|line| format!(", line {line}")).unwrap_or_default())]
    Value {
        /// The path of the file.
        path: PathBuf,
        /// Where in it, from 1, where the key is found.
        line: Option<usize>,
        /// Which key, with its section.
        key: &'static str,
        /// What is wrong, and what would be right.
        message: String,
    },
}

/// The configuration of a node manager. `None`: not configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `[node] id`.
    pub id: Option<NodeId>,
    /// `[node] name`: what others see as the host.
    pub name: Option<String>,
    /// `[node] rails`: addresses of this host that data to other hosts goes over; none: the one by which the
    /// others know it.
    pub rails: Vec<IpAddr>,
    /// `[manager] heartbeat_interval_ms`.
    pub heartbeat_interval: Duration,
    /// `[manager] heartbeat_limit_ms`.
    pub heartbeat_limit: Duration,
    /// `[manager] resume_grace_ms`: how long after a start programs are waited for that outlived the last
    /// manager.
    pub resume_grace: Duration,
    /// `[manager] max_…`.
    pub limits: LimitSettings,
    /// `[manager] agents`: it runs agents for programs of other hosts.
    pub agents: bool,
    /// `[manager] relay`: it forwards connections between other nodes that have no common link.
    pub relay: bool,
    /// `[faults] enabled`: programs of this node carry out faults that `tieline link` asks for.
    pub faults: bool,
    /// `[access]`: who may attach besides the manager's user.
    pub attach: Access,
    /// The plan that programs of the node copy by, as [`crate::copy_plan::at_start`] gives it; none: each
    /// program's own. In no file.
    pub copy_plan: Option<Plan>,
    /// Where the node's certificate is, if it has one ([`crate::hosts::directory`]); none: it talks to nodes
    /// of this host only. In no file.
    pub hosts: Option<PathBuf>,
}

/// Configured limits; the manager chooses the others by its descriptor limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitSettings {
    /// `max_programs`.
    pub programs: Option<u64>,
    /// `max_segments`.
    pub segments: Option<u64>,
    /// `max_interrupts`.
    pub interrupts: Option<u64>,
    /// `max_imports`.
    pub imports: Option<u64>,
    /// `max_pending_per_program`.
    pub pending_per_program: Option<u64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            id: None,
            name: None,
            rails: Vec::new(),
            // A dead manager is noticed by its socket; heartbeats are for one that hangs, so they may be
            // rare.
            heartbeat_interval: Duration::from_secs(1),
            heartbeat_limit: Duration::from_secs(5),
            // Programs look for their manager every half second at least.
            resume_grace: Duration::from_secs(3),
            limits: LimitSettings::default(),
            agents: true,
            relay: false,
            faults: false,
            attach: Access::default(),
            copy_plan: None,
            hosts: None,
        }
    }
}

impl Settings {
    /// Who has to reach the managers' sockets.
    pub fn sharing(&self) -> Sharing {
        Sharing { gid: self.attach.gid, uids: self.attach.uids.clone() }
    }
}

/// The configuration that was named: `explicit`, else `TIELINE_CONFIG`. Absolute, since a daemon changes its
/// directory.
pub fn named(explicit: Option<&Path>) -> Option<PathBuf> {
    let environment = std::env::var_os(ENV_CONFIG).filter(|value| !value.is_empty()).map(PathBuf::from);
    let path = explicit.map(Path::to_path_buf).or(environment)?;
    Some(std::path::absolute(&path).unwrap_or(path))
}

/// The files of a configuration, in the order in which they are read: that of a name, else the system's and
/// the user's.
pub fn files(named: Option<&Path>) -> Result<Vec<PathBuf>, ConfigError> {
    match named {
        Some(path) if path.is_dir() => {
            let files = files_in(path)?;
            if files.is_empty() {
                // Said to be the configuration, and none: a mistake in the name, as a rule.
                let source = std::io::Error::other("the directory holds no file named *.toml");
                return Err(ConfigError::Unreadable { path: path.into(), source });
            }
            Ok(files)
        }
        Some(path) => Ok(vec![path.into()]),
        None => {
            let mut files = files_in(Path::new("/etc/tieline"))?;
            if let Some(directory) = user_directory() {
                files.extend(files_in(&directory)?);
            }
            Ok(files)
        }
    }
}

/// Reads the configuration: the one that was [`named`], else the system's and the user's files.
pub fn load(explicit: Option<&Path>) -> Result<Settings, ConfigError> {
    load_files(&files(named(explicit).as_deref())?)
}

/// What these files say, each laid over the ones before it.
pub fn load_files(files: &[PathBuf]) -> Result<Settings, ConfigError> {
    let mut settings = Settings::default();
    for path in files {
        let text =
            read_file(path).map_err(|source| ConfigError::Unreadable { path: path.clone(), source })?;
        apply(&mut settings, path, &text)?;
    }
    Ok(settings)
}

/// Limits that fit the descriptors this process may have. Each program costs a socket and a pidfd, each
/// segment a descriptor, each interrupt up to three, each other node a socket.
pub fn limits(settings: &LimitSettings, descriptors: u64) -> Limits {
    // A quarter stays for sessions with other nodes, and for descriptors that are passing through.
    let share = |part: u64, cost: u64, most: u64| (descriptors * part / 100 / cost).clamp(4, most);
    Limits {
        programs: settings.programs.unwrap_or_else(|| share(20, 2, 4096)),
        segments: settings.segments.unwrap_or_else(|| share(30, 1, 65_536)),
        interrupts: settings.interrupts.unwrap_or_else(|| share(25, 3, 16_384)),
        imports: settings.imports.unwrap_or_else(|| link::page::IMPORT_SLOTS.into()),
        // As many as it has places for.
        exports_of_node: link::page::IMPORT_SLOTS.into(),
        pending_per_program: settings.pending_per_program.unwrap_or(256),
    }
}
