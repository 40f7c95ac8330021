//! Segments that several programs of a node own together.

use std::time::Duration;

use proto::ids::SegmentId;

use crate::callback::{Callback, LocalSegmentFn};
use crate::code::{Failure, Result};
use crate::descriptor::Descriptor;
use crate::handle::Handle;
use crate::library::Library;
use crate::local::{self, LocalSegment};

/// SCIShareSegment. Again it does nothing.
pub fn share(handle: Handle<LocalSegment>) -> Result<()> {
    Library::get()?.local_segments.get(handle)?.share()
}

/// SCIAttachLocalSegment: the handle, and how many bytes it has. A segment that is not there or not
/// shared is an error at once.
pub fn attach(
    descriptor: Handle<Descriptor>,
    id: u32,
    callback: Option<Callback<LocalSegmentFn>>,
) -> Result<(Handle<LocalSegment>, usize)> {
    let library = Library::get()?;
    let descriptor = library.descriptors.get(descriptor)?;
    let segment =
        library.node()?.attach_segment(SegmentId(id), Duration::ZERO).map_err(Failure::of_connecting)?;
    let segment = LocalSegment::attached(descriptor, segment);
    let size_bytes = segment.size_bytes();
    Ok((local::keep(library, segment, callback)?, size_bytes))
}
