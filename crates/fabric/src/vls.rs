//! On which virtual lanes (VLs) the traffic of a credit loop goes.
//!
//! Forwarding tables alone show a loop only under the assumption that all traffic is on one VL. Which VL a
//! packet takes at a switch depends on its service level (SL) and on the SL-to-VL map of the two ports
//! (InfiniBand Architecture Specification, volume 1, 14.2.5.8). The maps can be read; no switch holds which
//! SL a pair of hosts uses. So: if each cable of the loop has one VL for all SLs, it is a credit loop;
//! otherwise it is not judged.

use std::collections::{BTreeMap, BTreeSet};

use mad::header::{Path, Smp};
use mad::sm::{SlToVlMap, attribute};
use mad::values::Method;
use mad::windowed::{Done, Limits, Outcome, Windowed};
use mad::{Address, MadTransport, TransportError};
use topology::routing::check::Waiting;
use topology::routing::{Tables, check};
use topology::{Graph, PortIx};

use crate::snapshot::Snapshot;

/// Levels that there are.
pub const LEVELS: usize = 16;
/// The VL of management; what a map sends there is dropped.
const MANAGEMENT: u8 = 15;

/// VLs by level, of ports in and out of one switch.
pub type VlMaps = BTreeMap<(PortIx, PortIx), [u8; LEVELS]>;

/// Ports that a cycle goes through: in and out of one switch each.
fn turns(graph: &Graph, cycle: &[Waiting]) -> Vec<(PortIx, PortIx)> {
    let next = cycle.iter().cycle().skip(1);
    cycle.iter().zip(next).filter_map(|(one, next)| Some((graph.peer(one.port)?, next.port))).collect()
}

/// Reads the maps of levels to VLs where tables have a cycle, and nothing where they have none.
///
/// # Errors
/// Of the transport. Maps without a response are missing.
pub fn read<T: MadTransport + ?Sized>(
    transport: &mut T,
    snapshot: &Snapshot,
    paths: &[Path],
    tables: &Tables,
    limits: Limits,
    stop: &dyn Fn() -> bool,
) -> Result<VlMaps, TransportError> {
    let graph = &snapshot.graph;
    let mut maps = VlMaps::new();
    // Where no port uses several VLs, no map is needed, and no cycle has to be looked for.
    if snapshot.ports.iter().flatten().all(|facts| facts.vls <= 1) {
        return Ok(maps);
    }
    let mut client: Windowed<(PortIx, PortIx)> = Windowed::new(limits);
    for (from, to) in turns(graph, &check(graph, tables).credit_loop) {
        let Some(path) = paths.get(graph.owner(to).index()) else { continue };
        let modifier = u32::from(graph.number(from)) << 8 | u32::from(graph.number(to));
        let mad = Smp::directed(Method::GET, attribute::SL_TO_VL_MAP, modifier, path);
        client.ask(Address::DIRECTED, mad, (from, to));
    }
    let mut done = Vec::new();
    while client.open() > 0 && !stop() {
        client.drive(transport, std::time::Duration::from_millis(100), &mut done)?;
        for Done { key, outcome } in done.drain(..) {
            if let Outcome::Answer(mad) = outcome {
                let map: &SlToVlMap = mad.data();
                maps.insert(key, std::array::from_fn(|level| map.vl(level).unwrap_or(MANAGEMENT)));
            }
        }
    }
    Ok(maps)
}

/// Why a cycle in tables could not be judged; `None`: it is one, whatever levels are used.
#[must_use]
pub fn why_open(snapshot: &Snapshot, cycle: &[Waiting]) -> Option<String> {
    let mut vls = BTreeSet::new();
    let mut open = false;
    for (from, to) in turns(&snapshot.graph, cycle) {
        let used = snapshot.port(to).map_or(0, |facts| facts.vls);
        if used == 1 {
            vls.insert(0);
            continue;
        }
        let Some(map) = snapshot.vl_maps.get(&(from, to)) else {
            return Some(match used {
                0 => "the number of VLs in use is not known".to_owned(),
                used => format!(
                    "{used} VLs are in use at {}, and its SL-to-VL map is not known",
                    snapshot.place(to)
                ),
            });
        };
        let own: BTreeSet<u8> =
            map.iter().copied().filter(|vl| *vl < MANAGEMENT && (used == 0 || *vl < used)).collect();
        open |= own.len() != 1;
        vls.extend(own);
    }
    let words: Vec<String> = vls.iter().map(u8::to_string).collect();
    open.then(|| {
        format!(
            "VLs in use: {}; no switch holds which SL, and so which VL, a pair of CAs uses",
            words.join(", ")
        )
    })
}
