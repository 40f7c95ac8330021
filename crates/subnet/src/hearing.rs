//! What other programs and agents send to a manager, and what it responds.

use mad::notice::Notice;
use mad::sm::{SmInfo, attribute};
use mad::values::{Class, Method, SmState, Status};
use mad::{Address, Guid, Lid, Mad, Received};

/// What the manager reports of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Myself {
    pub(crate) guid: Guid,
    pub(crate) priority: u8,
    /// Counts up while it lives.
    pub(crate) activity: u32,
}

/// What came.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Heard {
    /// A trap of this number from this LID. The response represses it (InfiniBand Architecture Specification,
    /// volume 1, 13.4.9).
    Trap { number: u16, from: Lid, response: Mad },
    /// A request of another manager or of a tool.
    Request { response: Mad },
    /// Nothing that a manager responds to.
    Other,
}

/// What a datagram is, and the response to it.
pub(crate) fn heard(received: &Received, myself: &Myself) -> Heard {
    let header = received.mad.header();
    let management = matches!(header.class(), Class::SUBNET | Class::DIRECTED);
    if received.undelivered || !management {
        return Heard::Other;
    }
    match (header.method(), header.attribute()) {
        (Method::TRAP, attribute::NOTICE) => {
            let number = received.mad.data::<Notice>().number();
            let mut response = received.mad;
            response.header_mut().set_method(Method::TRAP_REPRESS);
            Heard::Trap { number, from: received.from.lid, response }
        }
        (Method::GET, attribute::SM_INFO) => {
            let mut response = responding(received, Status::OK);
            let mut info = SmInfo::default();
            info.set_guid(myself.guid).set_activity(myself.activity).set_priority(myself.priority);
            info.set_state(SmState::MASTER);
            *response.data_mut() = info;
            Heard::Request { response }
        }
        // Handing over to another manager is not implemented: it is refused, not passed over in silence.
        (Method::SET, attribute::SM_INFO) => {
            Heard::Request { response: responding(received, Status::ATTRIBUTE_NOT_SUPPORTED) }
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

/// Where a response goes.
pub(crate) fn back_to(received: &Received) -> Address {
    if received.mad.header().class() == Class::DIRECTED {
        Address::DIRECTED
    } else {
        Address::management(received.from.lid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mad::header::{Path, Smp, refusal};

    const ME: Myself = Myself { guid: Guid(0x77), priority: 3, activity: 9 };

    fn from(mad: Mad) -> Received {
        Received { from: Address::management(Lid(5)), mad, undelivered: false }
    }

    #[test]
    fn traps_are_repressed_and_managers_are_told_who_is_master() {
        let mut trap = Mad::new(Class::SUBNET, Method::TRAP, attribute::NOTICE, 0);
        trap.data_mut::<Notice>().set_number(128);
        let Heard::Trap { number, from: lid, response } = heard(&from(trap), &ME) else { panic!("no trap") };
        assert_eq!((number, lid, response.header().method()), (128, Lid(5), Method::TRAP_REPRESS));
        assert_eq!(response.data::<Notice>().number(), 128);
        let path = Path::new(&[1, 2]).unwrap();
        for mad in [
            Smp::directed(Method::GET, attribute::SM_INFO, 0, &path),
            Mad::new(Class::SUBNET, Method::GET, attribute::SM_INFO, 0),
        ] {
            let Heard::Request { response } = heard(&from(mad), &ME) else { panic!("no request") };
            let info: &SmInfo = response.data();
            assert_eq!((info.guid(), info.priority(), info.activity()), (Guid(0x77), 3, 9));
            assert_eq!((info.state(), refusal(&response)), (SmState::MASTER, None));
            let directed = mad.header().class() == Class::DIRECTED;
            assert_eq!(directed, response.smp().header().returning());
        }
    }

    #[test]
    fn a_handover_is_refused_and_the_rest_is_no_business_of_a_manager() {
        let set = Mad::new(Class::SUBNET, Method::SET, attribute::SM_INFO, 1);
        let Heard::Request { response } = heard(&from(set), &ME) else { panic!("no request") };
        assert_eq!(refusal(&response), Some(Status::ATTRIBUTE_NOT_SUPPORTED));
        let administration = Mad::new(Class::ADMINISTRATION, Method::GET, 0x35, 0);
        assert!(matches!(heard(&from(administration), &ME), Heard::Other));
        let mut lost = from(Mad::new(Class::SUBNET, Method::TRAP, attribute::NOTICE, 0));
        lost.undelivered = true;
        assert!(matches!(heard(&lost, &ME), Heard::Other));
    }
}
