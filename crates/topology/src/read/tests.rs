//! Files of all kinds, good and bad.

use proptest::prelude::*;

use super::*;
use crate::graph::{Kind, LinkSpec, NodeIx, Speed, Width};

/// A dump of several vintages: labels of a chassis, several ports at a host, odd names, lines of `-g`, rates
/// up to XDR.
const DUMP: &str = r##"#
# Topology file: generated on Fri May 31 10:21:45 2024
#
# Initiated from node 0002c90300a1b2c0 port 0002c90300a1b2c1

Chassis 1 (guid 0x2c902004048)

vendid=0x2c9
devid=0xd2f2
sysimgguid=0x2c902004048		# Chassis 1
switchguid=0x2c902004040(2c902004040)	# Spine 1 Chip 1
Switch	65 "S-0002c90200404040"		# "MF0;sp "1" #x:MQM9700/U1" enhanced port 0 lid 1 lmc 0
[1]	"H-0002c90300a1b2c0"[1](2c90300a1b2c1) 		# "node01 "mlx5_0"" lid 22 4xXDR
[2][ext 7]	"H-0002c90300a1b2c0"[2](2c90300a1b2c2) 		# "node01 "mlx5_0"" lid 24 2xNDR
[3]	"S-0002c90200404050"[36][ext 12]		# "leaf" lid 2 4xHDR s=1 w=2 v=4

vendid=0x2c9
devid=0xbd36
sysimgguid=0x2c902004058
switchguid=0x2c902004050(2c902004050)
Switch	36 "S-0002c90200404050"		# "leaf" base port 0 lid 2 lmc 1
[36][ext 12]	"S-0002c90200404040"[3]		# "MF0;sp "1" #x:MQM9700/U1" lid 1 4xHDR

vendid=0x119f
devid=0x1
sysimgguid=0x2c90300a1b2c3
caguid=0x2c90300a1b2c0
Ca	2 "H-0002c90300a1b2c0"		# "node01 "mlx5_0""
[1](2c90300a1b2c1) 	"S-0002c90200404040"[1]		# lid 22 lmc 1 "MF0;sp "1" #x:MQM9700/U1" lid 1 4xXDR
[2](2c90300a1b2c2) 	"S-0002c90200404040"[2]		# lid 24 lmc 0 "MF0;sp "1" #x:MQM9700/U1" lid 1 2xNDR
"##;

fn believe(text: &str) -> Reading {
    let reading = read(text.as_bytes(), None).unwrap();
    let anomalies: Vec<_> = reading.anomalies.iter().collect();
    assert!(anomalies.is_empty(), "{anomalies:?}");
    reading
}

/// Anomalies about a dump after a change: line and cause of each.
fn anomalies(from: &str, to: &str) -> (Reading, Vec<(usize, Cause)>) {
    assert!(DUMP.contains(from));
    let reading = read(DUMP.replacen(from, to, 1).as_bytes(), None).unwrap();
    let anomalies = reading.anomalies.iter().map(|anomaly| (anomaly.line, anomaly.cause)).collect();
    (reading, anomalies)
}

/// A tool writes the GUID of the system where others write the switch's.
#[test]
fn of_the_guids_of_a_switch_the_one_that_cables_name_counts() {
    let text = "sysimgguid=0x2c90300000a00
switchguid=0x2c90300000a00(2c90300000001)
Switch\t36 \"S-0002c90300000001\"\t# \"L01\" base port 0 lid 1 lmc 0
[1](1)\t\"S-0002c90300000002\"[1]\t# \"L02\" lid 2 4xHDR

sysimgguid=0x2c90300000a00
switchguid=0x2c90300000a00(2c90300000002)
Switch\t36 \"S-0002c90300000002\"\t# \"L02\" base port 0 lid 2 lmc 0
[1](1)\t\"S-0002c90300000001\"[1]\t# \"L01\" lid 1 4xHDR
";
    let Reading { graph, anomalies, .. } = read(text.as_bytes(), None).unwrap();
    let guids = [NodeIx(0), NodeIx(1)].map(|node| (graph.node_guid(node), graph.system_guid(node)));
    assert_eq!(guids, [(0x2_c903_0000_0001, 0x2_c903_0000_0a00), (0x2_c903_0000_0002, 0x2_c903_0000_0a00)]);
    // Said once for all.
    let anomalies: Vec<_> = anomalies.iter().map(|anomaly| (anomaly.line, anomaly.cause)).collect();
    assert_eq!(anomalies, [(3, Cause::SystemGuid)]);
    // Two nodes can't both have it.
    let twice = text
        .replace("90300000002", "90300000001")
        .replace("S-0002c90300000001\"\t# \"L02", "S-0002C90300000001\"\t# \"L02");
    assert_eq!(read(twice.as_bytes(), None).unwrap().graph.node_guid(NodeIx(1)), 0x2_c903_0000_0a00);
}

