//! `tieline fleet` on many ssh servers of this machine, beside the programs that users have for that.
//!
//! Each server is a process of its own at a port of its own, with a mount namespace in which it finds its
//! directories. Users of all programs are the same: the wrapper of `ssh` in front of the search path gives
//! it the servers' names, ports and keys.

use std::{
    fmt::Write as _,
    fs,
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use super::programs::{Room, Running, find, free_port};
use crate::{
    error::{BenchError, Result},
    progress::Waiter,
    run::Sides,
};

const WHAT: &str = "commands on many hosts";
/// Longest until all servers listen.
const START: Duration = Duration::from_secs(60);
/// Longest that one command on all hosts may take.
const LIMIT: Duration = Duration::from_secs(120);
/// What is copied.
const FILE_BYTES: usize = 100_000_000;

/// What hosts do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// `true`, over a connection of its own.
    Run {
        /// Beside `clush`; else beside `xargs` of `ssh`.
        clush: bool,
    },
    /// `true`, over a connection that stands, beside `clush`.
    Warm,
    /// `true` on hosts of which three do not answer: until the run ends.
    Dead,
    /// A file.
    Copy,
}

impl Load {
    /// How many hosts.
    pub const fn hosts(self) -> usize {
        match self {
            Self::Copy => 16,
            _ => 64,
        }
    }

    /// What stands beside it.
    pub const fn rival(self) -> &'static str {
        match self {
            Self::Run { clush: false } => "`xargs -P 64` of `ssh`",
            Self::Run { clush: true } | Self::Warm => "`clush -f 64` (ClusterShell)",
            Self::Dead => "its time-out",
            Self::Copy => "`xargs -P 16` of `scp`",
        }
    }
}

/// Of [`Load::Dead`]: the time-out of each host.
pub const DEAD_LIMIT: Duration = Duration::from_secs(15);
/// And the hosts that do not answer.
pub const DEAD: usize = 3;

/// The servers, and the user.
pub struct Fleet {
    load: Load,
    servers: Vec<Running>,
    waiter: Arc<dyn Waiter>,
    /// It accepts connections and says nothing.
    _silent: TcpListener,
    room: Room,
}

fn absent(reason: impl std::fmt::Display) -> BenchError {
    BenchError::Absent { what: WHAT, reason: reason.to_string() }
}

impl Fleet {
    /// Starts the servers and waits until all listen.
    pub fn start(load: Load, waiter: Arc<dyn Waiter>) -> Result<Self> {
        let needed = [
            ("sshd", "openssh-server"),
            ("ssh", "openssh-client"),
            ("ssh-keygen", "openssh-client"),
            ("unshare", "util-linux"),
        ];
        needed.into_iter().try_for_each(|need| find(need).map(drop))?;
        if matches!(load, Load::Run { clush: true } | Load::Warm) {
            find(("clush", "clustershell"))?;
        }
        if !rustix::process::geteuid().is_root() {
            return Err(absent(
                "servers are started in mount namespaces, which only root may make: run it as root",
            ));
        }
        let room = Room::new()?;
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(BenchError::io("a silent port"))?;
        let mut fleet = Self { load, servers: Vec::new(), waiter, _silent: silent, room };
        fleet.keys()?;
        fleet.servers()?;
        Ok(fleet)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.room.path().join(name)
    }

    fn write(&self, name: &str, text: &str, mode: u32) -> Result<PathBuf> {
        let path = self.path(name);
        let written =
            fs::write(&path, text).and_then(|()| fs::set_permissions(&path, PermissionsExt::from_mode(mode)));
        written.map_err(BenchError::io(path.display().to_string()))?;
        Ok(path)
    }

    fn keys(&self) -> Result<()> {
        for name in ["key", "host_key"] {
            let mut keygen = Command::new(find(("ssh-keygen", "openssh-client"))?);
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(self.path(name));
            if !keygen.status().is_ok_and(|status| status.success()) {
                return Err(absent("ssh-keygen did not make a key: run it by hand to see why"));
            }
        }
        Ok(())
    }

