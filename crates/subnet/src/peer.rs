//! Other subnet managers: which of two goes first, and by which way one is asked.
//!
//! The rules are those of the InfiniBand Architecture Specification, volume 1, 14.4 (the states of a subnet
//! manager): the higher priority goes first, and of equal ones the lower GUID.

use mad::header::{Path, Smp};
use mad::sm::{SmInfo, attribute};
use mad::values::{Class, Method, SmState};
use mad::{Address, Guid, Lid, Mad};

/// Attribute modifiers of a Set of SMInfo (14.2.5.13): what the receiver is to do.
pub mod control {
    /// Become master in place of the sender.
    pub const HANDOVER: u32 = 1;
    /// The handover was heard.
    pub const ACKNOWLEDGE: u32 = 2;
    /// Do nothing any more.
    pub const DISABLE: u32 = 3;
    /// Stand by again, after [`DISABLE`].
    pub const STANDBY: u32 = 4;
    /// Look at the fabric again.
    pub const DISCOVER: u32 = 5;
}

/// How a manager is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Way {
    /// By a directed route.
    Path(Path),
    /// By its LID.
    Lid(Lid),
}

impl Way {
    /// Where to, and a datagram of SMInfo.
    pub(crate) fn datagram(&self, method: Method, modifier: u32) -> (Address, Mad) {
        match self {
            Self::Path(path) => {
                (Address::DIRECTED, Smp::directed(method, attribute::SM_INFO, modifier, path))
            }
            Self::Lid(lid) => {
                (Address::management(*lid), Mad::new(Class::SUBNET, method, attribute::SM_INFO, modifier))
            }
        }
    }
}

/// What decides which of two managers goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rank {
    /// 0 to 15; the highest goes first.
    pub priority: u8,
    /// Of the port; of equal priorities the lowest goes first.
    pub guid: Guid,
}

impl Rank {
    /// Does it go before the other one?
    #[must_use]
    pub fn outranks(&self, other: &Self) -> bool {
        (self.priority, std::cmp::Reverse(self.guid)) > (other.priority, std::cmp::Reverse(other.guid))
    }
}

/// Another manager, as it reported itself.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) rank: Rank,
    pub(crate) state: SmState,
    /// By which it responded last.
    pub(crate) way: Way,
    /// Of its port; 0 if it is not known.
    pub(crate) lid: Lid,
    /// Has it the key of this manager?
    pub(crate) trusted: bool,
    /// In words.
    pub(crate) place: String,
    /// Questions in a row without a response.
    pub(crate) missed: u32,
}

impl Peer {
    /// Of what it reported.
    pub(crate) fn new(info: &SmInfo, key: u64, way: Way, lid: Lid, place: String) -> Self {
        Self {
            rank: Rank { priority: info.priority(), guid: info.guid() },
            state: info.state(),
            way,
            lid,
            trusted: key == 0 || info.key() == key,
            place,
            missed: 0,
        }
    }

    /// The way of the next question: the other one in turn, if the last was not answered.
    pub(crate) fn next_way(&self) -> Way {
        if self.missed % 2 == 1 && self.lid.is_unicast() { Way::Lid(self.lid) } else { self.way }
    }

    /// In words, with what decides between managers.
    pub(crate) fn words(&self) -> String {
        format!("{} (GUID {}, priority {})", self.place, self.rank.guid, self.rank.priority)
    }
}

/// What a manager does about the others that it found.
#[derive(Debug, Clone)]
pub(crate) enum Verdict {
    /// It manages.
    Manage,
    /// It stands by: that one is master, or goes first.
    StandBy(Peer),
    /// It is master, and hands over to that one, which goes first.
    Yield(Peer),
    /// It is master and goes first, and that one is master, too: it is to hand over.
    Wait(Peer),
    /// A master has another key: neither obeys the other.
    Stranger(Peer),
}

