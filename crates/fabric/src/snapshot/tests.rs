use super::*;
use topology::build::{FatTree, fat_tree};
use topology::routing::{Engine, Request, route};

pub(super) fn snapshot() -> Snapshot {
    let graph = fat_tree(&FatTree::new(4, 2)).unwrap();
    let (graph, lids) = crate::tables::tests::with_lids(&graph);
    let tables = route(&graph, &lids, &Request::by(Engine::FatTree)).unwrap().tables;
    let facts = PortFacts {
        state: 4,
        physical: 5,
        width: [3, 2, 2],
        speed: [0x77, 0x77, 0x40],
        mtu: [5, 5],
        sm_lid: 1,
        vls: 8,
    };
    let mut ports = vec![None; graph.port_total()];
    let mut counters = BTreeMap::new();
    for (a, b) in graph.links() {
        for port in [a, b] {
            ports[port.index()] = Some(facts);
            counters.insert(port, Counters { symbol_errors: 3, ..Counters::default() });
        }
    }
    let (silent, _) = counters.pop_first().unwrap();
    Snapshot {
        taken: 7,
        source: "a test".into(),
        graph,
        ports,
        counters: Some(counters),
        uncounted: vec![(silent, "does not respond".into())],
        tables: Some(tables),
        vl_maps: [((PortIx(1), PortIx(2)), [7; 16])].into(),
        concerns: vec![Concern { grave: true, text: "a doubt".into() }],
        more_concerns: 2,
    }
}

#[test]
fn what_is_written_is_read_the_same() {
    let before = snapshot();
    let mut bytes = Vec::new();
    write(&before, &mut bytes).unwrap();
    let after = read(&bytes, None, "memory").unwrap();
    assert_eq!(before.graph.differences(&after.graph, 10), Vec::<String>::new());
    assert_eq!(
        (before.taken, &before.source, &before.concerns),
        (after.taken, &after.source, &after.concerns)
    );
    assert_eq!((&before.ports, &before.counters), (&after.ports, &after.counters));
    assert_eq!((&before.uncounted, before.more_concerns), (&after.uncounted, after.more_concerns));
    assert_eq!(before.vl_maps.len(), after.vl_maps.len());
    assert_eq!(before.tables.unwrap().changes(&after.tables.unwrap()).count(), 0);
}

#[test]
fn damage_is_an_error_and_never_another_fabric() {
    let mut bytes = Vec::new();
    write(&snapshot(), &mut bytes).unwrap();
    for length in [1, 40, 200, bytes.len() / 2, bytes.len() - 3] {
        assert!(read(&bytes[..length], None, "cut").is_err(), "{length}");
    }
    let text = String::from_utf8(bytes).unwrap();
    for (from, to) in [
        ("\"links\":[{\"ends\":[[0,", "\"links\":[{\"ends\":[[999,"),
        ("\"kind\":\"switch\"", "\"kind\":\"toaster\""),
        ("\"guid\":\"0x", "\"guid\":\"0y"),
        ("snapshot/1", "snapshot/9"),
    ] {
        assert!(text.contains(from), "{from}");
        assert!(read(text.replacen(from, to, 1).as_bytes(), None, "changed").is_err(), "{to}");
    }
}

#[test]
fn sets_of_widths_and_speeds_have_an_order() {
    assert_eq!((widest(0b1_0011), widest(0)), (Width::X4, Width::Unknown));
    assert_eq!((fastest(0x37), fastest(0x101), fastest(0)), (Speed::Edr, Speed::Xdr, Speed::Unknown));
}
