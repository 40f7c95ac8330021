//! Writes Slurm's topology file: leaf switches with their nodes, and the switches above.
//!
//! Slurm knows trees without loops only: all switches of a level that are connected below it are one switch
//! to it. A host is called by the first word of its description, if that is a host name ([`SlurmHosts`]);
//! what hangs at several leaves belongs to the first.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::recognise::{Shape, recognise};

mod hosts;

pub use hosts::SlurmHosts;

/// A switch as Slurm knows it.
#[derive(Debug, PartialEq, Eq)]
struct Unit {
    name: String,
    /// Hosts of a leaf.
    nodes: BTreeSet<String>,
    /// Units below, for all but leaves.
    below: BTreeSet<String>,
}

/// Writes `topology.conf` for the plugin `topology/tree`.
///
/// # Errors
/// Those of the writer.
pub fn slurm_conf(graph: &Graph, out: &mut dyn Write) -> io::Result<()> {
    for unit in units(graph) {
        write!(out, "SwitchName={}", unit.name)?;
        if !unit.nodes.is_empty() {
            write!(out, " Nodes={}", ranges(&unit.nodes))?;
        }
        if !unit.below.is_empty() {
            write!(out, " Switches={}", ranges(&unit.below))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Writes `topology.yaml`: a tree, and where all leaves have equally many hosts (and more than one) blocks of
/// a leaf each.
///
/// # Errors
/// Those of the writer.
pub fn slurm_yaml(graph: &Graph, out: &mut dyn Write) -> io::Result<()> {
    let units = units(graph);
    writeln!(out, "---\n- topology: tree\n  cluster_default: true\n  tree:\n    switches:")?;
    for unit in &units {
        writeln!(out, "      - switch: {}", unit.name)?;
        for (key, names) in [("nodes", &unit.nodes), ("children", &unit.below)] {
            if !names.is_empty() {
                writeln!(out, "        {key}: {}", ranges(names))?;
            }
        }
    }
    let leaves: Vec<&Unit> = units.iter().filter(|unit| !unit.nodes.is_empty()).collect();
    let size = leaves.first().map_or(0, |leaf| leaf.nodes.len());
    if size > 1 && leaves.iter().all(|leaf| leaf.nodes.len() == size) {
        writeln!(
            out,
            "- topology: block\n  cluster_default: false\n  block:\n    block_sizes:\n      - {size}"
        )?;
        writeln!(out, "    blocks:")?;
        for leaf in leaves {
            writeln!(out, "      - block: {}\n        nodes: {}", leaf.name, ranges(&leaf.nodes))?;
        }
    }
    Ok(())
}

fn units(graph: &Graph) -> Vec<Unit> {
    let (level, known) = (heights(graph), SlurmHosts::of(graph));
    let mut names = Names::default();
    let mut units = Vec::new();
    // The unit that each switch is in at the level that was done last.
    let mut unit_of: BTreeMap<NodeIx, String> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for node in living(graph).filter(|node| graph.kind(*node) == Kind::Switch) {
        let ends = graph.cabled(node).map(|(_, peer)| graph.owner(peer));
        let hosts: Vec<String> = ends
            .filter_map(|end| known.name(end).map(str::to_owned))
            .filter(|name| !seen.contains(name))
            .collect();
        if !hosts.is_empty() {
            seen.extend(hosts.iter().cloned());
            let name = names.free(&simple(graph.name(node)));
            unit_of.insert(node, name.clone());
            units.push(Unit { name, nodes: hosts.into_iter().collect(), below: BTreeSet::new() });
        }
    }
    for top in 2..=level.values().copied().max().unwrap_or(0) {
        let inside = |node: NodeIx| level.get(&node).is_some_and(|level| *level <= top);
        for part in parts(graph, &inside) {
            let below: BTreeSet<String> = part.iter().filter_map(|node| unit_of.get(node).cloned()).collect();
            let name = match below.len() {
                0 => continue,
                // One unit alone needs nothing above it.
                1 => below.into_iter().next().unwrap_or_default(),
                _ => {
                    let name = names.free(&format!("level{top}_"));
                    units.push(Unit { name: name.clone(), nodes: BTreeSet::new(), below });
                    name
                }
            };
            part.into_iter().for_each(|node| drop(unit_of.insert(node, name.clone())));
        }
    }
    units
}

/// The level at which each switch joins the others: of a tree its own, of a dragonfly that of the group, else
/// the second.
fn heights(graph: &Graph) -> BTreeMap<NodeIx, u32> {
    let switches = living(graph).filter(|node| graph.kind(*node) == Kind::Switch);
    let found = recognise(graph);
    let of = |node: NodeIx| match &found.shape {
        Shape::Tree { level, .. } if found.is_sure() => u32::from(level[node.index()].max(1)),
        _ => 2,
    };
    switches.map(|node| (node, of(node))).collect()
}

/// Connected parts of the switches that are inside.
fn parts(graph: &Graph, inside: &dyn Fn(NodeIx) -> bool) -> Vec<Vec<NodeIx>> {
    let (mut seen, mut parts) = (HashSet::new(), Vec::new());
    for start in living(graph).filter(|node| inside(*node)) {
        if !seen.insert(start) {
            continue;
        }
        let mut part = vec![start];
        let mut next = 0;
        while let Some(node) = part.get(next).copied() {
            next += 1;
            let others = graph.cabled(node).map(|(_, peer)| graph.owner(peer));
            part.extend(others.filter(|other| inside(*other) && seen.insert(*other)).collect::<Vec<_>>());
        }
        parts.push(part);
    }
    parts
}

/// Names that are not taken.
#[derive(Default)]
struct Names(HashSet<String>);

impl Names {
    fn free(&mut self, wanted: &str) -> String {
        let needs_number = wanted.ends_with('_');
        let mut name = if needs_number { format!("{wanted}0") } else { wanted.to_owned() };
        for number in 1.. {
            if self.0.insert(name.clone()) {
                break;
            }
            name = if needs_number { format!("{wanted}{number}") } else { format!("{wanted}_{number}") };
        }
        name
    }
}

/// Only what Slurm takes in a name.
fn simple(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name: String = name.chars().map(plain).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

/// `host[00000-00017,00020],other`
fn ranges(names: &BTreeSet<String>) -> String {
    let mut groups: BTreeMap<(&str, usize), Vec<u64>> = BTreeMap::new();
    let mut plain = Vec::new();
    for name in names {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        match name[stem.len()..].parse() {
            Ok(number) => groups.entry((stem, name.len() - stem.len())).or_default().push(number),
            Err(_) => plain.push(name.clone()),
        }
    }
    for ((stem, width), mut numbers) in groups {
        numbers.sort_unstable();
        let spans: Vec<String> = numbers
            .chunk_by(|a, b| a + 1 == *b)
            .map(|run| match run {
                [one] => format!("{one:0width$}"),
                run => format!("{:0width$}-{:0width$}", run[0], run[run.len() - 1]),
            })
            .collect();
        let single = numbers.len() == 1;
        plain.push(if single {
            format!("{stem}{}", spans[0])
        } else {
            format!("{stem}[{}]", spans.join(","))
        });
    }
    plain.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{FatTree, Torus, fat_tree, torus};

    fn conf(graph: &Graph) -> String {
        let mut bytes = Vec::new();
        slurm_conf(graph, &mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_tree_is_its_leaves_and_what_joins_them() {
        let text = conf(&fat_tree(&FatTree::new(4, 3)).unwrap());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 8 + 4 + 1, "{text}");
        assert_eq!(lines[0], "SwitchName=leaf000 Nodes=host[00000-00001]");
        assert_eq!(lines[8], "SwitchName=level2_0 Switches=leaf[000-001]");
        assert_eq!(lines[12], "SwitchName=level3_0 Switches=level2_[0-3]");
    }

    #[test]
    fn a_torus_is_its_switches_and_one_above() {
        let text = conf(&torus(&Torus::new(&[4, 4], 2)).unwrap());
        assert_eq!(text.lines().count(), 17);
        assert!(
            text.lines().last().unwrap().starts_with("SwitchName=level2_0 Switches=sw_00_[00-03],"),
            "{text}"
        );
    }

    #[test]
    fn yaml_has_blocks_where_leaves_are_equal() {
        let graph = fat_tree(&FatTree::new(4, 2)).unwrap();
        let mut bytes = Vec::new();
        slurm_yaml(&graph, &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains("      - block: leaf003\n        nodes: host[00006-00007]"), "{text}");
        let cut = graph.without(&[graph.cabled(NodeIx(0)).next().unwrap().0], &[]);
        let mut bytes = Vec::new();
        slurm_yaml(&cut, &mut bytes).unwrap();
        assert!(!String::from_utf8(bytes).unwrap().contains("block"));
    }

    #[test]
    fn names_are_folded_and_made_simple() {
        let set = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        assert_eq!(ranges(&set(&["a1", "a2", "a3", "a05", "b", "a7"])), "b,a[1-3,7],a05");
        assert_eq!(ranges(&set(&["a99999999999999999999999"])), "a99999999999999999999999");
        assert_eq!(simple("a b;c"), "a_b_c");
    }
}
