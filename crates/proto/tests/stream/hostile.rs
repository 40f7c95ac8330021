//! The other end writes what it likes into its words: every machine ends or goes on asking, takes and puts nothing outside the
//! ring, and holds its lock only while it works.

use proptest::prelude::*;
use proto::stream::reader::{Purpose, Reader};
use proto::stream::withdraw::Withdraw;
use proto::stream::writer::{Occasion, Writer};
use proto::stream::{Do, Held, Saw, Wait, Woken, Word};

use crate::world::Machine;

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
        Do::AskTaken | Do::AskWritten if pick == 0 => Saw::Unknown,
        Do::Load(_) | Do::AskTaken | Do::AskWritten => Saw::Value(number),
        Do::Count => Saw::Kernel(match pick {
            0 => Held::Nothing,
            1 => Held::End,
            2 => Held::Error,
            _ => Held::Bytes(number.max(1)),
        }),
        Do::Receive { most } | Do::Send { most } | Do::SendRing { len: most, .. } => match pick {
            0 => Saw::WouldBlock,
            1 => Saw::Broken,
            _ => Saw::Moved(number % (most + 1)),
        },
        Do::Sleep(Wait::Readable) if pick == 4 => Saw::Moved(number.max(1)),
        Do::Sleep(Wait::Readable) if pick == 5 => Saw::Broken,
        Do::Sleep(_) | Do::Pause => Saw::Woken(match pick {
            0 => Woken::Hangup,
            1 => Woken::Timer,
            2 => Woken::Stop,
            _ => Woken::Look,
        }),
        _ => Saw::Nothing,
    }
}

fn machines(capacity: u64, want: u64) -> Vec<Machine> {
    let occasions = [
        Occasion::Write,
        Occasion::WriteNow,
        Occasion::Visit,
        Occasion::Overdue,
        Occasion::Finish,
        Occasion::ShutDown,
    ];
    let mut machines: Vec<_> =
        occasions.map(|occasion| Machine::Writing(Writer::new(occasion, capacity, want, true, 0))).into();
    for (may_wait, purpose) in
        [(true, Purpose::Read), (false, Purpose::Read), (true, Purpose::Peek), (false, Purpose::Look)]
    {
        machines.push(Machine::Reading(Reader::new(capacity, want, may_wait, true, 0).to(purpose)));
    }
    machines.push(Machine::Withdrawing(Withdraw::new(capacity)));
    machines
}

/// Runs a machine against answers; whatever it does must be within the ring.
fn drive(mut machine: Machine, capacity: u64, answers: &[(u64, u8)]) -> Result<(), TestCaseError> {
    let mut locks = 0;
    let mut seen = Saw::Nothing;
    for &content in answers {
        let Some(what) = machine.step(seen) else { return Ok(()) };
        match what {
            Do::Take { at, len } | Do::Put { at, len } | Do::SendRing { at, len } => {
                prop_assert!(len > 0 && len <= capacity && at.checked_add(len).is_some(), "{:?}", what);
            }
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
        seen = saw(what, content);
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
        for machine in machines(capacity, want) {
            drive(machine, capacity, &answers)?;
        }
    }

    /// A caller that mixes answers up is a mistake of the library itself, and no reason to panic in a user's program.
    #[test]
    fn wrong_answers_do_not_panic(
        want in 1..10u64,
        answers in prop::collection::vec((number(), 0..6u8), 1..60),
    ) {
        for mut machine in machines(4, want) {
            let mut seen = Saw::Nothing;
            for &(number, pick) in &answers {
                let Some(what) = machine.step(seen) else { break };
                seen = if pick == 5 { Saw::Value(number) } else { saw(what, (number, pick)) };
            }
        }
    }
}
