//! The master after the bring-up: hears traps and other managers, and looks for changes at an interval.

use std::collections::BTreeSet;
use std::time::Duration;

use mad::MadTransport;
use mad::notice::trap;
use mad::sm::{PortInfo, SwitchInfo};
use mad::values::SmState;
use mad::windowed::Outcome;
use topology::{Kind, NodeIx};

use super::{Event, ManageError, Manager};
use crate::flaps;
use crate::front::{Front, Kept};
use crate::peer::{Verdict, Way, control, judge};
use crate::set::Subject;

/// Pauses until what could not be set is tried again.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// Changes that were reported, and not looked at yet.
#[derive(Default)]
pub(super) struct Pending {
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
    /// Is master, until another one is or `ended` returns true.
    pub(super) fn preside<T: MadTransport + ?Sized>(
        &mut self,
        front: &mut Front<'_, T>,
        event: &mut dyn FnMut(Event),
        ended: &dyn Fn(Duration) -> bool,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        let mut pending = Pending::default();
        let mut next_look = front.now() + self.options.light_sweep;
        let mut next_poll = front.now();
        self.look_first();
        if self.subnet.is_none() {
            self.need.get_or_insert_with(|| "this manager is master".to_owned());
        }
        while front.desk.me.state == SmState::MASTER && !ended(front.now()) {
            if self.waiting.is_none()
                && let Some(cause) = self.need.take()
            {
                pending = Pending::default();
                self.renew(front, cause, event, stop)?;
                next_look = front.now() + self.options.light_sweep;
                continue;
            }
            // A port that changed between the sweep and the clearing of its switch's mark is found by none
            // other.
            let unsure = std::mem::take(&mut self.unsure);
            if !unsure.is_empty() {
                pending.add(front.now(), || "a look after the bring-up".to_owned(), unsure);
            }
            if front.now() >= next_poll {
                next_poll = front.now() + self.options.poll;
                self.poll_peers(front);
            }
            let due = pending.due(self.options.settle).unwrap_or(next_look).min(next_poll);
            for (port, switches) in self.let_back(front.now()) {
                pending.add(front.now(), || format!("the quarantine of {port} is over"), switches);
            }
            let registered = [
                self.transfers.due(),
                self.registry.subscriptions.due(),
                self.groups_due(),
                self.flaps.due(),
            ];
            let due = registered.into_iter().flatten().fold(due, std::cmp::min);
            // A few at a time: traps and managers do not wait for the end of a flood of requests.
            let due = if self.serve_some(front)? { front.now() } else { due };
            self.write_groups(front, event, stop)?;
            self.confirm_keys(front, stop)?;
            if let Some(kept) = front.desk.next() {
                self.deal(front, &kept, &mut pending)?;
            } else {
                let wait = due.saturating_sub(front.now());
                for done in self.listen(front, wait)? {
                    self.learn_of(front, &done, event, stop)?;
                    if front.desk.me.state != SmState::MASTER {
                        return Ok(());
                    }
                }
            }
            let now = front.now();
            if self.again.is_some_and(|(at, _)| now >= at) {
                self.need.get_or_insert_with(|| "not everything could be set before".to_owned());
            }
            if pending.since.is_none() && now >= next_look {
                next_look = now + self.options.light_sweep;
                let changed = self.light_sweep(front, stop)?;
                if !changed.is_empty() {
                    pending.add(now, || "light sweep".to_owned(), changed);
                }
            }
            if pending.due(self.options.settle).is_some_and(|due| front.now() >= due) {
                let Pending { cause, switches, .. } = std::mem::take(&mut pending);
                self.settle(front, &cause, &switches, event, stop)?;
            }
        }
        Ok(())
    }

    /// Cables whose quarantine is over, each with the switches at its ends, which are to be looked at.
    fn let_back(&mut self, now: Duration) -> Vec<(String, Vec<NodeIx>)> {
        let released = self.flaps.released(now);
        let Some(subnet) = self.subnet.as_ref().filter(|_| !released.is_empty()) else { return Vec::new() };
        let whole = &subnet.model.whole;
        let all = whole
            .links()
            .filter(|(port, _)| flaps::cable(whole, *port).is_some_and(|it| released.contains(&it)));
        all.map(|(a, b)| (fabric::names::place(whole, a), vec![whole.owner(a), whole.owner(b)])).collect()
    }

    /// Sweeps the fabric and brings it up anew, if no other manager is in the way.
    fn renew<T: MadTransport + ?Sized>(
        &mut self,
        front: &mut Front<'_, T>,
        cause: String,
        event: &mut dyn FnMut(Event),
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        let around = match self.look_round(front, &mut |_| (), stop) {
            Err(ManageError::NoLink) if self.has_served => {
                self.become_discovering(front, "this port has no link".to_owned(), event);
                return Ok(());
            }
            around => around?,
        };
        match judge(&front.desk.me.rank(), true, &around.peers) {
            Verdict::Yield(peer) => {
                if !self.hand_over(front, peer, event, stop)? {
                    // It is asked again at the next interval, and so is the rest done then.
                    self.need = Some(cause);
                    self.rest(front, self.options.poll, stop)?;
                }
                return Ok(());
            }
            Verdict::Wait(peer) => {
                self.need = Some(cause);
                return self.wait_for(front, &peer, event);
            }
            Verdict::Stranger(peer) => return Err(Self::stranger(&peer)),
            Verdict::Manage | Verdict::StandBy(_) => {}
        }
        let up = self.up(front, around, &mut |_| (), stop)?;
        self.done(front.now(), up.failed_sets == 0 && up.active_links == up.links);
        event(Event::BroughtUp(cause, Box::new(up)));
        self.look_at_ports(true);
        Ok(())
    }

