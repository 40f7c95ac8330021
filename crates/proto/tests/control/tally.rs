//! What the random schedules have reached: a schedule in which nothing happens proves nothing.

use std::collections::BTreeMap;
use std::fmt::Debug;

use proto::wire::peer::PeerMessage;
use proto::wire::program::{Event, ToProgram};

#[derive(Debug, Default)]
pub struct Tally(BTreeMap<String, u64>);

impl Tally {
    /// Notes what a program is told.
    pub fn note(&mut self, message: &ToProgram) {
        let kind = match message {
            ToProgram::Reply { result: Ok(reply), .. } => format!("reply {}", name(reply)),
            ToProgram::Reply { result: Err(refusal), .. } => format!("refused {}", name(refusal)),
            ToProgram::Event(Event::Lost { reason, .. }) => format!("lost {}", name(reason)),
            ToProgram::Event(Event::Disconnected { died, .. }) => format!("disconnected died={died}"),
            ToProgram::Event(event) => format!("event {}", name(event)),
            other => name(other),
        };
        self.count(&kind);
    }

    /// Notes what a manager says to another.
    pub fn note_peer(&mut self, message: &PeerMessage) {
        let kind = match message {
            PeerMessage::Request { body, .. } => format!("asks {}", name(body)),
            PeerMessage::Reply { result: Ok(reply), .. } => format!("answers {}", name(reply)),
            PeerMessage::Reply { result: Err(refusal), .. } => format!("denies {}", name(refusal)),
            PeerMessage::Lost { reason, .. } => format!("tells lost {}", name(reason)),
            PeerMessage::Released { died, .. } => format!("tells released died={died}"),
            other => format!("says {}", name(other)),
        };
        self.count(&kind);
    }

    fn count(&mut self, kind: &str) {
        *self.0.entry(kind.to_owned()).or_default() += 1;
    }

    pub fn add(&mut self, other: &Self) {
        for (kind, number) in &other.0 {
            *self.0.entry(kind.clone()).or_default() += number;
        }
    }

    /// Fails unless each of these has happened.
    pub fn has(&self, kinds: &[&str]) {
        let missing: Vec<_> = kinds.iter().filter(|kind| !self.0.contains_key(**kind)).collect();
        assert!(missing.is_empty(), "{missing:?} never happened in {:?}", self.0);
    }
}

/// The variant's name.
fn name(value: &impl Debug) -> String {
    format!("{value:?}").split([' ', '(', '{']).next().unwrap_or_default().to_owned()
}