    /// Root with `sh` as shell, for whom no profile is read.
    fn servers(&mut self) -> Result<()> {
        let folder = self.room.path().display().to_string();
        let passwd = self.write(
            "passwd",
            "root:x:0:0::/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/bin/false\n",
            0o644,
        )?;
        let host_key = fs::read_to_string(self.path("host_key.pub")).map_err(BenchError::io("a key"))?;
        let (mut config, mut known, mut ports) = (String::new(), String::new(), Vec::new());
        for number in 1..=self.load.hosts() {
            let port = free_port()?;
            let dead = self.load == Load::Dead && number > self.load.hosts() - DEAD;
            let port = if dead {
                self._silent.local_addr().map_err(BenchError::io("a silent port"))?.port()
            } else {
                port
            };
            // A text does not refuse what is written to it.
            let _ = writeln!(config, "Host n{number:02}\n HostName 127.0.0.1\n Port {port}");
            let _ = writeln!(known, "[127.0.0.1]:{port} {}", host_key.trim());
            if !dead {
                ports.push((number, port));
            }
        }
        let _ = writeln!(
            config,
            "Host *\n User root\n IdentityFile {folder}/key\n IdentitiesOnly yes\n UserKnownHostsFile {folder}/known\n \
             GlobalKnownHostsFile none\n StrictHostKeyChecking yes"
        );
        self.write("config", &config, 0o600)?;
        self.write("known", &known, 0o600)?;
        for program in ["ssh", "scp"] {
            let path = find((program, "openssh-client"))?;
            self.write(
                program,
                &format!("#!/bin/sh\nexec {} -F {folder}/config \"$@\"\n", path.display()),
                0o755,
            )?;
        }
        let sshd = find(("sshd", "openssh-server"))?;
        // What is copied lies in memory, on both sides.
        let script = format!(
            "mount -t tmpfs none /run && mkdir -m 755 /run/sshd && mount -o bind {} /etc/passwd && exec \"$0\" -D -e -f \"$1\"",
            passwd.display()
        );
        let of = |port: u16| {
            format!(
                "Port {port}\nListenAddress 127.0.0.1\nPidFile none\nStrictModes no\nUsePAM no\nHostKey {folder}/host_key\n\
                 AuthorizedKeysFile {folder}/key.pub\nPermitRootLogin yes\nPasswordAuthentication no\n\
                 KbdInteractiveAuthentication no\nMaxStartups 500\nSubsystem sftp internal-sftp\n"
            )
        };
        let mut started = Vec::new();
        for (number, port) in ports {
            let settings = self.write(&format!("sshd-{number}"), &of(port), 0o600)?;
            // Its mounts are private by default.
            let mut command = Command::new(find(("unshare", "util-linux"))?);
            command.args(["-m", "sh", "-c", &script]).arg(&sshd).arg(settings);
            started
                .push((Running::start_anywhere(command, &format!("sshd{number}"), self.room.path())?, port));
        }
        for (server, port) in started {
            server.wait_for(port, START, &self.waiter)?;
            self.servers.push(server);
        }
        if self.load == Load::Copy {
            let file = self.path("file");
            fs::write(&file, vec![7; FILE_BYTES]).map_err(BenchError::io(file.display().to_string()))?;
        }
        Ok(())
    }

    fn names(&self) -> String {
        format!("n[01-{:02}]", self.load.hosts())
    }

