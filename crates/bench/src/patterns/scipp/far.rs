//! The far side of `scipp`: carries out orders, in a thread of this process or in another process.
//!
//! Orders to another process are words behind the messages in its segment. They come from a peer,
//! so each is checked before it is carried out; a wrong one is answered with a code and changes
//! nothing.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use shm::{
    sync::{AtomicU64, Ordering},
    window::Window,
};

use crate::{
    baseline::line::{self, Bouncer, Words},
    error::{BenchError, Result},
    patterns::{
        pio::{self, End, MESSAGE_BYTES_MAX, Messages, PLACES},
        server,
    },
    pinned_pair::PinnedPair,
    poll::{self, ANSWER_TIMEOUT, Poll, no_answer},
};

const WHAT: &str = "scipp";

/// The task of the far side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Bounce the bare words: the baseline.
    Line,
    /// Reply to each message with one of the same size.
    Echo,
    /// The same, checking every byte and answering with known ones.
    Checked,
}

/// One order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// The task.
    pub task: Task,
    /// The way of waiting.
    pub poll: Poll,
    /// The offset.
    pub place: usize,
    /// Size of messages.
    pub size_bytes: usize,
    /// The number after which message numbers continue.
    pub base: u64,
    /// The number of round trips.
    pub rounds: u64,
}

/// More than any reading needs; an order beyond it is a mistake or an attack.
pub(super) const ROUNDS_MAX: u64 = 1 << 32;

/// Follows one order at this end.
pub fn follow(end: &End<'_>, order: &Order) -> Result<()> {
    if order.task == Task::Line {
        let (back, there) = end.words(order.place)?;
        return line::bounce(Words { there, back }, order.poll, order.base, order.rounds);
    }
    reply(&end.port(order.place, order.size_bytes)?, order)
}

/// Replies to messages as an order says.
pub(super) fn reply(port: &impl Messages, order: &Order) -> Result<()> {
    // The reply is a message of its own, as on the near side. If the bytes that have just been
    // stored were sent back, the processor would wait for its own stores, which is not part of a
    // signal to another core.
    let (mut message, mut answer) = (vec![0; order.size_bytes], vec![0xa5; order.size_bytes]);
    let base = order.base as u32;
    for n in 1..=order.rounds as u32 {
        let (asked, answered) = (base.wrapping_add(2 * n - 1), base.wrapping_add(2 * n));
        port.receive(asked, &mut message, order.poll)?;
        if order.task == Task::Checked {
            pio::check(&message, asked)?;
            pio::fill(&mut answer, answered);
        }
        port.send(answered, &answer)?;
        black_box(&message);
    }
    Ok(())
}

/// The side that follows orders.
pub trait Far {
    /// Lets the far side carry out the order while `near` runs here.
    fn with(&mut self, order: Order, near: &mut dyn FnMut() -> Result<()>) -> Result<()>;
}

/// The far thread of this process.
#[derive(Debug)]
pub struct FarThread<'a, 'env> {
    /// The pair whose far thread replies.
    pub pair: &'a mut PinnedPair<'env>,
    /// The far end, as that side maps it.
    pub end: End<'env>,
}

impl Far for FarThread<'_, '_> {
    fn with(&mut self, order: Order, near: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let end = self.end;
        self.pair.both(WHAT, near, move || follow(&end, &order)).map(drop)
    }
}

/// Any far side bounces words at a place: the baseline is probed where the messages go.
pub struct AtPlace<'a> {
    /// The other side.
    pub far: &'a mut dyn Far,
    /// The offset.
    pub place: usize,
}

impl std::fmt::Debug for AtPlace<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AtPlace").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Bouncer for AtPlace<'_> {
    fn bounce(
        &mut self,
        poll: Poll,
        base: u64,
        events: u64,
        near: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        self.far.with(
            Order { task: Task::Line, poll, place: self.place, size_bytes: 0, base, rounds: events },
            near,
        )
    }
}

