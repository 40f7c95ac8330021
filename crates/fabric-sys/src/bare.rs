//! Bare loops of libfabric's calls: the speed of the provider itself, with which the link between hosts is
//! compared.
//!
//! Echo by `fi_tsend` and `fi_trecv`, and `fi_write` with its completion at the target. It shares no code
//! with crate `ofi`. Like a program that uses `ofi`, an end has a thread that makes progress while the
//! program itself does something else; during a loop that thread sleeps, as a program that is written for one
//! purpose can arrange it. Nothing of an end is closed before the process ends: it is made for programs that
//! measure and end.

mod copied;
mod end_point;

use std::collections::HashMap;
use std::ptr::null_mut;
// tidy: allow(atomics): this crate lies below `shm`, and the reference shares no code with it
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::abi::{fi_msg_rma, fi_rma_iov};
use crate::calls::{fi_trecv, fi_tsend, fi_writemsg};
use crate::constants::{FI_ADDR_UNSPEC, FI_COMPLETION, FI_DELIVERY_COMPLETE, FI_EAGAIN};

use end_point::{EndPoint, Objects, RECEIVES, SENDS, WRITES, kept};

const TAG: u64 = 5;
const MESSAGE_BYTES: usize = 8;
/// Looks between two at the clock.
const LOOKS: u32 = 4096;
/// Looks in a row that find nothing, before others may have the processor: many times what a message takes.
const LOOKS_IN_VAIN: u32 = 1024;

/// Why a loop did not do what it should.
pub type BareError = Box<dyn std::error::Error + Send + Sync>;

/// One end, which takes turns with others.
#[allow(missing_debug_implementations, reason = "objects of a C library have nothing to show")]
pub struct Bare {
    end_point: EndPoint,
    /// Peers that were met before, by their cards.
    known: HashMap<String, u64>,
    peer: u64,
    key: u64,
    messages: *mut u8,
    source: *mut u8,
    /// Buffers of [`copied`]; there from its first use on.
    copies: Option<*mut u8>,
    received: u64,
    sent: u64,
    written: u64,
    is_begun: bool,
}

/// The program's own thread makes progress while this is there.
struct Taken<'a>(&'a Objects);

impl<'a> Taken<'a> {
    fn new(objects: &'a Objects) -> Self {
        objects.take();
        Self(objects)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

/// The same bytes at both ends.
fn pattern(len: usize, seed: u64) -> impl Iterator<Item = u8> {
    (0..len as u64).map(move |at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed) >> 29) as u8)
}

fn bytes_of(hex: &str) -> Result<Vec<u8>, BareError> {
    let pairs = hex.as_bytes().chunks_exact(2);
    pairs.map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?)).collect()
}

/// Makes progress until so many operations have ended.
fn until_ended(objects: &Objects, counter: &AtomicU64, wanted: u64) -> Result<(), BareError> {
    // Acquire: pairs with the Release in `Objects::progress`.
    until(objects, || counter.load(Ordering::Acquire) >= wanted)
}

fn until(objects: &Objects, is_over: impl Fn() -> bool) -> Result<(), BareError> {
    let (mut looks, mut since) = (0_u32, None);
    while !is_over() {
        if objects.progress()? > 0 {
            continue;
        }
        looks += 1;
        if looks.is_multiple_of(LOOKS_IN_VAIN) {
            // The peer may wait for this very processor.
            std::thread::yield_now();
        }
        if looks.is_multiple_of(LOOKS)
            && since.get_or_insert_with(Instant::now).elapsed() > objects.give_up_after
        {
            return Err(
                format!("the peer has not responded for {} s", objects.give_up_after.as_secs()).into()
            );
        }
        std::hint::spin_loop();
    }
    Ok(())
}

/// Posts an operation, again while the provider has no room.
fn posted(objects: &Objects, post: impl Fn() -> isize) -> Result<(), BareError> {
    let since = Instant::now();
    loop {
        match post() {
            0 => return Ok(()),
            again if again == -(FI_EAGAIN as isize) && since.elapsed() < objects.give_up_after => {
                objects.progress()?;
            }
            failed => return Err(format!("an operation could not be posted: error {}", -failed).into()),
        }
    }
}

