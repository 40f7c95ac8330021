//! Interrupts with a message: a ring for many producers and a doorbell.
//!
//! Messages keep their bounds, and those of one sender their order. A sender that dies while it writes one
//! loses that one; the owner learns of the death from the sender's process descriptor, never from a time-out.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use link::LinkError;
use node_client::{Import, InterruptOffer};
use ofi::{Delivery, OfiMemory, Rails};
use proto::ids::{InterruptNo, NodeId};
use proto::wire::program::{Imported, InterruptKind};
use shm::doorbell::{Deadline, Rang, Spin};
use shm::origin::Origin;
use shm::ring::PopError;
use shm::ring::many::{ClaimError, Consumer, Popped, Producer};
use shm::sync::{AtomicBool, Ordering};

use super::handler::{Handler, guarded};
use super::inlet::Inlet;
use super::latch::{Latch, LatchRinger};
use super::words::{self, Way, check_origin, connect_grant, gone, try_lock};
use crate::error::{Error, Result};
use crate::events::Registration;
use crate::network::Triggered;
use crate::node::Node;
use crate::options::InterruptOptions;
use crate::remote::{ReducedRail, check_link, lost, reduced};
use crate::senders::Senders;
use crate::spin::new_spin;

/// How often a claim that stays uncommitted is asked whether its owner has died: death rings no doorbell.
const CLAIM_WATCH: Duration = Duration::from_millis(5);

/// How long the introduction of a producer may take: many thousand times what it does take.
const INTRODUCTION_LIMIT: Duration = Duration::from_secs(10);
/// The number under which an owner sends to itself, what other hosts send included. Managers count producers
/// from 0.
const OWN_PRODUCER: u16 = u16::MAX;
/// As good as forever, and still a time that the clock can show.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A data interrupt of this program.
// As with [`super::Interrupt`], each wait writes into it.
#[derive(Debug)]
#[repr(align(128))]
pub struct DataInterrupt {
    node: Node,
    number: InterruptNo,
    origin: Origin,
    /// No thread waits for it any more.
    cancelled: AtomicBool,
    inlet: Arc<Inlet>,
    receiving: Mutex<Receiving>,
    senders: Arc<Senders>,
    registration: Mutex<Option<Registration>>,
}

#[derive(Debug)]
struct Receiving {
    ring: Consumer,
    spin: Spin,
    /// A claim of a producer that was never introduced or cannot be seen, and since when it has been
    /// examined.
    stranger: Option<(u16, Instant)>,
    /// The ring broke a rule: nothing more is taken from it.
    broken: Option<String>,
}

/// The result of one check of the ring.
enum Look {
    Message(usize),
    Nothing,
    /// A producer is writing, or has died writing.
    Pending,
}

impl DataInterrupt {
    pub(crate) fn create(
        node: &Node,
        options: &InterruptOptions,
        message_bytes: usize,
        depth: usize,
    ) -> Result<Self> {
        if message_bytes == 0 || depth == 0 {
            return Err(Error::Invalid(
                "a data interrupt needs room for at least one message of one byte".into(),
            ));
        }
        let spin = new_spin()?;
        let ring = Consumer::create(depth, message_bytes)?;
        let created = node.client().create_interrupt(&InterruptOffer {
            number: options.number,
            kind: InterruptKind::Data,
            access: options.access.clone(),
            trigger: ring.slots_fd(),
            waiter: ring.fd(),
            pollable: options.pollable,
        })?;
        let (number, latch) = (created.number, created.sockets.map(Latch::new));
        if latch.is_some() {
            ring.waiter().arm_eventfd();
        }
        let inlet = Arc::new(Inlet::new(ring.add_local(OWN_PRODUCER)?, latch));
        node.network().offer_interrupt(number, Triggered::Data(Arc::downgrade(&inlet)));
        let senders = Arc::new(Senders::default());
        let registration = node.events().register_senders(Imported::Interrupt(number), &senders);
        let receiving = Receiving { ring, spin, stranger: None, broken: None };
        Ok(Self {
            node: node.clone(),
            number,
            origin: Origin::here(),
            cancelled: AtomicBool::new(false),
            inlet,
            receiving: Mutex::new(receiving),
            senders,
            registration: Mutex::new(Some(registration)),
        })
    }

    /// Its number.
    pub fn number(&self) -> InterruptNo {
        self.number
    }

