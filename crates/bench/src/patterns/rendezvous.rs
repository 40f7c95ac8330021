//! How the two processes of a benchmark find each other, check that they belong together, and
//! exchange orders.
//!
//! Each creates a small segment whose name follows from the tool and the *other's* node, so that
//! `--rn` is the only option that they need. The head of the segment has the tool, the version of
//! the orders and the version of the program ([`mailbox::Head`]). Orders are words in the server's
//! segment. They come from a peer, so each is checked before it is carried out; a wrong one is
//! answered with a code and changes nothing.
//!
//! (Within a host `scipp` has its own words, which are older: its orders carry more and are sent for every
//! reading.)

pub mod mailbox;
mod meet;
pub mod memory;

use std::time::Duration;

pub use mailbox::{Code, Mailbox, Order, Service};
pub use meet::{Client, serve};
use tieline::NodeId;

use super::attach::Where;
use crate::{
    error::{BenchError, Result},
    rivals::placement::Placement,
};

/// The tools that meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Streaming stores.
    Scibench2 = 1,
    /// Vectors of block copies.
    Dma = 2,
    /// Interrupts.
    Intr = 3,
    /// Every round trip of a run.
    Jitter = 4,
    /// Beside other transports.
    Latency = 5,
    /// Requests and responses, between hosts.
    Scipp = 6,
    /// Messages, groups and memory by size, between hosts.
    Pt2pt = 7,
}

impl Tool {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Scibench2, Self::Dma, Self::Intr, Self::Jitter, Self::Latency, Self::Scipp, Self::Pt2pt];

    /// The name in the command line and in errors.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scibench2 => "scibench2",
            Self::Dma => "dma",
            Self::Intr => "intr",
            Self::Jitter => "jitter",
            Self::Latency => "latency",
            Self::Scipp => "scipp",
            Self::Pt2pt => "pt2pt",
        }
    }

    /// Bytes of a segment of the rendezvous: the mailbox, and what is put between hosts behind it.
    const fn bytes(self) -> usize {
        match self {
            Self::Scipp => mailbox::MAILBOX_BYTES + super::scipp::between_hosts::MESSAGES_BYTES,
            Self::Jitter => mailbox::MAILBOX_BYTES + super::jitter::between_hosts::WORD_BYTES,
            _ => mailbox::MAILBOX_BYTES,
        }
    }

    /// The tool of a word that a peer wrote.
    fn of(word: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| *tool as u64 == word)
    }
}

/// The options of a server.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Cluster, and the node to serve on (`near`).
    pub place: Where,
    /// The client's node.
    pub client: NodeId,
    /// Processor; `None`: the second of the choice that the client makes.
    pub cpu: Option<usize>,
    /// The time limit of the wait for the client.
    pub wait: Duration,
    /// Largest segment that the client may ask for.
    pub most_bytes: usize,
}

/// Byte `at` of a block that is checked: differs between neighbours, between pages and between
/// seeds.
const fn expected(seed: u64, at: usize) -> u8 {
    (seed.wrapping_mul(151) as usize)
        .wrapping_add(at.wrapping_mul(31))
        .wrapping_add(at >> 8)
        .wrapping_add(at >> 16) as u8
}

/// Fills a block for a check.
pub fn fill(block: &mut [u8], seed: u64) {
    block.iter_mut().enumerate().for_each(|(at, byte)| *byte = expected(seed, at));
}

/// Compares a block with what [`fill`] made.
pub fn check(what: &'static str, block: &[u8], seed: u64) -> Result<()> {
    match block.iter().enumerate().find(|(at, byte)| **byte != expected(seed, *at)) {
        None => Ok(()),
        Some((at, got)) => Err(BenchError::WrongData {
            what,
            message: seed,
            size_bytes: block.len(),
            at,
            want: expected(seed, at),
            got: *got,
        }),
    }
}

/// The processor of the end in this process: the given one, else the near or far one of the usual
/// choice; on a machine with one processor that one.
pub(crate) fn cpu_of(asked: Option<usize>, near: bool) -> Result<usize> {
    if let Some(cpu) = asked {
        return Placement::Given([cpu, cpu]).resolve("a benchmark").map(|_| cpu);
    }
    match crate::cpus::pair(None, "a benchmark") {
        Ok([first, second]) => Ok(if near { first } else { second }),
        Err(BenchError::TooFewCpus { allowed, what }) => {
            allowed.first().copied().ok_or(BenchError::TooFewCpus { what, allowed })
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
