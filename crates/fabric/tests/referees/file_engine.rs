//! OpenSM's routing engine `file` loads the tables that are written for it, whatever LIDs it gives.

use std::fs::File;
use std::sync::Arc;

use fabric::observe::{Options, observe};
use mad::ibsim::IbsimTransport;
use topology::routing::{Engine, Lids, Request, check, referee, route};
use topology::{Graph, NodeIx, PortIx};

use crate::serving::{Serving, missing, tree};

#[test]
fn opensm_loads_the_tables_that_are_written_for_it() {
    if missing(&["opensm"]) {
        return;
    }
    let graph = tree();
    // Other LIDs than OpenSM gives.
    let lids = Arc::new(Lids::assign(&graph, 0, |port| u16::try_from(900 - port.0).ok()).unwrap());
    let tables = route(&graph, &lids, &Request::by(Engine::Balanced)).unwrap().tables;
    let serving = Serving::new("file-engine", graph.clone(), false);
    let (dump, log) = (serving.folder.0.join("dump"), serving.folder.0.join("osm.log"));
    referee::write_lfts(&graph, &tables, 1, &mut File::create(&dump).unwrap()).unwrap();
    let words = ["opensm", "-o", "-e", "-R", "file", "-U", "dump", "-f", "osm.log"];
    drop(serving.program("host00000", &words).output().unwrap());
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains("SUBNET UP") && !said.contains("PARSE ERROR"), "{said}");

    let mut transport = IbsimTransport::connect(&serving.base, "host00003").unwrap();
    let options = Options { counters: false, ..Options::default() };
    let seen = observe(&mut transport, "test", &options, &mut |_| (), &|| false).unwrap().snapshot;
    let loaded = seen.tables.unwrap();
    let checked = check(&seen.graph, &loaded);
    assert_eq!((checked.lost, checked.cut), (0, 0), "{checked:?}");
    let there = |node: NodeIx| seen.graph.node_by_guid(graph.node_guid(node)).unwrap();
    let lid = |graph: &Graph, node: NodeIx| graph.lid(PortIx(graph.ports(node).next_back().unwrap().0));
    let mut entries = 0;
    for (row, switch) in tables.switches().iter().enumerate() {
        let theirs = loaded.table(loaded.index_of(there(*switch)).unwrap());
        for host in graph.nodes_of(topology::Kind::Host) {
            let ours = usize::from(lids.base(graph.ports(host).next_back().unwrap()).unwrap());
            let lid = usize::from(lid(&seen.graph, there(host)));
            assert_ne!(lid, ours);
            assert_eq!(theirs[lid], tables.table(row)[ours], "{} {}", graph.name(*switch), graph.name(host));
            entries += 1;
        }
    }
    assert_eq!(entries, 20 * 16);
    serving.end();
}
