//! Multicast groups: who is in them, and what they carry (InfiniBand Architecture Specification, volume 1,
//! 15.2.5.17 and 10.5).

use std::collections::{BTreeMap, BTreeSet};

use mad::sa_records::GroupMemberRecord;
use mad::sm::PortInfo;
use mad::values::{Gid, Status};
use mad::{Guid, Lid, Mad};

use super::matching::{Component, Wanted};
use super::paths::{gbps, rate_code, rate_gbps, suits};
use super::{Records, View, status};
use crate::multicast::{FIRST_GROUP, LAST_GROUP};
use crate::partitions::{DEFAULT, FULL};

/// Members of all groups.
const MOST_MEMBERS: usize = 1 << 18;
/// Exactly, of the selectors of MTU, rate and life time.
const EXACTLY: u8 = 2;
/// The scope of groups that reach no further than the subnet.
const LINK_LOCAL: u8 = 2;
/// In the second and third byte of GIDs that subnet administration assigns (15.2.5.17, MGID).
const ASSIGNED: [u8; 2] = [0xa0, 0x1b];
/// Q_Key of the broadcast groups of IPoIB.
const BROADCAST_QUEUE_KEY: u32 = 0x0b1b;
/// Their MTU (2048 bytes) and rate (10 Gb/s), which all ports can, and the life time of packets.
const BROADCAST_MTU: u8 = 4;
const BROADCAST_RATE: u8 = 3;
const LIFE_TIME: u8 = 18;

/// Bits of the component mask.
mod component {
    pub(super) const GROUP: u32 = 0;
    pub(super) const PORT: u32 = 1;
    pub(super) const QUEUE_KEY: u32 = 2;
    pub(super) const LID: u32 = 3;
    pub(super) const MTU: (u32, u32) = (4, 5);
    pub(super) const TRAFFIC_CLASS: u32 = 6;
    pub(super) const PARTITION: u32 = 7;
    pub(super) const RATE: (u32, u32) = (8, 9);
    pub(super) const LIFE: (u32, u32) = (10, 11);
    pub(super) const LEVEL: u32 = 12;
    pub(super) const FLOW_LABEL: u32 = 13;
    pub(super) const HOP_LIMIT: u32 = 14;
    pub(super) const SCOPE: u32 = 15;
    pub(super) const JOIN_STATE: u32 = 16;
    pub(super) const PROXY: u32 = 17;
}

/// Fields that are compared as they are; of MTU, rate and life time a selector says how.
const COMPARED: [Component; 12] = [
    (component::GROUP, 0, 128),
    (component::PORT, 128, 128),
    (component::QUEUE_KEY, 256, 32),
    (component::LID, 288, 16),
    (component::TRAFFIC_CLASS, 312, 8),
    (component::PARTITION, 320, 16),
    (component::LEVEL, 352, 4),
    (component::FLOW_LABEL, 356, 20),
    (component::HOP_LIMIT, 376, 8),
    (component::SCOPE, 384, 4),
    (component::JOIN_STATE, 388, 4),
    (component::PROXY, 392, 1),
];
const SELECTED: [Component; 6] =
    [(4, 304, 2), (5, 306, 6), (8, 336, 2), (9, 338, 6), (10, 344, 2), (11, 346, 6)];

/// Bits of JoinState.
pub(crate) mod join {
    /// It sends and receives, and the group lasts as long as there is such a member.
    pub(crate) const FULL: u8 = 1;
    /// It sends and receives.
    pub(crate) const NON: u8 = 2;
    /// It only sends.
    pub(crate) const SEND_ONLY: u8 = 4;
}

/// A port in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Member {
    /// Bits of [`join`].
    state: u8,
    /// Another port made it a member.
    proxy: bool,
}

#[derive(Debug, Clone)]
struct Group {
    /// Without a member.
    record: GroupMemberRecord,
    members: BTreeMap<Guid, Member>,
    /// It stays without members.
    stays: bool,
}

impl Group {
    fn record(&self, guid: Guid, member: Member) -> GroupMemberRecord {
        let mut record = self.record;
        record.set_port_gid(&Gid::new(Gid::DEFAULT_PREFIX, guid).0);
        record.set_join_state(member.state).set_proxy(member.proxy);
        record
    }
}

