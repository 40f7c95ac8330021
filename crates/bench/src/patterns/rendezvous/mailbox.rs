//! The mailbox of two benchmark processes in shared memory: presence, orders, replies.

use std::time::{Duration, Instant};

use shm::{sync::Ordering, window::Window};

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
/// Bytes for the version of the program.
const VERSION_BYTES: usize = 32;

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
}

/// The words in a segment of at least [`MAILBOX_BYTES`].
#[derive(Debug, Clone, Copy)]
pub struct Mailbox<'a> {
    window: Window<'a>,
    tool: Tool,
}

impl<'a> Mailbox<'a> {
    /// The mailbox at the start of `segment`.
    pub fn new(segment: Window<'a>, tool: Tool) -> Result<Self> {
        Ok(Self { window: segment.sub(0, MAILBOX_BYTES)?, tool })
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

    /// The server of this mailbox.
    pub fn head(&self) -> Result<Head> {
        // Acquire: pairs with the Release in `sign`.
        if self.window.atomic_u64(at::MAGIC)?.load(Ordering::Acquire) != MAGIC {
            return Err(BenchError::Usage(format!(
                "{}: the other end's segment is not that of a benchmark of this version: use the same version at \
                 both ends",
                self.tool.name()
            )));
        }
        let mut version = [0; VERSION_BYTES];
        self.window.get(at::VERSION, &mut version)?;
        let text: String =
            version.iter().take_while(|byte| byte.is_ascii_graphic()).map(|b| char::from(*b)).collect();
        Ok(Head {
            form: self.window.load_u64(at::FORM)?,
            tool: self.window.load_u64(at::TOOL)?,
            version: text,
            extra: self.window.load_u64(at::EXTRA)?,
        })
    }

    /// Number of the last order.
    pub fn last(&self) -> Result<u64> {
        // Acquire: pairs with the Release in `send`.
        Ok(self.window.atomic_u64(at::NUMBER)?.load(Ordering::Acquire))
    }

    /// Gives the order of this number (the last one's plus 1).
    pub fn send(&self, number: u64, order: &Order) -> Result<()> {
        self.window.store_u64(at::TASK, order.task)?;
        for (offset, argument) in at::ARGUMENTS.into_iter().zip(order.arguments) {
            self.window.store_u64(offset, argument)?;
        }
        // Release: pairs with the Acquire in `last`.
        self.window.atomic_u64(at::NUMBER)?.store(number, Ordering::Release);
        Ok(())
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
        // Acquire: pairs with the Release in `serve`.
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
            self.window.store_u64(at::VALUE, *result.as_ref().unwrap_or(&0))?;
            let word = number << 8 | Code::of(&result) as u64;
            // Release: pairs with the Acquire in `answer`.
            self.window.atomic_u64(at::ANSWER)?.store(word, Ordering::Release);
            if stop {
                return Ok(());
            }
        }
    }
}

pub(super) fn other_end(what: &'static str, reason: &str) -> BenchError {
    BenchError::OtherEnd { what, reason: reason.to_owned() }
}
