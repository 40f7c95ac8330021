//! The memory of an interrupt: a region that triggers write and a region that only the waiter writes.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use node_client::{FoundInterrupt, InterruptGrant, InterruptOffer};
use proto::ids::{InterruptNo, NodeId};
use proto::wire::program::{Imported, InterruptKind, LossReason};
use shm::clock::Deadline;
use shm::doorbell::{Rang, Ringer, Waiter};
use shm::origin::Origin;
use shm::region::{MapAccess, Region, RegionOptions};

use super::latch::{Latch, LatchRinger};
use crate::error::{Error, Result};
use crate::network::{Connected, Doorbell, no_data_link};
use crate::node::Node;
use crate::options::InterruptOptions;
use crate::remote::forked;

/// Where the doorbell's words lie in their regions.
const SIGNAL_AT: usize = 0;
const ARMED_AT: usize = 0;
/// Each region is as small as a region can be.
const PAGE_BYTES: usize = 4096;

/// The owner's side.
#[derive(Debug)]
pub(crate) struct OwnerWords {
    trigger: Region,
    waiter: Region,
    pub(super) latch: Option<Latch>,
}

/// The side that triggers.
#[derive(Debug)]
pub(super) struct RemoteWords {
    trigger: Region,
    waiter: Region,
    latch: Option<LatchRinger>,
}

pub(super) fn deadline(timeout: Option<Duration>) -> Option<Deadline> {
    timeout.map(|timeout| Deadline::after_ns(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX / 2)))
}

impl OwnerWords {
    pub(super) fn create() -> Result<Self> {
        let trigger = Region::create(&RegionOptions::new("tieline-interrupt", PAGE_BYTES))?;
        let waiter = Region::create(&RegionOptions {
            read_only_for_others: true,
            ..RegionOptions::new("tieline-interrupt-waiter", PAGE_BYTES)
        })?;
        // A forked child that waited on its parent's interrupt would steal its triggers.
        trigger.dont_fork()?;
        waiter.dont_fork()?;
        Ok(Self { trigger, waiter, latch: None })
    }

    /// Registers an interrupt of this memory with the node's manager.
    pub(super) fn register(&mut self, node: &Node, options: &InterruptOptions) -> Result<InterruptNo> {
        let created = node.client().create_interrupt(&self.offer(options))?;
        self.latch = created.sockets.map(Latch::new);
        Ok(created.number)
    }

    fn offer<'a>(&'a self, options: &InterruptOptions) -> InterruptOffer<'a> {
        InterruptOffer {
            number: options.number,
            kind: InterruptKind::Plain,
            access: options.access.clone(),
            trigger: self.trigger.fd(),
            waiter: self.waiter.fd(),
            pollable: options.pollable,
        }
    }

    pub(super) fn bell(&self) -> Result<Waiter<'_>> {
        let signal = self.trigger.window().atomic_u32(SIGNAL_AT)?;
        let armed = self.waiter.window().atomic_u32(ARMED_AT)?;
        Ok(Waiter::new(signal, armed))
    }

    /// Rings one's own doorbell: to wake a waiting library thread, or for a program on another host.
    pub(crate) fn ring_self(&self) -> Result<()> {
        self.ring_self_times(1)
    }

    /// The same for so many triggers.
    pub(crate) fn ring_self_times(&self, times: u32) -> Result<()> {
        let signal = self.trigger.window().atomic_u32(SIGNAL_AT)?;
        let armed = self.waiter.window().atomic_u32(ARMED_AT)?;
        match (Ringer::new(signal, armed).ring_times(times), &self.latch) {
            (Rang::Eventfd, Some(latch)) => latch.ring(),
            _ => Ok(()),
        }
    }
}

impl RemoteWords {
    pub(super) fn open(trigger: OwnedFd, waiter: OwnedFd, event: Option<OwnedFd>) -> Result<Self> {
        let latch = event.map(LatchRinger::new).transpose()?;
        let trigger = Region::open(trigger, MapAccess::ReadWrite)?;
        let waiter = Region::open(waiter, MapAccess::ReadOnly)?;
        trigger.dont_fork()?;
        waiter.dont_fork()?;
        Ok(Self { trigger, waiter, latch })
    }

    pub(super) fn ring(&self) -> Result<()> {
        let signal = self.trigger.window().atomic_u32(SIGNAL_AT)?;
        let armed = self.waiter.window().atomic_u32(ARMED_AT)?;
        match (Ringer::new(signal, armed).ring(), &self.latch) {
            (Rang::Eventfd, Some(latch)) => latch.ring(),
            _ => Ok(()),
        }
    }
}

/// What leads to an interrupt.
pub(super) enum Way {
    Here(InterruptGrant),
    /// Nothing is connected yet.
    OnOtherHost {
        addresses: Vec<IpAddr>,
    },
}

/// Connects to an interrupt of this host and checks that it is of the kind that is meant.
pub(super) fn connect_grant(
    node: &Node,
    peer: NodeId,
    number: InterruptNo,
    kind: InterruptKind,
    timeout: Duration,
) -> Result<Way> {
    let grant = match node.client().find_interrupt(peer, number, timeout)? {
        FoundInterrupt::Here(grant) => grant,
        FoundInterrupt::OnOtherHost { addresses } => return Ok(Way::OnOtherHost { addresses }),
    };
    if grant.kind == kind {
        return Ok(Way::Here(grant));
    }
    drop(node.client().disconnect(&grant.import));
    Err(is_of_kind(peer, number, grant.kind))
}

/// It is not of the kind that was meant.
pub(super) fn is_of_kind(peer: NodeId, number: InterruptNo, kind: InterruptKind) -> Error {
    Error::Invalid(format!(
        "interrupt {number} of node {peer} {}",
        match kind {
            InterruptKind::Plain => "carries no messages: connect with `connect_interrupt`",
            InterruptKind::Data => "carries messages: connect with `connect_data_interrupt`",
        }
    ))
}

/// Connects to an interrupt on another host and checks that it is of the kind that is meant.
pub(super) fn connect_elsewhere(
    node: &Node,
    peer: NodeId,
    number: InterruptNo,
    kind: InterruptKind,
    addresses: &[IpAddr],
    limit: Duration,
) -> Result<(Connected, Doorbell)> {
    let what = Imported::Interrupt(number);
    let connected = node.network().connect(node, peer, what, addresses, limit)?;
    let doorbell = connected.doorbell().map_err(|error| no_data_link(what, peer, &error)).and_then(|bell| {
        let found = if bell.message_bytes.is_some() { InterruptKind::Data } else { InterruptKind::Plain };
        if found == kind { Ok(bell) } else { Err(is_of_kind(peer, number, found)) }
    });
    match doorbell {
        Ok(doorbell) => Ok((connected, doorbell)),
        Err(error) => {
            drop(node.client().disconnect(&connected.import));
            node.network().forget(&connected.import);
            Err(error)
        }
    }
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
