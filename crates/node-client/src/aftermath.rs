//! What becomes of a request that was not answered as it should be: too late, or without its descriptors.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use proto::wire::decode;
use proto::wire::program::{Refusal, Reply, Request, RequestId, ToProgram};

use crate::error::{Result, io};
use crate::seqpacket::Datagram;

/// The answer in a datagram whose descriptors did not fit into this process, if it is one.
pub(crate) fn lost_answer(
    buffer: &[u8],
    datagram: &Datagram,
) -> Option<(RequestId, std::result::Result<Reply, Refusal>)> {
    if !datagram.descriptors_lost || datagram.truncated {
        return None;
    }
    match decode(buffer.get(..datagram.len)?) {
        Ok(ToProgram::Reply { id, result }) => Some((id, result)),
        _ => None,
    }
}

/// Own duplicates of what a restarted manager will have to be given again.
pub(crate) fn keep(request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<Arc<[OwnedFd]>> {
    if !matches!(request, Request::CreateSegment { .. } | Request::CreateInterrupt { .. }) {
        return Ok(Arc::new([]));
    }
    let kept: std::result::Result<Vec<_>, _> =
        descriptors.iter().map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, 0)).collect();
    Ok(kept.map_err(io("duplicate a descriptor"))?.into())
}

/// What takes back an answer that came too late.
pub(crate) fn undo(request: &Request, reply: &Reply) -> Option<Request> {
    match (request, reply) {
        (_, Reply::Segment { import, .. } | Reply::Interrupt { import, .. } | Reply::Resumed { import }) => {
            Some(Request::Disconnect { import: *import })
        }
        (Request::CreateSegment { key, .. }, Reply::Done) => {
            Some(Request::RemoveSegment { key: *key, force: true })
        }
        (_, Reply::InterruptCreated { number }) => Some(Request::RemoveInterrupt { number: *number }),
        _ => None,
    }
}
