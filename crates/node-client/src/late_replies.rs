//! Handles requests whose reply came too late, without its descriptors, or not at all.

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use proto::wire::decode;
use proto::wire::program::{Refusal, Reply, Request, RequestId, ToProgram};

use crate::connection::{Pending, Waiter};
use crate::error::{Result, io};
use crate::seqpacket::Datagram;

/// Changes that were requested from a manager that ended before its reply, in the order of the requests. It
/// may have made them and told other nodes, so they are announced to the next manager as made.
pub(crate) fn in_doubt(pending: &HashMap<RequestId, Pending>) -> Vec<Request> {
    let mut doubtful: Vec<_> = pending
        .iter()
        .filter(|(_, pending)| !matches!(pending.waiter, Waiter::Thread { answer: Some(_), .. }))
        .filter(|(_, pending)| {
            matches!(pending.request, Request::SetAvailable { .. } | Request::ShareSegment { .. })
        })
        .map(|(id, pending)| (*id, pending.request.clone()))
        .collect();
    doubtful.sort_unstable_by_key(|(id, _)| *id);
    doubtful.into_iter().map(|(_, request)| request).collect()
}

/// The reply in a datagram whose descriptors did not fit into this process; `None` for other datagrams.
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

/// Duplicates of the descriptors that a restarted manager must be given again.
pub(crate) fn keep(request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<Arc<[OwnedFd]>> {
    if !matches!(request, Request::CreateSegment { .. } | Request::CreateInterrupt { .. }) {
        return Ok(Arc::new([]));
    }
    let kept: std::result::Result<Vec<_>, _> =
        descriptors.iter().map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, 0)).collect();
    Ok(kept.map_err(io("duplicate a descriptor"))?.into())
}

/// The request that undoes a request whose reply came too late.
pub(crate) fn undo(request: &Request, reply: &Reply) -> Option<Request> {
    match (request, reply) {
        (
            _,
            Reply::Segment { import, .. }
            | Reply::Interrupt { import, .. }
            | Reply::ByNetwork { import, .. }
            | Reply::Resumed { import },
        ) => Some(Request::Disconnect { import: *import }),
        (Request::CreateSegment { key, .. }, Reply::Done) => {
            Some(Request::RemoveSegment { key: *key, force: true })
        }
        (_, Reply::InterruptCreated { number }) => Some(Request::RemoveInterrupt { number: *number }),
        _ => None,
    }
}