/// What became of a group by a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It was there, and is.
    Stays,
    /// It was made.
    Made,
    /// It ended.
    Ended,
}

/// The answer to a join or a leave, and what became of the group.
#[derive(Debug, Clone)]
pub(crate) struct Changed {
    pub(crate) record: GroupMemberRecord,
    pub(crate) fate: Fate,
}

/// All groups.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    by_gid: BTreeMap<[u8; 16], Group>,
    by_lid: BTreeMap<u16, [u8; 16]>,
    members: usize,
    /// Of the last GID that was assigned.
    number: u32,
    /// LIDs of groups whose members changed.
    changed: BTreeSet<u16>,
}

/// GID of the broadcast group of IPoIB in a partition (RFC 4391, section 4).
fn broadcast(key: u16) -> [u8; 16] {
    let [high, low] = (key | FULL).to_be_bytes();
    [0xff, 0x12, 0x40, 0x1b, high, low, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]
}

fn has(mask: u64, bit: u32) -> bool {
    mask >> bit & 1 == 1
}

fn both(mask: u64, bits: (u32, u32)) -> bool {
    has(mask, bits.0) && has(mask, bits.1)
}

/// The port that is to be a member.
fn port_of<'a>(view: &View<'a>, gid: &[u8; 16]) -> Result<(Guid, &'a PortInfo), Status> {
    let gid = Gid(*gid);
    if gid.prefix() != Gid::DEFAULT_PREFIX {
        return Err(status::INVALID_GID);
    }
    let port = view.model.end_port(gid.guid()).ok_or(status::INVALID_GID)?;
    let info = view.model.ports.get(port.index()).and_then(Option::as_ref).ok_or(status::INVALID_GID)?;
    Ok((gid.guid(), info))
}

/// Is a port in a partition?
fn is_in(view: &View<'_>, gid: &[u8; 16], key: u16) -> bool {
    let port = view.model.end_port(Gid(*gid).guid());
    let keys = port.map(|port| view.model.keys_of(port));
    keys.is_some_and(|keys| keys.iter().any(|one| one & DEFAULT == key & DEFAULT))
}

/// What a port's link can: codes of MTU and rate.
fn capacity(info: &PortInfo) -> (u8, u8) {
    let mtu = if info.neighbor_mtu() == 0 { info.mtu_capacity() } else { info.neighbor_mtu() };
    (mtu, rate_code(rate_gbps(info)))
}

/// May a GID be that of a group that a port makes?
fn is_permitted(gid: &[u8; 16]) -> bool {
    let (flags, scope) = (gid[1] >> 4, gid[1] & 0xf);
    gid[0] == 0xff && flags <= 1 && !matches!(scope, 0 | 0xf) && [gid[2], gid[3]] != ASSIGNED
}

/// The MTU of a new group.
fn chosen_mtu(asked: &GroupMemberRecord, mask: u64, most: u8) -> Option<u8> {
    let wanted = asked.mtu();
    let chosen = match asked.mtu_selector() {
        _ if !both(mask, component::MTU) => most,
        0 => most.max(wanted.saturating_add(1)),
        1 => wanted.saturating_sub(1).min(most),
        2 => wanted,
        _ => most,
    };
    (1..=most).contains(&chosen).then_some(chosen)
}

/// The rate of a new group.
fn chosen_rate(asked: &GroupMemberRecord, mask: u64, most: u8) -> Option<u8> {
    let wanted = asked.rate();
    match asked.rate_selector() {
        _ if !both(mask, component::RATE) => Some(most),
        0 => (gbps(most) > gbps(wanted)).then_some(most),
        1 => {
            let below = gbps(wanted).saturating_sub(1).min(gbps(most)) / 10;
            (gbps(wanted) > gbps(2)).then(|| rate_code(below))
        }
        2 => (gbps(wanted) > 0 && gbps(wanted) <= gbps(most)).then_some(wanted),
        _ => Some(most),
    }
}

