//! Which receive gets which message.
//!
//! The rules are those of MPI and of libfabric: a message goes to the receive that was posted first of all that match it; a receive takes
//! the message that arrived first of all that match it, and messages of one sender arrive in the order in which they were sent. So a
//! message never overtakes another of the same sender for the same receive.
//!
//! Both queues are searched from their beginning. That is right at any length and fast while they are short.

use std::collections::VecDeque;

use super::name::PeerId;

/// What a receive wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    /// Of this sender alone, if there is one.
    pub(crate) source: Option<PeerId>,
    /// With this tag, …
    pub(crate) tag: u64,
    /// … but for these bits.
    pub(crate) ignore: u64,
}

/// What a message says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) source: PeerId,
    pub(crate) tag: u64,
    /// The sender's word for the receiver's completion, if it sent one.
    pub(crate) data: Option<u64>,
    /// Length of the whole message.
    pub(crate) len: usize,
}

impl Want {
    /// Whether the receive takes the message.
    #[inline]
    pub(crate) fn takes(&self, envelope: &Envelope) -> bool {
        (self.tag ^ envelope.tag) & !self.ignore == 0
            && self.source.is_none_or(|source| source == envelope.source)
    }
}

/// Receives that wait for messages, and messages that wait for receives; never both of a pair that matches.
#[derive(Debug)]
pub(crate) struct Matcher<R, M> {
    receives: VecDeque<(Want, R)>,
    messages: VecDeque<(Envelope, M)>,
}

impl<R, M> Default for Matcher<R, M> {
    fn default() -> Self {
        Self { receives: VecDeque::new(), messages: VecDeque::new() }
    }
}

impl<R, M> Matcher<R, M> {
    /// The message that a receive gets now, if one waits.
    pub(crate) fn take_message(&mut self, want: &Want) -> Option<(Envelope, M)> {
        let at = self.messages.iter().position(|(envelope, _)| want.takes(envelope))?;
        self.messages.remove(at)
    }

    /// What that message would be. It stays.
    pub(crate) fn peek(&self, want: &Want) -> Option<&Envelope> {
        self.messages.iter().map(|(envelope, _)| envelope).find(|envelope| want.takes(envelope))
    }

    /// Lets a receive wait: the caller has found no message for it.
    pub(crate) fn post(&mut self, want: Want, receive: R) {
        debug_assert!(self.peek(&want).is_none());
        self.receives.push_back((want, receive));
    }

    /// The place of the receive that a message goes to, if one waits.
    #[inline]
    pub(crate) fn find_receive(&self, envelope: &Envelope) -> Option<usize> {
        self.receives.iter().position(|(want, _)| want.takes(envelope))
    }

    pub(crate) fn receive(&self, at: usize) -> Option<&R> {
        self.receives.get(at).map(|(_, receive)| receive)
    }

    pub(crate) fn remove_receive(&mut self, at: usize) -> Option<R> {
        self.receives.remove(at).map(|(_, receive)| receive)
    }

    /// Removes the first receive that is meant, if it still waits.
    pub(crate) fn cancel(&mut self, is_meant: impl Fn(&R) -> bool) -> Option<(Want, R)> {
        let at = self.receives.iter().position(|(_, receive)| is_meant(receive))?;
        self.receives.remove(at)
    }

    /// Lets a message wait: the caller has found no receive for it.
    pub(crate) fn keep(&mut self, envelope: Envelope, message: M) {
        debug_assert!(self.find_receive(&envelope).is_none());
        self.messages.push_back((envelope, message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A step of a program: a receive is posted, or a message arrives.
    #[derive(Clone, Debug)]
    enum Step {
        Post(Want),
        Arrive(Envelope),
        Cancel(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        // Few values, so that much matches.
        let want = (prop::option::of(0..3u32), 0..4u64, prop::sample::select(vec![0, 1, 3, u64::MAX]))
            .prop_map(|(source, tag, ignore)| Step::Post(Want { source, tag, ignore }));
        let message = (0..3u32, 0..4u64)
            .prop_map(|(source, tag)| Step::Arrive(Envelope { source, tag, data: None, len: 0 }));
        prop::collection::vec(
            prop_oneof![4 => want, 4 => message, 1 => (0..40usize).prop_map(Step::Cancel)],
            0..80,
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
            match at {
                Some(at) => self.messages[at] = None,
                None => self.receives.push(Some(want)),
            }
            if at.is_some() {
                self.receives.push(None);
            }
            at
        }

        fn arrive(&mut self, envelope: Envelope) -> Option<usize> {
            let at = self.receives.iter().position(|r| r.as_ref().is_some_and(|r| r.takes(&envelope)));
            match at {
                Some(at) => self.receives[at] = None,
                None => self.messages.push(Some(envelope)),
            }
            if at.is_some() {
                self.messages.push(None);
            }
            at
        }
    }

    proptest! {
        #[test]
        fn each_pair_is_that_of_the_definition(steps in steps()) {
            let (mut model, mut matcher) = (Model::default(), Matcher::<usize, usize>::default());
            for step in steps {
                match step {
                    Step::Post(want) => {
                        let number = model.receives.len();
                        let expected = model.post(want);
                        let peeked = matcher.peek(&want).copied();
                        let got = matcher.take_message(&want);
                        prop_assert_eq!(peeked, got.map(|(envelope, _)| envelope));
                        prop_assert_eq!(got.map(|(_, message)| message), expected);
                        if got.is_none() {
                            matcher.post(want, number);
                        }
                    }
                    Step::Arrive(envelope) => {
                        let number = model.messages.len();
                        let expected = model.arrive(envelope);
                        let at = matcher.find_receive(&envelope);
                        let got = at.and_then(|at| matcher.remove_receive(at));
                        prop_assert_eq!(got, expected);
                        if got.is_none() {
                            matcher.keep(envelope, number);
                        }
                    }
                    Step::Cancel(number) => {
                        let there = model.receives.get_mut(number).and_then(Option::take);
                        prop_assert_eq!(matcher.cancel(|n| *n == number).map(|(want, _)| want), there);
                    }
                }
            }
        }
    }

    #[test]
    fn ignored_bits_do_not_count_and_others_do() {
        let want = Want { source: None, tag: 0b1000, ignore: 0b0011 };
        let with = |tag| Envelope { source: 7, tag, data: None, len: 0 };
        assert!(want.takes(&with(0b1011)) && !want.takes(&with(0b1100)));
        assert!(!Want { source: Some(6), ..want }.takes(&with(0b1000)));
    }
}
