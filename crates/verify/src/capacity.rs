//! Checks what this process may still allocate, so that its own limits are not blamed on nodes.

use node::NodeError;
use node_client::ClientError;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// Descriptors that the test of a node, or of a pair with it, takes at a time. Measured: 17 at most.
const DESCRIPTORS_EACH: u64 = 24;
/// Address space that it takes: two threads with stacks of 2 MiB, three segments, the state page, and what
/// the allocator reserves for a thread. Measured: 12 MB.
const BYTES_EACH: u64 = 16 << 20;

/// A limit of this process is in the way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "testing {} at a time takes about {needed} {what}, and this process may have {left} more: raise the limit \
     with `ulimit {option}`",
    crate::run::counted(*.nodes as usize, "node")
)]
pub struct Lacking {
    what: &'static str,
    option: &'static str,
    nodes: u64,
    needed: u64,
    left: u64,
}

/// A test could not be run, which is no result of the test.
#[derive(Debug, thiserror::Error)]
pub enum CouldNotRun {
    /// A limit of this process is in the way.
    #[error(transparent)]
    Lacking(#[from] Lacking),
    /// This process could not attach.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The cluster could not be started or asked.
    #[error(transparent)]
    Node(#[from] NodeError),
}

/// One limited thing.
struct Stock {
    what: &'static str,
    option: &'static str,
    each: u64,
    left: u64,
}

fn stocks() -> [Stock; 2] {
    let left = |resource, used: u64| {
        getrlimit(resource).current.map_or(u64::MAX, |limit| limit.saturating_sub(used))
    };
    [
        Stock {
            what: "descriptors",
            option: "-n",
            each: DESCRIPTORS_EACH,
            left: left(Resource::Nofile, open_descriptors()),
        },
        Stock {
            what: "bytes of address space",
            option: "-v",
            each: BYTES_EACH,
            left: left(Resource::As, mapped_bytes()),
        },
    ]
}

fn open_descriptors() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64)
}

fn mapped_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').next().and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// How many of `nodes` may be tested at the same time; an error if not even one.
pub(crate) fn at_a_time(nodes: usize) -> Result<usize, Lacking> {
    let possible = stocks().iter().map(|stock| stock.left / stock.each).min().unwrap_or(u64::MAX);
    if possible == 0 {
        all_at_once(1)?;
    }
    Ok(nodes.min(usize::try_from(possible).unwrap_or(usize::MAX)))
}

/// Whether all of them may be attached to at the same time.
pub(crate) fn all_at_once(nodes: usize) -> Result<(), Lacking> {
    let nodes = nodes as u64;
    match stocks().into_iter().find(|stock| stock.left / stock.each < nodes) {
        None => Ok(()),
        Some(Stock { what, option, each, left }) => {
            Err(Lacking { what, option, nodes, needed: each.saturating_mul(nodes), left })
        }
    }
}

/// Whether an attempt failed for lack of something on this side, which does not concern the node.
pub(crate) fn is_own_lack(error: &ClientError) -> bool {
    match error {
        ClientError::Io { errno, .. } => {
            matches!(*errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN | Errno::NOBUFS)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_there_is_names_the_limit() {
        assert_eq!(at_a_time(1), Ok(1));
        let error = all_at_once(usize::MAX / 2).unwrap_err().to_string();
        assert!(error.contains("descriptors") && error.contains("ulimit -n"), "{error}");
    }

    #[test]
    fn what_this_side_lacks_is_told_from_what_a_node_does() {
        assert!(is_own_lack(&ClientError::Io { what: "open", errno: Errno::MFILE }));
        assert!(!is_own_lack(&ClientError::Io { what: "open", errno: Errno::CONNREFUSED }));
    }
}
