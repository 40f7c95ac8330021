//! Barriers.

use message_queue::meet::Meeting;

use super::broadcast::lowest_bit;
use super::powers;
use crate::call::Call;
use crate::error::Error;

/// Dissemination (D. Hensgen, R. Finkel, U. Manber, "Two algorithms for barrier synchronization", 1988): in
/// step `k` each member tells the one 2^k further on. `log2 p` steps, rounded up, with a message of each
/// member in each.
pub(crate) fn dissemination<M: Meeting>(call: &mut Call<'_, M>) -> Result<(), Error> {
    for distance in powers(call.members()) {
        call.swap((call.after(distance), &[]), (call.before(distance), &mut []))?;
    }
    Ok(())
}

/// Each member tells all others, and waits for all of them: one step, and `p - 1` messages of each.
pub(crate) fn exchange<M: Meeting>(call: &mut Call<'_, M>) -> Result<(), Error> {
    for distance in 1..call.members() {
        call.send(call.after(distance), &[])?;
    }
    for distance in 1..call.members() {
        call.receive(call.before(distance), &mut [])?;
    }
    Ok(())
}

/// A binomial tree, up to rank 0 and down again: twice `log2 p` steps, and `2 (p - 1)` messages in all.
pub(crate) fn tree<M: Meeting>(call: &mut Call<'_, M>) -> Result<(), Error> {
    let (members, rank) = (call.members(), call.rank);
    let lowest = lowest_bit(rank, members);
    let children = || powers(members).filter(|bit| *bit < lowest && rank + bit < members);
    for bit in children() {
        call.receive(rank + bit, &mut [])?;
    }
    if rank != 0 {
        call.send(rank - lowest, &[])?;
        call.receive(rank - lowest, &mut [])?;
    }
    for bit in children().rev() {
        call.send(rank + bit, &[])?;
    }
    Ok(())
}
