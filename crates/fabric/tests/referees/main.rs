//! Programs of others as referees: infiniband-diags and OpenSM look at a fabric that is served here, and
//! ibsim serves one that is swept here. What is not installed is skipped, and said so.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test's helpers"
)]

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use fabric::counters;
use fabric::server::{Event, Options, serve};
use fabric::sweep::{self, Found};
use mad::ibsim::IbsimTransport;
use mad::umad::UmadTransport;
use topology::build::{FatTree, fat_tree};

mod file_engine;
mod serving;

use serving::{Folder, Running, Serving, fields, links, listed, missing, names, net, stock, tree, until};

#[test]
fn a_sweep_of_ibsims_fabric_is_ibnetdiscovers_graph() {
    if missing(&["ibsim", "ibnetdiscover"]) {
        return;
    }
    let graph = fat_tree(&FatTree::new(8, 3)).unwrap();
    let folder = Folder::new("ibsim");
    let base = format!("tl-ibsim-{}", std::process::id());
    std::fs::write(folder.0.join("net"), net(&graph)).unwrap();
    let mut command = Command::new("ibsim");
    command.args(["-s", "-n", "net"]).current_dir(&folder.0).env("IBSIM_SOCKNAME", &base);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _ibsim = Running(command.spawn().unwrap());
    until("ibsim's start", || IbsimTransport::connect(&base, "host00001").is_ok());
    for _ in 0..30 {
        // More than it has room for at once: each disconnects.
        drop(IbsimTransport::connect(&base, "host00002").unwrap());
    }
    let mut transport = IbsimTransport::connect(&base, "host00001").unwrap();
    let found = sweep::sweep(&mut transport, &sweep::Options::default(), &mut |_| (), &|| false).unwrap();
    assert_eq!(found.anomalies, []);
    assert_eq!(names(&found.graph), names(&graph));
    let output = stock(&base, &folder.0, "host00001", &["ibnetdiscover"]).output().unwrap();
    assert_eq!(links(&found.graph), listed(&String::from_utf8_lossy(&output.stdout)));
}

