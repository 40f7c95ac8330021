//! Every interleaving of the rings' algorithms, with tiny capacities, under the memory model of the language.

use super::many::slots::{self, Slots};
use super::many::state::Word;
use super::many::taker::{Next, Taker};
use super::reader::{Lies, LineReader, Take};
use super::words::{HeapWords, Words};
use super::writer::{LineWriter, Refused};
use crate::sync::{AtomicU32, Ordering, fence};
use loom::thread;
use std::sync::Arc;

/// A model of at most three preemptions: all that is known to find real mistakes, in seconds.
fn model(test: impl Fn() + Sync + Send + 'static) {
    model_with(3, test);
}

fn model_with(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    builder.check(test);
}

type Writer = LineWriter<HeapWords, HeapWords>;
type Reader = LineReader<HeapWords, HeapWords>;

fn lines(count: u64) -> (Writer, Reader) {
    let (data, own) = (HeapWords::new(count as usize * 8), HeapWords::new(1));
    (LineWriter::new(data.clone(), own.clone(), count), LineReader::new(data, own, count))
}

/// `len` bytes that are recognised: all `byte`.
fn record(byte: u8, len: usize) -> Vec<u8> {
    vec![byte; len]
}

fn push(writer: &mut Writer, record: &[u8]) -> Result<(), Refused> {
    if record.len() <= 56 { writer.push_short(record) } else { writer.push_long(record) }
}

fn push_waiting(writer: &mut Writer, record: &[u8]) {
    loop {
        match push(writer, record) {
            Ok(()) => return,
            Err(Refused::Full) => thread::yield_now(),
            Err(Refused::Corrupt) => panic!("nobody lied"),
        }
    }
}

fn pop(reader: &mut Reader) -> Option<Vec<u8>> {
    let found = reader.next().unwrap()?;
    let mut bytes = vec![0; found.len];
    reader.data().read_long(found.word, &mut bytes);
    reader.advance(found);
    Some(bytes)
}

