//! Path records: what lies between two ports by the tables that the switches hold (15.2.5.16).

use std::ops::Range;

use mad::sa_records::PathRecord;
use mad::sm::PortInfo;
use mad::values::{Gid, Method, Status, lanes};
use mad::{Guid, Lid, Mad};
use topology::{Kind, PortIx};

use super::matching::Wanted;
use super::{Records, View, status};
use crate::partitions::{DEFAULT, FULL, shared};

/// Paths that one request may get.
const MOST_PATHS: usize = 1 << 17;
/// Switches of the longest path that is followed.
const MOST_HOPS: usize = 64;

/// Bits of the component mask.
mod component {
    pub(super) const DGID: u32 = 2;
    pub(super) const SGID: u32 = 3;
    pub(super) const DLID: u32 = 4;
    pub(super) const SLID: u32 = 5;
    pub(super) const PATHS: u32 = 12;
    pub(super) const PARTITION: u32 = 13;
    pub(super) const LEVEL: u32 = 15;
    pub(super) const MTU: (u32, u32) = (16, 17);
    pub(super) const RATE: (u32, u32) = (18, 19);
    pub(super) const LIFE: (u32, u32) = (20, 21);
}

/// What a path can carry: codes of MTU and rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Capacity {
    mtu: u8,
    /// In Gb/s.
    rate: u32,
}

impl Capacity {
    fn with(self, port: &PortInfo) -> Self {
        Self { mtu: self.mtu.min(port.neighbor_mtu()), rate: self.rate.min(rate_gbps(port)) }
    }
}

/// Nominal rate of a link in Gb/s.
pub(super) fn rate_gbps(port: &PortInfo) -> u32 {
    let lanes = f32::from(lanes(port.width_active()).unwrap_or(1));
    (lanes * port.speed_gbps().unwrap_or(2.5)) as u32
}

/// The code of a rate in Gb/s (15.2.5.16, Rate); that of the next lower rate if it has none.
pub(super) fn rate_code(gbps: u32) -> u8 {
    const CODES: [(u32, u8); 22] = [
        (1200, 24),
        (800, 23),
        (600, 22),
        (400, 21),
        (300, 18),
        (200, 17),
        (168, 14),
        (120, 10),
        (112, 13),
        (100, 16),
        (80, 9),
        (60, 8),
        (56, 12),
        (50, 20),
        (40, 7),
        (30, 4),
        (28, 19),
        (25, 15),
        (20, 6),
        (14, 11),
        (10, 3),
        (5, 5),
    ];
    CODES.iter().find(|one| one.0 <= gbps).map_or(2, |one| one.1)
}

/// Does a value fit what is asked for: more than, less than, exactly, or the largest?
pub(super) fn suits(selector: u8, wanted: u32, there: u32) -> bool {
    match selector {
        0 => there > wanted,
        1 => there < wanted,
        2 => there == wanted,
        _ => true,
    }
}

/// An end of paths: its port, its base LID, and those of its LIDs that are asked for.
struct End {
    port: PortIx,
    base: u16,
    lids: Range<u16>,
}

/// The LIDs that a port takes packets for: as many as its LMC says that it reports.
fn usable(view: &View<'_>, port: PortIx) -> Option<End> {
    let model = view.model;
    let (base, given) = (model.lids.base(port)?, model.lids.of_port(&model.graph, port));
    let reported = model.ports.get(port.index()).and_then(Option::as_ref).map_or(0, PortInfo::mask_control);
    let count = (given.len() as u16).min(1 << reported.min(7));
    Some(End { port, base, lids: base..base + count })
}

