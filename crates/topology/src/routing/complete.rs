//! Fills entries that no route between hosts needs, and counts those left empty.
//!
//! From one switch without hosts to another nothing is sent: managers are on hosts, and aggregation nodes
//! talk to each other. Where no legal route leads there, the entry may lead any way that arrives, and nothing
//! comes to wait for it.

use super::destinations::Destinations;
use super::lids::Lids;
use super::tables::{NO_PATH, Tables};
use super::view::View;
use crate::Graph;

/// Fills entries from switches without hosts to switches, by the nearest neighbour that has a route.
pub(crate) fn between_switches(view: &View, destinations: &Destinations, tables: &mut Tables) {
    let (width, components) = (tables.width(), view.components());
    let mut has = vec![false; view.switch_count()];
    for to in 0..view.switch_count() {
        for one in destinations.at(to).iter().filter(|one| one.port == 0) {
            let lid = usize::from(one.lid);
            for (sw, has) in has.iter_mut().enumerate() {
                *has = tables.table(sw)[lid] != NO_PATH;
            }
            let mut rest: Vec<usize> = (0..view.switch_count())
                .filter(|sw| !has[*sw] && view.programs(*sw) == 0 && components[*sw] == components[to])
                .collect();
            loop {
                // A round goes one hop further: what is found in it is not built upon in it.
                let onward = |sw: usize| view.neighbours(sw).iter().find(|near| has[near.sw as usize]);
                let found: Vec<(usize, u8)> =
                    rest.iter().filter_map(|sw| Some((*sw, onward(*sw)?.port))).collect();
                if found.is_empty() {
                    break;
                }
                for (sw, port) in found {
                    tables.bytes_mut()[sw * width + lid] = port;
                    has[sw] = true;
                }
                rest.retain(|sw| !has[*sw]);
            }
        }
    }
}

/// Entries of switches with hosts for hosts that are empty though cables lead there. Aggregation nodes are no
/// hosts.
pub(crate) fn lost(
    graph: &Graph,
    view: &View,
    lids: &Lids,
    destinations: &Destinations,
    tables: &Tables,
) -> usize {
    let components = view.components();
    let is_host = |lid| lids.port(lid).is_some_and(|end| !graph.is_aggregation(graph.owner(end)));
    let mut lost = 0;
    for to in 0..view.switch_count() {
        for one in destinations.at(to).iter().filter(|one| one.port != 0 && is_host(one.lid)) {
            let from = (0..view.switch_count())
                .filter(|sw| components[*sw] == components[to] && view.programs(*sw) > 0);
            lost += from.filter(|sw| tables.table(*sw)[usize::from(one.lid)] == NO_PATH).count();
        }
    }
    lost
}

/// Entries that are empty though cables lead there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Empty {
    /// From or to hosts.
    pub(crate) of_hosts: usize,
    /// From switches without hosts to switches.
    pub(crate) between_switches: usize,
}

/// Counts the entries that are empty.
pub(crate) fn empty(view: &View, destinations: &Destinations, tables: &Tables) -> Empty {
    let components = view.components();
    // Where each LID is, and whether it is a host's.
    let mut of_lid: Vec<Option<(u32, bool)>> = vec![None; tables.width()];
    for (sw, component) in components.iter().enumerate() {
        for one in destinations.at(sw) {
            of_lid[usize::from(one.lid)] = Some((*component, one.port != 0));
        }
    }
    let unused = of_lid.iter().filter(|one| one.is_none()).count();
    let mut empty = Empty::default();
    for (sw, component) in components.iter().enumerate() {
        let table = tables.table(sw);
        // Most tables lack nothing, which counting finds out fastest.
        if table.iter().filter(|port| **port == NO_PATH).count() == unused {
            continue;
        }
        for one in table.iter().zip(&of_lid).filter(|(port, _)| **port == NO_PATH).filter_map(|(_, one)| *one)
        {
            let here = one.0 == *component;
            let of_hosts = one.1 || view.programs(sw) > 0;
            empty.of_hosts += usize::from(here && of_hosts);
            empty.between_switches += usize::from(here && !of_hosts);
        }
    }
    empty
}
