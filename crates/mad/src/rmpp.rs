//! Multi-packet transfers of subnet administration: tables that are longer than one datagram.
//!
//! Both ends as state machines without input and output: [`Outward`] cuts a table into segments and sends as
//! many as the other side permits, [`Inward`] puts them together and acknowledges them. [`fetch`] asks for a
//! table over a transport.

use std::time::Duration;

use crate::header::Mad;
use crate::sa::{self, DATA_AT, DATA_LEN, RmppKind, rmpp_flag};
use crate::transport::{Address, MadTransport, TransportError};
use crate::values::{Method, Status};
use crate::windowed::Limits;

/// Bytes of subnet administration's own header that each segment's length counts too.
const OWN_HEADER: u32 = (DATA_AT - 36) as u32;
/// Segments that a receiver lets come before it acknowledges.
const WINDOW: u32 = 32;
/// Bytes of the longest table that is taken: all records of the largest subnet are fewer.
const MOST_BYTES: usize = 64 << 20;

/// A table that is sent.
#[derive(Debug, Clone)]
pub struct Outward {
    answer: Mad,
    bytes: Vec<u8>,
    next: u32,
    acknowledged: u32,
    /// Last segment that may be sent.
    window: u32,
}

impl Outward {
    /// Of the response's header (method, status, attribute, number, record size are its) and the records.
    #[must_use]
    pub fn new(answer: Mad, bytes: Vec<u8>) -> Self {
        // Nothing was let in yet but the first.
        Self { answer, bytes, next: 1, acknowledged: 0, window: 1 }
    }

    /// How many segments there are; a table without records is one too.
    #[must_use]
    pub fn segments(&self) -> u32 {
        u32::try_from(self.bytes.len().div_ceil(DATA_LEN).max(1)).unwrap_or(u32::MAX)
    }

    /// The next segment, if one may be sent now.
    pub fn next_segment(&mut self) -> Option<Mad> {
        let (segment, count) = (self.next, self.segments());
        if segment > count.min(self.window) {
            return None;
        }
        self.next += 1;
        let first = (segment - 1) as usize * DATA_LEN;
        let piece = self.bytes.get(first..self.bytes.len().min(first + DATA_LEN)).unwrap_or_default();
        let mut mad = self.answer;
        mad.0[DATA_AT..].fill(0);
        mad.0[DATA_AT..DATA_AT + piece.len()].copy_from_slice(piece);
        let mut flags = rmpp_flag::ACTIVE;
        let mut length = 0;
        if segment == 1 {
            flags |= rmpp_flag::FIRST;
            length = self.bytes.len() as u32 + count * OWN_HEADER;
        }
        if segment == count {
            flags |= rmpp_flag::LAST;
            length = piece.len() as u32 + OWN_HEADER;
        }
        let rmpp = sa::header_mut(&mut mad).rmpp_mut();
        rmpp.set_version(1).set_kind(RmppKind::DATA).set_response_time(31).set_flags(flags).set_status(0);
        rmpp.set_segment(segment).set_length(length);
        Some(mad)
    }

    /// The other side has heard. True: all of it, or it does not want more.
    pub fn heard(&mut self, mad: &Mad) -> bool {
        let rmpp = sa::header(mad).rmpp();
        match rmpp.kind() {
            RmppKind::ACK => {
                if rmpp.segment() >= self.acknowledged && rmpp.segment() < self.next {
                    self.acknowledged = rmpp.segment();
                    self.window = rmpp.length().max(self.window);
                }
                self.acknowledged >= self.segments()
            }
            RmppKind::STOP | RmppKind::ABORT => true,
            _ => false,
        }
    }

    /// Nothing was heard for long: what was not acknowledged goes out again.
    pub fn again(&mut self) {
        self.next = self.acknowledged + 1;
    }
}

/// What became of a segment.
#[derive(Debug, Clone)]
pub enum Step {
    /// More is to come. If there is a datagram, it is to be sent.
    More(Option<Box<Mad>>),
    /// That was all: the records, with the last acknowledgement.
    All(Vec<u8>, Option<Box<Mad>>),
    /// Given up by the other side, or not to be put together.
    Broken(&'static str),
}

/// A table that is received.
#[derive(Debug, Clone, Default)]
pub struct Inward {
    bytes: Vec<u8>,
    /// Segments that came in order.
    last: u32,
    window: u32,
}

impl Inward {
    /// Nothing came yet.
    #[must_use]
    pub fn new() -> Self {
        Self { bytes: Vec::new(), last: 0, window: 1 }
    }

