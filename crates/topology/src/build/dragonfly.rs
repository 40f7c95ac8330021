//! Builds dragonflies: groups of switches, and cables from every group to every other. After Kim,
//! Dally, Scott and Abts, "Technology-driven, highly-scalable dragonfly topology" (2008); with
//! groups of two levels, Shpiner and others, "Dragonfly+: low cost topology for scaling
//! datacenters" (2017).

use super::{BuildError, Maker, ports, sizes};
use crate::counted;
use crate::graph::{Graph, LinkSpec, NodeIx};

/// A dragonfly: within a group each switch is wired to each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dragonfly {
    /// Groups; at most one more than a group has global ports.
    pub groups: u32,
    /// Switches of a group.
    pub switches: u32,
    /// Hosts at each switch.
    pub hosts_per_switch: u32,
    /// Global ports of each switch: those whose cables leave the group.
    pub global: u32,
    /// What each cable is rated at.
    pub link: LinkSpec,
}

impl Dragonfly {
    /// The largest and balanced one with this number of hosts at a switch: as many global ports, twice as
    /// many switches a group, and every pair of groups has one cable.
    #[must_use]
    pub fn balanced(hosts_per_switch: u32) -> Self {
        let (switches, global) = (hosts_per_switch.saturating_mul(2), hosts_per_switch);
        let groups = switches.saturating_mul(global).saturating_add(1);
        Self { groups, switches, hosts_per_switch, global, link: LinkSpec::EDR4X }
    }
}

/// A dragonfly+: a group is a tree of two levels, hosts are at its leaves, and global cables at its spines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DragonflyPlus {
    /// Groups; at most one more than a group has global ports.
    pub groups: u32,
    /// Leaves of a group.
    pub leaves: u32,
    /// Spines of a group; each leaf is wired to each of them.
    pub spines: u32,
    /// Hosts at each leaf.
    pub hosts_per_leaf: u32,
    /// Global ports of each spine.
    pub global: u32,
    /// What each cable is rated at.
    pub link: LinkSpec,
}

/// Builds a dragonfly. Each two groups have the same number of cables: as many as all have ports for.
///
/// # Errors
/// Parameters that fit none, or one larger than any fabric.
pub fn dragonfly(shape: &Dragonfly) -> Result<Graph, BuildError> {
    const SHAPE: &str = "dragonfly";
    let Dragonfly { groups, switches, hosts_per_switch: hosts, global, link } = *shape;
    if hosts == 0 && switches == 0 {
        // What was given is the number of hosts: the others follow from it.
        return Err(BuildError::parameter(SHAPE, "0 hosts per switch: give at least 1"));
    }
    let plan = Plan::new(SHAPE, groups, switches, global)?;
    let all = u64::from(groups) * u64::from(switches);
    sizes(SHAPE, all.saturating_mul(u64::from(hosts)), all)?;
    let local = u64::from(switches) - 1;
    let count = ports(SHAPE, "a switch", u64::from(hosts) + local + u64::from(global))?;
    let mut maker = Maker::new();
    let mut rows = Vec::new();
    for group in 0..groups {
        let row: Result<Vec<_>, _> =
            (0..switches).map(|at| maker.switch(&format!("g{group:02}_sw{at:02}"), count)).collect();
        rows.push(row?);
    }
    for row in &rows {
        for (a, first) in row.iter().enumerate() {
            for (b, second) in row.iter().enumerate().skip(a + 1) {
                // Everyone but itself, in their order.
                let (mine, theirs) = (hosts as usize + b, hosts as usize + a + 1);
                maker.graph.link((*first, mine as u8), (*second, theirs as u8), link)?;
            }
        }
    }
    plan.wire(&rows, hosts + switches - 1, link, &mut maker)?;
    hosts_at(rows.iter().flatten(), hosts, link, &mut maker)?;
    Ok(maker.finish())
}

