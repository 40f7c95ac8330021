//! What the inner end points of crate `message-queue` have in common: those of messages, and those of
//! operations on memory.

use std::time::Duration;

use fabric_sys::constants::{FI_EAGAIN, FI_EINVAL};
use libc::c_int;
use message_queue::{Error, Fetch, Settings};

use super::endpoint::EAGER_MAX_BYTES;

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

/// What is chosen about those of messages. Where a way is forced, no other one is tried.
pub(super) fn settings() -> Settings {
    let fetch = fetch();
    let measures_eager = fetch == Fetch::Measured;
    Settings { eager_max_bytes: EAGER_MAX_BYTES, measures_eager, fetch, ..Settings::of_provider() }
}

/// The same about those of operations on memory, whose messages have fixed ways.
pub(super) fn settings_of_memory() -> Settings {
    Settings { measures_eager: false, ..settings() }
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
