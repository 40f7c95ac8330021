//! Multi-packet transfers: tables that are longer than one datagram.

/// placeholder
pub const SEGMENT: usize = crate::sa::DATA_LEN;
