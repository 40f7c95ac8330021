//! Subscriptions to notices, and the reports that their subscribers get until they acknowledge them
//! (InfiniBand Architecture Specification, volume 1, 13.4.8.3 and 13.4.11).

use std::collections::VecDeque;
use std::time::Duration;

use mad::notice::{InformInfo, IssuedNotice};
use mad::sa::{self, DATA_AT};
use mad::sa_records::InformInfoRecord;
use mad::values::{Class, Gid, Method, Status};
use mad::{Address, Layout, Lid, Mad, Received};

use super::matching::{Component, Wanted};
use super::{Records, View, status};

/// Subscriptions of all ports, and of one.
const MOST: usize = 1 << 14;
const MOST_OF_ONE: usize = 64;
/// Reports that wait for an acknowledgement, and that wait to be sent; further ones are lost.
const MOST_OUT: usize = 256;
const MOST_WAITING: usize = 1 << 14;
/// Until a report is sent again, and how often it is sent.
const REPEAT_AFTER: Duration = Duration::from_secs(1);
const MOST_TRIES: u32 = 4;
/// All LIDs, all types and traps, all producers.
const ALL_LIDS: Lid = Lid(0xffff);
const ALL: u16 = 0xffff;
const ALL_PRODUCERS: u32 = 0x00ff_ffff;

/// Subscriber and number of a record.
const COMPARED: [Component; 2] = [(0, 0, 128), (1, 128, 16)];

#[derive(Debug, Clone)]
struct Subscription {
    lid: Lid,
    /// GID of the subscriber.
    gid: [u8; 16],
    number: u16,
    info: InformInfo,
}

#[derive(Debug)]
struct Report {
    to: Address,
    mad: Mad,
    due: Duration,
    tries: u32,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    all: Vec<Subscription>,
    out: Vec<Report>,
    waiting: VecDeque<(Address, Mad)>,
    transaction: u32,
}

/// Is it the same subscription, whatever its subscriber asks for now?
fn is_same(one: &InformInfo, other: &InformInfo) -> bool {
    one.gid() == other.gid()
        && (one.lid_first(), one.lid_last()) == (other.lid_first(), other.lid_last())
        && (one.generic(), one.severity(), one.number())
            == (other.generic(), other.severity(), other.number())
        && (one.producer(), one.queue_pair()) == (other.producer(), other.queue_pair())
}

/// Does a subscription want a notice? A GID goes before LIDs; it and they are the issuer's.
fn wants(info: &InformInfo, issued: &IssuedNotice) -> bool {
    let notice = issued.notice();
    let issuer = notice.issuer();
    let of_issuer = if info.gid() != &[0; 16] {
        info.gid() == issued.issuer_gid()
    } else {
        let last = if info.lid_last() < info.lid_first() { info.lid_first() } else { info.lid_last() };
        info.lid_first() == ALL_LIDS || (info.lid_first()..=last).contains(&issuer)
    };
    of_issuer
        && (info.generic() != 0) == notice.generic()
        && (info.severity() == ALL || info.severity() == u16::from(notice.severity()))
        && (info.number() == ALL || info.number() == notice.number())
        && (info.producer() == ALL_PRODUCERS || info.producer() == notice.producer())
}

impl Subscriptions {
    /// Begins or ends a subscription of the port that asks.
    pub(crate) fn set(&mut self, view: &View<'_>, received: &Received) -> Result<InformInfo, Status> {
        let info: InformInfo = *received.mad.at::<DATA_AT, _>();
        let lid = received.from.lid;
        let port = view.model.lids.port(lid.0).ok_or(status::INVALID)?;
        let guid = mad::Guid(view.model.graph.port_guid(port));
        let gid = Gid::new(Gid::DEFAULT_PREFIX, guid).0;
        let at = self.all.iter().position(|one| one.lid == lid && is_same(&one.info, &info));
        match (info.subscribe(), at) {
            (0, Some(at)) => drop(self.all.remove(at)),
            (1, Some(_)) => {}
            (1, None) => {
                let of_one = self.all.iter().filter(|one| one.lid == lid).map(|one| one.number);
                let of_one: Vec<u16> = of_one.collect();
                if self.all.len() >= MOST || of_one.len() >= MOST_OF_ONE {
                    return Err(status::NO_RESOURCES);
                }
                let number = (0..).find(|number| !of_one.contains(number)).unwrap_or(0);
                self.all.push(Subscription { lid, gid, number, info });
            }
            _ => return Err(status::INVALID),
        }
        Ok(info)
    }

    /// The records that fit: all to those who have the key of the manager, else those of who asks.
    pub(crate) fn records(&self, received: &Received, is_trusted: bool) -> Result<Records, Status> {
        let wanted = Wanted::<InformInfoRecord>::new(&received.mad, &COMPARED, 1 << 2)?;
        let mut records = Records::default();
        let shown = self.all.iter().filter(|one| is_trusted || one.lid == received.from.lid);
        for one in shown {
            let mut record = InformInfoRecord::default();
            record.set_subscriber(&one.gid).set_number(one.number);
            *record.inform_info_mut() = one.info;
            if wanted.fits(&record, None) {
                records.add(&record)?;
            }
        }
        Ok(records)
    }

