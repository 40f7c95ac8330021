//! Real ssh servers on the loopback interface, each with its own port and configuration, and a user who knows
//! them by name. They end with the test.

use std::fmt::Write;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fleet::Ssh;
use tempfile::TempDir;

/// Servers, and what the user has.
pub(crate) struct Lab {
    folder: TempDir,
    sshd: PathBuf,
    pub(crate) servers: Vec<Server>,
}

pub(crate) struct Server {
    pub(crate) child: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Sessions are processes of their own, which outlive the server.
        for pid in below(self.child.id()) {
            kill(pid, "KILL");
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn found(program: &str) -> Option<PathBuf> {
    let folders = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
    folders.split(':').map(|folder| Path::new(folder).join(program)).find(|path| path.exists())
}

impl Lab {
    /// `None`, with the reason printed, where servers cannot be started.
    pub(crate) fn new() -> Option<Self> {
        for program in ["ssh", "ssh-keygen", "sshd", "unshare"] {
            if found(program).is_none() {
                println!(
                    "skipped: `{program}` is not installed (Debian: openssh-client, openssh-server, util-linux)"
                );
                return None;
            }
        }
        if !Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success()) {
            println!("skipped: this user may not start servers in a mount namespace (root may)");
            return None;
        }
        let lab = Self { folder: tempfile::tempdir().unwrap(), sshd: found("sshd")?, servers: Vec::new() };
        for name in ["key", "host_key", "other_key"] {
            let path = lab.path(name);
            let path = path.to_str().unwrap();
            let made =
                Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", path]).status();
            assert!(made.unwrap().success());
        }
        let ssh = found("ssh")?;
        let config = lab.path("config");
        fs::write(&config, "").unwrap();
        // In the place of the real user's configuration.
        let script = format!("#!/bin/sh\nexec {} -F {} \"$@\"\n", ssh.display(), config.display());
        fs::write(lab.path("ssh"), script).unwrap();
        fs::set_permissions(lab.path("ssh"), PermissionsExt::from_mode(0o755)).unwrap();
        Some(lab)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The user's ssh.
    pub(crate) fn ssh(&self) -> Ssh {
        let program = self.path("ssh").to_str().unwrap().to_owned();
        Ssh { program, ..Ssh::new(Duration::from_secs(60), || false) }
    }

    /// A server that the user knows by this name; `more` is of its configuration.
    pub(crate) fn server(&mut self, name: &str, more: &str) -> String {
        let port = free_port();
        let key = if more.contains("HostKey") {
            String::new()
        } else {
            format!("HostKey {}\n", self.path("host_key").display())
        };
        let config = format!(
            "{more}\nPort {port}\nListenAddress 127.0.0.1\nPidFile none\nStrictModes no\nUsePAM no\n{key}\
             AuthorizedKeysFile {}\nPermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             MaxStartups 200\nMaxSessions 100\n",
            self.path("key.pub").display()
        );
        let file = self.path(&format!("sshd-{name}"));
        fs::write(&file, config).unwrap();
        // A file system that is soon full, for this server alone.
        let script = "mount -t tmpfs none /run && mkdir -m 755 /run/sshd /run/small && \
                      mount -t tmpfs -o size=64k none /run/small && exec \"$1\" -D -e -f \"$2\"";
        let log_path = self.path(&format!("sshd-{name}.log"));
        let log = fs::File::create(&log_path).unwrap();
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]);
        command.arg(&self.sshd).arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.servers.push(Server { child: command.spawn().unwrap() });
        until("the ssh server", || fs::read_to_string(&log_path).unwrap().contains("listening on"));
        self.knows(name, port, true);
        name.to_owned()
    }

    /// The user's configuration and known hosts get a name.
    pub(crate) fn knows(&self, name: &str, port: u16, its_key: bool) {
        let mut config = fs::read_to_string(self.path("config")).unwrap();
        let (key, known) = (self.path("key"), self.path("known_hosts"));
        write!(
            config,
            "Host {name}\n HostName 127.0.0.1\n Port {port}\n User root\n IdentityFile {}\n IdentitiesOnly yes\n \
             UserKnownHostsFile {}\n GlobalKnownHostsFile none\n StrictHostKeyChecking ask\n",
            key.display(),
            known.display()
        )
        .unwrap();
        fs::write(self.path("config"), config).unwrap();
        if its_key {
            self.known(port, "host_key.pub");
        }
    }

    fn known(&self, port: u16, key: &str) {
        let mut known = fs::read_to_string(self.path("known_hosts")).unwrap_or_default();
        let key = fs::read_to_string(self.path(key)).unwrap();
        writeln!(known, "[127.0.0.1]:{port} {}", key.trim()).unwrap();
        fs::write(self.path("known_hosts"), known).unwrap();
    }
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what} does not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// All processes that a process has started, and theirs, each before its own.
pub(crate) fn below(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let mut all = Vec::new();
    for child in children.split_whitespace().filter_map(|child| child.parse().ok()) {
        all.push(child);
        all.extend(below(child));
    }
    all
}

pub(crate) fn kill(pid: u32, signal: &str) {
    let _ =
        Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).stderr(Stdio::null()).status();
}

/// Whether a process with this word on its command line runs.
pub(crate) fn runs(word: &str) -> bool {
    fs::read_dir("/proc").unwrap().filter_map(Result::ok).any(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        words.contains(&word.as_bytes())
    })
}
