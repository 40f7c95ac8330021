//! Anomalies: what a sweep saw that does not fit.

use std::fmt;

use mad::header::Path;
use mad::values::{Guid, PortState, Status};
use topology::counted;

/// A port, as people find it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Spot {
    /// The node's text.
    pub name: String,
    /// Its GUID.
    pub guid: Guid,
    /// The port.
    pub port: u8,
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` ({}) port {}", self.name, self.guid, self.port)
    }
}

/// Something that does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Anomaly {
    /// The link is up, and nobody answers behind it.
    Silent {
        /// From where it was asked.
        at: Spot,
        /// The network said that it can't be delivered.
        undeliverable: bool,
    },
    /// The link was up, and is not any more.
    WentDown {
        /// Where.
        at: Spot,
    },
    /// Who answers behind a link says something that can't be.
    Nonsense {
        /// From where it was asked.
        at: Spot,
        /// What is wrong with it.
        what: String,
    },
    /// A node answered, and then not any more, or not to this.
    Mute {
        /// Which.
        name: String,
        /// Its GUID.
        guid: Guid,
        /// Questions without an answer.
        unanswered: usize,
    },
    /// A node refuses a question that it should answer.
    Refused {
        /// Which, and about which port (0: about itself).
        at: Spot,
        /// The attribute.
        attribute: u16,
        /// Why.
        status: Status,
    },
    /// Several nodes have one GUID.
    DuplicateGuid {
        /// The GUID.
        guid: Guid,
        /// How many.
        count: usize,
        /// Ways to the first of them.
        paths: Vec<Path>,
    },
    /// Two ports have one GUID.
    DuplicatePortGuid {
        /// The GUID.
        guid: Guid,
        /// The one.
        a: Spot,
        /// The other.
        b: Spot,
    },
    /// Two ports have one LID.
    DuplicateLid {
        /// The LID.
        lid: u16,
        /// The one.
        a: Spot,
        /// The other.
        b: Spot,
    },
    /// The two ends of a link do not agree on who is at the other.
    OneWay {
        /// Who says that there is a link.
        at: Spot,
        /// To whom.
        to: Spot,
        /// What the other says of its end.
        other: String,
    },
    /// A port is wired to itself.
    Loopback {
        /// Which.
        at: Spot,
    },
    /// A host or router has a cable that leads to nothing that was found: its peer did not say so.
    Unmatched {
        /// Who is said to be there.
        at: Spot,
        /// State of its port, as it says.
        state: PortState,
    },
    /// Farther away than a directed route reaches.
    TooFar {
        /// The last port that was reached.
        at: Spot,
    },
    /// There were more nodes, or ports, than was allowed for.
    TooMany {
        /// How many nodes were kept.
        kept: usize,
        /// How many ports they have.
        ports: usize,
        /// Behind which port the first one was that was not kept; none where it is the first node.
        at: Option<Spot>,
    },
    /// More nodes claim one GUID than are told from each other.
    TooManyAlike {
        /// The GUID.
        guid: Guid,
        /// Behind which port the first one was that was not kept.
        at: Spot,
    },
    /// So many questions stayed without an answer that nothing more was asked.
    GaveUp {
        /// How many.
        unanswered: usize,
        /// How many were not asked any more.
        left: usize,
    },
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent { at, undeliverable } => {
                let how = if *undeliverable { "cannot be reached" } else { "does not respond" };
                write!(f, "{at}: the link is up, but the node behind it {how}")
            }
            Self::WentDown { at } => write!(f, "{at}: the link went down during the sweep"),
            Self::Nonsense { at, what } => {
                write!(f, "{at}: the node behind it sent an invalid response: {what}")
            }
            Self::Mute { name, guid, unanswered } => {
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
                write!(f, "two ports have the GUID {guid}: {a}, and {b}")
            }
            Self::DuplicateLid { lid, a, b } => write!(f, "two ports have the LID {lid}: {a}, and {b}"),
            Self::OneWay { at, to, other } => {
                write!(f, "{at} leads to {to}, but that port reports as its peer: {other}")
            }
            Self::Loopback { at } => write!(f, "{at} is connected to itself"),
            Self::Unmatched { at, state } => {
                write!(f, "{at} is {state}, but no port was found at its other end")
            }
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
