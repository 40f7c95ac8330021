//! The other end writes what it likes into its words: every call ends or goes on asking, takes and puts
//! nothing outside the ring, and holds its lock only while it works.

use proptest::prelude::*;
use stream::read::{Purpose, Read};
use stream::withdraw::Withdraw;
use stream::write::{Occasion, Write};
use stream::{Free, Held, Sent, Slept, Taken, Wait, Woken, Word, Written};

use crate::replay::{Call, Do, Running, Saw};
use crate::world::INLINE;

/// Numbers that mean something here, and any other.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..20u64, Just(u64::MAX), (u64::MAX - 20)..u64::MAX, any::<u64>()]
}

fn answer() -> impl Strategy<Value = (u64, u8)> {
    (number(), 0..6u8)
}

/// An answer of the right kind, with any content.
fn saw(what: Do, (number, pick): (u64, u8)) -> Saw {
    match what {
        Do::Load(_) => Saw::Value(number),
        Do::AskTaken => Saw::Taken(match pick {
            0 => Taken::Unknown,
            1 | 2 => Taken::Closed {
                received: number,
                unread: pick.into(),
                otherwise: (pick == 1).then_some(number),
            },
            _ => Taken::Bytes(number),
        }),
        Do::AskWritten => Saw::Written(match pick {
            0 => Written::Unknown,
            1 => Written::Broken,
            _ => Written::Bytes(number),
        }),
        Do::AskRoom(_) => Saw::Room(pick > 0),
        Do::Count => Saw::Held(match pick {
            0 => Held::Nothing,
            1 => Held::End,
            2 => Held::Error,
            3 => Held::Closed { received: number },
            _ => Held::Bytes(number.max(1)),
        }),
        Do::Receive { most } => Saw::Received(if pick == 0 { 0 } else { number.min(most) }),
        Do::Send { most } | Do::SendRing { len: most, .. } => Saw::Sent(match pick {
            0 => Sent::WouldBlock,
            1 => Sent::Broken,
            _ => Sent::Bytes(number.clamp(1, most)),
        }),
        Do::WaitUntilFree(_) => Saw::Free(if pick == 0 { Free::Stopped } else { Free::Free }),
        Do::Sleep(Wait::Readable) if pick == 4 => Saw::Slept(Slept::Moved(number.max(1))),
        Do::Sleep(Wait::Readable) if pick == 5 => Saw::Slept(Slept::Broken),
        Do::Sleep(_) => Saw::Slept(Slept::Woken(match pick {
            0 => Woken::Hangup,
            1 => Woken::Timer,
            2 => Woken::Stop,
            _ => Woken::Look,
        })),
        _ => Saw::Nothing,
    }
}

fn calls(capacity: u64, want: u64) -> Vec<Call> {
    let occasions = [
        Occasion::Write,
        Occasion::WriteNow,
        Occasion::Visit,
        Occasion::Overdue,
        Occasion::Finish,
        Occasion::ShutDown,
    ];
    let mut calls: Vec<_> =
        occasions.map(|occasion| Call::Writing(Write::new(occasion, capacity, want, true, 0))).into();
    for (may_wait, purpose) in
        [(true, Purpose::Read), (false, Purpose::Read), (true, Purpose::Peek), (false, Purpose::Look)]
    {
        calls.push(Call::Reading(Read::new(capacity, want, may_wait, true, 0).to(purpose)));
    }
    calls.push(Call::Withdrawing(Withdraw::new(capacity)));
    calls.extend([Call::Plain(want), Call::Saying(capacity)]);
    calls
}

/// Runs a call against answers; whatever it does must be within the ring.
fn drive(call: Call, capacity: u64, answers: &[(u64, u8)]) -> Result<(), TestCaseError> {
    let mut locks = 0;
    let mut running = Running::new(call, INLINE as u64);
    let mut what = running.begin();
    for &content in answers {
        match what {
            Do::Take { at, len } | Do::Put { at, len } | Do::SendRing { at, len } => {
                prop_assert!(len > 0 && len <= capacity && at.checked_add(len).is_some(), "{:?}", what);
            }
            Do::TakeInline(at) | Do::PutInline(at) => prop_assert!(at < INLINE),
            Do::Receive { most } | Do::Send { most } => prop_assert!(most > 0),
            Do::Lock(Word::ReadLock | Word::WriteLock) => locks += 1,
            Do::Unlock(_) => locks -= 1,
            Do::Sleep(_) => prop_assert_eq!(locks, 0, "asleep with the lock"),
            Do::Done(_) => {
                prop_assert_eq!(locks, 0, "ended with the lock");
                return Ok(());
            }
            _ => {}
        }
        what = running.step(saw(what, content));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn hostile_words_harm_nobody(
        capacity in prop_oneof![1..8u64, Just(1 << 18)],
        want in 1..10u64,
        answers in prop::collection::vec(answer(), 1..120),
    ) {
        for call in calls(capacity, want) {
            drive(call, capacity, &answers)?;
        }
    }
}
