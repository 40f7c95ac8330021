//! Fabrics in files: the format that a name means, and writing it.

use std::io::{self, Write};
use std::path::Path;

use topology::build::{self, BuildError};
use topology::{Graph, LinkSpec, write};

use crate::snapshot::{self, Snapshot};

/// A form in which a fabric can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As `ibnetdiscover` prints it.
    IbNetDiscover,
    /// As `ibsim` reads it.
    IbSim,
    /// As OpenSM dumps it.
    SubnetList,
    /// Our own.
    Toml,
    /// Graphviz.
    Dot,
    /// Slurm's `topology.conf`.
    SlurmConf,
    /// Slurm's `topology.yaml`.
    SlurmYaml,
    /// A drawing.
    Svg,
    /// A snapshot, with all that is known.
    Snapshot,
}

/// Words of forms, and the ends of names that mean them.
const FORMS: [(&str, Form, &[&str]); 9] = [
    ("ibnetdiscover", Form::IbNetDiscover, &["ibnetdiscover", "topo"]),
    ("ibsim", Form::IbSim, &["net"]),
    ("lst", Form::SubnetList, &["lst"]),
    ("toml", Form::Toml, &["toml"]),
    ("dot", Form::Dot, &["dot", "gv"]),
    ("slurm-conf", Form::SlurmConf, &["conf"]),
    ("slurm-yaml", Form::SlurmYaml, &["yaml", "yml"]),
    ("svg", Form::Svg, &["svg"]),
    ("snapshot", Form::Snapshot, &["json"]),
];

impl Form {
    /// The words of all forms.
    pub fn words() -> impl Iterator<Item = &'static str> {
        FORMS.iter().map(|form| form.0)
    }

    /// The form of a word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        FORMS.iter().find(|form| form.0 == word).map(|form| form.1)
    }

    /// The form that the end of a name means.
    #[must_use]
    pub fn of_path(path: &Path) -> Option<Self> {
        let end = path.extension()?.to_str()?.to_ascii_lowercase();
        FORMS.iter().find(|form| form.2.contains(&end.as_str())).map(|form| form.1)
    }

    /// Writes a fabric, after a comment by which [`may_replace`] knows what was written here.
    ///
    /// # Errors
    /// Of the writer.
    pub fn write(self, snapshot: &Snapshot, out: &mut dyn Write) -> io::Result<()> {
        let graph = &snapshot.graph;
        match self {
            Self::Dot => writeln!(out, "// {MARK}")?,
            Self::Svg => writeln!(out, "<!-- {MARK} -->")?,
            Self::Snapshot => {}
            _ => writeln!(out, "# {MARK}")?,
        }
        match self {
            Self::IbNetDiscover => write::ibnetdiscover(graph, out),
            Self::IbSim => write::ibsim(graph, out),
            Self::SubnetList => write::subnet_list(graph, out),
            Self::Toml => write::toml(graph, out),
            Self::Dot => write::dot(graph, out),
            Self::SlurmConf => write::slurm_conf(graph, out),
            Self::SlurmYaml => write::slurm_yaml(graph, out),
            Self::Svg => topology::draw::svg(graph, out),
            Self::Snapshot => snapshot::write(snapshot, out),
        }
    }
}

/// The comment with which what is written here begins.
const MARK: &str = "Written by tieline, which may replace this file: remove this line to keep it";

/// Whether a file that begins so was written here, or is empty: then another one may replace it.
#[must_use]
pub fn may_replace(beginning: &[u8]) -> bool {
    let text = String::from_utf8_lossy(beginning);
    let first = text.trim_start().lines().next().unwrap_or_default();
    first.is_empty() || first.contains(MARK) || first.starts_with("{\"schema\":\"tieline.fabric.")
}

/// A fabric of which nothing but the graph is known.
#[must_use]
pub fn bare(graph: Graph, source: &str) -> Snapshot {
    Snapshot {
        taken: 0,
        source: source.to_owned(),
        graph,
        ports: Vec::new(),
        counters: None,
        uncounted: Vec::new(),
        tables: None,
        vl_maps: Default::default(),
        concerns: Vec::new(),
        more_concerns: 0,
    }
}

