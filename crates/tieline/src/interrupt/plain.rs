//! Interrupts without a message.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use link::LinkError;
use node_client::Import;
use ofi::{OfiMemory, Rails};
use proto::ids::{InterruptNo, NodeId};
use proto::wire::program::InterruptKind;
use shm::doorbell::{Spin, Waiter};
use shm::origin::Origin;
use shm::sync::{AtomicBool, Ordering};

use super::handler::{Handler, guarded};
use super::latch::Latch;
use super::words::{
    self, OwnerWords, RemoteWords, Way, check_origin, connect_grant, deadline, gone, try_lock,
};
use crate::error::{Error, Result};
use crate::network::Triggered;
use crate::node::Node;
use crate::options::InterruptOptions;
use crate::remote::{ReducedRail, check_link, lost, reduced};
use crate::spin::new_spin;

/// An interrupt of this program.
// Each wait writes into it: lines of its own, so that it slows down no neighbour that another thread uses.
#[derive(Debug)]
#[repr(align(128))]
pub struct Interrupt {
    node: Node,
    number: InterruptNo,
    origin: Origin,
    words: Arc<OwnerWords>,
    /// No thread waits for it any more.
    cancelled: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    /// Triggers that have been returned.
    seen: u32,
    spin: Spin,
}

impl Interrupt {
    pub(crate) fn create(node: &Node, options: &InterruptOptions) -> Result<Self> {
        let spin = new_spin()?;
        let mut words = OwnerWords::create()?;
        let number = words.register(node, options)?;
        let words = Arc::new(words);
        node.network().offer_interrupt(number, Triggered::Plain(Arc::downgrade(&words)));
        let waiting = Mutex::new(Waiting { seen: 0, spin });
        let (node, origin, cancelled) = (node.clone(), Origin::here(), AtomicBool::new(false));
        let interrupt = Self { node, number, origin, words, cancelled, waiting };
        if options.pollable {
            interrupt.words.bell()?.arm_eventfd();
        }
        Ok(interrupt)
    }

    /// Its number.
    pub fn number(&self) -> InterruptNo {
        self.number
    }

    /// One thread at a time: a second one must not wait for the first beyond its own time-out.
    fn lock(&self) -> Result<MutexGuard<'_, Waiting>> {
        try_lock(&self.waiting, self.number)
    }

    /// How many triggers came since the last call, without waiting. Re-arms the descriptor of a pollable
    /// interrupt.
    pub fn take(&self) -> Result<u32> {
        check_origin(self.origin, self.number)?;
        let mut waiting = self.lock()?;
        let bell = self.words.bell()?;
        if let Some(latch) = &self.words.latch {
            latch.clear()?;
            bell.arm_eventfd();
        }
        Ok(waiting.advance(bell.value()))
    }

    /// Waits for a trigger; returns how many there were since the last call. `None` waits forever.
    ///
    /// Spins first, for as long as that has paid lately, then sleeps. One thread waits at a time.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<u32> {
        // Acquire: pairs with the Release in `cancel_waits`.
        let cancelled = || self.cancelled.load(Ordering::Acquire);
        let came = self.wait_unless(timeout, &cancelled)?;
        if cancelled() {
            return Err(Error::Cancelled { what: format!("interrupt {}", self.number) });
        }
        Ok(came)
    }

    /// Ends all waits with [`Error::Cancelled`], those of the future too. To be repeated until the waiting
    /// thread has returned: a hostile peer may undo one wake-up.
    pub fn cancel_waits(&self) -> Result<()> {
        check_origin(self.origin, self.number)?;
        // Release: pairs with the Acquire in `wait`.
        self.cancelled.store(true, Ordering::Release);
        self.words.ring_self()
    }

    /// As [`Self::wait`]; also returns, with the triggers so far, when `stop` returns true and the doorbell
    /// has been rung.
    fn wait_unless(&self, timeout: Option<Duration>, stop: &dyn Fn() -> bool) -> Result<u32> {
        check_origin(self.origin, self.number)?;
        let mut waiting = self.lock()?;
        let bell = self.words.bell()?;
        let Waiting { seen, spin } = &mut *waiting;
        if !bell.spin_until(spin, || bell.value() != *seen) {
            self.sleep(&bell, *seen, timeout, stop)?;
        }
        let came = waiting.advance(bell.value());
        if self.words.latch.is_some() {
            bell.arm_eventfd();
        }
        Ok(came)
    }

    /// The clock is read only here: a reading costs as much as half a round trip.
    fn sleep(
        &self,
        bell: &Waiter<'_>,
        seen: u32,
        timeout: Option<Duration>,
        stop: &dyn Fn() -> bool,
    ) -> Result<()> {
        let deadline = deadline(timeout);
        let ready = || bell.value() != seen || stop();
        while !ready() {
            bell.wait_until(&mut Spin::never(), deadline, ready);
            if !ready() && deadline.is_some_and(|deadline| deadline.has_passed()) {
                return Err(Error::TimedOut { what: format!("interrupt {}", self.number) });
            }
        }
        Ok(())
    }

    /// For poll, select and epoll: readable after a trigger, until [`Self::take`]. Only if made `pollable`.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>> {
        self.words.latch.as_ref().map(Latch::descriptor).ok_or_else(|| {
            Error::Invalid(format!("interrupt {} has no descriptor: create it with `pollable`", self.number))
        })
    }

    /// Calls `callback` with the number of triggers, from a library thread and with no lock held, until the
    /// handler is dropped.
    pub fn on_trigger(self, mut callback: impl FnMut(u32) + Send + 'static) -> Result<Handler> {
        let interrupt = Arc::new(self);
        let number = interrupt.number;
        let bell = Arc::clone(&interrupt);
        Handler::start(
            number,
            move || drop(bell.words.ring_self()),
            move |closing| {
                while let Ok(came) = interrupt.wait_unless(None, &|| closing.is_so()) {
                    if closing.is_so() {
                        return;
                    }
                    guarded(|| callback(came));
                }
            },
        )
    }
}

