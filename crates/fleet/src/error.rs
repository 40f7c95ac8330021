//! What can go wrong.

use std::path::PathBuf;

/// As everywhere.
pub type Result<T> = std::result::Result<T, FleetError>;

/// Each names what it concerns, the cause, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The list of hosts cannot be read.
    #[error(
        "{path} cannot be read: {source}: correct the path or its permissions; it is a file with a line for each host"
    )]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A line of it is wrong.
    #[error("{path}, line {line}: {why}")]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// With what to do.
        why: String,
    },
    /// It has no host.
    #[error("{path} names no host: write a line for each, as in `ssh HOST`")]
    NoHosts {
        /// The file.
        path: PathBuf,
    },
    /// There is no ssh.
    #[error(
        "`{program}` cannot be run ({source}): install it, where PATH leads to it (Debian: apt-get install openssh-client)"
    )]
    NoSsh {
        /// Its name.
        program: String,
        /// Why not.
        source: std::io::Error,
    },
    /// A command on a host failed.
    #[error("{host}: {why}")]
    OnHost {
        /// As it is in the file.
        host: String,
        /// The first line that it printed, or what else went wrong; with what to do.
        why: String,
    },
    /// No host can make the cluster.
    #[error("{host}, the first host of the list, cannot create the cluster: {why}")]
    First {
        /// As it is in the file.
        host: String,
        /// Why not, with what to do.
        why: String,
    },
    /// The directory of kept connections cannot be used.
    #[error(
        "connections cannot be kept in {path}: {source}: see that only this user can write there, or leave out --keep"
    )]
    Kept {
        /// The directory.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Neither the command line nor the environment names hosts.
    #[error(
        "no hosts are given: name a file with --hosts FILE, hosts with --on HOSTS, or set HOSTS or HOSTS_FILE"
    )]
    NoneGiven,
    /// A list of hosts is wrong.
    #[error("{given}: {why}")]
    Set {
        /// The option or variable that gives it.
        given: &'static str,
        /// With what to do.
        why: String,
    },
    /// A variable of the environment is wrong.
    #[error("{name}={value} is not understood: {next}")]
    Variable {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// What to do.
        next: &'static str,
    },
    /// A file that the command line names, and that is to be read, cannot be.
    #[error("{path} cannot be read: {source}: correct the path or its permissions")]
    Input {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// What is copied to hosts cannot be made into an archive.
    #[error("no archive can be made in {place}: {why}: correct that, or set TMPDIR to a directory with room")]
    Archive {
        /// The directory of the archive.
        place: PathBuf,
        /// What `tar` says.
        why: String,
    },
    /// A local file cannot be written, or a program cannot be run.
    #[error("{path} cannot be {what}: {source}: correct its permissions or make room, or name another path")]
    Local {
        /// The file.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// A file is not what is installed on hosts.
    #[error("{path} cannot be installed: {why}")]
    Parcel {
        /// The file.
        path: PathBuf,
        /// With what to do.
        why: String,
    },
    /// A file does not belong to this run.
    #[error("{path} is no state of this command: name another file, or remove it")]
    OtherRun {
        /// The file.
        path: PathBuf,
    },
    /// A rule for hosts is wrong.
    #[error("{path}, line {line}: {why}")]
    Rule {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// With what to do.
        why: String,
    },
    /// The caller wants no more.
    #[error(
        "interrupted before all hosts were connected: `tieline up --hosts` continues, `tieline down --hosts` ends what runs"
    )]
    Stopped,
}

impl FleetError {
    /// Whether the user can correct it in the file or on the command line.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::File { .. }
                | Self::Line { .. }
                | Self::NoHosts { .. }
                | Self::NoneGiven
                | Self::Set { .. }
                | Self::Variable { .. }
                | Self::Input { .. }
                | Self::OtherRun { .. }
                | Self::Parcel { .. }
                | Self::Rule { .. }
        )
    }
}
