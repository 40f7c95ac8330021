//! The latency of short puts while long blocks are under way, over two rails.

use super::Ends;
use crate::error::Result;

/// Of the blocks.
pub(super) const BLOCK_BYTES: u64 = 1 << 20;
/// Puts of a reading.
pub(super) const ROUNDS: u64 = 200;
/// Blocks of a reading of the rate.
const BLOCKS: u64 = 16;

/// The time that 99 % of the puts and their answers do not exceed, in ns.
pub(super) fn reading(ends: &mut Ends) -> Result<f64> {
    ends.far.say(&format!("urgent-answer {ROUNDS}"))?;
    let time_ns = ends.time(&format!("urgent {BLOCK_BYTES} {ROUNDS}"))?;
    ends.far_line()?;
    Ok(time_ns)
}

/// How long one rail needs for a chunk of a block, in ns.
pub(super) fn chunk_ns(ends: &mut Ends) -> Result<f64> {
    let chunk_bytes = ends.time("chunk")?;
    let block_ns = ends.time(&format!("stream {BLOCK_BYTES} {BLOCKS}"))?;
    Ok(block_ns * chunk_bytes / BLOCK_BYTES as f64)
}
