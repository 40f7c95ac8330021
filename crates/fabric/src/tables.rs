//! Reads the current forwarding tables of the switches. It uses directed routes, so that it works
//! where the tables do not.

use std::collections::BTreeSet;
use std::sync::Arc;

use mad::header::Smp;
use mad::sm::{LIDS_PER_BLOCK, LinearTable, attribute};
use mad::values::Method;
use mad::windowed::{Done, Limits, Outcome, Windowed};
use mad::{Address, Lid, MadTransport, TransportError};
use topology::routing::{Lids, Tables};
use topology::{Graph, Kind, NodeIx};

use crate::sweep::Found;

/// Requests of one switch that stay without a response before it is not asked any more.
const MAX_UNANSWERED: u32 = 3;

/// Bytes of memory that tables may take together with what is known of ports. A fabric of more than some
/// 35,000 hosts takes more; so does one switch that invents others, or that calls its hosts by the last LID
/// that there is.
const MOST_BYTES: usize = 200 << 20;
/// What is known of a port takes about so many bytes.
const BYTES_PER_PORT: usize = 256;

/// No tables, however they came about, take more memory than is allowed for.
///
/// # Errors
/// They would, in words.
pub fn afford(graph: &Graph, lids: &Lids) -> Result<(), String> {
    let switches = graph.nodes_of(Kind::Switch).count();
    let bytes = switches * (usize::from(lids.top()) + usize::from(LIDS_PER_BLOCK));
    if bytes.saturating_add(graph.port_total() * BYTES_PER_PORT) > MOST_BYTES {
        return Err(format!(
            "the LFTs of {switches} switches for LIDs up to {} take {} MiB, more than the limit",
            lids.top(),
            bytes >> 20
        ));
    }
    Ok(())
}

/// What was read.
#[derive(Debug)]
pub struct Read {
    /// The tables; `None` if no port has a LID, or LIDs contradict each other.
    pub tables: Option<Tables>,
    /// Switches whose tables are not known, or not whole.
    pub silent: Vec<NodeIx>,
    /// Why there are none at all, in words.
    pub why_none: Option<String>,
}

/// The LIDs that a fabric's ports have.
///
/// # Errors
/// They contradict each other, in words.
pub fn lids(graph: &Graph) -> Result<Lids, String> {
    let hosts = graph.nodes().filter(|node| graph.kind(*node) != Kind::Switch);
    let lmc = hosts.flat_map(|node| graph.ports(node)).map(|port| graph.lmc(port)).max().unwrap_or(0);
    Lids::of_graph(graph, lmc.min(7)).map_err(|error| error.to_string())
}

/// Has any port a LID?
#[must_use]
pub fn has_lids(graph: &Graph) -> bool {
    graph.nodes().any(|node| graph.ports(node).any(|port| graph.lid(port) != 0))
}

fn none(why: &str) -> Read {
    Read { tables: None, silent: Vec::new(), why_none: Some(why.to_owned()) }
}

/// Reads all tables up to the last entry that each switch reports as valid.
///
/// # Errors
/// Of the transport. Missing responses of switches are in the result.
pub fn read<T: MadTransport + ?Sized>(
    transport: &mut T,
    found: &Found,
    limits: Limits,
    stop: &dyn Fn() -> bool,
) -> Result<Read, TransportError> {
    let graph = &found.graph;
    if !has_lids(graph) {
        return Ok(none("no port has a LID"));
    }
    let lids = match lids(graph) {
        Ok(lids) => Arc::new(lids),
        Err(why) => return Ok(none(&why)),
    };
    if let Err(why) = afford(graph, &lids) {
        return Ok(none(&why));
    }
    read_as(transport, found, &lids, limits, stop)
}

/// The same for given LIDs: of the entries those of LIDs up to the highest of them.
///
/// # Errors
/// As of [`read`].
pub fn read_as<T: MadTransport + ?Sized>(
    transport: &mut T,
    found: &Found,
    lids: &Arc<Lids>,
    limits: Limits,
    stop: &dyn Fn() -> bool,
) -> Result<Read, TransportError> {
    let graph = &found.graph;
    let switches: Vec<NodeIx> = graph.nodes_of(Kind::Switch).collect();
    let mut tables = Tables::empty(Arc::clone(lids), &switches);
    let mut client: Windowed<(NodeIx, u16)> = Windowed::new(limits);
    let mut silent = BTreeSet::new();
    let mut unanswered = vec![0_u32; graph.node_count()];
    let top = tables.width() as u32;
    let mut questions = Vec::new();
    for node in switches {
        let Some(info) = found.node(node).and_then(|facts| facts.switch.as_ref()) else {
            silent.insert(node);
            continue;
        };
        let last = u32::from(info.linear_top().min(Lid::LAST_UNICAST.0)).min(top.saturating_sub(1));
        questions.extend((0..=last / u32::from(LIDS_PER_BLOCK)).map(|block| (block as u16, node)));
    }
    // Block by block, so that a silent switch does not fill the window.
    questions.sort_unstable();
    let mut questions = questions.into_iter();
    let ahead = transport.room().max(limits.window) * 2;
    let mut done = Vec::new();
    loop {
        while client.open() < ahead {
            let Some((block, node)) = questions.next() else { break };
            let path = found.node(node).map(|facts| facts.path);
            let Some(path) = path.filter(|_| unanswered[node.index()] < MAX_UNANSWERED) else {
                silent.insert(node);
                continue;
            };
            let mad = Smp::directed(Method::GET, attribute::LINEAR_TABLE, block.into(), &path);
            client.ask(Address::DIRECTED, mad, (node, block));
        }
        if client.open() == 0 {
            break;
        }
        client.drive(transport, std::time::Duration::from_millis(100), &mut done)?;
        for Done { key: (node, block), outcome } in done.drain(..) {
            let Outcome::Answer(mad) = outcome else {
                unanswered[node.index()] += 1;
                silent.insert(node);
                continue;
            };
            let entries: &LinearTable = mad.data();
            for at in 0..LIDS_PER_BLOCK {
                tables.set(
                    node,
                    block * LIDS_PER_BLOCK + at,
                    entries.port(usize::from(at)).unwrap_or(topology::routing::NO_PATH),
                );
            }
        }
        if stop() {
            return Ok(none("the sweep was stopped"));
        }
    }
    Ok(Read { tables: Some(tables), silent: silent.into_iter().collect(), why_none: None })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The same graph with a LID at each port that can have one, as a manager leaves it.
    pub(crate) fn with_lids(graph: &Graph) -> (Graph, Arc<Lids>) {
        let lids = Lids::of_graph(graph, 0).unwrap();
        let mut builder = topology::GraphBuilder::new();
        for node in graph.nodes() {
            let spec = topology::NodeSpec::new(graph.kind(node), graph.name(node), graph.port_count(node));
            let index = builder.node(spec.guid(graph.node_guid(node))).unwrap();
            for port in graph.ports(node) {
                if let Some(lid) = lids.base(port) {
                    builder.lid(index, graph.number(port), lid, 0);
                }
            }
        }
        for (a, b) in graph.links() {
            let end = |port| (graph.owner(port), graph.number(port));
            builder.link(end(a), end(b), graph.link(a).unwrap()).unwrap();
        }
        let graph = builder.finish();
        let lids = Arc::new(super::lids(&graph).unwrap());
        (graph, lids)
    }
}
