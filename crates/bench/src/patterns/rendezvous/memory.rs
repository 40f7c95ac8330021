//! A passive far end: it creates a segment of the requested size and checks that the data which the
//! client reports is there.

use tieline::{Node, RemoteSegment, Segment, SegmentId, SegmentOptions};

use super::{Client, Order, ServeOptions, Service, Tool, check, serve};
use crate::{
    error::{BenchError, Result},
    patterns::{attach::CONNECT_TIMEOUT, provider::Provider, sizes},
};

const TASK_SEGMENT: u64 = 1;
const TASK_CHECK: u64 = 2;

/// Serves one client until it is done or gone.
pub fn serve_memory(options: &ServeOptions, tool: Tool) -> Result<()> {
    serve(options, tool, |_| Ok(0), |node, _| Ok(Owner::new(tool, node, options.most_bytes)))
}

/// The owner of the memory that is written, as the end that measures reaches it.
#[derive(Debug)]
pub(crate) enum Other<'a> {
    /// A part of this process.
    Here(Tool, &'a Segment),
    /// A server.
    There(&'a mut Client),
}

impl Other<'_> {
    /// Lets it compare the start of its memory.
    pub(crate) fn look(&mut self, size_bytes: usize, seed: u64) -> Result<()> {
        match self {
            Self::Here(tool, owner) => check_here(*tool, owner, size_bytes, seed),
            Self::There(client) => client.look(size_bytes, seed),
        }
    }

    /// The reference of a link between hosts; none within a host.
    pub(crate) fn provider(&mut self) -> Result<Option<Provider>> {
        match self {
            Self::There(client) if client.is_between_hosts() => Provider::needed(client).map(Some),
            _ => Ok(None),
        }
    }
}

/// Compares the beginning of a segment with what [`super::fill`] made of this seed.
pub fn check_here(tool: Tool, owner: &Segment, size_bytes: usize, seed: u64) -> Result<()> {
    let mut arrived = vec![0; size_bytes];
    owner.window().get(0, &mut arrived)?;
    check(tool.name(), &arrived, seed)
}

/// The service of such a far end; others are based on it.
pub(crate) struct Owner {
    tool: Tool,
    node: Node,
    segment: Option<Segment>,
    most_bytes: usize,
}

impl Owner {
    /// Without memory yet.
    pub(crate) fn new(tool: Tool, node: &Node, most_bytes: usize) -> Self {
        Self { tool, node: node.clone(), segment: None, most_bytes }
    }

    /// The memory that the client requested.
    pub(crate) const fn segment(&self) -> Option<&Segment> {
        self.segment.as_ref()
    }
}

impl Service for Owner {
    fn follow(&mut self, order: &Order) -> Result<u64> {
        let [first, second, _] = order.arguments;
        let size_bytes = usize::try_from(first).unwrap_or(usize::MAX);
        match (order.task, &self.segment) {
            (TASK_SEGMENT, _) => {
                sizes::check(self.tool.name(), &[size_bytes], 2)?;
                if size_bytes > self.most_bytes {
                    let asked_for = shm::Error::TooLarge {
                        size_bytes,
                        available_bytes: self.most_bytes,
                        limit: "the memory that an agent gives",
                    };
                    return Err(asked_for.into());
                }
                self.segment = None;
                let segment = self.node.create_segment_with(&SegmentOptions::new(size_bytes))?;
                segment.make_available()?;
                let id = segment.id().map_or(0, |id| u64::from(id.0));
                self.segment = Some(segment);
                Ok(id)
            }
            (TASK_CHECK, Some(segment)) if size_bytes <= segment.size_bytes() => {
                check_here(self.tool, segment, size_bytes, second).map(|()| 0)
            }
            _ => Err(BenchError::Usage("no such order".to_owned())),
        }
    }
}

impl Client {
    /// A segment of this size at the server.
    pub fn memory(&mut self, size_bytes: usize) -> Result<RemoteSegment> {
        let id = self.order(Order::new(TASK_SEGMENT, [size_bytes as u64, 0, 0]), &mut || Ok(()))?;
        let id = SegmentId(u32::try_from(id).unwrap_or(0));
        Ok(self.node.connect_segment(self.server, id, CONNECT_TIMEOUT)?)
    }

    /// Lets the server compare the start of its memory.
    pub fn look(&mut self, size_bytes: usize, seed: u64) -> Result<()> {
        self.order(Order::new(TASK_CHECK, [size_bytes as u64, seed, 0]), &mut || Ok(())).map(drop)
    }
}
