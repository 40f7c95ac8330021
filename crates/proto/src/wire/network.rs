//! What two programs on different hosts send each other through their managers, before data travels between
//! them.
//!
//! The addresses are a link's own, and nothing here looks into them. Sessions and keys open memory: they are
//! for the two programs alone, travel between hosts only under TLS, and are never printed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// No address of an end point is longer.
pub const MAX_END_POINT_BYTES: usize = 1100;
/// No key is longer.
pub const MAX_KEY_BYTES: usize = 64;
/// No link has more rails.
pub const MAX_RAILS: usize = 4;

/// The end points of a program that connects: one for each of its rails, the first at least.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImporterEnd {
    /// In the order of the importer's rails.
    pub rails: Vec<ImporterRail>,
}

/// One of them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImporterRail {
    /// Its address, in the link's own form.
    pub end_point: Vec<u8>,
    /// Random; messages of this connection on this rail are known by it.
    pub session: u64,
}

/// The end points of the owner, and what opens the object. The n-th belongs to the n-th rail of the importer;
/// there may be fewer.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerEnd {
    /// In the order of the importer's rails.
    pub rails: Vec<OwnerRail>,
}

/// One of them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerRail {
    /// Its address, in the link's own form.
    pub end_point: Vec<u8>,
    /// In the link's own form, with random numbers.
    pub key: Vec<u8>,
}

/// A question about the rails of a connection has at most so many bytes: it may name an end point.
pub const MAX_QUESTION_BYTES: usize = MAX_END_POINT_BYTES + 32;
/// The answer has at most so many.
pub const MAX_ANSWER_BYTES: usize = 64;

/// Why a rail is not used has at most so many bytes.
pub const MAX_RAIL_REASON_BYTES: usize = 80;

/// A rail of a connection that is not used at present.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RailDown {
    /// Its number, from 1 on.
    pub rail: u8,
    /// Why it failed, in words.
    pub why: String,
}

impl ImporterEnd {
    /// There are as many rails as there can be, and none is longer than one can be.
    pub fn is_bounded(&self) -> bool {
        has_bounded(&self.rails, |rail| rail.end_point.len() <= MAX_END_POINT_BYTES)
    }
}

impl OwnerEnd {
    /// There are as many rails as there can be, and none is longer than one can be.
    pub fn is_bounded(&self) -> bool {
        has_bounded(&self.rails, |rail| {
            rail.end_point.len() <= MAX_END_POINT_BYTES && rail.key.len() <= MAX_KEY_BYTES
        })
    }
}

fn has_bounded<T>(rails: &[T], is_bounded: impl Fn(&T) -> bool) -> bool {
    (1..=MAX_RAILS).contains(&rails.len()) && rails.iter().all(is_bounded)
}

impl fmt::Debug for ImporterEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImporterEnd").field("rails", &self.rails.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for ImporterRail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImporterRail").field("end_point_bytes", &self.end_point.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for OwnerEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnerEnd").field("rails", &self.rails.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for OwnerRail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnerRail").field("end_point_bytes", &self.end_point.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_opens_memory_is_not_printed() {
        let importer = ImporterRail { end_point: vec![201, 202], session: 987_654_321 };
        let owner = OwnerRail { end_point: vec![201], key: vec![233, 234] };
        let (of_importer, of_owner) = (importer.clone(), owner.clone());
        let ends = (ImporterEnd { rails: vec![of_importer] }, OwnerEnd { rails: vec![of_owner] });
        let said = format!("{importer:?} {owner:?} {ends:?}");
        assert!(!said.contains("987") && !said.contains("233") && !said.contains("201"), "{said}");
    }

    #[test]
    fn there_is_one_rail_at_least_and_a_bound() {
        let owner = |rails, end_point_bytes, key_bytes| {
            let rail = OwnerRail { end_point: vec![1; end_point_bytes], key: vec![2; key_bytes] };
            OwnerEnd { rails: vec![rail; rails] }.is_bounded()
        };
        let importer = |rails, end_point_bytes| {
            let rail = ImporterRail { end_point: vec![1; end_point_bytes], session: 1 };
            ImporterEnd { rails: vec![rail; rails] }.is_bounded()
        };
        assert!(importer(1, 0) && importer(MAX_RAILS, MAX_END_POINT_BYTES));
        assert!(!importer(0, 0) && !importer(MAX_RAILS + 1, 0) && !importer(2, MAX_END_POINT_BYTES + 1));
        assert!(owner(1, 0, 0) && owner(MAX_RAILS, MAX_END_POINT_BYTES, MAX_KEY_BYTES));
        assert!(!owner(0, 0, 0) && !owner(MAX_RAILS + 1, 0, 0));
        assert!(!owner(2, MAX_END_POINT_BYTES + 1, 0) && !owner(2, 0, MAX_KEY_BYTES + 1));
    }
}