impl Bare {
    /// Opens an end point of this provider, at an own address for providers that have internet addresses,
    /// with memory that a peer with this key may write. The peer counts as gone if it does nothing for
    /// `give_up_after`.
    ///
    /// # Errors
    /// libfabric is missing or too old, does not have the provider, or a call fails.
    pub fn open(
        provider: &str,
        source: Option<&str>,
        memory_bytes: usize,
        key: u64,
        give_up_after: Duration,
    ) -> Result<Self, BareError> {
        let end_point = EndPoint::open(provider, source, memory_bytes, key, give_up_after)?;
        let (messages, from) = (kept((RECEIVES + SENDS) * 64), kept(memory_bytes));
        Ok(Self {
            end_point,
            known: HashMap::new(),
            peer: 0,
            key: 0,
            messages,
            source: from,
            copies: None,
            received: 0,
            sent: 0,
            written: 0,
            is_begun: false,
        })
    }

    /// What a peer has to know, in letters, digits and one space.
    ///
    /// # Errors
    /// The end point has no address.
    pub fn card(&self) -> Result<String, BareError> {
        let address = self.end_point.address()?;
        let hex: String = address.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(format!("{hex} {:x}", self.end_point.key()))
    }

    /// From now on the loops are those with the end of this card.
    ///
    /// # Errors
    /// The card is none, or the provider refuses the address.
    pub fn meet(&mut self, card: &str) -> Result<(), BareError> {
        let (address, key) = card.split_once(' ').ok_or("the peer's card is cut off")?;
        self.key = u64::from_str_radix(key, 16)?;
        self.peer = match self.known.get(card) {
            Some(peer) => *peer,
            None => {
                let peer = self.end_point.insert(&bytes_of(address)?)?;
                self.known.insert(card.to_owned(), peer);
                peer
            }
        };
        // Receives are there before the peer sends.
        self.begin()
    }

    fn objects(&self) -> &Objects {
        &self.end_point.objects
    }

    fn receive(&self, nth: u64) -> Result<(), BareError> {
        let objects = self.objects();
        let slot = nth as usize % RECEIVES;
        let (buffer, context) = (self.messages.wrapping_add(64 * slot).cast(), objects.context(slot));
        // SAFETY: buffer and context live forever, and belong to one receive at a time.
        posted(objects, || unsafe {
            fi_trecv(objects.ep, buffer, 64, null_mut(), FI_ADDR_UNSPEC, TAG, 0, context)
        })
    }

