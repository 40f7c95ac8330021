//! Tables on their way to those who asked: segments, acknowledgements and repetitions, with limits.

use std::time::Duration;

use mad::rmpp::Outward;
use mad::{Address, Lid, Mad};

use super::status;

/// Tables that are sent at once, to all and to one, and bytes of all.
const MOST: usize = 128;
const MOST_TO_ONE: usize = 8;
const MOST_BYTES: usize = 64 << 20;
/// Without an acknowledgement segments go out again, so often.
const REPEAT_AFTER: Duration = Duration::from_secs(1);
const MOST_TRIES: u32 = 4;

#[derive(Debug)]
struct Transfer {
    to: Address,
    transaction: u64,
    outward: Outward,
    bytes: usize,
    due: Duration,
    tries: u32,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    all: Vec<Transfer>,
}

impl Transfers {
    /// Begins to send a table. What goes out now: its first segment, or that there is no room.
    pub(crate) fn begin(&mut self, now: Duration, to: Address, header: &Mad, bytes: Vec<u8>) -> Option<Mad> {
        let (len, transaction) = (bytes.len(), header.header().transaction());
        if self.all.iter().any(|one| one.transaction == transaction && one.to == to) {
            return None;
        }
        let mut outward = Outward::new(*header, bytes);
        if outward.segments() == 1 {
            // It is not repeated: who does not get it asks again.
            return outward.next_segment();
        }
        let to_one = self.all.iter().filter(|one| one.to.lid == to.lid).count();
        let in_all: usize = self.all.iter().map(|one| one.bytes).sum();
        if self.all.len() >= MOST || to_one >= MOST_TO_ONE || in_all + len > MOST_BYTES {
            return Some(busy(header));
        }
        let first = outward.next_segment();
        self.all.push(Transfer { to, transaction, outward, bytes: len, due: now + REPEAT_AFTER, tries: 0 });
        first
    }

    /// An acknowledgement came, or that the receiver gives up. What goes out now.
    pub(crate) fn heard(&mut self, now: Duration, from: Lid, mad: &Mad) -> Vec<(Address, Mad)> {
        let transaction = mad.header().transaction();
        let is_it = |one: &Transfer| one.to.lid == from && one.transaction == transaction;
        let Some(at) = self.all.iter().position(is_it) else { return Vec::new() };
        let one = &mut self.all[at];
        if one.outward.heard(mad) {
            self.all.swap_remove(at);
            return Vec::new();
        }
        (one.due, one.tries) = (now + REPEAT_AFTER, 0);
        std::iter::from_fn(|| one.outward.next_segment()).map(|mad| (one.to, mad)).collect()
    }

    /// When something has to go out again.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.all.iter().map(|one| one.due).min()
    }

    /// What goes out again now.
    pub(crate) fn repeat(&mut self, now: Duration) -> Vec<(Address, Mad)> {
        self.all.retain(|one| one.due > now || one.tries < MOST_TRIES);
        let mut out = Vec::new();
        for one in self.all.iter_mut().filter(|one| one.due <= now) {
            (one.due, one.tries) = (now + REPEAT_AFTER, one.tries + 1);
            one.outward.again();
            out.extend(one.outward.next_segment().map(|mad| (one.to, mad)));
        }
        out
    }
}

/// The response to a request for which there is no room.
pub(crate) fn busy(header: &Mad) -> Mad {
    let mut mad = *header;
    mad.0[mad::sa::DATA_AT..].fill(0);
    mad.header_mut().set_status(status::BUSY);
    mad
}

#[cfg(test)]
mod tests {
    use super::*;
    use mad::rmpp::{Inward, Step};
    use mad::values::{Class, Method};

    fn header(transaction: u64) -> Mad {
        let mut mad = Mad::new(Class::ADMINISTRATION, Method::GET_TABLE_RESPONSE, 0x11, 0);
        mad.header_mut().set_transaction(transaction);
        mad
    }

    fn refused(mad: Option<Mad>) -> bool {
        mad.is_some_and(|mad| mad.header().status() == status::BUSY)
    }

    #[test]
    fn a_table_arrives_though_segments_and_acknowledgements_are_lost() {
        let bytes: Vec<u8> = (0..40_000_u32).map(|at| at as u8).collect();
        for lost in [usize::MAX, 2, 3, 5] {
            let (mut transfers, mut inward) = (Transfers::default(), Inward::new());
            let to = Address::services(Lid(7));
            let mut now = Duration::ZERO;
            let first = transfers.begin(now, to, &header(1), bytes.clone()).unwrap();
            let (mut way, mut sent, mut came) = (vec![(to, first)], 0_usize, None);
            while came.is_none() {
                if way.is_empty() {
                    now = transfers.due().unwrap();
                    way = transfers.repeat(now);
                }
                let mut acknowledgements = Vec::new();
                for (_, mad) in way.drain(..) {
                    sent += 1;
                    if sent % lost == 0 {
                        continue;
                    }
                    match inward.take(&mad) {
                        Step::More(back) => acknowledgements.extend(back),
                        Step::All(all, _) => came = Some(all),
                        Step::Broken(why) => panic!("{why}"),
                    }
                }
                for mad in acknowledgements {
                    way.extend(transfers.heard(now, Lid(7), &mad));
                }
            }
            assert_eq!(came.as_ref(), Some(&bytes));
        }
    }

    #[test]
    fn one_who_never_acknowledges_is_given_up_and_a_flood_is_told_to_wait() {
        let (mut transfers, now) = (Transfers::default(), Duration::ZERO);
        let table = || vec![0; 1000];
        for number in 0..MOST_TO_ONE as u64 {
            assert!(!refused(transfers.begin(now, Address::services(Lid(1)), &header(number), table())));
        }
        assert!(
            transfers.begin(now, Address::services(Lid(1)), &header(0), table()).is_none(),
            "it is on its way"
        );
        assert!(refused(transfers.begin(now, Address::services(Lid(1)), &header(99), table())));
        assert!(
            !refused(transfers.begin(now, Address::services(Lid(1)), &header(98), vec![0; 50])),
            "one segment"
        );
        for lid in 2..200 {
            transfers.begin(now, Address::services(Lid(lid)), &header(1), table());
        }
        assert_eq!(transfers.all.len(), MOST);
        let mut at = now;
        for _ in 0..=MOST_TRIES {
            at += REPEAT_AFTER;
            transfers.repeat(at);
        }
        assert_eq!(transfers.due(), None, "all were given up");
        assert!(!refused(transfers.begin(at, Address::services(Lid(1)), &header(1), table())));
    }
}
