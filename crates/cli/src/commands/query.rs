//! `tieline query`.

use std::fmt::Write;
use std::net::IpAddr;

use ::verify::status::{nodes_on_host, via};
use proto::wire::status::{LinkStatus, NodeInfo, Via};
use serde::Serialize;
use tieline::names::own_last;
use tieline::{Node, NodeId};

use super::{cluster::list, node_options, target, usage};
use crate::args::{Common, Query};
use crate::exit::{Failure, Outcome, PASS};
use crate::output::Output;

pub(super) fn run(common: &Common, arguments: &Query, output: Output) -> Outcome {
    if arguments.messages {
        return super::query_messages::run(output);
    }
    if let (true, false, Some(host)) = (arguments.brief, common.json, &arguments.host) {
        let node = first_on_host(common, host)?;
        output.form("tieline.query/1", || serde_json::to_value(node), || format!("{node}\n"))?;
        return Ok(PASS);
    }
    let common = match &arguments.host {
        Some(host) => &on_host(common, host)?,
        None => common,
    };
    if common.node.is_some() {
        // For its error, if that is a node of another host.
        target(common)?;
    }
    let node = Node::attach_with(&node_options(common, "tieline-query"))?;
    let (info, other_hosts) = (node.info(), OtherHosts::of(&node)?);
    let text = || {
        if arguments.brief {
            return format!("{}\n", info.node);
        }
        if arguments.card {
            let card = |(number, _)| format!("Card {} - NodeId:  {}\n", number + 1, info.node);
            return info.adapters.iter().enumerate().map(card).collect();
        }
        let mut text = format!(
            "Local node-id      : {}\nCluster            : {}\nHost               : {}\nNode manager       : tieline {}, pid {}\n",
            info.node, info.cluster, info.host, info.version, info.manager_pid
        );
        for adapter in &info.adapters {
            let _ = writeln!(text, "Local adapter no.  : {}", adapter.number);
            let _ = writeln!(text, "Adapter type       : {}", adapter.kind);
            let _ = writeln!(text, "Capabilities       : {}", adapter.capabilities.join(", "));
        }
        if let Some(other_hosts) = &other_hosts {
            other_hosts.write(&mut text);
        }
        text
    };
    output.form("tieline.query/1", || document(&info, other_hosts.as_ref()), text)?;
    Ok(PASS)
}

/// The link to nodes of other hosts, as it is from here.
#[derive(Serialize)]
struct OtherHosts {
    nodes: usize,
    kind: &'static str,
    capabilities: Vec<&'static str>,
    /// Addresses of this host, one of each rail.
    rails: Vec<IpAddr>,
    /// Nodes that are reached by way of a third one.
    via: Vec<ByWay>,
    #[serde(flatten)]
    offer: Offer,
}

#[derive(Serialize)]
struct ByWay {
    peer: NodeId,
    #[serde(flatten)]
    via: Via,
    #[serde(skip)]
    text: String,
}

impl ByWay {
    fn of(link: &LinkStatus) -> Option<Self> {
        let host = if link.peer_host.is_empty() { "another host" } else { &link.peer_host };
        let text = format!("node {} on {host}{}", link.peer, via(link)?);
        Some(Self { peer: link.peer, via: link.via?, text })
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Offer {
    Found { provider: String, domain: String },
    Missing { problem: String },
}

impl OtherHosts {
    /// `None`: no other host is known.
    fn of(node: &Node) -> tieline::Result<Option<Self>> {
        let mut links = node.status()?.links;
        links.retain(|link| link.other_host);
        if links.is_empty() {
            return Ok(None);
        }
        let rails = node.info().rails;
        let offer = match first_offer(rails.first().copied()) {
            Ok(Some(offer)) => Offer::Found { provider: offer.provider, domain: offer.domain },
            Ok(None) => {
                Offer::Missing { problem: "libfabric offers no provider that tieline uses".to_owned() }
            }
            Err(error) => Offer::Missing { problem: error.to_string() },
        };
        let capabilities = ofi::OfiMemory::capabilities().names();
        let (nodes, via) = (links.len(), links.iter().filter_map(ByWay::of).collect());
        Ok(Some(Self { nodes, kind: ofi::OfiMemory::NAME, capabilities, rails, via, offer }))
    }

    fn write(&self, text: &mut String) {
        let _ = writeln!(text, "Other hosts' nodes : {}", self.nodes);
        let _ = match &self.offer {
            Offer::Found { provider, domain } => {
                writeln!(text, "Link to other hosts: {} ({provider}, {domain})", self.kind)
            }
            Offer::Missing { problem } => writeln!(text, "Link to other hosts: {}: {problem}", self.kind),
        };
        if self.rails.len() > 1 {
            let rails: Vec<_> = self.rails.iter().map(ToString::to_string).collect();
            let _ = writeln!(text, "Rails              : {}", rails.join(", "));
        }
        let _ = writeln!(text, "Capabilities       : {}", self.capabilities.join(", "));
        for by_way in &self.via {
            let _ = writeln!(text, "By way of a relay  : {}", by_way.text);
        }
    }
}

/// The best offer at the address of the first rail, as programs choose it; networks that have no addresses of
/// the internet have none.
fn first_offer(first_rail: Option<IpAddr>) -> ofi::Result<Option<ofi::Offer>> {
    let at = |source| ofi::offers(&ofi::Wanted { provider: None, source, is_exact: false });
    let offers = match at(first_rail) {
        Err(ofi::OfiError::NoProvider { .. }) if first_rail.is_some() => at(None),
        offers => offers,
    };
    Ok(offers?.into_iter().next())
}

fn document(info: &NodeInfo, other_hosts: Option<&OtherHosts>) -> serde_json::Result<serde_json::Value> {
    let mut document = serde_json::to_value(info)?;
    if let (Some(other_hosts), Some(fields)) = (other_hosts, document.as_object_mut()) {
        fields.insert("other_hosts".to_owned(), serde_json::to_value(other_hosts)?);
    }
    Ok(document)
}

/// The node that a program which looks for that host means: the rule of SCIGetNodeIdByAdapterName.
fn first_on_host(common: &Common, host: &str) -> Result<NodeId, Failure> {
    let mut nodes = nodes_on_host(&target(common)?, host)?;
    if let Some(own) = common.node {
        own_last(&mut nodes, own);
    }
    match nodes.as_slice() {
        [first, _, ..] if common.node.is_some() => Ok(*first),
        [node] => Ok(*node),
        _ => Err(none_or_several(host, &nodes)),
    }
}

/// Names the node that is on a host; several on it must be distinguished.
fn on_host(common: &Common, host: &str) -> Result<Common, Failure> {
    let nodes = nodes_on_host(&target(common)?, host)?;
    match nodes.as_slice() {
        nodes if common.node.is_some_and(|named| nodes.contains(&named)) => Ok(common.clone()),
        [node] => Ok(Common { node: Some(*node), ..common.clone() }),
        other => Err(none_or_several(host, other)),
    }
}

fn none_or_several(host: &str, nodes: &[NodeId]) -> Failure {
    if nodes.is_empty() {
        return anyhow::anyhow!(
            "no node of the cluster is on host `{host}`: see `tieline diag` for the hosts"
        )
        .into();
    }
    usage(format!(
        "several nodes are on host `{host}` ({}): select one with --node or TIELINE_NODE",
        list(nodes)
    ))
}
