//! Calls that go on one step at a time, although they are ordinary functions.
//!
//! A call's attempt does nothing but what its steps tell it, so it is where its answers so far have brought
//! it. It is run from the beginning with these answers, and stopped at the first step for which there is none
//! yet: that is the next one.

use stream::given;
use stream::park;
use stream::plain;
use stream::read::Read;
use stream::withdraw::Withdraw;
use stream::write::Write;
use stream::{
    Entry, Free, Held, Locked, Memory, Outcome, Process, Sent, Shared, Slept, Step, Taken, Wait, Word,
    Written,
};

/// A step of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Do {
    Lock(Word),
    Unlock(Word),
    Interrupt,
    WaitUntilFree(Word),
    Load(Word),
    Store(Word, u64),
    Advance(Word, u64),
    Increase(Word),
    Decrease(Word),
    Parked,
    ExchangeParked(u64, u64),
    Inside,
    Enter,
    Exit,
    Fence,
    Put {
        at: u64,
        len: u64,
    },
    Take {
        at: u64,
        len: u64,
    },
    /// Copies a byte to its place in the inline copy, or from there.
    PutInline(usize),
    TakeInline(usize),
    AskTaken,
    AskWritten,
    AskRoom(u64),
    Count,
    Receive {
        most: u64,
    },
    Send {
        most: u64,
    },
    SendRing {
        at: u64,
        len: u64,
    },
    Sleep(Wait),
    Done(Outcome),
}

/// What came of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Saw {
    Nothing,
    /// The lock is held by the call that this one interrupts.
    Nested,
    /// It was interrupted.
    Interrupted,
    /// The word was not what it was to be exchanged for.
    Otherwise,
    Free(Free),
    Value(u64),
    Taken(Taken),
    Written(Written),
    Room(bool),
    Held(Held),
    Received(u64),
    Sent(Sent),
    Slept(Slept),
}

/// The answers so far.
struct Replay<'a> {
    answers: &'a [Saw],
    at: usize,
    /// Bytes that an inline copy has room for.
    inline: u64,
}

/// Two steps in one line: the step, and how its answer is read.
macro_rules! answered {
    ($self:ident, $step:expr, $saw:pat => $value:expr) => {
        match $self.ask($step)? {
            $saw => Ok($value),
            other => panic!("{:?} answered by {other:?}", $step),
        }
    };
}

impl Replay<'_> {
    fn ask(&mut self, step: Do) -> Result<Saw, Do> {
        let answer = self.answers.get(self.at).copied().ok_or(step)?;
        self.at += 1;
        Ok(answer)
    }

    /// The program's own call.
    fn send(&mut self, most: u64) -> Result<Sent, Do> {
        answered!(self, Do::Send { most }, Saw::Sent(sent) => sent)
    }
}

impl Shared for Replay<'_> {
    type Stop = Do;

    fn load(&mut self, word: Word) -> Result<u64, Do> {
        answered!(self, Do::Load(word), Saw::Value(value) => value)
    }

    fn store(&mut self, word: Word, value: u64) -> Result<(), Do> {
        answered!(self, Do::Store(word, value), Saw::Nothing => ())
    }

    fn increase(&mut self, count: Word) -> Result<(), Do> {
        answered!(self, Do::Increase(count), Saw::Nothing => ())
    }

    fn decrease(&mut self, count: Word) -> Result<(), Do> {
        answered!(self, Do::Decrease(count), Saw::Nothing => ())
    }

    fn fence(&mut self) -> Result<(), Do> {
        answered!(self, Do::Fence, Saw::Nothing => ())
    }
}

impl Process for Replay<'_> {
    fn parked(&mut self) -> Result<u64, Do> {
        answered!(self, Do::Parked, Saw::Value(value) => value)
    }

    fn exchange_parked(&mut self, from: u64, to: u64) -> Result<bool, Do> {
        answered!(self, Do::ExchangeParked(from, to), saw @ (Saw::Nothing | Saw::Otherwise) => saw == Saw::Nothing)
    }

    fn inside(&mut self) -> Result<u64, Do> {
        answered!(self, Do::Inside, Saw::Value(value) => value)
    }
}

impl Entry for Replay<'_> {
    type Stop = Do;

    fn parked(&mut self) -> Result<u64, Do> {
        Process::parked(self)
    }

    fn enter(&mut self) -> Result<(), Do> {
        answered!(self, Do::Enter, Saw::Nothing => ())
    }

    fn exit(&mut self) -> Result<(), Do> {
        answered!(self, Do::Exit, Saw::Nothing => ())
    }
}

