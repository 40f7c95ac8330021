//! What [`super::rma`] and [`super::atomic`] have in common: an operation on a peer's memory, whatever
//! function it came through.

use fabric_sys::abi::{fi_addr_t, fid_ep};
use fabric_sys::constants::{FI_COMPLETION, FI_EINVAL, FI_INJECT};
use libc::c_void;
use message_queue::Buffers;
use message_queue::buffers::Source as _;

use super::Object;
use super::ep::{Flags, SEND_FLAGS};
use crate::abi::{FI_EBADFLAGS, FI_EMSGSIZE};
use crate::engine::endpoint::EAGER_MAX_BYTES;
use crate::engine::memory_lane::RemoteRequest;
use crate::engine::request::What;

/// A place in a peer's memory.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub(super) to: fi_addr_t,
    pub(super) address: u64,
    pub(super) key: u64,
}

/// An operation on it.
#[derive(Clone, Copy)]
pub(super) struct Remote {
    pub(super) what: What,
    pub(super) datatype: u8,
    pub(super) op: u8,
    pub(super) target: Target,
    pub(super) data: Option<u64>,
    pub(super) context: *mut c_void,
    pub(super) flags: Flags,
}

/// Begins an operation: `bytes` go to the peer, and what it answers with comes into `into`.
///
/// # Safety
/// An end point of the program's; the buffers are as [`crate::engine::buffers`] needs them.
pub(super) unsafe fn begin(ep: *mut fid_ep, remote: &Remote, bytes: Buffers, into: Buffers) -> isize {
    // SAFETY: by the caller's word.
    let object = unsafe { Object::of(ep) };
    let state = &mut *object.domain.lock();
    let Some(endpoint) = state.endpoints.get_mut(object.number) else { return -(FI_EINVAL as isize) };
    let flags = match remote.flags {
        Flags::Default => endpoint.wishes.send_flags,
        Flags::Given(flags) => flags | endpoint.wishes.send_flags & !FI_COMPLETION,
        Flags::Inject => FI_INJECT,
    };
    if flags & !SEND_FLAGS != 0 {
        return -(FI_EBADFLAGS as isize);
    }
    let bytes = if flags & FI_INJECT == 0 {
        bytes
    } else if bytes.len() > EAGER_MAX_BYTES {
        return -(FI_EMSGSIZE as isize);
    } else {
        // The program's memory is its own again when this returns.
        Buffers::Owned(bytes.to_vec())
    };
    let Target { to, address, key } = remote.target;
    let peer = endpoint.vector.and_then(|number| state.shared.vectors.get(number)?.peer(to));
    let Some(to) = peer else { return -(FI_EINVAL as isize) };
    let is_inject = matches!(remote.flags, Flags::Inject);
    let wants_completion = !is_inject
        && endpoint.send_queue.is_some_and(|bound| !bound.is_selective || flags & FI_COMPLETION != 0);
    let Remote { what, datatype, op, data, context, .. } = *remote;
    let request = RemoteRequest {
        to,
        what,
        datatype,
        op,
        key,
        address,
        data,
        context: context.expose_provenance(),
        wants_completion,
    };
    match endpoint.begin_remote(&request, bytes, into, &mut state.shared) {
        Ok(()) => 0,
        Err(error) => -(error as isize),
    }
}