impl Waiting {
    fn advance(&mut self, value: u32) -> u32 {
        // Wraps with the counter: at most 2^32 - 1 triggers can be distinguished from none.
        let came = value.wrapping_sub(self.seen);
        self.seen = value;
        came
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        // In this order: the next owner of the number must find its place free.
        self.node.network().take_interrupt_back(self.number);
        drop(self.node.client().remove_interrupt(self.number));
    }
}

/// An interrupt of a program on any node.
// Each trigger reads it: lines of its own, so that no neighbour that another thread writes slows it down.
#[derive(Debug)]
#[repr(align(128))]
pub struct RemoteInterrupt {
    node: Node,
    peer: NodeId,
    number: InterruptNo,
    import: Import,
    origin: Origin,
    bell: RemoteBell,
}

#[derive(Debug)]
enum RemoteBell {
    Here(RemoteWords),
    OnOtherHost { rails: Arc<Rails>, number: u64 },
}

impl RemoteInterrupt {
    pub(crate) fn connect(node: &Node, peer: NodeId, number: InterruptNo, timeout: Duration) -> Result<Self> {
        let until = Instant::now().checked_add(timeout);
        let grant = match connect_grant(node, peer, number, InterruptKind::Plain, timeout)? {
            Way::Here(grant) => grant,
            Way::OnOtherHost { addresses } => {
                let left = until.map_or(timeout, |until| until.saturating_duration_since(Instant::now()));
                return Self::connect_elsewhere(node, peer, number, &addresses, left);
            }
        };
        match RemoteWords::open(grant.trigger, grant.waiter, grant.event) {
            Ok(words) => {
                let (node, origin, bell) = (node.clone(), Origin::here(), RemoteBell::Here(words));
                Ok(Self { node, peer, number, import: grant.import, origin, bell })
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
        let kind = InterruptKind::Plain;
        let (connected, doorbell) = words::connect_elsewhere(node, peer, number, kind, addresses, limit)?;
        let bell = RemoteBell::OnOtherHost { rails: connected.rails, number: doorbell.id };
        let (node, origin) = (node.clone(), Origin::here());
        Ok(Self { node, peer, number, import: connected.import, origin, bell })
    }

    /// The owner's node.
    pub fn node(&self) -> NodeId {
        self.peer
    }

    /// As [`RemoteSegment::reduced_rails`](crate::RemoteSegment::reduced_rails).
    pub fn reduced_rails(&self) -> Vec<ReducedRail> {
        match &self.bell {
            RemoteBell::Here(_) => Vec::new(),
            RemoteBell::OnOtherHost { rails, .. } => reduced(rails),
        }
    }

    /// Triggers it. Returns when the count is raised; the receiver is woken if it sleeps. To another host:
    /// when the message is on its way, which may overtake what was put to a segment there since the last
    /// [`barrier`](crate::RemoteSegment::barrier). It has arrived when this value is dropped, which waits for
    /// that, at most 10 seconds. Over several rails it arrives once also if one of them fails, and if none
    /// responds for 10 seconds, the next trigger is an error: nobody knows then of those since the last
    /// whether they arrived.
    pub fn trigger(&self) -> Result<()> {
        check_origin(self.origin, self.number)?;
        match lost(&self.import) {
            None => {
                check_link(&self.import, self.peer)?;
                match &self.bell {
                    RemoteBell::Here(words) => words.ring(),
                    RemoteBell::OnOtherHost { rails, number } => rails.ring(*number).map_err(|error| {
                        let (link, why) = (OfiMemory::NAME, error.to_string());
                        LinkError::Failed { link, node: self.peer, why }.into()
                    }),
                }
            }
            Some(reason) => Err(gone(self.peer, self.number, reason)),
        }
    }
}

impl Drop for RemoteInterrupt {
    fn drop(&mut self) {
        if let RemoteBell::OnOtherHost { rails, .. } = &self.bell {
            // Nobody could do anything about a failure, which the owner's end mostly is.
            drop(rails.confirm_rings());
        }
        drop(self.node.client().disconnect(&self.import));
        if matches!(self.bell, RemoteBell::OnOtherHost { .. }) {
            self.node.network().forget(&self.import);
        }
    }
}

const _: () = {
    use shm::layout::LINE_BYTES;
    assert!(align_of::<Interrupt>() == LINE_BYTES && align_of::<RemoteInterrupt>() == LINE_BYTES);
};
