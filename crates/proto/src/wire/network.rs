//! What two programs on different hosts tell each other, by way of their managers, before data travels between them.
//!
//! The addresses are a link's own, and nothing here looks into them. Sessions and keys open memory: they are for the two programs
//! alone, travel between hosts only under TLS, and are never printed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// No address of an end point is longer.
pub const MAX_END_POINT_BYTES: usize = 1100;
/// No key is longer.
pub const MAX_KEY_BYTES: usize = 64;

/// The end point of a program that connects.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImporterEnd {
    /// Its address, in the link's own form.
    pub end_point: Vec<u8>,
    /// Random; messages of this connection are known by it.
    pub session: u64,
}

/// The end point of the owner, and what opens the object.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerEnd {
    /// Its address, in the link's own form.
    pub end_point: Vec<u8>,
    /// In the link's own form, with random numbers.
    pub key: Vec<u8>,
}

impl ImporterEnd {
    /// It is no longer than one can be.
    pub fn is_bounded(&self) -> bool {
        self.end_point.len() <= MAX_END_POINT_BYTES
    }
}

impl OwnerEnd {
    /// It is no longer than one can be.
    pub fn is_bounded(&self) -> bool {
        self.end_point.len() <= MAX_END_POINT_BYTES && self.key.len() <= MAX_KEY_BYTES
    }
}

impl fmt::Debug for ImporterEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImporterEnd").field("end_point_bytes", &self.end_point.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for OwnerEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnerEnd").field("end_point_bytes", &self.end_point.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_opens_memory_is_not_printed() {
        let importer = ImporterEnd { end_point: vec![201, 202], session: 987_654_321 };
        let owner = OwnerEnd { end_point: vec![201], key: vec![233, 234] };
        let said = format!("{importer:?} {owner:?}");
        assert!(!said.contains("987") && !said.contains("233") && !said.contains("201"), "{said}");
    }
}
