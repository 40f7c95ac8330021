//! The loops: echo by `fi_tsend` and `fi_trecv`, and `fi_write` with its completion at the target.

use std::error::Error;
use std::ptr::null_mut;
// tidy: allow(atomics): this crate lies below `shm`, and the reference shares no code with it
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fabric_sys::abi::{fi_msg_rma, fi_rma_iov};
use fabric_sys::calls::{fi_trecv, fi_tsend, fi_writemsg};
use fabric_sys::constants::{FI_ADDR_UNSPEC, FI_COMPLETION, FI_DELIVERY_COMPLETE, FI_EAGAIN};

use crate::end_point::{EndPoint, Objects, RECEIVES, SENDS, WRITES, kept};
use crate::tcp::Tcp;

const TAG: u64 = 5;
const MESSAGE_BYTES: usize = 8;
/// Nothing takes this long: the peer is gone.
const GIVE_UP_AFTER: Duration = Duration::from_secs(20);
/// Looks between two at the clock.
const LOOKS: u32 = 4096;

/// See the module.
pub(crate) struct Loops {
    end_point: EndPoint,
    peer: u64,
    key: u64,
    messages: *mut u8,
    source: *mut u8,
    received: u64,
    sent: u64,
    written: u64,
    pub(crate) tcp: Tcp,
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

/// Makes progress until so many operations have ended.
fn until(objects: &Objects, counter: &AtomicU64, wanted: u64) -> Result<(), Box<dyn Error>> {
    let (mut looks, mut since) = (0_u32, None);
    // Acquire: pairs with the Release in `Objects::progress`.
    while counter.load(Ordering::Acquire) < wanted {
        if objects.progress()? > 0 {
            continue;
        }
        looks += 1;
        if looks.is_multiple_of(LOOKS) && since.get_or_insert_with(Instant::now).elapsed() > GIVE_UP_AFTER {
            return Err(format!("the peer has not responded for {} s", GIVE_UP_AFTER.as_secs()).into());
        }
        std::hint::spin_loop();
    }
    Ok(())
}

/// Posts an operation, again while the provider has no room.
fn posted(objects: &Objects, post: impl Fn() -> isize) -> Result<(), Box<dyn Error>> {
    let since = Instant::now();
    loop {
        match post() {
            0 => return Ok(()),
            again if again == -(FI_EAGAIN as isize) && since.elapsed() < GIVE_UP_AFTER => {
                objects.progress()?;
            }
            failed => return Err(format!("an operation could not be posted: error {}", -failed).into()),
        }
    }
}

impl Loops {
    pub(crate) fn new(end_point: EndPoint, peer: u64, key: u64) -> Self {
        let (messages, source) = (kept((RECEIVES + SENDS) * 64), kept(end_point.memory_bytes));
        let tcp = Tcp::default();
        Self {
            end_point,
            peer,
            key,
            messages,
            source,
            received: 0,
            sent: 0,
            written: 0,
            tcp,
            is_begun: false,
        }
    }

    fn objects(&self) -> &Objects {
        &self.end_point.objects
    }

    fn receive(&self, nth: u64) -> Result<(), Box<dyn Error>> {
        let objects = self.objects();
        let slot = nth as usize % RECEIVES;
        let (buffer, context) = (self.messages.wrapping_add(64 * slot).cast(), objects.context(slot));
        // SAFETY: buffer and context live forever, and belong to one receive at a time.
        posted(objects, || unsafe {
            fi_trecv(objects.ep, buffer, 64, null_mut(), FI_ADDR_UNSPEC, TAG, 0, context)
        })
    }

    /// Receives are posted once, before the first message of this side.
    fn begin(&mut self) -> Result<(), Box<dyn Error>> {
        if !std::mem::replace(&mut self.is_begun, true) {
            (0..RECEIVES as u64).try_for_each(|nth| self.receive(nth))?;
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), Box<dyn Error>> {
        let slot = RECEIVES + self.sent as usize % SENDS;
        self.sent += 1;
        let objects = self.objects();
        until(objects, &objects.ended.sends, self.sent.saturating_sub(SENDS as u64))?;
        let (buffer, context) = (self.messages.wrapping_add(64 * slot).cast(), objects.context(slot));
        // SAFETY: buffer and context live forever; the send that had them before has ended.
        posted(objects, || unsafe {
            fi_tsend(objects.ep, buffer, MESSAGE_BYTES, null_mut(), self.peer, TAG, context)
        })
    }

    fn await_message(&mut self) -> Result<(), Box<dyn Error>> {
        self.received += 1;
        until(self.objects(), &self.objects().ended.receives, self.received)
    }

    /// Half the time of a round trip, in ns.
    pub(crate) fn echo(&mut self, rounds: u64) -> Result<f64, Box<dyn Error>> {
        self.begin()?;
        let objects = std::sync::Arc::clone(&self.end_point.objects);
        let _taken = Taken::new(&objects);
        let started = Instant::now();
        for _ in 0..rounds {
            self.send()?;
            self.await_message()?;
            self.receive(self.received - 1)?;
        }
        Ok(started.elapsed().as_nanos() as f64 / (2 * rounds.max(1)) as f64)
    }

    /// The other side of it.
    pub(crate) fn answer(&mut self, rounds: u64) -> Result<(), Box<dyn Error>> {
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

    fn write(&mut self, len: usize) -> Result<(), Box<dyn Error>> {
        if len > self.end_point.memory_bytes {
            return Err("that is longer than the memory".into());
        }
        let slot = RECEIVES + SENDS + self.written as usize % WRITES;
        self.written += 1;
        let objects = self.objects();
        until(objects, &objects.ended.writes, self.written.saturating_sub(WRITES as u64))?;
        let from = libc::iovec { iov_base: self.source.cast(), iov_len: len };
        let target = fi_rma_iov { addr: 0, len, key: self.key };
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
        // SAFETY: the description lives through the call, the buffer forever; the write that had the context before has ended.
        posted(objects, || unsafe {
            fi_writemsg(objects.ep, &raw const message, FI_COMPLETION | FI_DELIVERY_COMPLETE)
        })
    }

    /// Writes one at a time; the time of one, in ns.
    pub(crate) fn put(&mut self, len: usize, count: u64) -> Result<f64, Box<dyn Error>> {
        self.writes(len, count, true)
    }

    /// Writes several at a time; the time of one, in ns.
    pub(crate) fn stream(&mut self, len: usize, count: u64) -> Result<f64, Box<dyn Error>> {
        self.writes(len, count, false)
    }

    fn writes(&mut self, len: usize, count: u64, one_at_a_time: bool) -> Result<f64, Box<dyn Error>> {
        let objects = std::sync::Arc::clone(&self.end_point.objects);
        let _taken = Taken::new(&objects);
        let started = Instant::now();
        for _ in 0..count {
            self.write(len)?;
            if one_at_a_time {
                until(&objects, &objects.ended.writes, self.written)?;
            }
        }
        until(&objects, &objects.ended.writes, self.written)?;
        Ok(started.elapsed().as_nanos() as f64 / count.max(1) as f64)
    }

    /// What the next writes write.
    pub(crate) fn fill(&mut self, len: usize, seed: u64) -> Result<(), Box<dyn Error>> {
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
    pub(crate) fn check(&self, len: usize, seed: u64) -> Result<(), Box<dyn Error>> {
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
