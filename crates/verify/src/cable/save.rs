//! Saves a plan to a file: whole or not at all, and never over another file by accident.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::plan::{Plan, PlanError};

/// Whether a plan may be written there, asked before anything is measured for it.
pub fn check(path: &Path, force: bool) -> Result<(), PlanError> {
    match std::fs::metadata(path) {
        // A device or a directory is no plan, and must not be replaced by one.
        Ok(found) if !found.is_file() => Err(PlanError::Unwritable {
            path: path.into(),
            source: std::io::Error::other("it is there already and not a regular file"),
        }),
        Ok(_) if !force => Err(PlanError::Exists { path: path.into() }),
        // Nothing is lost with an empty file.
        Ok(found) if found.len() > 0 => Plan::load(path).map(drop).map_err(|error| PlanError::NotAPlan {
            path: path.into(),
            why: match error {
                PlanError::Malformed { line, message, .. } => {
                    format!("line {line}: {}", message.lines().next().unwrap_or_default())
                }
                PlanError::Unreadable { source, .. } => format!("it cannot be read: {source}"),
                error => error.to_string(),
            },
        }),
        _ => Ok(()),
    }
}

/// Writes it beside its place and moves it there when it is complete.
pub fn save(path: &Path, text: &str, force: bool) -> Result<(), PlanError> {
    check(path, force)?;
    let unwritable = |source| PlanError::Unwritable { path: path.into(), source };
    let name = path.file_name().ok_or_else(|| {
        unwritable(std::io::Error::new(ErrorKind::InvalidInput, "it does not end with the name of a file"))
    })?;
    let temporary = path.with_file_name(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    let written = write(&temporary, text).and_then(|()| put_in_place(&temporary, path, force));
    if written.is_err() {
        // An incomplete file must not be left behind.
        drop(std::fs::remove_file(&temporary));
    }
    match written {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(PlanError::Exists { path: path.into() })
        }
        other => other.map_err(unwritable),
    }
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file: File = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn put_in_place(from: &Path, to: &Path, force: bool) -> std::io::Result<()> {
    if !force {
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // Not every file system can refuse to replace; that nothing was there has been seen a moment ago.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            done => return Ok(done?),
        }
    }
    std::fs::rename(from, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_plan_is_not_replaced_even_by_force() {
        let dir = std::env::temp_dir().join(format!("tieline-no-plan-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("p.toml");
        for (text, why) in [
            ("precious\n", "line 1: "),
            ("# all of it is a comment\n", "line 1: it names no node"),
            ("[package]\nname = \"x\"\n", "line 1: unknown field `package`"),
        ] {
            std::fs::write(&path, text).unwrap();
            let refused = save(&path, "nodes = [4]\n", true).unwrap_err();
            assert!(refused.is_usage(), "{refused}");
            let said = refused.to_string();
            assert!(said.contains(&format!("is not a plan ({why}")) && said.contains("remove it"), "{said}");
            assert_eq!((std::fs::read_to_string(&path).unwrap().as_str(), said.lines().count()), (text, 1));
        }
        std::fs::write(&path, [0xff, 0]).unwrap();
        assert!(matches!(check(&path, true), Err(PlanError::NotAPlan { .. })));
        std::fs::write(&path, "").unwrap();
        save(&path, "nodes = [4]\n", true).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn a_file_is_replaced_only_by_force_and_nothing_else_is_left() {
        let dir = std::env::temp_dir().join(format!("tieline-plan-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("p.toml");
        save(&path, "nodes = [4]\n", false).unwrap();
        assert!(matches!(save(&path, "nodes = [8]\n", false), Err(PlanError::Exists { .. })));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "nodes = [4]\n");
        save(&path, "nodes = [8]\n", true).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "nodes = [8]\n");
        save(&path, "nodes = [8]\n", true).unwrap();
        assert!(matches!(save(&dir, "x", true), Err(PlanError::Unwritable { .. })));
        assert!(matches!(save(Path::new("/dev/null"), "x", true), Err(PlanError::Unwritable { .. })));
        let nowhere = save(&dir.join("none/p.toml"), "x", false).unwrap_err();
        assert!(!nowhere.is_usage() && nowhere.to_string().contains("none/p.toml"), "{nowhere}");
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
