//! Operations of the group, timed one by one.

use shm::clock::{Clock, now_ticks};

use super::{End, Fallible, GIVE_UP_AFTER, Holder, WARM_UP_PART};
use crate::operation;

impl<H: Holder> End<H> {
    pub(super) fn barrier(&mut self, count: usize) -> Fallible<f64> {
        self.mean_ns(count, |_| Ok(()), Self::together)
    }

    pub(super) fn broadcast(&mut self, bytes: usize, count: usize) -> Fallible<f64> {
        let mut all = vec![1; bytes];
        self.mean_ns(count, Self::together, |end| {
            Ok(end.group.broadcast(end.holder.queue(), 0, &mut all, Some(GIVE_UP_AFTER))?)
        })
    }

    /// `bytes` is rounded down to words.
    pub(super) fn allreduce(&mut self, bytes: usize, count: usize) -> Fallible<f64> {
        let mut values = vec![0_u64; (bytes / size_of::<u64>()).max(1)];
        self.mean_ns(count, Self::together, |end| {
            Ok(end.group.allreduce(end.holder.queue(), &mut values, operation::sum, Some(GIVE_UP_AFTER))?)
        })
    }

    pub(super) fn allgather(&mut self, bytes: usize, count: usize) -> Fallible<f64> {
        let (mine, mut all) = (vec![1; bytes], vec![0; bytes * self.group.members()]);
        self.mean_ns(count, Self::together, |end| {
            Ok(end.group.allgather(end.holder.queue(), &mine, &mut all, Some(GIVE_UP_AFTER))?)
        })
    }

    pub(super) fn alltoall(&mut self, bytes: usize, count: usize) -> Fallible<f64> {
        let all = bytes * self.group.members();
        let (to, mut from) = (vec![1; all], vec![0; all]);
        self.mean_ns(count, Self::together, |end| {
            Ok(end.group.alltoall(end.holder.queue(), &to, &mut from, Some(GIVE_UP_AFTER))?)
        })
    }

    /// Waits for all.
    pub(super) fn together(&mut self) -> Fallible<()> {
        Ok(self.group.barrier(self.holder.queue(), Some(GIVE_UP_AFTER))?)
    }

    /// The mean time of a call after `before`, which does not count.
    fn mean_ns(
        &mut self,
        count: usize,
        before: fn(&mut Self) -> Fallible<()>,
        mut call: impl FnMut(&mut Self) -> Fallible<()>,
    ) -> Fallible<f64> {
        let count = count.max(1);
        for _ in 0..count / WARM_UP_PART + 1 {
            call(self)?;
        }
        self.together()?;
        let mut ticks = 0;
        for _ in 0..count {
            before(self)?;
            let began = now_ticks();
            call(self)?;
            ticks += now_ticks() - began;
        }
        Ok(Clock::global().ns(ticks) / count as f64)
    }
}
