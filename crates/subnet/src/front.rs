//! Stands between a manager and its transport: what others ask is answered at once, whatever the manager
//! does at the moment. So no other manager takes it for dead while it sweeps or writes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use mad::notice::Notice;
use mad::sa::RmppKind;
use mad::sm::{SmInfo, attribute};
use mad::values::{Class, Method, SmState};
use mad::{Address, Guid, Lid, Mad, MadTransport, Received, TransportError};

use crate::hearing::{Heard, Myself, back_to, heard};
use crate::peer::Way;
use crate::protection::ManagementKey;

/// What is kept until the manager looks at it; further ones are lost, as on a network.
const MOST_KEPT: usize = 4096;
/// Those who asked and are to be asked back; a fabric has few managers.
const MOST_ASKERS: usize = 32;
/// Requests to subnet administration that wait, in all and of one source; further ones get BUSY.
const MOST_ASKED: usize = 16_384;
const MOST_OF_ONE: usize = 256;
/// How often a response is tried to be sent, and for how long what comes is taken in between.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(1);

/// What came and is to be dealt with when there is time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kept {
    /// A trap, from this LID.
    Trap(Notice, Lid),
    /// Another manager told this one to do this, and was told that it will be done.
    Told { modifier: u32, sender: SmInfo, by: Option<Way> },
}

/// What the manager is to others, and what they sent.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) me: Myself,
    /// Goes into requests to ports.
    management_key: ManagementKey,
    /// Sources are told apart by their LIDs without these bits: a port has as many turns as one with a single
    /// LID. Switches whose LIDs differ only in them share their turns.
    path_bits: u16,
    kept: VecDeque<Kept>,
    askers: Vec<Way>,
    /// Requests to subnet administration, by source: each has its turn.
    asked: BTreeMap<Lid, VecDeque<Received>>,
    asked_in_all: usize,
    /// The source that had its turn last.
    served: Lid,
    /// Responses that came while there was no room for one of ours.
    late: VecDeque<Received>,
    /// Subscribers that acknowledged reports, and which.
    acknowledged: VecDeque<(Lid, u64)>,
}

impl Desk {
    pub(crate) fn new(priority: u8, key: u64, management_key: ManagementKey, lmc: u8) -> Self {
        let me = Myself { guid: Guid(0), priority, key, state: SmState::DISCOVERING, activity: 0 };
        Self {
            me,
            management_key,
            path_bits: (1 << lmc.min(7)) - 1,
            kept: VecDeque::new(),
            askers: Vec::new(),
            asked: BTreeMap::new(),
            asked_in_all: 0,
            served: Lid(0),
            late: VecDeque::new(),
            acknowledged: VecDeque::new(),
        }
    }

    /// The oldest that is to be dealt with.
    pub(crate) fn next(&mut self) -> Option<Kept> {
        self.kept.pop_front()
    }

    /// The next acknowledgement of a report.
    pub(crate) fn next_acknowledged(&mut self) -> Option<(Lid, u64)> {
        self.acknowledged.pop_front()
    }

    /// Those who asked since the last call.
    pub(crate) fn take_askers(&mut self) -> Vec<Way> {
        std::mem::take(&mut self.askers)
    }

    /// This one may be a manager, and is to be asked.
    pub(crate) fn asked_by(&mut self, way: Way) {
        if !self.askers.contains(&way) && self.askers.len() < MOST_ASKERS {
            self.askers.push(way);
        }
    }

    /// The next request to subnet administration: the sources have their turns.
    pub(crate) fn next_asked(&mut self) -> Option<Received> {
        let after = (std::ops::Bound::Excluded(self.served), std::ops::Bound::Unbounded);
        let next = self.asked.range(after).next().or_else(|| self.asked.iter().next());
        let source = *next?.0;
        let waiting = self.asked.get_mut(&source)?;
        let received = waiting.pop_front();
        if waiting.is_empty() {
            self.asked.remove(&source);
        }
        self.served = source;
        self.asked_in_all -= usize::from(received.is_some());
        received
    }

    /// A request to subnet administration came. What goes back at once: that it is busy, if too many wait.
    /// Only a master has an administration; others keep silent, as a port without one.
    fn ask(&mut self, received: &Received) -> Option<Mad> {
        if self.me.state != SmState::MASTER {
            return None;
        }
        let rmpp = mad::sa::header(&received.mad).rmpp();
        let is_request = rmpp.flags() & mad::sa::rmpp_flag::ACTIVE == 0 || rmpp.kind() == RmppKind::DATA;
        let source = Lid(received.from.lid.0 & !self.path_bits);
        let waiting = self.asked.entry(source).or_default();
        if waiting.len() >= MOST_OF_ONE || self.asked_in_all >= MOST_ASKED {
            let mut response = received.mad;
            let method = crate::sa::responding(response.header().method());
            response.header_mut().set_method(method);
            if waiting.is_empty() {
                self.asked.remove(&source);
            }
            return is_request.then(|| crate::sa::transfers::busy(&response));
        }
        waiting.push_back(*received);
        self.asked_in_all += 1;
        None
    }

    fn keep(&mut self, kept: Kept) {
        if self.kept.len() < MOST_KEPT {
            self.kept.push_back(kept);
        }
    }

