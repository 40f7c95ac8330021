//! Reads topology files of several formats: detects the format, parses it, lists what could not be
//! believed.
//!
//! A reader never guesses silently: what it can't understand, or what contradicts itself, becomes an
//! [`Anomaly`] with its line, and the rest is read. A file that is no topology at all is an error that names
//! the expected formats.

use std::fmt;

use crate::graph::{Graph, Kind, NodeIx};

mod anomaly;
pub mod chassis;
mod detect;
mod draft;
mod lines;
mod netdump;
mod omni_path;
mod own;
mod subnet_list;
#[cfg(test)]
mod tests;

pub use anomaly::{Anomalies, Anomaly, Cause};
pub use detect::is_known;
pub(crate) use own::KEY as OWN_KEY;

/// Bytes that a file may have; 16,000 hosts are 20 MB of the wordiest format.
pub const MOST_BYTES: usize = 512 << 20;

/// A format that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// What `ibnetdiscover` prints.
    IbNetDiscover,
    /// Net files of `ibsim`.
    IbSim,
    /// `opensm-subnet.lst`, which OpenSM dumps.
    SubnetList,
    /// Omni-Path's reports and plans, in XML.
    OmniPath,
    /// Topologies of systems that IBNL files describe: [`chassis::read_topo`].
    Topo,
    /// Our own.
    Toml,
}

impl Format {
    /// All that a file alone is enough for: a topology of systems needs their descriptions too.
    pub const ALL: [Self; 5] =
        [Self::IbNetDiscover, Self::IbSim, Self::SubnetList, Self::OmniPath, Self::Toml];

    /// The word for it, by which it can be forced.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::IbNetDiscover => "ibnetdiscover",
            Self::IbSim => "ibsim",
            Self::SubnetList => "lst",
            Self::OmniPath => "opa",
            Self::Topo => "topo",
            Self::Toml => "toml",
        }
    }

    /// The format of this word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.word().eq_ignore_ascii_case(word))
    }

    /// What a file of this format is known by.
    #[must_use]
    pub fn mark(self) -> &'static str {
        match self {
            Self::IbNetDiscover => "lines `Switch 36 \"S-0002c9…\"` and `Ca 1 \"H-0002c9…\"`",
            Self::IbSim => "lines `Switch 8 \"name\"` and `Hca 2 \"name\"`",
            Self::SubnetList => "lines `{ SW Ports:24 … NodeGUID:… } { CA … } PHY=4x …`",
            Self::OmniPath => "XML with `<LinkSummary>` and `<Link>`",
            Self::Topo => "lines `MTS3600 name` and `P1 -> HCA host P1`",
            Self::Toml => "a line `tieline-topology = 1`",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.word())
    }
}

/// What was read.
#[derive(Debug)]
pub struct Reading {
    /// The fabric, as far as the file could be believed.
    pub graph: Graph,
    /// What it was read as.
    pub format: Format,
    /// Why it was taken for that.
    pub reason: String,
    /// What could not be believed.
    pub anomalies: Anomalies,
}

/// Why nothing could be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// There is nothing in it.
    #[error(
        "the file is empty: name a topology file, such as the output of ibnetdiscover or opensm-subnet.lst"
    )]
    Empty,
    /// It is larger than any topology.
    #[error("the file has {0} bytes, and at most {MOST_BYTES} are read: name a topology file")]
    TooLong(usize),
    /// The file has more nodes and ports than any fabric.
    #[error("line {line}: more than {most} {what}, which no fabric has: name a topology file")]
    TooLarge {
        /// Where it became too much.
        line: usize,
        /// What there is too much of.
        what: &'static str,
        /// How much there may be.
        most: usize,
    },
    /// No format fits.
    // The content of a file of another kind does not belong into a log.
    #[error(
        "not a topology file: name the output of ibnetdiscover, a net file of ibsim, opensm-subnet.lst, an Omni-Path report or a \
         file of tieline (iblinkinfo and ibdiagnet2.db_csv are not read)"
    )]
    Unknown,
    /// Nothing of the format was found.
    #[error(
        "no node was found when it was read as `{format}` ({}){}: {}",
        format.mark(),
        anomaly.as_ref().map_or_else(String::new, |anomaly| format!("; the first anomaly: {anomaly}")),
        if *is_forced { "leave out --as-form, or give the format of the file" } else { "name a topology file" }
    )]
    NoNode {
        /// What it was read as.
        format: Format,
        /// The format was given, not detected.
        is_forced: bool,
        /// What the reader first stumbled over, if anything.
        anomaly: Option<String>,
    },
    /// Its syntax is broken so that nothing after it can be read.
    #[error("line {line}: {cause}")]
    Syntax {
        /// The line number.
        line: usize,
        /// What is wrong.
        cause: String,
    },
}

