//! Services that ports offer, for as long as their leases last (InfiniBand Architecture Specification, volume
//! 1, 15.2.5.14 and 15.3).

use std::collections::BTreeMap;
use std::time::Duration;

use mad::Mad;
use mad::sa_records::ServiceRecord;
use mad::values::{Gid, Status};

use super::matching::{Component, Wanted};
use super::{Records, View, status};
use crate::partitions::{DEFAULT, FULL};

/// Records of all ports, and of one.
const MOST: usize = 1 << 16;
const MOST_OF_ONE: usize = 256;
/// A lease without an end.
const FOREVER: u32 = u32::MAX;
/// ServiceID and ServiceGID: what a record needs. Without a P_Key it is in the partition of all.
const NEEDED: [u32; 2] = [0, 1];
const PARTITION: u32 = 2;
const LEASE: u32 = 4;
const KEY: u32 = 5;

/// All components: the data in pieces of 8, 16, 32 and 64 bits.
fn components() -> Vec<Component> {
    let mut all =
        vec![(0, 0, 64), (1, 64, 128), (2, 192, 16), (LEASE, 224, 32), (KEY, 256, 128), (6, 384, 512)];
    all.extend((0..16).map(|at| (7 + at, 896 + 8 * at as usize, 8)));
    all.extend((0..8).map(|at| (23 + at, 1024 + 16 * at as usize, 16)));
    all.extend((0..4).map(|at| (31 + at, 1152 + 32 * at as usize, 32)));
    all.extend((0..2).map(|at| (35 + at, 1280 + 64 * at as usize, 64)));
    all
}

#[derive(Debug)]
struct Service {
    record: ServiceRecord,
    /// `None`: without an end.
    until: Option<Duration>,
}

/// By what a record is known.
type Key = (u64, [u8; 16], u16);

/// All services.
#[derive(Debug, Default)]
pub(crate) struct Services {
    all: BTreeMap<Key, Service>,
}

fn key(record: &ServiceRecord) -> Key {
    (record.id(), *record.gid(), record.partition())
}

impl Services {
    /// Records whose lease has ended go.
    fn expire(&mut self, now: Duration) {
        self.all.retain(|_, service| service.until.is_none_or(|until| until > now));
    }

    /// A port offers a service, or renews its lease. Who does not know the key of a record may not change it.
    pub(crate) fn register(
        &mut self,
        view: &View<'_>,
        request: &Mad,
        now: Duration,
    ) -> Result<ServiceRecord, Status> {
        self.expire(now);
        let mut asked: ServiceRecord = *request.at::<{ mad::sa::DATA_AT }, _>();
        let mask = mad::sa::header(request).component_mask();
        if mask >> PARTITION & 1 == 0 {
            asked.set_partition(DEFAULT | FULL);
        }
        if mask >> LEASE & 1 == 0 {
            asked.set_lease(FOREVER);
        }
        if NEEDED.iter().any(|bit| mask >> bit & 1 == 0) {
            return Err(status::INSUFFICIENT);
        }
        let gid = Gid(*asked.gid());
        // A service may be behind a port of another subnet; then it is in the partition of all.
        let port = view.model.end_port(gid.guid()).filter(|_| gid.prefix() == Gid::DEFAULT_PREFIX);
        let of_all = asked.partition() & DEFAULT == DEFAULT;
        let is_in = port.map_or(of_all, |port| {
            view.model.keys_of(port).iter().any(|key| (key ^ asked.partition()) & DEFAULT == 0)
        });
        if asked.lease() == 0 || !is_in {
            return Err(status::INVALID);
        }
        match self.all.get(&key(&asked)) {
            Some(there) if there.record.key() != asked.key() => return Err(status::INVALID),
            Some(_) => {}
            None => {
                let of_one = self.all.keys().filter(|one| one.1 == *asked.gid()).count();
                if self.all.len() >= MOST || of_one >= MOST_OF_ONE {
                    return Err(status::NO_RESOURCES);
                }
            }
        }
        let lease = asked.lease();
        let until = (lease != FOREVER).then(|| now + Duration::from_secs(lease.into()));
        self.all.insert(key(&asked), Service { record: asked, until });
        Ok(asked)
    }

    /// A service is no longer offered: the one that fits. Who does not know its key may not take it back.
    pub(crate) fn remove(&mut self, request: &Mad, now: Duration) -> Result<ServiceRecord, Status> {
        self.expire(now);
        let wanted = Wanted::<ServiceRecord>::new(request, &components(), 1 << 3)?;
        let fits = |record: &ServiceRecord| wanted.fits_in(record, |bit| bit != LEASE && bit != KEY);
        let mut fitting = self.all.iter().filter(|(_, service)| fits(&service.record));
        let (known_by, there) = fitting.next().ok_or(status::NO_RECORDS)?;
        if fitting.next().is_some() {
            return Err(status::TOO_MANY);
        }
        if there.record.key() != wanted.template().key() {
            return Err(status::INVALID);
        }
        let known_by = *known_by;
        self.all.remove(&known_by).map(|service| service.record).ok_or(status::NO_RECORDS)
    }

    /// The records that fit, with what is left of their leases. Keys are shown only to those who have the key
    /// of the manager.
    pub(crate) fn records(&self, request: &Mad, is_trusted: bool, now: Duration) -> Result<Records, Status> {
        let wanted = Wanted::<ServiceRecord>::new(request, &components(), 1 << 3)?;
        let mut records = Records::default();
        for service in self.all.values().filter(|service| service.until.is_none_or(|until| until > now)) {
            let mut record = service.record;
            if let Some(until) = service.until {
                let left = until.saturating_sub(now).as_secs_f64().ceil();
                record.set_lease(left.min(f64::from(FOREVER - 1)) as u32);
            }
            // A lease counts down, and a key is nobody's business: neither is compared.
            if !wanted.fits_in(&record, |bit| bit != LEASE && (bit != KEY || is_trusted)) {
                continue;
            }
            if !is_trusted {
                record.set_key(&[0; 16]);
            }
            records.add(&record)?;
        }
        Ok(records)
    }
}
