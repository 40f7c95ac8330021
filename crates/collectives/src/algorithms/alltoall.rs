//! A block from each member to each.

use message_queue::meet::Meeting;

use super::powers;
use crate::call::Call;
use crate::error::Error;

/// Bruck's algorithm (J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby, "Efficient algorithms for
/// all-to-all communications in multiport message-passing systems", 1997): `log2 p` steps, rounded up. A
/// block goes by way of others, over the distances that the bits of its whole distance are; in each step a
/// member sends about half of all blocks.
pub(crate) fn bruck<M: Meeting>(
    call: &mut Call<'_, M>,
    block: usize,
    to: &[u8],
    from: &mut [u8],
) -> Result<(), Error> {
    let members = call.members();
    let range_of = |number: usize| number * block..(number + 1) * block;
    // Block `i` has to go `i` ranks further on.
    let (to_end, from_begin) = to.split_at(call.rank * block);
    let mut turned = [from_begin, to_end].concat();
    for bit in powers(members) {
        let moved = || (0..members).filter(|distance| distance & bit != 0);
        let out: Vec<u8> = moved().flat_map(|distance| &turned[range_of(distance)]).copied().collect();
        let mut into = vec![0; out.len()];
        call.swap((call.after(bit), &out), (call.before(bit), &mut into))?;
        for (at, distance) in moved().enumerate() {
            turned[range_of(distance)].copy_from_slice(&into[range_of(at)]);
        }
    }
    for distance in 0..members {
        // Now block `i` has come from `i` ranks before.
        from[range_of(call.before(distance))].copy_from_slice(&turned[range_of(distance)]);
    }
    Ok(())
}

/// Pairwise exchange: `p - 1` steps; in step `i` each member sends to the one `i` after it and receives from
/// the one `i` before it. Each block goes its way directly.
pub(crate) fn pairwise<M: Meeting>(
    call: &mut Call<'_, M>,
    block: usize,
    to: &[u8],
    from: &mut [u8],
) -> Result<(), Error> {
    let range_of = |rank: usize| rank * block..(rank + 1) * block;
    let own = range_of(call.rank);
    from[own.clone()].copy_from_slice(&to[own]);
    for distance in 1..call.members() {
        let (next, previous) = (call.after(distance), call.before(distance));
        call.swap((next, &to[range_of(next)]), (previous, &mut from[range_of(previous)]))?;
    }
    Ok(())
}
