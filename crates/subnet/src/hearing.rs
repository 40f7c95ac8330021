//! What other programs and agents send to a manager, and what it responds.

use mad::header::Path;
use mad::notice::Notice;
use mad::sm::{SmInfo, attribute};
use mad::values::{Class, Method, SmState, Status};
use mad::{Address, Guid, Lid, Mad, Received};

use crate::peer::{Rank, Way, control};

/// What the manager reports of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Myself {
    /// 0 while it is not known yet: then nothing is reported.
    pub(crate) guid: Guid,
    pub(crate) priority: u8,
    /// By which managers trust each other; 0 trusts all.
    pub(crate) key: u64,
    pub(crate) state: SmState,
    /// Counts up while it lives.
    pub(crate) activity: u32,
}

impl Myself {
    pub(crate) fn rank(&self) -> Rank {
        Rank { priority: self.priority, guid: self.guid }
    }

    pub(crate) fn info(&self) -> SmInfo {
        let mut info = SmInfo::default();
        info.set_guid(self.guid).set_key(self.key).set_activity(self.activity);
        info.set_priority(self.priority).set_state(self.state);
        info
    }

    /// May another manager tell this one to do so?
    fn obeys(&self, modifier: u32, sender: &SmInfo) -> bool {
        let is_trusted = self.key == 0 || sender.key() == self.key;
        let of_master = sender.state() == SmState::MASTER;
        let state = self.state;
        is_trusted
            && match modifier {
                control::HANDOVER => of_master && state != SmState::NOT_ACTIVE,
                control::ACKNOWLEDGE => sender.state() == SmState::STANDBY,
                control::DISABLE | control::DISCOVER => of_master && state == SmState::STANDBY,
                control::STANDBY => of_master && state == SmState::NOT_ACTIVE,
                _ => false,
            }
    }
}

/// What came.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Heard {
    /// A trap from this LID. The response represses it (InfiniBand Architecture Specification,
    /// volume 1, 13.4.9).
    Trap { notice: Notice, from: Lid, response: Mad },
    /// Somebody asks who this is: perhaps a manager, which can be asked by this way.
    Asked { by: Option<Way>, response: Mad },
    /// Another manager tells this one to do something, which it accepts (`None`: it refuses).
    Told { modifier: Option<u32>, sender: SmInfo, by: Option<Way>, response: Mad },
    /// A request that only an agent answers. A simulator passes on what its agents do not know.
    Foreign { response: Mad },
    /// Nothing that a manager responds to.
    Other,
}

/// What a datagram is, and the response to it.
pub(crate) fn heard(received: &Received, myself: &Myself) -> Heard {
    let header = received.mad.header();
    let management = matches!(header.class(), Class::SUBNET | Class::DIRECTED);
    if received.undelivered || !management || myself.guid == Guid(0) {
        return Heard::Other;
    }
    match (header.method(), header.attribute()) {
        // Only who is master is to be told of changes. To others traps come that were sent before.
        (Method::TRAP, attribute::NOTICE) if myself.state == SmState::MASTER => {
            let notice = *received.mad.data::<Notice>();
            let mut response = received.mad;
            response.header_mut().set_method(Method::TRAP_REPRESS);
            Heard::Trap { notice, from: received.from.lid, response }
        }
        (Method::GET, attribute::SM_INFO) => {
            let mut response = responding(received, Status::OK);
            *response.data_mut() = myself.info();
            Heard::Asked { by: way_back(received), response }
        }
        (Method::SET, attribute::SM_INFO) => {
            let (sender, modifier) = (*received.mad.data::<SmInfo>(), header.modifier());
            let obeys = myself.obeys(modifier, &sender);
            let mut response = responding(received, if obeys { Status::OK } else { Status::BAD_FIELD });
            *response.data_mut() = myself.info();
            let modifier = obeys.then_some(modifier);
            Heard::Told { modifier, sender, by: way_back(received), response }
        }
        (Method::GET | Method::SET, _) => {
            Heard::Foreign { response: responding(received, Status::ATTRIBUTE_NOT_SUPPORTED) }
        }
        _ => Heard::Other,
    }
}

fn responding(received: &Received, status: Status) -> Mad {
    let mut mad = received.mad;
    mad.header_mut().set_method(Method::GET_RESPONSE).set_status(status);
    if mad.header().class() == Class::DIRECTED {
        mad.smp_mut().header_mut().set_returning(true);
    }
    mad
}

/// How the sender can be asked: back along the ports that its datagram entered by, or by its LID.
fn way_back(received: &Received) -> Option<Way> {
    if received.mad.header().class() != Class::DIRECTED {
        return received.from.lid.is_unicast().then_some(Way::Lid(received.from.lid));
    }
    let mut ports = received.mad.smp().return_path()?.to_vec();
    ports.reverse();
    Path::new(&ports).map(Way::Path)
}