#[test]
fn a_switch_without_lid_and_a_cable_from_a_switch_to_itself_are_anomalies() {
    assert_eq!(
        anomalies("enhanced port 0 lid 1 lmc 0", "enhanced port 0 lid 0 lmc 0").1,
        [(0, Cause::NoLid)]
    );
    let none = DUMP
        .replace("port 0 lid 1 lmc 0", "port 0 lid 0 lmc 0")
        .replace("port 0 lid 2 lmc 1", "port 0 lid 0 lmc 0");
    assert!(believe(&none).anomalies.is_empty());
    let cable = "[4]\t\"S-0002c90200404040\"[5]\t# \"sp\" lid 1 4xHDR\n[5]\t\"S-0002c90200404040\"[4]\t# \"sp\" lid 1 4xHDR\n";
    let line = "[3]\t\"S-0002c90200404050\"[36]";
    let (reading, found) = anomalies(line, &format!("{cable}{line}"));
    assert_eq!((found, reading.graph.link_count()), (vec![(15, Cause::SelfLink)], 4));
}

#[test]
fn a_dump_is_read_with_all_that_it_says() {
    let graph = believe(DUMP).graph;
    let (spine, leaf, host) = (NodeIx(0), NodeIx(1), NodeIx(2));
    assert_eq!((graph.kind(spine), graph.kind(host), graph.link_count()), (Kind::Switch, Kind::Host, 3));
    assert_eq!((graph.name(spine), graph.name(host)), ("MF0;sp \"1\" #x:MQM9700/U1", "node01 \"mlx5_0\""));
    assert_eq!(
        (graph.vendor(host), graph.device(spine), graph.system_guid(spine)),
        (0x119f, 0xd2f2, 0x2c9_0200_4048)
    );
    let port = |node, number| graph.port(node, number).unwrap();
    assert_eq!((graph.lid(port(host, 1)), graph.lmc(port(host, 1)), graph.lid(port(leaf, 9))), (22, 1, 2));
    assert_eq!((graph.lmc(port(leaf, 0)), graph.port_guid(port(host, 2))), (1, 0x2_c903_00a1_b2c2));
    assert_eq!((graph.external(port(spine, 2)), graph.external(port(leaf, 36))), (Some(7), Some(12)));
    let rate = |number| graph.link(port(spine, number)).unwrap();
    assert_eq!(rate(1), LinkSpec { width: Width::X4, speed: Speed::Xdr });
    assert_eq!(rate(2), LinkSpec { width: Width::X2, speed: Speed::Ndr });
    assert_eq!(rate(3), LinkSpec { width: Width::X4, speed: Speed::Hdr });
    assert_eq!(graph.peer(port(spine, 3)), Some(port(leaf, 36)));
}

#[test]
fn windows_line_ends_and_a_byte_order_mark_change_nothing() {
    let text = format!("\u{feff}{}", DUMP.replace('\n', "\r\n"));
    assert_eq!(believe(&text).graph, believe(DUMP).graph);
}

