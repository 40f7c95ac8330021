//! Keeps `pthread_cancel` out of calls of this library: a thread is cancelled when its call ends
//! ([`cancellation`]).

pub(crate) use cancellation::held_off;
use cancellation::{at_points_only, without_points};

use crate::far;

/// As [`held_off`], of a body that makes no call in which a thread may be cancelled, unless it leads to
/// another host: to change the state costs some 20 ns.
#[inline(always)]
pub(crate) fn held_off_briefly<T: Copy>(body: impl FnOnce() -> T + Copy) -> T {
    at_points_only(|| if far::is_used() { without_points(body) } else { body() })
}