/// The ports at one end that are asked for: by GID, by LID, or any.
fn ends(view: &View<'_>, gid: Option<Gid>, lid: Option<Lid>) -> Result<Vec<End>, Status> {
    let model = view.model;
    let of_gid = match gid {
        Some(gid) if gid.prefix() != Gid::DEFAULT_PREFIX => return Err(status::INVALID_GID),
        Some(gid) => Some(model.end_port(gid.guid()).ok_or(status::INVALID_GID)?),
        None => None,
    };
    let of_lid = match lid {
        Some(lid) => Some(model.lids.port(lid.0).ok_or(status::NO_RECORDS)?),
        None => None,
    };
    match (of_gid, of_lid) {
        (Some(one), Some(other)) if one != other => Err(status::NO_RECORDS),
        (Some(port), None) => Ok(usable(view, port).into_iter().collect()),
        (_, Some(port)) => {
            let asked = lid.map_or(0, |lid| lid.0);
            let end = usable(view, port).filter(|end| end.lids.contains(&asked));
            Ok(vec![End { lids: asked..asked + 1, ..end.ok_or(status::NO_RECORDS)? }])
        }
        (None, None) => Ok(model.lids.ends().filter_map(|(_, port)| usable(view, port)).collect()),
    }
}

/// The pairs of LIDs of two ends in the order of preference: first those at the same place, none of which
/// shares a LID with another one, so that several paths of two ports are as different as they can be.
fn pairs(from: &End, to: &End) -> Vec<(u16, u16)> {
    let all = from.lids.clone().flat_map(|one| to.lids.clone().map(move |other| (one, other)));
    let mut all: Vec<(u16, u16)> = all.collect();
    all.sort_by_key(|(one, other)| (one - from.base != other - to.base, *one, *other));
    all
}

/// What the path from one end port to another can carry; `None` if the tables do not lead there.
fn capacity(view: &View<'_>, from: PortIx, to: PortIx, to_lid: u16) -> Option<Capacity> {
    let (model, graph) = (view.model, &view.model.graph);
    let info = |port: PortIx| model.ports.get(port.index()).and_then(Option::as_ref);
    let is_switch = |port: PortIx| graph.kind(graph.owner(port)) == Kind::Switch;
    let mut found = Capacity { mtu: info(from)?.mtu_capacity(), rate: u32::MAX };
    if from == to {
        return Some(Capacity { rate: rate_gbps(info(from)?), ..found });
    }
    let mut at = from;
    if !is_switch(from) {
        found = found.with(info(from)?);
        at = graph.peer(from)?;
    }
    for _ in 0..MOST_HOPS {
        if graph.owner(at) == graph.owner(to) {
            let own = |rate| if rate == u32::MAX { 2 } else { rate };
            return Some(Capacity { rate: own(found.rate), ..found });
        }
        let out = graph.port(graph.owner(at), view.tables.port(graph.owner(at), to_lid)?)?;
        found = found.with(info(out)?);
        at = graph.peer(out)?;
    }
    None
}

