//! The matcher against the definition.

use super::*;
use proptest::prelude::*;

/// A step of a program: a receive is posted, a message arrives, a receive is cancelled.
#[derive(Clone, Debug)]
enum Step {
    Post(Want),
    Arrive(Envelope),
    Cancel(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Few values, so that much matches.
    let want = (prop::option::of(0..3_u32), 0..4_u64, prop::sample::select(vec![0, 0, 0, 1, 3, u64::MAX]))
        .prop_map(|(source, tag, ignore)| Step::Post(Want { source, tag, ignore }));
    let message = (0..3_u32, 0..4_u64)
        .prop_map(|(source, tag)| Step::Arrive(Envelope { source, tag, data: None, len_bytes: 0 }));
    prop::collection::vec(
        prop_oneof![4 => want, 4 => message, 1 => (0..40_usize).prop_map(Step::Cancel)],
        0..120,
    )
}

/// By the definition: of all receives ever posted and messages ever arrived, in their order.
#[derive(Default)]
struct Model {
    receives: Vec<Option<Want>>,
    messages: Vec<Option<Envelope>>,
}

impl Model {
    fn post(&mut self, want: Want) -> Option<usize> {
        let at = self.messages.iter().position(|m| m.as_ref().is_some_and(|m| want.takes(m)));
        if let Some(at) = at {
            self.messages[at] = None;
        }
        self.receives.push(at.is_none().then_some(want));
        at
    }

    fn arrive(&mut self, envelope: Envelope) -> Option<usize> {
        let at = self.receives.iter().position(|r| r.as_ref().is_some_and(|r| r.takes(&envelope)));
        if let Some(at) = at {
            self.receives[at] = None;
        }
        self.messages.push(at.is_none().then_some(envelope));
        at
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]
    #[test]
    fn each_pair_is_that_of_the_definition(steps in steps()) {
        let (mut model, mut matcher) = (Model::default(), Matcher::<usize, usize>::default());
        let mut places = Vec::new();
        for step in steps {
            match step {
                Step::Post(want) => {
                    let number = model.receives.len();
                    let expected = model.post(want);
                    let peeked = matcher.peek(&want).map(|(envelope, message)| (*envelope, *message));
                    let got = matcher.take_message(&want);
                    prop_assert_eq!(peeked, got);
                    prop_assert_eq!(got.map(|(_, message)| message), expected);
                    places.push(got.is_none().then(|| match matcher.post_place(&want) {
                        Some((place, receive)) => {
                            *receive = number;
                            place
                        }
                        None => matcher.post(want, number),
                    }));
                }
                Step::Arrive(envelope) => {
                    let number = model.messages.len();
                    let expected = model.arrive(envelope);
                    let found = matcher.find_receive(&envelope);
                    let seen = found.and_then(|found| matcher.found(found).copied());
                    let exact = matcher.find_exact(envelope.source, envelope.tag);
                    let got = match exact {
                        Some(exact) if number % 2 == 0 => {
                            let got = matcher.found_exact(exact).copied();
                            matcher.vacate_exact(exact);
                            got
                        }
                        _ => found.and_then(|found| matcher.take_found(found)),
                    };
                    prop_assert_eq!(seen, got);
                    prop_assert_eq!(got, expected);
                    if got.is_none() {
                        matcher.keep(envelope, number);
                    }
                }
                Step::Cancel(number) => {
                    let there = model.receives.get_mut(number).and_then(Option::take);
                    let place = places.get(number).copied().flatten();
                    let got = place.and_then(|place| matcher.remove_receive(place));
                    prop_assert_eq!(got, there.map(|_| number));
                }
            }
            let waiting = model.receives.iter().flatten();
            for source in 0..3 {
                let is_of = waiting.clone().any(|want| want.source == Some(source));
                prop_assert_eq!(matcher.receive_from(source).is_some(), is_of);
                let could = is_of || waiting.clone().any(|want| want.source.is_none());
                prop_assert_eq!(matcher.could_take_from(source), could);
            }
            prop_assert_eq!(matcher.exact.len() + matcher.wild.len(), waiting.count());
            prop_assert_eq!(matcher.messages.len(), model.messages.iter().flatten().count());
        }
    }
}

#[test]
fn ignored_bits_do_not_count_and_others_do() {
    let want = Want { source: None, tag: 0b1000, ignore: 0b0011 };
    let with = |tag| Envelope { source: 7, tag, data: None, len_bytes: 0 };
    assert!(want.takes(&with(0b1011)) && !want.takes(&with(0b1100)));
    assert!(!Want { source: Some(6), ..want }.takes(&with(0b1000)));
}
