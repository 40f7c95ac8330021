//! Configuration files: `/etc/tieline/*.toml`, then the user's `$XDG_CONFIG_HOME/tieline/*.toml`; a later file overrides
//! an earlier one key by key. `TIELINE_CONFIG` or `--config` names a file (or a directory of them) to be read instead.
//! A cluster with defaults needs none.

use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proto::ids::NodeId;
use proto::manager::Limits;
use proto::wire::program::Access;
use proto::wire::{MAX_NAME_BYTES, is_printable};
use serde::Deserialize;

use crate::runtime_dir::Sharing;

/// Names the configuration.
pub const ENV_CONFIG: &str = "TIELINE_CONFIG";

/// `1`: programs of this node carry out faults, whatever the configuration says.
pub const ENV_FAULTS: &str = "TIELINE_FAULTS";

/// The configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("configuration {path} cannot be read: {source}: name another with --config or TIELINE_CONFIG")]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// It is not TOML, has an unknown key, or a value of the wrong kind.
    #[error("{path}, line {line}{}: {message}: correct it, or name another configuration with --config",
            key.as_ref().map(|key| format!(", {key}")).unwrap_or_default())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// Where in it, from 1.
        line: usize,
        /// Which key, with its section.
        key: Option<String>,
        /// What is wrong.
        message: String,
    },
    /// A value that cannot be.
    #[error("{path}{}, {key}: {message}", line.map(|line| format!(", line {line}")).unwrap_or_default())]
    Value {
        /// Which file.
        path: PathBuf,
        /// Where in it, from 1, where the key is found.
        line: Option<usize>,
        /// Which key, with its section.
        key: &'static str,
        /// What is wrong, and what would be right.
        message: String,
    },
}

/// What a node manager is told. `None`: nothing was configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `[node] id`.
    pub id: Option<NodeId>,
    /// `[node] name`: what others see as the host.
    pub name: Option<String>,
    /// `[manager] heartbeat_interval_ms`.
    pub heartbeat_interval: Duration,
    /// `[manager] heartbeat_limit_ms`.
    pub heartbeat_limit: Duration,
    /// `[manager] resume_grace_ms`: how long after a start programs are waited for that outlived the last manager.
    pub resume_grace: Duration,
    /// `[manager] max_…`.
    pub limits: LimitSettings,
    /// `[faults] enabled`: programs of this node carry out faults that `tieline link` asks for.
    pub faults: bool,
    /// `[access]`: who may attach besides the manager's user.
    pub attach: Access,
}

/// Configured limits; the manager chooses the others by its descriptor limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitSettings {
    /// `max_programs`.
    pub programs: Option<u64>,
    /// `max_segments`.
    pub segments: Option<u64>,
    /// `max_interrupts`.
    pub interrupts: Option<u64>,
    /// `max_imports`.
    pub imports: Option<u64>,
    /// `max_pending_per_program`.
    pub pending_per_program: Option<u64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            id: None,
            name: None,
            // A dead manager is noticed by its socket; heartbeats are for one that hangs, so they may be rare.
            heartbeat_interval: Duration::from_secs(1),
            heartbeat_limit: Duration::from_secs(5),
            // Programs look for their manager every half second at least.
            resume_grace: Duration::from_secs(3),
            limits: LimitSettings::default(),
            faults: false,
            attach: Access::default(),
        }
    }
}

impl Settings {
    /// Who has to reach the managers' sockets.
    pub fn sharing(&self) -> Sharing {
        Sharing { gid: self.attach.gid, others: !self.attach.uids.is_empty() }
    }
}

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

/// The configuration that was named: `explicit`, else `TIELINE_CONFIG`. Absolute, since a daemon changes its directory.
pub fn named(explicit: Option<&Path>) -> Option<PathBuf> {
    let environment = std::env::var_os(ENV_CONFIG).filter(|value| !value.is_empty()).map(PathBuf::from);
    let path = explicit.map(Path::to_path_buf).or(environment)?;
    Some(std::path::absolute(&path).unwrap_or(path))
}

