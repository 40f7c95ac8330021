//! What libfabric itself does between the two processes of a benchmark on two hosts: bare loops of its calls.
//!
//! Between hosts they are the reference that a cache line and memcpy are within a host. Each end opens its
//! own in the thread that measures or serves; the cards that the two have to know travel in the mailboxes.

use std::time::Duration;

use fabric_sys::bare::Bare;
use ofi::Wanted;
use shm::window::Window;
use tieline::{Node, RemoteSegment};

use super::rendezvous::{Client, Mailbox, Order, Service};
use crate::error::{BenchError, Result};

/// Memory of a loop that the other end writes; longer blocks are written in pieces.
const MEMORY_BYTES: usize = 1 << 20;
/// A loop in which nothing happens for so long is given up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(2);
/// Orders of all tools: the server opens its end, or answers messages of a loop.
const TASK_MEET: u64 = 1 << 32;
const TASK_ANSWER: u64 = TASK_MEET + 1;
/// More than any reading needs; an order beyond it is a mistake or an attack.
const ROUNDS_MAX: u64 = 1 << 24;

/// An end that was opened.
#[allow(missing_debug_implementations, reason = "objects of a C library have nothing to show")]
pub struct Opened {
    /// The provider.
    pub provider: String,
    /// What the other end has to know.
    pub card: String,
    /// The end.
    pub end: Bare,
}

/// Opens one with the provider that the link uses, at the first rail, with so much memory; nothing where the
/// bare loops are not made for that provider.
pub fn open(node: &Node, memory_bytes: usize) -> Option<Opened> {
    let source = node.info().rails.first().copied();
    let offers =
        |source| ofi::offers(&Wanted { provider: None, source, is_exact: false }).ok()?.into_iter().next();
    // Networks that have no addresses of the internet.
    let (offer, source) = match offers(source) {
        Some(offer) => (offer, source),
        None => (offers(None)?, None),
    };
    let source = source.map(|source| source.to_string());
    let key = ofi::random_u64().ok()?;
    let end = Bare::open(&offer.provider, source.as_deref(), memory_bytes, key, GIVE_UP_AFTER).ok()?;
    let card = end.card().ok()?;
    Some(Opened { provider: offer.provider, card, end })
}

/// The client's end of the loops.
pub struct Provider {
    name: String,
    /// Until a loop fails: then the two ends have counted differently.
    bare: Option<Bare>,
}

