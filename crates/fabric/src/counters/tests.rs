use mad::in_process::{Fabric, InProcess};
use mad::injure::{Harm, Injured};
use mad::{Mad, Received};
use topology::build::{FatTree, fat_tree};

use super::*;
use crate::agents::Agents;
use crate::agents::sim_port::SimPort;
use crate::sweep;

fn sim_port(up: bool) -> SimPort {
    let mut agents = Agents::new(fat_tree(&FatTree::new(4, 2)).unwrap());
    if up {
        assert!(agents.bring_up());
    }
    for port in 0..agents.graph().port_total() as u32 {
        let counters = agents.counters_mut(PortIx(port));
        (counters.symbol_errors, counters.multicast_sent) = (u64::from(port) + 1, 1 << 40 | u64::from(port));
    }
    let host = agents.graph().nodes_of(Kind::Host).next().unwrap();
    let port = agents.place(host).unwrap();
    SimPort { agents, port }
}

/// The plan of a fabric as a sweep finds it, and which of its ports is which of the first graph's.
fn plan<F: Fabric>(transport: &mut InProcess<F>) -> (Plan, Graph) {
    let found = sweep::sweep(transport, &sweep::Options::default(), &mut |_| (), &|| false).unwrap();
    (Plan::new(&found.graph), found.graph)
}

fn known(found: &Graph, first: &Graph, port: PortIx) -> PortIx {
    let node = first.node_by_guid(found.node_guid(found.owner(port))).unwrap();
    first.port(node, found.number(port)).unwrap()
}

#[test]
fn all_ports_are_read_though_the_network_loses_some() {
    let harm = Harm { lose: 50, double: 50, delay: 100, garble: 0, late_by: Duration::from_secs(1) };
    let mut transport = InProcess::new(sim_port(true));
    let (mut plan, found) = plan(&mut transport);
    let mut transport = InProcess::new(Injured::new(transport.fabric, harm, 5));
    let options = Options { limits: Limits { retries: 12, ..Limits::default() }, extended: true };
    for _ in 0..2 {
        let collected = collect(&mut transport, &mut plan, &options, &|| false).unwrap();
        assert_eq!((collected.missing.len(), collected.stopped), (0, false));
        assert_eq!(collected.readings.len(), 2 * found.link_count());
        let first = transport.fabric.fabric.agents.graph();
        for reading in &collected.readings {
            let port = known(&found, first, reading.port);
            assert_eq!(reading.counters.symbol_errors, u64::from(port.0) + 1);
            assert_eq!(reading.counters.multicast_sent, 1 << 40 | u64::from(port.0));
            assert!(reading.wide);
        }
    }
    // Nothing was cleared.
    let agents = &transport.fabric.fabric.agents;
    assert!(
        (0..agents.graph().port_total() as u32)
            .all(|port| agents.counters(PortIx(port)).symbol_errors == u64::from(port) + 1)
    );
}

#[test]
fn without_lids_all_are_missing_and_nobody_is_asked() {
    let mut transport = InProcess::new(sim_port(false));
    let (mut plan, found) = plan(&mut transport);
    let collected = collect(&mut transport, &mut plan, &Options::default(), &|| false).unwrap();
    assert_eq!((collected.readings.len(), collected.missing.len()), (0, 2 * found.link_count()));
    assert!(collected.missing.iter().all(|(_, why)| *why == Missing::NoLid));
    assert_eq!(collected.tally.sent, 0);
}

/// Swallows what one LID responds, refuses what another does.
struct Partly(SimPort, Lid, Lid);

impl Fabric for Partly {
    fn carry(&mut self, now: Duration, to: &Address, mad: &Mad, back: &mut Vec<(Duration, Received)>) {
        self.0.carry(now, to, mad, back);
        if to.lid == self.1 {
            back.clear();
        }
        if to.lid == self.2 {
            back.iter_mut().for_each(|(_, received)| {
                received.mad.header_mut().set_status(mad::values::Status::METHOD_NOT_SUPPORTED);
            });
        }
    }
}

#[test]
fn who_is_silent_or_refuses_is_named_and_soon_left_alone() {
    let mut transport = InProcess::new(sim_port(true));
    let (mut plan, found) = plan(&mut transport);
    let lid = |name: &str| {
        let node = found.nodes().find(|node| found.name(*node) == name).unwrap();
        Lid(found.lid(found.ports(node).next_back().unwrap()))
    };
    let (silent, refuses) = (lid("leaf002"), lid("leaf001"));
    let mut transport = InProcess::new(Partly(transport.fabric, silent, refuses));
    let collected = collect(&mut transport, &mut plan, &Options::default(), &|| false).unwrap();
    let of = |wanted: Lid, why: fn(&Missing) -> bool| {
        collected.missing.iter().filter(|(port, said)| Lid(found.lid(*port)) == wanted && why(said)).count()
    };
    assert_eq!(of(silent, |why| *why == Missing::Silent), 4);
    assert_eq!(of(refuses, |why| matches!(why, Missing::Refused(_))), 4);
    assert_eq!(collected.missing.len(), 8);
    let stopped = collect(&mut transport, &mut plan, &Options::default(), &|| true).unwrap();
    assert!(stopped.stopped && stopped.readings.len() < collected.readings.len());
}
