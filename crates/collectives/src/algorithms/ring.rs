//! Parts of algorithms in which each member sends to the next and receives from the one before.
//!
//! Both take `p - 1` steps, in which each member sends `n (p - 1) / p` bytes (P. Patarasuk, X. Yuan,
//! "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009).

use std::ops::Range;

use message_queue::meet::Meeting;
use zerocopy::IntoBytes;

use super::combine;
use crate::blocks::Blocks;
use crate::call::Call;
use crate::error::Error;
use crate::operation::Element;

/// Each member has the block of its place, and gets all others. `place` is the rank counted from any rank.
pub(super) fn allgather<M: Meeting>(
    call: &mut Call<'_, M>,
    place: usize,
    block: impl Fn(usize) -> Range<usize>,
    all: &mut [u8],
) -> Result<(), Error> {
    let members = call.members();
    let (next, previous) = (call.after(1), call.before(1));
    for distance in 0..members - 1 {
        let out = block((place + members - distance) % members);
        let into = block((place + members - distance - 1) % members);
        let mut received = vec![0; into.len()];
        call.swap((next, &all[out]), (previous, &mut received))?;
        all[into].copy_from_slice(&received);
    }
    Ok(())
}

/// Combines the values of all members; afterwards the block of each rank is the result on that rank, and
/// nothing else of `values` is.
pub(super) fn reduce_scatter<M: Meeting, T: Element>(
    call: &mut Call<'_, M>,
    values: &mut [T],
    operation: &impl Fn(T, T) -> T,
) -> Result<(), Error> {
    let members = call.members();
    let blocks = Blocks::new(values.len(), members);
    let (next, previous) = (call.after(1), call.before(1));
    // The first block is the longest.
    let mut received = vec![T::new_zeroed(); blocks.of(0).len()];
    for distance in 1..members {
        let (out, into) = (blocks.of(call.before(distance)), blocks.of(call.before(distance + 1)));
        let received = &mut received[..into.len()];
        // What comes was combined by the ranks before this one.
        call.swap((next, values[out].as_bytes()), (previous, received.as_mut_bytes()))?;
        combine(received, &mut values[into], operation);
    }
    Ok(())
}