    /// One thread at a time: a second one must not wait for the first beyond its own time-out.
    fn lock(&self) -> Result<MutexGuard<'_, Receiving>> {
        try_lock(&self.receiving, self.number)
    }

    /// The next message, if there is one: its length. Re-arms the descriptor of a pollable interrupt when
    /// there is none.
    pub fn take(&self, buffer: &mut [u8]) -> Result<Option<usize>> {
        check_origin(self.origin, self.number)?;
        let mut receiving = self.lock()?;
        if let Look::Message(len) = self.look(&mut receiving, buffer)? {
            return Ok(Some(len));
        }
        let Some(latch) = &self.inlet.latch else { return Ok(None) };
        latch.clear()?;
        receiving.ring.waiter().arm_eventfd();
        // Looked at again after arming: what came in between has rung nothing.
        match self.look(&mut receiving, buffer)? {
            Look::Message(len) => {
                // There may be more, and the descriptor has just been cleared.
                latch.ring()?;
                Ok(Some(len))
            }
            Look::Nothing => Ok(None),
            // A claim that its owner leaves by dying rings nothing: until it is gone the descriptor stays
            // readable.
            Look::Pending => {
                latch.ring()?;
                Ok(None)
            }
        }
    }

    /// Waits for a message and gives its length. `None` waits forever. One thread receives at a time.
    pub fn wait(&self, buffer: &mut [u8], timeout: Option<Duration>) -> Result<usize> {
        // Acquire: pairs with the Release in `cancel_waits`.
        let cancelled = || self.cancelled.load(Ordering::Acquire);
        let stopped = || Error::Cancelled { what: format!("message of interrupt {}", self.number) };
        self.wait_unless(buffer, timeout, &cancelled)?.ok_or_else(stopped)
    }

    /// Ends all waits with [`Error::Cancelled`], those of the future too; messages that are there are given
    /// out first. To be repeated until the waiting thread has returned: a hostile peer may undo one wake-up.
    pub fn cancel_waits(&self) -> Result<()> {
        check_origin(self.origin, self.number)?;
        // Release: pairs with the Acquire in `wait`.
        self.cancelled.store(true, Ordering::Release);
        self.inlet.ringer().ring();
        Ok(())
    }

    /// As [`Self::wait`]; `None` when `stop` returns true and the doorbell has been rung.
    fn wait_unless(
        &self,
        buffer: &mut [u8],
        timeout: Option<Duration>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<usize>> {
        check_origin(self.origin, self.number)?;
        let mut receiving = self.lock()?;
        let Receiving { ring, spin, .. } = &mut *receiving;
        // The clock is read only when it comes to sleeping: a reading costs as much as half a round trip.
        ring.waiter().spin_until(spin, || !ring.is_empty());
        let mut deadline = None;
        loop {
            let pending = match self.look(&mut receiving, buffer)? {
                Look::Message(len) => {
                    self.rearm(&receiving);
                    return Ok(Some(len));
                }
                Look::Nothing | Look::Pending if stop() => return Ok(None),
                Look::Nothing => false,
                Look::Pending => true,
            };
            let left = timeout.map(|timeout| {
                let now = Instant::now();
                // A time-out too long for the clock ends with it.
                let end = *deadline.get_or_insert_with(|| now.checked_add(timeout).unwrap_or(now + CENTURY));
                end.saturating_duration_since(now)
            });
            if left.is_some_and(|left| left.is_zero()) {
                self.rearm(&receiving);
                return Err(Error::TimedOut { what: format!("message of interrupt {}", self.number) });
            }
            receiving.sleep(left, pending, stop);
        }
    }

    /// A wait uses the doorbell for itself; a pollable interrupt wants it back.
    fn rearm(&self, receiving: &Receiving) {
        if let Some(latch) = &self.inlet.latch {
            receiving.ring.waiter().arm_eventfd();
            if !receiving.ring.is_empty() {
                // Cannot fail in a way that matters: a full one is readable already.
                drop(latch.ring());
            }
        }
    }

    /// For poll, select and epoll: readable when a message may have come, until [`Self::take`] finds none.
    /// Only if made `pollable`.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>> {
        self.inlet.latch.as_ref().map(Latch::descriptor).ok_or_else(|| {
            Error::Invalid(format!("interrupt {} has no descriptor: create it with `pollable`", self.number))
        })
    }

    /// Calls `callback` with each message, from a library thread and with no lock held, until the handler is
    /// dropped or the ring is found to be corrupt.
    pub fn on_message(self, mut callback: impl FnMut(&[u8]) + Send + 'static) -> Result<Handler> {
        let interrupt = Arc::new(self);
        let (number, waker) = (interrupt.number, Arc::clone(&interrupt));
        let mut buffer = vec![0; interrupt.inlet.message_bytes()];
        let wake = move || {
            waker.inlet.ringer().ring();
        };
        Handler::start(number, wake, move |closing| {
            while let Ok(Some(len)) = interrupt.wait_unless(&mut buffer, None, &|| closing.is_so()) {
                if closing.is_so() {
                    return;
                }
                guarded(|| callback(buffer.get(..len).unwrap_or_default()));
            }
        })
    }

    fn look(&self, receiving: &mut Receiving, buffer: &mut [u8]) -> Result<Look> {
        if let Some(detail) = &receiving.broken {
            return Err(self.corrupt(detail.clone()));
        }
        match receiving.ring.pop_into(buffer) {
            Ok(Popped::Taken { value, .. }) => Ok(Look::Message(value)),
            Ok(Popped::Empty) => Ok(Look::Nothing),
            Ok(Popped::Pending(producer)) => {
                if let Some(proof) = self.senders.proof_of_death(producer) {
                    receiving.ring.discard_claims(&proof, producer);
                } else if receiving.is_strange(producer, &self.senders) {
                    let detail = format!("a message of producer {producer}, which is not connected");
                    receiving.broken = Some(detail.clone());
                    return Err(self.corrupt(detail));
                }
                Ok(Look::Pending)
            }
            Err(PopError::TooSmall { record_bytes, .. }) => {
                let what = format!("the buffer given to interrupt {}", self.number);
                Err(Error::TooLong { what, len: record_bytes, limit: buffer.len() })
            }
            Err(broken) => {
                receiving.broken = Some(broken.to_string());
                Err(self.corrupt(broken.to_string()))
            }
        }
    }

    #[cold]
    fn corrupt(&self, detail: String) -> Error {
        Error::Corrupt { what: format!("interrupt {}", self.number), node: self.node.id(), detail }
    }
}

