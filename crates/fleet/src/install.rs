//! Installs packages, or a tarball of an installation, on hosts.
//!
//! What is installed is sent over ssh. A script there looks what is installed already, has `apt-get`, `dpkg`
//! or `tar` do it, by `sudo` if the user is not root, and says what was there before.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::copy::{archive, in_words};
use crate::error::{FleetError, Result};
use crate::remote::{Answer, OnMany, Task};
use crate::ssh::{last_line, quoted};

/// For packages.
const INSTALL: &str = include_str!("install.sh");
/// For a tarball.
const UNPACK: &str = include_str!("unpack.sh");
/// The list that `./run install` writes, below the prefix.
const LIST: &str = "/share/doc/tieline/installed-files";

/// What is installed.
#[derive(Debug)]
pub struct Parcel {
    /// What goes to each host.
    path: PathBuf,
    /// None: packages.
    tarball: Option<Tarball>,
    /// The archive of packages exists for as long as this does.
    _archive: Option<tempfile::NamedTempFile>,
}

#[derive(Debug)]
struct Tarball {
    prefix: String,
    is_gzip: bool,
}

/// How it is installed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Installing {
    /// Only what is there in another version.
    pub upgrade: bool,
    /// Nothing is changed: hosts say what they would do.
    pub dry_run: bool,
    /// Also an older version than the one that is there.
    pub downgrade: bool,
}

impl Parcel {
    /// Packages (`.deb`), or one tarball of what `DESTDIR=… ./run install` has written.
    ///
    /// # Errors
    /// A file cannot be read, or is neither.
    pub fn new(paths: &[PathBuf]) -> Result<Self> {
        let unreadable = |path: &Path, source| FleetError::Input { path: path.into(), source };
        let is_package = |path: &Path| path.extension().is_some_and(|end| end == "deb");
        for path in paths {
            let file = File::open(path).map_err(|error| unreadable(path, error))?;
            let kind = file.metadata().map_err(|error| unreadable(path, error))?;
            if !kind.is_file() {
                return Err(unreadable(path, std::io::Error::other("it is no file")));
            }
        }
        match paths {
            [path] if !is_package(path) => {
                let tarball = Tarball::read(path)?;
                Ok(Self { path: path.clone(), tarball: Some(tarball), _archive: None })
            }
            paths if paths.iter().all(|path| is_package(path)) => {
                let archive = archive(paths)?;
                Ok(Self { path: archive.path().into(), tarball: None, _archive: Some(archive) })
            }
            paths => {
                let odd = paths.iter().find(|path| !is_package(path)).cloned().unwrap_or_default();
                let why = "it is no package: name packages (.deb), or one tarball alone";
                Err(FleetError::Parcel { path: odd, why: why.into() })
            }
        }
    }

    /// What runs on the host.
    fn command(&self, how: Installing) -> String {
        let bit = u8::from;
        let to = if how.upgrade { "upgrade" } else { "install" };
        let (dry, older) = (bit(how.dry_run), bit(how.downgrade));
        match &self.tarball {
            None => format!("to={to} dry={dry} older={older}\n{INSTALL}"),
            Some(Tarball { prefix, is_gzip }) => {
                let compressed = if *is_gzip { "-z" } else { "" };
                format!("to={to} dry={dry} prefix={} compressed={compressed}\n{UNPACK}", quoted(prefix))
            }
        }
    }
}

