//! Each way to get it wrong is found: the search can see.

use Op::{
    BeforeSleep, Close, Park, RawRead, RawToEnd, RawWrite, Read, ReadParked, ReadToEnd, ReadWritten,
    ShutDown, TryRead, TryWrite, Wake, Withdraw, Write,
};

use crate::cases::case;
use crate::mutants::Mutant;
use crate::resets::left_behind;
use crate::search::search;
use crate::world::{Case, Op};

/// The case as it is holds; with the mutant something is found.
fn is_found(mutant: Mutant, base: &Case) {
    finds(mutant, base);
    let sound = search(base, 2_000_000);
    assert!(sound.fault.is_none(), "{}: {:#?}", base.name, sound.fault);
}

/// With the mutant something is found.
fn finds(mutant: Mutant, base: &Case) {
    let searched = search(&Case { mutant: Some(mutant), ..base.clone() }, 2_000_000);
    let Some(fault) = searched.fault else {
        panic!("{mutant:?} was not noticed in {} states of {:?}", searched.states, base.name)
    };
    println!("{mutant:?}: {} after {} steps, {} states", fault.what, fault.trace.len(), searched.states);
}

fn unbuffered(base: Case) -> Case {
    Case { buffered: false, ..base }
}

fn simple() -> Case {
    case("two bytes", &[&[Write(1), Write(1)]], &[&[Read(1), Read(1)]])
}

#[test]
fn a_fence_that_is_none() {
    is_found(Mutant::NoFence, &simple());
}

#[test]
fn arming_without_an_order() {
    is_found(Mutant::PlainArming, &simple());
}

#[test]
fn no_look_after_arming() {
    is_found(Mutant::NoLookAfterArming, &unbuffered(simple()));
}

#[test]
fn sleepers_that_are_not_looked_for_after_publishing() {
    is_found(Mutant::NoAsleepAfterPublishing, &simple());
    is_found(Mutant::NoAsleepAfterPublishing, &unbuffered(simple()));
}

#[test]
fn sleepers_that_are_never_looked_for() {
    is_found(Mutant::NoAsleep, &unbuffered(simple()));
}

/// Opening a ring for sleepers is no fault, only work for nothing: what is published is handed back at once.
#[test]
fn sleepers_that_are_not_looked_for_when_opening() {
    let base = Case { mutant: Some(Mutant::NoAsleepWhenOpening), ..simple() };
    let searched = search(&base, 2_000_000);
    assert!(searched.fault.is_none(), "{:#?}", searched.fault);
}

/// Bytes go through the kernel first, because the reader comes late or another holder writes there.
fn cut_behind_bytes() -> Case {
    unbuffered(case(
        "a switch-over offset behind bytes",
        &[&[RawWrite(1), Write(1), Close]],
        &[&[ReadToEnd(2)]],
    ))
}

#[test]
fn a_cut_published_late() {
    is_found(Mutant::SwitchOverAfterTail, &cut_behind_bytes());
}

#[test]
fn a_cut_looked_at_early() {
    is_found(Mutant::CutBeforeTail, &cut_behind_bytes());
}

#[test]
fn unread_bytes_counted_as_read() {
    is_found(Mutant::UnreadIsTaken, &cut_behind_bytes());
}

#[test]
fn a_fin_counted_as_a_byte() {
    let killed = unbuffered(case("killed writer", &[&[RawWrite(1), Write(1), Close]], &[&[ReadToEnd(1)]]));
    is_found(Mutant::FinIsAByte, &Case { kill: vec![0], ..killed });
}

#[test]
fn another_holder_is_not_counted() {
    let base = case("another holder", &[&[RawWrite(1), Write(1), Close]], &[&[RawRead(1)], &[ReadToEnd(1)]]);
    is_found(Mutant::CountsOwnReadsOnly, &unbuffered(base));
}

#[test]
fn the_end_believed_before_the_ring_is_empty() {
    let killed = unbuffered(case("killed writer", &[&[Write(1), Close]], &[&[ReadToEnd(1)]]));
    is_found(Mutant::NoLookAfterCounting, &Case { kill: vec![0], ..killed });
}

#[test]
fn more_is_read_than_was_counted() {
    let mixed = [RawWrite(1), Write(1), RawWrite(1), Close];
    let base = case("unseen writes before and after", &[&mixed], &[&[ReadToEnd(2)]]);
    is_found(Mutant::ReadsMoreThanCounted, &unbuffered(base));
}

#[test]
fn bytes_revoked_from_under_a_reader() {
    let base = case("a full ring", &[&[TryWrite(1), TryWrite(1), Close]], &[&[TryRead, ReadToEnd(1)]]);
    is_found(Mutant::RevokeIgnoresLock, &Case { ring: 1, ..unbuffered(base) });
}

#[test]
fn bytes_handed_back_that_stay_valid() {
    let base = case("withdrawn", &[&[Write(2), Close]], &[&[Read(1), Withdraw, ReadToEnd(1)]]);
    is_found(Mutant::NoBase, &unbuffered(base));
}

#[test]
fn a_withdrawal_that_looks_at_the_path_too_early() {
    let base =
        case("withdrawn, writer killed", &[&[Write(1), Write(1), Close]], &[&[Read(1), Withdraw, RawToEnd]]);
    is_found(Mutant::WithdrawnByOldPath, &Case { kill: vec![0], may_abort: true, ..unbuffered(base) });
}