impl Memory for Replay<'_> {
    fn lock(&mut self, lock: Word) -> Result<Locked, Do> {
        answered!(self, Do::Lock(lock), saw @ (Saw::Nothing | Saw::Nested) => {
            if saw == Saw::Nested { Locked::Nested } else { Locked::Fresh }
        })
    }

    fn interrupts(&mut self) -> Result<(), Do> {
        answered!(self, Do::Interrupt, Saw::Nothing => ())
    }

    fn unlock(&mut self, lock: Word) -> Result<(), Do> {
        answered!(self, Do::Unlock(lock), Saw::Nothing => ())
    }

    fn wait_until_free(&mut self, lock: Word) -> Result<Free, Do> {
        answered!(self, Do::WaitUntilFree(lock), Saw::Free(free) => free)
    }

    fn advance(&mut self, position: Word, _: u64, to: u64) -> Result<bool, Do> {
        answered!(self, Do::Advance(position, to), saw @ (Saw::Nothing | Saw::Interrupted) => saw == Saw::Nothing)
    }

    fn put(&mut self, at: u64, len: u64) -> Result<(), Do> {
        answered!(self, Do::Put { at, len }, Saw::Nothing => ())
    }

    fn take(&mut self, at: u64, len: u64) -> Result<(), Do> {
        answered!(self, Do::Take { at, len }, Saw::Nothing => ())
    }

    fn has_inline(&self, len: u64) -> bool {
        len <= self.inline
    }

    fn put_inline(&mut self, len: u64) -> Result<(), Do> {
        (0..len as usize).try_for_each(|at| answered!(self, Do::PutInline(at), Saw::Nothing => ()))
    }

    fn take_inline(&mut self, len: u64) -> Result<(), Do> {
        (0..len as usize).try_for_each(|at| answered!(self, Do::TakeInline(at), Saw::Nothing => ()))
    }

    fn taken(&mut self) -> Result<Taken, Do> {
        answered!(self, Do::AskTaken, Saw::Taken(taken) => taken)
    }

    fn written(&mut self) -> Result<Written, Do> {
        answered!(self, Do::AskWritten, Saw::Written(written) => written)
    }

    fn takes_all(&mut self, len: u64) -> Result<bool, Do> {
        answered!(self, Do::AskRoom(len), Saw::Room(is_room) => is_room)
    }

    fn held(&mut self) -> Result<Held, Do> {
        answered!(self, Do::Count, Saw::Held(held) => held)
    }

    fn receive(&mut self, most: u64) -> Result<u64, Do> {
        answered!(self, Do::Receive { most }, Saw::Received(count) => count)
    }

    fn send_ring(&mut self, at: u64, len: u64) -> Result<Sent, Do> {
        answered!(self, Do::SendRing { at, len }, Saw::Sent(sent) => sent)
    }

    fn sleep(&mut self, wait: Wait) -> Result<Slept, Do> {
        answered!(self, Do::Sleep(wait), Saw::Slept(slept) => slept)
    }
}

/// What a parked process has in its word before it has found the ring empty.
const PARKED: u64 = 1;

/// How a call ends that has found it otherwise than it needs: a write to the kernel another path, a read that
/// it is not parked.
pub(crate) const CHANGED: Outcome = Outcome::Withdrawn;

/// A call of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    Writing(Write),
    /// A write of so many bytes to the kernel.
    Plain(u64),
    Reading(Read),
    Withdrawing(Withdraw),
    Parking(Parking),
    /// Says, before an end, what the kernel was given; the ring has so many bytes.
    Saying(u64),
}

/// A call about being parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Parking {
    Park,
    Wake,
    /// A read that goes on in the kernel if it is parked.
    Read,
    /// A read that sleeps in the kernel, and then stays parked if it `stays`.
    Sleep {
        stays: bool,
    },
}

impl Call {
    fn attempt(&mut self, m: &mut Replay<'_>) -> Result<Step, Do> {
        match self {
            Self::Writing(call) => call.attempt(m),
            Self::Reading(call) => call.attempt(m),
            Self::Withdrawing(call) => call.attempt(m),
            Self::Saying(capacity) => given::say(m, *capacity).map(|()| Step::Ends(Outcome::Moved(0))),
            Self::Parking(Parking::Park) => park::park(m, PARKED).map(|_| Step::Ends(Outcome::Moved(0))),
            Self::Parking(Parking::Wake) => park::wake(m).map(|_| Step::Ends(Outcome::Moved(0))),
            Self::Parking(Parking::Read) => park::read(m, |m| m.sleep(Wait::Readable)).map(slept),
            Self::Parking(Parking::Sleep { stays }) => {
                park::sleep(m, |m| Ok((m.sleep(Wait::Readable)?, *stays))).map(slept)
            }
            Self::Plain(want) => Ok(Step::Ends(match plain::write(m, |m| m.send(*want))? {
                Some(Sent::Bytes(count)) => Outcome::Moved(count),
                Some(Sent::WouldBlock) => Outcome::WouldBlock,
                Some(Sent::Broken) => Outcome::Kernel,
                None => CHANGED,
            })),
        }
    }
}

/// What a read is told that has slept in the kernel, if it has.
fn slept(slept: Option<Slept>) -> Step {
    Step::Ends(match slept {
        Some(Slept::Moved(count)) => Outcome::Moved(count),
        // What it says, it says again to a read that looks at the ring, too.
        _ => CHANGED,
    })
}

/// A call under way: how it stood when its present attempt began, and the answers since.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Running {
    pub(crate) call: Call,
    answers: Vec<Saw>,
    /// As in [`Replay`].
    inline: u64,
}

impl Running {
    pub(crate) fn new(call: Call, inline: u64) -> Self {
        Self { call, answers: Vec::new(), inline }
    }

    /// The first step.
    pub(crate) fn begin(&mut self) -> Do {
        loop {
            let mut call = self.call;
            match call.attempt(&mut Replay { answers: &self.answers, at: 0, inline: self.inline }) {
                Err(step) => return step,
                Ok(step) => {
                    self.call = call;
                    self.answers.clear();
                    if let Step::Ends(outcome) = step {
                        return Do::Done(outcome);
                    }
                }
            }
        }
    }

    /// Begins its present attempt again.
    pub(crate) fn again(&mut self) -> Do {
        self.answers.clear();
        self.begin()
    }

    /// Takes the answer to the last step and says the next.
    pub(crate) fn step(&mut self, saw: Saw) -> Do {
        self.answers.push(saw);
        self.begin()
    }
}
