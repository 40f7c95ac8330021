//! Sends, receives and probes.

use std::ffi::c_void;

use tieline::messages::{Buffers, Mode, Request};

use super::types::{In, Iovec, Out, lent, memory, scattered, tieline_mq_status, want};
use super::{brief, limit};
use crate::code::{Code, Result};
use crate::queue::{Queue, tagged};

/// Begins a send.
#[inline]
fn begin(queue: &Queue, peer: u32, tag: u64, mode: Mode, buffers: Buffers) -> Result<Request> {
    queue.with(|queue| queue.send_lent(&tagged(peer, tag, mode), buffers))
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_send(
    queue: In<Queue>,
    peer: u32,
    tag: u64,
    bytes: *const c_void,
    length: usize,
) -> u32 {
    brief("tieline_mq_send", || {
        let queue = queue.open()?;
        let request = begin(queue, peer, tag, Mode::Standard, lent(bytes, length)?)?;
        let status = queue.wait(request, None)?;
        status.error.map_or(Ok(Code::Ok), |error| Err(error.into()))
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_isend(
    queue: In<Queue>,
    peer: u32,
    tag: u64,
    bytes: *const c_void,
    length: usize,
    request: Out<u64>,
) -> u32 {
    brief("tieline_mq_isend", || {
        request.needed("request")?;
        let begun = begin(queue.open()?, peer, tag, Mode::Standard, lent(bytes, length)?)?;
        request.put(begun.to_bits());
        Ok(Code::Ok)
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_issend(
    queue: In<Queue>,
    peer: u32,
    tag: u64,
    bytes: *const c_void,
    length: usize,
    request: Out<u64>,
) -> u32 {
    brief("tieline_mq_issend", || {
        request.needed("request")?;
        let begun = begin(queue.open()?, peer, tag, Mode::Synchronous, lent(bytes, length)?)?;
        request.put(begun.to_bits());
        Ok(Code::Ok)
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_isendv(
    queue: In<Queue>,
    peer: u32,
    tag: u64,
    pieces: In<Iovec>,
    count: usize,
    request: Out<u64>,
) -> u32 {
    brief("tieline_mq_isendv", || {
        request.needed("request")?;
        let begun = begin(queue.open()?, peer, tag, Mode::Standard, scattered(pieces, count)?)?;
        request.put(begun.to_bits());
        Ok(Code::Ok)
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_recv(
    queue: In<Queue>,
    source: u32,
    tag: u64,
    ignore: u64,
    bytes: *mut c_void,
    length: usize,
    timeout_ms: i64,
    status: Out<tieline_mq_status>,
) -> u32 {
    brief("tieline_mq_recv", || {
        let (queue, want) = (queue.open()?, want(source, tag, ignore));
        let found = queue.receive_direct(&want, memory(bytes.cast(), length, "bytes")?, timeout_ms != 0)?;
        match found {
            Some(ended) => status.ended(&ended),
            None => status.ended(&queue.receive(want, lent(bytes, length)?, limit(timeout_ms))?),
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_irecv(
    queue: In<Queue>,
    source: u32,
    tag: u64,
    ignore: u64,
    bytes: *mut c_void,
    length: usize,
    request: Out<u64>,
) -> u32 {
    brief("tieline_mq_irecv", || {
        request.needed("request")?;
        let buffers = lent(bytes, length)?;
        let begun = queue.open()?.with(|queue| Ok(queue.receive(want(source, tag, ignore), buffers)))?;
        request.put(begun.to_bits());
        Ok(Code::Ok)
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_irecvv(
    queue: In<Queue>,
    source: u32,
    tag: u64,
    ignore: u64,
    pieces: In<Iovec>,
    count: usize,
    request: Out<u64>,
) -> u32 {
    brief("tieline_mq_irecvv", || {
        request.needed("request")?;
        let buffers = scattered(pieces, count)?;
        let begun = queue.open()?.with(|queue| Ok(queue.receive(want(source, tag, ignore), buffers)))?;
        request.put(begun.to_bits());
        Ok(Code::Ok)
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_probe(
    queue: In<Queue>,
    source: u32,
    tag: u64,
    ignore: u64,
    timeout_ms: i64,
    status: Out<tieline_mq_status>,
) -> u32 {
    brief("tieline_mq_probe", || {
        status.put_envelope(&queue.open()?.probe(&want(source, tag, ignore), limit(timeout_ms))?);
        Ok(Code::Ok)
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_mprobe(
    queue: In<Queue>,
    source: u32,
    tag: u64,
    ignore: u64,
    timeout_ms: i64,
    message: Out<u64>,
    status: Out<tieline_mq_status>,
) -> u32 {
    brief("tieline_mq_mprobe", || {
        message.needed("message")?;
        let (number, envelope) = queue.open()?.claim(&want(source, tag, ignore), limit(timeout_ms))?;
        message.put(number);
        status.put_envelope(&envelope);
        Ok(Code::Ok)
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_imrecv(
    queue: In<Queue>,
    message: u64,
    bytes: *mut c_void,
    length: usize,
    request: Out<u64>,
) -> u32 {
    brief("tieline_mq_imrecv", || {
        request.needed("request")?;
        let begun = queue.open()?.receive_claimed(message, lent(bytes, length)?)?;
        request.put(begun.to_bits());
        Ok(Code::Ok)
    })
}
