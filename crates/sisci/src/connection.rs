//! The target of a connected remote segment: one segment, of this host or another, or all copies of
//! a group.

use std::sync::Arc;

use link::Capabilities;
use shm::region::PartialMapOptions;
use shm::window::Window;
use tieline::{PartialRemoteMap, RemoteMap, RemoteSegment};

use crate::code::{Code, Result};
use crate::far::FarSegment;
use crate::group::GroupConnection;
use crate::library::Library;

/// A connection.
#[derive(Debug)]
pub enum Connection {
    /// To a segment of this host.
    Segment {
        /// The segment of the Rust API.
        segment: RemoteSegment,
        /// Mapped once for all maps.
        map: RemoteMap,
    },
    /// To a segment of another host.
    Far(Arc<FarSegment>),
    /// To a group.
    Group(Arc<GroupConnection>),
}

impl Connection {
    /// To a segment.
    pub(crate) fn to_segment(library: &Library, segment: RemoteSegment) -> Result<Self> {
        if !segment.capabilities().has(Capabilities::MAP) {
            return Ok(Self::Far(library.far_segments.add(segment)));
        }
        let map = segment.map()?;
        Ok(Self::Segment { segment, map })
    }

    /// The segment, if it is one, on this host or another.
    pub fn segment(&self) -> Option<&RemoteSegment> {
        match self {
            Self::Segment { segment, .. } => Some(segment),
            Self::Far(far) => Some(far.segment()),
            Self::Group(_) => None,
        }
    }

    /// The segment, if it is on another host.
    pub fn far(&self) -> Option<&Arc<FarSegment>> {
        match self {
            Self::Far(far) => Some(far),
            Self::Segment { .. } | Self::Group(_) => None,
        }
    }

    /// The group, if it is one.
    pub fn group(&self) -> Option<&Arc<GroupConnection>> {
        match self {
            Self::Segment { .. } | Self::Far(_) => None,
            Self::Group(group) => Some(group),
        }
    }

    /// The size in bytes.
    pub fn size_bytes(&self) -> usize {
        match self {
            Self::Segment { segment, .. } => segment.size_bytes(),
            Self::Far(far) => far.segment().size_bytes(),
            Self::Group(group) => group.size_bytes(),
        }
    }

    /// The address at which it is mapped; on another host, where its copy-only maps begin.
    pub fn address(&self) -> Result<usize> {
        match self {
            Self::Segment { map, .. } => Ok(map.as_ptr()?.expose_provenance()),
            Self::Far(far) => far.address(),
            Self::Group(group) => Ok(group.address()),
        }
    }

    /// A mapping of its own, apart from the one that all maps share.
    pub fn map_part(&self, options: &PartialMapOptions) -> Result<PartialRemoteMap> {
        match self {
            Self::Segment { segment, .. } => Ok(segment.map_part(options)?),
            Self::Far(far) => Ok(far.segment().map_part(options)?),
            Self::Group(group) => Err(Code::NOT_SUPPORTED.because(format!(
                "the map of group {} follows its members and has one address: map it without \
                 SCI_FLAG_FIXED_MAP_ADDR and SCI_FLAG_READONLY_MAP",
                group.id()
            ))),
        }
    }

    /// Whether the other end can be used now. A group always can: a process that is not there is
    /// not reached.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Segment { segment, .. } => Ok(segment.check()?),
            Self::Far(far) => Ok(far.segment().check()?),
            Self::Group(_) => Ok(()),
        }
    }

    /// Writes what `source` holds: to all copies of a group.
    pub fn put_from(&self, offset: usize, source: Window<'_>) -> Result<()> {
        match self {
            Self::Segment { segment, .. } => Ok(segment.put_from(offset, source)?),
            Self::Far(far) => far.put_from(offset, source),
            Self::Group(group) => group.put_from(offset, source),
        }
    }

    /// Reads into `target`: of a group, the copy that its map shows.
    pub fn get_to(&self, offset: usize, target: Window<'_>) -> Result<()> {
        match self {
            Self::Segment { segment, .. } => Ok(segment.get_to(offset, target)?),
            Self::Far(far) => far.get_to(offset, target),
            Self::Group(group) => group.get_to(offset, target),
        }
    }

    /// Does something with each segment that DMA is to write to, or with the one that it is to read
    /// from.
    pub fn ends(&self, reads: bool, mut each: impl FnMut(&RemoteSegment) -> Result<()>) -> Result<()> {
        match self {
            Self::Segment { segment, .. } => each(segment),
            Self::Far(far) => {
                far.send();
                each(far.segment())
            }
            Self::Group(group) => {
                group.send();
                let copies = group.copies()?;
                if copies.is_empty() {
                    let detail = format!("group {} has no member now", group.id());
                    return Err(Code::NOT_CONNECTED.because(detail));
                }
                let count = if reads { 1 } else { copies.len() };
                copies.iter().take(count).try_for_each(each)
            }
        }
    }

    /// Tells the owner whether this connection has maps. Groups have no owner that needs to know it,
    /// and an owner on another host cannot be told.
    pub(crate) fn tell_use(&self, is_used: bool) {
        if let Self::Segment { segment, .. } = self {
            // Otherwise an owner could remove what is mapped; the memory of the maps would stay.
            drop(segment.tell_use(is_used));
        }
    }

    /// Lets the owner go, though a sequence that the program has forgotten may hold on to the
    /// memory.
    pub(crate) fn leave(&self) {
        if let Some(far) = self.far() {
            // What was copied arrives, as stores through a map do. A failure has no one who could
            // repeat it.
            drop(far.settle());
        }
        if let Some(segment) = self.segment() {
            // If the manager is not there, or the owner is gone, there is no one to notify.
            drop(segment.disconnect());
        }
    }

    /// Ends waits and threads.
    pub(crate) fn stop(&self) {
        match self {
            Self::Segment { segment, .. } => segment.cancel_waits(),
            Self::Far(far) => far.segment().cancel_waits(),
            Self::Group(group) => group.stop(),
        }
    }
}
