//! The request/response benchmark: half a round trip by message size, over stores into the other
//! side's memory.
//!
//! Both ends run in this process ([`run`]), or each in its own process ([`client`], [`serve`]).
//! Messages are sent as [`super::pio`] describes. Each size is first exchanged with every byte
//! checked, then timed, and compared with the cache-line baseline, which is measured on the same
//! words around each reading.

mod both;
pub mod duplex;
pub mod far;
pub mod near;
mod report;
pub mod sides;

use std::time::Duration;

use tieline::NodeId;

pub use both::{client, run, serve};
pub use report::{Report, Row};

use super::{attach::Where, pio::Placement};
use crate::{error::Result, rivals::placement::Placement as Placed};

/// The sizes of the classic table.
pub const SIZES_BYTES: [usize; 13] = [0, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];

/// The options of the benchmark.
#[derive(Debug, Clone)]
pub struct Options {
    /// The nodes.
    pub place: Where,
    /// Processors of the two ends (a client uses the first; the same twice is one for both); `None`
    /// for a choice.
    pub cpus: Option<[usize; 2]>,
    /// Message sizes, up to 8192.
    pub sizes_bytes: Vec<usize>,
    /// The place of messages.
    pub placement: Placement,
    /// Readings of each size, of about a millisecond and a half.
    pub readings: u32,
    /// The number of messages of each size and direction whose bytes are all checked.
    pub checked: u32,
    /// Threads of competing load.
    pub load: usize,
    /// Command line, for the record.
    pub argv: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            place: Where::default(),
            cpus: None,
            sizes_bytes: SIZES_BYTES.to_vec(),
            placement: Placement::Shared,
            readings: 15,
            checked: 200,
            load: 0,
            argv: Vec::new(),
        }
    }
}

impl Options {
    fn both_cpus(&self) -> Result<[usize; 2]> {
        self.cpus.map_or(Placed::TwoCores, Placed::Given).resolve("scipp")
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
}
