//! Looks at the cables that were there again: are they still up, and who does not answer any more? Nothing is found anew, and
//! nothing is set.

use std::time::Duration;

use mad::header::{Path, Smp};
use mad::sm::{PortInfo, attribute};
use mad::values::{Class, Method};
use mad::windowed::{Done, Limits, Outcome, Windowed};
use mad::{Address, Lid, Mad, MadTransport, TransportError};
use topology::{Graph, Kind, PortIx};

/// Questions of one node that stay unanswered before it is not asked any more this way.
const PATIENCE: u8 = 2;

/// A cable, by one of its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The port that was asked.
    pub port: PortIx,
    /// Its logical and physical state, as numbers of `PortInfo`; `None`: its node did not answer, by its route or by its LID.
    pub states: Option<(u8, u8)>,
}

/// One port of each cable: a switch's, where one is at it. Cables by numbers of ports, so that a silent node does not fill the
/// window.
fn ends(graph: &Graph) -> Vec<PortIx> {
    let switch = |port: &PortIx| graph.kind(graph.owner(*port)) == Kind::Switch;
    let mut ends: Vec<PortIx> = graph.links().map(|(a, b)| if switch(&a) { a } else { b }).collect();
    ends.sort_by_key(|port| (graph.number(*port), *port));
    ends
}

/// The state of every cable that was there. `None`: `stop` said so.
///
/// # Errors
/// Of the transport.
pub fn cables<T: MadTransport + ?Sized>(
    transport: &mut T,
    graph: &Graph,
    ways: &[Path],
    limits: Limits,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Vec<Seen>>, TransportError> {
    let mut seen: Vec<Seen> = ends(graph).into_iter().map(|port| Seen { port, states: None }).collect();
    // First by the route on which the node was found; if that is broken, as packets go.
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
            let path = ways.get(graph.owner(port).index())?;
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
                if seen[at].states.is_some() || unanswered[graph.owner(port).index()] >= PATIENCE {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::Agents;
    use crate::agents::standing::Standing;
    use crate::observe::{Options, observe};
    use crate::report::watch::{Look, Watch};
    use mad::in_process::InProcess;
    use topology::build::{FatTree, fat_tree};

    fn transport() -> InProcess<Standing> {
        let agents = Agents::new(fat_tree(&FatTree::new(4, 2)).unwrap());
        let host = agents.node("host00000").unwrap();
        let port = agents.place(host).unwrap();
        let mut standing = Standing { agents, port };
        assert!(standing.agents.bring_up());
        InProcess::new(standing)
    }

    #[test]
    fn links_that_went_down_and_nodes_that_fell_silent_are_said_once_and_come_back() {
        let mut transport = transport();
        let seen = observe(&mut transport, "a test", &Options::default(), &mut |_| (), &|| false).unwrap();
        let graph = &seen.snapshot.graph;
        let mut watch = Watch::new(&seen.snapshot);
        let mut look = |transport: &mut InProcess<Standing>| {
            let limits = Limits { retries: 1, ..Limits::default() };
            let cables = cables(transport, graph, &seen.ways, limits, &|| false).unwrap().unwrap();
            assert_eq!(cables.len(), graph.link_count());
            let mut look = Look::default();
            watch.cables(&seen.snapshot, &cables, &mut look);
            (look.links, look.nodes_gone, look.nodes_back)
        };
        assert_eq!(look(&mut transport), (vec![], vec![], vec![]));
        let agents = |transport: &mut InProcess<Standing>, name: &str, up: bool| {
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
