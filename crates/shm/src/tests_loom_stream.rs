//! The calls of crate `stream` on atomics, in every interleaving that the memory model allows.
//!
//! Its own tests search the protocol as a whole, with stores that are delayed; here its races run with the orderings that it names:
//! publishing against going to sleep, opening against withdrawing, recalling against reading, a write to the kernel against opening.
//! Nobody really sleeps: who would is left there, armed, and then what was written must be in the kernel by the end, where it wakes.

use crate::sync::{AtomicU64, Ordering, fence, store_load_fence};
use loom::sync::{Arc, Mutex};
use loom::thread;
use stream::inline;
use stream::park;
use stream::plain;
use stream::read::Read;
use stream::withdraw::Withdraw;
use stream::words::WORDS;
use stream::write::{Occasion, Write};
use stream::{
    Free, Held, Locked, Memory, Outcome, Process, Sent, Shared, Slept, Step, Wait, Word, Written, consent,
    path,
};

#[derive(Default)]
struct Kernel {
    queue: Vec<u64>,
    written: u64,
    taken: u64,
}

/// Bytes that an inline copy has room for.
const INLINE: usize = 2;

struct Stream {
    words: [AtomicU64; WORDS],
    /// Of the reading process.
    parked: AtomicU64,
    inside: AtomicU64,
    inline: [AtomicU64; INLINE],
    ring: Vec<AtomicU64>,
    kernel: Mutex<Kernel>,
    /// Without it every fence orders nothing: what the tests must notice.
    has_fences: bool,
    has_inline: bool,
}

impl Stream {
    /// A ring of that many bytes, in use, with one byte after the other in it up to `tail`.
    fn open(capacity: u64, tail: u64, has_fences: bool) -> Arc<Self> {
        Self::with(capacity, tail, has_fences, false)
    }

    fn with(capacity: u64, tail: u64, has_fences: bool, has_inline: bool) -> Arc<Self> {
        let stream = Self {
            words: core::array::from_fn(|_| AtomicU64::new(0)),
            parked: AtomicU64::new(0),
            inside: AtomicU64::new(0),
            inline: core::array::from_fn(|_| AtomicU64::new(u64::MAX)),
            ring: (0..capacity).map(AtomicU64::new).collect(),
            kernel: Mutex::new(Kernel::default()),
            has_fences,
            has_inline,
        };
        let begins = [
            (Word::Tail, tail),
            (Word::Path, path::RING),
            (Word::Consent, consent::OPEN),
            (Word::InlineAt, inline::NOTHING),
        ];
        for (word, value) in begins {
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

    /// A write; what is left for the kernel goes there.
    fn write(&self, occasion: Occasion, bytes: &[u64]) -> Outcome {
        let want = bytes.len() as u64;
        loop {
            let mut write = Write::new(occasion, self.ring.len() as u64, want, true, 0);
            let outcome = self.run(bytes, |call| write.attempt(call)).0;
            if outcome != Outcome::Kernel {
                return outcome;
            }
            if let Some(count) = self.plain(bytes) {
                return Outcome::Moved(count);
            }
            thread::yield_now();
        }
    }

    /// A write to the kernel; none if that is not the path.
    fn plain(&self, bytes: &[u64]) -> Option<u64> {
        let mut call = Call { stream: self, bytes, got: Vec::new() };
        let sent = plain::write(&mut call, |call| Ok(call.give(&call.bytes[..1])));
        sent.ok().flatten().map(|_| 1)
    }

    fn read(&self, may_wait: bool) -> (Outcome, Vec<u64>) {
        self.read_of(1, may_wait)
    }

    fn read_of(&self, want: u64, may_wait: bool) -> (Outcome, Vec<u64>) {
        let mut read = Read::new(self.ring.len() as u64, want, may_wait, true, 0);
        self.run(&[], |call| read.attempt(call))
    }

    fn withdraw(&self) -> Outcome {
        let mut withdraw = Withdraw::new(self.ring.len() as u64);
        self.run(&[], |call| withdraw.attempt(call)).0
    }

    /// Attempts a call until it ends, or would sleep.
    fn run(
        &self,
        bytes: &[u64],
        mut attempt: impl FnMut(&mut Call<'_>) -> Result<Step, Asleep>,
    ) -> (Outcome, Vec<u64>) {
        let mut call = Call { stream: self, bytes, got: Vec::new() };
        loop {
            match attempt(&mut call) {
                Ok(Step::Again) => {}
                Ok(Step::Ends(outcome)) => return (outcome, call.got),
                Err(Asleep) => return (Outcome::WouldBlock, call.got),
            }
        }
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
}

/// It sleeps: here it stays, armed, or until the writer is through.
struct Asleep;

struct Call<'a> {
    stream: &'a Stream,
    bytes: &'a [u64],
    got: Vec<u64>,
}

impl Call<'_> {
    fn give(&self, bytes: &[u64]) -> Sent {
        let mut kernel = self.stream.kernel.lock().unwrap();
        kernel.queue.extend(bytes);
        kernel.written += bytes.len() as u64;
        Sent::Bytes(bytes.len() as u64)
    }
}

impl Shared for Call<'_> {
    type Stop = Asleep;

    fn load(&mut self, word: Word) -> Result<u64, Asleep> {
        Ok(self.stream.word(word).load(Ordering::Acquire))
    }

    fn store(&mut self, word: Word, value: u64) -> Result<(), Asleep> {
        // Every load of a word is an Acquire one, and sees what was stored before this.
        self.stream.word(word).store(value, Ordering::Release);
        Ok(())
    }

    fn increase(&mut self, count: Word) -> Result<(), Asleep> {
        self.stream.word(count).fetch_add(1, Ordering::SeqCst);
        self.stream.fence();
        Ok(())
    }

    fn decrease(&mut self, count: Word) -> Result<(), Asleep> {
        self.stream.word(count).fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    fn fence(&mut self) -> Result<(), Asleep> {
        self.stream.fence();
        Ok(())
    }
}

impl Process for Call<'_> {
    fn parked(&mut self) -> Result<u64, Asleep> {
        Ok(self.stream.parked.load(Ordering::SeqCst))
    }

    fn exchange_parked(&mut self, from: u64, to: u64) -> Result<bool, Asleep> {
        let result = self.stream.parked.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed);
        self.stream.fence();
        Ok(result.is_ok())
    }

