//! The effective configuration of a manager, and the files that it comes from.

use std::path::{Path, PathBuf};

use node::config::{ENV_CONFIG, ENV_FAULTS, Settings, files, limits, load_files, read_file};
use serde_json::{Value, json};

use super::process::Process;
use super::shelf::Shelf;

/// The files that have been copied: several nodes have the same, as a rule.
#[derive(Debug, Default)]
pub(super) struct Copies(Vec<PathBuf>);

impl Copies {
    /// Puts a file in, once, and gives the name that it has there.
    fn name_of(&mut self, path: &Path, shelf: &mut Shelf) -> String {
        if let Some(at) = self.0.iter().position(|known| known == path) {
            return name(at);
        }
        self.0.push(path.into());
        let name = name(self.0.len() - 1);
        match read_file(path) {
            Ok(text) => shelf.text(&name, &text),
            Err(error) => shelf.lacks(&name, &format!("{}: {error}", path.display())),
        }
        name
    }
}

fn name(index: usize) -> String {
    format!("config/{}.toml", index + 1)
}

/// What a manager's configuration was named by.
fn named(manager: Option<&Process>, ours: Option<&Path>) -> (Option<PathBuf>, &'static str) {
    let Some(manager) = manager else {
        return (node::config::named(ours), "this command, as the manager does not run");
    };
    let words = manager.command_line().unwrap_or_default();
    let option = words.windows(2).find(|pair| pair.first().is_some_and(|word| word == "--config"));
    if let Some(path) = option.and_then(|pair| pair.get(1)) {
        return (Some(path.into()), "the manager's option --config");
    }
    let Ok(variables) = manager.variables() else {
        return (None, "unknown, as the manager is another user's: the usual files");
    };
    match variables.get(ENV_CONFIG).and_then(Value::as_str).filter(|path| !path.is_empty()) {
        Some(path) => (Some(path.into()), "the manager's variable TIELINE_CONFIG"),
        None => (None, "nothing: the usual files"),
    }
}

/// The configuration of one manager; `None`: of one that does not run.
pub(super) fn of(
    manager: Option<&Process>,
    ours: Option<&Path>,
    copies: &mut Copies,
    shelf: &mut Shelf,
) -> Value {
    let (path, by) = named(manager, ours);
    let paths = match files(path.as_deref()) {
        Ok(paths) => paths,
        Err(error) => return json!({ "named_by": by, "error": error.to_string() }),
    };
    let copied: Vec<_> = paths
        .iter()
        .map(|path| json!({ "path": path.to_string_lossy(), "copy": copies.name_of(path, shelf) }))
        .collect();
    let mut document = json!({ "named_by": by, "files": copied });
    let taken = match load_files(&paths) {
        Ok(settings) => ("effective", effective(&settings, manager)),
        Err(error) => ("error", error.to_string().into()),
    };
    if let Value::Object(fields) = &mut document {
        fields.insert(taken.0.into(), taken.1);
    }
    document
}

/// As in the file, with everything that was left open filled in.
fn effective(settings: &Settings, manager: Option<&Process>) -> Value {
    let variables = manager.and_then(|manager| manager.variables().ok()).unwrap_or_default();
    let by_variable = variables.get(ENV_FAULTS).and_then(Value::as_str) == Some("1");
    // It depends on the process how many there may be.
    let limits = manager.and_then(Process::descriptor_limit).map(|descriptors| {
        let limits = limits(&settings.limits, descriptors);
        json!({
            "max_programs": limits.programs,
            "max_segments": limits.segments,
            "max_interrupts": limits.interrupts,
            "max_imports": limits.imports,
            "max_pending_per_program": limits.pending_per_program,
        })
    });
    json!({
        "node": { "id": settings.id, "name": settings.name, "rails": settings.rails },
        "manager": {
            "heartbeat_interval_ms": settings.heartbeat_interval.as_millis() as u64,
            "heartbeat_limit_ms": settings.heartbeat_limit.as_millis() as u64,
            "resume_grace_ms": settings.resume_grace.as_millis() as u64,
            "agents": settings.agents,
            "limits": limits,
        },
        "faults": { "enabled": settings.faults || by_variable },
        "access": { "gid": settings.attach.gid, "uids": settings.attach.uids },
    })
}

#[cfg(test)]
mod tests {
    use super::super::scrub::{People, Scrubber};
    use super::*;

    fn read(text: &str) -> (Value, Shelf) {
        let path =
            std::env::temp_dir().join(format!("tieline-bundle-{}-{:p}.toml", std::process::id(), text));
        std::fs::write(&path, text).unwrap();
        let mut shelf = Shelf::new(Scrubber::new(People::default()));
        let mut copies = Copies::default();
        let document = of(None, Some(&path), &mut copies, &mut shelf);
        assert_eq!(of(None, Some(&path), &mut copies, &mut shelf), document, "copied once");
        std::fs::remove_file(&path).unwrap();
        (document, shelf)
    }

    #[test]
    fn what_was_left_open_is_filled_in() {
        let (document, shelf) = read("# token = \"hunter2\"\n[manager]\nheartbeat_limit_ms = 9000\n");
        assert_eq!(document["effective"]["manager"]["heartbeat_limit_ms"], 9000);
        assert_eq!(document["effective"]["manager"]["heartbeat_interval_ms"], 1000);
        assert_eq!(document["files"][0]["copy"], "config/1.toml");
        assert_eq!(shelf.pieces.len(), 1);
        let copy = String::from_utf8_lossy(&shelf.pieces[0].bytes);
        assert!(copy.contains("9000") && !copy.contains("hunter2"), "{copy}");
    }

    #[test]
    fn one_that_cannot_be_used_is_copied_and_its_mistake_told() {
        let (document, shelf) = read("[manager]\nheartbeat = 1\n");
        assert!(document["error"].as_str().unwrap().contains("line 2"), "{document}");
        assert_eq!(shelf.pieces.len(), 1);
        let mut shelf = Shelf::new(Scrubber::new(People::default()));
        let none = of(None, Some(Path::new("/no/such")), &mut Copies::default(), &mut shelf);
        assert!(none["error"].is_string() && shelf.missing.len() == 1, "{none} {:?}", shelf.missing);
    }
}
