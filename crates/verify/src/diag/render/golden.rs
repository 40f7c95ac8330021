//! Our layout beside the classic one, line by line, in the situation of the classic sample: two nodes, of
//! which one is not reached any more. Numbers, names and dates are masked.

use proto::fault::LinkFaults;
use proto::ids::AdapterNo;
use proto::wire::status::{AdapterInfo, LinkStatus, NodeInfo, SessionState};
use tieline::NodeId;

use super::super::*;

const CLASSIC: &str = include_str!("classic.txt");
const OURS: &str = include_str!("ours.txt");

/// What the classic tool says of its cards, which links in software do not have; and the two lines that name
/// other things.
const OF_CARDS: [&str; 20] = [
    "  Dolphin diagnostic tool --  dis_diag version",
    "         x86_64 x86_64 x86_64 GNU/Linux",
    "            Serial number",
    "            MXH chip",
    "            EEPROM",
    "            Card revision",
    "            Topology Autodetect",
    "            Max payload size",
    "            Multicast group size",
    "            Prefetchable memory size",
    "            Non-prefetchable size",
    "            Clock mode",
    "            PCIe slot",
    "            Link 0 required",
    "            Link 0 capabilities",
    "OK: MXH chip alive",
    "OK: Link alive",
    // In the sample it contradicts its own warning; here the session shows what the warning says.
    "Nodes detected:   0004  0008",
    "Node 8: Session valid",
    "Adapters found: 2",
];

fn id(number: u32) -> NodeId {
    NodeId::new(number).unwrap()
}

fn report() -> DiagReport {
    let link = LinkStatus {
        adapter: AdapterNo(0),
        peer: id(8),
        peer_host: "betty".into(),
        other_host: false,
        kind: Default::default(),
        session: SessionState::Lost,
        reason: Some("no heartbeat for 5 s".into()),
        generation: 2,
        since_ns: 2_000_000_000,
        downtime_ns: 2_000_000_000,
        taken_down: false,
        partner: id(8),
        faults: LinkFaults::default(),
        heartbeats_received: 7,
        heartbeats_missed: 5,
        round_trip_ns: Some(214_000),
        least_round_trip_ns: Some(180_400),
        clock_offset_ns: None,
        clock_error_ns: None,
        address: None,
        via: None,
    };
    let info = NodeInfo {
        node: id(4),
        cluster: "default".into(),
        host: "hetty".into(),
        version: "0.1.0".into(),
        manager_pid: 77,
        incarnation: 0x27bf_42d1,
        adapters: vec![AdapterInfo {
            number: AdapterNo(0),
            kind: "shm".into(),
            capabilities: ["map", "put"].map(str::to_owned).into(),
        }],
        faults: false,
        rails: Vec::new(),
    };
    let part = |name: &str| SelfTest { name: name.into(), error: None, in_doubt: false, duration_ns: 1500 };
    let mut node = NodeDiag {
        info: Some(info),
        links: vec![link],
        counters: Some(Counters::default()),
        self_test: vec![part("memory pattern"), part("doorbell")],
        ..NodeDiag::untested(id(4))
    };
    let entry = |node, host: &str, line| HostEntry { node: id(node), host: host.into(), line };
    let hosts =
        HostFile { path: "dishosts.conf".into(), entries: vec![entry(4, "hetty", 3), entry(8, "betty", 5)] };
    judge::judge(&mut node, judge::Others::default(), Some(&hosts), None);
    node.verdict = Verdict::Pass;
    let system = System { started_unix_s: 1_490_806_972, uname: "Linux hetty 6.1 x86_64".into(), bits: 64 };
    DiagReport {
        nodes: vec![node],
        disagreements: Vec::new(),
        verdict: Verdict::Pass,
        system,
        hosts: Some(hosts),
        load: Load::default(),
    }
}

/// A line without what differs from machine to machine: behind a colon only that there is something.
fn masked(line: &str) -> String {
    let line = line.replace("MXH", "SHM");
    match line.split_once(" : ") {
        Some((name, _)) => format!("{} : …", name.trim_end()),
        None => line.trim_end().replace(|c: char| c.is_ascii_digit(), "#"),
    }
}

fn shown(verbosity: u8) -> String {
    report().render(View { verbosity, tool: "dis_diag" })
}

#[test]
fn our_layout_is_this() {
    let lines = |text: &str| text.lines().map(masked).collect::<Vec<_>>();
    assert_eq!(lines(&shown(1)), lines(OURS), "\n{}", shown(1));
}

#[test]
fn every_line_of_the_classic_layout_is_there_in_its_place_or_is_about_cards() {
    let text = shown(1);
    let mut ours = text.lines().map(masked).filter(|line| !line.is_empty());
    let mut compared = 0;
    for line in CLASSIC.lines().filter(|line| !line.is_empty()) {
        if OF_CARDS.iter().any(|start| line.starts_with(start)) {
            continue;
        }
        let wanted = masked(line);
        // A finding says more in ours than in the sample.
        let there = ours.any(|line| line.starts_with(&wanted));
        assert!(there, "`{line}` is missing, or not in its place:\n{text}");
        compared += 1;
    }
    assert!(compared > 25, "only {compared} lines were compared");
}

#[test]
fn every_level_shows_all_of_the_one_below_and_more() {
    let mut below: Vec<String> = shown(0).lines().map(str::to_owned).collect();
    for verbosity in 1..=9 {
        let text = shown(verbosity);
        let mut lines = text.lines();
        for line in &below {
            assert!(lines.any(|other| other == line), "level {verbosity} lacks `{line}`:\n{text}");
        }
        let now: Vec<String> = text.lines().map(str::to_owned).collect();
        assert!(now.len() > below.len(), "level {verbosity} shows no more than the one below:\n{text}");
        below = now;
    }
}
