//! Operations that are started again and again.

use std::ffi::c_void;

use super::types::{In, Out, lent, tieline_mq_status, want};
use super::{brief, call, limit};
use crate::code::Code;
use crate::queue::{Queue, persistent_receive, persistent_send};

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_send_init(
    queue: In<Queue>,
    peer: u32,
    tag: u64,
    bytes: *const c_void,
    length: usize,
    operation: Out<u64>,
) -> u32 {
    call("tieline_mq_send_init", || {
        operation.needed("operation")?;
        let persistent = persistent_send(peer, tag, lent(bytes, length)?);
        operation.put(queue.open()?.keep(persistent));
        Ok(Code::Ok)
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_recv_init(
    queue: In<Queue>,
    source: u32,
    tag: u64,
    ignore: u64,
    bytes: *mut c_void,
    length: usize,
    operation: Out<u64>,
) -> u32 {
    call("tieline_mq_recv_init", || {
        operation.needed("operation")?;
        let persistent = persistent_receive(want(source, tag, ignore), lent(bytes, length)?);
        operation.put(queue.open()?.keep(persistent));
        Ok(Code::Ok)
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_start(queue: In<Queue>, operation: u64) -> u32 {
    brief("tieline_mq_start", || {
        queue.open()?.start(operation)?;
        Ok(Code::Ok)
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_complete(
    queue: In<Queue>,
    operation: u64,
    timeout_ms: i64,
    status: Out<tieline_mq_status>,
) -> u32 {
    brief("tieline_mq_complete", || {
        let ended = queue.open()?.complete(operation, limit(timeout_ms));
        let (envelope, code) = match &ended {
            Ok(envelope) => (envelope.as_ref(), Code::Ok),
            Err(failure) => (None, failure.code),
        };
        status.put(tieline_mq_status::of(envelope, code));
        ended.map(|_| Code::Ok)
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_stop(queue: In<Queue>, operation: u64) -> u32 {
    call("tieline_mq_stop", || {
        queue.open()?.stop(operation)?;
        Ok(Code::Ok)
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_free(queue: In<Queue>, operation: u64) -> u32 {
    call("tieline_mq_free", || {
        queue.open()?.forget(operation)?;
        Ok(Code::Ok)
    })
}