    /// Something happened: everybody who wants to know gets a report.
    pub(crate) fn notify(&mut self, issued: &IssuedNotice) {
        for one in &self.all {
            if self.waiting.len() >= MOST_WAITING {
                return;
            }
            if !wants(&one.info, issued) {
                continue;
            }
            let mut mad = Mad::new(Class::ADMINISTRATION, Method::REPORT, sa::attribute::NOTICE, 0);
            self.transaction = self.transaction.wrapping_add(1);
            mad.header_mut().set_transaction(self.transaction.into());
            mad.0[DATA_AT..DATA_AT + IssuedNotice::LEN].copy_from_slice(bytes_of(issued));
            let queue_pair = one.info.queue_pair().max(1);
            self.waiting.push_back((Address { queue_pair, ..Address::services(one.lid) }, mad));
        }
    }

    /// A subscriber has acknowledged a report.
    pub(crate) fn heard(&mut self, from: Lid, transaction: u64) {
        let is_it =
            |one: &Report| one.to.lid == from && one.mad.header().transaction() as u32 == transaction as u32;
        self.out.retain(|one| !is_it(one));
    }

    /// When something has to go out.
    pub(crate) fn due(&self) -> Option<Duration> {
        let is_room = !self.waiting.is_empty() && self.out.len() < MOST_OUT;
        if is_room { Some(Duration::ZERO) } else { self.out.iter().map(|one| one.due).min() }
    }

    /// What goes out now.
    pub(crate) fn outgoing(&mut self, now: Duration) -> Vec<(Address, Mad)> {
        self.out.retain(|one| one.due > now || one.tries < MOST_TRIES);
        while self.out.len() < MOST_OUT
            && let Some((to, mad)) = self.waiting.pop_front()
        {
            self.out.push(Report { to, mad, due: now, tries: 0 });
        }
        let mut all = Vec::new();
        for one in self.out.iter_mut().filter(|one| one.due <= now) {
            (one.due, one.tries) = (now + REPEAT_AFTER, one.tries + 1);
            all.push((one.to, one.mad));
        }
        all
    }
}

/// A structure's bytes.
fn bytes_of<T: Layout>(structure: &T) -> &[u8] {
    structure.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mad::notice::trap;

    fn everything() -> InformInfo {
        let mut info = InformInfo::default();
        info.set_lid_first(ALL_LIDS).set_generic(1).set_subscribe(1).set_severity(ALL);
        info.set_number(ALL).set_producer(ALL_PRODUCERS);
        info
    }

    fn issued(number: u16, issuer: u16) -> IssuedNotice {
        let mut issued = IssuedNotice::default();
        issued.notice_mut().set_generic(true).set_severity(3).set_producer(4).set_number(number);
        issued.notice_mut().set_issuer(Lid(issuer));
        issued.set_issuer_gid(&Gid::new(Gid::DEFAULT_PREFIX, mad::Guid(u64::from(issuer))).0);
        issued
    }

    #[test]
    fn a_subscription_gets_what_it_wants() {
        let notice = issued(trap::GID_IN, 7);
        assert!(wants(&everything(), &notice));
        let with = |change: &dyn Fn(&mut InformInfo)| {
            let mut info = everything();
            change(&mut info);
            wants(&info, &notice)
        };
        assert!(with(&|it| _ = it.set_number(trap::GID_IN)) && !with(&|it| _ = it.set_number(trap::GID_OUT)));
        assert!(with(&|it| _ = it.set_lid_first(Lid(7))) && !with(&|it| _ = it.set_lid_first(Lid(8))));
        assert!(with(&|it| _ = it.set_lid_first(Lid(5)).set_lid_last(Lid(9))));
        assert!(!with(&|it| _ = it.set_severity(1)) && !with(&|it| _ = it.set_generic(0)));
        assert!(with(&|it| _ = it.set_producer(4)) && !with(&|it| _ = it.set_producer(2)));
        let other = Gid::new(Gid::DEFAULT_PREFIX, mad::Guid(8)).0;
        assert!(!with(&|it| _ = it.set_gid(&other)));
    }

    #[test]
    fn a_report_is_repeated_until_it_is_heard_and_not_for_ever() {
        let mut subscriptions = Subscriptions::default();
        let of = |lid: u16| Subscription { lid: Lid(lid), gid: [0; 16], number: 0, info: everything() };
        subscriptions.all = vec![of(3), of(4)];
        subscriptions.notify(&issued(trap::GROUP_CREATED, 1));
        let mut now = Duration::from_secs(1);
        assert_eq!(subscriptions.due(), Some(Duration::ZERO));
        let first = subscriptions.outgoing(now);
        assert_eq!(first.len(), 2);
        assert!(subscriptions.outgoing(now).is_empty(), "not at once again");
        let of_three = first.iter().find(|(to, _)| to.lid == Lid(3)).unwrap().1.header().transaction();
        subscriptions.heard(Lid(4), of_three);
        assert_eq!(subscriptions.out.len(), 2, "it is another one's");
        subscriptions.heard(Lid(3), of_three);
        let mut times = 1;
        while let Some(due) = subscriptions.due() {
            now = due;
            times += subscriptions.outgoing(now).len();
        }
        assert_eq!(times, MOST_TRIES as usize, "to the one that is silent");
    }

    #[test]
    fn a_flood_of_reports_is_cut() {
        let one = Subscription { lid: Lid(3), gid: [0; 16], number: 0, info: everything() };
        let mut subscriptions = Subscriptions { all: vec![one; 50], ..Subscriptions::default() };
        for _ in 0..1000 {
            subscriptions.notify(&issued(trap::GID_IN, 1));
        }
        assert_eq!(subscriptions.waiting.len(), MOST_WAITING);
        assert_eq!(subscriptions.outgoing(Duration::ZERO).len(), MOST_OUT, "a few at a time");
    }
}
