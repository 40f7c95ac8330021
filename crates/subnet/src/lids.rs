//! Which port gets which LID: the recorded one, else the one that it has, else a free one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use topology::routing::{Lids, LidsError};
use topology::{Graph, PortIx};

use crate::record::{Record, Span};

/// LIDs of all end ports: one of a switch, 2 to the power of `lmc` of a host. The record comes first; then
/// what a port has; then the lowest LIDs that are neither in use nor recorded for a port that is not there,
/// which may come back with it. Only if those run out are LIDs of absent ports given away.
///
/// # Errors
/// More ports than LIDs.
pub fn assign(graph: &Graph, record: &Record, lmc: u8) -> Result<Arc<Lids>, LidsError> {
    let recorded = |port: PortIx| record.lid(graph.port_guid(port));
    let has = |port: PortIx| Some(graph.lid(port)).filter(|lid| *lid != 0);
    let recorded_lids = record.lids();
    // A LID that a port has may be recorded for another one: then it is the other's.
    let of_another = |port: PortIx, lid: u16| {
        let count = if is_switch(graph, port) { 1 } else { 1_u16 << lmc.min(7) };
        (lid..=lid.saturating_add(count - 1)).any(|lid| recorded_lids.contains(&lid))
    };
    let known = |port| recorded(port).or_else(|| has(port).filter(|lid| !of_another(port, *lid)));
    let first = Lids::assign(graph, lmc, known)?;
    let collides = |port: PortIx, base: u16| known(port) != Some(base) && of_another(port, base);
    let colliding: Vec<(u16, PortIx)> = first.ends().filter(|(base, port)| collides(*port, *base)).collect();
    if colliding.is_empty() {
        return Ok(Arc::new(first));
    }
    // Those that got LIDs of an absent port take free ones.
    let mut free = Free::of(&first, recorded_lids);
    let mut moved = HashMap::new();
    for (base, port) in colliding {
        let count = first.of_port(graph, port).len() as u16;
        moved.insert(port, free.take(count).unwrap_or(base));
    }
    let all = |port| moved.get(&port).copied().or_else(|| first.base(port));
    Lids::assign(graph, lmc, all).map(Arc::new)
}

/// LIDs that nobody has and that are kept for nobody.
struct Free {
    taken: HashSet<u16>,
    /// By the count that was asked for: where to look next.
    next: HashMap<u16, u32>,
}

impl Free {
    fn of(lids: &Lids, mut taken: HashSet<u16>) -> Self {
        taken.extend(lids.iter().map(|one| one.0));
        Self { taken, next: HashMap::new() }
    }

    /// The first of so many in a row, a multiple of their count.
    fn take(&mut self, count: u16) -> Option<u16> {
        let next = self.next.entry(count).or_insert_with(|| count.into());
        while *next + u32::from(count) - 1 <= u32::from(topology::routing::lids::TOP) {
            let first = *next as u16;
            *next += u32::from(count);
            if (first..first + count).all(|lid| !self.taken.contains(&lid)) {
                self.taken.extend(first..first + count);
                return Some(first);
            }
        }
        None
    }
}

fn is_switch(graph: &Graph, port: PortIx) -> bool {
    graph.kind(graph.owner(port)) == topology::Kind::Switch
}

/// The GUIDs of end ports and the LIDs that they have now, whoever gave them.
#[must_use]
pub fn held(graph: &Graph) -> Vec<(u64, Span)> {
    let ends = graph
        .nodes()
        .flat_map(|node| graph.ports(node))
        .filter(|port| is_switch(graph, *port) == (graph.number(*port) == 0));
    let span = |port: PortIx| {
        let lmc = if is_switch(graph, port) { 0 } else { graph.lmc(port) };
        Span::new(graph.lid(port), lmc)
    };
    let all = ends.filter_map(|port| Some((graph.port_guid(port), span(port)?)));
    all.filter(|(guid, _)| *guid != 0).collect()
}

/// The GUIDs and LIDs in use, for the record.
#[must_use]
pub fn in_use(graph: &Graph, lids: &Lids) -> Vec<(u64, Span)> {
    let all = lids.ends().filter_map(|(base, port)| {
        let lmc = if is_switch(graph, port) { 0 } else { lids.lmc() };
        Some((graph.port_guid(port), Span::new(base, lmc)?))
    });
    all.filter(|one| one.0 != 0).collect()
}