/// Sends the records from one thread to another, through 4 lines, and checks that they arrive.
fn carries(lens: &'static [usize]) {
    model(move || {
        let (mut writer, mut reader) = lines(4);
        let sender = thread::spawn(move || {
            for (i, &len) in lens.iter().enumerate() {
                push_waiting(&mut writer, &record(i as u8 + 1, len));
            }
        });
        for (i, &len) in lens.iter().enumerate() {
            let bytes = loop {
                match pop(&mut reader) {
                    Some(bytes) => break bytes,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(bytes, record(i as u8 + 1, len));
        }
        assert_eq!(pop(&mut reader), None);
        sender.join().unwrap();
    });
}

#[test]
fn small_records_share_a_line() {
    carries(&[8, 0, 3]);
}

#[test]
fn lines_are_used_again_only_when_they_were_given_back() {
    carries(&[32, 32, 32, 32, 32]);
}

#[test]
fn a_line_is_closed_behind_its_last_record() {
    carries(&[8, 56, 8, 56]);
}

#[test]
fn long_records_wrap() {
    carries(&[57, 8, 64, 57]);
}

#[test]
fn a_batch_is_announced_once_and_complete() {
    model(|| {
        let (mut writer, mut reader) = lines(4);
        let sender = thread::spawn(move || {
            for byte in 1..=9 {
                writer.push_short_later(&record(byte, 8)).unwrap();
            }
            writer.announce();
        });
        for byte in 1..=9 {
            let bytes = loop {
                match pop(&mut reader) {
                    Some(bytes) => break bytes,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(bytes, record(byte, 8));
        }
        sender.join().unwrap();
    });
}

/// Takes the words 1, 2 and so on as they come.
struct Expect(u64);

impl Take<HeapWords> for Expect {
    fn take(&mut self, lies: Lies<'_, HeapWords>) {
        self.0 += 1;
        let word = match lies {
            Lies::Word(word) => word,
            Lies::Found(data, found) => data.word(found.word),
        };
        assert_eq!(word.load(Ordering::Relaxed), self.0);
    }
}

/// Two lines that are full, and one that is not.
const WORDS: u64 = 15;

#[test]
fn words_are_taken_one_by_one() {
    model_with(1, || {
        let (mut writer, mut reader) = lines(4);
        // The reader is behind by a line and more: the search is about how it comes up to the writer.
        (1..=9).for_each(|word: u64| writer.push_word(word.to_ne_bytes()).unwrap());
        let sender = thread::spawn(move || {
            (10..=WORDS).for_each(|word| writer.push_word(word.to_ne_bytes()).unwrap());
        });
        for word in 1..=WORDS {
            let got = loop {
                if let Some(got) = reader.take_word() {
                    break got.to_ne_bytes().to_vec();
                }
                match pop(&mut reader) {
                    Some(bytes) => break bytes,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(got, word.to_ne_bytes());
        }
        sender.join().unwrap();
    });
}

#[test]
fn words_are_written_and_drained_in_batches() {
    model_with(2, || {
        let (mut writer, mut reader) = lines(4);
        let sender = thread::spawn(move || {
            let words: Vec<_> = (1..=WORDS).map(u64::to_ne_bytes).collect();
            for batch in words.chunks(9) {
                let mut written = 0;
                while written < batch.len() {
                    match writer.push_words_later(&batch[written..]) {
                        Ok(count) => written += count,
                        Err(_) => thread::yield_now(),
                    }
                }
                writer.announce();
            }
        });
        let mut expect = Expect(0);
        while expect.0 < WORDS {
            if reader.drain(8, &mut expect).unwrap() == 0 {
                thread::yield_now();
            }
        }
        sender.join().unwrap();
    });
}

/// Arm, fence, look against push, fence, ring: never does the reader see nothing while the writer sees nobody
/// armed.
#[test]
fn a_reader_that_arms_and_looks_misses_nothing() {
    model(|| {
        let (mut writer, reader) = lines(4);
        let armed = Arc::new(AtomicU32::new(0));
        let seen_by_writer = {
            let armed = armed.clone();
            thread::spawn(move || {
                push(&mut writer, &record(1, 8)).unwrap();
                fence(Ordering::SeqCst);
                armed.load(Ordering::Relaxed) != 0
            })
        };
        armed.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let slept = reader.is_empty();
        let rang = seen_by_writer.join().unwrap();
        assert!(rang || !slept, "the reader would sleep for ever");
    });
}

/// The same for a writer that waits for room.
#[test]
fn a_writer_that_arms_and_looks_misses_nothing() {
    model(|| {
        let (mut writer, mut reader) = lines(4);
        while push(&mut writer, &record(1, 56)).is_ok() {}
        let armed = Arc::new(AtomicU32::new(0));
        let seen_by_reader = {
            let armed = armed.clone();
            thread::spawn(move || {
                while pop(&mut reader).is_some() {}
                fence(Ordering::SeqCst);
                armed.load(Ordering::Relaxed) != 0
            })
        };
        armed.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let slept = !writer.has_room(56);
        let rang = seen_by_reader.join().unwrap();
        assert!(rang || !slept, "the writer would sleep for ever");
    });
}

fn many(count: u64) -> (Taker<HeapWords>, HeapWords) {
    let data = HeapWords::new(slots::words(count, 8).unwrap());
    let ring = Slots::new(data.clone(), count, 8);
    ring.set_up();
    (Taker::new(ring), data)
}

fn send(slots: &Slots<HeapWords>, me: u16, message: u64) {
    let position = loop {
        match slots.claim(me) {
            Ok(position) => break position,
            Err(super::many::ClaimError::Full) => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    };
    slots.data().write_short(slots.payload(position), &message.to_ne_bytes());
    assert!(slots.commit(position, me, 8));
}

fn take(taker: &mut Taker<HeapWords>) -> Option<(u16, u64)> {
    let Next::Message { word, len, owner } = taker.next().unwrap() else { return None };
    assert_eq!(len, 8);
    let mut bytes = [0; 8];
    taker.slots().data().read_short(word, &mut bytes);
    taker.release();
    Some((owner, u64::from_ne_bytes(bytes)))
}

fn take_waiting(taker: &mut Taker<HeapWords>) -> (u16, u64) {
    loop {
        match take(taker) {
            Some(message) => return message,
            None => thread::yield_now(),
        }
    }
}

#[test]
fn two_producers_share_the_slots() {
    model(|| {
        let (mut taker, data) = many(2);
        let senders = [1u16, 2].map(|me| {
            let slots = Slots::new(data.clone(), 2, 8);
            thread::spawn(move || send(&slots, me, 100 * u64::from(me)))
        });
        let mut got = [take_waiting(&mut taker), take_waiting(&mut taker)];
        got.sort_unstable();
        assert_eq!(got, [(1, 100), (2, 200)]);
        assert_eq!(take(&mut taker), None);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

/// The slots are used again while both claim: a tail is never newer than what is seen of its slot.
#[test]
fn two_producers_go_round() {
    // More threads and steps than elsewhere, so fewer preemptions.
    model_with(1, || {
        let (mut taker, data) = many(2);
        let senders = [1u16, 2].map(|me| {
            let slots = Slots::new(data.clone(), 2, 8);
            thread::spawn(move || (0..2).for_each(|message| send(&slots, me, message)))
        });
        let mut next = [0; 3];
        for _ in 0..4 {
            let (owner, message) = take_waiting(&mut taker);
            assert_eq!(message, next[usize::from(owner)]);
            next[usize::from(owner)] += 1;
        }
        assert_eq!(taker.next(), Ok(Next::Empty));
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

#[test]
fn one_producer_keeps_its_order_over_several_turns() {
    model(|| {
        let (mut taker, data) = many(2);
        let slots = Slots::new(data, 2, 8);
        let sender = thread::spawn(move || (1..=4).for_each(|message| send(&slots, 1, message)));
        for message in 1..=4 {
            assert_eq!(take_waiting(&mut taker), (1, message));
        }
        sender.join().unwrap();
    });
}

/// One producer dies with a claim while another sends; the dead one's claim is found, thrown away, and what
/// is behind it arrives. `join` is the proof of death.
#[test]
fn the_claim_of_a_dead_producer_is_thrown_away() {
    model(|| {
        let (mut taker, data) = many(2);
        let (doomed, other) = (Slots::new(data.clone(), 2, 8), Slots::new(data, 2, 8));
        let dead = thread::spawn(move || doomed.claim(7).unwrap());
        let sender = thread::spawn(move || send(&other, 1, 5));
        let early = take(&mut taker);
        dead.join().unwrap();
        sender.join().unwrap();
        assert_eq!(taker.discard_all_of(7), 1);
        // The message may have been in front of the claim, and taken before.
        let late = take(&mut taker);
        assert_eq!(early.xor(late), Some((1, 5)));
        assert_eq!(taker.next(), Ok(Next::Empty));
    });
}

/// A producer died after it had claimed the slot and before it moved the tail: two others do it for it.
#[test]
fn a_tail_that_was_not_moved_is_moved_by_others() {
    model(|| {
        let (mut taker, data) = many(4);
        data.word(slots::FIRST_SLOT).store(Word::claimed(0, 7).0, Ordering::Relaxed);
        let senders = [1u16, 2].map(|me| {
            let slots = Slots::new(data.clone(), 4, 8);
            thread::spawn(move || send(&slots, me, 1))
        });
        assert_eq!(taker.next(), Ok(Next::Pending(7)));
        assert_eq!(taker.discard_all_of(7), 1);
        let mut got = [take_waiting(&mut taker), take_waiting(&mut taker)];
        got.sort_unstable();
        assert_eq!(got, [(1, 1), (2, 1)]);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

/// Owner and consumer race for a claim: exactly one of them has it.
#[test]
fn a_claim_is_either_committed_or_discarded() {
    model(|| {
        let (mut taker, data) = many(2);
        let slots = Slots::new(data, 2, 8);
        let position = slots.claim(3).unwrap();
        let owner = thread::spawn(move || slots.commit(position, 3, 8));
        let discarded = taker.discard_all_of(3) == 1;
        let committed = owner.join().unwrap();
        assert!(committed != discarded);
        assert_eq!(take(&mut taker).is_some(), committed);
        assert_eq!(taker.next(), Ok(Next::Empty));
    });
}
