//! Copies files to hosts, through the standard input of ssh.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{FleetError, Result};
use crate::reasons::{Failure, Kind};
use crate::remote::{Answer, OnMany, Task};
use crate::ssh::{last_line, quoted};

/// So much of what a command says of its failure is read.
const SAID_BYTES: u64 = 4096;

/// For `sh`: a name that begins with `-` is no option.
const NO_OPTION: &str = "case $d in -*) d=./$d;; esac;";

/// What is copied.
#[derive(Debug)]
pub struct Source {
    /// A file, or an archive of several.
    path: PathBuf,
    /// For `sh` on the host: puts its input where it belongs.
    command: String,
    /// The archive exists for as long as this does.
    _archive: Option<tempfile::NamedTempFile>,
}

impl Source {
    /// One file goes to `to`, or, if a directory is there, into it; it takes the place of what was there when
    /// it is complete. Several files, or directories, go into the directory `to` as one archive.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn new(paths: &[PathBuf], to: &str) -> Result<Self> {
        let unreadable = |path: &Path, source| FleetError::Input { path: path.into(), source };
        // What a shell would make of it: ssh begins in the user's home.
        let to = match to {
            "~" => ".",
            to => to.strip_prefix("~/").unwrap_or(to),
        };
        if let [path] = paths
            && let there = std::fs::metadata(path).map_err(|error| unreadable(path, error))?
            && !there.is_dir()
        {
            if !there.is_file() {
                let error = std::io::Error::other("it is neither a file nor a directory");
                return Err(unreadable(path, error));
            }
            File::open(path).map_err(|error| unreadable(path, error))?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let (size, mode) = (there.len(), there.permissions().mode() & 0o777);
            let command = format!(
                "d={}; {NO_OPTION} n={}; if [ -d \"$d\" ]; then d=\"${{d%/}}/$n\"; fi; t=\"$d.tieline-$$\"; umask 077; \
                 if cat > \"$t\"; then if [ \"$(wc -c < \"$t\")\" -eq {size} ]; then \
                 chmod {mode:o} \"$t\" && mv -f -- \"$t\" \"$d\" && exit 0; \
                 else echo \"the file was cut off: copy it again\" >&2; fi; fi; rm -f -- \"$t\"; exit 1",
                quoted(to),
                quoted(&name)
            );
            return Ok(Self { path: path.clone(), command, _archive: None });
        }
        let archive = archive(paths)?;
        let command = format!(
            "d={}; {NO_OPTION} if [ -d \"$d\" ]; then :; else echo \"$d is no directory: make it first\" >&2; \
             exit 1; fi; exec tar -xf - -C \"$d\"",
            quoted(to)
        );
        Ok(Self { path: archive.path().into(), command, _archive: Some(archive) })
    }
}

/// An archive of files and directories by their names alone, made once for all hosts.
pub(crate) fn archive(paths: &[PathBuf]) -> Result<tempfile::NamedTempFile> {
    let here = |source| FleetError::Local { path: std::env::temp_dir(), what: "written", source };
    let archive = tempfile::NamedTempFile::new().map_err(here)?;
    let mut tar = Command::new("tar");
    tar.arg("-cf").arg("-");
    for path in paths {
        let unreadable = |source| FleetError::Input { path: path.clone(), source };
        std::fs::metadata(path).map_err(unreadable)?;
        let Some(name) = path.file_name() else {
            return Err(unreadable(std::io::Error::other("it has no name: name what is in it")));
        };
        // Each `-C` counts from the one before.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        tar.arg("-C").arg(folder.canonicalize().map_err(unreadable)?).arg(Path::new(".").join(name));
    }
    tar.stdout(archive.reopen().map_err(here)?).stderr(Stdio::piped()).stdin(Stdio::null());
    let ended =
        tar.output().map_err(|source| FleetError::Local { path: "tar".into(), what: "run", source })?;
    if ended.status.success() {
        return Ok(archive);
    }
    // The last line only says that there were others.
    let said = String::from_utf8_lossy(&ended.stderr);
    let why = said.lines().next().unwrap_or("tar: it does not say why").to_owned();
    Err(FleetError::Archive { place: std::env::temp_dir(), why })
}

impl OnMany<'_> {
    /// Copies to each host; the answers come as of [`OnMany::run`].
    pub fn copy(
        &self,
        hosts: &[String],
        source: &Source,
        mut each: impl FnMut(usize, Answer),
        idle: impl FnMut(),
    ) {
        let task = |_| Ok(Task { command: source.command.clone(), input: Some(File::open(&source.path)?) });
        self.tasks(hosts, task, |number, answer| each(number, in_words(answer)), idle);
    }
}

/// A failure with what the command said of it.
pub(crate) fn in_words(mut answer: Answer) -> Answer {
    if let Some(Failure { kind: Kind::Status(_), why }) = &mut answer.failure
        && let Some(said) =
            last_line(&String::from_utf8_lossy(&answer.err.last(SAID_BYTES).unwrap_or_default()))
    {
        *why = said;
    }
    answer
}
