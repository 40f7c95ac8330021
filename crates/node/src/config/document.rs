//! The keys of a configuration file, and how later files override earlier ones.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use proto::ids::NodeId;
use proto::wire::network::MAX_RAILS;
use proto::wire::{MAX_NAME_BYTES, is_printable};
use serde::Deserialize;

use super::place::{line_of, malformed};
use super::{ConfigError, Settings};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    node: NodeSection,
    #[serde(default)]
    manager: ManagerSection,
    #[serde(default)]
    faults: FaultsSection,
    #[serde(default)]
    access: AccessSection,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeSection {
    id: Option<NodeId>,
    name: Option<String>,
    rails: Option<Vec<IpAddr>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ManagerSection {
    heartbeat_interval_ms: Option<u32>,
    heartbeat_limit_ms: Option<u32>,
    resume_grace_ms: Option<u32>,
    max_programs: Option<u64>,
    max_segments: Option<u64>,
    max_interrupts: Option<u64>,
    max_imports: Option<u64>,
    max_pending_per_program: Option<u64>,
    agents: Option<bool>,
    relay: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultsSection {
    enabled: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AccessSection {
    group: Option<Group>,
    uids: Option<Vec<u32>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a group's name or number is needed")]
enum Group {
    Number(u32),
    Name(String),
}

/// Lays one file over what is known so far.
pub(super) fn apply(settings: &mut Settings, path: &Path, text: &str) -> Result<(), ConfigError> {
    let document: Document = toml::from_str(text).map_err(|error| malformed(path, text, &error))?;
    let file = File { path, text };
    apply_node(settings, document.node, &file)?;
    settings.agents = document.manager.agents.unwrap_or(settings.agents);
    settings.relay = document.manager.relay.unwrap_or(settings.relay);
    apply_times(settings, &document.manager, &file)?;
    settings.faults = document.faults.enabled.unwrap_or(settings.faults);
    apply_limits(settings, &document.manager, &file)?;
    apply_access(settings, document.access, &file)
}

/// A file that is read, for messages about what it says.
struct File<'a> {
    path: &'a Path,
    text: &'a str,
}

impl File<'_> {
    /// The value of this key is not possible.
    fn wrong(&self, key: &'static str, message: String) -> ConfigError {
        ConfigError::Value { path: self.path.into(), line: line_of(self.text, key), key, message }
    }
}

fn apply_node(settings: &mut Settings, node: NodeSection, file: &File<'_>) -> Result<(), ConfigError> {
    settings.id = node.id.or(settings.id);
    if let Some(name) = node.name {
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            let message = format!("{} bytes, but 1 to {MAX_NAME_BYTES} are possible", name.len());
            return Err(file.wrong("node.name", message));
        }
        if let Some(c) = name.chars().find(|c| !is_printable(*c)) {
            let message = format!(
                "the character U+{:04X} is possible in no name: it would confuse terminals",
                u32::from(c)
            );
            return Err(file.wrong("node.name", message));
        }
        settings.name = Some(name);
    }
    if let Some(rails) = node.rails {
        settings.rails = checked_rails(rails).map_err(|message| file.wrong("node.rails", message))?;
    }
    Ok(())
}

fn apply_times(
    settings: &mut Settings,
    manager: &ManagerSection,
    file: &File<'_>,
) -> Result<(), ConfigError> {
    let milliseconds =
        |value: Option<u32>, before| value.map_or(before, |ms| Duration::from_millis(ms.into()));
    settings.heartbeat_interval = milliseconds(manager.heartbeat_interval_ms, settings.heartbeat_interval);
    settings.heartbeat_limit = milliseconds(manager.heartbeat_limit_ms, settings.heartbeat_limit);
    settings.resume_grace = milliseconds(manager.resume_grace_ms, settings.resume_grace);
    if settings.heartbeat_interval < Duration::from_millis(10) {
        return Err(file.wrong("manager.heartbeat_interval_ms", "must be at least 10".into()));
    }
    if settings.heartbeat_limit < settings.heartbeat_interval * 2 {
        let message = format!(
            "{} ms is less than twice the heartbeat interval ({} ms), so that one late heartbeat would lose a session",
            settings.heartbeat_limit.as_millis(),
            settings.heartbeat_interval.as_millis()
        );
        // Whichever of the two this file sets.
        let limit = "manager.heartbeat_limit_ms";
        let key = if line_of(file.text, limit).is_some() { limit } else { "manager.heartbeat_interval_ms" };
        return Err(file.wrong(key, message));
    }
    Ok(())
}

fn apply_limits(
    settings: &mut Settings,
    manager: &ManagerSection,
    file: &File<'_>,
) -> Result<(), ConfigError> {
    let limits = &mut settings.limits;
    for (now, new, key) in [
        (&mut limits.programs, manager.max_programs, "manager.max_programs"),
        (&mut limits.segments, manager.max_segments, "manager.max_segments"),
        (&mut limits.interrupts, manager.max_interrupts, "manager.max_interrupts"),
        (&mut limits.imports, manager.max_imports, "manager.max_imports"),
        (&mut limits.pending_per_program, manager.max_pending_per_program, "manager.max_pending_per_program"),
    ] {
        if new == Some(0) {
            return Err(file.wrong(key, "must be at least 1".into()));
        }
        *now = new.or(*now);
    }
    if let Some(imports) = limits.imports
        && imports > u64::from(link::page::IMPORT_SLOTS)
    {
        let message = format!("{imports}, but the state page has room for {}", link::page::IMPORT_SLOTS);
        return Err(file.wrong("manager.max_imports", message));
    }
    Ok(())
}

fn apply_access(settings: &mut Settings, access: AccessSection, file: &File<'_>) -> Result<(), ConfigError> {
    match access.group {
        Some(Group::Number(gid)) => settings.attach.gid = Some(gid),
        Some(Group::Name(name)) => {
            let gid = gid_of(&name, &std::fs::read_to_string("/etc/group").unwrap_or_default());
            let unknown = || {
                let message = format!("`{name}` is not in /etc/group (a group's number is possible, too)");
                file.wrong("access.group", message)
            };
            settings.attach.gid = Some(gid.ok_or_else(unknown)?);
        }
        None => {}
    }
    if let Some(uids) = access.uids {
        settings.attach.uids = uids;
    }
    Ok(())
}

/// One address for each rail, none of them twice.
fn checked_rails(rails: Vec<IpAddr>) -> Result<Vec<IpAddr>, String> {
    if !(1..=MAX_RAILS).contains(&rails.len()) {
        return Err(format!("{} addresses, but 1 to {MAX_RAILS} are possible", rails.len()));
    }
    for (nth, rail) in rails.iter().enumerate() {
        if rail.is_unspecified() || rail.is_multicast() {
            return Err(format!("{rail} is not an address of an interface of this host"));
        }
        if rails[..nth].contains(rail) {
            return Err(format!("{rail} is named twice, but each rail needs an interface of its own"));
        }
    }
    Ok(rails)
}

pub(super) fn gid_of(name: &str, groups: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}
