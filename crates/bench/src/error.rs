//! Errors that keep a benchmark from running.

use std::io;

use tieline::NodeId;

use crate::cpus::ranges;

/// Benchmarks with a server, by their commands.
const SERVED: [&str; 7] = ["scipp", "scibench2", "dma", "intr", "jitter", "latency", "pt2pt"];

/// How the other end of a measurement is started, if it is a command of its own.
fn start(what: &str) -> String {
    if SERVED.contains(&what) {
        format!("start it with `tieline bench {what} --server --node ID --rn ID`; ")
    } else {
        String::new()
    }
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, BenchError>;

/// A benchmark could not be run, or its result cannot be trusted.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// Options that cannot be combined.
    #[error("{0}")]
    Usage(String),
    /// Two processors are needed to measure what happens between two processors.
    #[error(
        "{what} needs two processors and this process may use {} only: run it with more (taskset, cpuset), or name them with --cpus",
        ranges(.allowed)
    )]
    TooFewCpus {
        /// The measurement.
        what: &'static str,
        /// The processors that this process may use.
        allowed: Vec<usize>,
    },
    /// Shared memory refused.
    #[error(transparent)]
    Memory(#[from] shm::Error),
    /// The node, its manager or the link refused.
    #[error(transparent)]
    Api(#[from] tieline::Error),
    /// A histogram could not be made or merged: an error of this program.
    #[error("statistics: {0}")]
    Statistics(String),
    /// A switched fabric could not be measured.
    #[error("{0}")]
    Fabric(String),
    /// A system file could not be read.
    #[error("{what}: {source}")]
    Io {
        /// What was tried, such as opening a file.
        what: String,
        /// The kernel's reason.
        source: io::Error,
    },
    /// A reading that is no duration and no rate.
    #[error(
        "a reading of {value} is not valid: the clock of this machine steps back or stands still; see `tieline bench limits`"
    )]
    Reading {
        /// The reading.
        value: f64,
    },
    /// The clock is not good enough for the measurement.
    #[error(
        "the clock of this machine cannot measure this: {reason}: see /sys/devices/system/clocksource/clocksource0/current_clocksource \
         (`tsc` is expected)"
    )]
    Clock {
        /// The reason.
        reason: String,
    },
    /// The other end did not respond in time.
    #[error(
        "{what}: the other end did not respond within {seconds} s: {}if both ends share a processor, give each its own with --cpus",
        start(.what)
    )]
    NoAnswer {
        /// The awaited event.
        what: &'static str,
        /// The duration of the wait.
        seconds: u64,
    },
    /// The server of a client has stopped answering.
    #[error(
        "{what}: the server on node {node} has not responded for {seconds} s: its process is stopped, or other \
         programs use its processor: end it, and start it there again with `tieline bench {what} --server \
         --node {node} --rn {here}`"
    )]
    Silent {
        /// The measurement.
        what: &'static str,
        /// The server's node.
        node: NodeId,
        /// The client's node.
        here: NodeId,
        /// The duration of the wait.
        seconds: u64,
    },
    /// The caller wanted to end while there was nothing to end with.
    #[error("{what}: ended by a signal while the server on node {node} did not respond: there is no result")]
    Interrupted {
        /// The measurement.
        what: &'static str,
        /// The server's node.
        node: NodeId,
    },
    /// The caller wanted to end while a program of others was at work.
    #[error("{what}: the run was ended during this measurement")]
    Stopped {
        /// The measurement.
        what: &'static str,
    },
    /// The other end was not reached.
    #[error("{what}: {reason}")]
    Absent {
        /// The measurement.
        what: &'static str,
        /// The awaited event, the duration of the wait, and the next step.
        reason: String,
    },
    /// The thread at the other end ended before its time.
    #[error("{what}: the other end has ended: {reason}")]
    OtherEnd {
        /// The measurement.
        what: &'static str,
        /// The reason that it gave.
        reason: String,
    },
    /// Bytes arrived that were not sent.
    #[error(
        "{what}: message {message} of {size_bytes} bytes is wrong at byte {at}: {got:#04x} instead of {want:#04x}"
    )]
    WrongData {
        /// The pattern.
        what: &'static str,
        /// Number of the message.
        message: u64,
        /// Its size.
        size_bytes: usize,
        /// First wrong byte.
        at: usize,
        /// The byte that was sent.
        want: u8,
        /// The byte that was found.
        got: u8,
    },
    /// The other end received bytes that were not sent.
    #[error("{what}: the other end received wrong bytes: check the link with `tieline conntest --peers A,B`")]
    WrongDataThere {
        /// The pattern.
        what: &'static str,
    },
    /// Data that was put over a link was lost or changed. It counts against the link, and is the
    /// result of the run.
    #[error(
        "link {}-{}: what {what} put from node {from} into memory of node {to} was lost or changed on the way ({detail}), so \
         no figure is given; see `tieline link list`, and how much is lost with `tieline conntest`",
        .from.min(.to), .from.max(.to)
    )]
    DataLost {
        /// The pattern.
        what: &'static str,
        /// The node that put.
        from: u32,
        /// The node that owns the memory.
        to: u32,
        /// What the owner found in its memory.
        detail: String,
    },
    /// The figure needs a cluster that the caller did not provide.
    #[error(
        "{id} needs a cluster that can be started and stopped: run it through `tieline bench acceptance`"
    )]
    NoCluster {
        /// The figure's ID.
        id: String,
    },
    /// The cluster could not be started, queried or stopped.
    #[error("the cluster: {0}")]
    Cluster(String),
    /// There is no figure of this name.
    #[error("there is no figure `{id}`{}: `tieline bench acceptance --list` prints all names",
            .nearest.map(|nearest| format!(" (a similar name is `{nearest}`)")).unwrap_or_default())]
    UnknownId {
        /// The name given.
        id: String,
        /// A figure whose name differs from it by two letters at most.
        nearest: Option<&'static str>,
    },
    /// Another build could not be measured.
    #[error("{reason}")]
    Build {
        /// Which, and why.
        reason: String,
    },
    /// The run gave no usable block.
    #[error("{id}: no undisturbed block in the time given: measure on a quieter machine, or longer")]
    NoBlocks {
        /// The figure's ID.
        id: String,
    },
}