/// Builds a dragonfly+. Each two groups have the same number of cables: as many as all have ports for.
///
/// # Errors
/// Parameters that fit none, or one larger than any fabric.
pub fn dragonfly_plus(shape: &DragonflyPlus) -> Result<Graph, BuildError> {
    const SHAPE: &str = "dragonfly+";
    let DragonflyPlus { groups, leaves, spines, hosts_per_leaf: hosts, global, link } = *shape;
    let plan = Plan::new(SHAPE, groups, spines, global)?;
    if leaves == 0 {
        return Err(BuildError::parameter(SHAPE, "0 leaves in a group: give at least 1"));
    }
    let all = u64::from(groups) * u64::from(leaves);
    sizes(SHAPE, all.saturating_mul(u64::from(hosts)), all + u64::from(groups) * u64::from(spines))?;
    let leaf_ports = ports(SHAPE, "a leaf", u64::from(hosts) + u64::from(spines))?;
    let spine_ports = ports(SHAPE, "a spine", u64::from(leaves) + u64::from(global))?;
    let mut maker = Maker::new();
    let (mut leaf_rows, mut spine_rows) = (Vec::new(), Vec::new());
    for group in 0..groups {
        let row: Result<Vec<_>, _> =
            (0..leaves).map(|at| maker.switch(&format!("g{group:02}_leaf{at:02}"), leaf_ports)).collect();
        leaf_rows.push(row?);
    }
    for group in 0..groups {
        let row: Result<Vec<_>, _> =
            (0..spines).map(|at| maker.switch(&format!("g{group:02}_spine{at:02}"), spine_ports)).collect();
        spine_rows.push(row?);
    }
    for (low, high) in leaf_rows.iter().zip(&spine_rows) {
        for (a, leaf) in low.iter().enumerate() {
            for (b, spine) in high.iter().enumerate() {
                let (mine, theirs) = (hosts as usize + b + 1, a + 1);
                maker.graph.link((*leaf, mine as u8), (*spine, theirs as u8), link)?;
            }
        }
    }
    plan.wire(&spine_rows, leaves, link, &mut maker)?;
    hosts_at(leaf_rows.iter().flatten(), hosts, link, &mut maker)?;
    Ok(maker.finish())
}

fn hosts_at<'a>(
    switches: impl Iterator<Item = &'a NodeIx>,
    hosts: u32,
    link: LinkSpec,
    maker: &mut Maker,
) -> Result<(), BuildError> {
    for switch in switches {
        for number in 1..=hosts {
            let host = maker.host(1)?;
            // Port counts were checked.
            maker.graph.link((host, 1), (*switch, number as u8), link)?;
        }
    }
    Ok(())
}

/// The cables between groups.
struct Plan {
    groups: u32,
    /// Global ports of a switch.
    global: u32,
    /// Cables between each two groups.
    copies: u32,
}

impl Plan {
    fn new(shape: &'static str, groups: u32, switches: u32, global: u32) -> Result<Self, BuildError> {
        if groups == 0 || switches == 0 {
            let why = format!(
                "{} of {} with global ports: give at least 1 of each",
                counted(groups, "group"),
                counted(switches, "switch")
            );
            return Err(BuildError::parameter(shape, why));
        }
        let slots = u64::from(switches) * u64::from(global);
        let others = u64::from(groups) - 1;
        if others > slots {
            let why = format!(
                "{groups} groups, but {} with {} each reach only {slots} others: give at most {}, or more global ports",
                counted(switches, "switch"),
                counted(global, "global port"),
                counted(slots + 1, "group")
            );
            return Err(BuildError::parameter(shape, why));
        }
        let copies = slots.checked_div(others).unwrap_or(0);
        let copies = u32::try_from(copies).map_err(|_| {
            let why = format!("{copies} cables between two groups: give fewer global ports or more groups");
            BuildError::parameter(shape, why)
        })?;
        Ok(Self { groups, global, copies })
    }

    /// Global port `copy × (groups − 1) + distance − 1` of a group leads to the group at this distance.
    fn wire(
        &self,
        rows: &[Vec<NodeIx>],
        before: u32,
        link: LinkSpec,
        maker: &mut Maker,
    ) -> Result<(), BuildError> {
        let (groups, others) = (self.groups, self.groups - 1);
        let spot = |group: u32, slot: u32| {
            let node = rows[group as usize][(slot / self.global) as usize];
            (node, (before + slot % self.global + 1) as u8)
        };
        for copy in 0..self.copies {
            for from in 0..groups {
                for to in from + 1..groups {
                    let distance = to - from;
                    let here = spot(from, copy * others + distance - 1);
                    let there = spot(to, copy * others + groups - distance - 1);
                    maker.graph.link(here, there, link)?;
                }
            }
        }
        Ok(())
    }
}
