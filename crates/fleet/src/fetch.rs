//! Fetches files from hosts, through the standard output of ssh: one that is there, or a report that each
//! host makes of itself.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::copy::in_words;
use crate::reasons::{Failure, Kind};
use crate::remote::{Answer, OnMany};
use crate::ssh::quoted;
use crate::verify::SCRIPT;

/// Makes an archive of what a problem report needs, on a host.
const REPORT: &str = include_str!("report.sh");
/// Its name here.
const REPORT_NAME: &str = "report.tar.gz";

impl OnMany<'_> {
    /// Fetches a file from each host into a directory of the host's name in `into`.
    pub fn fetch(
        &self,
        hosts: &[String],
        file: &str,
        into: &Path,
        each: impl FnMut(usize, Answer),
        idle: impl FnMut(),
    ) {
        let command = format!(
            "f={}; case $f in -*) f=./$f;; esac; if [ -d \"$f\" ]; then echo \"$f is a directory: fetch a file\" >&2; \
             exit 1; fi; exec cat \"$f\"",
            quoted(file.strip_prefix("~/").unwrap_or(file))
        );
        let name = Path::new(file).file_name().unwrap_or_default();
        self.gather(hosts, &command, Path::new(name), into, each, idle);
    }

    /// Has each host collect what a problem report needs, and fetches that as `HOST/report.tar.gz`.
    pub fn report(&self, hosts: &[String], into: &Path, each: impl FnMut(usize, Answer), idle: impl FnMut()) {
        let command = format!("facts={}\n{REPORT}", quoted(SCRIPT));
        self.gather(hosts, &command, Path::new(REPORT_NAME), into, each, idle);
    }

    /// Stores what a command prints on each host.
    fn gather(
        &self,
        hosts: &[String],
        command: &str,
        name: &Path,
        into: &Path,
        mut each: impl FnMut(usize, Answer),
        idle: impl FnMut(),
    ) {
        let stored = |number, answer: Answer| {
            let mut answer = in_words(answer);
            if answer.failure.is_none() {
                let path = place_of(into, &answer.host).join(name);
                answer.failure = store(&mut answer, &path).err().map(|error| {
                    Failure::new(Kind::Here, format!("{} cannot be written here: {error}", path.display()))
                });
            }
            each(number, answer);
        };
        self.run(hosts, command, stored, idle);
    }
}

/// The directory of a host: its name, as far as that is the name of a file.
pub fn place_of(folder: &Path, host: &str) -> PathBuf {
    let name = host.replace('/', "_");
    folder.join(if name.starts_with('.') { format!("_{name}") } else { name })
}

/// Complete, or not at all.
fn store(answer: &mut Answer, path: &Path) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut file =
        tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o644)).tempfile_in(folder)?;
    answer.out.each_piece(|piece| file.write_all(piece))?;
    file.persist(path)?;
    Ok(())
}
