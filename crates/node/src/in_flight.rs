//! Limits the descriptors that programs were sent and have not read.
//!
//! The kernel counts them for the manager's user, over all its processes, and refuses more than a process may
//! have open files (ETOOMANYREFS). A process that asks and does not read could have it refuse them to all. So
//! each program, and each user, may have few; what is beyond that waits in the program's queue. The bounds
//! are well below the usual limit of 1024 of a process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foreign::Foreign;
use node_client::seqpacket::Seqpacket;
use proto::wire::MAX_DESCRIPTORS;

/// Unread by one program.
const MOST_OF_PROGRAM: usize = 16;
/// Unread by all programs of the manager's user; likewise of root's.
const POOL_OF_OWN: usize = 128;
/// Unread by all programs of all other users.
const POOL_OF_OTHERS: usize = 64;

/// Counts what is in flight. A clone is the same count.
#[derive(Debug, Clone)]
pub(crate) struct InFlight {
    own_uid: u32,
    /// As many as this process may have open files, at most.
    limit: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    users: HashMap<u32, usize>,
    of_others: usize,
    /// Connections that are ended, and what was sent last is not read yet.
    ended: Vec<(Foreign<Seqpacket>, usize)>,
}

impl InFlight {
    /// For a manager of user `own_uid` that may have so many open files.
    pub(crate) fn new(own_uid: u32, limit: u64) -> Self {
        Self { own_uid, limit: usize::try_from(limit).unwrap_or(usize::MAX), state: Arc::default() }
    }

    /// Whether `more` may be sent to a program of user `uid` that has not read `unread` yet.
    ///
    /// The other users share a pool. One of them, and one program of a user, may have as many as are left for
    /// the rest: so however many do not read, a newcomer finds some. A program that has read all may go into
    /// a second pool of that size, so that those of a user who do not read don't stop the one who does.
    pub(crate) fn has_room(&self, uid: u32, unread: usize, more: usize) -> bool {
        let state = self.lock();
        let of_user = state.users.get(&uid).copied().unwrap_or(0);
        let own = self.is_own(uid);
        let total = if own { of_user } else { state.of_others };
        let pool = if own { POOL_OF_OWN.min(self.limit / 8) } else { POOL_OF_OTHERS.min(self.limit / 16) };
        let pool = pool.max(2 * MAX_DESCRIPTORS);
        let fits = |pool: usize| {
            let left = pool.saturating_sub(total);
            unread + more <= left && (own || of_user + more <= left)
        };
        (unread + more <= MOST_OF_PROGRAM && fits(pool)) || (unread == 0 && fits(2 * pool))
    }

    pub(crate) fn add(&self, uid: u32, sent: usize) {
        let mut state = self.lock();
        *state.users.entry(uid).or_default() += sent;
        if !self.is_own(uid) {
            state.of_others += sent;
        }
    }

    pub(crate) fn remove(&self, uid: u32, read: usize) {
        self.take_off(&mut self.lock(), uid, read);
    }

    /// Keeps a connection that is ended until what was sent on it is read: till then it is in flight.
    pub(crate) fn keep(&self, socket: Foreign<Seqpacket>, unread: usize) {
        self.lock().ended.push((socket, unread));
    }

    /// Lets go of those of them that are read.
    pub(crate) fn look_at_the_ended(&self) {
        let mut state = self.lock();
        let (unread, read): (Vec<_>, Vec<_>) =
            std::mem::take(&mut state.ended).into_iter().partition(|(socket, _)| has_unread(socket));
        state.ended = unread;
        for (socket, number) in read {
            self.take_off(&mut state, socket.uid(), number);
        }
    }

    /// Whether there are connections to be examined.
    pub(crate) fn keeps_any(&self) -> bool {
        !self.lock().ended.is_empty()
    }

    fn take_off(&self, state: &mut State, uid: u32, number: usize) {
        if let Some(of_user) = state.users.get_mut(&uid) {
            *of_user = of_user.saturating_sub(number);
            if *of_user == 0 {
                state.users.remove(&uid);
            }
        }
        if !self.is_own(uid) {
            state.of_others = state.of_others.saturating_sub(number);
        }
    }

    fn is_own(&self, uid: u32) -> bool {
        uid == 0 || uid == self.own_uid
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the other end has something to read. If that can't be known, it has not.
pub(crate) fn has_unread(socket: &Seqpacket) -> bool {
    shm::socket::unread_bytes(std::os::fd::AsFd::as_fd(socket)).is_ok_and(|bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 1000;

    /// Programs of a user who read nothing and take what they get, `each` at a time: how many they have in
    /// the end.
    fn take_all(in_flight: &InFlight, uid: u32, programs: usize, each: usize) -> usize {
        let mut taken = 0;
        for _ in 0..programs {
            let mut unread = 0;
            while in_flight.has_room(uid, unread, each) {
                in_flight.add(uid, each);
                (unread, taken) = (unread + each, taken + each);
            }
            assert!(unread <= MOST_OF_PROGRAM);
        }
        taken
    }

    #[test]
    fn who_does_not_read_leaves_room_for_others_and_for_his_own_who_do() {
        for (limit, each) in [(1024, 1), (1 << 20, 4), (1024, 3), (64, 1)] {
            let in_flight = InFlight::new(OWN, limit);
            assert!(take_all(&in_flight, 7, 1, each) <= MOST_OF_PROGRAM);
            assert!(in_flight.has_room(7, 0, 1), "another program of the user");
            let mut taken = take_all(&in_flight, 7, 1000, each);
            for uid in 8..12 {
                assert!(in_flight.has_room(uid, 0, 1), "user {uid}");
                taken += take_all(&in_flight, uid, 1000, each);
            }
            assert!(in_flight.has_room(OWN, 0, MAX_DESCRIPTORS) && in_flight.has_room(0, 0, MAX_DESCRIPTORS));
            for uid in [OWN, 0] {
                take_all(&in_flight, uid, 1, each);
                assert!(in_flight.has_room(uid, 0, MAX_DESCRIPTORS));
                taken += take_all(&in_flight, uid, 1000, each);
            }
            assert!(taken <= 2 * (POOL_OF_OTHERS + 2 * POOL_OF_OWN) && taken as u64 <= limit, "{taken}");
        }
    }

    #[test]
    fn what_is_read_makes_room() {
        let in_flight = InFlight::new(OWN, 1024);
        let taken = take_all(&in_flight, 7, 1000, 1);
        assert!(!in_flight.has_room(7, 0, 1));
        in_flight.remove(7, taken);
        assert!(in_flight.lock().users.is_empty() && in_flight.lock().of_others == 0);
        assert!(in_flight.has_room(7, 0, MAX_DESCRIPTORS));
    }
}
