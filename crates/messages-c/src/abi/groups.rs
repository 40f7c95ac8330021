//! Collective operations.

use std::ffi::c_void;
use std::time::Duration;

use collectives::operation::{Bits, Number, and, max, min, or, product, sum, xor};
use collectives::{Element, Group};
use tieline::messages::Engine;

use super::types::{In, Out, memory, memory_to_read};
use super::{call, limit};
use crate::code::{Code, Result};
use crate::queue::Queue;

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_group_create(
    queue: In<Queue>,
    peers: In<u32>,
    count: usize,
    context: u32,
    group: Out<u64>,
) -> u32 {
    call("tieline_mq_group_create", || {
        group.needed("group")?;
        group.put(queue.open()?.make_group(peers.list(count, "peers")?, context)?);
        Ok(Code::Ok)
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_group_free(queue: In<Queue>, group: u64) -> u32 {
    call("tieline_mq_group_free", || {
        queue.open()?.forget_group(group)?;
        Ok(Code::Ok)
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_barrier(queue: In<Queue>, group: u64, timeout_ms: i64) -> u32 {
    call("tieline_mq_barrier", || {
        queue.open()?.with_group(group, |group, queue| group.barrier(queue, limit(timeout_ms)))
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_broadcast(
    queue: In<Queue>,
    group: u64,
    root: usize,
    bytes: *mut c_void,
    length: usize,
    timeout_ms: i64,
) -> u32 {
    call("tieline_mq_broadcast", || {
        let bytes = memory(bytes.cast(), length, "bytes")?;
        queue.open()?.with_group(group, |group, queue| group.broadcast(queue, root, bytes, limit(timeout_ms)))
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_reduce(
    queue: In<Queue>,
    group: u64,
    root: usize,
    values: *mut c_void,
    count: usize,
    kind: u32,
    operation: u32,
    timeout_ms: i64,
) -> u32 {
    call("tieline_mq_reduce", || {
        let reduction = Reduction { root: Some(root), operation, limit: limit(timeout_ms) };
        reduction.of_kind(queue.open()?, group, values, count, kind)
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_allreduce(
    queue: In<Queue>,
    group: u64,
    values: *mut c_void,
    count: usize,
    kind: u32,
    operation: u32,
    timeout_ms: i64,
) -> u32 {
    call("tieline_mq_allreduce", || {
        let reduction = Reduction { root: None, operation, limit: limit(timeout_ms) };
        reduction.of_kind(queue.open()?, group, values, count, kind)
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_allgather(
    queue: In<Queue>,
    group: u64,
    mine: *const c_void,
    length: usize,
    all: *mut c_void,
    timeout_ms: i64,
) -> u32 {
    call("tieline_mq_allgather", || {
        let queue = queue.open()?;
        let total = whole(queue, group, length)?;
        let (mine, all) = (memory_to_read(mine.cast(), length, "mine")?, memory(all.cast(), total, "all")?);
        queue.with_group(group, |group, queue| group.allgather(queue, mine, all, limit(timeout_ms)))
    })
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn tieline_mq_alltoall(
    queue: In<Queue>,
    group: u64,
    to: *const c_void,
    from: *mut c_void,
    length: usize,
    timeout_ms: i64,
) -> u32 {
    call("tieline_mq_alltoall", || {
        let queue = queue.open()?;
        let total = whole(queue, group, length)?;
        let (to, from) = (memory_to_read(to.cast(), total, "to")?, memory(from.cast(), total, "from")?);
        queue.with_group(group, |group, queue| group.alltoall(queue, to, from, limit(timeout_ms)))
    })
}

/// Bytes of a block of each member.
fn whole(queue: &Queue, group: u64, block: usize) -> Result<usize> {
    let members = queue.group_members(group)?;
    members.checked_mul(block).ok_or_else(|| {
        Code::Invalid.because(format!("length is {block}: {members} such blocks fit no memory"))
    })
}

/// A reduction, to one member or to all.
struct Reduction {
    root: Option<usize>,
    operation: u32,
    limit: Option<Duration>,
}

impl Reduction {
    /// Of the type that the program names.
    fn of_kind(
        &self,
        queue: &Queue,
        group: u64,
        values: *mut c_void,
        count: usize,
        kind: u32,
    ) -> Result<Code> {
        match kind {
            0 => self.of_bits::<i32>(queue, group, values, count),
            1 => self.of_bits::<i64>(queue, group, values, count),
            2 => self.of_bits::<u32>(queue, group, values, count),
            3 => self.of_bits::<u64>(queue, group, values, count),
            4 => self.of_numbers::<f32>(queue, group, values, count),
            5 => self.of_numbers::<f64>(queue, group, values, count),
            _ => Err(Code::Invalid.because(format!("type {kind} is none of enum tieline_mq_type"))),
        }
    }

    fn of_bits<T: Bits>(&self, queue: &Queue, group: u64, at: *mut c_void, count: usize) -> Result<Code> {
        let operation: fn(T, T) -> T = match self.operation {
            4 => and,
            5 => or,
            6 => xor,
            _ => return self.of_numbers::<T>(queue, group, at, count),
        };
        let values = memory(at.cast::<T>(), count, "values")?;
        queue.with_group(group, |group, queue| self.run(group, queue, values, operation))
    }

    fn of_numbers<T: Number>(
        &self,
        queue: &Queue,
        group: u64,
        at: *mut c_void,
        count: usize,
    ) -> Result<Code> {
        let operation: fn(T, T) -> T = match self.operation {
            0 => sum,
            1 => product,
            2 => min,
            3 => max,
            other => {
                let why = format!(
                    "operation {other} is none of enum tieline_mq_operation for this type: bit operations are of integers"
                );
                return Err(Code::Invalid.because(why));
            }
        };
        let values = memory(at.cast::<T>(), count, "values")?;
        queue.with_group(group, |group, queue| self.run(group, queue, values, operation))
    }

    fn run<T: Element>(
        &self,
        group: &mut Group,
        queue: &mut Engine,
        values: &mut [T],
        operation: fn(T, T) -> T,
    ) -> std::result::Result<(), collectives::Error> {
        match self.root {
            Some(root) => group.reduce(queue, root, values, operation, self.limit),
            None => group.allreduce(queue, values, operation, self.limit),
        }
    }
}