/// Decides about the managers that were found. `is_master`: this one is master already; otherwise it is
/// discovering.
pub(crate) fn judge(me: &Rank, is_master: bool, peers: &[Peer]) -> Verdict {
    let masters = || peers.iter().filter(|peer| peer.state == SmState::MASTER);
    if let Some(stranger) = masters().find(|peer| !peer.trusted) {
        return Verdict::Stranger(stranger.clone());
    }
    let trusted = || peers.iter().filter(|peer| peer.trusted);
    let first = |a: &&Peer, b: &&Peer| {
        (a.rank.priority, std::cmp::Reverse(a.rank.guid))
            .cmp(&(b.rank.priority, std::cmp::Reverse(b.rank.guid)))
    };
    if is_master {
        let may = trusted().filter(|peer| matches!(peer.state, SmState::MASTER | SmState::STANDBY));
        if let Some(higher) = may.filter(|peer| peer.rank.outranks(me)).max_by(first) {
            return Verdict::Yield(higher.clone());
        }
        return masters().max_by(first).map_or(Verdict::Manage, |other| Verdict::Wait(other.clone()));
    }
    if let Some(master) = masters().max_by(first) {
        return Verdict::StandBy(master.clone());
    }
    let may = trusted().filter(|peer| matches!(peer.state, SmState::DISCOVERING | SmState::STANDBY));
    let higher = may.filter(|peer| peer.rank.outranks(me)).max_by(first);
    higher.map_or(Verdict::Manage, |higher| Verdict::StandBy(higher.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(priority: u8, guid: u64, state: SmState, key: u64) -> Peer {
        let mut info = SmInfo::default();
        info.set_priority(priority).set_guid(Guid(guid)).set_state(state).set_key(key);
        Peer::new(&info, 1, Way::Path(Path::LOCAL), Lid(0), "there".to_owned())
    }

    fn said(is_master: bool, peers: &[Peer]) -> (char, u64) {
        let me = Rank { priority: 5, guid: Guid(100) };
        match judge(&me, is_master, peers) {
            Verdict::Manage => ('m', 0),
            Verdict::StandBy(peer) => ('s', peer.rank.guid.0),
            Verdict::Yield(peer) => ('y', peer.rank.guid.0),
            Verdict::Wait(peer) => ('w', peer.rank.guid.0),
            Verdict::Stranger(peer) => ('x', peer.rank.guid.0),
        }
    }

    #[test]
    fn the_higher_priority_goes_first_and_then_the_lower_guid() {
        let rank = |priority, guid| Rank { priority, guid: Guid(guid) };
        assert!(rank(6, 9).outranks(&rank(5, 1)) && !rank(5, 1).outranks(&rank(6, 9)));
        assert!(rank(5, 1).outranks(&rank(5, 9)) && !rank(5, 9).outranks(&rank(5, 1)));
        assert!(!rank(5, 1).outranks(&rank(5, 1)));
    }

    #[test]
    fn one_who_discovers_stands_by_behind_a_master_of_any_rank_and_behind_who_goes_first() {
        use SmState as S;
        assert_eq!(said(false, &[]), ('m', 0));
        assert_eq!(said(false, &[peer(0, 200, S::MASTER, 1)]), ('s', 200));
        assert_eq!(said(false, &[peer(9, 1, S::STANDBY, 1), peer(0, 200, S::MASTER, 1)]), ('s', 200));
        for state in [S::DISCOVERING, S::STANDBY] {
            assert_eq!(said(false, &[peer(5, 99, state, 1), peer(6, 300, state, 1)]), ('s', 300));
            assert_eq!(said(false, &[peer(5, 101, state, 1), peer(4, 1, state, 1)]), ('m', 0));
        }
        assert_eq!(said(false, &[peer(15, 1, S::NOT_ACTIVE, 1)]), ('m', 0));
    }

    #[test]
    fn a_master_yields_to_who_goes_first_and_waits_for_a_lower_master() {
        use SmState as S;
        assert_eq!(said(true, &[peer(6, 300, S::STANDBY, 1), peer(7, 400, S::DISCOVERING, 1)]), ('y', 300));
        assert_eq!(said(true, &[peer(5, 99, S::MASTER, 1), peer(6, 400, S::MASTER, 1)]), ('y', 400));
        assert_eq!(said(true, &[peer(5, 101, S::MASTER, 1), peer(0, 7, S::STANDBY, 1)]), ('w', 101));
        assert_eq!(said(true, &[peer(5, 101, S::STANDBY, 1)]), ('m', 0));
    }

    #[test]
    fn a_master_with_another_key_is_a_stranger_and_others_with_one_are_passed_over() {
        assert_eq!(said(false, &[peer(0, 300, SmState::MASTER, 2)]), ('x', 300));
        assert_eq!(said(true, &[peer(9, 1, SmState::MASTER, 2)]), ('x', 1));
        assert_eq!(said(false, &[peer(9, 1, SmState::STANDBY, 2)]), ('m', 0));
    }

    #[test]
    fn the_other_way_is_tried_after_a_question_without_a_response() {
        let mut peer = peer(0, 1, SmState::MASTER, 1);
        peer.missed = 1;
        assert_eq!(peer.next_way(), peer.way, "no LID is known");
        peer.lid = Lid(7);
        assert_eq!(peer.next_way(), Way::Lid(Lid(7)));
        peer.missed = 2;
        assert_eq!(peer.next_way(), peer.way);
    }
}
