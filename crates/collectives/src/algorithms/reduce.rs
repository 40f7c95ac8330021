//! Reductions to one member. Members are counted from the root here: `place` 0 is the root.

use message_queue::meet::Meeting;
use zerocopy::IntoBytes;

use super::broadcast::lowest_bit;
use super::{combine_into_lower, powers, ring};
use crate::blocks::Blocks;
use crate::call::Call;
use crate::error::Error;
use crate::operation::Element;

/// A binomial tree: `log2 p` steps, rounded up, in which a member sends `n` bytes once.
pub(crate) fn binomial_tree<M: Meeting, T: Element>(
    call: &mut Call<'_, M>,
    root: usize,
    values: &mut [T],
    operation: &impl Fn(T, T) -> T,
) -> Result<(), Error> {
    let members = call.members();
    let place = call.before(root);
    let lowest = lowest_bit(place, members);
    // Only the root's values may change.
    let mut copy = if place == 0 { Vec::new() } else { values.to_vec() };
    let own = if place == 0 { values } else { copy.as_mut_slice() };
    let mut theirs = vec![T::new_zeroed(); own.len()];
    for bit in powers(members).filter(|bit| *bit < lowest && place + bit < members) {
        call.receive((place + bit + root) % members, theirs.as_mut_bytes())?;
        combine_into_lower(own, &theirs, operation);
    }
    if place != 0 {
        call.send((place - lowest + root) % members, own.as_bytes())?;
    }
    Ok(())
}

/// Reduce-scatter around the ring, then the root receives each block from its member (Rabenseifner's
/// algorithm, with a ring in place of recursive halving, so that any number of members will do): `2 (p - 1)`
/// steps of the root, and each member sends about `n` bytes.
pub(crate) fn reduce_scatter_and_gather<M: Meeting, T: Element>(
    call: &mut Call<'_, M>,
    root: usize,
    values: &mut [T],
    operation: &impl Fn(T, T) -> T,
) -> Result<(), Error> {
    let members = call.members();
    let blocks = Blocks::new(values.len(), members);
    let mut copy = values.to_vec();
    ring::reduce_scatter(call, &mut copy, operation)?;
    let own = blocks.of(call.rank);
    if call.rank != root {
        return call.send(root, copy[own].as_bytes());
    }
    values[own.clone()].copy_from_slice(&copy[own]);
    for rank in (0..members).filter(|rank| *rank != root) {
        call.receive(rank, values[blocks.of(rank)].as_mut_bytes())?;
    }
    Ok(())
}