/// A well-known shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// Radix and levels; hosts a leaf, if not half the radix.
    FatTree(u32, u32, Option<u32>),
    /// Children, parents and parallel cables of each level, beginning at the hosts.
    Pgft(Vec<u32>, Vec<u32>, Vec<u32>),
    /// Hosts a switch, from which all else follows.
    Dragonfly(u32),
    /// Groups, leaves, spines and global ports of a spine; hosts a leaf.
    DragonflyPlus([u32; 4], u32),
    /// Sizes, hosts a switch.
    Torus(Vec<u32>, u32),
    /// Sizes, hosts a switch.
    Mesh(Vec<u32>, u32),
    /// Sizes, hosts a switch.
    HyperX(Vec<u32>, u32),
    /// Dimensions, hosts a switch.
    Hypercube(u32, u32),
}

impl Shape {
    /// Builds it with links of this rate.
    ///
    /// # Errors
    /// There is no such shape, or it would be larger than any fabric.
    pub fn build(&self, link: LinkSpec) -> Result<Graph, BuildError> {
        match self {
            Self::FatTree(radix, levels, hosts) => {
                let mut tree = build::FatTree::new(*radix, *levels);
                if let Some(hosts) = hosts {
                    tree = tree.hosts_per_leaf(*hosts);
                }
                build::fat_tree(&build::FatTree { link, ..tree })
            }
            Self::Pgft(children, parents, parallel) => build::pgft(&build::Pgft {
                children: children.clone(),
                parents: parents.clone(),
                parallel: parallel.clone(),
                link,
            }),
            Self::DragonflyPlus([groups, leaves, spines, global], hosts_per_leaf) => {
                build::dragonfly_plus(&build::DragonflyPlus {
                    groups: *groups,
                    leaves: *leaves,
                    spines: *spines,
                    hosts_per_leaf: *hosts_per_leaf,
                    global: *global,
                    link,
                })
            }
            Self::Dragonfly(hosts) => {
                build::dragonfly(&build::Dragonfly { link, ..build::Dragonfly::balanced(*hosts) })
            }
            Self::Torus(sizes, hosts) => {
                build::torus(&build::Torus { link, ..build::Torus::new(sizes, *hosts) })
            }
            Self::Mesh(sizes, hosts) => {
                build::torus(&build::Torus { link, ..build::Torus::new(sizes, *hosts).mesh() })
            }
            Self::HyperX(sizes, hosts) => {
                build::hyperx(&build::HyperX { link, ..build::HyperX::new(sizes, *hosts) })
            }
            Self::Hypercube(dimensions, hosts) => build::hypercube(*dimensions, *hosts, link),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::{GraphBuilder, Kind, NodeSpec};

    /// A snapshot says the same of hidden characters, and shows none; a file of others with the form of ours
    /// is theirs.
    #[test]
    fn what_is_written_here_is_known_and_shows_nothing_hidden() {
        let mut builder = GraphBuilder::new();
        let name = "a\u{9b}31m\u{202e}b\u{2066}";
        builder.node(NodeSpec::new(Kind::Switch, name, 4).guid(16)).unwrap();
        let snapshot = bare(builder.finish(), "\u{9b}2J");
        for word in Form::words() {
            let mut bytes = Vec::new();
            Form::of_word(word).unwrap().write(&snapshot, &mut bytes).unwrap();
            assert!(may_replace(&bytes), "{word}");
            let text = String::from_utf8(bytes).unwrap();
            assert!(!text.contains(['\u{9b}', '\u{202e}', '\u{2066}']), "{word}: {text:?}");
            if word == "snapshot" {
                assert_eq!(
                    snapshot::read(text.as_bytes(), None, "test").unwrap().graph.name(topology::NodeIx(0)),
                    name
                );
            }
        }
        for text in
            ["tieline-topology = 1\n", "graph fabric {\n", "SwitchName=s0\n", "<svg >", "vendid=0x2c9\n"]
        {
            assert!(!may_replace(text.as_bytes()), "{text}");
        }
    }
}
