//! A fresh Debian 12 in a folder: made once by debootstrap, kept as an archive, unpacked for each trial.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::super::{Outcome, Stop, cannot, found, say};
use super::deb::said_by;

/// What the trial needs in it, beside what every Debian has.
const INCLUDED: &str = "adduser,gcc,libc6-dev,libfabric1,pkg-config,systemd";
const ARCHIVE: &str = "debian-12.tar";
/// The folder of a trial, with the number of its process behind this.
const FOLDER: &str = "debian-";
/// Until a service manager has started, or its processes have ended.
const BOOT_LIMIT: Duration = Duration::from_secs(60);
const BOOT_PAUSE: Duration = Duration::from_millis(200);

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
        remove_stale(&archive);
        let folder = archive.with_file_name(format!("{FOLDER}{}", std::process::id()));
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

/// A running system in a root, with a service manager of its own. It ends with this.
#[derive(Debug)]
pub(super) struct System {
    /// The program that has made its namespaces; when it ends, so does the service manager.
    unshare: Child,
    /// The service manager, by its number here.
    pid: u32,
    cgroup: PathBuf,
}

/// Why there is none, or one.
#[derive(Debug)]
pub(super) enum Booted {
    /// Its service manager has started what it starts by itself.
    Up(System),
    /// This machine can't run one, for this reason.
    Not(String),
}

impl Root {
    /// Starts the service manager in namespaces and a control group of its own. The settings of the kernel
    /// are read-only there.
    pub(super) fn boot(&self) -> Outcome<Booted> {
        const BOOT: &str = "r=$0; echo $$ >\"$1/cgroup.procs\"; exec setpriv --pdeathsig KILL unshare --cgroup --mount --pid --fork --kill-child --ipc --uts --net \
            --propagation private sh -ec '
            mount -o bind \"$0\" \"$0\"; cd \"$0\"
            mount -t proc proc proc; mount -o bind,ro proc/sys proc/sys
            mount -t tmpfs tmpfs run; mount -t sysfs -o ro sysfs sys; mount -t cgroup2 cgroup2 sys/fs/cgroup
            mount -t tmpfs -o mode=755 tmpfs dev
            for name in null zero full random urandom tty; do touch dev/$name; mount -o bind /dev/$name dev/$name; done
            ln -s pts/ptmx dev/ptmx; ln -s /proc/self/fd dev/fd; mkdir dev/shm dev/pts; mount -t tmpfs tmpfs dev/shm
            pivot_root . .; umount -l .
            exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --show-status=0 --unit=basic.target
            ' \"$r\"";
        let mounts = fs::read_to_string("/proc/mounts")?;
        let fields = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let all = mounts.lines().map(fields);
        let Some(place) = all
            .filter(|line| line.get(2).is_some_and(|kind| kind == "cgroup2"))
            .find_map(|line| line.get(1).cloned())
        else {
            return Ok(Booted::Not("no control groups (cgroup2) are mounted here".to_owned()));
        };
        let cgroup = Path::new(&place).join(format!("tieline-package-{}", std::process::id()));
        if let Err(error) = fs::create_dir(&cgroup) {
            return Ok(Booted::Not(format!("{} cannot be made: {error}", cgroup.display())));
        }
        let mut command = Command::new("sh");
        command.args(["-ec", BOOT]).arg(&self.folder).arg(&cgroup);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let unshare = command.spawn()?;
        let mut system = System { unshare, pid: 0, cgroup };
        let began = Instant::now();
        while began.elapsed() < BOOT_LIMIT {
            let id = system.unshare.id();
            let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
            system.pid = children.split_whitespace().next().and_then(|pid| pid.parse().ok()).unwrap_or(0);
            if system.pid != 0 && system.run(["systemctl", "is-system-running", "--wait"])?.status.success() {
                return Ok(Booted::Up(system));
            }
            std::thread::sleep(BOOT_PAUSE);
        }
        Ok(Booted::Not("a service manager does not start in namespaces here".to_owned()))
    }
}

impl System {
    /// Runs a command in it.
    pub(super) fn run(&self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Outcome<Output> {
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.pid)).args(["--all", "--root", "--wd", "--"]).args(words);
        command
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LC_ALL", "C.UTF-8")
            .env("HOME", "/root");
        command.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        command.output().map_err(|error| Stop::Cannot(format!("nsenter cannot be started: {error}")))
    }
}

impl Drop for System {
    fn drop(&mut self) {
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
        // The processes of its namespace are being ended by the kernel; a group goes when they have.
        let began = Instant::now();
        while !emptied(&self.cgroup) && began.elapsed() < BOOT_LIMIT {
            std::thread::sleep(BOOT_PAUSE);
        }
    }
}

/// Removes a control group with those below it, as far as nothing runs there.
fn emptied(group: &Path) -> bool {
    let below = fs::read_dir(group).into_iter().flatten().filter_map(Result::ok);
    for folder in below.map(|entry| entry.path()).filter(|path| path.is_dir()) {
        emptied(&folder);
    }
    fs::remove_dir(group).is_ok() || !group.exists()
}

impl Drop for Root {
    fn drop(&mut self) {
        // Nothing is mounted in it here: that was in namespaces that have ended.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Removes what trials have left that were ended by force.
fn remove_stale(archive: &Path) {
    let beside = archive.parent().and_then(|folder| fs::read_dir(folder).ok());
    for path in beside.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let pid = name.strip_prefix(FOLDER).and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            let _ = fs::remove_dir_all(path);
        }
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
