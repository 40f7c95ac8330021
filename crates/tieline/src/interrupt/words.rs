//! The memory of an interrupt: a region that triggers write and a region that only the waiter writes.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use node_client::{InterruptGrant, InterruptOffer};
use proto::ids::{InterruptNo, NodeId};
use proto::wire::program::{InterruptKind, LossReason};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use shm::clock::Deadline;
use shm::doorbell::{Rang, Ringer, Waiter};
use shm::origin::Origin;
use shm::region::{MapAccess, Region, RegionOptions};

use crate::error::{Error, Result};
use crate::node::Node;
use crate::options::InterruptOptions;
use crate::remote::forked;

/// Where the bell's words lie in their regions.
const SIGNAL_AT: usize = 0;
const ARMED_AT: usize = 0;
/// Each region is as small as a region can be.
const PAGE_BYTES: usize = 4096;

/// The owner's side.
#[derive(Debug)]
pub(super) struct OwnerWords {
    trigger: Region,
    waiter: Region,
    pub(super) eventfd: Option<OwnedFd>,
}

/// The side of somebody who triggers.
#[derive(Debug)]
pub(super) struct RemoteWords {
    trigger: Region,
    waiter: Region,
    eventfd: Option<OwnedFd>,
}

pub(super) fn system(what: &'static str) -> impl FnOnce(Errno) -> Error {
    move |errno| Error::System { what, source: errno.into() }
}

pub(super) fn deadline(timeout: Option<Duration>) -> Option<Deadline> {
    timeout.map(|timeout| Deadline::after_ns(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX / 2)))
}

impl OwnerWords {
    pub(super) fn create(pollable: bool) -> Result<Self> {
        let trigger = Region::create(&RegionOptions::new("tieline-interrupt", PAGE_BYTES))?;
        let waiter = Region::create(&RegionOptions::new("tieline-interrupt-waiter", PAGE_BYTES))?;
        waiter.seal_for_readers()?;
        // A forked child that waited on its parent's interrupt would steal its triggers.
        trigger.dont_fork()?;
        waiter.dont_fork()?;
        let eventfd = if pollable { Some(new_eventfd()?) } else { None };
        Ok(Self { trigger, waiter, eventfd })
    }

    pub(super) fn offer<'a>(&'a self, options: &InterruptOptions, kind: InterruptKind) -> InterruptOffer<'a> {
        InterruptOffer {
            number: options.number,
            kind,
            access: options.access.clone(),
            trigger: self.trigger.fd(),
            waiter: self.waiter.fd(),
            event: self.eventfd.as_ref().map(AsFd::as_fd),
        }
    }

    pub(super) fn bell(&self) -> Result<Waiter<'_>> {
        let signal = self.trigger.window().atomic_u32(SIGNAL_AT)?;
        let armed = self.waiter.window().atomic_u32(ARMED_AT)?;
        Ok(Waiter::new(signal, armed))
    }

    /// Rings one's own bell, to wake a waiting library thread.
    pub(super) fn ring_self(&self) -> Result<()> {
        let signal = self.trigger.window().atomic_u32(SIGNAL_AT)?;
        let armed = self.waiter.window().atomic_u32(ARMED_AT)?;
        ring(&Ringer::new(signal, armed), self.eventfd.as_ref())
    }
}

impl RemoteWords {
    pub(super) fn open(trigger: OwnedFd, waiter: OwnedFd, eventfd: Option<OwnedFd>) -> Result<Self> {
        let trigger = Region::open(trigger, MapAccess::ReadWrite)?;
        let waiter = Region::open(waiter, MapAccess::ReadOnly)?;
        trigger.dont_fork()?;
        waiter.dont_fork()?;
        Ok(Self { trigger, waiter, eventfd })
    }

    pub(super) fn ring(&self) -> Result<()> {
        let signal = self.trigger.window().atomic_u32(SIGNAL_AT)?;
        let armed = self.waiter.window().atomic_u32(ARMED_AT)?;
        ring(&Ringer::new(signal, armed), self.eventfd.as_ref())
    }
}

fn ring(ringer: &Ringer<'_>, eventfd: Option<&OwnedFd>) -> Result<()> {
    match (ringer.ring(), eventfd) {
        (Rang::Eventfd, Some(eventfd)) => write_eventfd(eventfd),
        _ => Ok(()),
    }
}

pub(super) fn new_eventfd() -> Result<OwnedFd> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    eventfd(0, flags).map_err(system("making an eventfd for an interrupt"))
}

/// Whether an operation would not block. The non-blocking flag does not say so: it is shared with everybody who holds
/// the descriptor, and a peer may have taken it away.
fn is_ready(eventfd: &OwnedFd, what: PollFlags) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(eventfd, what)], Some(&now)).is_ok_and(|ready| ready == 1)
}

pub(super) fn write_eventfd(eventfd: &OwnedFd) -> Result<()> {
    // Not writable: the counter is full, so the descriptor is readable already.
    if !is_ready(eventfd, PollFlags::OUT) {
        return Ok(());
    }
    match rustix::io::write(eventfd, &1u64.to_ne_bytes()) {
        Ok(_) | Err(Errno::AGAIN) => Ok(()),
        Err(errno) => Err(system("ringing an eventfd")(errno)),
    }
}

pub(super) fn clear_eventfd(eventfd: &OwnedFd) -> Result<()> {
    if !is_ready(eventfd, PollFlags::IN) {
        return Ok(());
    }
    // NOWAIT: a peer could read between the look and this. The offset -1 stands for none.
    let mut count = [0; 8];
    match preadv2(eventfd, &mut [IoSliceMut::new(&mut count)], u64::MAX, ReadWriteFlags::NOWAIT) {
        Ok(_) | Err(Errno::AGAIN) => Ok(()),
        Err(errno) => Err(system("reading an eventfd")(errno)),
    }
}

/// Connects to an interrupt and checks that it is of the kind that is meant.
pub(super) fn connect_grant(
    node: &Node,
    peer: NodeId,
    number: InterruptNo,
    kind: InterruptKind,
    timeout: Duration,
) -> Result<InterruptGrant> {
    let grant = if timeout.is_zero() {
        node.client().connect_interrupt(peer, number)?
    } else {
        node.client().connect_interrupt_within(peer, number, timeout)?
    };
    if grant.kind == kind {
        return Ok(grant);
    }
    drop(node.client().disconnect(&grant.import));
    Err(Error::Invalid(format!(
        "interrupt {number} of node {peer} {}",
        match grant.kind {
            InterruptKind::Plain => "carries no messages: connect with `connect_interrupt`",
            InterruptKind::Data => "carries messages: connect with `connect_data_interrupt`",
        }
    )))
}

/// Before anything of an interrupt is touched: its memory is not there in a forked child.
#[inline]
pub(super) fn check_origin(origin: Origin, number: InterruptNo) -> Result<()> {
    if origin == Origin::here() { Ok(()) } else { Err(forked(format_args!("interrupt {number}"))) }
}

/// The lock of an interrupt, for one thread at a time.
pub(super) fn try_lock<T>(mutex: &Mutex<T>, number: InterruptNo) -> Result<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Ok(guard),
        Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => {
            Err(Error::Busy { what: format!("interrupt {number} (another thread is waiting for it)") })
        }
    }
}

#[cold]
pub(super) fn gone(node: NodeId, number: InterruptNo, reason: LossReason) -> Error {
    Error::Lost { what: format!("interrupt {number}"), node, reason }
}
