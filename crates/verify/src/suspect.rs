//! From bad pairs to the suspect: a node if everything that is wrong touches it, else the links.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use tieline::NodeId;

/// A part of the cluster that may be faulty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Suspect {
    /// A node: most of its links are bad, and no link without it is.
    Node(NodeId),
    /// The link between two nodes.
    Link([NodeId; 2]),
    /// Two nodes that answer in each other's place.
    Swapped([NodeId; 2]),
}

/// A suspect with its evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspected {
    /// The suspect.
    pub suspect: Suspect,
    /// What was seen of it, in words.
    pub evidence: Vec<String>,
}

impl fmt::Display for Suspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => write!(f, "node {node}"),
            Self::Link([a, b]) => write!(f, "link {a}-{b}"),
            Self::Swapped([a, b]) => write!(f, "nodes {a} and {b}"),
        }
    }
}

impl Suspect {
    /// Whether this suspect explains what was seen of the other one.
    pub fn explains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Node(node), Self::Link(link)) => link.contains(node),
            _ => self == other,
        }
    }
}

impl Suspected {
    /// What to do about it.
    pub fn next_step(&self) -> String {
        match &self.suspect {
            Suspect::Node(node) => format!(
                "node {node}: read its manager's log, and run `tieline diag --node {node}`; take it out of service until \
                 `tieline verify --running` passes"
            ),
            Suspect::Link([a, b]) => format!(
                "link {a}-{b}: compare `tieline link list` at both ends and `tieline diag --node {a}` with `--node {b}`; \
                 repair it, then run `tieline conntest` again"
            ),
            Suspect::Swapped([a, b]) => format!(
                "nodes {a} and {b}: exchange their cables, or their ids in the configuration, then run \
                 `tieline verify --running` again"
            ),
        }
    }

    /// The suspect, the first that was seen of it, and what to do, in one line.
    pub fn reason(&self) -> String {
        let (who, first) = (self.suspect.to_string(), self.evidence.first().map_or("", String::as_str));
        // A manager that has ended says itself how it is started.
        if first.contains("`tieline ") {
            return format!("{who}: {first}");
        }
        let next = self.next_step();
        let next = next.strip_prefix(&format!("{who}: ")).unwrap_or(&next);
        format!("{who}: {first}: {next}")
    }

    /// These two answer in each other's place.
    pub fn swapped([a, b]: [NodeId; 2]) -> Self {
        let evidence = format!("swapped: connections to node {a} reach node {b}, and the other way round");
        Self { suspect: Suspect::Swapped([a, b]), evidence: vec![evidence] }
    }
}

impl fmt::Display for Suspected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.suspect, self.evidence.join("; "))
    }
}

/// Names the suspects behind bad pairs (each in ascending order, with what was seen), in a cluster of these
/// nodes.
pub fn name(nodes: &[NodeId], bad: &[([NodeId; 2], String)]) -> Vec<Suspected> {
    name_among(nodes, nodes.len().saturating_sub(1), bad)
}

/// As [`name`], where only so many links of each node were examined.
pub fn name_among(nodes: &[NodeId], links_each: usize, bad: &[([NodeId; 2], String)]) -> Vec<Suspected> {
    let mut links: BTreeMap<[NodeId; 2], Vec<String>> = BTreeMap::new();
    for (pair, evidence) in bad {
        links.entry(*pair).or_default().push(evidence.clone());
    }
    // One bad link of a pair of nodes does not show which end is bad; nor does a single link of many.
    let needed = links_each.div_ceil(2).max(2);
    let everywhere = nodes.iter().find(|node| {
        let of_node = links.keys().filter(|pair| pair.contains(node)).count();
        of_node == links.len() && of_node >= needed
    });
    match everywhere {
        Some(node) => {
            let evidence = links
                .iter()
                .map(|([a, b], evidence)| format!("link {a}-{b}: {}", evidence.join(", ")))
                .collect();
            vec![Suspected { suspect: Suspect::Node(*node), evidence }]
        }
        None => links
            .into_iter()
            .map(|(pair, evidence)| Suspected { suspect: Suspect::Link(pair), evidence })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> NodeId {
        NodeId::new(number).unwrap()
    }

    fn suspects(nodes: &[u32], bad: &[[u32; 2]]) -> Vec<String> {
        let nodes: Vec<NodeId> = nodes.iter().map(|node| id(*node)).collect();
        let bad: Vec<_> = bad.iter().map(|pair| (pair.map(id), "slow".to_owned())).collect();
        name(&nodes, &bad).iter().map(|suspected| suspected.suspect.to_string()).collect()
    }

    #[test]
    fn a_bad_link_is_a_link() {
        assert_eq!(suspects(&[4, 8, 12, 16], &[[8, 12]]), ["link 8-12"]);
        assert_eq!(suspects(&[4, 8], &[[4, 8]]), ["link 4-8"]);
        assert!(suspects(&[4, 8], &[]).is_empty());
    }

    #[test]
    fn a_node_whose_links_are_bad_is_named_itself() {
        assert_eq!(suspects(&[4, 8, 12, 16], &[[4, 8], [4, 12], [4, 16]]), ["node 4"]);
        assert_eq!(suspects(&[4, 8, 12, 16], &[[4, 8], [8, 12]]), ["node 8"]);
        assert_eq!(suspects(&[4, 8, 12, 16, 20, 24], &[[4, 8], [8, 12]]), ["link 4-8", "link 8-12"]);
    }

    #[test]
    fn in_a_sample_half_of_the_links_that_were_looked_at_are_enough() {
        let nodes: Vec<NodeId> = (1..=60).map(|number| id(4 * number)).collect();
        let bad: Vec<_> = [[4, 8], [4, 12]].map(|pair| (pair.map(id), "slow".to_owned())).into();
        assert_eq!(name_among(&nodes, 4, &bad)[0].suspect, Suspect::Node(id(4)));
        assert_eq!(name(&nodes, &bad).len(), 2, "two of 59 links are two links");
    }

    #[test]
    fn two_troubles_that_share_no_node_are_two_links() {
        assert_eq!(suspects(&[4, 8, 12, 16], &[[4, 8], [12, 16]]), ["link 4-8", "link 12-16"]);
    }

    #[test]
    fn all_evidence_of_a_link_is_kept() {
        let bad = [([id(4), id(8)], "lost".to_owned()), ([id(4), id(8)], "slow".to_owned())];
        assert_eq!(name(&[id(4), id(8)], &bad)[0].to_string(), "link 4-8: lost; slow");
    }
}
