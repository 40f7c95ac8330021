//! What ports register at subnet administration: membership of groups, services, subscriptions. It is lost
//! with the manager; the next one asks ports to register again (ClientReregister).

use std::collections::BTreeSet;

use mad::notice::{GidDetails, IssuedNotice, Notice, trap};
use mad::sa::attribute;
use mad::values::{Gid, Method, Status};
use mad::{Guid, Layout, Lid, Received};

use super::View;
use super::groups::{Changed, Fate, Groups};
use super::services::Services;
use super::subscriptions::Subscriptions;
use crate::multicast::Held;
use crate::partitions::Partitions;

/// In a notice: it is about subnet management, and a class manager issued it (13.4.8.2).
const OF_MANAGEMENT: u8 = 3;
const CLASS_MANAGER: u32 = 4;

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub(crate) groups: Groups,
    pub(crate) services: Services,
    pub(crate) subscriptions: Subscriptions,
    /// What switches hold of groups.
    pub(crate) held: Held,
    /// Groups whose entries this manager has written: the others are a former manager's.
    pub(crate) written: BTreeSet<u16>,
    /// End ports to which cables led when it was last looked; `None`: not looked yet.
    present: Option<BTreeSet<u64>>,
}

/// A structure's bytes.
fn bytes<T: Layout>(structure: &T) -> Vec<u8> {
    structure.as_bytes().to_vec()
}

impl Registry {
    /// Where nothing was registered yet.
    pub(crate) fn new(partitions: Option<&Partitions>) -> Self {
        let of_all = Partitions::default();
        let groups = Groups::new(partitions.unwrap_or(&of_all).with_ipoib());
        Self { groups, ..Self::default() }
    }

    /// A Set or Delete. The bytes of the record in the response.
    pub(crate) fn change(&mut self, view: &View<'_>, received: &Received) -> Result<Vec<u8>, Status> {
        let (request, from) = (&received.mad, received.from.lid);
        let header = request.header();
        match (header.attribute(), header.method()) {
            (attribute::GROUP_MEMBER, Method::SET) => {
                let changed = self.groups.join(view, request, from)?;
                Ok(self.told(view, &changed))
            }
            (attribute::GROUP_MEMBER, _) => {
                let changed = self.groups.leave(view, request, from)?;
                Ok(self.told(view, &changed))
            }
            (attribute::SERVICE, Method::SET) => {
                self.services.register(view, request, view.now).map(|record| bytes(&record))
            }
            (attribute::SERVICE, _) => self.services.remove(request, view.now).map(|record| bytes(&record)),
            (attribute::INFORM_INFO, Method::SET) => {
                self.subscriptions.set(view, received).map(|info| bytes(&info))
            }
            _ => Err(Status::ATTRIBUTE_NOT_SUPPORTED),
        }
    }

    /// The record, after subscribers were told that the group was made or ended.
    fn told(&mut self, view: &View<'_>, changed: &Changed) -> Vec<u8> {
        let number = match changed.fate {
            Fate::Stays => None,
            Fate::Made => Some(trap::GROUP_CREATED),
            Fate::Ended => Some(trap::GROUP_DELETED),
        };
        if let Some(number) = number {
            let (lid, guid) = (view.model.sm_lid(), view.model.sm_guid());
            self.subscriptions.notify(&of_gid(number, changed.record.group_gid(), lid, guid));
        }
        bytes(&changed.record)
    }

    /// A trap came: subscribers get a report of it.
    pub(crate) fn pass_on(&mut self, notice: &Notice, issuer: Guid) {
        let mut issued = IssuedNotice::default();
        *issued.notice_mut() = *notice;
        issued.set_issuer_gid(&Gid::new(Gid::DEFAULT_PREFIX, issuer).0);
        self.subscriptions.notify(&issued);
    }

    /// Was it looked which end ports are there?
    pub(crate) fn has_looked(&self) -> bool {
        self.present.is_some()
    }

    /// Which end ports are there now: subscribers are told of those that came and went (traps 64 and 65).
    pub(crate) fn look(&mut self, now: BTreeSet<u64>, lid: Lid, guid: Guid) {
        if let Some(before) = self.present.take() {
            let of = |guid: &u64| Gid::new(Gid::DEFAULT_PREFIX, Guid(*guid)).0;
            for there in now.difference(&before) {
                self.subscriptions.notify(&of_gid(trap::GID_IN, &of(there), lid, guid));
            }
            for gone in before.difference(&now) {
                self.subscriptions.notify(&of_gid(trap::GID_OUT, &of(gone), lid, guid));
            }
        }
        self.present = Some(now);
    }
}

/// A notice of subnet administration about a GID (13.4.8.2, traps 64 to 67).
fn of_gid(number: u16, gid: &[u8; 16], lid: Lid, guid: Guid) -> IssuedNotice {
    let mut details = GidDetails::default();
    details.set_gid(gid);
    let mut out = [0; 54];
    out.copy_from_slice(&bytes(&details));
    let mut issued = IssuedNotice::default();
    issued
        .notice_mut()
        .set_generic(true)
        .set_severity(OF_MANAGEMENT)
        .set_producer(CLASS_MANAGER)
        .set_number(number)
        .set_issuer(lid)
        .set_details(&out);
    issued.set_issuer_gid(&Gid::new(Gid::DEFAULT_PREFIX, guid).0);
    issued
}
