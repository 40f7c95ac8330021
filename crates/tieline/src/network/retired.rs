//! Memory that was taken back, and that peers may still put to for a while.
//!
//! An importer learns from the managers that a segment is gone. What it has put before may arrive after that.
//! A provider that finds no memory for it may end the connection (`tcp` does), and with it everything that is
//! under way between the two programs, for whatever segment. So what opens the memory is closed when all that
//! was put to it has arrived or has failed. The memory itself stays mapped until then in any case.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// An importer waits so long for a put to be confirmed ([`ofi::Settings::give_up_after`]).
pub(super) const LINGER: Duration = Duration::from_secs(10);

/// See the module. What is taken out is closed by being dropped.
#[derive(Debug)]
pub(super) struct Retired<T>(VecDeque<(Instant, T)>);

impl<T> Default for Retired<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Retired<T> {
    /// These were taken back just now.
    pub(super) fn add(&mut self, all: Vec<T>, now: Instant) {
        self.0.extend(all.into_iter().map(|one| (now + LINGER, one)));
    }

    /// When the next is to be closed.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.0.front().map(|(end, _)| *end)
    }

    /// Closes those whose time is over.
    pub(super) fn end(&mut self, now: Instant) {
        while self.next_end().is_some_and(|end| end <= now) {
            self.0.pop_front();
        }
    }

    /// Closes some before their time.
    pub(super) fn remove_if(&mut self, is_to_go: impl Fn(&T) -> bool) {
        self.0.retain(|(_, one)| !is_to_go(one));
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn what_was_taken_back_is_closed_after_its_time_or_when_it_is_told_to() {
        let all: Vec<Rc<u32>> = (0..4).map(Rc::new).collect();
        let open = || all.iter().filter(|one| Rc::strong_count(one) > 1).map(|one| **one).collect::<Vec<_>>();
        let (now, mut retired) = (Instant::now(), Retired::default());
        assert_eq!(retired.next_end(), None);
        retired.add(all[..2].to_vec(), now);
        let later = now + Duration::from_secs(1);
        retired.add(all[2..].to_vec(), later);
        assert_eq!((retired.next_end(), open()), (Some(now + LINGER), vec![0, 1, 2, 3]));
        retired.remove_if(|one| **one == 1);
        retired.end(now + LINGER / 2);
        assert_eq!(open(), [0, 2, 3]);
        retired.end(now + LINGER);
        assert_eq!((retired.next_end(), open()), (Some(later + LINGER), vec![2, 3]));
        retired.end(later + LINGER);
        assert_eq!((retired.next_end(), open()), (None, vec![]));
    }
}
