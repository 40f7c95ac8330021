//! Systems of boards, and those of Debian's `ibutils` where it is installed.

use super::*;

const IBNL: &str = "SYSTEM LEAF,LEAF:4x\n\nNODE SW 4 CHIP U1\n  1 -4x-5G-> P1\n  2 -> P2\n  3 -> UP\n\nSYSTEM SPINE\nNODE SW 2 CHIP U1\n  1 -> D1\n  2 -> D2\n\nTOPSYSTEM BOX,Box\nspine/U1=isChaBma\nSUBSYSTEM SPINE spine\n  D1 -4x-10G-> leaf1 UP\n  D2 -> leaf2 UP\nSUBSYSTEM LEAF leaf1\n  P1 -> L1/P1\n  P2 -> L1/P2\nSUBSYSTEM LEAF leaf2\n  P1 -> L2/P1\n";
const CARD: &str = "TOPSYSTEM CARD\nNODE CA 2 CHIP U1\n  1 -> P1\n  2 -> P2\n";

fn library() -> Library {
    let mut library = Library::default();
    library.add(IBNL.as_bytes());
    library.add(CARD.as_bytes());
    assert!(library.anomalies.is_empty(), "{:?}", library.anomalies);
    library
}

#[test]
fn systems_are_made_of_their_boards() {
    let topo = "# a box\nBOX b\n   L1/P1 -> CARD h1 P1\n   L2/P1 -4x-2.5G-> CARD h1 P2\n";
    let reading = read_topo(topo.as_bytes(), &library()).unwrap();
    assert!(reading.anomalies.is_empty(), "{:?}", reading.anomalies);
    let graph = reading.graph;
    assert_eq!((graph.count(Kind::Switch), graph.count(Kind::Host), graph.link_count()), (3, 1, 4));
    let node = |name: &str| graph.nodes().find(|node| graph.name(*node) == name).unwrap();
    let port = graph.port(node("b/leaf1/U1"), 1).unwrap();
    assert_eq!(graph.neighbour(port), Some(node("h1/U1")));
    assert_eq!(graph.link(port), Some(LinkSpec { width: Width::X4, speed: Speed::Ddr }));
    let up = graph.port(node("b/spine/U1"), 1).unwrap();
    assert_eq!(graph.link(up), Some(LinkSpec { width: Width::X4, speed: Speed::Qdr }));
}

#[test]
fn boards_can_be_missing_and_systems_unknown() {
    let topo = "BOX b CFG: leaf2=R\n   L1/P1 -> CARD h1 P1\n   L2/P1 -> CARD h1 P2\n   L1/P2 -> OTHER x P1\nnonsense\n";
    let reading = read_topo(topo.as_bytes(), &library()).unwrap();
    let found: Vec<_> = reading.anomalies.iter().map(|anomaly| (anomaly.line, anomaly.cause)).collect();
    assert_eq!(found, [(3, Cause::NoSuchPort), (4, Cause::Dangling), (5, Cause::NotUnderstood)]);
    assert_eq!((reading.graph.count(Kind::Switch), reading.graph.link_count()), (2, 2));
    assert!(read_topo(b"OTHER x\n", &library()).is_err());
    let mut endless = Library::default();
    endless.add(b"SYSTEM A\nSUBSYSTEM A a\nTOPSYSTEM T\nSUBSYSTEM A a\nNODE SW 2 C U1\n");
    assert!(read_topo(b"T t\n", &endless).unwrap().anomalies.total() > 0);
    let mut many = Library::default();
    let boards: String = (0..12).map(|at| format!("SUBSYSTEM A a{at}\n")).collect();
    many.add(format!("SYSTEM A\n{boards}TOPSYSTEM T\n{boards}").as_bytes());
    assert!(read_topo(b"T t\n", &many).unwrap_err().to_string().contains("boards"));
}

#[test]
fn systems_of_others_are_read() {
    let folder = std::path::Path::new("/usr/lib/x86_64-linux-gnu/ibdm1.5.7/ibnl");
    let Ok(entries) = std::fs::read_dir(folder) else {
        println!("skipped: ibutils is not installed");
        return;
    };
    let mut library = Library::default();
    let paths = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "ibnl"));
    paths.for_each(|path| library.add(&std::fs::read(path).unwrap()));
    assert!(library.anomalies.is_empty(), "{:?}", library.anomalies.iter().take(3).collect::<Vec<_>>());
    let topo = std::fs::read(folder.join("RhinoBased512.topo")).unwrap();
    let reading = read_topo(&topo, &library).unwrap();
    assert_eq!(
        reading.graph.count(Kind::Host),
        512,
        "{:?}",
        reading.anomalies.iter().take(3).collect::<Vec<_>>()
    );
}
