//! The machines of `proto::stream` on atomics, in every interleaving that the memory model allows.
//!
//! `proto` searches the protocol as a whole, with stores that are delayed; here its races run with the orderings that it
//! names: publishing against going to sleep, opening against withdrawing, recalling against reading. Nobody really sleeps: who
//! would is left there, armed, and then what was written must be in the kernel by the end, where it wakes.

use crate::sync::{AtomicU64, Ordering, fence, store_load_fence};
use loom::sync::{Arc, Mutex};
use loom::thread;
use proto::stream::reader::Reader;
use proto::stream::withdraw::Withdraw;
use proto::stream::writer::{Occasion, Writer};
use proto::stream::{Do, Held, Outcome, Saw, Woken, Word, consent, path};

const WORDS: usize = 10;

#[derive(Default)]
struct Kernel {
    queue: Vec<u64>,
    written: u64,
    taken: u64,
}

struct Stream {
    words: [AtomicU64; WORDS],
    ring: Vec<AtomicU64>,
    kernel: Mutex<Kernel>,
    /// Without it every fence orders nothing: what the tests must notice.
    has_fences: bool,
}

impl Stream {
    /// A ring of that many bytes, in use, with one byte after the other in it up to `tail`.
    fn open(capacity: u64, tail: u64, has_fences: bool) -> Arc<Self> {
        let stream = Self {
            words: core::array::from_fn(|_| AtomicU64::new(0)),
            ring: (0..capacity).map(AtomicU64::new).collect(),
            kernel: Mutex::new(Kernel::default()),
            has_fences,
        };
        for (word, value) in [(Word::Tail, tail), (Word::Path, path::RING), (Word::Consent, consent::OPEN)] {
            stream.word(word).store(value, Ordering::Relaxed);
        }
        Arc::new(stream)
    }

    fn word(&self, word: Word) -> &AtomicU64 {
        &self.words[word as usize]
    }

    fn place(&self, at: u64) -> &AtomicU64 {
        &self.ring[(at % self.ring.len() as u64) as usize]
    }

    fn write(&self, occasion: Occasion, bytes: &[u64]) -> Outcome {
        let mut writer = Writer::new(occasion, self.ring.len() as u64, bytes.len() as u64, true, 0);
        self.run(|saw| writer.step(saw), &mut bytes.to_vec())
    }

    fn read(&self, may_wait: bool) -> (Outcome, Vec<u64>) {
        let mut reader = Reader::new(self.ring.len() as u64, 1, may_wait, true, 0);
        let mut bytes = Vec::new();
        (self.run(|saw| reader.step(saw), &mut bytes), bytes)
    }

    fn withdraw(&self) -> Outcome {
        let mut withdraw = Withdraw::new(self.ring.len() as u64);
        self.run(|saw| withdraw.step(saw), &mut Vec::new())
    }

    fn run(&self, mut step: impl FnMut(Saw) -> Do, bytes: &mut Vec<u64>) -> Outcome {
        let mut saw = Saw::Nothing;
        loop {
            let what = step(saw);
            match what {
                Do::Done(outcome) => return outcome,
                // Here it stays, armed, or until the writer is through.
                Do::Sleep(_) => return Outcome::WouldBlock,
                _ => {}
            }
            saw = self.act(what, bytes);
        }
    }

    fn act(&self, what: Do, bytes: &mut Vec<u64>) -> Saw {
        match what {
            Do::Lock(word) => {
                self.word(word).swap(1, Ordering::SeqCst);
                self.fence();
            }
            // Release: the next taker's Acquire sees what was done under the lock, every load's what was stored before.
            Do::Unlock(word) => self.word(word).store(0, Ordering::Release),
            Do::Load(word) => return Saw::Value(self.word(word).load(Ordering::Acquire)),
            Do::Store(word, value) => self.word(word).store(value, Ordering::Release),
            Do::Increase(word) => {
                self.word(word).fetch_add(1, Ordering::SeqCst);
                self.fence();
            }
            Do::Decrease(word) => {
                self.word(word).fetch_sub(1, Ordering::SeqCst);
            }
            Do::Fence => self.fence(),
            Do::Put { at, .. } => self.place(at).store(bytes[0], Ordering::Relaxed),
            Do::Take { at, .. } => bytes.push(self.place(at).load(Ordering::Relaxed)),
            Do::Pause => {
                thread::yield_now();
                return Saw::Woken(Woken::Look);
            }
            _ => return self.call(what, bytes),
        }
        Saw::Nothing
    }

    fn fence(&self) {
        if self.has_fences {
            fence(Ordering::SeqCst);
            store_load_fence();
        }
    }

    /// What the kernel holds.
    fn queue(&self) -> Vec<u64> {
        self.kernel.lock().unwrap().queue.clone()
    }

    fn load(&self, word: Word) -> u64 {
        self.word(word).load(Ordering::Relaxed)
    }

