//! A search through all that can happen to numbered messages: lost, repeated, late, in any order.

use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;

use super::*;

#[test]
fn a_number_is_carried_out_once_and_answered_each_time() {
    let mut once = Once::new(3);
    let mut carried_out = Vec::new();
    let mut come = |number: u64| once.carry_out(number, || carried_out.push(number)).is_some();
    assert!(come(1) && come(1) && come(3) && come(2) && come(2) && come(3));
    // What is not known any more is not carried out.
    assert!(come(5) && !come(2) && !come(1) && !come(0) && come(3) && come(4));
    assert!(come(u64::MAX) && come(u64::MAX) && come(u64::MAX - 2) && !come(u64::MAX - 3));
    assert_eq!(carried_out, [1, 3, 2, 5, 4, u64::MAX, u64::MAX - 2]);
}

#[test]
fn a_sender_has_no_more_numbers_open_than_the_owner_keeps() {
    let mut open = Open::new(2);
    assert_eq!([open.take(), open.take(), open.take()], [Some(1), Some(2), None]);
    open.answered(2);
    assert_eq!(open.take(), None, "the first one is still open");
    open.answered(1);
    open.answered(1);
    assert_eq!([open.take(), open.take(), open.take()], [Some(3), Some(4), None]);
    open.answered(3);
    open.answered(4);
    assert!(open.is_empty());
}

#[test]
fn triggers_make_up_for_those_before_them() {
    let mut counted = Counted::default();
    assert_eq!([2, 1, 2, 5].map(|number| counted.up_to(number)), [Some(2), Some(0), Some(0), Some(3)]);
    assert_eq!((counted.up_to(u64::MAX), counted.last()), (None, 5));
}

/// How the two ends keep to the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conduct {
    Right,
    /// The owner does not look at numbers.
    CarriesOutAgain,
    /// The owner takes all that is not higher than what has come for done.
    KnowsTheHighestOnly,
    /// What is sent again has a new number.
    NumbersAnew,
    /// The sender begins as many as it likes.
    HasNoWindow,
}

/// What the two ends know, and what is under way between them: each thing may be lost, arrive, or arrive and
/// stay, any number of times.
trait World: Clone + Eq + Hash {
    /// All that can happen next; `None`: a rule is broken.
    fn next(&self, conduct: Conduct) -> Option<Vec<Self>>;
    fn is_done(&self) -> bool;
}

/// How many states there are; `None`: a rule is broken in one of them, or one leads nowhere.
fn search(start: impl World, conduct: Conduct) -> Option<usize> {
    let mut seen = HashSet::from([start.clone()]);
    let mut open = vec![start];
    let mut has_ended = false;
    while let Some(world) = open.pop() {
        let next = world.next(conduct)?;
        if next.iter().all(|next| *next == world) && !world.is_done() {
            return None;
        }
        has_ended |= world.is_done();
        open.extend(next.into_iter().filter(|next| seen.insert(next.clone())));
    }
    has_ended.then_some(seen.len())
}

const THREADS: usize = 2;

/// The message that a thread of the sender waits for: its place in the thread's order, and its number.
type Waiting = Option<(u8, u64)>;

/// Threads of a program that send one message after the other, each when the one before it was answered.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Messages {
    of_each: u8,
    /// By number, which thread's message it is, and which of its.
    meaning: BTreeMap<u64, (usize, u8)>,
    open: Open,
    waiting: [Waiting; THREADS],
    begun: [u8; THREADS],
    /// Each once: what arrives and stays arrives as often as one likes.
    under_way: Vec<u64>,
    answers: Vec<(u64, Option<u8>)>,
    owner: Once<u8>,
    /// What the owner's program has of each thread.
    came: [Vec<u8>; THREADS],
}

impl Messages {
    fn new(window: usize, of_each: u8) -> Self {
        Self {
            of_each,
            meaning: BTreeMap::new(),
            open: Open::new(window),
            waiting: [None; THREADS],
            begun: [0; THREADS],
            under_way: Vec::new(),
            answers: Vec::new(),
            owner: Once::new(window),
            came: [const { Vec::new() }; THREADS],
        }
    }