    /// Receives are posted once, before the first message of this side.
    fn begin(&mut self) -> Result<(), BareError> {
        if !std::mem::replace(&mut self.is_begun, true) {
            (0..RECEIVES as u64).try_for_each(|nth| self.receive(nth))?;
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), BareError> {
        let slot = RECEIVES + self.sent as usize % SENDS;
        self.sent += 1;
        let objects = self.objects();
        until_ended(objects, &objects.ended.sends, self.sent.saturating_sub(SENDS as u64))?;
        let (buffer, context) = (self.messages.wrapping_add(64 * slot).cast(), objects.context(slot));
        // SAFETY: buffer and context live forever; the send that had them before has ended.
        posted(objects, || unsafe {
            fi_tsend(objects.ep, buffer, MESSAGE_BYTES, null_mut(), self.peer, TAG, context)
        })
    }

    fn await_message(&mut self) -> Result<(), BareError> {
        self.received += 1;
        until_ended(self.objects(), &self.objects().ended.receives, self.received)
    }

    /// Messages of 8 bytes and their answers, while the peer does [`Self::answer`]; half the time of a round
    /// trip, in ns.
    ///
    /// # Errors
    /// A call fails, or the peer is gone.
    pub fn echo(&mut self, rounds: u64) -> Result<f64, BareError> {
        self.begin()?;
        let objects = std::sync::Arc::clone(&self.end_point.objects);
        let _taken = Taken::new(&objects);
        let started = Instant::now();
        (0..rounds).try_for_each(|_| self.round_trip())?;
        Ok(started.elapsed().as_nanos() as f64 / (2 * rounds.max(1)) as f64)
    }

    fn round_trip(&mut self) -> Result<(), BareError> {
        self.send()?;
        self.await_message()?;
        self.receive(self.received - 1)
    }

    /// The same, with the time of each round trip, in ns: one begins when the one before it ends.
    ///
    /// # Errors
    /// A call fails, or the peer is gone.
    pub fn echo_each(&mut self, rounds: u64) -> Result<Vec<f64>, BareError> {
        self.begin()?;
        let objects = std::sync::Arc::clone(&self.end_point.objects);
        let _taken = Taken::new(&objects);
        let mut last = Instant::now();
        let mut each_ns = Vec::with_capacity(usize::try_from(rounds)?);
        for _ in 0..rounds {
            self.round_trip()?;
            let now = Instant::now();
            each_ns.push(now.duration_since(last).as_nanos() as f64);
            last = now;
        }
        Ok(each_ns)
    }

    /// The other side of both.
    ///
    /// # Errors
    /// A call fails, or the peer is gone.
    pub fn answer(&mut self, rounds: u64) -> Result<(), BareError> {
        self.begin()?;
        let objects = std::sync::Arc::clone(&self.end_point.objects);
        let _taken = Taken::new(&objects);
        for _ in 0..rounds {
            self.await_message()?;
            self.send()?;
            self.receive(self.received - 1)?;
        }
        Ok(())
    }

    fn write(&mut self, len: usize) -> Result<(), BareError> {
        if len > self.end_point.memory_bytes {
            return Err("that is longer than the memory".into());
        }
        let nth = self.next_write()?;
        self.post_write(nth, self.source, 0, len, FI_COMPLETION | FI_DELIVERY_COMPLETE)
    }

    /// Waits until there may be one more write, whose context and buffers are then free; which of the
    /// [`WRITES`] it is. They may end in another order than they were posted.
    fn next_write(&mut self) -> Result<usize, BareError> {
        let objects = self.objects();
        let is_free = || (objects.busy.load(Ordering::Acquire).trailing_ones() as usize) < WRITES;
        until(objects, is_free)?;
        let nth = objects.busy.load(Ordering::Acquire).trailing_ones() as usize;
        objects.busy.fetch_or(1 << nth, Ordering::Relaxed);
        self.written += 1;
        Ok(nth)
    }

    /// Posts the write that [`Self::next_write`] has made room for: `len` bytes, which stay there forever, to
    /// the peer's memory from byte `at` on.
    fn post_write(
        &self,
        nth: usize,
        from: *mut u8,
        at: u64,
        len: usize,
        flags: u64,
    ) -> Result<(), BareError> {
        let objects = self.objects();
        let slot = RECEIVES + SENDS + nth;
        let from = libc::iovec { iov_base: from.cast(), iov_len: len };
        let target = fi_rma_iov { addr: at, len, key: self.key };
        let mut descriptor = null_mut();
        let message = fi_msg_rma {
            msg_iov: &raw const from,
            desc: &raw mut descriptor,
            iov_count: 1,
            addr: self.peer,
            rma_iov: &raw const target,
            rma_iov_count: 1,
            context: objects.context(slot),
            data: 0,
        };
        // SAFETY: the description lives through the call, the buffer forever; the write that had the context
        // before has ended.
        posted(objects, || unsafe { fi_writemsg(objects.ep, &raw const message, flags) })
    }

    /// Writes one at a time; the time of one, in ns.
    ///
    /// # Errors
    /// The memory is shorter than a write, a call fails, or the peer is gone.
    pub fn put(&mut self, len: usize, count: u64) -> Result<f64, BareError> {
        self.writes(len, count, true)
    }

    /// Writes several at a time; the time of one, in ns.
    ///
    /// # Errors
    /// The memory is shorter than a write, a call fails, or the peer is gone.
    pub fn stream(&mut self, len: usize, count: u64) -> Result<f64, BareError> {
        self.writes(len, count, false)
    }

    fn writes(&mut self, len: usize, count: u64, one_at_a_time: bool) -> Result<f64, BareError> {
        let objects = std::sync::Arc::clone(&self.end_point.objects);
        let _taken = Taken::new(&objects);
        let started = Instant::now();
        for _ in 0..count {
            self.write(len)?;
            if one_at_a_time {
                until_ended(&objects, &objects.ended.writes, self.written)?;
            }
        }
        until_ended(&objects, &objects.ended.writes, self.written)?;
        Ok(started.elapsed().as_nanos() as f64 / count.max(1) as f64)
    }

    /// What the next writes write.
    ///
    /// # Errors
    /// The memory is shorter.
    pub fn fill(&mut self, len: usize, seed: u64) -> Result<(), BareError> {
        if len > self.end_point.memory_bytes {
            return Err("that is longer than the memory".into());
        }
        for (at, byte) in pattern(len, seed).enumerate() {
            // SAFETY: within the source, of which nothing is under way now.
            unsafe { self.source.add(at).write(byte) };
        }
        Ok(())
    }

    /// Whether the peer has written that.
    ///
    /// # Errors
    /// It has not, or the memory is shorter.
    pub fn check(&self, len: usize, seed: u64) -> Result<(), BareError> {
        if len > self.end_point.memory_bytes {
            return Err("that is longer than the memory".into());
        }
        for (at, wanted) in pattern(len, seed).enumerate() {
            // SAFETY: within the memory. The peer may write it, which a volatile read tolerates.
            let found = unsafe { self.end_point.memory.add(at).read_volatile() };
            if found != wanted {
                return Err(format!("byte {at} is {found} instead of {wanted}").into());
            }
        }
        Ok(())
    }
}
