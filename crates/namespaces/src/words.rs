//! The messages between the processes of this crate, one a line.

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::str::FromStr;

use proto::ids::NodeId;

use crate::process::Identity;

/// From the hub to a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// The interface is there: give it its address.
    Address,
    /// Make the authority, and start the manager of this node.
    Found(NodeId),
    /// Make a token for this node.
    Token(NodeId),
    /// Join at this address as this node with this token, and start the manager.
    Join { node: NodeId, at: Ipv4Addr, token: String },
    /// Wait until the session of the first node with each of the others is valid.
    Wait { node: NodeId, others: Vec<NodeId> },
    /// End in an orderly way.
    Stop,
}

/// From a host to the hub, and from the hub to `up`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// The host has its namespaces and runs as this process.
    Process(Identity),
    /// What was ordered is done.
    Done,
    /// Here is the token.
    Token(String),
    /// So many hosts run.
    Started(usize),
    /// So many hosts are connected with all others.
    Ready(usize),
    /// It cannot be done, and why.
    Failed(String),
}

/// What a word of a command line says that is empty where there is nothing to say; `None`: it says something
/// else.
pub(crate) fn optional<T: FromStr>(word: &OsStr) -> Option<Option<T>> {
    Some(word.to_str()?).filter(|text| !text.is_empty()).map(str::parse).transpose().ok()
}

/// One line, whatever the text has.
fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

impl std::fmt::Display for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address => f.write_str("address"),
            Self::Found(node) => write!(f, "found {node}"),
            Self::Token(node) => write!(f, "token {node}"),
            Self::Join { node, at, token } => write!(f, "join {node} {at} {token}"),
            Self::Wait { node, others } => {
                write!(f, "wait {node}")?;
                others.iter().try_for_each(|other| write!(f, " {other}"))
            }
            Self::Stop => f.write_str("stop"),
        }
    }
}

impl FromStr for Order {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let wrong = || format!("`{line}` is no order");
        let node = |text: &str| text.parse::<NodeId>().map_err(|_| wrong());
        let ip = |text: &str| text.parse::<Ipv4Addr>().map_err(|_| wrong());
        match words.as_slice() {
            ["address"] => Ok(Self::Address),
            ["found", id] => Ok(Self::Found(node(id)?)),
            ["token", id] => Ok(Self::Token(node(id)?)),
            ["join", id, at, token] => {
                Ok(Self::Join { node: node(id)?, at: ip(at)?, token: (*token).to_owned() })
            }
            ["wait", id, others @ ..] => {
                let others = others.iter().map(|other| node(other)).collect::<Result<_, _>>()?;
                Ok(Self::Wait { node: node(id)?, others })
            }
            ["stop"] => Ok(Self::Stop),
            _ => Err(wrong()),
        }
    }
}

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Process(Identity { pid, start }) => write!(f, "process {pid} {start}"),
            Self::Done => f.write_str("done"),
            Self::Token(token) => write!(f, "token {token}"),
            Self::Started(count) => write!(f, "started {count}"),
            Self::Ready(count) => write!(f, "ready {count}"),
            Self::Failed(text) => write!(f, "failed {}", one_line(text)),
        }
    }
}

impl FromStr for Said {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let wrong = || format!("`{line}` is no answer");
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let count = || rest.parse::<usize>().map_err(|_| wrong());
        match word {
            "process" => {
                let (pid, start) = rest.split_once(' ').ok_or_else(wrong)?;
                let (Ok(pid), Ok(start)) = (pid.parse(), start.parse()) else { return Err(wrong()) };
                Ok(Self::Process(Identity { pid, start }))
            }
            "done" => Ok(Self::Done),
            "token" => Ok(Self::Token(rest.to_owned())),
            "started" => Ok(Self::Started(count()?)),
            "ready" => Ok(Self::Ready(count()?)),
            "failed" => Ok(Self::Failed(rest.to_owned())),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_as_the_same() {
        let node = |id| NodeId::new(id).unwrap();
        let at = Ipv4Addr::new(10, 77, 0, 1);
        for order in [
            Order::Address,
            Order::Found(node(4)),
            Order::Token(node(8)),
            Order::Join { node: node(8), at, token: "tl1-x".into() },
            Order::Wait { node: node(8), others: vec![node(4), node(12)] },
            Order::Stop,
        ] {
            assert_eq!(order.to_string().parse(), Ok(order));
        }
        for said in [
            Said::Process(Identity { pid: 7, start: 99 }),
            Said::Done,
            Said::Token("tl1-x".into()),
            Said::Started(3),
            Said::Ready(2),
            Said::Failed("it is full: free some".into()),
        ] {
            assert_eq!(said.to_string().parse(), Ok(said));
        }
        assert_eq!(Said::Failed("a\n  b\n".into()).to_string(), "failed a; b");
        for wrong in ["", "join 8", "wait x", "process 1", "started"] {
            assert!(wrong.parse::<Order>().is_err() && wrong.parse::<Said>().is_err(), "{wrong}");
        }
    }
}
