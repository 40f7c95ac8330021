//! Broadcasts. Members are counted from the root here: `place` 0 is the root.

use message_queue::meet::Meeting;

use super::{powers, ring};
use crate::blocks::Blocks;
use crate::call::Call;
use crate::error::Error;

/// A binomial tree: `log2 p` steps, rounded up; the root sends `n log2 p` bytes.
pub(crate) fn binomial_tree<M: Meeting>(
    call: &mut Call<'_, M>,
    root: usize,
    bytes: &mut [u8],
) -> Result<(), Error> {
    let members = call.members();
    let place = call.before(root);
    let lowest = lowest_bit(place, members);
    if place != 0 {
        call.receive((place - lowest + root) % members, bytes)?;
    }
    for bit in powers(members).rev().filter(|bit| *bit < lowest && place + bit < members) {
        call.send((place + bit + root) % members, bytes)?;
    }
    Ok(())
}

/// Scatter in a binomial tree, then allgather around the ring (M. Barnett, L. Shuler, R. van de Geijn and
/// others, "Interprocessor collective communication library (InterCom)", 1994): `log2 p + p - 1` steps; the
/// root sends about `2 n` bytes.
pub(crate) fn scatter_and_allgather<M: Meeting>(
    call: &mut Call<'_, M>,
    root: usize,
    bytes: &mut [u8],
) -> Result<(), Error> {
    let members = call.members();
    let place = call.before(root);
    let blocks = Blocks::new(bytes.len(), members);
    let lowest = lowest_bit(place, members);
    if place != 0 {
        let own = blocks.range(place, members.min(place + lowest));
        call.receive((place - lowest + root) % members, &mut bytes[own])?;
    }
    for bit in powers(members).rev().filter(|bit| *bit < lowest && place + bit < members) {
        let theirs = blocks.range(place + bit, members.min(place + 2 * bit));
        call.send((place + bit + root) % members, &bytes[theirs])?;
    }
    ring::allgather(call, place, |block| blocks.of(block), bytes)
}

/// The lowest bit of a place, which its parent in the tree lacks; of the root, one above all.
pub(super) fn lowest_bit(place: usize, members: usize) -> usize {
    if place == 0 { members.next_power_of_two() } else { place & place.wrapping_neg() }
}
