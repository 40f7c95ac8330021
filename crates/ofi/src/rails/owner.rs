//! The owner's end of a link over rails: closes end points of rails that failed, says when nothing lands
//! there any more, and opens new ones.
//!
//! Questions of the importer are answered at once, on the thread that makes progress; what takes long is a
//! [`Task`] for the program's own thread, begun once however often the importer asks.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::fence::{Fence, Word};
use super::inbox::Inbox;
use super::orders::Orders;
use super::question::{Answer, Question, reached};
use crate::card::{EndpointCard, MemoryCard};
use crate::message::{ANSWER_WORDS, Answer as Said, Delivery};

/// What the program is to do. It may take its time, and need not say that it failed to close.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// Close the end point of a rail, for all its peers.
    Close {
        /// From 0 on.
        rail: usize,
    },
    /// Open one again, and call [`OwnerRails::opened`].
    Open {
        /// From 0 on.
        rail: usize,
        /// The number that the importer gives the new one.
        generation: u32,
        /// Of the peer that is added there.
        session: u64,
        /// The importer's end point.
        end_point: EndpointCard,
    },
}

/// A new end point of a rail.
#[derive(Debug)]
pub struct Opened {
    /// How it is reached.
    pub end_point: EndpointCard,
    /// The memory there, if the connection leads to any.
    pub memory: Option<MemoryCard>,
    /// Of the importer's peer there.
    pub fence: Fence,
    /// A doorbell there that answers by [`OwnerRails::answer`], or a numbered one.
    pub bell: u64,
}

type Begin = dyn Fn(Task) + Send + Sync;

/// See the module. Of one connection.
pub struct OwnerRails {
    rails: Mutex<Vec<OwnerRail>>,
    begin: Box<Begin>,
    inbox: Option<Inbox>,
    orders: Orders,
}

struct OwnerRail {
    generation: u32,
    /// `None`: what comes late does no harm, so its end point need not be closed, and is not.
    fence: Option<Fence>,
    is_closing: bool,
    opening: Opening,
}

impl OwnerRail {
    fn word(&self) -> Option<Word> {
        self.fence.as_ref().map(Fence::word)
    }
}

enum Opening {
    Nothing,
    Asked(u32),
    /// How the new one is reached, if it could be opened.
    Done(u32, Option<Vec<u8>>),
}

impl std::fmt::Debug for OwnerRails {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnerRails").finish_non_exhaustive()
    }
}

impl OwnerRails {
    /// For the fences of all rails. `begin` is called for each task, on any thread that makes progress: it
    /// must not wait.
    pub fn new(fences: Vec<Fence>, begin: impl Fn(Task) + Send + Sync + 'static) -> Self {
        Self::of(fences.into_iter().map(Some).collect(), Box::new(begin), None)
    }

    /// Of a connection that leads to no memory, over so many rails: all its messages have numbers. `begin` as
    /// above; no rail is closed.
    pub fn with_inbox(rails: usize, inbox: Inbox, begin: impl Fn(Task) + Send + Sync + 'static) -> Self {
        Self::of(vec![None; rails], Box::new(begin), Some(inbox))
    }

    fn of(fences: Vec<Option<Fence>>, begin: Box<Begin>, inbox: Option<Inbox>) -> Self {
        let rail = |fence| OwnerRail { generation: 0, fence, is_closing: false, opening: Opening::Nothing };
        let rails = Mutex::new(fences.into_iter().map(rail).collect());
        Self { rails, begin, inbox, orders: Orders::default() }
    }

    /// A trigger of the importer has come.
    pub(crate) fn ring(&self, number: u64) {
        if let Some(inbox) = &self.inbox {
            inbox.count(number);
        }
    }

    /// A message of the importer has come: what became of it.
    pub(crate) fn take(&self, number: u64, data: &[u8]) -> Option<Delivery> {
        self.inbox.as_ref()?.take(number, data)
    }

    /// Whether what has numbers is about memory.
    pub(crate) fn leads_to_memory(&self) -> bool {
        self.inbox.is_none()
    }

    /// An order of the importer has come: what became of it. `act` carries it out.
    pub(crate) fn order(&self, number: u64, act: impl FnOnce() -> Said) -> Said {
        self.orders.carry_out(number, act)
    }

    fn rails(&self) -> MutexGuard<'_, Vec<OwnerRail>> {
        self.rails.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a question of the importer.
    pub fn answer(&self, question: &[u8]) -> [u64; ANSWER_WORDS] {
        let Some(question) = Question::decode(question) else { return Answer::Refused.words() };
        let (answer, task) = self.decide(question);
        if let Some(task) = task {
            (self.begin)(task);
        }
        answer.words()
    }

    fn decide(&self, question: Question) -> (Answer, Option<Task>) {
        let refused = (Answer::Refused, None);
        let rail = match &question {
            Question::Close { rail, .. } | Question::Open { rail, .. } | Question::Part { rail, .. } => {
                usize::from(*rail)
            }
            Question::Triggered { made } => {
                let last = self.inbox.as_ref().map(|inbox| inbox.last(*made));
                return (last.map_or(Answer::Refused, Answer::Counted), None);
            }
        };
        let mut rails = self.rails();
        let Some(its) = rails.get_mut(rail) else { return refused };
        match question {
            Question::Close { generation, .. } if generation == its.generation => match its.word() {
                Some(Word::Closed) => (Answer::Closed, None),
                Some(Word::InDoubt) | None => refused,
                Some(Word::Open) => {
                    let is_new = !std::mem::replace(&mut its.is_closing, true);
                    (Answer::Wait, is_new.then_some(Task::Close { rail }))
                }
            },
            Question::Open { generation, session, end_point, .. } => match &its.opening {
                Opening::Asked(asked) if *asked == generation => (Answer::Wait, None),
                Opening::Done(done, Some(bytes)) if *done == generation => {
                    (Answer::Open { bytes: bytes.len() as u32 }, None)
                }
                Opening::Done(done, None) if *done == generation => refused,
                // One at a time, so that the importer cannot heap up tasks.
                Opening::Asked(_) => (Answer::Wait, None),
                _ if generation > its.generation => {
                    its.opening = Opening::Asked(generation);
                    (Answer::Wait, Some(Task::Open { rail, generation, session, end_point }))
                }
                _ => refused,
            },
            Question::Part { generation, nth, .. } => match &its.opening {
                Opening::Done(done, Some(bytes)) if *done == generation => {
                    (Answer::part(bytes, nth as usize), None)
                }
                _ => refused,
            },
            Question::Close { .. } | Question::Triggered { .. } => refused,
        }
    }

    /// A rail has a new end point, with memory there, or could not get one.
    pub fn opened(&self, rail: usize, generation: u32, new: Option<Opened>) {
        let mut rails = self.rails();
        let Some(its) = rails.get_mut(rail) else { return };
        let bytes = new.map(|Opened { end_point, memory, fence, bell }| {
            let fence = its.fence.is_some().then_some(fence);
            (its.generation, its.fence, its.is_closing) = (generation, fence, false);
            reached(&end_point, memory.as_ref(), bell)
        });
        its.opening = Opening::Done(generation, bytes);
    }
}