    /// Everything was set, or not: then it is tried again, after pauses that grow. A link that went down and
    /// up again meanwhile looks as it did before, and refuses the next step.
    pub(super) fn done(&mut self, now: Duration, whole: bool) {
        let before = self.again.take().map(|(_, pause)| pause * 2);
        if !whole {
            let pause = before.unwrap_or(FIRST_PAUSE).min(LONGEST_PAUSE);
            self.again = Some((now + pause, pause));
        }
    }

    /// Deals with what the desk kept.
    fn deal<T: MadTransport + ?Sized>(
        &mut self,
        front: &mut Front<'_, T>,
        kept: &Kept,
        pending: &mut Pending,
    ) -> Result<(), ManageError> {
        match kept {
            Kept::Trap(notice, from) => {
                let model = self.subnet.as_ref().map(|subnet| &subnet.model);
                let port = model.and_then(|model| Some(model.graph.port_guid(model.lids.port(from.0)?)));
                if let Some(guid) = port {
                    self.registry.pass_on(notice, mad::Guid(guid));
                }
                match notice.number() {
                    trap::MANAGEMENT_KEY => self.was_asked_with_wrong_key(*from),
                    trap::LINK_STATE => {
                        let switch = model.and_then(|model| model.switch_of(*from));
                        let cause = || format!("trap {} from LID {from}", trap::LINK_STATE);
                        switch.into_iter().for_each(|switch| pending.add(front.now(), cause, [switch]));
                    }
                    // Perhaps a manager began there, or its priority changed.
                    trap::CAPABILITY if from.is_unicast() => front.desk.asked_by(Way::Lid(*from)),
                    _ => {}
                }
            }
            Kept::Told { modifier: control::HANDOVER, sender, by } => {
                self.waiting = None;
                self.need = Some(format!("{} handed over", sender.guid()));
                Self::acknowledge(front, *by)?;
            }
            Kept::Told { .. } => {}
        }
        Ok(())
    }

    /// Repairs. If there is something new, the fabric is to be brought up anew.
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
            Ok(repaired) => {
                self.look_at_ports(false);
                self.done(
                    transport.now(),
                    repaired.failed_sets == 0 && repaired.active_links == repaired.links,
                );
                event(Event::Repaired(Box::new(repaired)));
            }
            Err(what) => self.need = Some(format!("{cause}: {what}")),
        }
        Ok(())
    }

    /// Asks every switch whether a port changed: those that say so, and those that do not respond, with their
    /// neighbours, who know their cables from the other end. If a switch names another manager, or none
    /// responds, the fabric is to be swept.
    fn light_sweep<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        stop: &dyn Fn() -> bool,
    ) -> Result<BTreeSet<NodeIx>, ManageError> {
        let mut changed = BTreeSet::new();
        let Some(subnet) = &self.subnet else { return Ok(changed) };
        let (model, graph) = (&subnet.model, &subnet.model.graph);
        let requests = graph.nodes_of(Kind::Switch).flat_map(|node| {
            let subjects = [Some(Subject::Switch(node)), graph.port(node, 0).map(Subject::Port)];
            let path = model.path(node);
            subjects
                .into_iter()
                .flatten()
                .filter_map(move |subject| Some((subject, subject.get(graph, &path?))))
        });
        let (mut responded, mut silent, mut foreign) = (0_usize, 0_usize, None);
        let mut done = |subject: Subject, outcome: Outcome| match (subject, outcome.answer()) {
            (Subject::Switch(node), Some(mad)) => {
                responded += 1;
                if mad.data::<SwitchInfo>().state_change() {
                    changed.insert(node);
                }
            }
            (Subject::Switch(node), None) => {
                silent += 1;
                changed.insert(node);
                let far = graph.cabled(node).map(|(_, far)| graph.owner(far));
                changed.extend(far.filter(|far| graph.kind(*far) == Kind::Switch));
            }
            (Subject::Port(port), Some(mad)) => {
                let other = mad.data::<PortInfo>().sm_lid();
                if other != model.sm_lid() {
                    foreign.get_or_insert((graph.owner(port), other));
                }
            }
            _ => {}
        };
        self.asker.all(transport, requests, &mut done, stop)?;
        if let Some((node, other)) = foreign {
            let name = fabric::names::label(graph, node);
            self.need.get_or_insert(format!("{name} names the subnet manager at LID {other}"));
        }
        if responded == 0 && silent > 0 {
            self.need.get_or_insert("no switch responds".to_owned());
        }
        Ok(changed)
    }
}
