//! A bounded queue of requests of other hosts, for the thread of this program that carries them out.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Instant;

use ofi::{Exported, Task};
use proto::ids::NodeId;
use proto::wire::network::ImporterEnd;
use proto::wire::program::{ConnectionId, Imported};
use shm::sync::{AtomicUsize, Ordering};

/// Requests of other hosts that wait. One more gets no answer, and the managers end its wait.
pub(super) const WANTED_MAX: usize = 1024;

/// What a peer wants to reach.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) what: Imported,
    pub(super) node: NodeId,
    pub(super) connection: ConnectionId,
    pub(super) end: ImporterEnd,
    /// This host's, one of each rail.
    pub(super) addresses: Vec<IpAddr>,
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum Job {
    Wanted(Request),
    /// A connection has ended that was wanted before.
    Over(ConnectionId),
    /// The importer of a connection has asked for this; of each rail for one thing at a time.
    Rail(ConnectionId, Task),
    /// It asks this about rails, by way of the managers, which pass on one question of each connection at a
    /// time: the number of the question, and the question.
    Asked(ConnectionId, u64, Vec<u8>),
    /// Memory that was taken back.
    Retired(Vec<Exported>),
}

/// What the thread finds.
#[derive(Debug)]
pub(super) enum Next {
    Job(Job),
    /// No job has come by then.
    TimeIsUp,
    /// None will come.
    Over,
}

/// The end into which jobs are put.
#[derive(Debug)]
pub(super) struct Jobs {
    sender: Sender<Job>,
    /// Requests that the thread has not taken yet.
    waiting: Arc<AtomicUsize>,
    /// Connections that the thread was told of and that have not ended. An end is told of these only, so
    /// there are no more ends than requests.
    told: BTreeSet<ConnectionId>,
}

/// The thread's end.
#[derive(Debug)]
pub(super) struct Queue {
    receiver: Receiver<Job>,
    waiting: Arc<AtomicUsize>,
}

/// A new queue.
pub(super) fn queue() -> (Jobs, Queue) {
    let ((sender, receiver), waiting) = (channel(), Arc::new(AtomicUsize::new(0)));
    let jobs = Jobs { sender, waiting: Arc::clone(&waiting), told: BTreeSet::new() };
    (jobs, Queue { receiver, waiting })
}

impl Jobs {
    /// Hands a request on; `false`: too many wait, or the thread has ended.
    pub(super) fn want(&mut self, request: Request) -> bool {
        // Only here it grows, and `&mut self` means by one caller: more than the maximum never wait.
        if self.waiting.load(Ordering::SeqCst) >= WANTED_MAX {
            return false;
        }
        let connection = request.connection;
        // Before the thread can take it, and counts it out.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        if self.sender.send(Job::Wanted(request)).is_err() {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            return false;
        }
        self.told.insert(connection);
        true
    }

    /// An importer has asked for it.
    pub(super) fn carry_out(&mut self, connection: ConnectionId, task: Task) {
        let _ = self.sender.send(Job::Rail(connection, task));
    }

    /// An importer asks something about rails.
    pub(super) fn ask(&mut self, connection: ConnectionId, number: u64, question: Vec<u8>) {
        if self.told.contains(&connection) {
            let _ = self.sender.send(Job::Asked(connection, number, question));
        }
    }

    /// Memory was taken back.
    pub(super) fn retire(&mut self, exported: Vec<Exported>) {
        let _ = self.sender.send(Job::Retired(exported));
    }

    /// A connection has ended.
    pub(super) fn over(&mut self, connection: ConnectionId) {
        if self.told.remove(&connection) {
            let _ = self.sender.send(Job::Over(connection));
        }
    }
}

impl Queue {
    /// Waits for the next, up to that moment if one is given.
    pub(super) fn next(&self, until: Option<Instant>) -> Next {
        let job = match until {
            None => self.receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(until) => self.receiver.recv_timeout(until.saturating_duration_since(Instant::now())),
        };
        match job {
            Ok(job) => {
                if matches!(job, Job::Wanted(_)) {
                    self.waiting.fetch_sub(1, Ordering::SeqCst);
                }
                Next::Job(job)
            }
            Err(RecvTimeoutError::Timeout) => Next::TimeIsUp,
            Err(RecvTimeoutError::Disconnected) => Next::Over,
        }
    }
}

#[cfg(test)]
mod tests {
    use proto::ids::InterruptNo;

    use super::*;

    fn wanted(number: u64) -> Request {
        Request {
            what: Imported::Interrupt(InterruptNo(1)),
            node: NodeId::new(8).unwrap(),
            connection: ConnectionId(number),
            end: ImporterEnd { rails: Vec::new() },
            addresses: Vec::new(),
        }
    }

    #[test]
    fn requests_beyond_the_bound_are_not_kept() {
        let (mut jobs, queue) = queue();
        for number in 0..WANTED_MAX as u64 {
            assert!(jobs.want(wanted(number)));
        }
        assert!(!jobs.want(wanted(5000)));
        // Nobody was told that it began.
        jobs.over(ConnectionId(5000));
        jobs.over(ConnectionId(0));
        jobs.over(ConnectionId(0));
        assert!(!jobs.want(wanted(5001)), "an end makes no room: its request still waits");
        let next = queue.next(None);
        assert!(matches!(next, Next::Job(Job::Wanted(Request { connection: ConnectionId(0), .. }))));
        assert!(jobs.want(wanted(5002)));
        assert!(!jobs.want(wanted(5003)));
        drop(jobs);
        let next = || match queue.next(Some(Instant::now())) {
            Next::Job(job) => Some(job),
            Next::TimeIsUp | Next::Over => None,
        };
        let rest: Vec<_> = std::iter::from_fn(next).collect();
        let ends: Vec<_> = rest.iter().filter(|job| matches!(job, Job::Over(_))).collect();
        assert!(matches!(ends[..], [Job::Over(ConnectionId(0))]), "{ends:?}");
        assert_eq!(rest.len(), WANTED_MAX + 1);
    }

    #[test]
    fn what_was_not_sent_does_not_count() {
        let (mut jobs, queue) = queue();
        drop(queue);
        for number in 0..2 {
            assert!(!jobs.want(wanted(number)));
        }
        assert_eq!((jobs.waiting.load(Ordering::SeqCst), jobs.told.len()), (0, 0));
    }
}
