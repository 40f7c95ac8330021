//! Polls the known cables: are they still up, and which nodes no longer respond? Nothing new is
//! discovered, and nothing is set.

use std::collections::BTreeSet;
use std::time::Duration;

use mad::header::{Path, Smp};
use mad::sm::{PortInfo, attribute};
use mad::values::{Class, Method, PortState};
use mad::windowed::{Done, Limits, Outcome, Windowed};
use mad::{Address, Lid, Mad, MadTransport, TransportError};
use topology::{Graph, Kind, PortIx};

use crate::observe::vantage_point;
use crate::sweep;

/// Requests to one node without a response after which it is polled no more by this path.
const MAX_UNANSWERED: u8 = 2;

/// A cable, by one of its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolledCable {
    /// The port that was polled.
    pub port: PortIx,
    /// Its logical and physical state, as numbers of `PortInfo`; `None`: its node did not respond, by its
    /// directed route or by its LID.
    pub states: Option<(u8, u8)>,
}

/// One port of each cable: a switch's, where one is at it. Cables by numbers of ports, so that a silent node
/// does not fill the window.
fn ends(graph: &Graph) -> Vec<PortIx> {
    let switch = |port: &PortIx| graph.kind(graph.owner(*port)) == Kind::Switch;
    let mut ends: Vec<PortIx> = graph.links().map(|(a, b)| if switch(&a) { a } else { b }).collect();
    ends.sort_by_key(|port| (graph.number(*port), *port));
    ends
}