impl Receiving {
    /// Whether this producer has been unknown for longer than an introduction takes. A real one is introduced
    /// by the manager before it can claim; its introduction may still be on its way through the library's
    /// thread.
    fn is_strange(&mut self, producer: u16, senders: &Senders) -> bool {
        if senders.knows(producer) || producer == OWN_PRODUCER {
            self.stranger = None;
            return false;
        }
        match self.stranger {
            Some((known, since)) if known == producer => since.elapsed() > INTRODUCTION_LIMIT,
            _ => {
                self.stranger = Some((producer, Instant::now()));
                false
            }
        }
    }

    fn sleep(&mut self, left: Option<Duration>, pending: bool, stop: &dyn Fn() -> bool) {
        let slice = if pending { Some(left.map_or(CLAIM_WATCH, |left| left.min(CLAIM_WATCH))) } else { left };
        let deadline =
            slice.map(|slice| Deadline::after_ns(u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX / 2)));
        let ring = &self.ring;
        if pending {
            // Something is there, so the ring is not empty; only its owner's doorbell, or time, changes
            // anything.
            let waiter = ring.waiter();
            waiter.wait(waiter.value(), &mut Spin::never(), deadline);
        } else {
            ring.waiter().wait_until(&mut Spin::never(), deadline, || !ring.is_empty() || stop());
        }
    }
}

impl Drop for DataInterrupt {
    fn drop(&mut self) {
        // In this order: the next owner of the number must find its place free.
        *self.registration.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.node.network().take_interrupt_back(self.number);
        drop(self.node.client().remove_interrupt(self.number));
    }
}

/// A data interrupt of a program on any node.
// As with [`super::RemoteInterrupt`], each trigger reads it.
#[derive(Debug)]
#[repr(align(128))]
pub struct RemoteDataInterrupt {
    node: Node,
    peer: NodeId,
    number: InterruptNo,
    import: Import,
    origin: Origin,
    outlet: Outlet,
}

/// Where messages go.
#[derive(Debug)]
enum Outlet {
    Here { ring: Producer, latch: Option<LatchRinger> },
    OnOtherHost { rails: Arc<Rails>, doorbell: u64, message_bytes: usize },
}

impl RemoteDataInterrupt {
    pub(crate) fn connect(node: &Node, peer: NodeId, number: InterruptNo, timeout: Duration) -> Result<Self> {
        let until = Instant::now().checked_add(timeout);
        let grant = match connect_grant(node, peer, number, InterruptKind::Data, timeout)? {
            Way::Here(grant) => grant,
            Way::OnOtherHost { addresses } => {
                let left = until.map_or(timeout, |until| until.saturating_duration_since(Instant::now()));
                return Self::connect_elsewhere(node, peer, number, &addresses, left);
            }
        };
        let open = || -> Result<_> {
            let latch = grant.event.map(LatchRinger::new).transpose()?;
            Ok((Producer::connect(grant.trigger, grant.waiter, grant.producer)?, latch))
        };
        match open() {
            Ok((ring, latch)) => {
                let (node, origin, outlet) = (node.clone(), Origin::here(), Outlet::Here { ring, latch });
                Ok(Self { node, peer, number, import: grant.import, origin, outlet })
            }
            Err(error) => {
                drop(node.client().disconnect(&grant.import));
                Err(error)
            }
        }
    }

