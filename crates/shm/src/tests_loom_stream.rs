//! The calls of crate `stream` on atomics, in every interleaving that the memory model allows.
//!
//! Its own tests search the protocol as a whole, with stores that are delayed; here its races run with the
//! orderings that it names: publishing against going to sleep, opening against withdrawing, revoking against
//! reading, a write to the kernel against opening. Nobody really sleeps: a process that would is left there,
//! armed, and then what was written must be in the kernel by the end, where it wakes.

use crate::sync::{AtomicU64, Ordering, fence, store_load_fence};
use loom::sync::{Arc, Mutex};
use loom::thread;
use stream::given;
use stream::inline;
use stream::park;
use stream::plain;
use stream::read::Read;
use stream::withdraw::Withdraw;
use stream::words::WORDS;
use stream::write::{Occasion, Write};
use stream::{
    Entry, Free, Held, Locked, Memory, Outcome, Process, Sent, Shared, Slept, Step, Taken, Wait, Word,
    Written, consent, path,
};

mod races;

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
}

impl Entry for Call<'_> {
    type Stop = Asleep;

    fn parked(&mut self) -> Result<u64, Asleep> {
        Process::parked(self)
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
        // Release: the next taker's Acquire sees what was done under the lock, every load's what was stored
        // before.
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
            // Pairs with the Acquire of `order_loads`, behind which the copy is known to be whole.
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

    fn taken(&mut self) -> Result<Taken, Asleep> {
        Ok(Taken::Bytes(self.stream.kernel.lock().unwrap().taken))
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
