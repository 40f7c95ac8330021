//! Reductions to all members, with the same bits on all.

use message_queue::meet::Meeting;
use zerocopy::IntoBytes;

use super::{combine, combine_into_lower, ring};
use crate::blocks::Blocks;
use crate::call::Call;
use crate::error::Error;
use crate::operation::Element;

/// Recursive doubling: `log2 p` steps with `n` bytes each. If the members are no power of two, there are two
/// steps more: of as many pairs as there are too many members, one takes part for both.
///
/// Two members that exchange values combine the same two in the same order, so they have the same bits
/// afterwards, and so have all after the last step.
pub(crate) fn recursive_doubling<M: Meeting, T: Element>(
    call: &mut Call<'_, M>,
    values: &mut [T],
    operation: &impl Fn(T, T) -> T,
) -> Result<(), Error> {
    let (members, rank) = (call.members(), call.rank);
    // The largest power of two that is not more than the members.
    let taking_part = 1 << members.ilog2();
    let pairs = members - taking_part;
    if rank < 2 * pairs && rank.is_multiple_of(2) {
        call.send(rank + 1, values.as_bytes())?;
        return call.receive(rank + 1, values.as_mut_bytes());
    }
    let mut theirs = vec![T::new_zeroed(); values.len()];
    if rank < 2 * pairs {
        call.receive(rank - 1, theirs.as_mut_bytes())?;
        combine(&theirs, values, operation);
    }
    let number = if rank < 2 * pairs { rank / 2 } else { rank - pairs };
    for bit in super::powers(taking_part) {
        let other = number ^ bit;
        let partner = if other < pairs { 2 * other + 1 } else { other + pairs };
        call.swap((partner, values.as_bytes()), (partner, theirs.as_mut_bytes()))?;
        if partner < rank {
            combine(&theirs, values, operation);
        } else {
            combine_into_lower(values, &theirs, operation);
        }
    }
    if rank < 2 * pairs {
        call.send(rank - 1, values.as_bytes())?;
    }
    Ok(())
}

/// Each member sends its values to all others and combines those of all, in rank order: one step, and
/// `(p - 1) n` bytes.
pub(crate) fn exchange<M: Meeting, T: Element>(
    call: &mut Call<'_, M>,
    values: &mut [T],
    operation: &impl Fn(T, T) -> T,
) -> Result<(), Error> {
    let (members, rank) = (call.members(), call.rank);
    for distance in 1..members {
        call.send(call.after(distance), values.as_bytes())?;
    }
    let mut room = vec![T::new_zeroed(); 2 * values.len()];
    let (own, theirs) = room.split_at_mut(values.len());
    own.copy_from_slice(values);
    for from in 0..members {
        let next = if from == rank { &mut *own } else { &mut *theirs };
        if from != rank {
            call.receive(from, next.as_mut_bytes())?;
        }
        if from == 0 {
            values.copy_from_slice(next);
        } else {
            combine_into_lower(values, next, operation);
        }
    }
    Ok(())
}

/// Reduce-scatter, then allgather, both around the ring: `2 (p - 1)` steps, and each member sends about `2 n`
/// bytes, for any number of members. Each block is computed by one member, and copied by all others.
pub(crate) fn reduce_scatter_and_allgather<M: Meeting, T: Element>(
    call: &mut Call<'_, M>,
    values: &mut [T],
    operation: &impl Fn(T, T) -> T,
) -> Result<(), Error> {
    let members = call.members();
    let blocks = Blocks::new(values.len(), members);
    ring::reduce_scatter(call, values, operation)?;
    let bytes_of = |block| {
        let range = blocks.of(block);
        range.start * size_of::<T>()..range.end * size_of::<T>()
    };
    ring::allgather(call, call.rank, bytes_of, values.as_mut_bytes())
}
