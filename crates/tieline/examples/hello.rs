//! Two nodes, one segment, one message: the smallest whole program.
//!
//! ```console
//! $ tieline up --nodes 2
//! $ cargo run --example hello
//! $ tieline down
//! ```
#![allow(clippy::print_stdout)]

use std::time::Duration;

use tieline::{InterruptOptions, Node, NodeId, NodeOptions, Result, SegmentId};

const SOON: Duration = Duration::from_secs(5);

fn main() -> Result<()> {
    // Two programs would each attach to their own node; here one program plays both.
    let attach =
        |id| Node::attach_with(&NodeOptions { node: Some(NodeId::new(id)?), ..NodeOptions::default() });
    let (receiver, sender) = (attach(4)?, attach(8)?);

    let segment = receiver.create_segment(SegmentId(1), 4096)?;
    segment.make_available()?;
    let arrived = receiver.create_interrupt(&InterruptOptions::default())?;

    let remote = sender.connect_segment(receiver.id(), SegmentId(1), SOON)?;
    let bell = sender.connect_interrupt(receiver.id(), arrived.number(), SOON)?;
    remote.put(0, b"hello over the interconnect")?;
    remote.barrier()?;
    bell.trigger()?;

    arrived.wait(Some(SOON))?;
    let mut text = [0; 27];
    segment.window().get(0, &mut text)?;
    println!("node {} received: {}", receiver.id(), String::from_utf8_lossy(&text));
    Ok(())
}