#[test]
fn stock_programs_see_the_fabric_that_is_served() {
    if missing(&[
        "ibnetdiscover",
        "smpquery",
        "perfquery",
        "ibstat",
        "iblinkinfo",
        "ibqueryerrors",
        "ibtracert",
    ]) {
        return;
    }
    let graph = tree();
    let serving = Serving::new("stock", graph.clone(), true);
    assert_eq!(listed(&serving.run("host00003", &["ibnetdiscover"])), links(&graph));
    let found = serving.sweep("host00003");
    assert_eq!(found.anomalies, []);
    assert_eq!(links(&found.graph), links(&graph));
    assert!(serving.run("host00003", &["ibstat"]).contains("State: Active"));
    let links_up = serving.run("host00003", &["iblinkinfo"]).matches("Active/  LinkUp").count();
    assert_eq!(links_up, 2 * graph.link_count());

    // What smpquery decodes is what we decode.
    let path = ["-D", "0,1,3"];
    let asked = |what: &str, more: &str| {
        let mut words = vec!["smpquery", what];
        words.extend(path);
        words.extend((!more.is_empty()).then_some(more));
        fields(&serving.run("host00003", &words))
    };
    let ours = found.nodes.iter().find(|node| node.path.ports() == [1, 3]).unwrap();
    let node = asked("nodeinfo", "");
    assert_eq!(node["Guid"], ours.info.node_guid().to_string());
    assert_eq!(node["PortGuid"], ours.info.port_guid().to_string());
    assert_eq!(node["NumPorts"], ours.info.ports().to_string());
    assert_eq!(node["LocalPort"], ours.info.local_port().to_string());
    assert_eq!(node["DevId"], format!("{:#06x}", ours.info.device()));
    assert_eq!(node["PartCap"], ours.info.partition_capacity().to_string());
    let switch = asked("switchinfo", "");
    let info = ours.switch.unwrap();
    assert_eq!(switch["LinearFdbCap"], info.linear_capacity().to_string());
    assert_eq!(switch["LinearFdbTop"], info.linear_top().to_string());
    assert_eq!(switch["LifeTime"], info.life_time().to_string());
    assert_eq!(switch["PartEnforceCap"], info.partition_enforcement().to_string());
    let port = asked("portinfo", "2");
    let index = found.graph.node_by_guid(ours.info.node_guid().0).unwrap();
    let info = found.port(found.graph.port(index, 2).unwrap()).unwrap();
    assert_eq!(port["CapMask"], format!("{:#x}", info.capability_mask()));
    assert_eq!(port["LinkState"], "Active");
    assert_eq!(port["PhysLinkState"], "LinkUp");
    assert_eq!(port["LocalPort"], info.local_port().to_string());
    assert_eq!(port["LinkSpeedExtActive"], "25.78125 Gbps");
    assert_eq!(port["VLCap"], "VL0-7");
    assert_eq!(port["NeighborMTU"], "4096");
    assert_eq!(port["SubnetTimeout"], info.subnet_timeout().to_string());

    // A route by the tables, partly directed, and a refusal.
    let lid = |name: &str| {
        found.graph.lid(
            found
                .graph
                .ports(found.graph.nodes().find(|n| found.graph.name(*n) == name).unwrap())
                .next_back()
                .unwrap(),
        )
    };
    let (from, to) = (lid("host00000").to_string(), lid("host00015").to_string());
    let route = serving.run("host00003", &["ibtracert", &from, &to]);
    assert!(route.contains("To ca") && route.contains("host00015"), "{route}");
    let combined =
        serving.run("host00003", &["smpquery", "-c", "nodeinfo", &lid("leaf001").to_string(), "0,1"]);
    assert_eq!(fields(&combined)["NodeType"], "Channel Adapter", "{combined}");
    let refused = serving.program("host00003", &["smpquery", "-D", "switchinfo", "0"]).output().unwrap();
    assert!(!refused.status.success());

    // Counters that were set are what perfquery shows; ours are the same.
    let leaf = lid("leaf002").to_string();
    for (name, value) in [
        ("symbol_errors", 77),
        ("transmit_wait", 5_000_000_000_u64),
        ("transmit_data", 1 << 40),
        ("integrity_errors", 99),
    ] {
        assert_eq!(serving.command(&format!("counter leaf002 3 {name} {value}")), "ok");
    }
    let narrow = fields(&serving.run("host00003", &["perfquery", &leaf, "3"]));
    assert_eq!(
        (narrow["SymbolErrorCounter"].as_str(), narrow["LocalLinkIntegrityErrors"].as_str()),
        ("77", "15")
    );
    assert_eq!(
        (narrow["PortXmitWait"].as_str(), narrow["PortXmitData"].as_str()),
        ("4294967295", "4294967295")
    );
    let wide = fields(&serving.run("host00003", &["perfquery", "-x", &leaf, "3"]));
    let sent: u64 = wide["PortXmitData"].parse().unwrap();
    assert!(sent >= 1 << 40);

    let said = String::from_utf8_lossy(
        &serving.program("host00003", &["ibqueryerrors", "--skip-sl"]).output().unwrap().stdout,
    )
    .into_owned();
    assert!(said.contains("SymbolErrorCounter == 77"), "{said}");
    collected_are_those(&serving, &found);
    // Only what perfquery is told to clear is cleared.
    serving.run("host00003", &["perfquery", "-R", &leaf, "3", "0x0001"]);
    let narrow = fields(&serving.run("host00003", &["perfquery", &leaf, "3"]));
    assert_eq!(
        (narrow["SymbolErrorCounter"].as_str(), narrow["LocalLinkIntegrityErrors"].as_str()),
        ("0", "15")
    );
    let served = serving.end();
    assert!(served.datagrams > 0 && served.clients > 10, "{served:?}");
}

fn collected_are_those(serving: &Serving, found: &Found) {
    let mut transport = IbsimTransport::connect(&serving.base, "host00005").unwrap();
    let mut plan = counters::Plan::new(&found.graph);
    let collected =
        counters::collect(&mut transport, &mut plan, &counters::Options::default(), &|| false).unwrap();
    assert_eq!((collected.missing.len(), collected.readings.len()), (0, 96));
    let leaf = found.graph.nodes().find(|node| found.graph.name(*node) == "leaf002").unwrap();
    let port = found.graph.port(leaf, 3).unwrap();
    let reading = collected.readings.iter().find(|reading| reading.port == port).unwrap();
    assert_eq!((reading.counters.symbol_errors, reading.counters.integrity_errors), (77, 15));
    assert!(reading.counters.transmit_data >= 1 << 40 && reading.wide);
    assert_eq!(reading.counters.transmit_wait, u64::from(u32::MAX));
}