#[test]
fn what_can_t_be_believed_is_an_anomaly_with_its_line() {
    let of = |from, to| anomalies(from, to).1;
    assert_eq!(of("4xXDR", "4xYDR"), [(13, Cause::UnknownRate)]);
    assert_eq!(of(" lid 22 4xXDR", " lid 22 4xNDR"), [(29, Cause::RateDiffers)]);
    assert_eq!(of("Switch\t36", "Switch\t9999999999"), [(15, Cause::Dangling), (21, Cause::BadNumber)]);
    assert_eq!(of("[3]\t", "[66]\t"), [(15, Cause::NoSuchPort), (22, Cause::OneWay)]);
    assert_eq!(of("[3]\t", "[18446744073709551616]\t"), [(15, Cause::NoSuchPort), (22, Cause::OneWay)]);
    assert_eq!(
        of("[36][ext 12]\t\"S-", "[35]\t\"S-"),
        [(15, Cause::Contradiction), (22, Cause::Contradiction)]
    );
    assert_eq!(
        of("\"S-0002c90200404050\"[36]", "\"S-ff\"[36]"),
        [(15, Cause::Dangling), (22, Cause::Contradiction)]
    );
    assert_eq!(of("vendid=0x119f", "vendid=0xzz"), [(24, Cause::BadNumber)]);
    assert_eq!(of("vendid=0x119f", "ibwarn: [77] mad timeout"), [(24, Cause::NotUnderstood)]);
    assert_eq!(of("lid 1 lmc 0", "lid 99999 lmc 0"), [(0, Cause::NoLid), (12, Cause::BadNumber)]);
    assert_eq!(of("caguid=0x2c90300a1b2c0", "caguid=0x2c902004040"), [(28, Cause::DuplicateGuid)]);
    let twice = format!("{DUMP}\n{DUMP}");
    let reading = read(twice.as_bytes(), None).unwrap();
    assert_eq!(reading.anomalies.count(Cause::DuplicateNode), 3);
    assert_eq!(reading.graph, believe(DUMP).graph);
}

#[test]
fn a_cable_that_is_contradicted_is_left_out_whoever_is_right() {
    // The spine leads to port 36 of the leaf, and port 35 of the leaf to the spine.
    let (reading, _) = anomalies("[36][ext 12]\t\"S-", "[35]\t\"S-");
    assert_eq!(reading.graph.link_count(), 2);
    let said: Vec<String> = reading.anomalies.iter().map(ToString::to_string).collect();
    assert!(said[0].contains("in line 22") && said[1].contains("in line 15"), "{said:?}");
    // Two cables into one port that has no line of its own.
    let net = "Switch 4 \"a\"\n[1] \"c\"[1]\nSwitch 4 \"b\"\n[1] \"c\"[1]\nSwitch 4 \"c\"\n";
    let reading = read(net.as_bytes(), Some(Format::IbNetDiscover)).unwrap();
    assert_eq!((reading.graph.link_count(), reading.anomalies.count(Cause::Contradiction)), (0, 2));
    // From a port to itself.
    let reading = read(b"Switch 4 \"a\"\n[1] \"a\"[1]\n", Some(Format::IbSim)).unwrap();
    assert_eq!((reading.graph.link_count(), reading.anomalies.count(Cause::Contradiction)), (0, 1));
}

#[test]
fn ports_after_a_header_that_can_t_be_read_are_nobody_s() {
    for (from, to) in [
        ("Switch\t36", "Swxtch\t36"),
        ("Switch\t36", "Switch\tx"),
        ("Switch\t36 \"S-0002c90200404050\"\t\t# \"leaf\" base port 0 lid 2 lmc 1\n", ""),
        (
            "vendid=0x2c9\ndevid=0xbd36\nsysimgguid=0x2c902004058\nswitchguid=0x2c902004050(2c902004050)\nSwitch\t36",
            "garbled",
        ),
    ] {
        let (reading, found) = anomalies(from, to);
        let spine = NodeIx(0);
        assert_eq!((reading.graph.node_count(), reading.graph.cabled(spine).count()), (2, 2), "{to}");
        assert_eq!(found.iter().filter(|anomaly| anomaly.1 == Cause::NoHeader).count(), 1, "{to}: {found:?}");
        assert!(found.contains(&(15, Cause::Dangling)), "{found:?}");
    }
    // An unknown attribute is skipped, and the node is kept.
    let (reading, found) = anomalies("caguid=", "aguid=");
    assert_eq!(found, [(27, Cause::NotUnderstood)]);
    assert_eq!((reading.graph.link_count(), reading.graph.node_guid(NodeIx(2))), (3, 0x2_c903_00a1_b2c0));
}