    fn connect_elsewhere(
        node: &Node,
        peer: NodeId,
        number: InterruptNo,
        addresses: &[IpAddr],
        limit: Duration,
    ) -> Result<Self> {
        let kind = InterruptKind::Data;
        let (connected, doorbell) = words::connect_elsewhere(node, peer, number, kind, addresses, limit)?;
        let message_bytes = doorbell.message_bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0);
        let outlet = Outlet::OnOtherHost { rails: connected.rails, doorbell: doorbell.id, message_bytes };
        let (node, origin) = (node.clone(), Origin::here());
        Ok(Self { node, peer, number, import: connected.import, origin, outlet })
    }

    /// The owner's node.
    pub fn node(&self) -> NodeId {
        self.peer
    }

    /// Longest message in bytes; to another host at most [`ofi::DATA_BYTES_MAX`].
    pub fn message_bytes(&self) -> usize {
        match &self.outlet {
            Outlet::Here { ring, .. } => ring.slot_bytes(),
            Outlet::OnOtherHost { message_bytes, .. } => *message_bytes,
        }
    }

    /// As [`RemoteSegment::reduced_rails`](crate::RemoteSegment::reduced_rails).
    pub fn reduced_rails(&self) -> Vec<ReducedRail> {
        match &self.outlet {
            Outlet::Here { .. } => Vec::new(),
            Outlet::OnOtherHost { rails, .. } => reduced(rails),
        }
    }

    /// Sends a message. When this returns it is in the ring, whole, and the receiver is woken if it sleeps.
    /// To another host it waits for the reply that says so; what was put to a segment there since the last
    /// [`barrier`](crate::RemoteSegment::barrier) may come later.
    pub fn trigger(&self, message: &[u8]) -> Result<()> {
        check_origin(self.origin, self.number)?;
        if let Some(reason) = lost(&self.import) {
            return Err(gone(self.peer, self.number, reason));
        }
        check_link(&self.import, self.peer)?;
        match &self.outlet {
            Outlet::Here { ring, latch } => self.enter(ring, latch.as_ref(), message),
            Outlet::OnOtherHost { rails, doorbell, .. } => {
                let became = rails.deliver(*doorbell, message).map_err(|error| {
                    let (link, why) = (OfiMemory::NAME, error.to_string());
                    LinkError::Failed { link, node: self.peer, why }
                })?;
                self.became(became, message.len())
            }
        }
    }

    fn enter(&self, ring: &Producer, latch: Option<&LatchRinger>, message: &[u8]) -> Result<()> {
        let sent = match ring.send(message) {
            // A program that had this producer's number before has died, and this claim was taken for one of
            // its own. It was not sent, so it is sent now.
            Err(ClaimError::Lost) => ring.send(message),
            other => other,
        };
        sent.map_err(|error| self.refused(error, message.len()))?;
        if ring.ringer().ring_if_armed() == Rang::Eventfd
            && let Some(latch) = latch
        {
            latch.ring()?;
        }
        Ok(())
    }

    /// What a message has become on another host.
    fn became(&self, delivery: Delivery, len: usize) -> Result<()> {
        let what = format!("interrupt {}", self.number);
        match delivery {
            Delivery::Taken => Ok(()),
            Delivery::Full => Err(Error::Full { what }),
            Delivery::TooLong => Err(Error::TooLong { what, len, limit: self.message_bytes() }),
            Delivery::Broken => {
                let detail = "its owner cannot take messages any more".to_owned();
                Err(Error::Corrupt { what, node: self.peer, detail })
            }
        }
    }

    #[cold]
    fn refused(&self, error: ClaimError, len: usize) -> Error {
        let what = format!("interrupt {}", self.number);
        match error {
            ClaimError::Full => Error::Full { what },
            ClaimError::TooLong { slot_bytes, .. } => Error::TooLong { what, len, limit: slot_bytes },
            ClaimError::Lost | ClaimError::Corrupt { .. } => {
                Error::Corrupt { what, node: self.peer, detail: error.to_string() }
            }
        }
    }
}

impl Drop for RemoteDataInterrupt {
    fn drop(&mut self) {
        drop(self.node.client().disconnect(&self.import));
        if matches!(self.outlet, Outlet::OnOtherHost { .. }) {
            self.node.network().forget(&self.import);
        }
    }
}

const _: () = {
    use shm::layout::LINE_BYTES;
    assert!(align_of::<DataInterrupt>() == LINE_BYTES && align_of::<RemoteDataInterrupt>() == LINE_BYTES);
};