/// Reads a topology, in a format that is found out, or in this one.
///
/// # Errors
/// The file is no topology, or one that no fabric has.
pub fn read(bytes: &[u8], forced: Option<Format>) -> Result<Reading, ReadError> {
    if bytes.len() > MOST_BYTES {
        return Err(ReadError::TooLong(bytes.len()));
    }
    if bytes.trim_ascii().is_empty() {
        return Err(ReadError::Empty);
    }
    let (format, reason) = match forced {
        Some(format) => (format, "requested".to_owned()),
        None => detect::detect(bytes)?,
    };
    let mut anomalies = Anomalies::default();
    let graph = match format {
        Format::IbNetDiscover | Format::IbSim => netdump::read(bytes, format, &mut anomalies)?,
        Format::SubnetList => subnet_list::read(bytes, &mut anomalies)?,
        Format::OmniPath => omni_path::read(bytes, &mut anomalies)?,
        Format::Topo => {
            let cause = "a `topo` file needs the IBNL files of its systems, which no command reads: give an ibnetdiscover dump or opensm-subnet.lst".to_owned();
            return Err(ReadError::Syntax { line: 1, cause });
        }
        Format::Toml => own::read(bytes, &mut anomalies)?,
    };
    if graph.node_count() == 0 {
        let anomaly = anomalies.iter().next().map(ToString::to_string);
        return Err(ReadError::NoNode { format, is_forced: forced.is_some(), anomaly });
    }
    lids(&graph, &mut anomalies);
    lidless(&graph, &mut anomalies);
    anomalies.sort();
    Ok(Reading { graph, format, reason, anomalies })
}

/// Adds LIDs that more than one port has: packets to one of them arrive at the other.
fn lids(graph: &Graph, anomalies: &mut Anomalies) {
    let mut first: Vec<Option<crate::PortIx>> = Vec::new();
    let is_end = |port: &crate::PortIx| {
        graph.lid(*port) != 0 && (graph.kind(graph.owner(*port)) != Kind::Switch || graph.number(*port) == 0)
    };
    for port in graph.nodes().flat_map(|node| graph.ports(node)).filter(is_end) {
        let lid = usize::from(graph.lid(port));
        for lid in lid..lid + (1 << graph.lmc(port)) {
            first.resize(first.len().max(lid + 1), None);
            let Some(other) = first[lid] else {
                first[lid] = Some(port);
                continue;
            };
            let place =
                |port| format!("`{}`, GUID {:#018x}", graph.name(graph.owner(port)), graph.port_guid(port));
            let what =
                format_args!("{lid} belongs to {} and to {}: both are kept", place(other), place(port));
            anomalies.add(0, Cause::DuplicateLid, what);
            break;
        }
    }
}

/// Adds switches without a LID where others have one: tables have no entry for them.
fn lidless(graph: &Graph, anomalies: &mut Anomalies) {
    let lid = |node: &NodeIx| graph.port(*node, 0).map_or(0, |port| graph.lid(port));
    let mut bare = graph.nodes_of(Kind::Switch).filter(|node| lid(node) == 0).peekable();
    if bare.peek().is_none() || graph.nodes_of(Kind::Switch).all(|node| lid(&node) == 0) {
        return;
    }
    for node in bare {
        let what = format_args!(
            "`{}`, GUID {:#018x}, while other switches have one",
            graph.name(node),
            graph.node_guid(node)
        );
        anomalies.add(0, Cause::NoLid, what);
    }
}

/// A speed as OpenSM writes it.
pub(crate) fn subnet_speed(speed: crate::graph::Speed) -> &'static str {
    subnet_list::SPEEDS.into_iter().find(|known| known.1 == speed).map_or("???", |known| known.0)
}