/// Reads the configuration: the one that was [`named`], else the system's and the user's files.
pub fn load(explicit: Option<&Path>) -> Result<Settings, ConfigError> {
    let files = match named(explicit) {
        Some(path) if path.is_dir() => {
            let files = files_in(&path)?;
            if files.is_empty() {
                // Said to be the configuration, and none: a mistake in the name, as a rule.
                let source = std::io::Error::other("the directory holds no file named *.toml");
                return Err(ConfigError::Unreadable { path, source });
            }
            files
        }
        Some(path) => vec![path],
        None => {
            let mut files = files_in(Path::new("/etc/tieline"))?;
            if let Some(directory) = user_directory() {
                files.extend(files_in(&directory)?);
            }
            files
        }
    };
    let mut settings = Settings::default();
    for path in files {
        let text =
            read_file(&path).map_err(|source| ConfigError::Unreadable { path: path.clone(), source })?;
        apply(&mut settings, &path, &text)?;
    }
    Ok(settings)
}

/// Reads a regular file. Anything else is refused at once: a pipe could keep its reader waiting, a device never end.
fn read_file(path: &Path) -> std::io::Result<String> {
    let mut options = std::fs::OpenOptions::new();
    options.read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let mut file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

fn user_directory() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(config.join("tieline"))
}

fn files_in(directory: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(ConfigError::Unreadable { path: directory.into(), source }),
    };
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    Ok(files)
}

/// Lays one file over what is known so far.
fn apply(settings: &mut Settings, path: &Path, text: &str) -> Result<(), ConfigError> {
    let document: Document = toml::from_str(text).map_err(|error| malformed(path, text, &error))?;
    let wrong =
        |key, message| ConfigError::Value { path: path.into(), line: line_of(text, key), key, message };

    settings.id = document.node.id.or(settings.id);
    if let Some(name) = document.node.name {
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return Err(wrong(
                "node.name",
                format!("{} bytes, but 1 to {MAX_NAME_BYTES} are possible", name.len()),
            ));
        }
        if let Some(c) = name.chars().find(|c| !is_printable(*c)) {
            let message = format!(
                "the character U+{:04X} is possible in no name: it would confuse terminals",
                u32::from(c)
            );
            return Err(wrong("node.name", message));
        }
        settings.name = Some(name);
    }

    let manager = document.manager;
    let milliseconds =
        |value: Option<u32>, before| value.map_or(before, |ms| Duration::from_millis(ms.into()));
    settings.heartbeat_interval = milliseconds(manager.heartbeat_interval_ms, settings.heartbeat_interval);
    settings.heartbeat_limit = milliseconds(manager.heartbeat_limit_ms, settings.heartbeat_limit);
    settings.resume_grace = milliseconds(manager.resume_grace_ms, settings.resume_grace);
    if settings.heartbeat_interval < Duration::from_millis(10) {
        return Err(wrong("manager.heartbeat_interval_ms", "must be at least 10".into()));
    }
    if settings.heartbeat_limit < settings.heartbeat_interval * 2 {
        let message = format!(
            "{} ms is less than twice the heartbeat interval ({} ms), so that one late heartbeat would lose a session",
            settings.heartbeat_limit.as_millis(),
            settings.heartbeat_interval.as_millis()
        );
        // Whichever of the two this file sets.
        let limit = "manager.heartbeat_limit_ms";
        let key = if line_of(text, limit).is_some() { limit } else { "manager.heartbeat_interval_ms" };
        return Err(wrong(key, message));
    }

    settings.faults = document.faults.enabled.unwrap_or(settings.faults);

    let limits = &mut settings.limits;
    for (now, new, key) in [
        (&mut limits.programs, manager.max_programs, "manager.max_programs"),
        (&mut limits.segments, manager.max_segments, "manager.max_segments"),
        (&mut limits.interrupts, manager.max_interrupts, "manager.max_interrupts"),
        (&mut limits.imports, manager.max_imports, "manager.max_imports"),
        (&mut limits.pending_per_program, manager.max_pending_per_program, "manager.max_pending_per_program"),
    ] {
        if new == Some(0) {
            return Err(wrong(key, "must be at least 1".into()));
        }
        *now = new.or(*now);
    }
    if let Some(imports) = limits.imports
        && imports > u64::from(link::page::IMPORT_SLOTS)
    {
        let message = format!("{imports}, but the state page has room for {}", link::page::IMPORT_SLOTS);
        return Err(wrong("manager.max_imports", message));
    }

    match document.access.group {
        Some(Group::Number(gid)) => settings.attach.gid = Some(gid),
        Some(Group::Name(name)) => {
            let gid = gid_of(&name, &std::fs::read_to_string("/etc/group").unwrap_or_default());
            let unknown =
                || wrong("access.group", format!("`{name}` is not in /etc/group: give the group's number"));
            settings.attach.gid = Some(gid.ok_or_else(unknown)?);
        }
        None => {}
    }
    if let Some(uids) = document.access.uids {
        settings.attach.uids = uids;
    }
    Ok(())
}

