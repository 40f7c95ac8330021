//! Anomalies: contradictions and missing responses that a sweep found.

use std::fmt;

use mad::header::Path;
use mad::values::{Guid, PortState, Status};
use topology::counted;

/// A port, named so that an administrator finds it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortLocation {
    /// The NodeDescription.
    pub name: String,
    /// Its GUID.
    pub guid: Guid,
    /// The port.
    pub port: u8,
}

impl fmt::Display for PortLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` ({}) port {}", self.name, self.guid, self.port)
    }
}

/// A contradiction or a missing response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Anomaly {
    /// The link is up, and the node behind it does not respond.
    Silent {
        /// The port that leads there.
        at: PortLocation,
        /// The transport reported that the request cannot be delivered.
        undeliverable: bool,
    },
    /// The link was up, and is down now.
    WentDown {
        /// The port.
        at: PortLocation,
    },
    /// The node behind a link sent an invalid response.
    Nonsense {
        /// The port that leads there.
        at: PortLocation,
        /// What is wrong with it.
        what: String,
    },
    /// A node stopped responding, or does not respond to some requests.
    NodeUnresponsive {
        /// The NodeDescription.
        name: String,
        /// Its GUID.
        guid: Guid,
        /// Requests without a response.
        unanswered: usize,
    },
    /// A node rejects a request that it should accept.
    Refused {
        /// The node, and the port that the request is about (0: the node itself).
        at: PortLocation,
        /// The attribute.
        attribute: u16,
        /// The status of the response.
        status: Status,
    },
    /// Several nodes have one GUID.
    DuplicateGuid {
        /// The GUID.
        guid: Guid,
        /// The number of nodes.
        count: usize,
        /// Directed routes to the first of them.
        paths: Vec<Path>,
    },
    /// Two ports have one GUID.
    DuplicatePortGuid {
        /// The GUID.
        guid: Guid,
        /// One port.
        a: PortLocation,
        /// The other port.
        b: PortLocation,
    },
    /// Two ports have one LID.
    DuplicateLid {
        /// The LID.
        lid: u16,
        /// One port.
        a: PortLocation,
        /// The other port.
        b: PortLocation,
    },
    /// The two ends of a link disagree about their peers.
    OneWay {
        /// The port that reports the link.
        at: PortLocation,
        /// The peer that it reports.
        to: PortLocation,
        /// What that peer reports.
        other: String,
    },
    /// A port is wired to itself.
    Loopback {
        /// The port.
        at: PortLocation,
    },
    /// A host or router has a link whose other end was not found.
    Unmatched {
        /// The port of the host or router.
        at: PortLocation,
        /// The state that the port reports.
        state: PortState,
    },
    /// A node is farther away than a directed route reaches.
    TooFar {
        /// The last port that was reached.
        at: PortLocation,
    },
    /// There are more nodes or ports than the limits allow.
    TooMany {
        /// How many nodes were kept.
        kept: usize,
        /// How many ports they have.
        ports: usize,
        /// The port before the first node that was not kept; `None` if it is the first node of all.
        at: Option<PortLocation>,
    },
    /// More nodes have one GUID than are kept apart.
    TooManyAlike {
        /// The GUID.
        guid: Guid,
        /// The port before the first node that was not kept.
        at: PortLocation,
    },
    /// So many requests stayed without a response that the sweep ended.
    GaveUp {
        /// Requests without a response.
        unanswered: usize,
        /// Requests that were not sent.
        left: usize,
    },
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent { at, undeliverable } => {
                let how = if *undeliverable { "cannot be reached" } else { "does not respond" };
                write!(f, "{at}: the link is up, but the node behind it {how}: check that the node runs")
            }
            Self::WentDown { at } => write!(f, "{at}: the link went down during the sweep: run it again"),
            Self::Nonsense { at, what } => {
                write!(f, "{at}: the node behind it sent an invalid response: {what}")
            }
            Self::NodeUnresponsive { name, guid, unanswered } => {
                write!(f, "`{name}` ({guid}) did not respond to {}", counted(*unanswered, "request"))
            }
            Self::Refused { at, attribute, status } => {
                write!(f, "{at}: the node rejects attribute {attribute:#06x}: {status}")
            }
            Self::DuplicateGuid { guid, count, paths } => {
                write!(f, "{count} nodes have the GUID {guid}, at the directed routes (DR)")?;
                paths.iter().try_for_each(|path| write!(f, " {path}"))?;
                if paths.len() < *count { f.write_str(" and others") } else { Ok(()) }
            }
            Self::DuplicatePortGuid { guid, a, b } => {
                write!(f, "two ports have the GUID {guid}: {a}, and {b}: give one of them a GUID of its own")
            }
            Self::DuplicateLid { lid, a, b } => write!(
                f,
                "two ports have the LID {lid}: {a}, and {b}: restart the subnet manager (SM), which assigns LIDs"
            ),
            Self::OneWay { at, to, other } => write!(
                f,
                "{at} leads to {to}, but that port reports as its peer: {other}: run the sweep again, as the cable may have been moved \
                 meanwhile"
            ),
            Self::Loopback { at } => write!(f, "{at} is connected to itself: look at the cable"),
            Self::Unmatched { at, state } => write!(
                f,
                "{at} is {state}, but no port was found at its other end: run the sweep again, as the link may have changed meanwhile"
            ),
            Self::TooFar { at } => {
                write!(f, "{at}: the node behind it is farther away than a directed route reaches")
            }
            Self::TooMany { kept, ports, at } => {
                write!(
                    f,
                    "there are more nodes than the {kept} with {ports} ports that are kept: a node may report others that do not exist."
                )?;
                at.as_ref().map_or(Ok(()), |at| write!(f, " The first node that was not kept is behind {at}"))
            }
            Self::TooManyAlike { guid, at } => {
                write!(
                    f,
                    "{at}: one more node with the GUID {guid}, which too many nodes have: it is left out"
                )
            }
            Self::GaveUp { unanswered, left } => write!(
                f,
                "{unanswered} requests got no response: the sweep ended there, and {left} more requests were not sent"
            ),
        }
    }
}
