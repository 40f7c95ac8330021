//! The mailbox of two benchmark processes: presence, orders, replies.
//!
//! Within a host both ends use the words of one segment, the server's. Between hosts, where nothing can be
//! mapped, each end has a mailbox of its own: it reads the words there, and puts its own words into that of
//! the other end. Puts of one thread become visible in their order, so the last word announces the others.

use std::time::{Duration, Instant};

use shm::{sync::Ordering, window::Window};
use tieline::RemoteSegment;

use super::Tool;
use crate::{
    error::{BenchError, Result},
    poll::{ANSWER_TIMEOUT, no_answer},
};

/// Bytes of the segment of a rendezvous.
pub const MAILBOX_BYTES: usize = 4096;
/// "tieline", and the form of the head itself.
const MAGIC: u64 = u64::from_le_bytes(*b"tieline\x01");
/// Version of the orders. It changes when an older program would misread an order.
pub const FORM: u64 = 1;
/// Bytes of a head, with the version of the program.
const HEAD_BYTES: usize = 128;
/// Bytes for the version of the program.
const VERSION_BYTES: usize = 32;
/// Longest text for the other end.
const TEXT_BYTES_MAX: usize = 1024;

mod at {
    pub(super) const MAGIC: usize = 0;
    pub(super) const FORM: usize = 8;
    pub(super) const TOOL: usize = 16;
    pub(super) const EXTRA: usize = 24;
    pub(super) const VERSION: usize = 64;
    // Written by the client, on a line of its own.
    pub(super) const NUMBER: usize = 128;
    pub(super) const TASK: usize = 136;
    pub(super) const ARGUMENTS: [usize; 3] = [144, 152, 160];
    // Written by the server.
    pub(super) const ANSWER: usize = 256;
    pub(super) const VALUE: usize = 264;
    // Written by either end for the other one, between hosts.
    pub(super) const TEXT_BYTES: usize = 512;
    pub(super) const TEXT: usize = 520;
}

/// The owner of a mailbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The version of its orders.
    pub form: u64,
    /// Its tool.
    pub tool: u64,
    /// The version of its program, as it reports it.
    pub version: String,
    /// A number that the tool needs before the first order.
    pub extra: u64,
}

impl Head {
    /// The head of this program.
    pub fn of(tool: Tool, extra: u64) -> Self {
        Self { form: FORM, tool: tool as u64, version: env!("CARGO_PKG_VERSION").to_owned(), extra }
    }

    /// Whether orders between this program's `tool` and the other end would be understood.
    pub fn check(&self, tool: Tool) -> Result<()> {
        if self.form != FORM {
            return Err(BenchError::Usage(format!(
                "{}: the other end is tieline {} with version {} of the benchmark's protocol, this end is \
                 tieline {} with version {FORM}: use the same version at both ends",
                tool.name(),
                self.version,
                self.form,
                env!("CARGO_PKG_VERSION"),
            )));
        }
        if self.tool != tool as u64 {
            let other = Tool::of(self.tool).map_or("something unknown", Tool::name);
            let text =
                format!("{}: the other end runs {other}: start the same tool at both ends", tool.name());
            return Err(BenchError::Usage(text));
        }
        Ok(())
    }
}

/// One order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// What, from 1; [`Order::STOP`] ends the service.
    pub task: u64,
    /// Its arguments.
    pub arguments: [u64; 3],
}

impl Order {
    /// The order to stop.
    pub const STOP: u64 = u64::MAX;

    /// An order.
    pub const fn new(task: u64, arguments: [u64; 3]) -> Self {
        Self { task, arguments }
    }
}

/// The result of an order; the low byte of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// It was carried out.
    Done = 0,
    /// The client did not do its part in time.
    NoAnswer = 1,
    /// Bytes arrived that were not sent.
    WrongData = 2,
    /// The order is not valid.
    Refused = 3,
    /// There is not as much memory.
    Memory = 4,
}

impl Code {
    fn of(result: &Result<u64>) -> Self {
        match result {
            Ok(_) => Self::Done,
            Err(BenchError::WrongData { .. }) => Self::WrongData,
            Err(BenchError::NoAnswer { .. }) => Self::NoAnswer,
            Err(BenchError::Memory(_) | BenchError::Api(_)) => Self::Memory,
            Err(_) => Self::Refused,
        }
    }
}

/// The side that follows orders.
pub trait Service {
    /// Carries out one order; returns a number.
    fn follow(&mut self, order: &Order) -> Result<u64>;