/// Offsets of the words of an order, from the end of the messages.
mod words {
    pub(super) const NUMBER: usize = 0;
    pub(super) const TASK: usize = 8;
    pub(super) const PLACE: usize = 16;
    pub(super) const SIZE: usize = 24;
    pub(super) const BASE: usize = 32;
    pub(super) const ROUNDS: usize = 40;
    pub(super) const PLACEMENT: usize = 48;
    pub(super) const POLL: usize = 56;
    /// On another line: written by the far side.
    pub(super) const ANSWER: usize = 128;
}

/// The offset of the order words in the far side's segment.
pub const CONTROL_OFFSET: usize = pio::SEGMENT_BYTES.next_multiple_of(128);
/// Bytes of a segment with order words.
pub const SEGMENT_BYTES: usize = CONTROL_OFFSET + 256;

/// A process that serves at the other end.
#[derive(Debug)]
pub struct FarProcess<'a> {
    control: Control<'a>,
    placement: pio::Placement,
    sent: u64,
    /// Whether the process was given up: it gets no further orders.
    given_up: bool,
}

#[derive(Debug, Clone, Copy)]
struct Control<'a> {
    window: Window<'a>,
    number: &'a AtomicU64,
    answer: &'a AtomicU64,
}

impl<'a> Control<'a> {
    fn new(segment: Window<'a>) -> Result<Self> {
        let window = segment.sub(CONTROL_OFFSET, 256)?;
        Ok(Self {
            window,
            number: window.atomic_u64(words::NUMBER)?,
            answer: window.atomic_u64(words::ANSWER)?,
        })
    }
}

/// The codes in the low byte of a reply.
mod answer {
    pub(super) const DONE: u64 = 0;
    pub(super) const NO_ANSWER: u64 = 1;
    pub(super) const WRONG_DATA: u64 = 2;
    pub(super) const REFUSED: u64 = 3;
}

/// The words of tasks. 0 is not a task, so that zeroed memory is not an order.
const TASKS: [(u64, Option<Task>); 4] =
    [(1, Some(Task::Line)), (2, Some(Task::Echo)), (3, Some(Task::Checked)), (4, None)];

pub(super) const fn poll_word(poll: Poll) -> u64 {
    match poll {
        Poll::Tight => 0,
        Poll::Paused => 1,
        Poll::Yielding => 2,
    }
}

fn task_word(task: Option<Task>) -> u64 {
    TASKS.iter().find(|(_, known)| *known == task).map_or(0, |(word, _)| *word)
}

impl<'a> FarProcess<'a> {
    /// The process that owns this segment.
    pub fn new(segment: Window<'a>, placement: pio::Placement) -> Result<Self> {
        let control = Control::new(segment)?;
        Ok(Self { control, placement, sent: control.number.load(Ordering::Relaxed), given_up: false })
    }

    fn order(&mut self, task: Option<Task>, order: &Order) -> Result<()> {
        let window = &self.control.window;
        let placement = u64::from(self.placement == pio::Placement::Own);
        let numbers = [
            (words::TASK, task_word(task)),
            (words::PLACE, order.place as u64),
            (words::SIZE, order.size_bytes as u64),
            (words::BASE, order.base),
            (words::ROUNDS, order.rounds),
            (words::PLACEMENT, placement),
            (words::POLL, poll_word(order.poll)),
        ];
        for (offset, number) in numbers {
            window.store_u64(offset, number)?;
        }
        self.sent = self.sent.wrapping_add(1);
        // Release: pairs with the Acquire in `Server::next`.
        self.control.number.store(self.sent, Ordering::Release);
        Ok(())
    }

    /// `before`: for how long it has been waited for the same process already.
    fn answer(&self, before: Duration) -> Result<()> {
        let since = Instant::now();
        loop {
            // Acquire: pairs with the Release of the server.
            let word = self.control.answer.load(Ordering::Acquire);
            if word >> 8 == self.sent & (u64::MAX >> 8) {
                return match word & 0xff {
                    answer::DONE => Ok(()),
                    answer::NO_ANSWER => Err(no_answer(WHAT)),
                    answer::WRONG_DATA => Err(other_end("a message had wrong bytes")),
                    _ => Err(other_end("it refused the order: is it the same version?")),
                };
            }
            let waited = before + since.elapsed();
            poll::still_there(waited)?;
            if waited > ANSWER_TIMEOUT {
                return Err(no_answer(WHAT));
            }
            std::thread::sleep(Duration::from_micros(20));
        }
    }

