//! Records of nodes, ports, switches, tables, links and managers (15.2.5).

use std::collections::BTreeSet;

use mad::sa_records::{
    LinearTableRecord, LinkRecord, MulticastTableRecord, NodeRecord, PortInfoRecord, SmInfoRecord,
    SwitchInfoRecord,
};
use mad::sm::LIDS_PER_BLOCK;
use mad::values::Status;
use mad::{Guid, Lid, Mad};
use topology::{Kind, NodeIx, PortIx};

use super::matching::{Component, Wanted};
use super::registry::Registry;
use super::{Records, View};
use crate::multicast;

/// Of [`NodeRecord`]: LID, versions, kind, ports, GUIDs, capacities, numbers, description.
const NODE: [Component; 14] = [
    (0, 0, 16),
    (2, 32, 8),
    (3, 40, 8),
    (4, 48, 8),
    (5, 56, 8),
    (6, 64, 64),
    (7, 128, 64),
    (8, 192, 64),
    (9, 256, 16),
    (10, 272, 16),
    (11, 288, 32),
    (12, 320, 8),
    (13, 328, 24),
    (14, 352, 512),
];

/// CapabilityMask of [`PortInfoRecord`]: with the first bit of the modifier, the bits that must be set.
const CAPABILITIES: u32 = 7;

/// Of [`PortInfoRecord`]: LID, number, and fields of PortInfo from M_Key to OperationalVLs.
const PORT: [Component; 34] = [
    (0, 0, 16),
    (1, 16, 8),
    (3, 32, 64),
    (4, 96, 64),
    (5, 160, 16),
    (6, 176, 16),
    (CAPABILITIES, 192, 32),
    (8, 224, 16),
    (9, 240, 16),
    (10, 256, 8),
    (11, 264, 8),
    (12, 272, 8),
    (13, 280, 8),
    (14, 288, 4),
    (15, 292, 4),
    (16, 296, 4),
    (17, 300, 4),
    (18, 304, 2),
    (20, 309, 3),
    (21, 312, 4),
    (22, 316, 4),
    (23, 320, 4),
    (24, 324, 4),
    (25, 328, 4),
    (26, 332, 4),
    (27, 336, 8),
    (28, 344, 8),
    (29, 352, 8),
    (30, 360, 4),
    (31, 364, 4),
    (32, 368, 3),
    (33, 371, 5),
    (34, 376, 4),
    (42, 432, 8),
];

/// LID of the node that a port belongs to: a switch's ports have that of its port 0.
fn lid_of(view: &View<'_>, port: PortIx) -> Option<u16> {
    let graph = &view.model.graph;
    let node = graph.owner(port);
    let end = if graph.kind(node) == Kind::Switch { graph.port(node, 0)? } else { port };
    view.model.lids.base(end)
}

/// The end ports that may fit, each with its base LID: the one that has the LID that is asked for, or all. So
/// the LID of a record need not be compared any more.
fn ends(view: &View<'_>, lid: Option<Lid>) -> Vec<(u16, PortIx)> {
    let lids = &view.model.lids;
    match lid {
        Some(lid) => lids.port(lid.0).and_then(|port| Some((lids.base(port)?, port))).into_iter().collect(),
        None => lids.ends().collect(),
    }
}

/// The component of the LID of a record that belongs to one of the [`ends`].
const LID: u32 = 0;

pub(super) fn nodes(view: &View<'_>, request: &Mad) -> Result<Records, Status> {
    let wanted = Wanted::<NodeRecord>::new(request, &NODE, 1 << 1)?;
    let (model, mut records) = (view.model, Records::default());
    let lid = wanted.has(0).then(|| wanted.template().lid());
    for (lid, port) in ends(view, lid) {
        let node = model.graph.owner(port);
        let Some(facts) = model.nodes.get(node.index()) else { continue };
        let mut record = NodeRecord::default();
        record.set_lid(Lid(lid));
        *record.node_info_mut() = facts.info;
        let guid = Guid(model.graph.port_guid(port));
        record.node_info_mut().set_port_guid(guid).set_local_port(model.graph.number(port));
        *record.description_mut() = facts.description.unwrap_or_default();
        if wanted.fits(&record, Some(LID)) {
            records.add(&record)?;
        }
    }
    Ok(records)
}

pub(super) fn ports(view: &View<'_>, request: &Mad) -> Result<Records, Status> {
    let wanted = Wanted::<PortInfoRecord>::new(request, &PORT, 1 << 2)?;
    let as_mask = request.header().modifier() >> 31 == 1 && wanted.has(CAPABILITIES);
    let (model, mut records) = (view.model, Records::default());
    let lid = wanted.has(0).then(|| wanted.template().lid());
    for (lid, end) in ends(view, lid) {
        let node = model.graph.owner(end);
        let is_switch = model.graph.kind(node) == Kind::Switch;
        let of_node = model.graph.ports(node).filter(|port| if is_switch { true } else { *port == end });
        for port in of_node {
            let Some(info) = model.ports.get(port.index()).and_then(Option::as_ref) else { continue };
            let mut record = PortInfoRecord::default();
            record.set_lid(Lid(lid)).set_port(model.graph.number(port));
            *record.port_info_mut() = *info;
            // The key of ports is the manager's alone.
            record.port_info_mut().set_management_key(0);
            let mask = wanted.template().port_info().capability_mask();
            let has_all = info.capability_mask() & mask == mask;
            let counts = |bit: u32| bit != LID && !(as_mask && bit == CAPABILITIES);
            if wanted.fits_in(&record, counts) && (!as_mask || has_all) {
                records.add(&record)?;
            }
        }
    }
    Ok(records)
}