    fn call(&self, what: Do, bytes: &mut Vec<u64>) -> Saw {
        let mut kernel = self.kernel.lock().unwrap();
        match what {
            Do::AskTaken => Saw::Value(kernel.taken),
            Do::AskWritten => Saw::Value(kernel.written),
            Do::Count if kernel.queue.is_empty() => Saw::Kernel(Held::Nothing),
            Do::Count => Saw::Kernel(Held::Bytes(kernel.queue.len() as u64)),
            Do::Receive { .. } => {
                let byte = kernel.queue.remove(0);
                bytes.push(byte);
                kernel.taken += 1;
                Saw::Moved(1)
            }
            Do::Send { .. } => self.give(&mut kernel, &[bytes[0]]),
            Do::SendRing { at, len } => {
                let unread: Vec<u64> =
                    (at..at + len).map(|at| self.place(at).load(Ordering::Relaxed)).collect();
                self.give(&mut kernel, &unread)
            }
            other => panic!("{other:?} is no call"),
        }
    }

    fn give(&self, kernel: &mut Kernel, bytes: &[u64]) -> Saw {
        kernel.queue.extend(bytes);
        kernel.written += bytes.len() as u64;
        Saw::Moved(bytes.len() as u64)
    }
}

/// All interleavings, whatever bound is set for longer tests.
fn every(test: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = None;
    builder.check(test);
}

fn publish_against_sleep(has_fences: bool) {
    every(move || {
        let stream = Stream::open(2, 0, has_fences);
        let theirs = Arc::clone(&stream);
        let writer = thread::spawn(move || theirs.write(Occasion::Write, &[7]));
        let (outcome, bytes) = stream.read(true);
        let written = writer.join().unwrap();
        let in_kernel = stream.queue();
        // Before anything is asserted: loom's reference counts must not be dropped in a panic.
        drop(stream);
        assert_eq!(written, Outcome::Moved(1));
        let is_read = outcome == Outcome::Moved(1) && bytes == [7];
        assert!(is_read || (outcome == Outcome::WouldBlock && in_kernel == [7]), "a lost wake-up");
    });
}

#[test]
fn loom_a_published_byte_is_seen_or_in_the_kernel() {
    publish_against_sleep(true);
}

#[test]
#[should_panic = "a lost wake-up"]
fn loom_without_fences_a_wake_up_is_lost() {
    publish_against_sleep(false);
}

fn open_against_withdraw(has_fences: bool) {
    every(move || {
        let stream = Stream::open(2, 0, has_fences);
        stream.word(Word::Path).store(path::TCP, Ordering::Relaxed);
        let theirs = Arc::clone(&stream);
        let writer = thread::spawn(move || theirs.write(Occasion::Write, &[7]));
        let withdrawn = stream.withdraw();
        writer.join().unwrap();
        let unread = stream.load(Word::Tail) - stream.load(Word::Base);
        drop(stream);
        assert!(withdrawn != Outcome::Withdrawn || unread == 0, "a byte is left in the ring");
    });
}

#[test]
fn loom_a_withdrawal_sees_a_ring_that_opens() {
    open_against_withdraw(true);
}

#[test]
#[should_panic = "a byte is left in the ring"]
fn loom_without_fences_a_withdrawal_misses_a_byte() {
    open_against_withdraw(false);
}

fn recall_against_read(has_fences: bool) {
    every(move || {
        let stream = Stream::open(2, 1, has_fences);
        let theirs = Arc::clone(&stream);
        let writer = thread::spawn(move || theirs.write(Occasion::Overdue, &[]));
        let (outcome, bytes) = stream.read(false);
        writer.join().unwrap();
        let in_kernel = stream.queue();
        drop(stream);
        let got = if outcome == Outcome::Moved(1) { bytes } else { Vec::new() };
        assert_eq!([got, in_kernel].concat(), [0], "lost or doubled");
    });
}

#[test]
fn loom_a_recalled_byte_is_read_once() {
    recall_against_read(true);
}

#[test]
#[should_panic = "lost or doubled"]
fn loom_without_fences_a_recalled_byte_is_read_twice() {
    recall_against_read(false);
}

fn publish_against_renewal(has_fences: bool) {
    every(move || {
        let stream = Stream::open(2, 0, has_fences);
        stream.word(Word::Consent).store(consent::WITHDRAWN, Ordering::Relaxed);
        let theirs = Arc::clone(&stream);
        let writer = thread::spawn(move || theirs.write(Occasion::Write, &[7]));
        // The writer's Acquire load of the consent reads it, and sees by it nothing else that it needs.
        stream.word(Word::Consent).store(consent::NONE, Ordering::Release);
        let (outcome, bytes) = stream.read(false);
        writer.join().unwrap();
        let is_in_ring = stream.load(Word::Tail) > stream.load(Word::Base).max(stream.load(Word::Head));
        let in_kernel = stream.queue();
        drop(stream);
        let got = if outcome == Outcome::Moved(1) { bytes } else { Vec::new() };
        let in_ring = if is_in_ring { vec![7] } else { Vec::new() };
        assert_eq!([got, in_kernel, in_ring].concat(), [7], "lost or doubled");
    });
}

#[test]
fn loom_a_consent_is_given_again_while_bytes_go_back() {
    publish_against_renewal(true);
}