    /// The command line of a side.
    pub fn words(&self, ours: bool) -> Vec<String> {
        let hosts = self.names();
        let all = self.load.hosts();
        let file = self.path("file").display().to_string();
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        // Each program has its own way to count.
        let each =
            |line: &str| words(&["sh", "-c", &format!("seq -f n%02g 1 {all} | xargs -P {all} -I@ {line}")]);
        match (self.load, ours) {
            (Load::Run { .. }, true) => words(&["fleet", "run", "-p", "64", "-w", &hosts, "true"]),
            (Load::Warm, true) => words(&["fleet", "run", "-p", "64", "--keep", "5m", "-w", &hosts, "true"]),
            (Load::Dead, _) => {
                let limit = format!("{}s", DEAD_LIMIT.as_secs());
                words(&[
                    "fleet",
                    "run",
                    "-p",
                    "64",
                    "--timeout",
                    &limit,
                    "--connect-timeout",
                    "1m",
                    "--punch-list",
                    "failed",
                    "--output-dir",
                    "answers",
                    "-w",
                    &hosts,
                    "true",
                ])
            }
            (Load::Copy, true) => words(&["fleet", "copy", "-p", "16", "-w", &hosts, &file, "/run/file"]),
            (Load::Run { clush: false }, false) => each("ssh -o BatchMode=yes @ true"),
            (Load::Run { clush: true } | Load::Warm, false) => {
                words(&["clush", "-q", "-b", "-f", "64", "-w", &hosts, "true"])
            }
            (Load::Copy, false) => each(&format!("scp -q {file} @:/run/file")),
        }
    }

    /// Runs a side once: how long that took.
    pub fn seconds(&self, ours: bool) -> Result<f64> {
        let words = self.words(ours);
        let mut command = if ours {
            Command::new(std::env::current_exe().map_err(BenchError::io("the path of this program"))?)
        } else {
            Command::new(words.first().map_or("", String::as_str))
        };
        command.args(if ours { &words[..] } else { words.get(1..).unwrap_or_default() });
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.room.path().display()));
        command.env("XDG_RUNTIME_DIR", self.room.path()).env("LC_ALL", "C");
        for name in ["HOSTS", "HOSTS_FILE", "FF_MAX_PARALLEL", "SLURM_JOB_NODELIST"] {
            command.env_remove(name);
        }
        let began = Instant::now();
        let name = if ours { "tieline fleet" } else { "the rival" };
        let running = Running::start_anywhere(command, name, self.room.path())?;
        // Of hosts that do not answer the status is 1.
        let wanted = i32::from(self.load == Load::Dead);
        running.finish_with(wanted, LIMIT, &self.waiter)?;
        let took_s = began.elapsed().as_secs_f64();
        if self.load == Load::Dead {
            let failed = fs::read_to_string(self.path("failed")).unwrap_or_default();
            if failed.lines().count() != DEAD || failed.lines().any(|line| !line.contains(";timed-out;")) {
                return Err(absent(format!(
                    "{DEAD} hosts were not to answer in time, and these failed: {}: measure on a quiet machine",
                    failed.trim().replace('\n', ", ")
                )));
            }
        }
        Ok(took_s)
    }

    /// Of [`Load::Dead`]: how long after the begin of the run the last answer of the others was there.
    pub fn last_answer_s(&self, took_s: f64) -> Option<f64> {
        let folder = fs::read_dir(self.path("answers")).ok()?;
        let ages = folder.filter_map(|entry| entry.ok()?.metadata().ok()?.modified().ok()?.elapsed().ok());
        ages.map(|age| took_s - age.as_secs_f64()).filter(|at| *at < took_s - 1.0).max_by(f64::total_cmp)
    }
}

impl Sides for Fleet {
    fn ours(&mut self) -> Result<f64> {
        self.seconds(true)
    }

    fn reference(&mut self) -> Result<f64> {
        self.seconds(false)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if self.load == Load::Warm {
            // Connections that are kept are processes, which end with their servers; so this only hastens it.
            let mut command = Command::new(std::env::current_exe().unwrap_or_default());
            command.args(["fleet", "close", "--quiet"]).env("XDG_RUNTIME_DIR", self.room.path());
            let path = std::env::var("PATH").unwrap_or_default();
            command.env("PATH", format!("{}:{path}", self.room.path().display()));
            let _ = command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).status();
        }
    }
}
