//! Structures of the header, and pointers that the program gives.
#![allow(non_camel_case_types, reason = "the names are the API's")]

use std::ffi::c_void;

use proto::ids::NodeId;
use shm::lent::Piece;
use tieline::messages::{Buffers, Counters, Envelope, Fetch, Request, Settings, Status, Want};

use crate::code::{Code, Result, of_message};
use crate::queue::{Options, Queue};

/// A pointer to what a call reads.
#[repr(transparent)]
#[derive(Debug)]
pub struct In<T>(*const T);

/// A pointer to which a result is written.
#[repr(transparent)]
#[derive(Debug)]
pub struct Out<T>(*mut T);

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> In<T> {
    /// What it points to, for the length of the call.
    pub(super) fn get<'a>(self, name: &str) -> Result<&'a T> {
        // SAFETY: the program gave this address, of this type, for the call; only C code makes this type, and
        // what lies there changes through a lock or a cell, or not at all.
        unsafe { self.0.as_ref() }.ok_or_else(|| Code::Invalid.because(format!("{name} is NULL")))
    }

    /// The values of an array.
    pub(super) fn list<'a>(self, count: usize, name: &str) -> Result<&'a [T]> {
        if count == 0 {
            return Ok(&[]);
        }
        self.0.as_ref_checked(name)?;
        // SAFETY: the program says that so many values of this type lie there, and leaves them alone during
        // the call.
        Ok(unsafe { std::slice::from_raw_parts(self.0, count) })
    }
}

trait Checked {
    fn as_ref_checked(&self, name: &str) -> Result<()>;
}

impl<T> Checked for *const T {
    fn as_ref_checked(&self, name: &str) -> Result<()> {
        if self.is_null() { Err(Code::Invalid.because(format!("{name} is NULL"))) } else { Ok(()) }
    }
}

impl<T> Out<T> {
    /// Writes it, if the program wants it.
    pub(super) fn put(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: the program gave this address, of this type, to be written to by the call; only C code
            // makes this type.
            unsafe { self.0.write(value) };
        }
    }

    /// Writes the value at a place of an array, if the program wants it.
    pub(super) fn put_at(&self, at: usize, value: T) {
        if !self.0.is_null() {
            // SAFETY: as in `put`; the program gave room for as many values as it gave requests, and `at` is
            // less.
            unsafe { self.0.add(at).write(value) };
        }
    }

    pub(super) fn needed(&self, name: &str) -> Result<()> {
        self.0.cast_const().as_ref_checked(name)
    }
}

impl Out<Queue> {
    /// The queue itself, which the program gives back. `None` in a child of the process that opened it, whose
    /// copy is left as it is.
    pub(super) fn take_back(&self) -> Result<Option<Box<Queue>>> {
        self.needed("queue")?;
        // SAFETY: `tieline_mq_open` has made it so, and the program does not use it any more.
        let queue = unsafe { Box::from_raw(self.0) };
        if queue.is_own() {
            return Ok(Some(queue));
        }
        std::mem::forget(queue);
        Ok(None)
    }
}

impl In<Queue> {
    /// The queue, in the process that opened it.
    #[inline]
    pub(super) fn open<'a>(self) -> Result<&'a Queue> {
        let queue = self.get("queue")?;
        if queue.is_own() {
            return Ok(queue);
        }
        Err(Code::Invalid.because("the queue belongs to the parent of this process: open one in the child"))
    }
}

/// `struct tieline_mq_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tieline_mq_options {
    size: usize,
    node: u32,
    port: u32,
    threads: u32,
    fetch: u32,
    ring_bytes: usize,
    eager_max_bytes: usize,
    cut_bytes: usize,
    unexpected_messages: usize,
    unexpected_bytes: usize,
    peer_unexpected_messages: usize,
    peer_unexpected_bytes: usize,
}

impl In<tieline_mq_options> {
    pub(super) fn options(self) -> Result<Options> {
        let given = self.get("options")?;
        if given.size != size_of::<tieline_mq_options>() {
            let why = format!(
                "options.size is {}, not {}: initialise the options with TIELINE_MQ_OPTIONS_INIT of this version's header",
                given.size,
                size_of::<tieline_mq_options>()
            );
            return Err(Code::Invalid.because(why));
        }
        let mut settings =
            Settings::from_environment().map_err(|error| Code::Invalid.because(error.to_string()))?;
        let defaults = [
            (&mut settings.ring_bytes, given.ring_bytes),
            (&mut settings.eager_max_bytes, given.eager_max_bytes),
            (&mut settings.cut_bytes, given.cut_bytes),
            (&mut settings.unexpected.messages, given.unexpected_messages),
            (&mut settings.unexpected.bytes, given.unexpected_bytes),
            (&mut settings.unexpected_per_peer.messages, given.peer_unexpected_messages),
            (&mut settings.unexpected_per_peer.bytes, given.peer_unexpected_bytes),
        ];
        for (setting, value) in defaults {
            if value != 0 {
                *setting = value;
            }
        }
        settings.measures_eager &= given.eager_max_bytes == 0;
        settings.fetch = match given.fetch {
            // As the environment says, if it does.
            0 => settings.fetch,
            1 => Fetch::Read,
            2 => Fetch::InParts,
            other => {
                let why = format!("options.fetch is {other}: choose one of TIELINE_MQ_FETCH_…");
                return Err(Code::Invalid.because(why));
            }
        };
        let node = (given.node != 0).then_some(given.node);
        if let Some(node) = node {
            NodeId::new(node).map_err(tieline::Error::from)?;
        }
        Ok(Options { node, port: given.port, threads: given.threads != 0, settings })
    }
}

