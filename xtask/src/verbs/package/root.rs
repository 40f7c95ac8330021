//! A fresh Debian 12 in a folder: made once by debootstrap, kept as an archive, unpacked for each trial.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::super::{Outcome, Stop, cannot, found, say};
use super::deb::said_by;

/// What the trial needs in it, beside what every Debian has.
const INCLUDED: &str = "adduser,gcc,libc6-dev,libfabric1,pkg-config,systemd";
const ARCHIVE: &str = "debian-12.tar";

/// The folder of a Debian; it goes when this does.
#[derive(Debug)]
pub(super) struct Root {
    folder: PathBuf,
}

/// Why there is none, or one.
#[derive(Debug)]
pub(super) enum Made {
    /// It is there.
    Ready(Root),
    /// This machine can't have one, for this reason.
    Not(String),
}

impl Root {
    /// Unpacks one below the target folder.
    pub(super) fn unpack(target: &Path) -> Outcome<Made> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Made::Not("only root may make a Debian in a folder and change to it".to_owned()));
        }
        let archive = std::path::absolute(target)?.join(ARCHIVE);
        if !archive.is_file()
            && let Some(why) = bootstrap(&archive)?
        {
            return Ok(Made::Not(why));
        }
        let folder = archive.with_file_name(format!("debian-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let root = Self { folder };
        said_by(Command::new("tar").arg("-xpf").arg(&archive).arg("-C").arg(&root.folder))?;
        Ok(Made::Ready(root))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name.trim_start_matches('/'))
    }

    /// Runs a command in it, with processes and mounts of its own, all of which end with it.
    pub(super) fn run(&self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Outcome<Output> {
        const ENTER: &str = "mount -t proc proc \"$0/proc\" && mount -t tmpfs tmpfs \"$0/run\" && mount -t tmpfs tmpfs \"$0/dev/shm\" && \
                             exec chroot \"$0\" \"$@\"";
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--ipc",
            "--net",
            "--propagation",
            "private",
        ]);
        command.args(["sh", "-c", ENTER]).arg(&self.folder).args(words);
        command
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LC_ALL", "C.UTF-8")
            .env("HOME", "/root");
        command.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        command.output().map_err(|error| Stop::Cannot(format!("unshare cannot be started: {error}")))
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        // Nothing is mounted in it here: that was in namespaces that have ended.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Makes the archive. The reason if this machine can't.
fn bootstrap(archive: &Path) -> Outcome<Option<String>> {
    if found("debootstrap").is_none() && !Path::new("/usr/sbin/debootstrap").exists() {
        return Ok(Some("debootstrap is not installed: apt-get install debootstrap".to_owned()));
    }
    say("making a fresh Debian 12 by debootstrap: some minutes, once");
    let folder = archive.with_file_name(format!("debootstrap-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let mut debootstrap = Command::new("debootstrap");
    debootstrap.args(["--variant=minbase", &format!("--include={INCLUDED}"), "bookworm"]).arg(&folder);
    let path = std::env::var("PATH").unwrap_or_default();
    let done = said_by(debootstrap.env("PATH", format!("{path}:/usr/sbin:/sbin")));
    let done = done.and_then(|_| {
        let unfinished = archive.with_extension("new");
        // Packages that were fetched are no part of a fresh system.
        let _ = fs::remove_dir_all(folder.join("var/cache/apt/archives"));
        said_by(Command::new("tar").arg("-cpf").arg(&unfinished).arg("-C").arg(&folder).arg("."))?;
        Ok(fs::rename(unfinished, archive)?)
    });
    let _ = fs::remove_dir_all(&folder);
    match done {
        Ok(()) => Ok(None),
        Err(Stop::Cannot(why)) => Ok(Some(why)),
        Err(other) => Err(other),
    }
}

/// What a command in the root printed; if it failed, an error with that.
pub(super) fn must(what: &str, output: &Output) -> Outcome<String> {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        return Ok(out.into_owned());
    }
    cannot(format!("{what} failed in a fresh Debian ({}):\n{out}{err}", output.status))
}
