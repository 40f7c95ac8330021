//! The request/response benchmark: half a round trip by message size, over stores into the other
//! side's memory.
//!
//! Both ends run in this process ([`run`]), or each in its own process ([`client`], [`serve`]), which may be
//! on another host ([`between_hosts`]): there messages are puts, because nothing can be stored to.
//! Messages are sent as [`super::pio`] describes. Each size is first exchanged with every byte
//! checked, then timed, and compared with the cache-line baseline, which is measured on the same
//! words around each reading.

pub mod between_hosts;
mod both;
pub mod duplex;
pub mod far;
pub mod near;
mod report;
mod rows;
pub mod sides;

use serde::{Deserialize, Serialize};

pub use both::{client, run, serve};
pub use report::{Report, Row};

pub use super::rendezvous::ServeOptions;
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

/// What carries the messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mechanism {
    /// Plain stores into memory that both ends map.
    #[default]
    Stores,
    /// `put` into memory of another host, which cannot be mapped.
    Put,
}
