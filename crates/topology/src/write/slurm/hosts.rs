//! Names of hosts for Slurm: which descriptions of channel adapters begin with a host name.
//!
//! A host describes its adapters as `name device` (`node17 mlx5_0`); an adapter without a name describes its
//! type (`MT25408 ConnectX Mellanox Technologies`), or what its installation began with (`localhost mlx5_0`).

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::{Graph, Kind, NodeIx};
use crate::write::living;

/// First words of descriptions that name a device, in small letters: whole, and how others begin.
const DEVICES: [&str; 6] = ["hca", "mellanox", "nvidia", "voltaire", "qlogic", "intel"];
const DEVICES_BEGIN: [&str; 9] =
    ["connectx", "infinihost", "bluefield", "mlx4_", "mlx5_", "hfi1_", "qib", "mthca", "hca-"];
/// Longest host name, and longest part of one between dots.
const MOST_NAME: usize = 253;
const MOST_LABEL: usize = 63;

/// Names of the hosts of a fabric.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlurmHosts {
    /// Of each channel adapter that is no aggregation node.
    names: BTreeMap<NodeIx, String>,
    /// Channel adapters whose description gives no host name: they are not written.
    pub unnamed: Vec<NodeIx>,
    /// Hosts that have adapters at several switches: each is written at the first.
    pub at_several: Vec<String>,
}

impl SlurmHosts {
    /// Of a fabric.
    #[must_use]
    pub fn of(graph: &Graph) -> Self {
        let is_compute = |node: &NodeIx| graph.kind(*node) == Kind::Host && !graph.is_aggregation(*node);
        let hosts: Vec<NodeIx> = living(graph).filter(is_compute).collect();
        let shared = shared(graph, &hosts);
        let mut found = Self::default();
        let mut switches: BTreeMap<&str, BTreeSet<NodeIx>> = BTreeMap::new();
        for host in hosts {
            let word = word(graph, host);
            if !is_host_name(word) || shared.contains(word) {
                found.unnamed.push(host);
                continue;
            }
            found.names.insert(host, word.to_owned());
            let far = graph.cabled(host).map(|(_, far)| graph.owner(far));
            let leaves = far.filter(|far| graph.kind(*far) == Kind::Switch);
            switches.entry(word).or_default().extend(leaves);
        }
        let several = switches.into_iter().filter(|(_, leaves)| leaves.len() > 1);
        found.at_several = several.map(|(name, _)| name.to_owned()).collect();
        found
    }

    /// The name of a host.
    #[must_use]
    pub fn name(&self, node: NodeIx) -> Option<&str> {
        self.names.get(&node).map(String::as_str)
    }

    /// No adapter has a host name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// First words that cannot be one host: adapters of several systems have the same whole description.
fn shared<'a>(graph: &'a Graph, hosts: &[NodeIx]) -> BTreeSet<&'a str> {
    let mut systems: BTreeMap<&str, u64> = BTreeMap::new();
    let mut shared = BTreeSet::new();
    for host in hosts {
        let system = match graph.system_guid(*host) {
            0 => u64::MAX - u64::from(host.0),
            system => system,
        };
        if *systems.entry(graph.name(*host)).or_insert(system) != system {
            shared.insert(word(graph, *host));
        }
    }
    shared
}

fn word(graph: &Graph, node: NodeIx) -> &str {
    graph.name(node).split_whitespace().next().unwrap_or_default()
}

/// Is it a host name (RFC 1123, and with underscores, which clusters have), and no device's?
fn is_host_name(word: &str) -> bool {
    let label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        !label.is_empty() && label.len() <= MOST_LABEL && !label.starts_with('-') && label.bytes().all(plain)
    };
    let small = word.to_ascii_lowercase();
    let model = |rest: &str| rest.len() >= 4 && rest.bytes().all(|byte| byte.is_ascii_digit());
    let installed = small.split('.').next() == Some("localhost") || small.starts_with("0x");
    let is_device = word.strip_prefix("MT").is_some_and(model)
        || DEVICES.contains(&small.as_str())
        || DEVICES_BEGIN.iter().any(|begins| small.starts_with(begins));
    word.len() <= MOST_NAME && word.split('.').all(label) && !is_device && !installed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{GraphBuilder, LinkSpec, NodeSpec};

    /// Adapters with these descriptions, two at each switch.
    fn graph(names: &[&str]) -> Graph {
        let mut graph = GraphBuilder::new();
        let mut leaf = None;
        for (at, name) in names.iter().enumerate() {
            let guid = 0x1000 + (at as u64) * 16;
            let host = graph.node(NodeSpec::new(Kind::Host, name, 1).guid(guid)).unwrap();
            if at % 2 == 0 {
                let name = format!("leaf{}", at / 2);
                leaf = Some(graph.node(NodeSpec::new(Kind::Switch, &name, 4).guid(guid + 1)).unwrap());
            }
            graph.link((host, 1), (leaf.unwrap(), (at % 2 + 1) as u8), LinkSpec::EDR4X).unwrap();
        }
        graph.finish()
    }

    #[test]
    fn devices_and_what_is_no_host_name_are_no_hosts() {
        for word in ["node17", "cn-01.example.org", "gpu_3", "7", "mtb01", "MT-node1", "nvidia-dgx1"] {
            assert!(is_host_name(word), "{word}");
        }
        for word in [
            "MT25408",
            "MT4129",
            "ConnectX-6",
            "mlx5_0",
            "hfi1_0",
            "HCA-1",
            "localhost",
            "localhost.localdomain",
        ] {
            assert!(!is_host_name(word), "{word}");
        }
        for word in ["", "-x", "a..b", "Ä", "a;b", "'n1", "0x2c90300", &"x".repeat(64)] {
            assert!(!is_host_name(word), "{word}");
        }
    }

    #[test]
    fn one_name_of_several_hosts_is_no_host_name() {
        let hosts = SlurmHosts::of(&graph(&[
            "ubuntu mlx5_0",
            "n1 mlx5_0",
            "ubuntu mlx5_1",
            "n1 mlx5_1",
            "ubuntu mlx5_0",
        ]));
        assert_eq!(hosts.unnamed.len(), 3);
        assert_eq!(hosts.names.values().collect::<Vec<_>>(), ["n1", "n1"]);
        assert_eq!(hosts.at_several, ["n1"]);
        let hosts = SlurmHosts::of(&graph(&["MT25408 ConnectX Mellanox Technologies"; 4]));
        assert!(hosts.is_empty() && hosts.unnamed.len() == 4);
    }
}