/// Polls the state of every known cable. `None` if `stop` returned true.
///
/// # Errors
/// Of the transport.
pub fn cables<T: MadTransport + ?Sized>(
    transport: &mut T,
    graph: &Graph,
    paths: &[Path],
    limits: Limits,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Vec<PolledCable>>, TransportError> {
    let mut seen: Vec<PolledCable> =
        ends(graph).into_iter().map(|port| PolledCable { port, states: None }).collect();
    // First by the directed route on which the node was found; if that is broken, by LID.
    for by_lid in [false, true] {
        let address = |port: PortIx| {
            let node = graph.owner(port);
            let own = if graph.kind(node) == Kind::Switch { graph.port(node, 0)? } else { port };
            Some(Lid(graph.lid(own))).filter(|lid| lid.is_unicast())
        };
        let ask = |port: PortIx| {
            let number = u32::from(graph.number(port));
            if by_lid {
                let mad = Mad::new(Class::SUBNET, Method::GET, attribute::PORT_INFO, number);
                return address(port).map(|lid| (Address::management(lid), mad));
            }
            let path = paths.get(graph.owner(port).index())?;
            Some((Address::DIRECTED, Smp::directed(Method::GET, attribute::PORT_INFO, number, path)))
        };
        let mut unanswered = vec![0_u8; graph.node_count()];
        let mut client: Windowed<usize> = Windowed::new(limits);
        let ahead = transport.room().max(limits.window) * 2;
        let mut open = 0..seen.len();
        let mut done = Vec::new();
        loop {
            while client.open() < ahead {
                let Some(at) = open.next() else { break };
                let port = seen[at].port;
                if seen[at].states.is_some() || unanswered[graph.owner(port).index()] >= MAX_UNANSWERED {
                    continue;
                }
                if let Some((to, mad)) = ask(port) {
                    client.ask(to, mad, at);
                }
            }
            if client.open() == 0 {
                break;
            }
            client.drive(transport, Duration::from_millis(100), &mut done)?;
            for Done { key, outcome } in done.drain(..) {
                let node = graph.owner(seen[key].port).index();
                match outcome {
                    Outcome::Answer(mad) => {
                        let info: &PortInfo = mad.data();
                        seen[key].states = Some((info.state().0, info.physical_state().0));
                        unanswered[node] = 0;
                    }
                    _ => unanswered[node] = unanswered[node].saturating_add(1),
                }
            }
            if stop() {
                return Ok(None);
            }
        }
    }
    seen.sort_by_key(|seen| seen.port);
    Ok(Some(seen))
}

/// Why no other node can be polled, in words, if no port by which requests leave has an active link now: then
/// the silence of the others says nothing of them. A port that reports no state counts as one that leads on.
///
/// # Errors
/// Of the transport.
pub fn without_link<T: MadTransport + ?Sized>(
    transport: &mut T,
    graph: &Graph,
    paths: &[Path],
    limits: Limits,
    stop: &dyn Fn() -> bool,
) -> Result<Option<String>, TransportError> {
    let exits: BTreeSet<u8> = paths.iter().filter_map(|path| path.ports().first().copied()).collect();
    let mut client: Windowed<u8> = Windowed::new(limits);
    for exit in &exits {
        let asked = Smp::directed(Method::GET, attribute::PORT_INFO, u32::from(*exit), &Path::LOCAL);
        client.ask(Address::DIRECTED, asked, *exit);
    }
    let (mut states, mut done) = (Vec::new(), Vec::new());
    while client.open() > 0 && !stop() {
        client.drive(transport, Duration::from_millis(100), &mut done)?;
        states.extend(done.drain(..).filter_map(|done| match done.outcome {
            Outcome::Answer(mad) => {
                let info: &PortInfo = mad.data();
                Some((sweep::is_up(info), info.state()))
            }
            _ => None,
        }));
    }
    let is_known = exits.len() == states.len();
    let best = states.into_iter().max().filter(|(_, state)| is_known && *state < PortState::ACTIVE);
    let Some((best, first)) = best.zip(exits.first()) else { return Ok(None) };
    let place = vantage_point(graph, *first);
    Ok(Some(match best {
        (true, state) => format!("{place} has a link that is {state}, not Active"),
        (false, _) => format!("{place} has no link"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::Agents;
    use crate::agents::sim_port::SimPort;
    use crate::observe::{Options, observe};
    use crate::report::watch::{Look, Watch};
    use mad::in_process::InProcess;
    use topology::build::{FatTree, fat_tree};

    fn transport() -> InProcess<SimPort> {
        let agents = Agents::new(fat_tree(&FatTree::new(4, 2)).unwrap());
        let host = agents.node("host00000").unwrap();
        let port = agents.place(host).unwrap();
        let mut sim_port = SimPort { agents, port };
        assert!(sim_port.agents.bring_up());
        InProcess::new(sim_port)
    }

    /// Who watches behind a pulled cable is told so, once, and not that everybody else is silent.
    #[test]
    fn a_pulled_cable_of_ones_own_is_said_and_nothing_else() {
        let mut transport = transport();
        let seen = observe(&mut transport, "a test", &Options::default(), &mut |_| (), &|| false).unwrap();
        let graph = &seen.snapshot.graph;
        let without = |transport: &mut InProcess<SimPort>| {
            without_link(transport, graph, &seen.paths, Limits::default(), &|| false).unwrap()
        };
        assert_eq!(without(&mut transport), None);
        let agents = transport.fabric.agents.graph();
        let host = agents.owner(transport.fabric.port);
        let port = agents.cabled(host).map(|(near, _)| near).next().unwrap();
        assert!(transport.fabric.agents.unlink(port));
        let words = without(&mut transport).unwrap();
        assert_eq!(words, "This port (host00000/1) has no link");
        let mut watch = Watch::new(&seen.snapshot);
        let said = "   1  This port (host00000/1) has no link: nothing beyond it can be seen\n";
        assert_eq!(watch.without_link(&words).render(), said);
        assert_eq!(watch.without_link(&words).render(), "");
        assert!(transport.fabric.agents.relink(port));
        let words = without(&mut transport).unwrap();
        assert_eq!(words, "This port (host00000/1) has a link that is Initialize, not Active");
        assert!(watch.without_link(&words).render().contains("Initialize"), "another reason is said");
        assert!(transport.fabric.agents.bring_up());
        assert_eq!(without(&mut transport), None);
    }

    #[test]
    fn links_that_went_down_and_nodes_that_fell_silent_are_said_once_and_come_back() {
        let mut transport = transport();
        let seen = observe(&mut transport, "a test", &Options::default(), &mut |_| (), &|| false).unwrap();
        let graph = &seen.snapshot.graph;
        let mut watch = Watch::new(&seen.snapshot);
        let mut look = |transport: &mut InProcess<SimPort>| {
            let limits = Limits { retries: 1, ..Limits::default() };
            let cables = cables(transport, graph, &seen.paths, limits, &|| false).unwrap().unwrap();
            assert_eq!(cables.len(), graph.link_count());
            let mut look = Look::default();
            watch.cables(&seen.snapshot, &cables, &mut look);
            (look.links, look.nodes_gone, look.nodes_back)
        };
        assert_eq!(look(&mut transport), (vec![], vec![], vec![]));
        let agents = |transport: &mut InProcess<SimPort>, name: &str, up: bool| {
            let agents = &mut transport.fabric.agents;
            let ports: Vec<PortIx> = agents.graph().ports(agents.node(name).unwrap()).collect();
            ports.into_iter().for_each(|port| {
                if up {
                    agents.relink(port)
                } else {
                    agents.unlink(port)
                };
            });
        };
        agents(&mut transport, "spine001", false);
        let (links, gone, back) = look(&mut transport);
        // Its four cables, two of which were asked about at the spine itself or all at the leaves.
        assert!(!links.is_empty() || !gone.is_empty());
        assert!(
            links.iter().all(|(place, _, now)| place.contains("spine001") && now.contains("Down")),
            "{links:?}"
        );
        assert!(gone.iter().all(|name| name == "spine001") && back.is_empty(), "{gone:?}");
        assert_eq!(look(&mut transport), (vec![], vec![], vec![]));
        agents(&mut transport, "spine001", true);
        let (links, gone, _) = look(&mut transport);
        assert!(!links.is_empty() && gone.is_empty(), "{links:?}");
    }
}