/// OpenSM at a node, which writes to this log at once, polls a master every second and gives it up after two.
fn opensm(serving: &Serving, node: &str, log: &std::path::Path) -> Running {
    let folder = &serving.folder.0;
    let conf = folder.join(format!("{node}.conf"));
    let words = ["opensm", "-c", conf.to_str().unwrap()];
    assert!(serving.program(node, &words).output().unwrap().status.success());
    let mut text = std::fs::read_to_string(&conf).unwrap();
    for (name, value) in
        [("force_log_flush", "TRUE"), ("sminfo_polling_timeout", "1000"), ("polling_retry_number", "2")]
    {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        text = text.replace(&line, &format!("{name} {value}"));
    }
    std::fs::write(&conf, text).unwrap();
    // Not by way of `timeout`, which would be killed in its place.
    let mut command = Command::new("opensm");
    let like = serving.program(node, &[]);
    command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(folder).arg("-F").arg(&conf).args(["-e", "-R", "minhop", "-f"]).arg(log);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Running(command.spawn().unwrap())
}

#[test]
fn a_standby_takes_over_when_the_master_is_killed() {
    if missing(&["opensm"]) {
        return;
    }
    let serving = Serving::new("standby", tree(), false);
    let said =
        |log: &std::path::Path, what: &str| std::fs::read_to_string(log).unwrap_or_default().contains(what);
    let (one, other) = (serving.folder.0.join("one.log"), serving.folder.0.join("other.log"));
    let master = opensm(&serving, "host00000", &one);
    until("a master", || said(&one, "Entering MASTER"));
    let standby = opensm(&serving, "host00009", &other);
    until("a standby", || said(&other, "Entering STANDBY"));
    assert!(serving.command("clients").matches(" sm").count() == 2);
    drop(master);
    until("another master", || said(&other, "Entering MASTER") && said(&other, "SUBNET UP"));
    assert!(serving.command("clients").matches(" sm").count() == 1);
    drop(standby);
    serving.end();
}

#[test]
fn opensm_brings_it_up_and_routes_anew_after_a_trap() {
    if missing(&["opensm", "sminfo", "saquery", "ibtracert", "perfquery"]) {
        return;
    }
    let serving = Serving::new("opensm", tree(), false);
    let folder = &serving.folder.0;
    let log = folder.join("osm.log");
    let opensm = opensm(&serving, "host00000", &log);
    let ups = || std::fs::read_to_string(&log).unwrap_or_default().matches("SUBNET UP").count();
    until("the first SUBNET UP", || ups() >= 1);
    assert!(serving.run("host00002", &["sminfo"]).contains("SMINFO_MASTER"));
    let found = serving.sweep("host00002");
    assert_eq!(found.anomalies, []);
    assert!(
        found.graph.nodes().all(|node| found.graph.lid(found.graph.ports(node).next_back().unwrap()) != 0)
    );
    let lids: Vec<String> = ["host00000", "host00015"]
        .iter()
        .map(|name| {
            let node = found.graph.nodes().find(|node| found.graph.name(*node) == *name).unwrap();
            found.graph.lid(found.graph.port(node, 1).unwrap()).to_string()
        })
        .collect();
    let path = serving.run("host00002", &["saquery", "-p", "--src-to-dst", &lids.join(":")]);
    assert!(path.contains(&format!("dlid....................{}", lids[1])), "{path}");

    // The cable that the route takes is pulled: the trap makes the manager find another one.
    let route = || serving.run("host00002", &["ibtracert", &lids[0], &lids[1]]);
    let before = route();
    let leaf = before.lines().find(|line| line.contains("leaf000")).unwrap();
    assert!(leaf.contains("lid"), "{before}");
    let out = before.lines().skip_while(|line| !line.contains("leaf000")).nth(1).unwrap();
    let port: u8 = out[1..out.find(']').unwrap()].parse().unwrap();
    let count = ups();
    assert_eq!(serving.command(&format!("unlink leaf000 {port}")), "ok");
    until("the route's change", || ups() > count);
    let after = route();
    assert_ne!(before, after);
    assert!(after.contains("host00015"), "{after}");
    assert!(serving.command(&format!("port leaf000 {port}")).starts_with("ok Down Polling"));
    assert_eq!(serving.sweep("host00002").graph.link_count(), 47);
    let count = ups();
    assert_eq!(serving.command(&format!("relink leaf000 {port}")), "ok");
    until("the link's return", || ups() > count);
    until("an active link", || {
        serving.command(&format!("port leaf000 {port}")).starts_with("ok Active LinkUp")
    });
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(!log.contains("ERR 3111"), "{log}");
    drop(opensm);
    // It did not say good-bye, and the fabric lives on.
    assert_eq!(serving.sweep("host00002").graph.link_count(), 48);
    assert!(serving.end().traps > 0);
}

