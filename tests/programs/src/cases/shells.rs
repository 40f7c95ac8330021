//! The C library's streams on sockets, servers in the style of inetd, and bash.

use anyhow::Result;

use super::script::Script;
use crate::{
    case::{Case, Over, Session},
    room::Room,
    running::Running,
};

pub(super) const STDIO: Case = Case {
    name: "stdio",
    what: "fdopen, fprintf, getline, dprintf, popen on sockets in C",
    over: Over::Sockets,
    needs: &[("cc", "gcc")],
    open: |room| {
        let (source, program) =
            (room.file("stdio.c", include_str!("../../files/stdio.c"))?, room.text("stdio"));
        room.prepare("cc", &["-O2", "-D_FORTIFY_SOURCE=2", "-o", &program, &source.display().to_string()])?;
        Ok(Box::new(Script::new(room, &[&program], "lines/s")))
    },
};

pub(super) const INETD: Case = Case {
    name: "inetd",
    what: "inetd: programs whose standard input and output are a connection",
    over: Over::Sockets,
    needs: &[("/usr/sbin/inetd", "openbsd-inetd"), ("socat", "socat")],
    open: |room| Ok(Box::new(Inetd::start(room)?)),
};

pub(super) const BASH: Case = Case {
    name: "bash",
    what: "bash's /dev/tcp, with inetd behind it",
    over: Over::Sockets,
    needs: &[("/usr/sbin/inetd", "openbsd-inetd"), ("bash", "bash")],
    open: |room| Ok(Box::new(Bash(Inetd::start(room)?))),
};

struct Inetd {
    room: Room,
    echo: u16,
    sort: u16,
    _server: Running,
}

impl Inetd {
    fn start(room: Room) -> Result<Self> {
        let (echo, sort) = (room.port()?, room.port()?);
        let user = std::env::var("USER").unwrap_or_else(|_| "root".to_owned());
        let config = format!(
            "127.0.0.1:{echo} stream tcp nowait {user} /bin/cat cat\n127.0.0.1:{sort} stream tcp nowait {user} /usr/bin/sort sort\n"
        );
        let config = room.file("inetd.conf", config)?.display().to_string();
        let server = room.start("/usr/sbin/inetd", &["-i", &config])?;
        room.wait_for(echo, &server)?;
        room.must_be_in(&server)?;
        Ok(Self { room, echo, sort, _server: server })
    }
}

impl Session for Inetd {
    fn check(&mut self) -> Result<Vec<String>> {
        let through = |command: &str, port: u16| {
            let script = format!("{command} | socat -t 20 - TCP4:127.0.0.1:{port} | sha256sum");
            self.room.run("sh", &["-c", &script])
        };
        let mut said = Vec::new();
        for _ in 0..5 {
            said.push(through("seq 200000", self.echo)?);
            said.push(through("seq 50000 -1 1", self.sort)?);
            said.push(through("printf word", self.echo)?);
        }
        Ok(said)
    }
}

struct Bash(Inetd);

impl Session for Bash {
    fn check(&mut self) -> Result<Vec<String>> {
        let Inetd { room, echo, sort, .. } = &self.0;
        let script = format!(
            r#"exec 3<>/dev/tcp/127.0.0.1/{echo}
for n in $(seq 300); do
    printf 'line %d\n' "$n" >&3
    read -r line <&3 && echo "$line"
done
exec 3>&-
(echo b; echo a) >/dev/tcp/127.0.0.1/{sort}; echo "sorted: $?"
exec 4<>/dev/tcp/127.0.0.1/1; echo "refused: $?"
exec 5<>/dev/udp/127.0.0.1/{echo}; printf x >&5; echo "datagram: $?""#
        );
        let path = room.file("lines.sh", script)?.display().to_string();
        let said = room.run_with("bash", &[&path], &[])?;
        Ok(vec![said.end(), said.out, said.err.lines().count().to_string()])
    }
}
