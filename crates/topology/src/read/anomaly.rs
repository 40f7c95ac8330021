//! Statements of a file that a reader could not believe.

use std::collections::BTreeMap;
use std::fmt;

use crate::text::printable;

/// Anomalies that are kept in full; the rest is only counted.
const MOST: usize = 1_000;
/// Characters of an anomaly's detail that are kept.
const LONGEST: usize = 200;

/// A kind of anomaly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A line that means nothing in this format.
    NotUnderstood,
    /// Bytes that are not UTF-8: each was replaced.
    NotText,
    /// A number that is no number, or none that can be.
    BadNumber,
    /// A port number that the node does not have.
    NoSuchPort,
    /// A cable to a node that the file does not describe.
    Dangling,
    /// A cable that only one of its ends mentions.
    OneWay,
    /// Two statements about a port that can't both be true.
    Contradiction,
    /// A cable with both ends at one node.
    SelfLink,
    /// A port's line that no node's header is above.
    NoHeader,
    /// A node that was described before.
    DuplicateNode,
    /// A GUID that two nodes have.
    DuplicateGuid,
    /// The line for a node's GUID has another one, such as that of its system.
    SystemGuid,
    /// A LID that two ports have.
    DuplicateLid,
    /// A switch without a LID among others that have one.
    NoLid,
    /// A width or speed that is not known.
    UnknownRate,
    /// The ends of a cable differ in width or speed.
    RateDiffers,
    /// The file ends in the middle of something.
    Truncated,
}

impl Cause {
    /// The words for it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::NotUnderstood => "unrecognised line",
            Self::NotText => "not text",
            Self::BadNumber => "bad number",
            Self::NoSuchPort => "no such port",
            Self::Dangling => "cable to a node that is not described",
            Self::OneWay => "cable with one end",
            Self::Contradiction => "conflict with an earlier line",
            Self::SelfLink => "cable from a node to itself",
            Self::NoHeader => "port without a node header",
            Self::DuplicateNode => "node described twice",
            Self::DuplicateGuid => "duplicate GUID",
            Self::SystemGuid => "two GUIDs for one node",
            Self::DuplicateLid => "duplicate LID",
            Self::NoLid => "switch without LID",
            Self::UnknownRate => "unknown width or speed",
            Self::RateDiffers => "ends differ in width or speed",
            Self::Truncated => "truncated",
        }
    }
}

/// Something in a file that could not be believed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Anomaly {
    /// Line of the file, from 1 on; 0 is the file as a whole.
    pub line: usize,
    /// What kind of anomaly it is.
    pub cause: Cause,
    /// What exactly, and what was done about it.
    pub detail: String,
}

impl fmt::Display for Anomaly {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(out, "line {}: ", self.line)?;
        }
        write!(out, "{}: {}", self.cause.words(), self.detail)
    }
}

/// All anomalies of a file: the first thousand, and how many there are of each kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Anomalies {
    kept: Vec<Anomaly>,
    counts: BTreeMap<Cause, u64>,
}

impl Anomalies {
    /// Adds one. Text of the file is shortened, and what can't be printed is spelt out.
    pub(super) fn add(&mut self, line: usize, cause: Cause, detail: impl fmt::Display) {
        *self.counts.entry(cause).or_default() += 1;
        if self.kept.len() < MOST {
            let detail: String = detail.to_string().chars().take(LONGEST).collect();
            let detail = printable(&detail).into_owned();
            self.kept.push(Anomaly { line, cause, detail });
        }
    }

    pub(super) fn sort(&mut self) {
        self.kept.sort();
    }

    /// Those that are kept, in the order of lines.
    pub fn iter(&self) -> impl Iterator<Item = &Anomaly> {
        self.kept.iter()
    }

    /// How many there are in all, those too that are not kept.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// How many there are of each kind.
    #[must_use]
    pub fn counts(&self) -> &BTreeMap<Cause, u64> {
        &self.counts
    }

    /// How many there are of a kind.
    #[must_use]
    pub fn count(&self, cause: Cause) -> u64 {
        self.counts.get(&cause).copied().unwrap_or(0)
    }

    /// Was everything believed?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}