fn chosen_life(asked: &GroupMemberRecord, mask: u64) -> u8 {
    match asked.life_time_selector() {
        _ if !both(mask, component::LIFE) => LIFE_TIME,
        0 => LIFE_TIME.max(asked.life_time().saturating_add(1)),
        1 => asked.life_time().saturating_sub(1).min(LIFE_TIME),
        2 => asked.life_time(),
        _ => LIFE_TIME,
    }
}

/// Does what is asked about MTU, rate and life time fit a group?
fn selectors_suit(asked: &GroupMemberRecord, mask: u64, group: &GroupMemberRecord) -> bool {
    (!both(mask, component::MTU) || suits(asked.mtu_selector(), asked.mtu().into(), group.mtu().into()))
        && (!both(mask, component::RATE)
            || suits(asked.rate_selector(), gbps(asked.rate()), gbps(group.rate())))
        && (!both(mask, component::LIFE)
            || suits(asked.life_time_selector(), asked.life_time().into(), group.life_time().into()))
}

impl Groups {
    /// With the broadcast groups of IPoIB in these partitions, which ports join and do not make.
    pub(crate) fn new(partitions: impl Iterator<Item = u16>) -> Self {
        let mut this = Self::default();
        for (lid, key) in (FIRST_GROUP..=LAST_GROUP).zip(partitions) {
            let (gid, mut record) = (broadcast(key), GroupMemberRecord::default());
            record.set_group_gid(&gid).set_queue_key(BROADCAST_QUEUE_KEY).set_group_lid(Lid(lid));
            record.set_mtu_selector(EXACTLY).set_mtu(BROADCAST_MTU);
            record.set_rate_selector(EXACTLY).set_rate(BROADCAST_RATE);
            record.set_life_time_selector(EXACTLY).set_life_time(LIFE_TIME);
            record.set_partition(key | FULL).set_scope(LINK_LOCAL);
            this.by_gid.insert(gid, Group { record, members: BTreeMap::new(), stays: true });
            this.by_lid.insert(lid, gid);
        }
        this
    }

