//! The list of hosts: a line for each, `DESTINATION [address=IP[:PORT]] [node=ID]`, and comments after `#`.

use std::collections::BTreeMap;
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
    // By host and by node: the number of the line that names it.
    let (mut destinations, mut nodes) = (BTreeMap::new(), BTreeMap::new());
    for (index, text) in text.lines().enumerate() {
        let text = text.split('#').next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        let wrong = |why: String| (index + 1, why);
        let line = one(text).map_err(wrong)?;
        if let Some(first) = destinations.insert(line.destination.clone(), index + 1) {
            return Err(wrong(format!(
                "host `{}` is listed twice (lines {first} and {}): remove one of them",
                line.destination,
                index + 1
            )));
        }
        if let Some(node) = line.node
            && let Some(first) = nodes.insert(node, index + 1)
        {
            return Err(wrong(format!(
                "node {node} is given twice (lines {first} and {}): give each host another node",
                index + 1
            )));
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
            Some((key @ "address", _)) if line.address.is_some() => return Err(twice(key)),
            Some((key @ "node", _)) if line.node.is_some() => return Err(twice(key)),
            Some(("address", address)) => {
                check_address(address).map_err(|why| format!("address={address}: {why}"))?;
                line.address = Some(address.into());
            }
            Some(("node", node)) => {
                line.node = Some(node.parse().map_err(|why| format!("node={node}: {why}"))?);
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

fn twice(key: &str) -> String {
    format!("{key}= is given twice for this host: give it once")
}

/// An IP address with or without a port; the text says what is wrong.
fn check_address(text: &str) -> std::result::Result<(), String> {
    if text.parse::<IpAddr>().is_ok() || text.parse::<SocketAddr>().is_ok_and(|address| address.port() != 0) {
        return Ok(());
    }
    let (ip, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let ip = ip.strip_prefix('[').and_then(|ip| ip.strip_suffix(']')).unwrap_or(ip);
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    if is_number && ip.parse::<IpAddr>().is_ok() {
        return Err(format!("port {port} is not possible: give a port from 1 to 65535"));
    }
    Err("it is no IP address: give one, with or without a port".to_owned())
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
            ("alpha\n\nalpha", 3, "host `alpha` is listed twice (lines 1 and 3)"),
            ("alpha node=4\nbeta node=4", 2, "node 4 is given twice (lines 1 and 2)"),
            ("alpha node=5000000000", 1, "a multiple of 4 from 4 to"),
            ("alpha node=5", 1, "node=5: 5 is not a node ID: use a multiple of 4"),
            ("alpha node=4 node=8", 1, "node= is given twice"),
            ("alpha address=::1 address=::2", 1, "address= is given twice"),
            ("alpha address=here", 1, "it is no IP address"),
            ("alpha address=127.0.0.1:99999", 1, "port 99999 is not possible"),
            ("alpha address=[::1]:0", 1, "port 0 is not possible"),
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
