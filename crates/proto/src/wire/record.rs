//! Records on a stream of bytes: how messages of managers travel between hosts, where no datagram keeps them
//! apart.
//!
//! A record is the length of its body (four bytes, little-endian), its kind (one byte), and the body. A
//! header that cannot be is an error as soon as it is there, so that a peer decides neither how much is kept
//! for it nor how long it is waited for.

use std::fmt;

use super::MAX_DATAGRAM_BYTES;

/// Length and kind.
pub const HEADER_BYTES: usize = 5;

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// One datagram, as [`encode`](super::encode) makes it.
    Message,
    /// Addresses of managers.
    Hosts,
    /// A request to join or leave the cluster or to renew a certificate, or its answer.
    Join,
    /// The list of revoked certificates.
    Revoked,
}

/// One record.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    /// What it is.
    pub kind: RecordKind,
    /// At most [`MAX_DATAGRAM_BYTES`].
    pub body: Vec<u8>,
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {} bytes", self.kind, self.body.len())
    }
}

/// A header that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Nothing, or more than a datagram.
    #[error("a record of {0} bytes was announced, but 1 to {MAX_DATAGRAM_BYTES} are possible")]
    Length(u32),
    /// Of another version, or garbage.
    #[error("a record of the unknown kind {0} was announced: install the same tieline on both sides")]
    Kind(u8),
}

impl RecordKind {
    const fn code(self) -> u8 {
        match self {
            Self::Message => 1,
            Self::Hosts => 2,
            Self::Join => 3,
            Self::Revoked => 4,
        }
    }

    const fn of(code: u8) -> Result<Self, RecordError> {
        match code {
            1 => Ok(Self::Message),
            2 => Ok(Self::Hosts),
            3 => Ok(Self::Join),
            4 => Ok(Self::Revoked),
            other => Err(RecordError::Kind(other)),
        }
    }
}

/// One record as bytes.
pub fn frame(kind: RecordKind, body: &[u8]) -> Result<Vec<u8>, RecordError> {
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    if body.is_empty() || body.len() > MAX_DATAGRAM_BYTES {
        return Err(RecordError::Length(length));
    }
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.push(kind.code());
    bytes.extend_from_slice(body);
    Ok(bytes)
}

/// Takes a stream apart. Whoever takes all records out after each [`Self::push`] keeps no more than one
/// record and one push.
#[derive(Debug, Default)]
pub struct Records {
    buffer: Vec<u8>,
    /// Where the next record begins.
    start: usize,
}

impl Records {
    /// Bytes of the stream, in any pieces.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole record.
    pub fn take(&mut self) -> Result<Option<Record>, RecordError> {
        let rest = self.buffer.get(self.start..).unwrap_or_default();
        let Some((&[a, b, c, d, kind], rest)) = rest.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes([a, b, c, d]);
        let kind = RecordKind::of(kind)?;
        let bytes = length as usize;
        if bytes == 0 || bytes > MAX_DATAGRAM_BYTES {
            return Err(RecordError::Length(length));
        }
        let Some(body) = rest.get(..bytes) else { return Ok(None) };
        let record = Record { kind, body: body.to_vec() };
        self.start += HEADER_BYTES + bytes;
        Ok(Some(record))
    }

    /// Bytes that wait for the rest of their record.
    pub fn waiting_bytes(&self) -> usize {
        self.buffer.len() - self.start
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(records: &mut Records) -> Result<Vec<Record>, RecordError> {
        let mut found = Vec::new();
        while let Some(record) = records.take()? {
            found.push(record);
        }
        Ok(found)
    }

    #[test]
    fn a_header_that_cannot_be_is_refused_before_anything_is_kept() {
        for (bytes, error) in [
            ([0, 0, 0, 0, 1], RecordError::Length(0)),
            ([1, 0, 1, 0, 1], RecordError::Length(65_537)),
            ([255, 255, 255, 255, 1], RecordError::Length(u32::MAX)),
            ([1, 0, 0, 0, 0], RecordError::Kind(0)),
            (*b"GET /", RecordError::Kind(b'/')),
            (*b"SSH-2", RecordError::Kind(b'2')),
        ] {
            let mut records = Records::default();
            records.push(&bytes);
            assert_eq!(records.take(), Err(error));
        }
        assert_eq!(frame(RecordKind::Message, &[]), Err(RecordError::Length(0)));
        assert!(frame(RecordKind::Message, &vec![0; MAX_DATAGRAM_BYTES + 1]).is_err());
    }

    #[test]
    fn the_longest_record_comes_byte_by_byte() {
        let body = vec![7; MAX_DATAGRAM_BYTES];
        let bytes = frame(RecordKind::Hosts, &body).unwrap();
        let mut records = Records::default();
        for (index, byte) in bytes.iter().enumerate() {
            assert_eq!(records.take(), Ok(None), "{index}");
            records.push(&[*byte]);
        }
        assert_eq!(records.take(), Ok(Some(Record { kind: RecordKind::Hosts, body })));
        assert_eq!((records.take(), records.waiting_bytes()), (Ok(None), 0));
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..300), 0..20),
            pieces in prop::collection::vec(1usize..200, 1..200),
        ) {
            let sent: Vec<Record> =
                bodies.into_iter().map(|body| Record { kind: RecordKind::Message, body }).collect();
            let stream: Vec<u8> =
                sent.iter().flat_map(|record| frame(record.kind, &record.body).unwrap()).collect();
            let mut records = Records::default();
            let mut received = Vec::new();
            let mut rest = stream.as_slice();
            for piece in pieces.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (now, later) = rest.split_at((*piece).min(rest.len()));
                records.push(now);
                received.extend(all(&mut records).unwrap());
                prop_assert!(records.waiting_bytes() < 305);
                rest = later;
            }
            prop_assert_eq!(received, sent);
        }

        #[test]
        fn garbage_is_an_error_or_waits_bounded(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            let mut records = Records::default();
            for piece in bytes.chunks(100) {
                records.push(piece);
                if all(&mut records).is_err() {
                    return Ok(());
                }
                prop_assert!(records.waiting_bytes() <= HEADER_BYTES + MAX_DATAGRAM_BYTES);
            }
        }
    }
}
