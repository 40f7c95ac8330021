//! Tests and waits.

use std::ffi::c_int;

use tieline::messages::Request;

use super::types::{In, Out, requests, tieline_mq_status};
use super::{brief, limit};
use crate::code::Code;
use crate::queue::Queue;

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_test(
    queue: In<Queue>,
    request: u64,
    ended: Out<c_int>,
    status: Out<tieline_mq_status>,
) -> u32 {
    brief("tieline_mq_test", || {
        ended.needed("ended")?;
        ended.put(0);
        let found = queue.open()?.with(|queue| queue.test(Request::from_bits(request)))?;
        let Some(found) = found else { return Ok(Code::Ok) };
        ended.put(1);
        status.ended(&found)
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_wait(
    queue: In<Queue>,
    request: u64,
    timeout_ms: i64,
    status: Out<tieline_mq_status>,
) -> u32 {
    brief("tieline_mq_wait", || {
        status.ended(&queue.open()?.wait(Request::from_bits(request), limit(timeout_ms))?)
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_wait_any(
    queue: In<Queue>,
    list: In<u64>,
    count: usize,
    timeout_ms: i64,
    index: Out<usize>,
    status: Out<tieline_mq_status>,
) -> u32 {
    brief("tieline_mq_wait_any", || {
        index.needed("index")?;
        let (at, ended) = queue.open()?.wait_any(&requests(list, count)?, limit(timeout_ms))?;
        index.put(at);
        status.ended(&ended)
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_wait_all(
    queue: In<Queue>,
    list: In<u64>,
    count: usize,
    timeout_ms: i64,
    statuses: Out<tieline_mq_status>,
) -> u32 {
    brief("tieline_mq_wait_all", || {
        let all = queue.open()?.wait_all(&requests(list, count)?, limit(timeout_ms))?;
        let mut first = Ok(Code::Ok);
        for (at, status) in all.iter().enumerate() {
            let ended = statuses.ended_at(at, status);
            if first.is_ok() {
                first = ended;
            }
        }
        first
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_cancel(queue: In<Queue>, request: u64) -> u32 {
    brief("tieline_mq_cancel", || {
        queue.open()?.with(|queue| queue.cancel(Request::from_bits(request)))?;
        Ok(Code::Ok)
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_progress(queue: In<Queue>) -> u32 {
    brief("tieline_mq_progress", || {
        queue.open()?.with(|queue| Ok(queue.progress()))?;
        Ok(Code::Ok)
    })
}
