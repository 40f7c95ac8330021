//! Reads lists of hosts with the files that they include, and resolves their groups.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proto::ids::NodeId;

use super::line::{Said, parse};
use super::{Line, Place};
use crate::error::{FleetError, Result};
use crate::host_set::{NAMES_MAX, expand};

/// Longer is no list of hosts.
const BYTES_MAX: u64 = 1 << 20;
/// More included files are a mistake.
const FILES_MAX: usize = 256;

/// What has been read so far.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    lines: Vec<Line>,
    /// By host and by node: the place that names it.
    destinations: BTreeMap<String, Place>,
    nodes: BTreeMap<NodeId, Place>,
    groups: BTreeMap<String, Vec<String>>,
    excluded: BTreeSet<String>,
    /// Files that are being read, the outermost first.
    open: Vec<PathBuf>,
    files: usize,
}

impl Reader {
    /// Reads a file, with those that it includes.
    pub(crate) fn file(&mut self, path: &Path) -> Result<()> {
        let unreadable = |source| FleetError::File { path: path.into(), source };
        let text =
            user_files::text(user_files::read(path, BYTES_MAX).map_err(unreadable)?).map_err(unreadable)?;
        // Two ways to the same file are the same file. What is a pipe has no such name.
        self.open.push(std::fs::canonicalize(path).unwrap_or_else(|_| path.into()));
        self.files += 1;
        for (index, text) in text.lines().enumerate() {
            let text = text.split('#').next().unwrap_or_default().trim();
            if !text.is_empty() {
                self.line(Place { path: path.into(), line: index + 1 }, text)?;
            }
        }
        self.open.pop();
        Ok(())
    }

