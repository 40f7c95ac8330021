//! Both halves of a pair over memory that loses, changes and delays puts.

use std::cell::RefCell;
use std::convert::Infallible;

use super::incoming::Incoming;
use super::ledger::Ledger;
use super::outgoing::{Blocked, Outgoing, Timing};
use super::words::{Route, inbox_bytes};

const MAX_BYTES: usize = 5000;
const ROUND_NS: u64 = 100_000;
const TIMING: Timing = Timing { patience_ns: 20_000_000, failure_after_ns: 400_000_000 };

/// What becomes of the n-th put: `None`: lost; else where it is put, changed or not.
type Fate = Box<dyn FnMut(usize, &mut Vec<u8>) -> bool>;

struct Pair {
    /// B's inbox, written by A, and A's, written by B.
    inboxes: [RefCell<Vec<u8>>; 2],
    outgoing: Outgoing,
    incoming: Incoming,
    sender: Ledger,
    receiver: Ledger,
    now_ns: u64,
    puts: usize,
}

fn word(inbox: &RefCell<Vec<u8>>, at: usize) -> u64 {
    u64::from_le_bytes(inbox.borrow()[at..at + 8].try_into().unwrap())
}

impl Pair {
    fn new() -> Self {
        let route = Route::new(4, 8, 1);
        let inbox = || RefCell::new(vec![0; inbox_bytes(MAX_BYTES)]);
        Self {
            inboxes: [inbox(), inbox()],
            outgoing: Outgoing::new(route, 4, MAX_BYTES, TIMING),
            incoming: Incoming::new(route, 4, MAX_BYTES),
            sender: Ledger::default(),
            receiver: Ledger::default(),
            now_ns: 0,
            puts: 0,
        }
    }

    /// Lets both check once; `more`: new blocks are sent.
    fn round(&mut self, more: bool, fate: &mut Fate) {
        self.now_ns += ROUND_NS;
        let [to_b, to_a] = &self.inboxes;
        let puts = &mut self.puts;
        let mut put_into = |inbox: &RefCell<Vec<u8>>, at: usize, bytes: &[u8]| -> Result<(), Infallible> {
            *puts += 1;
            let mut bytes = bytes.to_vec();
            if fate(*puts, &mut bytes) {
                inbox.borrow_mut()[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            Ok(())
        };
        self.outgoing.take_answers(self.now_ns, |at| word(to_a, at), &mut self.sender);
        let sent =
            self.outgoing.send(self.now_ns, more, |at, bytes| put_into(to_b, at, bytes), &mut self.sender);
        assert!(sent.is_ok());
        let received = self.incoming.receive(
            self.now_ns,
            |at| word(to_b, at),
            |at, bytes| bytes.copy_from_slice(&to_b.borrow()[at..at + bytes.len()]),
            |at, bytes| put_into(to_a, at, bytes),
            &mut self.receiver,
        );
        assert!(received.is_ok());
    }

    fn run(mut self, rounds: usize, mut fate: Fate) -> Self {
        (0..rounds).for_each(|_| self.round(true, &mut fate));
        // What is under way arrives in the end, by the same rules.
        for _ in 0..200_000 {
            if self.outgoing.is_idle() {
                break;
            }
            self.round(false, &mut fate);
        }
        assert!(self.outgoing.is_idle(), "{:?}", self.outgoing);
        self.outgoing.end(self.now_ns, &mut self.sender);
        self
    }

    fn both(&self) -> Ledger {
        let mut both = self.sender;
        both.add(&self.receiver);
        both
    }
}

#[test]
fn everything_arrives_and_nothing_is_counted() {
    let pair = Pair::new().run(1000, Box::new(|_, _| true));
    assert!(pair.both().is_clean() && pair.both().retries == 0, "{:?}", pair.both());
    assert!(pair.sender.blocks_sent >= 3000);
    assert_eq!(pair.sender.blocks_sent, pair.receiver.blocks_checked);
    assert_eq!(pair.sender.bytes_sent, pair.receiver.bytes_checked);
}

#[test]
fn every_lost_put_is_counted_and_nothing_else() {
    for every in [7, 50, 101] {
        let pair = Pair::new().run(2000, Box::new(move |n, _| !n.is_multiple_of(every)));
        let (lost, both) = ((pair.puts / every) as u64, pair.both());
        assert_eq!((both.corrupt, both.out_of_order), (0, 0), "{both:?}");
        // What is lost of what nobody waits for any more (an answer given twice) leaves no trace.
        assert!(both.lost <= lost && both.lost * 10 >= lost * 9, "{} of {lost} at {every}", both.lost);
        assert_eq!(pair.sender.blocks_sent, pair.receiver.blocks_checked);
    }
}

#[test]
fn every_changed_put_is_counted_as_corrupt() {
    for every in [5, 64] {
        let fate = move |n: usize, bytes: &mut Vec<u8>| {
            if n.is_multiple_of(every) {
                let at = n % bytes.len();
                bytes[at] = !bytes[at];
            }
            true
        };
        let pair = Pair::new().run(2000, Box::new(fate));
        let (changed, both) = ((pair.puts / every) as u64, pair.both());
        assert!(both.corrupt <= changed + 1 && both.corrupt * 10 >= changed * 9, "{both:?} of {changed}");
        assert_eq!(pair.sender.blocks_sent, pair.receiver.blocks_checked);
    }
}

#[test]
fn a_silence_is_a_failure_that_is_timed() {
    let mut pair = Pair::new();
    let mut fine: Fate = Box::new(|_, _| true);
    let mut silent: Fate = Box::new(|_, _| false);
    (0..100).for_each(|_| pair.round(true, &mut fine));
    let silent_rounds = 10_000;
    (0..silent_rounds).for_each(|_| pair.round(true, &mut silent));
    assert!(pair.outgoing.fails());
    let pair = pair.run(10, fine);
    let lasted_ns = silent_rounds as u64 * ROUND_NS;
    assert_eq!(pair.sender.failures, 1);
    let longest_ns = pair.sender.longest_failure_ns;
    assert!((lasted_ns..lasted_ns + 600_000_000).contains(&longest_ns), "{longest_ns} of {lasted_ns}");
}

#[test]
fn a_silence_after_which_blocks_come_one_by_one_is_one_failure() {
    let mut pair = Pair::new();
    let mut silent: Fate = Box::new(|_, _| false);
    let mut rarely: Fate = Box::new(|n, _| n.is_multiple_of(2));
    (0..10_000).for_each(|_| pair.round(true, &mut silent));
    (0..3000).for_each(|_| pair.round(true, &mut rarely));
    let pair = pair.run(10, Box::new(|_, _| true));
    assert!(pair.sender.blocks_sent >= 4, "{:?}", pair.sender);
    assert_eq!(pair.sender.failures, 1);
}

#[test]
fn a_refusal_is_a_failure_at_once_and_ends_with_the_next_answer() {
    let mut pair = Pair::new();
    let refused = pair.outgoing.send(5_000, true, |_, _| Err("down"), &mut pair.sender);
    assert!(matches!(refused, Err(Blocked("down"))));
    assert!(pair.outgoing.fails() && pair.sender.refused == 1);
    let pair = pair.run(50, Box::new(|_, _| true));
    assert_eq!((pair.sender.failures, pair.sender.lost), (1, 0));
    assert!(pair.sender.longest_failure_ns > 0);
}