impl Tarball {
    /// Reads what is in it: everything must be below the prefix of one installation, since it is unpacked by
    /// root.
    fn read(path: &Path) -> Result<Self> {
        let wrong = |why: String| FleetError::Parcel { path: path.into(), why };
        let unreadable = |source| FleetError::Input { path: path.into(), source };
        let mut magic = [0; 2];
        let is_gzip = File::open(path).and_then(|mut file| file.read(&mut magic)).map_err(unreadable)? == 2
            && magic == [0x1f, 0x8b];
        let mut tar = Command::new("tar");
        tar.args(["--list", "--quoting-style=literal"]);
        if is_gzip {
            tar.arg("--gzip");
        }
        let listed = tar.arg("--file").arg(path).stdin(Stdio::null()).output();
        let listed =
            listed.map_err(|source| FleetError::Local { path: "tar".into(), what: "run", source })?;
        let make = "make it by `DESTDIR=$PWD/stage ./run install; tar -C stage -czf tieline.tar.gz .`";
        if !listed.status.success() {
            let said = last_line(&String::from_utf8_lossy(&listed.stderr)).unwrap_or_default();
            return Err(wrong(format!("it is no tarball that tar can read ({said}): {make}")));
        }
        let text = String::from_utf8_lossy(&listed.stdout);
        let members: Vec<&str> = text.lines().map(|line| line.trim_start_matches("./")).collect();
        let Some(prefix) = members.iter().find_map(|member| member.strip_suffix(LIST)) else {
            return Err(wrong(format!("it holds no installation of tieline: {make}")));
        };
        let is_inside = |member: &str| {
            let folder = member.trim_end_matches('/');
            let is_above =
                member.ends_with('/') && (prefix == folder || prefix.starts_with(&format!("{folder}/")));
            let below = member.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'));
            let steps = member.split('/').all(|step| step != "..");
            member.is_empty() || steps && !member.starts_with('/') && (below || is_above)
        };
        if let Some(outside) = members.iter().find(|member| !is_inside(member)) {
            return Err(wrong(format!("`{outside}` in it is not below /{prefix}: {make}")));
        }
        Ok(Self { prefix: format!("/{prefix}"), is_gzip })
    }
}

impl OnMany<'_> {
    /// Installs on each host; what a host says has a line for each package.
    pub fn install(
        &self,
        hosts: &[String],
        parcel: &Parcel,
        how: Installing,
        mut each: impl FnMut(usize, Answer),
        idle: impl FnMut(),
    ) {
        let command = parcel.command(how);
        let task = |_| Ok(Task { command: command.clone(), input: Some(File::open(&parcel.path)?) });
        self.tasks(hosts, task, |number, answer| each(number, in_words(answer)), idle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tarball with these members.
    fn tarball(folder: &Path, members: &[&str], gzip: bool) -> PathBuf {
        let stage = folder.join("stage");
        for member in members {
            let path = stage.join(member);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        let file = folder.join("x.tar");
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(stage).arg(if gzip { "-czf" } else { "-cf" }).arg(&file).arg(".");
        assert!(tar.status().unwrap().success());
        file
    }

    #[test]
    fn a_tarball_is_one_installation_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let list = "opt/t/share/doc/tieline/installed-files";
        let file = tarball(folder.path(), &[list, "opt/t/bin/tieline"], true);
        let read = Tarball::read(&file).unwrap();
        assert_eq!((read.prefix.as_str(), read.is_gzip), ("/opt/t", true));
        let file = tarball(folder.path(), &["opt/tx/evil"], false);
        let said = Tarball::read(&file).unwrap_err();
        assert!(said.is_usage() && said.to_string().contains("opt/tx"), "{said}");
        let other = tempfile::tempdir().unwrap();
        let said = Tarball::read(&tarball(other.path(), &["etc/passwd"], false)).unwrap_err().to_string();
        assert!(said.contains("it holds no installation of tieline: make it by"), "{said}");
        let text = other.path().join("text");
        std::fs::write(&text, "no archive").unwrap();
        let said = Parcel::new(std::slice::from_ref(&text)).unwrap_err().to_string();
        assert!(said.contains("it is no tarball that tar can read"), "{said}");
        let package = other.path().join("a.deb");
        std::fs::write(&package, "").unwrap();
        let said = Parcel::new(&[package, text]).unwrap_err().to_string();
        assert!(said.contains("text cannot be installed: it is no package"), "{said}");
    }
}