    fn line(&mut self, place: Place, text: &str) -> Result<()> {
        let wrong = |why: String| FleetError::Line { path: place.path.clone(), line: place.line, why };
        match parse(text).map_err(wrong)? {
            Said::Include(file) => {
                let path = beside(&place.path, file);
                let same = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
                if let Some(at) = self.open.iter().position(|open| *open == same) {
                    return Err(wrong(self.cycle(at)));
                }
                if self.files >= FILES_MAX {
                    return Err(wrong(format!(
                        "more than {FILES_MAX} files are included: put hosts into fewer files"
                    )));
                }
                return self.file(&path).map_err(|error| match error {
                    FleetError::File { path, source } => wrong(format!(
                        "the included file {} cannot be read ({source}): correct its path, which counts from the folder \
                         of this file",
                        path.display()
                    )),
                    other => other,
                });
            }
            Said::Group(name, parts) => {
                let names = self.names(&parts).map_err(wrong)?;
                if self.groups.insert(name.to_owned(), names).is_some() {
                    return Err(wrong(format!(
                        "group `{name}` is given twice: give one of them another name"
                    )));
                }
            }
            Said::Exclude(parts) => {
                let names = self.names(&parts).map_err(wrong)?;
                self.excluded.extend(names);
            }
            Said::Name(name) => {
                // A host may stand there with several addresses.
                if let Some(name) = name.filter(|name| !self.destinations.contains_key(*name)) {
                    is_host(name).map_err(wrong)?;
                    self.add(name.to_owned(), None, None, &place)?;
                }
            }
            Said::Hosts { part, address, node } => {
                let mut names = Vec::new();
                for part in crate::host_set::parts(part) {
                    names.extend(self.names(&[part]).map_err(wrong)?);
                }
                if names.len() > 1 && (address.is_some() || node.is_some()) {
                    return Err(wrong(format!(
                        "address= and node= belong to one host, and `{part}` stands for {}: give each its own line",
                        names.len()
                    )));
                }
                for name in names {
                    self.add(name, address.clone(), node, &place)?;
                }
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        name: String,
        address: Option<String>,
        node: Option<NodeId>,
        place: &Place,
    ) -> Result<()> {
        let wrong = |why: String| FleetError::Line { path: place.path.clone(), line: place.line, why };
        if let Some(first) = self.destinations.insert(name.clone(), place.clone()) {
            return Err(wrong(format!(
                "host `{name}` is listed twice (lines {}): remove one of them",
                both(&first, place)
            )));
        }
        if let Some(node) = node
            && let Some(first) = self.nodes.insert(node, place.clone())
        {
            return Err(wrong(format!(
                "node {node} is given twice (lines {}): give each host another node",
                both(&first, place)
            )));
        }
        if self.lines.len() >= NAMES_MAX {
            return Err(wrong(format!("there are more than {NAMES_MAX} hosts: correct the ranges")));
        }
        self.lines.push(Line { destination: name, address, node });
        Ok(())
    }

    /// The names that parts of a list stand for: ranges, groups (`@GROUP`), and `@*`, all hosts so far.
    pub(crate) fn names(&self, parts: &[&str]) -> std::result::Result<Vec<String>, String> {
        let mut all = Vec::new();
        for part in parts {
            match part.strip_prefix('@') {
                Some("*") => all.extend(self.lines.iter().map(|line| line.destination.clone())),
                Some(group) => all.extend(self.group(group)?.iter().cloned()),
                None => {
                    let names = expand(part)?;
                    names.iter().try_for_each(|name| is_host(name))?;
                    all.extend(names);
                }
            }
        }
        Ok(all)
    }

    fn group(&self, name: &str) -> std::result::Result<&[String], String> {
        self.groups.get(name).map(Vec::as_slice).ok_or_else(|| {
            let known: Vec<&str> = self.groups.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "there is none".to_owned() } else { known.join(", ") };
            format!(
                "there is no group `{}` (known: {known}): write `group NAME = HOSTS` above",
                name.escape_debug()
            )
        })
    }

    fn cycle(&self, at: usize) -> String {
        let names: Vec<String> =
            self.open[at..].iter().chain(self.open.get(at)).map(|path| path.display().to_string()).collect();
        format!(
            "files include each other without end ({}): remove one of the `include` lines",
            names.join(" -> ")
        )
    }

    /// The hosts in their order, without those that are excluded.
    pub(crate) fn finish(self) -> Vec<Line> {
        let excluded = self.excluded;
        self.lines.into_iter().filter(|line| !excluded.contains(&line.destination)).collect()
    }

    /// All hosts of the files, excluded ones left out, while groups can still be asked for.
    pub(crate) fn hosts(&self) -> Vec<String> {
        let all = self.lines.iter().map(|line| &line.destination);
        all.filter(|name| !self.excluded.contains(*name)).cloned().collect()
    }
}

/// The numbers of two lines; a file is named where there are two.
fn both(first: &Place, second: &Place) -> String {
    if first.path == second.path {
        format!("{} and {}", first.line, second.line)
    } else {
        format!("{} of {} and {}", first.line, first.path.display(), second.line)
    }
}

/// A path in a list counts from the folder of the list; where nothing is there, from the current one, as
/// FastFabric has it.
fn beside(list: &Path, file: &str) -> PathBuf {
    let there = list.parent().unwrap_or(Path::new("")).join(file);
    if !there.exists() && Path::new(file).exists() { file.into() } else { there }
}

/// Refuses what ssh would not take for a host.
pub(crate) fn is_host(name: &str) -> std::result::Result<(), String> {
    // ssh takes a name that begins with `-` for an option, which may run a program.
    let host = name.rsplit_once('@').map_or(name, |(_, host)| host);
    if name.is_empty()
        || [name, host].iter().any(|text| text.starts_with('-') || text.is_empty())
        || name
            .contains(|c: char| c.is_control() || c.is_whitespace() || "=!'\"`$;&|<>(){}\\*?~^".contains(c))
    {
        return Err(format!("`{}` is no host: begin the line with what `ssh` takes", name.escape_debug()));
    }
    Ok(())
}
