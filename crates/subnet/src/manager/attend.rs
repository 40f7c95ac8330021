//! After the bring-up: hears traps and other managers, and looks for changes at an interval.

use std::collections::BTreeSet;
use std::time::Duration;

use mad::notice::trap;
use mad::sm::SwitchInfo;
use mad::windowed::Outcome;
use mad::{Address, Guid, Mad, MadTransport, Received};
use topology::{Kind, NodeIx};

use super::{ManageError, Manager};
use crate::hearing::{Heard, Myself, back_to, heard};
use crate::report::{BroughtUp, Repaired};
use crate::set::Subject;

/// Between two looks whether to stop.
const TICK: Duration = Duration::from_millis(50);
/// Datagrams that came while nothing could be done about them.
const MOST_LATER: usize = 4096;
/// How often a response is tried to be sent, and for how long what comes is taken in between.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(1);

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A change was repaired.
    Repaired(Box<Repaired>),
    /// Something new was found, and the fabric was swept and brought up anew: why, and what came of it.
    BroughtUp(String, Box<BroughtUp>),
}

/// Changes that were reported, and not looked at yet.
#[derive(Default)]
struct Pending {
    since: Option<Duration>,
    /// When the last of them was reported.
    last: Duration,
    cause: String,
    switches: BTreeSet<NodeIx>,
}

impl Pending {
    /// When they are to be looked at: when no further one came for `settle`, or ten times that have passed.
    fn due(&self, settle: Duration) -> Option<Duration> {
        self.since.map(|since| (self.last + settle).min(since + settle * 10))
    }

    fn add(
        &mut self,
        now: Duration,
        cause: impl FnOnce() -> String,
        switches: impl IntoIterator<Item = NodeIx>,
    ) {
        if self.since.is_none() {
            (self.since, self.cause) = (Some(now), cause());
        }
        self.last = now;
        self.switches.extend(switches);
    }
}

impl Manager {
    pub(super) fn keep_for_later(&mut self, received: Received) {
        if self.later.len() < MOST_LATER {
            self.later.push_back(received);
        }
    }

    /// Attends to the fabric until `stop` returns true, or at the longest until `until` by the transport's
    /// clock. `event` gets what happened.
    ///
    /// # Errors
    /// Those of [`bring_up`](Self::bring_up), which it calls where nodes or cables are new.
    pub fn attend<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        until: Option<Duration>,
        event: &mut dyn FnMut(Event),
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        let mut pending = Pending::default();
        let mut next_look = transport.now() + self.options.light_sweep;
        // A port that changed between the sweep and the clearing of its switch's mark is found by none other.
        let unsure = std::mem::take(&mut self.unsure);
        if !unsure.is_empty() {
            pending.add(transport.now(), || "a look after the bring-up".to_owned(), unsure);
        }
        while !stop() && until.is_none_or(|until| transport.now() < until) {
            let due = pending.due(self.options.settle).unwrap_or(next_look);
            let wait = due.saturating_sub(transport.now()).min(TICK);
            let received = match self.later.pop_front().or_else(|| self.asker.heard()) {
                Some(received) => Some(received),
                None => transport.receive(wait)?,
            };
            let now = transport.now();
            if let Some(received) = received {
                if let Some(switch) = self.respond(transport, &received)? {
                    let cause = || format!("trap {} from LID {}", trap::LINK_STATE, received.from.lid);
                    pending.add(now, cause, [switch]);
                }
            } else if pending.since.is_none() && now >= next_look {
                next_look = now + self.options.light_sweep;
                let changed = self.light_sweep(transport, stop)?;
                if !changed.is_empty() {
                    pending.add(now, || "light sweep".to_owned(), changed);
                }
            }
            if pending.due(self.options.settle).is_some_and(|due| transport.now() >= due) {
                let Pending { cause, switches, .. } = std::mem::take(&mut pending);
                self.settle(transport, &cause, &switches, event, stop)?;
            }
        }
        Ok(())
    }

    /// Repairs, or brings the fabric up anew if there is something new.
    fn settle<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        cause: &str,
        switches: &BTreeSet<NodeIx>,
        event: &mut dyn FnMut(Event),
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        let result = match self.subnet.take() {
            Some(mut subnet) => {
                let result = self.repair(transport, &mut subnet, cause, switches, stop);
                self.subnet = Some(subnet);
                result?
            }
            None => Err("the fabric was not brought up".to_owned()),
        };
        match result {
            Ok(repaired) if repaired.is_empty() => {}
            Ok(repaired) => event(Event::Repaired(Box::new(repaired))),
            Err(what) => {
                let up = self.bring_up(transport, &mut |_| (), stop)?;
                event(Event::BroughtUp(format!("{cause}: {what}"), Box::new(up)));
            }
        }
        Ok(())
    }

    /// Asks every switch whether a port changed: those that say so, and those that do not respond, with their
    /// neighbours, who know their cables from the other end.
    fn light_sweep<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        stop: &dyn Fn() -> bool,
    ) -> Result<BTreeSet<NodeIx>, ManageError> {
        self.activity = self.activity.wrapping_add(1);
        let mut changed = BTreeSet::new();
        let Some(subnet) = &self.subnet else { return Ok(changed) };
        let (model, graph) = (&subnet.model, &subnet.model.graph);
        let requests = graph.nodes_of(Kind::Switch).filter_map(|node| {
            let subject = Subject::Switch(node);
            Some((subject, subject.get(graph, &model.path(node)?)))
        });
        let mut done = |subject: Subject, outcome: Outcome| {
            let Subject::Switch(node) = subject else { return };
            match outcome.answer() {
                Some(mad) if mad.data::<SwitchInfo>().state_change() => drop(changed.insert(node)),
                Some(_) => {}
                None => {
                    changed.insert(node);
                    let far = graph.cabled(node).map(|(_, far)| graph.owner(far));
                    changed.extend(far.filter(|far| graph.kind(*far) == Kind::Switch));
                }
            }
        };
        self.asker.all(transport, requests, &mut done, stop)?;
        Ok(changed)
    }

    /// Responds to what came. The switch concerned, if it is the trap of a changed link.
    fn respond<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        received: &Received,
    ) -> Result<Option<NodeIx>, ManageError> {
        self.activity = self.activity.wrapping_add(1);
        let guid = self.subnet.as_ref().map_or(Guid(0), |subnet| subnet.model.sm_guid());
        let myself = Myself { guid, priority: self.options.priority, activity: self.activity };
        let (response, switch) = match heard(received, &myself) {
            Heard::Trap { number, from, response } => {
                let subnet = self.subnet.as_ref().filter(|_| number == trap::LINK_STATE);
                (response, subnet.and_then(|subnet| subnet.model.switch_of(from)))
            }
            Heard::Request { response } => (response, None),
            Heard::Other => return Ok(None),
        };
        self.send_soon(transport, &back_to(received), &response)?;
        Ok(switch)
    }

    /// Sends what nobody responds to. If there is no room for long it is lost, as on a network: traps and
    /// requests are repeated by who sent them.
    fn send_soon<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        to: &Address,
        mad: &Mad,
    ) -> Result<(), ManageError> {
        for _ in 0..TRIES {
            if transport.send(to, mad)? {
                break;
            }
            if let Some(received) = transport.receive(PAUSE)? {
                self.keep_for_later(received);
            }
        }
        Ok(())
    }
}
