//! The algorithms: a file for each operation, with one for short messages and one for long ones.
//!
//! Costs are given for `p` members and `n` bytes: steps of a member that follow each other, and the bytes
//! that the busiest member sends.
//!
//! Where the algorithms are described: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective
//! Communication Operations in MPICH", 2005, for all but those where another source is named.

pub(crate) mod allgather;
pub(crate) mod allreduce;
pub(crate) mod alltoall;
pub(crate) mod barrier;
pub(crate) mod broadcast;
pub(crate) mod reduce;
mod ring;

/// 1, 2, 4 and so on, below `members`.
fn powers(members: usize) -> impl DoubleEndedIterator<Item = usize> {
    (0..usize::BITS - members.saturating_sub(1).leading_zeros()).map(|exponent| 1 << exponent)
}

/// Combines values place by place: those of lower ranks are the first argument.
fn combine<T: Copy>(lower: &[T], into_higher: &mut [T], operation: &impl Fn(T, T) -> T) {
    for (a, b) in lower.iter().zip(into_higher) {
        *b = operation(*a, *b);
    }
}

/// The same; the result is where the values of the lower ranks were.
fn combine_into_lower<T: Copy>(into_lower: &mut [T], higher: &[T], operation: &impl Fn(T, T) -> T) {
    for (a, b) in into_lower.iter_mut().zip(higher) {
        *a = operation(*a, *b);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn powers_end_below_the_members() {
        let of = |members| super::powers(members).collect::<Vec<_>>();
        assert_eq!((of(1), of(2), of(4), of(5)), (vec![], vec![1], vec![1, 2], vec![1, 2, 4]));
    }
}
