//! What the inner end points of crate `message-queue` have in common: those of messages, and those of
//! operations on memory.

use std::time::Duration;

use fabric_sys::constants::{FI_EAGAIN, FI_EINVAL};
use libc::c_int;
use message_queue::{Error, Fetch, Settings};

use super::endpoint::EAGER_MAX_BYTES;

/// Memory of a ring for one direction between two end points.
const RING_BYTES: usize = 256 << 10;
/// How long a first message to a peer waits for the peer's answer. That needs only a little of the processor
/// from the peer's process, and many programs take it for an error if their very first message finds no room.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_millis(50);

/// `TIELINE_FI_PULL` chooses a way, for tests: 1 to copy out of the sender's memory, 0 to go through the
/// ring.
fn fetch() -> Fetch {
    match std::env::var("TIELINE_FI_PULL").as_deref() {
        Ok("0") => Fetch::InParts,
        Ok("1") => Fetch::Read,
        _ => Fetch::Measured,
    }
}

/// What is chosen about them.
pub(super) fn settings() -> Settings {
    Settings {
        ring_bytes: RING_BYTES,
        eager_max_bytes: EAGER_MAX_BYTES,
        measures_eager: false,
        fetch: fetch(),
        ..Settings::default()
    }
}

/// The number of libfabric's for an error of a send.
pub(super) fn number_of(error: Error) -> c_int {
    match error {
        Error::NotNow { .. } => FI_EAGAIN,
        Error::PeerGone { .. } => libc::ECONNREFUSED,
        Error::PeerWrong { .. } => libc::ECONNABORTED,
        Error::NoWay { errno, .. } => errno.raw_os_error(),
        _ => FI_EINVAL,
    }
}
