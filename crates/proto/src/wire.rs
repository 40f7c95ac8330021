//! Messages of the control plane: one per datagram, over SOCK_SEQPACKET.
//!
//! A datagram is [`MAGIC`], [`PROTOCOL_VERSION`] and the postcard encoding of one message
//! (<https://postcard.jamesmunns.com/wire-format>). Descriptors travel beside it (SCM_RIGHTS), in the order
//! that the message's documentation gives. The first message in each direction is a hello; a peer of another
//! version is answered with a refusal that names both versions.

pub mod agent;
pub mod network;
pub mod peer;
pub mod program;
pub mod record;
mod refusal;
pub mod relay;
pub mod status;

use serde::{Serialize, de::DeserializeOwned};

/// First four bytes of each datagram.
pub const MAGIC: [u8; 4] = *b"TLN1";
/// Version of the messages. Raised with every change of meaning; there is no negotiation.
pub const PROTOCOL_VERSION: u16 = 14;
/// No datagram is longer. Lists that could be longer are sent in pages.
pub const MAX_DATAGRAM_BYTES: usize = 64 * 1024;
/// No datagram carries more descriptors.
pub const MAX_DESCRIPTORS: usize = 4;
/// Longest name (of a program, a host, a cluster) in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// Whether a character of a name may go to a terminal and into a log: it does not control the terminal, nor
/// the order or visibility of what is around it.
pub fn is_printable(c: char) -> bool {
    let hidden =
        matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    !c.is_control() && !hidden
}

/// A datagram that is not a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// Longer than [`MAX_DATAGRAM_BYTES`].
    #[error(
        "control message of {0} bytes is longer than the limit of {MAX_DATAGRAM_BYTES}: ask for less at a time"
    )]
    TooLong(usize),
    /// Not from a tieline program.
    #[error(
        "control message does not start with the tieline magic: see with `ss -xp` which program uses this socket"
    )]
    BadMagic,
    /// From another version of tieline.
    #[error(
        "the other side speaks version {theirs} of the control protocol, this side version {PROTOCOL_VERSION}: install the same tieline on both sides"
    )]
    OtherVersion {
        /// The version in the datagram.
        theirs: u16,
    },
    /// The right version, and yet not decodable.
    #[error("control message is malformed ({0}): install the same tieline on both sides")]
    Malformed(String),
}

/// Encodes one message.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, CodecError> {
    let mut bytes = Vec::with_capacity(128);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&PROTOCOL_VERSION.to_le_bytes());
    let bytes =
        postcard::to_extend(message, bytes).map_err(|error| CodecError::Malformed(error.to_string()))?;
    if bytes.len() > MAX_DATAGRAM_BYTES {
        return Err(CodecError::TooLong(bytes.len()));
    }
    Ok(bytes)
}

/// Decodes one message; trailing bytes are an error.
pub fn decode<T: DeserializeOwned>(datagram: &[u8]) -> Result<T, CodecError> {
    if datagram.len() > MAX_DATAGRAM_BYTES {
        return Err(CodecError::TooLong(datagram.len()));
    }
    let Some((magic, rest)) = datagram.split_first_chunk::<4>() else { return Err(CodecError::BadMagic) };
    if *magic != MAGIC {
        return Err(CodecError::BadMagic);
    }
    let Some((version, body)) = rest.split_first_chunk::<2>() else { return Err(CodecError::BadMagic) };
    let theirs = u16::from_le_bytes(*version);
    if theirs != PROTOCOL_VERSION {
        return Err(CodecError::OtherVersion { theirs });
    }
    let (message, rest) =
        postcard::take_from_bytes(body).map_err(|error| CodecError::Malformed(error.to_string()))?;
    if !rest.is_empty() {
        return Err(CodecError::Malformed(format!("{} bytes too many", rest.len())));
    }
    Ok(message)
}
