//! Host files: which nodes a cluster should have, and on which hosts.
//!
//! Two forms are read. The classic one (`HOSTNAME: name`, then `ADAPTER: name node-id adapter-number`; other
//! keywords say nothing about nodes and are passed over), and a plain one: a node's number and its host on
//! each line.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tieline::NodeId;

/// Keywords of the classic form that say nothing about nodes.
const PASSED_OVER: [&str; 3] = ["STRIPE", "SOCKET", "SOCKETADAPTER"];

/// A host file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HostsError {
    /// It cannot be read.
    #[error("host file {path} cannot be read: {source}: name another with --hosts")]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// A line of it cannot be understood.
    #[error(
        "{path}, line {line}: {message}: expected `NODE-ID HOST`, or the classic `HOSTNAME: …` and `ADAPTER: NAME NODE-ID …` (a list of \
         `tieline up --hosts` is something else)"
    )]
    Malformed {
        /// The path of the file.
        path: PathBuf,
        /// Where in it, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
}

/// A node that a host file lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostEntry {
    /// The node.
    pub node: NodeId,
    /// On which host.
    pub host: String,
    /// Where in the file, from 1.
    pub line: usize,
}

/// The content of a host file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFile {
    /// Where it is.
    pub path: PathBuf,
    /// By node.
    pub entries: Vec<HostEntry>,
}

impl HostFile {
    /// Reads one.
    pub fn load(path: &Path) -> Result<Self, HostsError> {
        let text = node::config::read_file(path)
            .map_err(|source| HostsError::Unreadable { path: path.into(), source })?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, HostsError> {
        let mut entries: Vec<HostEntry> = Vec::new();
        let mut host: Option<String> = None;
        for (line, number) in text.lines().zip(1..) {
            let wrong = |message: String| HostsError::Malformed { path: path.into(), line: number, message };
            let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
            let entry = match words.as_slice() {
                [] => continue,
                ["HOSTNAME:", name] => {
                    host = Some((*name).to_owned());
                    continue;
                }
                ["ADAPTER:", _, id, ..] => {
                    let host =
                        host.clone().ok_or_else(|| wrong("an ADAPTER before the first HOSTNAME".into()))?;
                    (*id, host)
                }
                [keyword, ..]
                    if keyword.strip_suffix(':').is_some_and(|word| PASSED_OVER.contains(&word)) =>
                {
                    continue;
                }
                [id, host] if !id.ends_with(':') => (*id, (*host).to_owned()),
                _ => return Err(wrong(format!("`{}`", line.trim()))),
            };
            let node: NodeId = entry.0.parse().map_err(wrong)?;
            if let Some(first) = entries.iter().find(|first| first.node == node) {
                return Err(wrong(format!("node {node} is on line {} already", first.line)));
            }
            entries.push(HostEntry { node, host: entry.1, line: number });
        }
        if entries.is_empty() {
            return Err(HostsError::Malformed {
                path: path.into(),
                line: 1,
                message: "it lists no node".into(),
            });
        }
        entries.sort_by_key(|entry| entry.node);
        Ok(Self { path: path.into(), entries })
    }

    /// The entry of a node.
    pub fn entry(&self, node: NodeId) -> Option<&HostEntry> {
        self.entries.iter().find(|entry| entry.node == node)
    }

    /// How it is called in findings.
    pub(super) fn name(&self) -> String {
        self.path
            .file_name()
            .map_or_else(|| self.path.display().to_string(), |name| name.to_string_lossy().into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<(u32, String)>, String> {
        let file = HostFile::parse(Path::new("h.conf"), text).map_err(|error| error.to_string())?;
        Ok(file.entries.into_iter().map(|entry| (entry.node.get(), entry.host)).collect())
    }

    #[test]
    fn both_forms_are_read() {
        let expected = vec![(4, "hetty".to_owned()), (8, "betty".to_owned())];
        let classic = "#DISHOSTVERSION 2\n# made by hand\nHOSTNAME: betty\nADAPTER:  betty_a0 8 0\nSTRIPE:   betty_s  betty_a0 betty_a1\n\
                       HOSTNAME: hetty\nADAPTER:  hetty_a0 4 0 # the first\nSOCKETADAPTER: sa0 SINGLE 0\nSOCKET: hetty hetty_a0\n";
        assert_eq!(parse(classic).unwrap(), expected);
        assert_eq!(parse("# id host\n4 hetty\n\n8   betty\n").unwrap(), expected);
    }

    #[test]
    fn errors_name_file_and_line() {
        for (text, expected) in [
            ("4 a\n4 b\n", "h.conf, line 2: node 4 is on line 1 already"),
            ("5 a\n", "h.conf, line 1: 5 is not a node ID"),
            ("ADAPTER: a 4 0\n", "h.conf, line 1: an ADAPTER before the first HOSTNAME"),
            ("HOSTNAME: a\nADAPTOR: a 4 0\n", "h.conf, line 2: `ADAPTOR: a 4 0`"),
            ("hetty\n", "h.conf, line 1: `hetty`"),
            ("four hetty\n", "h.conf, line 1: "),
            ("# nothing\n", "h.conf, line 1: it lists no node"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(expected) && error.contains("NODE-ID HOST"), "{text:?}: {error}");
        }
        let error = HostFile::load(Path::new("/nowhere/h.conf")).unwrap_err().to_string();
        assert!(error.contains("/nowhere/h.conf cannot be read") && error.contains("--hosts"), "{error}");
    }
}