    fn number(&mut self, thread: usize, nth: u8, conduct: Conduct) -> Option<u64> {
        let number = match conduct {
            Conduct::HasNoWindow => self.meaning.last_key_value().map_or(1, |(last, _)| last + 1),
            _ => self.open.take()?,
        };
        self.meaning.insert(number, (thread, nth));
        Some(number)
    }

    fn send(&mut self, number: u64) -> bool {
        let is_new = !self.under_way.contains(&number);
        add(&mut self.under_way, number);
        is_new
    }

    /// The owner gets a message; false: it has carried it out twice, or out of its thread's order.
    fn arrive(&mut self, number: u64, conduct: Conduct) -> bool {
        let (thread, nth) = self.meaning[&number];
        let came = &mut self.came[thread];
        // The outcome: something that differs from message to message.
        let mut act = || {
            came.push(nth);
            nth
        };
        let outcome = match conduct {
            Conduct::CarriesOutAgain => Some(act()),
            Conduct::KnowsTheHighestOnly if number <= self.owner.highest => Some(nth),
            _ => self.owner.carry_out(number, act),
        };
        let is_in_order = came.windows(2).all(|pair| pair[0] < pair[1]);
        add(&mut self.answers, (number, outcome));
        self.forget_answers();
        is_in_order
    }

    /// The sender gets an answer; false: it says something else than has become of the message.
    fn hear(&mut self, number: u64, outcome: Option<u8>) -> bool {
        let is_it = |waiting: &Waiting| waiting.is_some_and(|(_, its)| its == number);
        let Some(thread) = self.waiting.iter().position(is_it) else { return true };
        let nth = self.waiting[thread].take().map(|(nth, _)| nth);
        self.open.answered(number);
        self.forget_answers();
        outcome == nth && nth.is_some_and(|nth| self.came[thread].contains(&nth))
    }

    /// Those that nobody waits for do nothing.
    fn forget_answers(&mut self) {
        let waiting = self.waiting;
        self.answers.retain(|(number, _)| waiting.iter().flatten().any(|(_, its)| its == number));
    }
}

impl World for Messages {
    fn next(&self, conduct: Conduct) -> Option<Vec<Self>> {
        let mut all = Vec::new();
        for thread in 0..THREADS {
            let mut after = self.clone();
            let is_sent = match after.waiting[thread] {
                // Another rail has taken over, whether or not what was sent is lost.
                Some((nth, _)) if conduct == Conduct::NumbersAnew => {
                    let number = after.number(thread, nth, conduct);
                    after.waiting[thread] = number.map(|number| (nth, number));
                    number.is_some_and(|number| after.send(number))
                }
                Some((_, number)) => after.send(number),
                None if after.begun[thread] == self.of_each => false,
                None => {
                    let nth = after.begun[thread];
                    let number = after.number(thread, nth, conduct);
                    after.begun[thread] += u8::from(number.is_some());
                    after.waiting[thread] = number.map(|number| (nth, number));
                    number.is_some_and(|number| after.send(number))
                }
            };
            if is_sent {
                all.push(after);
            }
        }
        for at in 0..self.under_way.len() {
            let number = self.under_way[at];
            for (arrives, stays) in [(false, false), (true, false), (true, true)] {
                let mut after = self.clone();
                if !stays {
                    after.under_way.remove(at);
                }
                if arrives && !after.arrive(number, conduct) {
                    return None;
                }
                all.push(after);
            }
        }
        for at in 0..self.answers.len() {
            for arrives in [false, true] {
                let mut after = self.clone();
                let (number, outcome) = after.answers.remove(at);
                if arrives && !after.hear(number, outcome) {
                    return None;
                }
                all.push(after);
            }
        }
        Some(all)
    }

    fn is_done(&self) -> bool {
        let all: Vec<u8> = (0..self.of_each).collect();
        self.waiting == [None; THREADS] && self.came.iter().all(|came| *came == all)
    }
}

/// Triggers, and questions how many have been counted, which say how many were made.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Triggers {
    left: u8,
    made: u64,
    confirmed: u64,
    under_way: Vec<u64>,
    questions: Vec<u64>,
    answers: Vec<u64>,
    owner: Counted,
    /// What the owner's program has counted.
    came: u64,
}

