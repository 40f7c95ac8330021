//! Threads that are at work for a queue, and how many of them may wait for the same.

use proto::ids::NodeId;

/// Threads of one queue at a time.
const THREADS_MAX: usize = 8;
/// Of these, for peers of one node, and for answers.
const THREADS_FOR_ONE: usize = 6;

/// What a thread may have to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Worker {
    pub(super) node: NodeId,
    /// It answers a request, which anybody may have left, with a node of its choice in it.
    pub(super) answers: bool,
}

/// Threads that are at work. What one waits for may never come: so neither those who ask nor the peers of one
/// node get all of them.
#[derive(Debug, Default)]
pub(super) struct Workers(Vec<Worker>);

impl Workers {
    pub(super) fn may_begin(&self, worker: Worker) -> bool {
        let count = |is_one: &dyn Fn(&Worker) -> bool| self.0.iter().filter(|other| is_one(other)).count();
        self.0.len() < THREADS_MAX
            && count(&|other| other.node == worker.node) < THREADS_FOR_ONE
            && (!worker.answers || count(&|other| other.answers) < THREADS_FOR_ONE)
    }

    pub(super) fn begin(&mut self, worker: Worker) {
        self.0.push(worker);
    }

    pub(super) fn end(&mut self, worker: Worker) {
        if let Some(at) = self.0.iter().position(|other| *other == worker) {
            self.0.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_one_node_nor_those_who_ask_get_all_threads() {
        let worker = |node, answers| Worker { node: NodeId::new(node).unwrap(), answers };
        let mut workers = Workers::default();
        let begin = |workers: &mut Workers, worker| {
            let may_begin = workers.may_begin(worker);
            if may_begin {
                workers.begin(worker);
            }
            may_begin
        };
        // Requests in the names of ever other nodes.
        let answers = (1..=20).filter(|nth| begin(&mut workers, worker(4 * nth, true))).count();
        assert_eq!(answers, THREADS_FOR_ONE);
        assert!(begin(&mut workers, worker(4, false)) && begin(&mut workers, worker(4, false)));
        assert!(!begin(&mut workers, worker(8, false)), "there are no more");
        let mut workers = Workers::default();
        let of_one = (0..20).filter(|_| begin(&mut workers, worker(4, false))).count();
        assert_eq!(of_one, THREADS_FOR_ONE);
        assert!(begin(&mut workers, worker(8, false)));
        workers.end(worker(4, false));
        assert!(begin(&mut workers, worker(4, true)));
    }
}