/// Where a response goes.
pub(crate) fn back_to(received: &Received) -> Address {
    match received.mad.header().class() {
        Class::DIRECTED => Address::DIRECTED,
        Class::ADMINISTRATION => {
            Address { queue_pair: received.from.queue_pair.max(1), ..Address::services(received.from.lid) }
        }
        _ => Address::management(received.from.lid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mad::header::{Smp, refusal};

    const ME: Myself = Myself { guid: Guid(0x77), priority: 3, key: 1, state: SmState::MASTER, activity: 9 };

    fn from(mad: Mad) -> Received {
        Received { from: Address::management(Lid(5)), mad, undelivered: false }
    }

    #[test]
    fn traps_are_repressed_and_managers_are_told_who_is_master() {
        let mut trap = Mad::new(Class::SUBNET, Method::TRAP, attribute::NOTICE, 0);
        trap.data_mut::<Notice>().set_number(128);
        let Heard::Trap { notice, from: lid, response } = heard(&from(trap), &ME) else { panic!("no trap") };
        assert_eq!((notice.number(), lid, response.header().method()), (128, Lid(5), Method::TRAP_REPRESS));
        assert_eq!(response.data::<Notice>().number(), 128);
        let path = Path::new(&[1, 2]).unwrap();
        for mad in [
            Smp::directed(Method::GET, attribute::SM_INFO, 0, &path),
            Mad::new(Class::SUBNET, Method::GET, attribute::SM_INFO, 0),
        ] {
            let Heard::Asked { response, .. } = heard(&from(mad), &ME) else { panic!("no request") };
            let info: &SmInfo = response.data();
            assert_eq!((info.guid(), info.priority(), info.activity()), (Guid(0x77), 3, 9));
            assert_eq!((info.state(), info.key(), refusal(&response)), (SmState::MASTER, 1, None));
            let directed = mad.header().class() == Class::DIRECTED;
            assert_eq!(directed, response.smp().header().returning());
        }
    }

    #[test]
    fn who_asks_can_be_asked_by_the_way_back() {
        let mut mad = Smp::directed(Method::GET, attribute::SM_INFO, 0, &Path::new(&[1, 2, 3]).unwrap());
        for (hop, port) in [(1, 7), (2, 8), (3, 9)] {
            mad.smp_mut().set_return_port(hop, port);
        }
        let Heard::Asked { by, .. } = heard(&from(mad), &ME) else { panic!("no request") };
        assert_eq!(by, Path::new(&[9, 8, 7]).map(Way::Path));
        let by_lid = Mad::new(Class::SUBNET, Method::GET, attribute::SM_INFO, 0);
        let Heard::Asked { by, .. } = heard(&from(by_lid), &ME) else { panic!("no request") };
        assert_eq!(by, Some(Way::Lid(Lid(5))));
    }

    #[test]
    fn who_may_tell_a_manager_what_in_which_state() {
        use SmState as S;
        let told = |state: S, modifier: u32, sender: S, key: u64| {
            let mut mad = Mad::new(Class::SUBNET, Method::SET, attribute::SM_INFO, modifier);
            mad.data_mut::<SmInfo>().set_state(sender).set_key(key);
            let me = Myself { state, ..ME };
            let Heard::Told { modifier, response, .. } = heard(&from(mad), &me) else { panic!("not told") };
            assert_eq!(modifier.is_none(), refusal(&response) == Some(Status::BAD_FIELD));
            assert_eq!(response.header().method(), Method::GET_RESPONSE);
            modifier.is_some()
        };
        for state in [S::MASTER, S::STANDBY, S::DISCOVERING] {
            assert!(told(state, control::HANDOVER, S::MASTER, 1));
            assert!(!told(state, control::HANDOVER, S::STANDBY, 1), "only a master hands over");
            assert!(!told(state, control::HANDOVER, S::MASTER, 2), "the key is another one");
        }
        assert!(!told(S::NOT_ACTIVE, control::HANDOVER, S::MASTER, 1));
        assert!(told(S::STANDBY, control::DISABLE, S::MASTER, 1));
        assert!(!told(S::MASTER, control::DISABLE, S::MASTER, 1));
        assert!(told(S::NOT_ACTIVE, control::STANDBY, S::MASTER, 1));
        assert!(told(S::STANDBY, control::DISCOVER, S::MASTER, 1));
        assert!(told(S::STANDBY, control::ACKNOWLEDGE, S::STANDBY, 1));
        assert!(!told(S::STANDBY, 9, S::MASTER, 1));
    }

    #[test]
    fn the_rest_is_no_business_of_a_manager() {
        let administration = Mad::new(Class::ADMINISTRATION, Method::GET, 0x35, 0);
        assert!(matches!(heard(&from(administration), &ME), Heard::Other));
        let foreign = Mad::new(Class::SUBNET, Method::GET, attribute::VENDOR_PORT_INFO, 0);
        let Heard::Foreign { response } = heard(&from(foreign), &ME) else { panic!("not refused") };
        assert_eq!(refusal(&response), Some(Status::ATTRIBUTE_NOT_SUPPORTED), "nobody waits for it");
        let trap = Mad::new(Class::SUBNET, Method::TRAP, attribute::NOTICE, 0);
        let mut lost = from(trap);
        lost.undelivered = true;
        assert!(matches!(heard(&lost, &ME), Heard::Other));
        let standby = Myself { state: SmState::STANDBY, ..ME };
        assert!(matches!(heard(&from(trap), &standby), Heard::Other));
        let unknown = Myself { guid: Guid(0), ..ME };
        assert!(matches!(heard(&from(trap), &unknown), Heard::Other));
    }
}
