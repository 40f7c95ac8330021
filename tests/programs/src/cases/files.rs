//! ssh and rsync on loopback.

use std::time::Instant;

use anyhow::Result;

use crate::{
    case::{Case, Over, Session},
    room::Room,
    running::Running,
};

/// Bytes that go through ssh in one load, for each second asked for.
const STREAM_MB: u32 = 150;

pub(super) const SSH: Case = Case {
    name: "ssh",
    what: "sshd and ssh: commands, exit statuses, a stream, a forwarded port",
    over: Over::Sockets,
    needs: &[("/usr/sbin/sshd", "openssh-server"), ("ssh", "openssh-client")],
    open: |room| {
        let (keys, port) = (Keys::make(&room)?, room.port()?);
        if rustix::process::geteuid().is_root() {
            // What the package's own service makes at its start.
            std::fs::create_dir_all("/run/sshd")?;
        }
        let config = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\n\
             UsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nMaxStartups 100\n",
            keys.host, keys.authorized
        );
        let config = room.file("sshd_config", config)?.display().to_string();
        // Its path is whole: it starts itself again for every connection.
        let server = room.start("/usr/sbin/sshd", &["-D", "-e", "-f", &config])?;
        room.wait_for(port, &server)?;
        room.must_be_in(&server)?;
        Ok(Box::new(Ssh { room, keys, port: port.to_string(), _server: server }))
    },
};

struct Keys {
    host: String,
    own: String,
    authorized: String,
}

impl Keys {
    fn make(room: &Room) -> Result<Self> {
        let [host, own] = ["host_key", "own_key"].map(|name| room.text(name));
        for key in [&host, &own] {
            room.prepare("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", key])?;
        }
        let authorized = room.file("authorized", std::fs::read(format!("{own}.pub"))?)?;
        Ok(Self { host, own, authorized: authorized.display().to_string() })
    }
}

struct Ssh {
    room: Room,
    keys: Keys,
    port: String,
    _server: Running,
}

impl Ssh {
    fn arguments<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let usual = ["-F", "none", "-i", &self.keys.own, "-p", &self.port, "-o", "BatchMode=yes", "-o"];
        let quiet =
            ["StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"];
        [&usual[..], &quiet, more].concat()
    }

    fn ssh(&self, more: &[&str]) -> Result<String> {
        let said = self.room.run_with("ssh", &self.arguments(more), &[])?;
        Ok(format!("{} {} {}", said.end(), said.out, said.err))
    }
}

impl Session for Ssh {
    fn check(&mut self) -> Result<Vec<String>> {
        let forward = format!("{}:127.0.0.1:{}", self.room.port()?, self.port);
        Ok(vec![
            self.ssh(&["127.0.0.1", "echo out; echo err >&2; exit 3"])?,
            self.ssh(&["127.0.0.1", "head -c 5000000 /dev/zero | sha256sum"])?,
            self.ssh(&["127.0.0.1", "seq 200000"])?,
            self.ssh(&["127.0.0.1", "kill -9 $$"])?,
            // A terminal's line discipline is in between.
            self.ssh(&["-tt", "127.0.0.1", "tty >/dev/null && echo terminal"])?,
            self.ssh(&["-L", &forward, "127.0.0.1", "true"])?,
            self.ssh(&["-o", "ConnectTimeout=2", "-p", "1", "127.0.0.1", "true"])?
                .replace(&self.port, "PORT"),
        ])
    }

    fn load(&mut self, seconds: u32) -> Result<Option<f64>> {
        let stream = format!("head -c {}M /dev/zero", STREAM_MB * seconds);
        let remote = self.arguments(&["127.0.0.1", &stream]);
        let script = "exec ssh \"$@\" >/dev/null";
        let start = Instant::now();
        self.room.run("sh", &[&["-c", script, "sh"], &remote[..]].concat())?;
        Ok(Some(f64::from(STREAM_MB * seconds) * 1.048_576 / start.elapsed().as_secs_f64()))
    }

    fn unit(&self) -> &'static str {
        "MB/s"
    }
}

pub(super) const RSYNC: Case = Case {
    name: "rsync",
    what: "an rsync daemon: a tree, changes to it, its removal",
    over: Over::Sockets,
    needs: &[("rsync", "rsync")],
    open: |room| {
        for number in 0..200_usize {
            let bytes: Vec<u8> = (0..number * 700).map(|at| (at * 7 + number) as u8).collect();
            room.file(&format!("tree/{}/{number}", number % 7), bytes)?;
        }
        let port = room.port()?;
        let root = if rustix::process::geteuid().is_root() { "uid = root\ngid = root\n" } else { "" };
        let config = format!(
            "use chroot = no\n{root}[all]\n  path = {}\n  read only = no\n[up]\n  path = {}\n  read only = no\n",
            room.text("tree"),
            room.folder("up")?.display()
        );
        let config = room.file("rsyncd.conf", config)?.display().to_string();
        let arguments = ["--daemon", "--no-detach", "--config", &config, "--address", "127.0.0.1"];
        let server = room.start("rsync", &[&arguments[..], &["--port", &port.to_string()]].concat())?;
        room.wait_for(port, &server)?;
        room.must_be_in(&server)?;
        Ok(Box::new(Rsync { room, port, _server: server }))
    },
};

struct Rsync {
    room: Room,
    port: u16,
    _server: Running,
}

impl Session for Rsync {
    fn check(&mut self) -> Result<Vec<String>> {
        let (room, port) = (&self.room, self.port);
        let there = format!("rsync://127.0.0.1:{port}/all/");
        let up = format!("rsync://127.0.0.1:{port}/up/");
        let (copy, tree) = (room.text("copy"), format!("{}/", room.text("tree")));
        let sums = |folder: &str| {
            room.prepare("sh", &["-c", &format!("cd {folder} && find . -type f | sort | xargs sha256sum")])
        };
        let mut said = vec![room.run("rsync", &["-a", &there, &copy])?, sums(&copy)?];
        let changed = room.file("tree/3/3", "changed")?;
        // Whether its time differs from the copy's is not left to chance.
        std::fs::File::options().write(true).open(changed)?.set_modified(std::time::UNIX_EPOCH)?;
        said.extend([room.run("rsync", &["-ai", &there, &copy])?, sums(&copy)?]);
        said.extend([room.run("rsync", &["-a", &tree, &up])?, sums(&room.text("up"))?]);
        said.push(
            room.run("rsync", &["-a", "--delete", &format!("{}/", room.folder("nothing")?.display()), &up])?,
        );
        said.push(sums(&room.text("up"))?);
        said.push(room.run_with("rsync", &["rsync://127.0.0.1:1/all/", &copy], &[])?.end());
        Ok(said)
    }
}