pub(super) fn paths(view: &View<'_>, request: &Mad) -> Result<Records, Status> {
    use component::{DGID, DLID, LEVEL, LIFE, MTU, PARTITION as KEY, PATHS, RATE, SGID, SLID};
    let known: Vec<(u32, usize, usize)> = [DGID, SGID, DLID, SLID, PATHS, KEY, LEVEL]
        .into_iter()
        .chain([MTU.0, MTU.1, RATE.0, RATE.1, LIFE.0, LIFE.1])
        .map(|bit| (bit, 0, 0))
        .collect();
    // Service, raw traffic, flow label, hop limit, class, reversibility and class of quality choose nothing
    // in a subnet in which all paths between two ports are alike but for their LIDs; bit 7 is reserved.
    let ignored = 0b11 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 14;
    let wanted = Wanted::<PathRecord>::new(request, &known, ignored)?;
    let asked = wanted.template();
    let gid = |bit: u32, bytes: &[u8; 16]| wanted.has(bit).then_some(Gid(*bytes));
    let lid = |bit: u32, lid: Lid| wanted.has(bit).then_some(lid);
    let sources = ends(view, gid(SGID, asked.source_gid()), lid(SLID, asked.source_lid()))?;
    let destinations = ends(view, gid(DGID, asked.destination_gid()), lid(DLID, asked.destination_lid()))?;
    // One for each pair of ports, if it is no table that is asked for (15.2.5.16, NumbPath).
    let most = match request.header().method() {
        Method::GET => 1,
        _ if wanted.has(PATHS) => usize::from(asked.paths()),
        _ => usize::MAX,
    };
    let count = |ends: &[End]| ends.iter().map(|end| end.lids.len()).sum::<usize>();
    let all = count(&sources).saturating_mul(count(&destinations));
    if all.min(sources.len().saturating_mul(destinations.len()).saturating_mul(most)) > MOST_PATHS {
        return Err(status::NO_RESOURCES);
    }
    let is_level = !wanted.has(LEVEL) || asked.service_level() == 0;
    let of_key = |key: u16| !wanted.has(KEY) || asked.partition() & DEFAULT == key & DEFAULT;
    let none_wanted = wanted.has(PATHS) && asked.paths() == 0;
    let mut records = Records::default();
    if !is_level || none_wanted {
        return Ok(records);
    }
    let both = |bits: (u32, u32)| wanted.has(bits.0) && wanted.has(bits.1);
    for source in &sources {
        for destination in &destinations {
            let (from, to) = (source.port, destination.port);
            // Ports that share no partition have no path (10.9.3).
            let (keys, there) = (view.model.keys_of(from), view.model.keys_of(to));
            let Some(key) = shared(keys, there, of_key)
                .or_else(|| (from == to && of_key(DEFAULT)).then_some(FULL | DEFAULT))
            else {
                continue;
            };
            let life = view.model.ports[from.index()].as_ref().map_or(18, PortInfo::subnet_timeout);
            let mut left = most;
            for (from_lid, to_lid) in pairs(source, destination) {
                if left == 0 {
                    break;
                }
                let Some(found) = capacity(view, from, to, to_lid) else { continue };
                let rate = rate_code(found.rate);
                let is_good = (!both(MTU)
                    || suits(asked.mtu_selector(), asked.mtu().into(), found.mtu.into()))
                    && (!both(RATE) || suits(asked.rate_selector(), gbps(asked.rate()), gbps(rate)))
                    && (!both(LIFE)
                        || suits(asked.life_time_selector(), asked.life_time().into(), life.into()));
                if !is_good {
                    continue;
                }
                let mut record = PathRecord::default();
                record.set_destination_gid(&of_port(view, to)).set_source_gid(&of_port(view, from));
                record.set_destination_lid(Lid(to_lid)).set_source_lid(Lid(from_lid));
                record.set_reversible(true).set_partition(key);
                record.set_mtu_selector(2).set_mtu(found.mtu).set_rate_selector(2).set_rate(rate);
                record.set_life_time_selector(2).set_life_time(life);
                records.add(&record)?;
                left -= 1;
            }
        }
    }
    Ok(records)
}

fn of_port(view: &View<'_>, port: PortIx) -> [u8; 16] {
    Gid::new(Gid::DEFAULT_PREFIX, Guid(view.model.graph.port_guid(port))).0
}

/// The rate of a code, in tenths of Gb/s, for comparisons: codes are not in order.
pub(super) fn gbps(code: u8) -> u32 {
    match code {
        2 => 25,
        3 => 100,
        4 => 300,
        5 => 50,
        6 => 200,
        7 => 400,
        8 => 600,
        9 => 800,
        10 => 1200,
        11 => 140,
        12 => 560,
        13 => 1120,
        14 => 1680,
        15 => 250,
        16 => 1000,
        17 => 2000,
        18 => 3000,
        19 => 280,
        20 => 500,
        21 => 4000,
        22 => 6000,
        23 => 8000,
        24 => 12_000,
        _ => 0,
    }
}
