//! Which hosts a command is for: by its options, else by the environment, as users of FastFabric and of Slurm
//! know it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::error::{FleetError, Result};
use crate::host_set::parts;
use crate::hosts_file::Reader;

/// Hosts as a list, in place of a file (FastFabric).
const HOSTS: &str = "HOSTS";
/// The file (FastFabric).
const HOSTS_FILE: &str = "HOSTS_FILE";
/// How many hosts at a time (FastFabric).
const FF_MAX_PARALLEL: &str = "FF_MAX_PARALLEL";
/// The hosts of a job.
const SLURM_NODES: &str = "SLURM_JOB_NODELIST";

/// The options that choose hosts.
#[derive(Debug, Clone, Copy)]
pub struct Selection<'a> {
    /// A file of hosts.
    pub file: Option<&'a Path>,
    /// Hosts, ranges and groups of the file; without a file the hosts themselves.
    pub on: Option<&'a str>,
    /// Hosts that are left out.
    pub except: Option<&'a str>,
}

/// A variable that is set and not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

impl Selection<'_> {
    /// The hosts, each once, in their order.
    ///
    /// # Errors
    /// No hosts are given, or a file or list is wrong.
    pub fn hosts(&self) -> Result<Vec<String>> {
        self.hosts_by(variable)
    }

    fn hosts_by(&self, variable: impl Fn(&str) -> Option<String>) -> Result<Vec<String>> {
        let (file, list) = match (self.file, self.on) {
            (Some(file), on) => (Some(file.to_path_buf()), on.map(|on| ("--on", on.to_owned()))),
            (None, Some(on)) => {
                // Groups need the file that defines them.
                let needs_file = on.contains('@')
                    && parts(on).iter().any(|part| part.trim_start_matches('!').starts_with('@'));
                let file = variable(HOSTS_FILE).filter(|_| needs_file).map(PathBuf::from);
                (file, Some(("--on", on.to_owned())))
            }
            (None, None) => match (variable(HOSTS), variable(HOSTS_FILE), variable(SLURM_NODES)) {
                (Some(list), ..) => (None, Some((HOSTS, list))),
                (None, Some(file), _) => (Some(PathBuf::from(file)), None),
                (None, None, Some(list)) => (None, Some((SLURM_NODES, list))),
                (None, None, None) => return Err(FleetError::NoneGiven),
            },
        };
        let mut reader = Reader::default();
        if let Some(file) = &file {
            reader.file(file)?;
        }
        let mut hosts = match &list {
            Some((given, list)) => chosen(&reader, given, list)?,
            None => reader.hosts(),
        };
        if let Some(except) = self.except {
            let except: BTreeSet<String> = named(&reader, "--except", &parts(except))?.into_iter().collect();
            hosts.retain(|host| !except.contains(host));
        }
        let mut seen = BTreeSet::new();
        hosts.retain(|host| seen.insert(host.clone()));
        match (hosts.is_empty(), file) {
            (false, _) => Ok(hosts),
            (true, Some(path)) if list.is_none() => Err(FleetError::NoHosts { path }),
            (true, _) => Err(FleetError::Set {
                given: list.map_or("--except", |(given, _)| given),
                why: "no host is left: name at least one".into(),
            }),
        }
    }
}

fn named(reader: &Reader, given: &'static str, parts: &[&str]) -> Result<Vec<String>> {
    reader.names(parts).map_err(|why| FleetError::Set { given, why })
}

/// `a,b[1-3],!b2`: what is named, without what is excluded.
fn chosen(reader: &Reader, given: &'static str, list: &str) -> Result<Vec<String>> {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for part in parts(list) {
        match part.strip_prefix('!') {
            Some(part) => without.push(part),
            None => with.push(part),
        }
    }
    // Exclusions alone are from all hosts of the file.
    let mut hosts = if with.is_empty() { reader.hosts() } else { named(reader, given, &with)? };
    let without: BTreeSet<String> = named(reader, given, &without)?.into_iter().collect();
    hosts.retain(|host| !without.contains(host));
    Ok(hosts)
}

/// How many hosts at a time, by the environment.
///
/// # Errors
/// The variable is no number above 0.
pub fn parallel_by_environment() -> Result<Option<usize>> {
    let Some(value) = variable(FF_MAX_PARALLEL) else { return Ok(None) };
    match value.trim().parse() {
        Ok(0) | Err(_) => Err(FleetError::Variable {
            name: FF_MAX_PARALLEL,
            value,
            next: "set it to the number of hosts at a time, 1 or more, or unset it",
        }),
        Ok(number) => Ok(Some(number)),
    }
}

/// The directory into which `fetch` puts files, by the environment (FastFabric).
pub fn uploads_by_environment() -> Option<PathBuf> {
    variable("UPLOADS_DIR").map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn select(
        file: Option<&str>,
        on: Option<&str>,
        except: Option<&str>,
        set: &[(&str, &str)],
    ) -> Result<Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts");
        std::fs::write(&path, file.unwrap_or_default()).unwrap();
        let set: Vec<(&str, String)> =
            set.iter().map(|(name, value)| (*name, value.replace("FILE", path.to_str().unwrap()))).collect();
        Selection { file: file.map(|_| path.as_path()), on, except }
            .hosts_by(|name| set.iter().find(|(of, _)| *of == name).map(|(_, value)| value.clone()))
    }

    #[test]
    fn options_choose_hosts_and_groups() {
        let file = Some("group rack = n[1-3]\n@rack\ngpu\n!n2\n");
        assert_eq!(select(file, None, None, &[]).unwrap(), ["n1", "n3", "gpu"]);
        assert_eq!(select(file, Some("@rack,!n1"), None, &[]).unwrap(), ["n2", "n3"]);
        assert_eq!(select(file, Some("!n1"), Some("gpu"), &[]).unwrap(), ["n3"]);
        assert_eq!(select(None, Some("a,b[1-2],a"), None, &[]).unwrap(), ["a", "b1", "b2"]);
        let said = select(file, Some("@rank"), None, &[]).unwrap_err();
        assert!(
            said.is_usage() && said.to_string().contains("--on: there is no group `rank` (known: rack)"),
            "{said}"
        );
        let said = select(None, Some("a"), Some("a"), &[]).unwrap_err().to_string();
        assert!(said.contains("no host is left"), "{said}");
    }

    #[test]
    fn the_environment_names_hosts_where_no_option_does() {
        let all =
            [("HOSTS", "elrond arwen"), ("HOSTS_FILE", "/nonexistent"), ("SLURM_JOB_NODELIST", "n[1-2]")];
        assert_eq!(select(None, None, None, &all).unwrap(), ["elrond", "arwen"]);
        assert_eq!(select(None, None, None, &all[2..]).unwrap(), ["n1", "n2"]);
        assert_eq!(select(None, Some("x"), None, &all).unwrap(), ["x"]);
        assert!(
            select(None, None, None, &all[1..])
                .unwrap_err()
                .to_string()
                .contains("/nonexistent cannot be read")
        );
        assert!(select(None, None, None, &[]).unwrap_err().is_usage());
    }
}
