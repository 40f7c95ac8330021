//! Cables that are known to be swapped: failures over them are blamed on the swap, not on links or
//! nodes.

use tieline::NodeId;

use crate::cable::{CableReport, Kind};
use crate::suspect::{self, Suspect, Suspected};

/// Two nodes that are reached in each other's place, over these links.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Swap {
    nodes: [NodeId; 2],
    links: Vec<[NodeId; 2]>,
}

/// All that is known to be swapped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swaps(Vec<Swap>);

impl Swaps {
    /// What the cable test has found.
    pub fn of(cable: &CableReport) -> Self {
        let swapped = cable.deviations.iter().filter(|deviation| deviation.kind == Kind::Swapped);
        let swaps = swapped.filter_map(|deviation| {
            let nodes = [deviation.node, deviation.partner?];
            Some(Swap { nodes, links: deviation.links.clone() })
        });
        Self(swaps.collect())
    }

    /// Names the suspects behind bad pairs as [`suspect::name`] does; what was seen on a link that leads
    /// elsewhere speaks against the swap.
    pub fn name(&self, nodes: &[NodeId], bad: Vec<([NodeId; 2], String)>) -> Vec<Suspected> {
        let mut suspects: Vec<Suspected> = Vec::new();
        let mut others = Vec::new();
        for (link, evidence) in bad {
            let Some(swap) = self.0.iter().find(|swap| swap.links.contains(&link)) else {
                others.push((link, evidence));
                continue;
            };
            let suspect = Suspect::Swapped(swap.nodes);
            let evidence = format!("link {}-{}, which leads elsewhere: {evidence}", link[0], link[1]);
            match suspects.iter_mut().find(|suspected| suspected.suspect == suspect) {
                Some(suspected) => suspected.evidence.push(evidence),
                None => suspects.push(Suspected { suspect, evidence: vec![evidence] }),
            }
        }
        suspects.extend(suspect::name(nodes, &others));
        suspects
    }

    /// For the line of a step that has found these suspects: which swap has caused it. Empty if none has.
    pub fn cause(&self, suspects: &[Suspected]) -> String {
        let known = |suspected: &&Suspected| matches!(suspected.suspect, Suspect::Swapped(nodes) if self.0.iter().any(|swap| swap.nodes == nodes));
        let causes: Vec<String> =
            suspects.iter().filter(known).map(|suspected| suspected.suspect.to_string()).collect();
        if causes.is_empty() {
            return String::new();
        }
        format!("; the cause: {} are swapped, see the step `cable`", causes.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> NodeId {
        NodeId::new(number).unwrap()
    }

    fn swaps() -> Swaps {
        let links = [[4, 8], [4, 12]].map(|link| link.map(id)).into();
        Swaps(vec![Swap { nodes: [8, 12].map(id), links }])
    }

    fn bad(links: &[[u32; 2]]) -> Vec<([NodeId; 2], String)> {
        links.iter().map(|link| (link.map(id), "88 corrupt".to_owned())).collect()
    }

    #[test]
    fn what_fails_over_swapped_cables_blames_the_swap_and_nobody_else() {
        let nodes = [4, 8, 12].map(id);
        let suspects = swaps().name(&nodes, bad(&[[4, 8], [4, 12]]));
        assert_eq!(suspects.len(), 1, "{suspects:?}");
        assert_eq!(suspects[0].suspect, Suspect::Swapped([8, 12].map(id)));
        assert!(suspects[0].evidence[0].starts_with("link 4-8, which leads elsewhere: 88 corrupt"));
        let cause = swaps().cause(&suspects);
        assert!(cause.contains("nodes 8 and 12 are swapped") && cause.contains("`cable`"), "{cause}");
        assert_eq!(Swaps::default().name(&nodes, bad(&[[4, 8], [4, 12]]))[0].suspect, Suspect::Node(id(4)));
    }

    #[test]
    fn other_links_are_blamed_as_ever() {
        let suspects = swaps().name(&[4, 8, 12, 16].map(id), bad(&[[8, 16]]));
        assert_eq!(suspects[0].suspect, Suspect::Link([8, 16].map(id)));
        assert_eq!(swaps().cause(&suspects), "");
    }
}
