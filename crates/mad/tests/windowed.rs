//! The windowed client, on a network in the same process whose time is virtual.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test's helpers"
)]

use std::time::Duration;

use mad::header::{Path, Smp};
use mad::in_process::{Fabric, InProcess};
use mad::injure::{Harm, Injured};
use mad::values::{Method, Status};
use mad::windowed::{Done, Limits, Outcome, Windowed};
use mad::{Address, Mad, MadTransport, Received};

/// Responds to each request, after a while, with what `0` makes of it; `None` is silence.
struct Echo<A>(A);

impl<A: FnMut(&Mad) -> Option<Received>> Fabric for Echo<A> {
    fn carry(&mut self, _: Duration, _: &Address, mad: &Mad, back: &mut Vec<(Duration, Received)>) {
        back.extend((self.0)(mad).map(|received| (Duration::from_micros(10), received)));
    }
}

fn answer(mad: &Mad) -> Received {
    let mut mad = *mad;
    mad.header_mut().set_method(Method::GET_RESPONSE);
    Received { from: Address::DIRECTED, mad, undelivered: false }
}

fn question(modifier: u32) -> Mad {
    Smp::directed(Method::GET, 0x15, modifier, &Path::LOCAL)
}

fn all<F: Fabric>(transport: &mut InProcess<F>, client: &mut Windowed<u32>) -> Vec<Done<u32>> {
    let mut done = Vec::new();
    while client.open() > 0 {
        client.drive(transport, Duration::from_secs(1), &mut done).unwrap();
    }
    done
}

fn asking(limits: Limits, count: u32) -> Windowed<u32> {
    let mut client = Windowed::starting_at(limits, u32::MAX - 5);
    (0..count).for_each(|key| client.ask(Address::DIRECTED, question(key), key));
    client
}

#[test]
fn every_question_ends_once_and_with_its_own_answer() {
    let harm = Harm { lose: 200, double: 200, delay: 300, garble: 0, late_by: Duration::from_secs(3) };
    for seed in 0..20 {
        let mut transport = InProcess::new(Injured::new(Echo(|mad: &Mad| Some(answer(mad))), harm, seed));
        let mut client = asking(Limits { window: 32, retries: 30, ..Limits::default() }, 500);
        let mut done = all(&mut transport, &mut client);
        done.sort_by_key(|done| done.key);
        assert_eq!(done.len(), 500);
        for (key, done) in (0..).zip(&done) {
            assert_eq!(done.key, key);
            assert_eq!(done.outcome.answer().unwrap().header().modifier(), key);
        }
        let tally = client.tally();
        assert!(tally.strays > 0 && tally.repeated > 0, "{tally:?}");
        assert_eq!((tally.answered, tally.sent), (500, 500 + tally.repeated));
    }
}

#[test]
fn silence_takes_as_long_as_was_said_and_not_longer() {
    let mut transport = InProcess::new(Echo(|_: &Mad| None));
    let limits = Limits { window: 0, timeout: Duration::from_millis(100), retries: 4 };
    let mut client = asking(limits, 1);
    let done = all(&mut transport, &mut client);
    assert!(matches!(done.as_slice(), [Done { key: 0, outcome: Outcome::Silent }]));
    assert_eq!(transport.now(), Duration::from_millis(500));
    assert_eq!(client.tally().sent, 5);
}

#[test]
fn what_can_not_be_delivered_is_repeated_and_then_named() {
    let mut transport = InProcess::new(Echo(|mad: &Mad| {
        Some(Received { from: Address::DIRECTED, mad: *mad, undelivered: true })
    }));
    let mut client = asking(Limits { retries: 2, ..Limits::default() }, 3);
    let done = all(&mut transport, &mut client);
    assert_eq!(done.iter().filter(|done| matches!(done.outcome, Outcome::Unreachable)).count(), 3);
    assert_eq!(client.tally().sent, 9);
}

#[test]
fn refusals_are_answers_and_who_is_busy_is_asked_again() {
    let mut times = 0;
    let mut transport = InProcess::new(Echo(move |mad: &Mad| {
        let mut received = answer(mad);
        times += 1;
        let status =
            if mad.header().modifier() == 0 { Status::BAD_FIELD } else { Status(u16::from(times < 4)) };
        received.mad.smp_mut().header_mut().set_status(status);
        Some(received)
    }));
    let mut client = asking(Limits::default(), 2);
    let mut done = all(&mut transport, &mut client);
    done.sort_by_key(|done| done.key);
    assert!(matches!(done[0].outcome, Outcome::Refused(_, Status::BAD_FIELD)));
    assert!(matches!(done[1].outcome, Outcome::Answer(_)), "{done:?}");
}

#[test]
fn answers_to_something_else_are_no_answers() {
    for lie in 0..4 {
        let mut transport = InProcess::new(Echo(move |mad: &Mad| {
            let mut received = answer(mad);
            let header = received.mad.header_mut();
            match lie {
                0 => header.set_attribute(0x11),
                1 => header.set_modifier(77),
                2 => header.set_method(Method::GET),
                _ => header.set_transaction(12345),
            };
            Some(received)
        }));
        let mut client = asking(Limits::default(), 2);
        let done = all(&mut transport, &mut client);
        assert!(done.iter().all(|done| matches!(done.outcome, Outcome::Silent)), "lie {lie}");
        assert_eq!(client.tally().strays, 8);
    }
}

#[test]
fn traps_of_others_are_kept_for_who_asks_for_them_and_no_more_than_that() {
    let trap = |number: u32| {
        let mut mad = Mad::new(mad::values::Class::SUBNET, Method::TRAP, mad::sm::attribute::NOTICE, 0);
        // The number of a request in flight, too.
        mad.header_mut().set_transaction(number.into());
        Received { from: Address::management(mad::Lid(7)), mad, undelivered: false }
    };
    for (most, kept) in [(0, 0), (3, 3), (100, 5)] {
        let mut transport = InProcess::new(Echo(|mad: &Mad| Some(answer(mad))));
        (0..5).for_each(|number| transport.inject(Duration::from_nanos(number.into()), trap(number)));
        let mut client = Windowed::starting_at(Limits::default(), 0).hearing(most);
        (0..20).for_each(|key| client.ask(Address::DIRECTED, question(key), key));
        let done = all(&mut transport, &mut client);
        assert!(done.len() == 20 && done.iter().all(|done| done.outcome.answer().is_some()));
        let heard: Vec<u64> =
            std::iter::from_fn(|| client.heard()).map(|it| it.mad.header().transaction()).collect();
        assert_eq!(heard, (0..kept).collect::<Vec<_>>());
        assert_eq!(client.tally().strays, 5 - kept);
    }
}