/// `struct tieline_mq_status`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tieline_mq_status {
    code: u32,
    source: u32,
    tag: u64,
    length: u64,
}

impl tieline_mq_status {
    pub(super) fn of(envelope: Option<&Envelope>, code: Code) -> Self {
        let (source, tag, length) = envelope
            .map_or((u32::MAX, 0, 0), |envelope| (envelope.source, envelope.tag, envelope.len_bytes as u64));
        Self { code: code as u32, source, tag, length }
    }
}

impl Out<tieline_mq_status> {
    /// How an operation has ended: in the status, and as what the call returns.
    pub(super) fn ended(&self, status: &Status) -> Result<Code> {
        self.ended_at(0, status)
    }

    /// The same at a place of an array.
    pub(super) fn ended_at(&self, at: usize, status: &Status) -> Result<Code> {
        let code = status.error.as_ref().map_or(Code::Ok, of_message);
        self.put_at(at, tieline_mq_status::of(status.envelope.as_ref(), code));
        status.error.map_or(Ok(Code::Ok), |error| Err(error.into()))
    }

    pub(super) fn put_envelope(&self, envelope: &Envelope) {
        self.put(tieline_mq_status::of(Some(envelope), Code::Ok));
    }
}

/// `struct tieline_mq_counters`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tieline_mq_counters {
    size: usize,
    eager: u64,
    offered: u64,
    read: u64,
    in_parts: u64,
    unexpected: u64,
    left: u64,
    kept_messages: u64,
    kept_bytes: u64,
}

impl Out<tieline_mq_counters> {
    pub(super) fn put_counters(&self, now: &Counters) -> Result<()> {
        self.needed("counters")?;
        let size = size_of::<tieline_mq_counters>();
        // SAFETY: the program gave this address, of this type, with its first field set.
        let given = unsafe { (&raw const (*self.0).size).read() };
        if given != size {
            let why = format!("counters.size is {given}, not {size}: set it to sizeof(tieline_mq_counters)");
            return Err(Code::Invalid.because(why));
        }
        let Counters { eager, offered, read, in_parts, unexpected, left, kept_messages, kept_bytes } = *now;
        let (kept_messages, kept_bytes) = (kept_messages as u64, kept_bytes as u64);
        self.put(tieline_mq_counters {
            size,
            eager,
            offered,
            read,
            in_parts,
            unexpected,
            left,
            kept_messages,
            kept_bytes,
        });
        Ok(())
    }
}

/// `struct iovec`.
#[repr(C)]
#[derive(Debug)]
pub struct Iovec {
    base: *mut u8,
    length: usize,
}

/// Memory that the program lends to an operation.
pub(super) fn lent(bytes: *const c_void, length: usize) -> Result<Buffers> {
    Ok(Buffers::Lent(piece(bytes.cast_mut().cast(), length)?))
}

fn piece(start: *mut u8, length: usize) -> Result<Piece> {
    if length > 0 {
        start.cast_const().as_ref_checked("bytes")?;
    }
    if isize::try_from(length).is_err() {
        return Err(Code::Invalid.because(format!("length is {length}: longer than any memory")));
    }
    // SAFETY: the program lends this memory until the operation has ended, as the header asks; what it only
    // reads is never written, as only receives are filled.
    Ok(unsafe { Piece::new(start, length) })
}

/// Values that a call reads and writes, and nobody else uses meanwhile.
pub(super) fn memory<'a, T>(start: *mut T, count: usize, name: &str) -> Result<&'a mut [T]> {
    if count == 0 {
        return Ok(&mut []);
    }
    check_memory(start, count, name)?;
    // SAFETY: the program says that so many values of this type, of which any bytes are one, lie there, and
    // leaves them alone during the call; the address is aligned.
    Ok(unsafe { std::slice::from_raw_parts_mut(start, count) })
}

/// Bytes that a call reads, and nobody writes meanwhile.
pub(super) fn memory_to_read<'a>(start: *const u8, length: usize, name: &str) -> Result<&'a [u8]> {
    if length == 0 {
        return Ok(&[]);
    }
    check_memory(start, length, name)?;
    // SAFETY: as in `memory`.
    Ok(unsafe { std::slice::from_raw_parts(start, length) })
}

fn check_memory<T>(start: *const T, count: usize, name: &str) -> Result<()> {
    start.as_ref_checked(name)?;
    if !start.is_aligned() {
        return Err(Code::Invalid.because(format!("{name} is not aligned to values of its type")));
    }
    match count.checked_mul(size_of::<T>()).map(isize::try_from) {
        Some(Ok(_)) => Ok(()),
        _ => Err(Code::Invalid.because(format!("{name}: {count} values are longer than any memory"))),
    }
}

/// The same in pieces.
pub(super) fn scattered(pieces: In<Iovec>, count: usize) -> Result<Buffers> {
    let all = pieces.list(count, "pieces")?.iter().map(|iovec| piece(iovec.base, iovec.length));
    Ok(Buffers::Scattered(all.collect::<Result<_>>()?))
}

/// Which messages a receive takes.
pub(super) fn want(source: u32, tag: u64, ignore: u64) -> Want {
    Want { source: (source != u32::MAX).then_some(source), tag, ignore }
}

/// Requests of a program.
pub(super) fn requests(list: In<u64>, count: usize) -> Result<Vec<Request>> {
    Ok(list.list(count, "requests")?.iter().map(|bits| Request::from_bits(*bits)).collect())
}