    /// LIDs of groups whose members changed since the last call.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<u16> {
        std::mem::take(&mut self.changed)
    }

    /// Has any group changed?
    pub(crate) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// How many there are, and their members.
    pub(crate) fn count(&self) -> (usize, usize) {
        (self.by_gid.len(), self.members)
    }

    /// Ports of a group by its LID, and whether each receives; none if there is no such group.
    pub(crate) fn members_of(&self, lid: u16) -> impl Iterator<Item = (Guid, bool)> + '_ {
        let group = self.by_lid.get(&lid).and_then(|gid| self.by_gid.get(gid));
        let members = group.into_iter().flat_map(|group| &group.members);
        members.map(|(guid, member)| (*guid, member.state & (join::FULL | join::NON) != 0))
    }

    /// A port joins a group, or makes it. `from` asks for it.
    pub(crate) fn join(&mut self, view: &View<'_>, request: &Mad, from: Lid) -> Result<Changed, Status> {
        let asked: &GroupMemberRecord = request.at::<{ mad::sa::DATA_AT }, _>();
        let mask = mad::sa::header(request).component_mask();
        if !has(mask, component::PORT) || !has(mask, component::JOIN_STATE) {
            return Err(status::INSUFFICIENT);
        }
        let (guid, info) = port_of(view, asked.port_gid())?;
        let state = asked.join_state();
        if state == 0 || state & !(join::FULL | join::NON | join::SEND_ONLY) != 0 {
            return Err(status::INVALID);
        }
        let gid = if has(mask, component::GROUP) { *asked.group_gid() } else { [0; 16] };
        if self.members >= MOST_MEMBERS {
            return Err(status::NO_RESOURCES);
        }
        let mut fate = Fate::Stays;
        let gid = match self.by_gid.get(&gid) {
            Some(group) => {
                let (mtu, rate) = capacity(info);
                let group = &group.record;
                let is_able = mtu >= group.mtu() && gbps(rate) >= gbps(group.rate());
                let is_able = is_able && is_in(view, asked.port_gid(), group.partition());
                if !is_able || !is_same(asked, mask, group) || !selectors_suit(asked, mask, group) {
                    return Err(status::INVALID);
                }
                gid
            }
            None => {
                fate = Fate::Made;
                self.make(view, asked, mask, info, gid)?
            }
        };
        let proxy = view.model.end_port(guid).and_then(|port| view.model.lids.base(port)) != Some(from.0);
        let Some(group) = self.by_gid.get_mut(&gid) else { return Err(status::INVALID) };
        let before = group.members.get(&guid).copied();
        let was = before.map_or(0, |member| member.state);
        let member = Member { state: was | state, proxy: before.map_or(proxy, |member| member.proxy) };
        group.members.insert(guid, member);
        self.members += usize::from(before.is_none());
        if before.map(|member| member.state) != Some(member.state) {
            self.changed.insert(group.record.group_lid().0);
        }
        Ok(Changed { record: group.record(guid, member), fate })
    }

    /// Makes a group; its GID.
    fn make(
        &mut self,
        view: &View<'_>,
        asked: &GroupMemberRecord,
        mask: u64,
        info: &PortInfo,
        gid: [u8; 16],
    ) -> Result<[u8; 16], Status> {
        use component::{FLOW_LABEL, LEVEL, PARTITION as KEY, QUEUE_KEY, SCOPE, TRAFFIC_CLASS};
        let needed = [QUEUE_KEY, TRAFFIC_CLASS, KEY, LEVEL, FLOW_LABEL];
        if needed.iter().any(|bit| !has(mask, *bit)) {
            return Err(status::INSUFFICIENT);
        }
        let is_assigned = gid == [0; 16];
        let scope = match (has(mask, SCOPE), is_assigned) {
            (true, _) => asked.scope(),
            (false, true) => LINK_LOCAL,
            (false, false) => gid[1] & 0xf,
        };
        let is_good = asked.join_state() & join::FULL != 0
            && is_in(view, asked.port_gid(), asked.partition())
            && (is_assigned || is_permitted(&gid) && gid[1] & 0xf == scope)
            && !matches!(scope, 0 | 0xf);
        let (mtu, rate) = capacity(info);
        let (Some(mtu), Some(rate), true) =
            (chosen_mtu(asked, mask, mtu), chosen_rate(asked, mask, rate), is_good)
        else {
            return Err(status::INVALID);
        };
        let last = u32::from(FIRST_GROUP) + u32::from(view.model.group_capacity());
        let lids = FIRST_GROUP..=LAST_GROUP.min(last.saturating_sub(1) as u16);
        let lid = self.free(lids).filter(|_| last > u32::from(FIRST_GROUP)).ok_or(status::NO_RESOURCES)?;
        let gid = if is_assigned { self.assigned(scope) } else { gid };
        let mut record = GroupMemberRecord::default();
        record.set_group_gid(&gid).set_queue_key(asked.queue_key()).set_group_lid(Lid(lid));
        record.set_mtu_selector(EXACTLY).set_mtu(mtu).set_rate_selector(EXACTLY).set_rate(rate);
        record.set_life_time_selector(EXACTLY).set_life_time(chosen_life(asked, mask));
        record.set_traffic_class(asked.traffic_class()).set_partition(asked.partition());
        record.set_service_level(asked.service_level()).set_flow_label(asked.flow_label());
        record.set_hop_limit(asked.hop_limit()).set_scope(scope);
        self.by_lid.insert(lid, gid);
        self.by_gid.insert(gid, Group { record, members: BTreeMap::new(), stays: false });
        Ok(gid)
    }

    /// The lowest LID that no group has.
    fn free(&self, mut lids: std::ops::RangeInclusive<u16>) -> Option<u16> {
        let mut used = self.by_lid.keys().copied().peekable();
        lids.find(|lid| used.next_if_eq(lid).is_none())
    }

    /// A GID that no group has: prefix of the subnet, and a number.
    fn assigned(&mut self, scope: u8) -> [u8; 16] {
        loop {
            self.number = self.number.wrapping_add(1);
            let mut gid = [0; 16];
            gid[0] = 0xff;
            gid[1] = 0x10 | scope;
            gid[2..4].copy_from_slice(&ASSIGNED);
            gid[4..12].copy_from_slice(&Gid::DEFAULT_PREFIX.to_be_bytes());
            gid[12..].copy_from_slice(&self.number.to_be_bytes());
            if !self.by_gid.contains_key(&gid) {
                return gid;
            }
        }
    }

    /// A port leaves a group, as far as the bits of its state say.
    pub(crate) fn leave(&mut self, view: &View<'_>, request: &Mad, from: Lid) -> Result<Changed, Status> {
        let asked: &GroupMemberRecord = request.at::<{ mad::sa::DATA_AT }, _>();
        let mask = mad::sa::header(request).component_mask();
        let needed = [component::GROUP, component::PORT, component::JOIN_STATE];
        if needed.iter().any(|bit| !has(mask, *bit)) {
            return Err(status::INSUFFICIENT);
        }
        let gid = *asked.group_gid();
        let guid = Gid(*asked.port_gid()).guid();
        let group = self.by_gid.get_mut(&gid).ok_or(status::INVALID)?;
        let member = group.members.get(&guid).copied().ok_or(status::INVALID)?;
        let own = view.model.end_port(guid).and_then(|port| view.model.lids.base(port)) == Some(from.0);
        let leaves = asked.join_state();
        if leaves == 0 || member.state & leaves != leaves || !(own || member.proxy) {
            return Err(status::INVALID);
        }
        let left = Member { state: member.state & !leaves, ..member };
        let record = group.record(guid, left);
        if left.state == 0 {
            group.members.remove(&guid);
            self.members -= 1;
        } else {
            group.members.insert(guid, left);
        }
        let lid = group.record.group_lid().0;
        self.changed.insert(lid);
        let mut fate = Fate::Stays;
        if !group.stays && group.members.values().all(|member| member.state & join::FULL == 0) {
            self.members -= group.members.len();
            self.by_gid.remove(&gid);
            self.by_lid.remove(&lid);
            fate = Fate::Ended;
        }
        Ok(Changed { record, fate })
    }

    /// The records that fit a request: of each member to those who have the key of the manager, else of each
    /// group, without its members (15.4.1.2, access by trusted users).
    pub(crate) fn records(&self, request: &Mad, is_trusted: bool) -> Result<Records, Status> {
        let known: Vec<Component> = COMPARED.into_iter().chain(SELECTED).collect();
        let wanted = Wanted::<GroupMemberRecord>::new(request, &known, 1 << 18)?;
        let mask = mad::sa::header(request).component_mask();
        let mut records = Records::default();
        let one = wanted.has(component::GROUP).then(|| *wanted.template().group_gid());
        let groups: Box<dyn Iterator<Item = &Group>> = match one {
            Some(gid) => Box::new(self.by_gid.get(&gid).into_iter()),
            None => Box::new(self.by_gid.values()),
        };
        let fits = |record: &GroupMemberRecord| {
            let same = wanted.fits_in(record, |bit| COMPARED.iter().any(|one| one.0 == bit));
            same && selectors_suit(wanted.template(), mask, record)
        };
        for group in groups {
            if !is_trusted || group.members.is_empty() {
                if fits(&group.record) {
                    records.add(&group.record)?;
                }
                continue;
            }
            let all = group.members.iter().map(|(guid, member)| group.record(*guid, *member));
            all.filter(|record| fits(record)).try_for_each(|record| records.add(&record))?;
        }
        Ok(records)
    }
}

/// Do the fields that a join names agree with the group's?
fn is_same(asked: &GroupMemberRecord, mask: u64, group: &GroupMemberRecord) -> bool {
    use component::{FLOW_LABEL, LEVEL, PARTITION as KEY, QUEUE_KEY, SCOPE, TRAFFIC_CLASS};
    let named = |bit: u32, same: bool| !has(mask, bit) || same;
    named(QUEUE_KEY, asked.queue_key() == group.queue_key())
        && named(KEY, asked.partition() & 0x7fff == group.partition() & 0x7fff)
        && named(LEVEL, asked.service_level() == group.service_level())
        && named(TRAFFIC_CLASS, asked.traffic_class() == group.traffic_class())
        && named(FLOW_LABEL, asked.flow_label() == group.flow_label())
        && named(SCOPE, asked.scope() == group.scope())
}