#[test]
fn clients_that_vanish_send_garbage_or_never_read_harm_nobody() {
    let serving = Serving::new("hostile", tree(), true);
    // More than ten at once, all at work, most of which then vanish.
    let mut many: Vec<IbsimTransport> = (0..100)
        .map(|host| IbsimTransport::connect(&serving.base, &format!("host{:05}", host % 16)).unwrap())
        .collect();
    for transport in &mut many {
        let found = sweep::sweep(transport, &sweep::Options::default(), &mut |_| (), &|| false).unwrap();
        assert_eq!(found.graph.link_count(), 48);
    }
    many.into_iter().for_each(std::mem::forget);
    assert!(IbsimTransport::connect(&serving.base, "nobody").is_err());
    assert!(IbsimTransport::connect(&serving.base, &"x".repeat(40)).is_err());
    garbage(&serving.base);
    for line in [
        "",
        "# nothing",
        "unlink",
        "unlink leaf000 300",
        "unlink leaf000 9",
        "relink leaf000 1",
        "counter leaf000 1 nonsense 4",
        "\"",
        "port \"no such\" 1",
    ] {
        let answer = serving.command(line);
        let fine = line.is_empty() || line.starts_with('#');
        assert_eq!(answer.starts_with("error: "), !fine, "{line}: {answer}");
    }
    // A line without an end, and one that hangs up in the middle.
    for bytes in [vec![b'x'; 10_000], b"unlink leaf".to_vec()] {
        let mut stream = UnixStream::connect(serving.folder.0.join("control")).unwrap();
        let _ = stream.write_all(&bytes);
    }
    let found = serving.sweep("host00004");
    assert_eq!((found.anomalies.len(), found.graph.link_count()), (0, 48));
    let garbage = serving.events.try_iter().filter(|event| matches!(event, Event::Garbage { .. })).count();
    assert!(garbage > 0);
    assert_eq!(serving.command("quit"), "ok");
    drop(serving);
}

/// Datagrams of all lengths, with the protocol's own first words and without, to the control socket.
fn garbage(base: &str) {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    let socket = UnixDatagram::unbound().unwrap();
    let to = SocketAddr::from_abstract_name(mad::ibsim::control_name(base)).unwrap();
    for len in [0_usize, 1, 16, 79, 80, 81, 200, 300] {
        for kind in 0..12_u32 {
            let mut bytes = vec![0xa5; len.max(16)];
            bytes[..4].copy_from_slice(&mad::ibsim::MAGIC.to_ne_bytes());
            bytes[8..12].copy_from_slice(&kind.to_ne_bytes());
            bytes.truncate(len);
            socket.send_to_addr(&bytes, &to).unwrap();
        }
    }
}

#[test]
fn two_servers_of_one_name_are_an_error() {
    let serving = Serving::new("twice", tree(), false);
    let options = Options { base: serving.base.clone(), ..Options::default() };
    let error = serve(tree(), &options, &mut |_| (), &|| false).unwrap_err();
    assert!(error.to_string().contains("another"), "{error}");
    serving.end();
}

/// Run in a process of its own that is preloaded with the stand-in for the kernel's device: see the test
/// below.
#[test]
#[ignore = "a part of the next test"]
fn child_sweeps_through_the_device() {
    let mut transport = UmadTransport::open(0).unwrap();
    assert!(mad::MadTransport::lid(&transport).is_unicast());
    let found = sweep::sweep(&mut transport, &sweep::Options::default(), &mut |_| (), &|| false).unwrap();
    assert_eq!(found.anomalies, []);
    assert_eq!((found.graph.node_count(), found.graph.link_count()), (36, 48));
    let mut plan = counters::Plan::new(&found.graph);
    let collected =
        counters::collect(&mut transport, &mut plan, &counters::Options::default(), &|| false).unwrap();
    assert_eq!((collected.missing.len(), collected.readings.len()), (0, 96));
    println!("the child is through");
}

#[test]
fn the_kernels_device_is_spoken_to_as_its_stand_in_wants_it() {
    if missing(&[]) {
        return;
    }
    let serving = Serving::new("umad", tree(), true);
    let itself = std::env::current_exe().unwrap();
    let words = [
        itself.to_str().unwrap(),
        "--ignored",
        "--exact",
        "child_sweeps_through_the_device",
        "--nocapture",
        "--test-threads=1",
    ];
    let said = serving.run("host00006", &words);
    assert!(said.contains("the child is through"), "{said}");
    serving.end();
}