    /// Takes what came. `None`: it is a response, and for somebody else; otherwise what goes back, and
    /// whether there is something to be dealt with.
    fn take(&mut self, received: &Received) -> Option<(Option<Mad>, bool)> {
        let header = received.mad.header();
        let is_administration = header.class() == Class::ADMINISTRATION;
        if is_administration && header.method() == Method::REPORT_RESPONSE && !received.undelivered {
            if self.acknowledged.len() < MOST_KEPT {
                self.acknowledged.push_back((received.from.lid, header.transaction()));
            }
            return Some((None, true));
        }
        if received.undelivered || header.method().is_response() {
            return None;
        }
        if is_administration {
            let response = self.ask(received);
            return Some((response, response.is_none()));
        }
        self.me.activity = self.me.activity.wrapping_add(1);
        let (response, is_kept) = match heard(received, &self.me) {
            Heard::Trap { notice, from, response } => {
                self.keep(Kept::Trap(notice, from));
                (Some(response), true)
            }
            Heard::Asked { by, response } => {
                by.into_iter().for_each(|way| self.asked_by(way));
                (Some(response), false)
            }
            Heard::Told { modifier, sender, by, response } => {
                if let Some(modifier) = modifier {
                    self.keep(Kept::Told { modifier, sender, by });
                }
                (Some(response), modifier.is_some())
            }
            Heard::Foreign { response } => (Some(response), false),
            Heard::Other => (None, false),
        };
        Some((response, is_kept))
    }
}

/// The transport as the manager uses it: only responses come out of it.
pub(crate) struct Front<'a, T: ?Sized> {
    inner: &'a mut T,
    pub(crate) desk: &'a mut Desk,
}

impl<'a, T: MadTransport + ?Sized> Front<'a, T> {
    pub(crate) fn new(inner: &'a mut T, desk: &'a mut Desk) -> Self {
        Self { inner, desk }
    }

    /// Sends what nobody responds to. If there is no room for long it is lost: traps and requests are
    /// repeated by who sent them.
    pub(crate) fn send_soon(&mut self, to: &Address, mad: &Mad) -> Result<(), TransportError> {
        for _ in 0..TRIES {
            if self.inner.send(to, mad)? {
                break;
            }
            if let Some(received) = self.inner.receive(PAUSE)?
                && self.desk.late.len() < MOST_KEPT
            {
                self.desk.late.push_back(received);
            }
        }
        Ok(())
    }
}

impl<T: MadTransport + ?Sized> MadTransport for Front<'_, T> {
    /// Requests to the agents of ports carry the management key. Those to other managers do not: who says
    /// that it is one is not to learn it.
    fn send(&mut self, to: &Address, mad: &Mad) -> Result<bool, TransportError> {
        let header = mad.header();
        let is_management = matches!(header.class(), Class::SUBNET | Class::DIRECTED);
        let is_request = matches!(header.method(), Method::GET | Method::SET);
        let key = self.desk.management_key;
        if !key.is_some() || !is_management || !is_request || header.attribute() == attribute::SM_INFO {
            return self.inner.send(to, mad);
        }
        let mut mad = *mad;
        mad.smp_mut().header_mut().set_management_key(key.number());
        self.inner.send(to, &mad)
    }

    /// Returns early, and with nothing, if something came that the manager is to deal with.
    fn receive(&mut self, wait: Duration) -> Result<Option<Received>, TransportError> {
        let until = self.inner.now() + wait;
        loop {
            let received = match self.desk.late.pop_front() {
                Some(received) => Some(received),
                None => self.inner.receive(until.saturating_sub(self.inner.now()))?,
            };
            let Some(received) = received else { return Ok(None) };
            let Some((response, is_kept)) = self.desk.take(&received) else { return Ok(Some(received)) };
            if let Some(response) = response {
                self.send_soon(&back_to(&received), &response)?;
            }
            if is_kept {
                return Ok(None);
            }
        }
    }

    fn now(&self) -> Duration {
        self.inner.now()
    }

    fn lid(&self) -> Lid {
        self.inner.lid()
    }

    fn sm_lid(&self) -> Lid {
        self.inner.sm_lid()
    }

    fn room(&self) -> usize {
        self.inner.room()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_have_their_turns_and_a_flood_is_told_to_wait() {
        let mut desk = Desk::new(0, 1, ManagementKey::NONE, 0);
        let asks = |desk: &mut Desk, lid: u16| {
            let mad = Mad::new(Class::ADMINISTRATION, Method::GET, 0x35, 0);
            let received = Received { from: Address::services(Lid(lid)), mad, undelivered: false };
            desk.take(&received)
        };
        assert!(matches!(asks(&mut desk, 1), Some((None, true))) && desk.next_asked().is_none(), "no master");
        desk.me.state = SmState::MASTER;
        for _ in 0..MOST_OF_ONE {
            assert!(matches!(asks(&mut desk, 1), Some((None, true))));
        }
        let Some((Some(busy), false)) = asks(&mut desk, 1) else { panic!("not refused") };
        assert!(busy.header().status().is_busy() && busy.header().method() == Method::GET_RESPONSE);
        assert!(matches!(asks(&mut desk, 2), Some((None, true))), "another source has room");
        let first: Vec<u16> = (0..3).map(|_| desk.next_asked().unwrap().from.lid.0).collect();
        assert_eq!(first, [1, 2, 1], "and does not wait for the first one");
    }

    #[test]
    fn the_lids_of_one_port_have_one_turn() {
        let mut desk = Desk::new(0, 1, ManagementKey::NONE, 2);
        desk.me.state = SmState::MASTER;
        let asks = |desk: &mut Desk, lid: u16| {
            let mad = Mad::new(Class::ADMINISTRATION, Method::GET, 0x35, 0);
            desk.take(&Received { from: Address::services(Lid(lid)), mad, undelivered: false })
        };
        for at in 0..MOST_OF_ONE as u16 {
            assert!(matches!(asks(&mut desk, 8 + at % 4), Some((None, true))));
        }
        assert!(matches!(asks(&mut desk, 11), Some((Some(_), false))), "by none of its LIDs");
        assert!(matches!(asks(&mut desk, 12), Some((None, true))));
    }
}