impl Triggers {
    fn arrive(&mut self, number: u64, conduct: Conduct) {
        let new = self.owner.up_to(number).unwrap();
        self.came += if conduct == Conduct::CarriesOutAgain { 1 } else { u64::from(new) };
    }

    /// In every way in which things that are under way can go on: with it or without it, and it stays or not.
    fn each(
        &self,
        which: impl Fn(&mut Self) -> &mut Vec<u64>,
        arrive: impl Fn(&mut Self, u64),
        all: &mut Vec<Self>,
    ) {
        let count = which(&mut self.clone()).len();
        for at in 0..count {
            for (arrives, stays) in [(false, false), (true, false), (true, true)] {
                let mut after = self.clone();
                let number = which(&mut after)[at];
                if !stays {
                    which(&mut after).remove(at);
                }
                if arrives {
                    arrive(&mut after, number);
                }
                all.push(after);
            }
        }
    }
}

fn add<T: Ord>(to: &mut Vec<T>, one: T) {
    if !to.contains(&one) {
        to.push(one);
        to.sort_unstable();
    }
}

impl World for Triggers {
    fn next(&self, conduct: Conduct) -> Option<Vec<Self>> {
        let mut all = Vec::new();
        if self.left > 0 {
            let mut after = self.clone();
            (after.left, after.made) = (self.left - 1, self.made + 1);
            // The other thread of two may be the first to send.
            for number in self.made.max(1)..=after.made {
                let mut after = after.clone();
                add(&mut after.under_way, number);
                all.push(after);
            }
        }
        if self.confirmed < self.made {
            let mut after = self.clone();
            add(&mut after.questions, self.made);
            all.push(after);
        }
        self.each(|world| &mut world.under_way, |world, number| world.arrive(number, conduct), &mut all);
        let answer = |world: &mut Self, number| {
            world.arrive(number, conduct);
            let last = world.owner.last();
            add(&mut world.answers, last);
        };
        self.each(|world| &mut world.questions, answer, &mut all);
        let hear = |world: &mut Self, last: u64| world.confirmed = world.confirmed.max(last);
        self.each(|world| &mut world.answers, hear, &mut all);
        // Never more than were made, and what is confirmed has been counted.
        let is_kept = |world: &Self| world.came <= world.made && world.confirmed <= world.came;
        all.iter().all(is_kept).then_some(all)
    }

    fn is_done(&self) -> bool {
        self.left == 0 && self.confirmed == self.made && self.came == self.made
    }
}

#[test]
fn each_message_is_carried_out_once_and_in_its_threads_order_whatever_is_lost_repeated_or_late() {
    for (window, of_each) in [(1, 2), (2, 2), (3, 2), (2, 3)] {
        let states = search(Messages::new(window, of_each), Conduct::Right);
        let states = states.unwrap_or_else(|| panic!("a window of {window}, {of_each} messages of each"));
        println!("a window of {window}, {of_each} messages of each thread: {states} states");
        assert!(states > 500, "the search looks at {states} states only");
    }
}

#[test]
fn triggers_are_counted_once_whatever_is_lost_repeated_or_late() {
    let start = Triggers {
        left: 3,
        made: 0,
        confirmed: 0,
        under_way: Vec::new(),
        questions: Vec::new(),
        answers: Vec::new(),
        owner: Counted::default(),
        came: 0,
    };
    let states = search(start.clone(), Conduct::Right).unwrap();
    println!("3 triggers: {states} states");
    assert!(states > 500, "the search looks at {states} states only");
    assert_eq!(search(start, Conduct::CarriesOutAgain), None);
}

/// All are found by the same search, so the search would notice.
#[test]
fn without_numbers_outcomes_or_window_a_message_is_lost_or_comes_twice() {
    for conduct in
        [Conduct::CarriesOutAgain, Conduct::KnowsTheHighestOnly, Conduct::NumbersAnew, Conduct::HasNoWindow]
    {
        assert_eq!(search(Messages::new(2, 3), conduct), None, "{conduct:?}");
    }
}
