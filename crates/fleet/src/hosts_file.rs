//! The list of hosts: a line for each, `DESTINATION [address=IP[:PORT]] [node=ID]`, and comments after `#`.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use proto::ids::NodeId;

use crate::error::{FleetError, Result};

/// Longer is no list of hosts.
const BYTES_MAX: u64 = 1 << 20;

/// One host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// As ssh takes it: a name of its configuration, a host name or an address, with or without `USER@`.
    pub destination: String,
    /// Where its manager listens, if not where ssh connects to, on the usual port. With or without a port.
    pub address: Option<String>,
    /// Which node it becomes; none: the next that is free.
    pub node: Option<NodeId>,
}

/// Reads the list.
///
/// # Errors
/// It cannot be read, has no host, or a line that is none.
pub fn read(path: &Path) -> Result<Vec<Line>> {
    let unreadable = |source| FleetError::File { path: path.into(), source };
    let text =
        user_files::text(user_files::read(path, BYTES_MAX).map_err(unreadable)?).map_err(unreadable)?;
    let lines = parse(&text).map_err(|(line, why)| FleetError::Line { path: path.into(), line, why })?;
    if lines.is_empty() { Err(FleetError::NoHosts { path: path.into() }) } else { Ok(lines) }
}

fn parse(text: &str) -> std::result::Result<Vec<Line>, (usize, String)> {
    let mut all = Vec::new();
    let (mut destinations, mut nodes) = (BTreeSet::new(), BTreeSet::new());
    for (index, text) in text.lines().enumerate() {
        let text = text.split('#').next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        let wrong = |why: String| (index + 1, why);
        let line = one(text).map_err(wrong)?;
        if !destinations.insert(line.destination.clone()) {
            return Err(wrong(format!("{} is there twice: remove one of the lines", line.destination)));
        }
        if let Some(node) = line.node.filter(|node| !nodes.insert(*node)) {
            return Err(wrong(format!("node {node} is there twice: give each host another node")));
        }
        all.push(line);
    }
    Ok(all)
}

fn one(text: &str) -> std::result::Result<Line, String> {
    let mut words = text.split_whitespace();
    let destination = words.next().unwrap_or_default();
    // ssh takes it for an option, which may run a program.
    if destination.starts_with('-') || destination.contains(|c: char| c.is_control() || c == '=') {
        return Err(format!(
            "`{}` is no host: begin the line with what `ssh` takes",
            destination.escape_debug()
        ));
    }
    let mut line = Line { destination: destination.into(), address: None, node: None };
    for word in words {
        match word.split_once('=') {
            Some(("address", address)) if line.address.is_none() && is_address(address) => {
                line.address = Some(address.into());
            }
            Some(("node", node)) if line.node.is_none() && node.parse::<NodeId>().is_ok() => {
                line.node = node.parse().ok();
            }
            Some(("address", address)) => {
                return Err(format!("address={address} is no IP address: give one, with or without a port"));
            }
            Some(("node", node)) => {
                return Err(format!("node={node} is no node ID: give one multiple of 4, such as 4, 8 or 12"));
            }
            _ => {
                return Err(format!(
                    "`{word}` is not understood: write address=IP or node=ID after the host"
                ));
            }
        }
    }
    Ok(line)
}

fn is_address(text: &str) -> bool {
    text.parse::<SocketAddr>().is_ok() || text.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_with_what_belongs_to_them() {
        let text = "# the lab\nalpha\n\n  me@beta  node=12 address=10.0.0.2:7500 # rack 2\n[fd00::3] address=fd00::3\n";
        let lines = parse(text).unwrap();
        let named: Vec<_> = lines.iter().map(|line| line.destination.as_str()).collect();
        assert_eq!(named, ["alpha", "me@beta", "[fd00::3]"]);
        assert_eq!((lines[0].node, &lines[0].address), (None, &None));
        assert_eq!(lines[1].node, NodeId::new(12).ok());
        assert_eq!(lines[1].address.as_deref(), Some("10.0.0.2:7500"));
    }

    #[test]
    fn a_line_that_is_none_is_named_with_what_to_do() {
        for (text, line, why) in [
            ("alpha\n-oProxyCommand=true", 2, "is no host"),
            ("node=4", 1, "is no host"),
            ("alpha\n\nalpha", 3, "alpha is there twice"),
            ("alpha node=4\nbeta node=4", 2, "node 4 is there twice"),
            ("alpha node=5000000000", 1, "give one multiple of 4"),
            ("alpha node=4 node=8", 1, "give one multiple of 4"),
            ("alpha address=here", 1, "is no IP address"),
            ("alpha beta", 1, "`beta` is not understood"),
            ("alpha rail=2", 1, "`rail=2` is not understood"),
        ] {
            let (at, said) = parse(text).unwrap_err();
            assert!(at == line && said.contains(why), "{text:?}: line {at}: {said}");
        }
        assert!(parse("# nobody\n").unwrap().is_empty());
    }

    #[test]
    fn a_file_that_is_missing_or_empty_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts");
        assert!(read(&path).unwrap_err().to_string().contains("cannot be read: No such file"));
        std::fs::write(&path, "\n# none\n").unwrap();
        let error = read(&path).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains("names no host"), "{error}");
    }
}