fn gid_of(name: &str, groups: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

fn malformed(path: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
    let start = error.span().map_or(0, |span| span.start).min(text.len());
    let before = text.get(..start).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    ConfigError::Malformed {
        path: path.into(),
        line,
        key: key_at(text, line),
        message: error.message().to_owned(),
    }
}

/// The line on which a key (with its section) is given a value.
fn line_of(text: &str, wanted: &str) -> Option<usize> {
    let mut section = String::new();
    for (line, number) in text.lines().zip(1..) {
        if let Some(name) = line.trim().strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            section = format!("{}.", name.trim());
        } else if let Some((key, _)) = line.split_once('=')
            && format!("{section}{}", key.trim()) == wanted
        {
            return Some(number);
        }
    }
    None
}

/// The key of a line, with the section that it stands in.
fn key_at(text: &str, line: usize) -> Option<String> {
    let lines: Vec<_> = text.lines().take(line).collect();
    let (key, _) = lines.last()?.split_once('=')?;
    let section = lines.iter().rev().find_map(|line| line.trim().strip_prefix('[')?.split(']').next());
    let section = section.map(|name| format!("{}.", name.trim())).unwrap_or_default();
    Some(format!("{section}{}", key.trim()))
}

/// Limits that fit the descriptors this process may have. Each program costs a socket and a pidfd, each segment a
/// descriptor, each interrupt up to three, each other node a socket.
pub fn limits(settings: &LimitSettings, descriptors: u64) -> Limits {
    // A quarter stays for sessions with other nodes, and for descriptors that are passing through.
    let share = |part: u64, cost: u64, most: u64| (descriptors * part / 100 / cost).clamp(4, most);
    Limits {
        programs: settings.programs.unwrap_or_else(|| share(20, 2, 4096)),
        segments: settings.segments.unwrap_or_else(|| share(30, 1, 65_536)),
        interrupts: settings.interrupts.unwrap_or_else(|| share(25, 3, 16_384)),
        imports: settings.imports.unwrap_or_else(|| link::page::IMPORT_SLOTS.into()),
        pending_per_program: settings.pending_per_program.unwrap_or(256),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Settings, String> {
        let mut settings = Settings::default();
        apply(&mut settings, Path::new("t.toml"), text).map_err(|error| error.to_string())?;
        Ok(settings)
    }

    #[test]
    fn nothing_configured_is_the_default() {
        assert_eq!(read("").unwrap(), Settings::default());
        assert_eq!(Settings::default().sharing(), Sharing::default());
    }

    #[test]
    fn later_files_override_key_by_key() {
        let mut settings = Settings::default();
        let first =
            "[node]\nid = 8\nname = \"a\"\n[manager]\nheartbeat_interval_ms = 100\nmax_segments = 7\n";
        apply(&mut settings, Path::new("1"), first).unwrap();
        let second = "[node]\nname = \"b\"\n[access]\ngroup = 5\nuids = [1, 2]\n";
        apply(&mut settings, Path::new("2"), second).unwrap();
        assert_eq!(settings.id, NodeId::new(8).ok());
        assert_eq!(settings.name.as_deref(), Some("b"));
        assert_eq!(settings.heartbeat_interval, Duration::from_millis(100));
        assert_eq!(settings.limits.segments, Some(7));
        assert_eq!(settings.attach, Access { uids: vec![1, 2], gid: Some(5) });
        assert_eq!(settings.sharing(), Sharing { gid: Some(5), others: true });
    }

    #[test]
    fn errors_name_file_line_key_and_what_is_wrong() {
        for (text, expected) in [
            (
                "[node]\n\nnmae = \"x\"\n",
                "t.toml, line 3, node.nmae: unknown field `nmae`, expected `id` or `name`: \
                 correct it, or name another configuration with --config",
            ),
            (
                "[manager]\nheartbeat_limit_ms = \"5s\"\n",
                "t.toml, line 2, manager.heartbeat_limit_ms: invalid type: string \"5s\", expected u32: \
                 correct it, or name another configuration with --config",
            ),
            (
                "[node]\nid = 6\n",
                "t.toml, line 2, node.id: 6 is not a node id: use a multiple of 4 from 4 to 16384, except 252 \
                 (the broadcast group): correct it, or name another configuration with --config",
            ),
            (
                "[access]\ngroup = [1]\n",
                "t.toml, line 2, access.group: a group's name or number is needed: \
                 correct it, or name another configuration with --config",
            ),
            (
                "[mangler]\n",
                "t.toml, line 1: unknown field `mangler`, expected one of `node`, `manager`, `faults`, `access`: \
                 correct it, or name another configuration with --config",
            ),
            (
                "[manager]\nheartbeat_interval_ms = 400\nheartbeat_limit_ms = 500\n",
                "t.toml, line 3, manager.heartbeat_limit_ms: 500 ms is less than twice the heartbeat interval (400 ms), so that \
                 one late heartbeat would lose a session",
            ),
            ("[manager]\nmax_programs = 0\n", "t.toml, line 2, manager.max_programs: must be at least 1"),
            (
                "[access]\ngroup = \"no-such-group\"\n",
                "t.toml, line 2, access.group: `no-such-group` is not in /etc/group: give the group's number",
            ),
            ("[node]\nname = \"\"\n", "t.toml, line 2, node.name: 0 bytes, but 1 to 64 are possible"),
            (
                "# a name\n[node]\n\nname = \"a\\u001bb\"\n",
                "t.toml, line 4, node.name: the character U+001B is possible in no name: it would confuse terminals",
            ),
            (
                "[manager]\nheartbeat_interval_ms = 9\n",
                "t.toml, line 2, manager.heartbeat_interval_ms: must be at least 10",
            ),
            ("manager.max_programs = 0\n", "t.toml, line 1, manager.max_programs: must be at least 1"),
        ] {
            assert_eq!(read(text).unwrap_err(), expected);
        }
        let broken = read("[node\n").unwrap_err();
        assert!(broken.starts_with("t.toml, line 1"), "{broken}");
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let dir = std::env::temp_dir().join(format!("tieline-config-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let refused = |path: &Path| load(Some(path)).unwrap_err().to_string();
        assert!(refused(&dir).contains("holds no file named *.toml"), "{}", refused(&dir));
        assert!(refused(Path::new("/dev/zero")).contains("not a regular file"));
        let pipe = dir.join("pipe.toml");
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, 0o600.into(), 0).unwrap();
        // Both by its own name and in a directory of files.
        for path in [&pipe, &dir] {
            assert!(refused(path).contains("pipe.toml cannot be read: it is not a regular file"));
        }
        std::fs::remove_file(&pipe).unwrap();
        std::fs::create_dir(dir.join("x.toml")).unwrap();
        assert!(refused(&dir).contains("x.toml cannot be read: it is not a regular file"));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn group_names_are_looked_up() {
        assert_eq!(gid_of("lab", "root:x:0:\nlab:x:77:a,b\n"), Some(77));
        assert_eq!(gid_of("la", "root:x:0:\nlab:x:77:a,b\n"), None);
    }

    #[test]
    fn default_limits_fit_the_descriptors() {
        for descriptors in [64, 1024, 20_000, 1 << 20] {
            let limits = limits(&LimitSettings::default(), descriptors);
            let worst = limits.programs * 2 + limits.segments + limits.interrupts * 3;
            assert!(worst <= descriptors * 3 / 4 + 32, "{descriptors}: {worst}");
        }
    }
}