#[test]
fn a_cut_file_is_read_as_far_as_it_goes() {
    for end in 0..DUMP.len() {
        if let (true, Ok(reading)) = (DUMP.is_char_boundary(end), read(&DUMP.as_bytes()[..end], None)) {
            assert!(reading.graph.link_count() <= 3);
        }
    }
}

#[test]
fn noise_is_counted_and_not_kept() {
    let noise: String = (0..100_000).map(|at| format!("noise {at} \u{1b}[31m\n")).collect();
    let reading = read(format!("{noise}{DUMP}{noise}").as_bytes(), None).unwrap();
    assert_eq!(reading.graph, believe(DUMP).graph);
    assert_eq!(reading.anomalies.count(Cause::NotUnderstood), 200_000);
    assert_eq!(reading.anomalies.iter().count(), 1_000);
    assert!(!reading.anomalies.iter().any(|anomaly| anomaly.detail.contains('\u{1b}')));
}

#[test]
fn what_is_no_topology_is_an_error_that_says_what_was_looked_for() {
    let why = |bytes: &[u8]| read(bytes, None).unwrap_err().to_string();
    assert!(why(b"").contains("empty") && why(b"\n \r\n").contains("empty"));
    let text = why(b"\x7fELF\x02\x01");
    for word in
        ["ibnetdiscover", "ibsim", "opensm-subnet.lst", "Omni-Path", "tieline", "iblinkinfo", "db_csv"]
    {
        assert!(text.contains(word) && text.len() < 200, "{text}");
    }
    for format in Format::ALL {
        assert!(read(b"nothing\n", Some(format)).is_err());
        assert_eq!(Format::of_word(format.word()), Some(format));
    }
    let forced = read(b"nothing\n", Some(Format::SubnetList)).unwrap_err().to_string();
    assert!(forced.contains("line 1: unrecognised line: `nothing`"), "{forced}");
    let big: String = (0..40_000).map(|at| format!("Switch 254 \"s{at}\"\n")).collect();
    assert!(why(big.as_bytes()).contains("no fabric has"));
}

#[test]
fn our_own_format_is_strict() {
    let why = |text: &str| read(text.as_bytes(), None).unwrap_err().to_string();
    let node = "tieline-topology = 1\nnodes = [\n  { name = \"a\", kind = \"switch\", ports = 4 },\n";
    assert!(why(&format!("{node}  {{ name = \"b\" }},\n]\n")).starts_with("line 4: "));
    assert!(
        why(&format!("{node}  {{ name = \"b\", kind = \"host\", ports = 1, prots = 2 }} ]"))
            .contains("prots")
    );
    assert!(why("tieline-topology = 2\n").contains("version 2"));
    assert!(why("tieline-topology = [\n").starts_with("line "));
    let bad = format!(
        "{node}]\nlinks = [\n  {{ from = [\"a\", 1], to = [\"z\", 1] }},\n  {{ from = [\"a\", 9], to = [\"a\", 2] }},\n  {{ from = [\"a\", 1], to = [\"a\", 1] }},\n  {{ from = [\"a\", 1], to = [\"a\", 2], rate = \"9xHDR\" }},\n]\n"
    );
    let reading = read(bad.as_bytes(), None).unwrap();
    let found: Vec<_> = reading.anomalies.iter().map(|anomaly| (anomaly.line, anomaly.cause)).collect();
    let expect =
        [(6, Cause::Dangling), (7, Cause::NoSuchPort), (8, Cause::Contradiction), (9, Cause::UnknownRate)];
    for one in expect {
        assert!(found.contains(&one), "{one:?} in {found:?}");
    }
}