impl std::fmt::Debug for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Provider").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Provider {
    /// Opens both ends; without loops where one of them cannot.
    pub fn meet(client: &mut Client) -> Result<Self> {
        let Some(opened) = open(&client.node, MEMORY_BYTES) else {
            return Ok(Self { name: String::new(), bare: None });
        };
        client.mailbox()?.leave(&opened.card)?;
        let can = client.order(Order::new(TASK_MEET, [0; 3]), &mut || Ok(()))? == 1;
        let card = client.mailbox()?.left()?;
        let mut bare = opened.end;
        let is_met = can && bare.meet(&card).is_ok();
        Ok(Self { name: opened.provider, bare: is_met.then_some(bare) })
    }

    /// The same for a tool that measures nothing without a reference.
    pub fn needed(client: &mut Client) -> Result<Self> {
        let provider = Self::meet(client)?;
        if provider.bare.is_none() {
            let reason = "libfabric's own writes, which the link is compared with, cannot be made between these two \
                          hosts: measure the link with `tieline bench hosts`";
            return Err(BenchError::Absent { what: client.tool().name(), reason: reason.to_owned() });
        }
        Ok(provider)
    }

    /// What is compared, in reports.
    pub fn writes_name(&self) -> String {
        format!("libfabric's own writes ({})", self.name)
    }

    /// The messages that are compared with, in reports, if there are loops.
    pub fn messages_name(&self) -> Option<String> {
        self.bare.is_some().then(|| format!("libfabric's own messages of 8 bytes ({})", self.name))
    }

    /// Half the round trip of messages of 8 bytes, in ns, if there are loops.
    pub fn half_rtt_ns(&mut self, client: &mut Client, rounds: u64) -> Result<Option<f64>> {
        self.answered(client, rounds, |bare| bare.echo(rounds).ok())
    }

    /// Each round trip of so many of these messages, in ns, if there are loops.
    pub fn each_rtt_ns(&mut self, client: &mut Client, rounds: u64) -> Result<Option<Vec<f64>>> {
        self.answered(client, rounds, |bare| bare.echo_each(rounds).ok())
    }

    /// Sends messages that the server answers.
    fn answered<R>(
        &mut self,
        client: &mut Client,
        rounds: u64,
        send: impl Fn(&mut Bare) -> Option<R>,
    ) -> Result<Option<R>> {
        let Some(mut bare) = self.bare.take() else { return Ok(None) };
        let mut measured = None;
        let outcome = client.order(Order::new(TASK_ANSWER, [rounds, 0, 0]), &mut || {
            measured = send(&mut bare);
            Ok(())
        });
        match outcome {
            Ok(answered) if answered == 1 && measured.is_some() => self.bare = Some(bare),
            // The loops have failed, and the link itself has not.
            Ok(_) => measured = None,
            Err(error) => return Err(error),
        }
        Ok(measured)
    }

    /// Time of a write of so many bytes in a stream of so many writes, in ns.
    pub fn write_ns(&mut self, what: &'static str, size_bytes: usize, count: u64) -> Result<f64> {
        let failed =
            || BenchError::OtherEnd { what, reason: "libfabric's own writes to it have failed".to_owned() };
        let bare = self.bare.as_mut().ok_or_else(failed)?;
        let pieces = size_bytes.div_ceil(MEMORY_BYTES).max(1);
        let written = bare.stream(size_bytes / pieces, count * pieces as u64);
        if written.is_err() {
            self.bare = None;
        }
        Ok(written.map_err(|_| failed())? * pieces as f64)
    }
}

/// The service of a tool for a client on another host, and the server's end of the loops.
pub(super) struct WithLoops<'a> {
    service: &'a mut dyn Service,
    node: &'a Node,
    mailbox: Mailbox<'a>,
    mine: Window<'a>,
    theirs: &'a RemoteSegment,
    bare: Option<Bare>,
}

impl<'a> WithLoops<'a> {
    pub(super) fn new(
        service: &'a mut dyn Service,
        node: &'a Node,
        mailbox: Mailbox<'a>,
        mine: Window<'a>,
        theirs: &'a RemoteSegment,
    ) -> Self {
        Self { service, node, mailbox, mine, theirs, bare: None }
    }

    /// 1 if there are loops from now on.
    fn meet(&mut self) -> Result<u64> {
        let card = self.mailbox.left()?;
        let Some(mut opened) = open(self.node, MEMORY_BYTES) else { return Ok(0) };
        if opened.end.meet(&card).is_err() {
            return Ok(0);
        }
        self.mailbox.leave(&opened.card)?;
        self.bare = Some(opened.end);
        Ok(1)
    }
}

impl Service for WithLoops<'_> {
    fn follow(&mut self, order: &Order) -> Result<u64> {
        let [rounds, ..] = order.arguments;
        match order.task {
            // Objects of a loop live as long as the process does.
            TASK_MEET if self.bare.is_none() => self.meet(),
            TASK_ANSWER if rounds <= ROUNDS_MAX => {
                self.bare = self.bare.take().and_then(|mut bare| bare.answer(rounds).ok().map(|()| bare));
                Ok(u64::from(self.bare.is_some()))
            }
            TASK_MEET | TASK_ANSWER => Err(BenchError::Usage("no such order".to_owned())),
            _ => self.service.follow_between_hosts(order, self.mine, self.theirs),
        }
    }
}