impl BenchError {
    /// Whether this was found out about the nodes and the link between them, rather than about this
    /// machine, this process or the options.
    pub const fn speaks_against_the_link(&self) -> bool {
        match self {
            Self::Api(error) => !error.is_of_own_manager(),
            Self::NoAnswer { .. } | Self::Absent { .. } | Self::OtherEnd { .. } => true,
            Self::WrongData { .. } | Self::WrongDataThere { .. } | Self::DataLost { .. } => true,
            _ => false,
        }
    }

    /// Makes an error of an [`io::Error`] and a description of the operation.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

impl From<hdrhistogram::CreationError> for BenchError {
    fn from(error: hdrhistogram::CreationError) -> Self {
        Self::Statistics(error.to_string())
    }
}

impl From<hdrhistogram::AdditionError> for BenchError {
    fn from(error: hdrhistogram::AdditionError) -> Self {
        Self::Statistics(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_that_does_not_answer_says_nothing_about_a_link() {
        let lost = BenchError::DataLost { what: "dma", from: 8, to: 4, detail: String::new() };
        assert!(lost.speaks_against_the_link() && lost.to_string().starts_with("link 4-8: "), "{lost}");
        let full = BenchError::Api(tieline::Error::Full { what: "a queue".into() });
        assert!(full.speaks_against_the_link());
        let silent = node_silent();
        assert!(!silent.speaks_against_the_link(), "{silent}");
        assert!(!BenchError::Usage(String::new()).speaks_against_the_link());
    }

    /// The error of attaching to a node without a manager.
    fn node_silent() -> BenchError {
        let options = tieline::NodeOptions { runtime_dir: Some("/nowhere".into()), ..Default::default() };
        BenchError::Api(tieline::Node::attach_with(&options).unwrap_err())
    }

    /// An error names the thing, the cause and the next step.
    #[test]
    fn texts() {
        let cpus = BenchError::TooFewCpus { what: "scipp", allowed: vec![3] }.to_string();
        assert!(
            cpus.contains("scipp") && cpus.contains("may use 3 only") && cpus.contains("--cpus"),
            "{cpus}"
        );
        let id = BenchError::UnknownId { id: "up.63".into(), nearest: Some("up.64") }.to_string();
        assert!(id.contains("`up.63`") && id.contains("`up.64`") && id.contains("--list"), "{id}");
        let wrong =
            BenchError::WrongData { what: "scipp", message: 7, size_bytes: 64, at: 3, want: 1, got: 0xff }
                .to_string();
        assert!(
            wrong.contains("message 7") && wrong.contains("byte 3") && wrong.contains("0xff instead of 0x01"),
            "{wrong}"
        );
        let io = BenchError::io("/proc/stat")(io::Error::from(io::ErrorKind::NotFound)).to_string();
        assert!(io.starts_with("/proc/stat: "), "{io}");
    }
}