    /// The same for a client on another host; the segments of the rendezvous are the own one and the
    /// client's.
    fn follow_between_hosts(
        &mut self,
        order: &Order,
        _mine: Window<'_>,
        _theirs: &RemoteSegment,
    ) -> Result<u64> {
        self.follow(order)
    }
}

/// Where an end writes the words that the other one reads.
#[derive(Debug, Clone, Copy)]
enum Writes<'a> {
    /// Into the memory in which it reads, too.
    Stores(Window<'a>),
    /// Into memory of another host.
    Puts(&'a RemoteSegment),
}

impl Writes<'_> {
    fn word(&self, offset: usize, value: u64) -> Result<()> {
        match self {
            Self::Stores(window) => Ok(window.store_u64(offset, value)?),
            Self::Puts(remote) => Ok(remote.put(offset, &value.to_ne_bytes())?),
        }
    }

    /// Writes a word that announces the ones before it.
    fn announce(&self, offset: usize, value: u64) -> Result<()> {
        match self {
            // Release: pairs with the Acquire in `last` and `answered`.
            Self::Stores(window) => {
                window.atomic_u64(offset)?.store(value, Ordering::Release);
                Ok(())
            }
            Self::Puts(_) => self.word(offset, value),
        }
    }
}

impl Writes<'_> {
    /// Waits until the other end has what was written.
    fn arrive(&self) -> Result<()> {
        match self {
            Self::Stores(_) => Ok(()),
            Self::Puts(remote) => Ok(remote.barrier()?),
        }
    }
}

/// The words in a segment of at least [`MAILBOX_BYTES`].
#[derive(Debug, Clone, Copy)]
pub struct Mailbox<'a> {
    window: Window<'a>,
    writes: Writes<'a>,
    tool: Tool,
}

impl<'a> Mailbox<'a> {
    /// The mailbox at the start of `segment`.
    pub fn new(segment: Window<'a>, tool: Tool) -> Result<Self> {
        let window = segment.sub(0, MAILBOX_BYTES)?;
        Ok(Self { window, writes: Writes::Stores(window), tool })
    }

    /// The mailboxes of two ends on different hosts: the own one at the start of `mine`, the other end's at
    /// the start of `theirs`.
    pub fn between_hosts(mine: Window<'a>, theirs: &'a RemoteSegment, tool: Tool) -> Result<Self> {
        Ok(Self { window: mine.sub(0, MAILBOX_BYTES)?, writes: Writes::Puts(theirs), tool })
    }

    /// Writes which server this mailbox belongs to. Before the segment is made available.
    pub fn sign(&self, head: &Head) -> Result<()> {
        let mut version = [0; VERSION_BYTES];
        version.iter_mut().zip(head.version.bytes()).for_each(|(to, from)| *to = from);
        self.window.put(at::VERSION, &version)?;
        self.window.store_u64(at::FORM, head.form)?;
        self.window.store_u64(at::TOOL, head.tool)?;
        self.window.store_u64(at::EXTRA, head.extra)?;
        // Release: pairs with the Acquire in `head`.
        self.window.atomic_u64(at::MAGIC)?.store(MAGIC, Ordering::Release);
        Ok(())
    }

    /// The end that has signed: between hosts, the other one.
    pub fn head(&self) -> Result<Head> {
        let mut bytes = [0; HEAD_BYTES];
        match self.writes {
            Writes::Stores(window) => {
                // Acquire: pairs with the Release in `sign`.
                let _ = window.atomic_u64(at::MAGIC)?.load(Ordering::Acquire);
                window.get(0, &mut bytes)?;
            }
            // It was signed before anybody could connect.
            Writes::Puts(theirs) => theirs.get(0, &mut bytes)?,
        }
        let word = |offset: usize| {
            bytes.get(offset..).and_then(<[u8]>::first_chunk).map_or(0, |word| u64::from_ne_bytes(*word))
        };
        if word(at::MAGIC) != MAGIC {
            return Err(BenchError::Usage(format!(
                "{}: the other end's segment is not that of a benchmark of this version: use the same version at \
                 both ends",
                self.tool.name()
            )));
        }
        let version = bytes.iter().skip(at::VERSION).take(VERSION_BYTES);
        let version = version.take_while(|byte| byte.is_ascii_graphic()).map(|b| char::from(*b)).collect();
        Ok(Head { form: word(at::FORM), tool: word(at::TOOL), version, extra: word(at::EXTRA) })
    }