#[test]
fn a_ring_opened_without_a_second_look() {
    let base = case("withdrawn", &[&[Write(1), Write(1), Close]], &[&[TryRead, Withdraw, RawToEnd]]);
    is_found(Mutant::OpenWithoutRecheck, &base);
}

#[test]
fn a_ring_opened_again_while_unread() {
    let base =
        case("a stopped reader, two writers", &[&[Write(1), Close], &[Write(2), Close]], &[&[ReadToEnd(1)]]);
    is_found(Mutant::OpenWhileUnread, &Case { stops: true, pipe: 1, ..unbuffered(base) });
}

#[test]
fn room_given_back_before_it_was_read() {
    let base = case("a full ring", &[&[Write(1), Write(1), Close]], &[&[ReadToEnd(1)]]);
    is_found(Mutant::CopyAfterHead, &Case { ring: 1, ..unbuffered(base) });
}

#[test]
fn locks_that_exclude_nobody() {
    let base = case("two readers", &[&[Write(1), Close]], &[&[ReadToEnd(1)], &[TryRead]]);
    is_found(Mutant::NoLock, &Case { ring: 1, pipe: 1, ..unbuffered(base) });
}

#[test]
fn a_ring_opened_for_more_than_the_kernel_takes() {
    let base =
        case("tries, and no further call", &[&[TryWrite(2), TryWrite(2), TryWrite(2)]], &[&[ReadWritten]]);
    is_found(Mutant::OpenWithoutRoom, &Case { is_asked: true, ..unbuffered(base) });
}

/// One writes to the kernel, because nobody reads yet, while the other finds a reader and opens the ring.
fn plain_beside_opening() -> Case {
    let base = case(
        "a write to the kernel beside an opening",
        &[&[Write(1), Close], &[Write(1), Close]],
        &[&[ReadToEnd(1)]],
    );
    Case { ring: 1, pipe: 1, ..unbuffered(base) }
}

#[test]
fn a_ring_opened_beside_a_write_to_the_kernel() {
    is_found(Mutant::OpenIgnoresPlain, &plain_beside_opening());
}

#[test]
fn a_write_to_the_kernel_beside_an_opening() {
    is_found(Mutant::PlainIgnoresOpening, &plain_beside_opening());
}

#[test]
fn a_reader_past_the_library_needs_the_revoke() {
    let base = case("unseen reader", &[&[Write(2), Close]], &[&[Read(1), RawToEnd]]);
    is_found(Mutant::RevokeIgnoresLock, &Case { timers: true, overdue: true, ..unbuffered(base) });
}

#[test]
fn a_call_that_is_not_told_of_its_interruption() {
    let base =
        case("a handler writes", &[&[Write(1), Write(1), BeforeSleep], &[Write(1)]], &[&[Read(1), Read(2)]]);
    is_found(Mutant::NothingInterrupts, &Case { has_handler: true, ..unbuffered(base) });
}

#[test]
fn bytes_that_the_kernel_refused_taken_for_handed_back() {
    let twice = [TryWrite(2), TryWrite(2), ShutDown, ShutDown];
    let base = case("shut down before everything is back", &[&twice], &[&[TryRead, Withdraw, RawToEnd]]);
    let base = Case { hurries: true, timers: true, may_abort: true, pipe: 1, ..unbuffered(base) };
    is_found(Mutant::RefusedIsDone, &base);
}

#[test]
fn a_process_that_wakes_under_its_own_readers() {
    let base = case("parked", &[&[Write(1), Write(1)]], &[&[Read(1), Park, ReadParked(1)], &[Wake]]);
    is_found(Mutant::WakesUnderReaders, &Case { ring: 1, pipe: 1, ..unbuffered(base) });
}

#[test]
fn a_ring_taken_for_empty_without_a_look() {
    let base = case("parked", &[&[Write(1), Write(1)]], &[&[Read(1), Park, ReadParked(1)]]);
    is_found(Mutant::ParkedWithoutLook, &unbuffered(base));
}

fn inline_copies(ring: u32, writes: &[Op], reads: &[Op]) -> Case {
    Case { ring, inline: 2, ..unbuffered(case("inline copies", &[writes], &[reads])) }
}

#[test]
fn an_inline_copy_that_is_changed_under_its_reader() {
    let base = inline_copies(4, &[Write(2), Write(2)], &[Read(2), Read(2)]);
    is_found(Mutant::InlineNotVoided, &base);
    is_found(Mutant::InlineNotLookedAtAgain, &base);
}

#[test]
fn an_inline_copy_that_outlives_its_message() {
    is_found(Mutant::InlineNotVoided, &inline_copies(4, &[Write(1), Write(3)], &[Read(2), Read(2)]));
}

#[test]
fn an_end_that_does_not_say_what_the_kernel_was_given() {
    let base = case("closed, and reset", &[&[TryWrite(2), TryWrite(2), Close]], &[&[TryRead, ReadWritten]]);
    let base = Case { hurries: true, resets: true, pipe: 1, ..unbuffered(base) };
    is_found(Mutant::GivenNotSaid, &base);
}

#[test]
fn what_the_kernel_was_given_is_said_for_as_long_as_it_is_true() {
    // That this case holds is searched by `a_reset_behind_an_end`.
    finds(Mutant::GivenNotTakenBack, &left_behind());
    finds(Mutant::GivenNotCompared, &left_behind());
    finds(Mutant::GivenLookedAtEarly, &left_behind());
    finds(Mutant::GivenSaidBesideWrites, &left_behind());
}
