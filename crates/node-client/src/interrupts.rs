//! Interrupts: what owners and connected programs receive from the manager.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use proto::ids::{InterruptNo, NodeId};
use proto::wire::program::{Access, Incarnation, InterruptKind, Reply, Request};

use crate::client::{Client, draw};
use crate::connection::Answer;
use crate::error::{ClientError, Result};
use crate::import::Import;

/// An interrupt that was connected.
#[derive(Debug)]
pub struct InterruptGrant {
    /// Its life.
    pub import: Import,
    /// Counter or messages.
    pub kind: InterruptKind,
    /// Number of this producer in the ring of a data interrupt.
    pub producer: u16,
    /// Region that triggers write to.
    pub trigger: OwnedFd,
    /// Region that the waiter writes, read-only here.
    pub waiter: OwnedFd,
    /// The sending socket of a pollable interrupt, for this connection alone.
    pub event: Option<OwnedFd>,
}

/// An interrupt to be created.
#[derive(Debug)]
pub struct InterruptOffer<'a> {
    /// A wish, or `None` for any free number.
    pub number: Option<InterruptNo>,
    /// Counter or messages.
    pub kind: InterruptKind,
    /// Who may connect.
    pub access: Access,
    /// Region that triggers write to.
    pub trigger: BorrowedFd<'a>,
    /// Region that the waiter writes; sealed for readers.
    pub waiter: BorrowedFd<'a>,
    /// With a descriptor that can be polled.
    pub pollable: bool,
}

/// An interrupt that was created.
#[derive(Debug)]
pub struct InterruptCreated {
    /// As wished, or drawn.
    pub number: InterruptNo,
    /// The random number that distinguishes it from others of this number.
    pub incarnation: Incarnation,
    /// Of a pollable one.
    pub sockets: Option<InterruptSockets>,
}

/// The sockets that the owner of a pollable interrupt has.
#[derive(Debug)]
pub struct InterruptSockets {
    /// A datagram comes for each ring.
    pub receiver: OwnedFd,
    /// To ring oneself.
    pub sender: OwnedFd,
}

impl Client {
    /// Deposits an interrupt.
    pub fn create_interrupt(&self, offer: &InterruptOffer<'_>) -> Result<InterruptCreated> {
        let incarnation = draw()?;
        let request = Request::CreateInterrupt {
            number: offer.number,
            kind: offer.kind,
            access: offer.access.clone(),
            incarnation,
            pollable: offer.pollable,
            again: false,
        };
        let answer = self.ask(request, &[offer.trigger, offer.waiter])?;
        let Reply::InterruptCreated { number } = answer.reply else {
            return Err(self.unexpected(&answer.reply));
        };
        let mut descriptors = answer.descriptors.into_iter();
        let sockets = match (offer.pollable, descriptors.next(), descriptors.next()) {
            (false, ..) => None,
            (true, Some(sender), Some(receiver)) => Some(InterruptSockets { receiver, sender }),
            _ => {
                drop(self.remove_interrupt(number));
                let what = "a pollable interrupt without its sockets".into();
                return Err(ClientError::Protocol { node: self.node(), what });
            }
        };
        Ok(InterruptCreated { number, incarnation, sockets })
    }

    /// Forgets an interrupt.
    pub fn remove_interrupt(&self, number: InterruptNo) -> Result<()> {
        self.give_up(Request::RemoveInterrupt { number })
    }

    /// Connects to an interrupt of any node.
    pub fn connect_interrupt(&self, node: NodeId, number: InterruptNo) -> Result<InterruptGrant> {
        let answer = self.ask(Request::ConnectInterrupt { node, number }, &[])?;
        self.interrupt_of(answer)
    }

    /// As [`Self::connect_interrupt`], with the patience of [`Self::connect_segment_within`].
    pub fn connect_interrupt_within(
        &self,
        node: NodeId,
        number: InterruptNo,
        limit: Duration,
    ) -> Result<InterruptGrant> {
        let answer = self.ask_until(Request::ConnectInterrupt { node, number }, limit)?;
        self.interrupt_of(answer)
    }

    pub(crate) fn interrupt_of(&self, answer: Answer) -> Result<InterruptGrant> {
        let (kind, producer, pollable) = match &answer.reply {
            Reply::Interrupt { kind, producer, pollable, .. } => (*kind, *producer, *pollable),
            other => return Err(self.unexpected(other)),
        };
        let mut descriptors = answer.descriptors.into_iter();
        let (trigger, waiter, event) = (descriptors.next(), descriptors.next(), descriptors.next());
        match (answer.import, trigger, waiter) {
            (Some(import), Some(trigger), Some(waiter)) if event.is_some() == pollable => {
                Ok(InterruptGrant { import, kind, producer, trigger, waiter, event })
            }
            _ => Err(ClientError::Protocol {
                node: self.node(),
                what: "an interrupt without its descriptors".into(),
            }),
        }
    }
}
