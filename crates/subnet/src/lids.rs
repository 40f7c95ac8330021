//! Which port gets which LID: the recorded one, else the one that it has, else a free one.

use std::collections::HashSet;
use std::sync::Arc;

use topology::routing::{Lids, LidsError};
use topology::{Graph, PortIx};

use crate::record::Record;

/// LIDs of all end ports, with LMC 0. The record comes first; then what a port has; then the lowest LIDs that
/// are neither in use nor recorded for a port that is not there, which may come back with it. Only if those
/// run out are LIDs of absent ports given away.
///
/// # Errors
/// More ports than LIDs.
pub fn assign(graph: &Graph, record: &Record) -> Result<Arc<Lids>, LidsError> {
    let recorded = |port: PortIx| record.lid(graph.port_guid(port));
    let has = |port: PortIx| Some(graph.lid(port)).filter(|lid| *lid != 0);
    let recorded_lids: HashSet<u16> = record.iter().map(|one| one.1).collect();
    // A LID that a port has may be recorded for another one: then it is the other's.
    let known = |port| recorded(port).or_else(|| has(port).filter(|lid| !recorded_lids.contains(lid)));
    let first = Lids::assign(graph, 0, known)?;
    let collides = |lid: u16, port: PortIx| known(port) != Some(lid) && recorded_lids.contains(&lid);
    if !first.iter().any(|(lid, port)| collides(lid, port)) {
        return Ok(Arc::new(first));
    }
    // Those that got the LID of an absent port take one above all of them.
    let used: HashSet<u16> = first.iter().map(|one| one.0).collect();
    let mut free =
        (1..=topology::routing::lids::TOP).filter(|lid| !used.contains(lid) && !recorded_lids.contains(lid));
    let mut moved = std::collections::HashMap::new();
    for (lid, port) in first.iter().filter(|(lid, port)| collides(*lid, *port)) {
        moved.insert(port, free.next().unwrap_or(lid));
    }
    let all = |port| moved.get(&port).copied().or_else(|| first.base(port));
    Lids::assign(graph, 0, all).map(Arc::new)
}

/// The GUIDs of end ports and the LIDs that they have now, whoever gave them.
#[must_use]
pub fn held(graph: &Graph) -> Vec<(u64, u16)> {
    let ends = graph.nodes().flat_map(|node| graph.ports(node)).filter(|port| {
        let is_switch = graph.kind(graph.owner(*port)) == topology::Kind::Switch;
        is_switch == (graph.number(*port) == 0)
    });
    let all = ends.map(|port| (graph.port_guid(port), graph.lid(port)));
    all.filter(|(guid, lid)| *guid != 0 && mad::Lid(*lid).is_unicast()).collect()
}

/// The GUIDs and LIDs in use, for the record.
#[must_use]
pub fn in_use(graph: &Graph, lids: &Lids) -> Vec<(u64, u16)> {
    lids.iter().map(|(lid, port)| (graph.port_guid(port), lid)).filter(|one| one.0 != 0).collect()
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
        let first = assign(&graph, &Record::default()).unwrap();
        let mut record = Record::default().updated(&in_use(&graph, &first));
        // One host had a high LID, and a stranger the lowest one.
        let host = graph.nodes_of(Kind::Host).next().unwrap();
        let port = graph.port(host, 1).unwrap();
        assert_eq!(first.base(port), Some(1));
        record.keep(graph.port_guid(port), 300);
        record.keep(0xdead, 1);
        let again = assign(&graph, &record).unwrap();
        assert_eq!(again.base(port), Some(300));
        let rest = |lids: &Lids| lids.iter().filter(|one| one.1 != port).collect::<Vec<_>>();
        assert_eq!(rest(&again), rest(&first), "all others keep theirs");
        // A port that was not recorded gets a free one, and not the absent one's.
        let fewer: Vec<(u64, u16)> =
            in_use(&graph, &first).into_iter().filter(|one| one.0 != graph.port_guid(port)).collect();
        let mut record = Record::default().updated(&fewer);
        record.keep(0xdead, 1);
        let new = assign(&graph, &record).unwrap();
        assert_eq!(new.base(port), Some(new.top()));
    }
}