    /// Leaves a text for the other end, before an order or its reply.
    pub fn leave(&self, text: &str) -> Result<()> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(other_end(self.tool.name(), "a text for it is too long"));
        }
        match self.writes {
            Writes::Stores(window) => window.put(at::TEXT, text.as_bytes())?,
            Writes::Puts(theirs) => theirs.put(at::TEXT, text.as_bytes())?,
        }
        self.writes.word(at::TEXT_BYTES, text.len() as u64)
    }

    /// The text that the other end has left.
    pub fn left(&self) -> Result<String> {
        let len = usize::try_from(self.window.load_u64(at::TEXT_BYTES)?).unwrap_or(usize::MAX);
        let mut bytes = vec![0; len.min(TEXT_BYTES_MAX)];
        self.window.get(at::TEXT, &mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Number of the last order.
    pub fn last(&self) -> Result<u64> {
        // Acquire: pairs with the Release in `announce`.
        Ok(self.window.atomic_u64(at::NUMBER)?.load(Ordering::Acquire))
    }

    /// Gives the order of this number (the last one's plus 1).
    pub fn send(&self, number: u64, order: &Order) -> Result<()> {
        self.writes.word(at::TASK, order.task)?;
        for (offset, argument) in at::ARGUMENTS.into_iter().zip(order.arguments) {
            self.writes.word(offset, argument)?;
        }
        self.writes.announce(at::NUMBER, number)
    }

    /// Waits for the reply to the order of this number. `still_there` is called now and then with
    /// the time waited so far, and its error ends the wait.
    pub fn answer(&self, number: u64, still_there: &dyn Fn(Duration) -> Result<()>) -> Result<u64> {
        let (what, since) = (self.tool.name(), Instant::now());
        loop {
            if let Some(value) = self.answered(number)? {
                return value;
            }
            let waited = since.elapsed();
            if let Err(gone) = still_there(waited) {
                // It may have replied since, and ended.
                return self.answered(number)?.unwrap_or(Err(gone));
            }
            if waited > ANSWER_TIMEOUT {
                return Err(no_answer(what));
            }
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    /// The reply to the order of this number, if it has arrived.
    fn answered(&self, number: u64) -> Result<Option<Result<u64>>> {
        let what = self.tool.name();
        // Acquire: pairs with the Release in `announce`.
        let word = self.window.atomic_u64(at::ANSWER)?.load(Ordering::Acquire);
        if word >> 8 != number & (u64::MAX >> 8) {
            return Ok(None);
        }
        Ok(Some(match word & 0xff {
            0 => self.window.load_u64(at::VALUE).map_err(Into::into),
            1 => Err(no_answer(what)),
            2 => Err(BenchError::WrongDataThere { what }),
            4 => Err(other_end(what, "it has not as much memory: measure smaller sizes")),
            _ => Err(other_end(what, "it refused the order: is it the same version?")),
        }))
    }

    /// Carries out orders of this mailbox until the one to stop. `still_there` is called between
    /// orders, and its error ends the service.
    pub fn serve(&self, service: &mut dyn Service, still_there: &dyn Fn() -> Result<()>) -> Result<()> {
        let mut done = 0;
        let mut idle = 0u32;
        loop {
            let number = self.last()?;
            if number == done {
                still_there()?;
                // The next order usually follows soon; after a while the wait must not disturb the
                // measurement.
                idle = idle.saturating_add(1);
                std::thread::sleep(Duration::from_micros(if idle < 100 { 20 } else { 500 }));
                continue;
            }
            (done, idle) = (number, 0);
            let order = Order::new(
                self.window.load_u64(at::TASK)?,
                [
                    self.window.load_u64(at::ARGUMENTS[0])?,
                    self.window.load_u64(at::ARGUMENTS[1])?,
                    self.window.load_u64(at::ARGUMENTS[2])?,
                ],
            );
            let stop = order.task == Order::STOP;
            let result = if stop { Ok(0) } else { service.follow(&order) };
            self.writes.word(at::VALUE, *result.as_ref().unwrap_or(&0))?;
            self.writes.announce(at::ANSWER, number << 8 | Code::of(&result) as u64)?;
            if stop {
                // What is on its way ends with this end's connection. A client that has the reply may be
                // gone before it confirms that, which is no failure of the service.
                let _ = self.writes.arrive();
                return Ok(());
            }
        }
    }
}

pub(super) fn other_end(what: &'static str, reason: &str) -> BenchError {
    BenchError::OtherEnd { what, reason: reason.to_owned() }
}