    /// Takes a datagram: a segment, or a response that is whole.
    pub fn take(&mut self, mad: &Mad) -> Step {
        let rmpp = sa::header(mad).rmpp();
        if rmpp.version() == 0 || rmpp.flags() & rmpp_flag::ACTIVE == 0 {
            return Step::All(mad.0[DATA_AT..].to_vec(), None);
        }
        match rmpp.kind() {
            RmppKind::DATA => {}
            RmppKind::STOP | RmppKind::ABORT => return Step::Broken("the other side aborted the transfer"),
            _ => return Step::More(None),
        }
        let is_last = rmpp.flags() & rmpp_flag::LAST != 0;
        if rmpp.segment() != self.last + 1 {
            // One that came before, or out of turn: what is missing is what was not acknowledged.
            return Step::More(Some(self.acknowledgement(mad)));
        }
        let len = if is_last {
            match rmpp.length().checked_sub(OWN_HEADER).map(|len| len as usize) {
                Some(len) if len <= DATA_LEN => len,
                _ => return Step::Broken("the length of the last segment is invalid"),
            }
        } else {
            DATA_LEN
        };
        if self.bytes.len() + len > MOST_BYTES {
            return Step::Broken("it is longer than any table of a subnet");
        }
        self.bytes.extend_from_slice(&mad.0[DATA_AT..DATA_AT + len]);
        self.last += 1;
        if is_last {
            let acknowledgement = self.acknowledgement(mad);
            return Step::All(std::mem::take(&mut self.bytes), Some(acknowledgement));
        }
        if self.last < self.window {
            return Step::More(None);
        }
        self.window = self.last.saturating_add(WINDOW);
        Step::More(Some(self.acknowledgement(mad)))
    }

    fn acknowledgement(&self, mad: &Mad) -> Box<Mad> {
        let mut answer = Box::new(*mad);
        answer.0[DATA_AT..].fill(0);
        let method = mad.header().method();
        answer.header_mut().set_method(Method(method.0 & 0x7f));
        let rmpp = sa::header_mut(&mut answer).rmpp_mut();
        rmpp.set_kind(RmppKind::ACK).set_flags(rmpp_flag::ACTIVE).set_status(0);
        rmpp.set_segment(self.last).set_length(self.window.max(self.last));
        answer
    }
}

/// Why a table did not come.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// Datagrams can't be sent.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// No response.
    #[error("subnet administration (SA) does not respond: check with sminfo that a subnet manager (SM) runs")]
    Silent,
    /// It responds with a refusal.
    #[error(
        "subnet administration (SA) rejects the request: {0}: check with sminfo which subnet manager (SM) runs"
    )]
    Refused(Status),
    /// The segments make no table.
    #[error("the SA table was not received: {0}: repeat the command")]
    Broken(&'static str),
}

/// Asks subnet administration for records, and waits for all of them. The result is the records and their
/// size, for [`sa::records`]. One request at a time: what else comes meanwhile is dropped.
///
/// # Errors
/// No response after all repetitions; a refusal; a transfer that was given up.
pub fn fetch<T: MadTransport + ?Sized>(
    transport: &mut T,
    to: &Address,
    question: &Mad,
    limits: &Limits,
) -> Result<(Vec<u8>, u16), FetchError> {
    for attempt in 0..=limits.retries {
        let mut question = *question;
        // A number for each attempt: segments of one before are not mixed in.
        let number = transport.now().as_nanos() as u32 ^ attempt;
        question.header_mut().set_transaction(number.into());
        let mut inward = Inward::new();
        while !transport.send(to, &question)? {
            transport.receive(Duration::from_millis(1))?;
        }
        let mut until = transport.now() + limits.timeout;
        while transport.now() < until {
            let wait = until.saturating_sub(transport.now());
            let Some(received) = transport.receive(wait)? else { continue };
            let (mad, header) = (&received.mad, received.mad.header());
            let ours = header.transaction() as u32 == number
                && header.class() == question.header().class()
                && header.attribute() == question.header().attribute();
            if !ours || received.undelivered || !header.method().is_response() {
                continue;
            }
            if header.status() != Status::OK {
                return Err(FetchError::Refused(header.status()));
            }
            let size = sa::header(mad).record_size();
            let acknowledge = match inward.take(mad) {
                Step::More(acknowledge) => acknowledge,
                Step::All(bytes, acknowledge) => {
                    if let Some(mad) = acknowledge {
                        transport.send(to, &mad)?;
                    }
                    return Ok((bytes, size));
                }
                Step::Broken(why) => return Err(FetchError::Broken(why)),
            };
            if let Some(mad) = acknowledge {
                transport.send(to, &mad)?;
            }
            until = transport.now() + limits.timeout;
        }
    }
    Err(FetchError::Silent)
}
