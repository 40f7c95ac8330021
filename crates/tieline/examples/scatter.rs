//! A DMA queue: a vector of blocks scattered over remote memory, posted at once.
#![allow(clippy::print_stdout)]

use std::time::Duration;

use tieline::{Direction, DmaEntry, Node, NodeId, NodeOptions, Result, SegmentId};

const BLOCKS: usize = 256;
const BLOCK_BYTES: usize = 64;

fn main() -> Result<()> {
    let attach =
        |id| Node::attach_with(&NodeOptions { node: Some(NodeId::new(id)?), ..NodeOptions::default() });
    let (owner, writer) = (attach(4)?, attach(8)?);
    let target = owner.create_segment(SegmentId(3), 2 * BLOCKS * BLOCK_BYTES)?;
    target.make_available()?;
    let source = writer.create_segment(SegmentId(3), BLOCKS * BLOCK_BYTES)?;
    let remote = writer.connect_segment(owner.id(), SegmentId(3), Duration::from_secs(5))?;

    for block in 0..BLOCKS {
        source.window().fill(block * BLOCK_BYTES, BLOCK_BYTES, block as u8)?;
    }
    let queue = writer.dma_queue(BLOCKS)?;
    // Every block goes to every second place.
    let vector: Vec<DmaEntry> = (0..BLOCKS)
        .map(|block| DmaEntry {
            size_bytes: BLOCK_BYTES,
            local_offset: block * BLOCK_BYTES,
            remote_offset: 2 * block * BLOCK_BYTES,
        })
        .collect();
    queue.gather(&source, &remote, Direction::Push, &vector)?;
    queue.post()?;
    let state = queue.wait(None)?;

    let right = (0..BLOCKS).all(|block| {
        let mut byte = [0];
        target.window().get(2 * block * BLOCK_BYTES, &mut byte).is_ok() && byte[0] == block as u8
    });
    println!("{BLOCKS} blocks: {state:?}, {}", if right { "all where they belong" } else { "WRONG DATA" });
    Ok(())
}
