//! Two threads each: what one does while the other is in the midst of it.

use super::*;

fn publish_against_sleep(has_fences: bool) {
    every(move || {
        let stream = Stream::open(2, 0, has_fences);
        let theirs = Arc::clone(&stream);
        let writer = thread::spawn(move || theirs.write(Occasion::Write, &[7]));
        let (outcome, bytes) = stream.read(true);
        let written = writer.join().unwrap();
        let in_kernel = stream.queue();
        // Before anything is asserted: loom's reference counts must not be dropped in a panic.
        drop(stream);
        assert_eq!(written, Outcome::Moved(1));
        let is_read = outcome == Outcome::Moved(1) && bytes == [7];
        assert!(is_read || (outcome == Outcome::WouldBlock && in_kernel == [7]), "a lost wake-up");
    });
}

#[test]
fn loom_a_published_byte_is_seen_or_in_the_kernel() {
    publish_against_sleep(true);
}

#[test]
#[should_panic = "a lost wake-up"]
fn loom_without_fences_a_wake_up_is_lost() {
    publish_against_sleep(false);
}

fn open_against_withdraw(has_fences: bool) {
    every(move || {
        let stream = Stream::open(2, 0, has_fences);
        stream.word(Word::Path).store(path::TCP, Ordering::Relaxed);
        let theirs = Arc::clone(&stream);
        let writer = thread::spawn(move || theirs.write(Occasion::Write, &[7]));
        let withdrawn = stream.withdraw();
        writer.join().unwrap();
        let unread = stream.load(Word::Tail) - stream.load(Word::Base);
        drop(stream);
        assert!(withdrawn != Outcome::Withdrawn || unread == 0, "a byte is left in the ring");
    });
}

#[test]
fn loom_a_withdrawal_sees_a_ring_that_opens() {
    open_against_withdraw(true);
}

#[test]
#[should_panic = "a byte is left in the ring"]
fn loom_without_fences_a_withdrawal_misses_a_byte() {
    open_against_withdraw(false);
}

fn revoke_against_read(has_fences: bool) {
    every(move || {
        let stream = Stream::open(2, 1, has_fences);
        let theirs = Arc::clone(&stream);
        let writer = thread::spawn(move || theirs.write(Occasion::Overdue, &[]));
        let (outcome, bytes) = stream.read(false);
        writer.join().unwrap();
        let in_kernel = stream.queue();
        drop(stream);
        let got = if outcome == Outcome::Moved(1) { bytes } else { Vec::new() };
        assert_eq!([got, in_kernel].concat(), [0], "lost or doubled");
    });
}

#[test]
fn loom_a_revoked_byte_is_read_once() {
    revoke_against_read(true);
}

#[test]
#[should_panic = "lost or doubled"]
fn loom_without_fences_a_revoked_byte_is_read_twice() {
    revoke_against_read(false);
}

fn publish_against_renewal(has_fences: bool) {
    every(move || {
        let stream = Stream::open(2, 0, has_fences);
        stream.word(Word::Consent).store(consent::WITHDRAWN, Ordering::Relaxed);
        let theirs = Arc::clone(&stream);
        let writer = thread::spawn(move || theirs.write(Occasion::Write, &[7]));
        // The writer's Acquire load of the consent reads it, and sees by it nothing else that it needs.
        stream.word(Word::Consent).store(consent::NONE, Ordering::Release);
        let (outcome, bytes) = stream.read(false);
        writer.join().unwrap();
        let is_in_ring = stream.load(Word::Tail) > stream.load(Word::Base).max(stream.load(Word::Head));
        let in_kernel = stream.queue();
        drop(stream);
        let got = if outcome == Outcome::Moved(1) { bytes } else { Vec::new() };
        let in_ring = if is_in_ring { vec![7] } else { Vec::new() };
        assert_eq!([got, in_kernel, in_ring].concat(), [7], "lost or doubled");
    });
}

#[test]
fn loom_a_consent_is_given_again_while_bytes_go_back() {
    publish_against_renewal(true);
}

