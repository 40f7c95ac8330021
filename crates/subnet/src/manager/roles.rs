//! The states of a manager among others: it discovers, and then is master or stands by (InfiniBand
//! Architecture Specification, volume 1, 14.4.1).

use std::time::Duration;

use mad::header::{Path, Smp};
use mad::sm::{NodeInfo, SmInfo, attribute};
use mad::values::{Method, SmState};
use mad::windowed::Done;
use mad::{Address, Guid, Lid, MadTransport};

use super::others::Watched;
use super::prepare::Around;
use super::{ManageError, Manager};
use crate::front::{Front, Kept};
use crate::lids;
use crate::model::own_port;
use crate::peer::{Peer, Verdict, control, judge};
use crate::report::{BroughtUp, Grouped, Repaired};
use crate::sa::registry::Registry;

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A change was repaired.
    Repaired(Box<Repaired>),
    /// The fabric was swept and brought up: why, and what came of it.
    BroughtUp(String, Box<BroughtUp>),
    /// Multicast tables were written, as members of groups or cables changed.
    Grouped(Box<Grouped>),
    /// The state among other managers changed, or what is waited for.
    Role {
        /// The state that it has now.
        state: SmState,
        /// Why.
        why: String,
    },
}

impl Manager {
    /// Attends to the fabric until `stop` returns true, or at the longest until `until` by the transport's
    /// clock: discovers, brings it up and repairs it as master, or stands by while another manager does.
    /// `event` gets what happened.
    ///
    /// # Errors
    /// Those of [`bring_up`](Self::bring_up), but for another manager: only one with another key is an error.
    pub fn attend<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        until: Option<Duration>,
        event: &mut dyn FnMut(Event),
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        let ended = |now: Duration| stop() || until.is_some_and(|until| now >= until);
        self.stays = true;
        self.at_desk(transport, |this, front| {
            this.introduce(front, stop)?;
            while !ended(front.now()) {
                match front.desk.me.state {
                    SmState::MASTER => this.preside(front, event, &ended, stop)?,
                    SmState::STANDBY => this.stand_by(front, event, &ended)?,
                    SmState::DISCOVERING => this.discover(front, event, stop)?,
                    _ => this.disabled(front, event, &ended)?,
                }
            }
            Ok(())
        })
    }

    /// Finds out the GUID of its port, by which others know it.
    pub(super) fn introduce<T: MadTransport + ?Sized>(
        &mut self,
        front: &mut Front<'_, T>,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        if front.desk.me.guid == Guid(0) {
            let mad = Smp::directed(Method::GET, attribute::NODE_INFO, 0, &Path::LOCAL);
            let outcomes = self.ask_few(front, std::iter::once(((), Address::DIRECTED, mad)), stop)?;
            let info = outcomes.iter().find_map(|(_, outcome)| outcome.answer());
            let info = info.ok_or(ManageError::Mute)?;
            front.desk.me.guid = info.data::<NodeInfo>().port_guid();
        }
        Ok(())
    }

    /// For those who want to be the only one: is no other manager master, or to be it?
    pub(super) fn only_one<T: MadTransport + ?Sized>(
        &self,
        front: &Front<'_, T>,
        peers: &[Peer],
    ) -> Result<(), ManageError> {
        match judge(&front.desk.me.rank(), false, peers) {
            Verdict::StandBy(peer) => {
                let what = match peer.state {
                    SmState::MASTER => "it is master".to_owned(),
                    state => format!("it is {state}, and goes first with priority {}", peer.rank.priority),
                };
                Err(ManageError::Other { place: peer.place, what })
            }
            Verdict::Stranger(peer) => Err(Self::stranger(&peer)),
            _ => Ok(()),
        }
    }

    pub(super) fn stranger(peer: &Peer) -> ManageError {
        let what = "it is master, and its SM_Key is another one".to_owned();
        ManageError::Other { place: peer.place.clone(), what }
    }

    /// Looks who else is there, and becomes master or stands by.
    fn discover<T: MadTransport + ?Sized>(
        &mut self,
        front: &mut Front<'_, T>,
        event: &mut dyn FnMut(Event),
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        let mut around = match self.look_round(front, &mut |_| (), stop) {
            Err(ManageError::NoLink) if self.has_served => {
                return self.rest(front, self.options.poll, stop);
            }
            around => around?,
        };
        let me = front.desk.me.rank();
        let mut verdict = judge(&me, false, &around.peers);
        if matches!(verdict, Verdict::Manage) {
            self.second_look(front, &mut around.peers, stop)?;
            verdict = judge(&me, false, &around.peers);
        }
        // Somebody may have handed over meanwhile.
        let mut handed_over = false;
        while let Some(kept) = front.desk.next() {
            if let Kept::Told { modifier: control::HANDOVER, by, .. } = kept {
                handed_over = true;
                Self::acknowledge(front, by)?;
            }
        }
        match verdict {
            Verdict::Stranger(peer) => Err(Self::stranger(&peer)),
            Verdict::StandBy(peer) if !handed_over => {
                self.learn_lids(&around)?;
                let is_master = if peer.state == SmState::MASTER { "is master" } else { "goes first" };
                let why = format!("{} {is_master}", peer.words());
                self.become_standby(front, peer, why, event);
                Ok(())
            }
            _ => {
                front.desk.me.state = SmState::MASTER;
                let why = "no other manager is master or goes first".to_owned();
                event(Event::Role { state: SmState::MASTER, why: why.clone() });
                let up = self.up(front, around, &mut |_| (), stop)?;
                self.done(front.now(), up.failed_sets == 0 && up.active_links == up.links);
                event(Event::BroughtUp(why, Box::new(up)));
                self.look_at_ports(true);
                Ok(())
            }
        }
    }

    /// In standby the LIDs that the master gave are known, so that taking over changes none.
    fn learn_lids(&mut self, around: &Around) -> Result<(), ManageError> {
        let graph = &around.found.graph;
        self.record = self.record.learned(&lids::held(graph));
        if let Some(path) = self.options.record.as_deref().filter(|_| self.record != self.written_record) {
            self.record.write(path)?;
            self.written_record = self.record.clone();
        }
        let own = own_port(graph, &around.found.nodes, around.home);
        self.own_lid = Lid(own.map_or(0, |port| graph.lid(port)));
        Ok(())
    }

    pub(super) fn become_standby<T: MadTransport + ?Sized>(
        &mut self,
        front: &mut Front<'_, T>,
        peer: Peer,
        why: String,
        event: &mut dyn FnMut(Event),
    ) {
        front.desk.me.state = SmState::STANDBY;
        (self.registry, self.lost) = (Registry::new(self.options.partitions.as_ref()), true);
        (self.subnet, self.need, self.waiting, self.again) = (None, None, None, None);
        self.superior = Some(Peer { missed: 0, ..peer });
        (self.learns, self.has_served) = (true, true);
        event(Event::Role { state: SmState::STANDBY, why });
    }

    pub(super) fn become_discovering<T: MadTransport + ?Sized>(
        &mut self,
        front: &mut Front<'_, T>,
        why: String,
        event: &mut dyn FnMut(Event),
    ) {
        front.desk.me.state = SmState::DISCOVERING;
        (self.registry, self.lost) = (Registry::new(self.options.partitions.as_ref()), true);
        (self.subnet, self.need, self.waiting, self.again) = (None, None, None, None);
        self.superior = None;
        event(Event::Role { state: SmState::DISCOVERING, why });
    }

    /// Does nothing for so long but answer.
    pub(super) fn rest<T: MadTransport + ?Sized>(
        &self,
        front: &mut Front<'_, T>,
        long: Duration,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        let until = front.now() + long;
        while front.now() < until && !stop() {
            let _ = front.receive(until.saturating_sub(front.now()))?;
        }
        Ok(())
    }

    /// Asks the master whether it lives, until it does not or hands over.
    fn stand_by<T: MadTransport + ?Sized>(
        &mut self,
        front: &mut Front<'_, T>,
        event: &mut dyn FnMut(Event),
        ended: &dyn Fn(Duration) -> bool,
    ) -> Result<(), ManageError> {
        let (mut next_poll, mut not_master) = (front.now(), 0);
        while front.desk.me.state == SmState::STANDBY && !ended(front.now()) {
            while let Some(kept) = front.desk.next() {
                if self.told_in_standby(front, &kept, event)? {
                    return Ok(());
                }
            }
            let Some(superior) = self.superior.clone() else {
                self.become_discovering(front, "no master is known".to_owned(), event);
                return Ok(());
            };
            front.desk.take_askers();
            if front.now() >= next_poll {
                next_poll = front.now() + self.options.poll;
                let (to, mad) = superior.next_way().datagram(Method::GET, 0);
                self.watch.ask(to, mad, Watched::Peer(superior.rank.guid));
                if superior.state == SmState::MASTER && front.desk.me.rank().outranks(&superior.rank) {
                    self.remind(front, &superior)?;
                }
            }
            let wait = next_poll.saturating_sub(front.now());
            for Done { key, outcome } in self.listen(front, wait)? {
                if !matches!(key, Watched::Peer(guid) if guid == superior.rank.guid) {
                    continue;
                }
                let info = outcome.answer().map(|mad| *mad.data::<SmInfo>());
                let Some(superior) = self.superior.as_mut() else { continue };
                match info.filter(|info| info.guid() == superior.rank.guid) {
                    Some(info) => {
                        superior.missed = 0;
                        (superior.state, superior.rank.priority) = (info.state(), info.priority());
                        not_master = if info.state() == SmState::MASTER { 0 } else { not_master + 1 };
                    }
                    None => superior.missed += 1,
                }
                let why = if superior.missed >= self.options.patience {
                    self.gone = Some(superior.rank.guid);
                    "does not respond"
                } else if not_master > self.options.patience {
                    "is not master"
                } else {
                    continue;
                };
                let why = format!("{} {why}", superior.words());
                self.become_discovering(front, why, event);
                return Ok(());
            }
        }
        Ok(())
    }

    /// In standby: another manager told this one to do something. True: it is something else now.
    fn told_in_standby<T: MadTransport + ?Sized>(
        &mut self,
        front: &mut Front<'_, T>,
        kept: &Kept,
        event: &mut dyn FnMut(Event),
    ) -> Result<bool, ManageError> {
        let Kept::Told { modifier, sender, by } = kept else { return Ok(false) };
        match *modifier {
            control::HANDOVER => {
                Self::acknowledge(front, *by)?;
                front.desk.me.state = SmState::MASTER;
                let why = format!("{} handed over", sender.guid());
                self.need = Some(why.clone());
                event(Event::Role { state: SmState::MASTER, why });
            }
            control::DISCOVER => {
                self.become_discovering(front, format!("{} asked for it", sender.guid()), event);
            }
            control::DISABLE => {
                front.desk.me.state = SmState::NOT_ACTIVE;
                let why = format!("{} disabled this manager", sender.guid());
                event(Event::Role { state: SmState::NOT_ACTIVE, why });
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Disabled by a master: does nothing until a master enables it.
    fn disabled<T: MadTransport + ?Sized>(
        &mut self,
        front: &mut Front<'_, T>,
        event: &mut dyn FnMut(Event),
        ended: &dyn Fn(Duration) -> bool,
    ) -> Result<(), ManageError> {
        while !ended(front.now()) {
            while let Some(kept) = front.desk.next() {
                if let Kept::Told { modifier: control::STANDBY, sender, by: Some(by) } = kept {
                    let place = sender.guid().to_string();
                    let peer = Peer::new(&sender, self.options.key, by, Lid(0), place);
                    let why = format!("{} enabled this manager", sender.guid());
                    self.become_standby(front, peer, why, event);
                    return Ok(());
                }
            }
            self.listen(front, self.options.poll)?;
        }
        Ok(())
    }
}