/// End ports that have a LID now and get another one.
#[must_use]
pub fn moved(graph: &Graph, lids: &Lids) -> usize {
    lids.ends().filter(|(base, port)| graph.lid(*port) != 0 && graph.lid(*port) != *base).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::with_guids;
    use topology::Kind;
    use topology::build::{FatTree, fat_tree};

    #[test]
    fn recorded_lids_stay_and_those_of_absent_ports_are_left_free() {
        let graph = with_guids(&fat_tree(&FatTree::new(4, 2)).unwrap());
        let first = assign(&graph, &Record::default(), 0).unwrap();
        let mut record = Record::default().updated(&in_use(&graph, &first));
        // One host had a high LID, and a stranger the lowest one.
        let host = graph.nodes_of(Kind::Host).next().unwrap();
        let port = graph.port(host, 1).unwrap();
        assert_eq!(first.base(port), Some(1));
        record.keep(graph.port_guid(port), Span::new(300, 0).unwrap());
        record.keep(0xdead, Span::new(1, 0).unwrap());
        let again = assign(&graph, &record, 0).unwrap();
        assert_eq!(again.base(port), Some(300));
        let rest = |lids: &Lids| lids.iter().filter(|one| one.1 != port).collect::<Vec<_>>();
        assert_eq!(rest(&again), rest(&first), "all others keep theirs");
        // A port that was not recorded gets a free one, and not the absent one's.
        let fewer: Vec<(u64, Span)> =
            in_use(&graph, &first).into_iter().filter(|one| one.0 != graph.port_guid(port)).collect();
        let mut record = Record::default().updated(&fewer);
        record.keep(0xdead, Span::new(1, 0).unwrap());
        let new = assign(&graph, &record, 0).unwrap();
        assert_eq!(new.base(port), Some(new.top()));
    }

    /// With several LIDs a port: aligned, the same after a restart, and none of them recorded for an absent
    /// port.
    #[test]
    fn several_lids_a_port_are_aligned_and_stay() {
        let graph = with_guids(&fat_tree(&FatTree::new(4, 2)).unwrap());
        let mut record = Record::default();
        record.keep(0xdead, Span::new(4, 0).unwrap());
        record.keep(0xbeef, Span::new(16, 2).unwrap());
        let lids = assign(&graph, &record, 2).unwrap();
        let mut seen = HashSet::new();
        for (base, port) in lids.ends() {
            let all = lids.of_port(&graph, port);
            let is_host = graph.kind(graph.owner(port)) == Kind::Host;
            assert_eq!((all.start, all.len()), (base, if is_host { 4 } else { 1 }));
            assert!(!is_host || base.is_multiple_of(4));
            assert!(all.into_iter().all(|lid| seen.insert(lid) && ![4, 16, 17, 18, 19].contains(&lid)));
        }
        let record = record.updated(&in_use(&graph, &lids));
        assert_eq!(*assign(&graph, &record, 2).unwrap(), *lids);
        assert_eq!((record.lid(0xdead), record.lid(0xbeef)), (Some(4), Some(16)));
        // Another LMC keeps what is a multiple of its power.
        let fewer = assign(&graph, &record, 0).unwrap();
        assert!(lids.ends().all(|(base, port)| fewer.base(port) == Some(base)));
        let more = assign(&graph, &record, 3).unwrap();
        let is_kept = |(base, port): (u16, PortIx)| {
            let is_host = graph.kind(graph.owner(port)) == Kind::Host;
            !is_host || !base.is_multiple_of(8) || more.base(port) == Some(base)
        };
        assert!(lids.ends().all(is_kept));
    }

    #[test]
    fn when_lids_run_out_those_of_absent_ports_are_given_away_and_then_it_is_said() {
        let graph = with_guids(&fat_tree(&FatTree::new(4, 2)).unwrap());
        let mut record = Record::default();
        for at in 0..383_u16 {
            record.keep(0x9_0000 + u64::from(at), Span::new(128 + 128 * at, 7).unwrap());
        }
        let lids = assign(&graph, &record, 7).unwrap();
        assert_eq!(lids.ends().count(), 14);
        let lmc = assign(&with_guids(&fat_tree(&FatTree::new(20, 3)).unwrap()), &record, 7);
        assert!(lmc.unwrap_err().to_string().contains("choose a lower LMC"));
    }
}