    /// Sends the process the order to end.
    pub fn stop(mut self) -> Result<()> {
        let nothing =
            Order { task: Task::Line, poll: Poll::Paused, place: 0, size_bytes: 0, base: 0, rounds: 0 };
        self.order(None, &nothing)?;
        // A process that was given up may find the order later; this process does not wait for it.
        if self.given_up { Ok(()) } else { self.answer(Duration::ZERO) }
    }
}

fn other_end(reason: &str) -> BenchError {
    BenchError::OtherEnd { what: WHAT, reason: reason.to_owned() }
}

impl Far for FarProcess<'_> {
    fn with(&mut self, order: Order, near: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.order(Some(order.task), &order)?;
        let outcome = server::both(near(), |before| self.answer(before));
        self.given_up |= outcome.as_ref().is_err_and(server::given_up);
        outcome
    }
}

/// Carries out the orders in its own segment until the one to stop.
#[derive(Debug)]
pub struct Server<'a> {
    control: Control<'a>,
    shared: End<'a>,
    own: End<'a>,
    done: u64,
}

impl<'a> Server<'a> {
    /// A server in `segment`; `peer` is the other side's segment.
    pub fn new(segment: Window<'a>, peer: Window<'a>) -> Result<Self> {
        Ok(Self {
            control: Control::new(segment)?,
            shared: End { out: segment, input: segment, placement: pio::Placement::Shared },
            own: End { out: peer, input: segment, placement: pio::Placement::Own },
            done: 0,
        })
    }

    /// Carries out orders. `still_there` is called between orders, and its error ends the service.
    pub fn run(&mut self, still_there: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        loop {
            // Acquire: pairs with the Release in `FarProcess::order`.
            let number = self.control.number.load(Ordering::Acquire);
            if number == self.done {
                still_there()?;
                // An order starts with a warm-up that bridges this.
                std::thread::sleep(Duration::from_micros(20));
                continue;
            }
            self.done = number;
            let (stop, code) = match self.read() {
                Some(None) => (true, answer::DONE),
                Some(Some((end, order))) => (false, code_of(&follow(&end, &order))),
                None => (false, answer::REFUSED),
            };
            // Release: pairs with the Acquire in `FarProcess::answer`.
            self.control.answer.store(number << 8 | code, Ordering::Release);
            if stop {
                return Ok(());
            }
        }
    }

    /// The order in the words, each read once and checked; `Some(None)` is the order to stop.
    fn read(&self) -> Option<Option<(End<'a>, Order)>> {
        let word = |offset| self.control.window.load_u64(offset).ok();
        let task = TASKS.iter().find(|(known, _)| Some(*known) == word(words::TASK))?.1;
        let Some(task) = task else { return Some(None) };
        let order = Order {
            task,
            poll: Poll::ALL.into_iter().find(|poll| Some(poll_word(*poll)) == word(words::POLL))?,
            place: usize::try_from(word(words::PLACE)?).ok().filter(|place| *place < PLACES)?,
            size_bytes: usize::try_from(word(words::SIZE)?).ok().filter(|size| *size <= MESSAGE_BYTES_MAX)?,
            base: word(words::BASE)?,
            rounds: word(words::ROUNDS).filter(|rounds| *rounds < ROUNDS_MAX)?,
        };
        let end = match word(words::PLACEMENT)? {
            0 => self.shared,
            1 => self.own,
            _ => return None,
        };
        Some(Some((end, order)))
    }
}

const fn code_of(result: &Result<()>) -> u64 {
    match result {
        Ok(()) => answer::DONE,
        Err(BenchError::WrongData { .. }) => answer::WRONG_DATA,
        Err(BenchError::NoAnswer { .. }) => answer::NO_ANSWER,
        Err(_) => answer::REFUSED,
    }
}

#[cfg(test)]
mod tests;
