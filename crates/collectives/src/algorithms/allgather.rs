//! Gathering on all members.

use message_queue::meet::Meeting;

use super::{powers, ring};
use crate::call::Call;
use crate::error::Error;

/// Bruck's algorithm (J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby, "Efficient algorithms for
/// all-to-all communications in multiport message-passing systems", 1997): `log2 p` steps, rounded up, for
/// any number of members; each member sends `n (p - 1) / p` bytes of the result's `n`.
pub(crate) fn bruck<M: Meeting>(call: &mut Call<'_, M>, mine: &[u8], all: &mut [u8]) -> Result<(), Error> {
    let (members, block) = (call.members(), mine.len());
    // Block `i` is of the rank `i` after this one, so what is there is always at the front.
    let mut turned = vec![0; all.len()];
    turned[..block].copy_from_slice(mine);
    for have in powers(members) {
        let more = have.min(members - have);
        let (front, rest) = turned.split_at_mut(have * block);
        let (to, from) = (call.before(have), call.after(have));
        call.swap((to, &front[..more * block]), (from, &mut rest[..more * block]))?;
    }
    let (to_end, from_begin) = turned.split_at((members - call.rank) * block);
    all[call.rank * block..].copy_from_slice(to_end);
    all[..call.rank * block].copy_from_slice(from_begin);
    Ok(())
}

/// Around the ring: `p - 1` steps with a block each, always to the same member and from the same.
pub(crate) fn ring<M: Meeting>(call: &mut Call<'_, M>, mine: &[u8], all: &mut [u8]) -> Result<(), Error> {
    let range_of = |rank| rank * mine.len()..(rank + 1) * mine.len();
    all[range_of(call.rank)].copy_from_slice(mine);
    ring::allgather(call, call.rank, range_of, all)
}
