//! Checks before and after the timed part whether data put over a link arrives. No figure is given
//! for a link that loses or changes data, and no loss is taken for a benchmark that could not run.

use tieline::RemoteSegment;

use super::rendezvous::fill;
use crate::error::{BenchError, Result};

/// Puts of a round. Both rounds together overlook a loss of 1 % once in 29,000 runs.
const PUTS: usize = 512;
const BLOCK_BYTES: usize = 64;
/// The number of bytes at the start of the remote segment that are written; the segment must have
/// them.
pub const BYTES: usize = PUTS * BLOCK_BYTES;
/// Each differs from the other in every byte, so that what the first left behind does not pass for
/// the second.
const SEEDS: [u64; 2] = [1, 2];

/// Lets the owner of the remote segment compare its start with the output of [`fill`]: the number
/// of bytes, and the seed.
pub type Look<'a> = dyn FnMut(usize, u64) -> Result<()> + Send + 'a;

/// Memory at the other end of a link, and the side that can read it there.
pub struct Arrival<'a> {
    what: &'static str,
    /// The node that puts, and the node that owns the memory.
    nodes: [u32; 2],
    remote: &'a RemoteSegment,
    look: &'a mut Look<'a>,
}

impl std::fmt::Debug for Arrival<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arrival")
            .field("what", &self.what)
            .field("nodes", &self.nodes)
            .finish_non_exhaustive()
    }
}

impl<'a> Arrival<'a> {
    /// For the benchmark `what`, which puts from the first node into memory of the second.
    pub fn new(
        what: &'static str,
        nodes: [u32; 2],
        remote: &'a RemoteSegment,
        look: &'a mut Look<'a>,
    ) -> Self {
        Self { what, nodes, remote, look }
    }

    /// Puts many blocks and has them compared; an error that names the link if one is missing or
    /// wrong.
    pub fn probe(&mut self) -> Result<()> {
        let mut known = vec![0; BYTES];
        for seed in SEEDS {
            fill(&mut known, seed);
            for (number, block) in known.chunks_exact(BLOCK_BYTES).enumerate() {
                self.remote.put(number * BLOCK_BYTES, block)?;
            }
            self.remote.barrier()?;
            self.look(BYTES, seed)?;
        }
        Ok(())
    }

    /// Lets the owner compare the data that the benchmark itself has put.
    pub fn look(&mut self, size_bytes: usize, seed: u64) -> Result<()> {
        (self.look)(size_bytes, seed).map_err(|error| of_link(self.what, self.nodes, error))
    }
}

/// Wrong data, whichever side found it, counts against the link.
fn of_link(what: &'static str, [from, to]: [u32; 2], error: BenchError) -> BenchError {
    match error {
        BenchError::WrongData { size_bytes, at, .. } => {
            let detail = format!("byte {at} of {size_bytes} is wrong");
            BenchError::DataLost { what, from, to, detail }
        }
        BenchError::WrongDataThere { .. } => {
            BenchError::DataLost { what, from, to, detail: format!("node {to} received wrong bytes") }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::rendezvous::check;

    #[test]
    fn what_one_seed_left_is_wrong_everywhere_for_the_other() {
        let mut known = vec![0; BYTES];
        fill(&mut known, SEEDS[0]);
        let blocks = known.chunks_exact(BLOCK_BYTES).enumerate();
        for (number, left) in blocks {
            let mut second = vec![0; BYTES];
            fill(&mut second, SEEDS[1]);
            check("test", &second, SEEDS[1]).unwrap();
            // One put of the second round was lost.
            second[number * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(left);
            let error = check("test", &second, SEEDS[1]).unwrap_err();
            assert!(
                matches!(error, BenchError::WrongData { at, .. } if at == number * BLOCK_BYTES),
                "{error}"
            );
        }
    }

    #[test]
    fn wrong_data_names_the_link_and_anything_else_stays_what_it_is() {
        let wrong = BenchError::WrongData { what: "dma", message: 1, size_bytes: 64, at: 3, want: 1, got: 2 };
        for error in [wrong, BenchError::WrongDataThere { what: "dma" }] {
            let text = of_link("dma", [8, 4], error).to_string();
            assert!(
                text.contains("link 4-8") && text.contains("lost") && text.contains("conntest"),
                "{text}"
            );
        }
        let silent = BenchError::NoAnswer { what: "dma", seconds: 1 };
        assert!(matches!(of_link("dma", [8, 4], silent), BenchError::NoAnswer { .. }));
    }
}