/// The switches that may fit, with their LIDs.
fn switches_of(view: &View<'_>, lid: Option<Lid>) -> Vec<(u16, NodeIx)> {
    let graph = &view.model.graph;
    let all = ends(view, lid).into_iter().map(|(lid, port)| (lid, graph.owner(port)));
    all.filter(|(_, node)| graph.kind(*node) == Kind::Switch).collect()
}

pub(super) fn switches(view: &View<'_>, request: &Mad) -> Result<Records, Status> {
    let wanted = Wanted::<SwitchInfoRecord>::new(request, &[(0, 0, 16)], 1 << 1)?;
    let mut records = Records::default();
    for (lid, node) in switches_of(view, wanted.has(0).then(|| wanted.template().lid())) {
        let Some(info) = view.model.nodes.get(node.index()).and_then(|facts| facts.switch) else { continue };
        let mut record = SwitchInfoRecord::default();
        record.set_lid(Lid(lid));
        *record.switch_info_mut() = info;
        records.add(&record)?;
    }
    Ok(records)
}

pub(super) fn tables(view: &View<'_>, request: &Mad) -> Result<Records, Status> {
    let wanted = Wanted::<LinearTableRecord>::new(request, &[(0, 0, 16), (1, 16, 16)], 1 << 2)?;
    let mut records = Records::default();
    for (lid, node) in switches_of(view, wanted.has(0).then(|| wanted.template().lid())) {
        let Some(row) = view.tables.index_of(node) else { continue };
        for block in 0..=view.model.lids.top() / LIDS_PER_BLOCK {
            let mut record = LinearTableRecord::default();
            record.set_lid(Lid(lid)).set_block(block);
            let entries = view.tables.block(row, block.into()).unwrap_or_default();
            for (at, port) in entries.iter().enumerate() {
                let _ = record.table_mut().set_port(at, *port);
            }
            if wanted.fits(&record, Some(LID)) {
                records.add(&record)?;
            }
        }
    }
    Ok(records)
}

pub(super) fn links(view: &View<'_>, request: &Mad) -> Result<Records, Status> {
    let known = [(0, 0, 16), (1, 16, 8), (2, 24, 8), (3, 32, 16)];
    let wanted = Wanted::<LinkRecord>::new(request, &known, 0)?;
    let (graph, mut records) = (&view.model.graph, Records::default());
    for (a, b) in graph.links() {
        for (from, to) in [(a, b), (b, a)] {
            let (Some(from_lid), Some(to_lid)) = (lid_of(view, from), lid_of(view, to)) else { continue };
            let mut record = LinkRecord::default();
            record.set_from_lid(Lid(from_lid)).set_from_port(graph.number(from));
            record.set_to_lid(Lid(to_lid)).set_to_port(graph.number(to));
            if wanted.fits(&record, None) {
                records.add(&record)?;
            }
        }
    }
    Ok(records)
}

/// The keys of managers are nobody's business: they are zero.
pub(super) fn managers(view: &View<'_>, request: &Mad) -> Result<Records, Status> {
    let known = [(0, 0, 16), (2, 32, 64), (4, 160, 32), (5, 192, 4), (6, 196, 4)];
    let wanted = Wanted::<SmInfoRecord>::new(request, &known, 1 << 1)?;
    let mut records = Records::default();
    for (lid, info) in view.managers {
        let mut record = SmInfoRecord::default();
        record.set_lid(*lid);
        *record.sm_info_mut() = *info;
        record.sm_info_mut().set_key(0);
        if wanted.fits(&record, None) {
            records.add(&record)?;
        }
    }
    Ok(records)
}

/// Of groups that this manager has written; what switches hold of others is not known.
pub(super) fn multicast_tables(
    view: &View<'_>,
    registry: &Registry,
    request: &Mad,
) -> Result<Records, Status> {
    let wanted = Wanted::<MulticastTableRecord>::new(
        request,
        &[(0, 0, 16), (1, 18, 4), (3, 22, 10)],
        1 << 2 | 1 << 4,
    )?;
    let mut records = Records::default();
    let graph = &view.model.graph;
    let blocks: BTreeSet<u16> = registry.written.iter().map(|group| multicast::place(*group).0).collect();
    for (lid, node) in switches_of(view, wanted.has(0).then(|| wanted.template().lid())) {
        for block in &blocks {
            for position in 0..multicast::positions(graph, node) {
                let Some(held) = registry.held.get(graph.node_guid(node), position, *block) else { continue };
                let mut record = MulticastTableRecord::default();
                record.set_lid(Lid(lid)).set_position(position).set_block(*block);
                for (at, ports) in held.iter().enumerate() {
                    let _ = record.table_mut().set_ports(at, *ports);
                }
                if wanted.fits(&record, Some(LID)) {
                    records.add(&record)?;
                }
            }
        }
    }
    Ok(records)
}