/// Two writers, one of which writes to the kernel while the other may be opening the ring: where the ring's
/// bytes stand is where the kernel's end, so both are told by their order.
fn plain_against_opening(has_fences: bool) {
    every(move || {
        let stream = Stream::open(2, 0, has_fences);
        stream.word(Word::Path).store(path::TCP, Ordering::Relaxed);
        let theirs = Arc::clone(&stream);
        let plain = thread::spawn(move || theirs.plain(&[7]));
        let opened = {
            let mut write = Write::new(Occasion::WriteNow, 2, 1, true, 0);
            stream.run(&[8], |call| write.attempt(call)).0
        };
        let sent = plain.join().unwrap();
        let (switch_over, in_kernel) = (stream.load(Word::SwitchOver), stream.queue().len() as u64);
        drop(stream);
        let is_open = opened == Outcome::Moved(1);
        assert!(
            !is_open || switch_over == in_kernel,
            "{switch_over} is not the end of {in_kernel} after {sent:?}: a byte behind its place"
        );
    });
}

#[test]
fn loom_a_write_to_the_kernel_stays_before_the_ring_that_opens() {
    plain_against_opening(true);
}

#[test]
#[should_panic = "a byte behind its place"]
fn loom_without_fences_a_ring_opens_beside_a_write_to_the_kernel() {
    plain_against_opening(false);
}

/// A reader takes the inline copy of a message while the next one is being written.
fn next_message_against_inline_copy(has_fences: bool) {
    every(move || {
        let stream = Stream::with(4, 0, has_fences, true);
        let first = stream.write(Occasion::WriteNow, &[7, 8]);
        let theirs = Arc::clone(&stream);
        let writer = thread::spawn(move || theirs.write(Occasion::WriteNow, &[9, 10]));
        let (outcome, bytes) = stream.read_of(2, false);
        let second = writer.join().unwrap();
        drop(stream);
        assert_eq!((first, second), (Outcome::Moved(2), Outcome::Moved(2)));
        assert_eq!(outcome, Outcome::Moved(2));
        assert_eq!(bytes, [7, 8], "bytes of two messages");
    });
}

#[test]
fn loom_an_inline_copy_is_of_one_message() {
    next_message_against_inline_copy(true);
}

#[test]
#[should_panic = "bytes of two messages"]
fn loom_without_fences_an_inline_copy_is_of_two_messages() {
    next_message_against_inline_copy(false);
}

/// A process wakes while one of its threads reads from the kernel, where only a writer that finds it counted
/// as asleep wakes that.
fn wake_against_parked_read(has_fences: bool) {
    every(move || {
        let stream = Stream::open(2, 0, has_fences);
        stream.parked.store(park::EMPTY, Ordering::Relaxed);
        stream.word(Word::Asleep).store(1, Ordering::Relaxed);
        let theirs = Arc::clone(&stream);
        let reader = thread::spawn(move || {
            let mut call = Call { stream: &theirs, bytes: &[], got: Vec::new() };
            let counted = park::read(&mut call, |call| call.load(Word::Asleep));
            counted.ok().flatten()
        });
        let woken = {
            let mut call = Call { stream: &stream, bytes: &[], got: Vec::new() };
            park::wake(&mut call).ok()
        };
        let counted = reader.join().unwrap();
        let asleep = stream.load(Word::Asleep);
        drop(stream);
        assert_eq!(asleep, u64::from(woken == Some(false)));
        assert_ne!(counted, Some(0), "asleep and not counted");
    });
}

#[test]
fn loom_a_process_stays_counted_under_its_parked_reader() {
    wake_against_parked_read(true);
}

#[test]
#[should_panic = "asleep and not counted"]
fn loom_without_fences_a_parked_reader_is_not_counted() {
    wake_against_parked_read(false);
}

/// One who ends says what the kernel was given, while another one gives it more.
fn write_against_what_is_said(has_fences: bool) {
    every(move || {
        // A byte stays in the ring, which its reader was stopped over.
        let stream = Stream::open(2, 1, has_fences);
        stream.word(Word::Path).store(path::TCP, Ordering::Relaxed);
        let theirs = Arc::clone(&stream);
        let writer = thread::spawn(move || theirs.plain(&[7]));
        let mut call = Call { stream: &stream, bytes: &[], got: Vec::new() };
        let said = given::say(&mut call, 2);
        assert!(said.is_ok());
        writer.join().unwrap();
        let (said, in_kernel) = (stream.load(Word::Given), stream.kernel.lock().unwrap().written);
        drop(stream);
        assert!(said == 0 || said == in_kernel + 1, "{said} less 1 said of {in_kernel}: more than was said");
    });
}

#[test]
fn loom_what_is_said_of_the_kernel_is_true() {
    write_against_what_is_said(true);
}

#[test]
#[should_panic = "more than was said"]
fn loom_without_fences_what_is_said_of_the_kernel_is_not_true() {
    write_against_what_is_said(false);
}