/// Our own format, in the two ways that it is read: row by row, and as other writers of TOML have it.
#[test]
fn rows_alone_and_the_whole_say_the_same() {
    let head = "tieline-topology = 1\n";
    let rows = [
        "{ name = \"a\", kind = \"switch\", ports = 4, guid = \"0x10\", lid = 7 }",
        "{ name = \"b\", kind = \"host\", ports = 2, port = [{ number = 1, lid = 3 }] }",
    ];
    let link = "{ from = [\"a\", 1], to = [\"b\", 1], rate = \"4xHDR\" }";
    let ours = format!("{head}nodes = [\n{},\n{},\n]\nlinks = [{link}]\n", rows[0], rows[1]);
    let theirs = format!(
        "{head}nodes = [\n{},\n{},\n]\n[[links]]\nfrom = [\"a\", 1]\nto = [\"b\", 1]\nrate = '''4xHDR'''\n",
        rows[0], rows[1]
    );
    assert_eq!(believe(&ours).graph, believe(&theirs).graph);
    assert_eq!(believe(&ours).graph.link_count(), 1);
    // Errors of both name the same line.
    for (from, to) in
        [("lid = 3", "lib = 3"), ("ports = 2", "ports = \"x\""), ("ports = 2, ", ""), ("\"host\"", "host")]
    {
        let why = |text: &str| {
            assert!(text.contains(from));
            read(text.replacen(from, to, 1).as_bytes(), None).unwrap_err().to_string()
        };
        assert_eq!(why(&ours), why(&theirs));
        assert!(why(&ours).starts_with("line 4: "), "{}", why(&ours));
    }
}

#[test]
fn a_lid_of_two_ports_is_an_anomaly() {
    let (reading, found) = anomalies("# lid 24 lmc 0", "# lid 23 lmc 0");
    // 22 with an LMC of 1 is 22 and 23.
    assert_eq!(found, [(0, Cause::DuplicateLid)]);
    let anomaly = reading.anomalies.iter().next().unwrap().to_string();
    assert!(
        anomaly.starts_with("duplicate LID: 23 belongs to `node01") && anomaly.contains("0x0002c90300a1b2c2"),
        "{anomaly}"
    );
    assert_eq!(reading.graph.link_count(), 3);
    let (_, found) = anomalies("port 0 lid 1 lmc 0", "port 0 lid 2 lmc 0");
    assert_eq!(found, [(0, Cause::DuplicateLid)]);
}

#[test]
fn a_dump_whose_tabs_were_lost_has_all_its_nodes() {
    let bare: String = DUMP.replace(['\t'], "");
    let reading = believe(&bare);
    assert_eq!(reading.format, Format::IbNetDiscover);
    assert_eq!(reading.graph.differences(&believe(DUMP).graph, 5), [""; 0]);
}

proptest! {
    /// Whatever is done to a dump, it is read or refused, and what is read is sound.
    #[test]
    fn a_changed_dump_is_read_or_refused(cuts in prop::collection::vec((0..DUMP.len(), any::<u8>(), 0..40_usize), 1..20)) {
        let mut bytes = DUMP.as_bytes().to_vec();
        for (at, byte, length) in cuts {
            let at = at % bytes.len().max(1);
            match length {
                0 => bytes[at] = byte,
                1..20 => drop(bytes.drain(at..(at + length).min(bytes.len()))),
                _ => {
                    let part: Vec<u8> = bytes[at..(at + length).min(bytes.len())].to_vec();
                    bytes.extend(part);
                }
            }
            if bytes.is_empty() {
                break;
            }
        }
        for forced in Format::ALL.map(Some).into_iter().chain([None]) {
            check(&bytes, forced);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for forced in Format::ALL.map(Some).into_iter().chain([None]) {
            check(&bytes, forced);
        }
    }
}

fn check(bytes: &[u8], forced: Option<Format>) {
    let Ok(reading) = read(bytes, forced) else { return };
    for (a, b) in reading.graph.links() {
        assert_eq!(reading.graph.peer(b), Some(a));
        assert!(a != b && reading.graph.number(a) > 0);
    }
    assert!((0.0..=1.0).contains(&crate::recognise::recognise(&reading.graph).confidence));
    crate::draw::svg(&reading.graph, &mut std::io::sink()).unwrap();
}