    fn inside(&mut self) -> Result<u64, Asleep> {
        Ok(self.stream.inside.load(Ordering::SeqCst))
    }

    fn enter(&mut self) -> Result<(), Asleep> {
        self.stream.inside.fetch_add(1, Ordering::SeqCst);
        self.stream.fence();
        Ok(())
    }

    fn exit(&mut self) -> Result<(), Asleep> {
        self.stream.inside.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }
}

impl Memory for Call<'_> {
    fn lock(&mut self, lock: Word) -> Result<Locked, Asleep> {
        self.stream.word(lock).swap(1, Ordering::SeqCst);
        self.stream.fence();
        Ok(Locked::Fresh)
    }

    fn interrupts(&mut self) -> Result<(), Asleep> {
        // No signal handlers here.
        Ok(())
    }

    fn unlock(&mut self, lock: Word) -> Result<(), Asleep> {
        // Release: the next taker's Acquire sees what was done under the lock, every load's what was stored before.
        self.stream.word(lock).store(0, Ordering::Release);
        Ok(())
    }

    fn wait_until_free(&mut self, lock: Word) -> Result<Free, Asleep> {
        while self.stream.word(lock).load(Ordering::Acquire) != 0 {
            thread::yield_now();
        }
        Ok(Free::Free)
    }

    fn advance(&mut self, position: Word, _: u64, to: u64) -> Result<bool, Asleep> {
        self.store(position, to)?;
        Ok(true)
    }

    fn put(&mut self, at: u64, len: u64) -> Result<(), Asleep> {
        for (at, byte) in (at..at + len).zip(self.bytes) {
            self.stream.place(at).store(*byte, Ordering::Relaxed);
        }
        Ok(())
    }

    fn take(&mut self, at: u64, len: u64) -> Result<(), Asleep> {
        self.got = (at..at + len).map(|at| self.stream.place(at).load(Ordering::Relaxed)).collect();
        Ok(())
    }

    fn has_inline(&self, len: u64) -> bool {
        self.stream.has_inline && len <= INLINE as u64
    }

    fn put_inline(&mut self, len: u64) -> Result<(), Asleep> {
        for (cell, byte) in self.stream.inline.iter().zip(self.bytes).take(len as usize) {
            cell.store(*byte, Ordering::Relaxed);
        }
        Ok(())
    }

    fn take_inline(&mut self, len: u64) -> Result<(), Asleep> {
        self.got =
            self.stream.inline.iter().take(len as usize).map(|cell| cell.load(Ordering::Relaxed)).collect();
        Ok(())
    }

    fn order_stores(&mut self) -> Result<(), Asleep> {
        if self.stream.has_fences {
            // Pairs with `order_loads`.
            fence(Ordering::Release);
        }
        Ok(())
    }

    fn order_loads(&mut self) -> Result<(), Asleep> {
        if self.stream.has_fences {
            // Pairs with `order_stores`.
            fence(Ordering::Acquire);
        }
        Ok(())
    }

    fn taken(&mut self) -> Result<Option<u64>, Asleep> {
        Ok(Some(self.stream.kernel.lock().unwrap().taken))
    }

    fn written(&mut self) -> Result<Written, Asleep> {
        Ok(Written::Bytes(self.stream.kernel.lock().unwrap().written))
    }

    fn takes_all(&mut self, _: u64) -> Result<bool, Asleep> {
        Ok(true)
    }

    fn held(&mut self) -> Result<Held, Asleep> {
        Ok(match self.stream.kernel.lock().unwrap().queue.len() {
            0 => Held::Nothing,
            count => Held::Bytes(count as u64),
        })
    }

    fn receive(&mut self, _: u64) -> Result<u64, Asleep> {
        let mut kernel = self.stream.kernel.lock().unwrap();
        self.got.push(kernel.queue.remove(0));
        kernel.taken += 1;
        Ok(1)
    }

    fn send_ring(&mut self, at: u64, len: u64) -> Result<Sent, Asleep> {
        let unread: Vec<u64> =
            (at..at + len).map(|at| self.stream.place(at).load(Ordering::Relaxed)).collect();
        Ok(self.give(&unread))
    }

    fn sleep(&mut self, _: Wait) -> Result<Slept, Asleep> {
        Err(Asleep)
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

/// Two writers, one of which writes to the kernel while the other may be opening the ring: where the ring's bytes stand is where the kernel's
/// end, so both are told by their order.
fn plain_against_opening(has_fences: bool) {
    every(move || {
        let stream = Stream::open(2, 0, has_fences);
        stream.word(Word::Path).store(path::TCP, Ordering::Relaxed);
        let theirs = Arc::clone(&stream);
        let plain = thread::spawn(move || theirs.plain(&[7]));
        let opened = {
            let mut write = Write::new(Occasion::WriteNow, 2, 1, true, 0);
            stream.run(&[8], |call| write.attempt(call)).0
        };
        let sent = plain.join().unwrap();
        let (cut, in_kernel) = (stream.load(Word::Cut), stream.queue().len() as u64);
        drop(stream);
        let is_open = opened == Outcome::Moved(1);
        assert!(
            !is_open || cut == in_kernel,
            "{cut} is not the end of {in_kernel} after {sent:?}: a byte behind its place"
        );
    });
}

#[test]
fn loom_a_write_to_the_kernel_stays_before_the_ring_that_opens() {
    plain_against_opening(true);
}

#[test]
#[should_panic = "a byte behind its place"]
fn loom_without_fences_a_ring_opens_beside_a_write_to_the_kernel() {
    plain_against_opening(false);
}

/// A reader takes the inline copy of a message while the next one is being written.
fn next_message_against_inline_copy(has_fences: bool) {
    every(move || {
        let stream = Stream::with(4, 0, has_fences, true);
        let first = stream.write(Occasion::WriteNow, &[7, 8]);
        let theirs = Arc::clone(&stream);
        let writer = thread::spawn(move || theirs.write(Occasion::WriteNow, &[9, 10]));
        let (outcome, bytes) = stream.read_of(2, false);
        let second = writer.join().unwrap();
        drop(stream);
        assert_eq!((first, second), (Outcome::Moved(2), Outcome::Moved(2)));
        assert_eq!(outcome, Outcome::Moved(2));
        assert_eq!(bytes, [7, 8], "bytes of two messages");
    });
}

#[test]
fn loom_an_inline_copy_is_of_one_message() {
    next_message_against_inline_copy(true);
}

#[test]
#[should_panic = "bytes of two messages"]
fn loom_without_fences_an_inline_copy_is_of_two_messages() {
    next_message_against_inline_copy(false);
}

/// A process wakes while one of its threads reads from the kernel, where only a writer that finds it counted as asleep wakes that.
fn wake_against_parked_read(has_fences: bool) {
    every(move || {
        let stream = Stream::open(2, 0, has_fences);
        stream.parked.store(park::EMPTY, Ordering::Relaxed);
        stream.word(Word::Asleep).store(1, Ordering::Relaxed);
        let theirs = Arc::clone(&stream);
        let reader = thread::spawn(move || {
            let mut call = Call { stream: &theirs, bytes: &[], got: Vec::new() };
            let counted = park::read(&mut call, |call| call.load(Word::Asleep));
            counted.ok().flatten()
        });
        let woken = {
            let mut call = Call { stream: &stream, bytes: &[], got: Vec::new() };
            park::wake(&mut call).ok()
        };
        let counted = reader.join().unwrap();
        let asleep = stream.load(Word::Asleep);
        drop(stream);
        assert_eq!(asleep, u64::from(woken == Some(false)));
        assert_ne!(counted, Some(0), "asleep and not counted");
    });
}

#[test]
fn loom_a_process_stays_counted_under_its_parked_reader() {
    wake_against_parked_read(true);
}

#[test]
#[should_panic = "asleep and not counted"]
fn loom_without_fences_a_parked_reader_is_not_counted() {
    wake_against_parked_read(false);
}
