//! The functions that C programs call. Each checks its pointers, calls one function of [`crate::queue`], and
//! returns a code.

// The names are the API's; these functions are called from C only.
#![allow(missing_docs, clippy::too_many_arguments, reason = "the header has the documentation")]

mod groups;
mod messages;
mod persistent;
mod requests;
mod types;

use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::code::{Code, Result};
use crate::last_error;
use crate::queue::{Options, Queue};
pub use groups::*;
pub use messages::*;
pub use persistent::*;
pub use requests::*;
use types::{In, Out};
pub use types::{tieline_mq_counters, tieline_mq_options, tieline_mq_status};

/// Runs the body of a function, in which its thread is not cancelled. The functions of C have nothing to
/// clean up, as [`cancellation::held_off`] needs it.
#[inline(always)]
fn call(name: &str, body: impl FnOnce() -> Result<Code> + Copy) -> u32 {
    cancellation::held_off(|| run(name, body))
}

/// The same of a function of which each nanosecond counts: what it does seldom, and all that leads to other
/// hosts, is kept from cancellation below, in crates `message-queue` and `tieline`.
#[inline(always)]
fn brief(name: &str, body: impl FnOnce() -> Result<Code> + Copy) -> u32 {
    cancellation::at_points_only(|| run(name, body))
}

/// Runs the body of a function, and keeps what went wrong.
fn run(name: &str, body: impl FnOnce() -> Result<Code>) -> u32 {
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        Err(Code::System
            .because("an error of the library itself: report it with what it printed on standard error"))
    });
    match result {
        Ok(code) => code as u32,
        Err(failure) => {
            last_error::keep(name, &failure.why);
            failure.code as u32
        }
    }
}

/// A time limit of the header.
fn limit(timeout_ms: i64) -> Option<Duration> {
    u64::try_from(timeout_ms).ok().map(Duration::from_millis)
}

/// The same where a limit is needed: a hundred years are as good as none.
fn bounded(timeout_ms: i64) -> Duration {
    limit(timeout_ms).unwrap_or(Duration::from_secs(100 * 365 * 24 * 3600))
}

#[unsafe(no_mangle)]
pub extern "C" fn tieline_mq_error() -> *const c_char {
    last_error::text()
}

#[unsafe(no_mangle)]
pub extern "C" fn tieline_mq_code_text(code: i32) -> *const c_char {
    Code::text(code).as_ptr().cast()
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_open(options: In<tieline_mq_options>, queue: Out<*mut Queue>) -> u32 {
    call("tieline_mq_open", || {
        queue.needed("queue")?;
        let options: Options = options.options()?;
        queue.put(Box::into_raw(Box::new(Queue::open(&options)?)));
        Ok(Code::Ok)
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_close(queue: Out<Queue>, timeout_ms: i64) -> u32 {
    call("tieline_mq_close", || {
        if let Some(queue) = queue.take_back()? {
            queue.close(bounded(timeout_ms))?;
        }
        Ok(Code::Ok)
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_address(queue: In<Queue>, node: Out<u32>, port: Out<u32>) -> u32 {
    call("tieline_mq_address", || {
        let address = queue.open()?.address()?;
        node.put(address.0);
        port.put(address.1);
        Ok(Code::Ok)
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_peer(
    queue: In<Queue>,
    node: u32,
    port: u32,
    timeout_ms: i64,
    peer: Out<u32>,
) -> u32 {
    call("tieline_mq_peer", || {
        peer.needed("peer")?;
        peer.put(queue.open()?.peer(node, port, bounded(timeout_ms))?);
        Ok(Code::Ok)
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_get_counters(
    queue: In<Queue>,
    counters: Out<tieline_mq_counters>,
) -> u32 {
    call("tieline_mq_get_counters", || {
        let now = queue.open()?.with(|queue| Ok(queue.counters()))?;
        counters.put_counters(&now)?;
        Ok(Code::Ok)
    })
}
