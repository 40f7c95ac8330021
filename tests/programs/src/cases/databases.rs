//! Redis, memcached and PostgreSQL, with the load that comes with them.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::script;
use crate::{
    case::{Case, Over, Session},
    room::Room,
    running::Running,
};

/// Requests of one load of Redis for each second asked for.
const REDIS_REQUESTS: u32 = 60_000;

pub(super) const REDIS: Case = Case {
    name: "redis",
    what: "redis-server, redis-cli, redis-benchmark with 50 clients",
    over: Over::Sockets,
    needs: &[("redis-server", "redis-server"), ("redis-benchmark", "redis-tools")],
    open: |room| {
        let port = room.port()?;
        let data = room.folder("data")?;
        let port_text = port.to_string();
        let server = room.start(
            "redis-server",
            &[
                "--port",
                &port_text,
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--dir",
                &data.display().to_string(),
            ],
        )?;
        room.wait_for(port, &server)?;
        room.must_be_in(&server)?;
        Ok(Box::new(Redis { room, port: port_text, _server: server }))
    },
};

struct Redis {
    room: Room,
    port: String,
    _server: Running,
}

impl Session for Redis {
    fn check(&mut self) -> Result<Vec<String>> {
        let cli = |arguments: &[&str]| self.room.run("redis-cli", &[&["-p", &self.port], arguments].concat());
        let long = "return redis.call('set', KEYS[1], string.rep('0123456789abcdef', 262144))";
        let mut said = vec![
            cli(&["set", "a", "first value"])?,
            cli(&["get", "a"])?,
            cli(&["eval", long, "1", "long"])?,
            cli(&["strlen", "long"])?,
            cli(&["-r", "200", "incr", "counter"])?,
            // 4 MiB through the connection: the whole of it is compared.
            cli(&["get", "long"])?,
            cli(&["nonsense"])?,
        ];
        said.push(self.room.run_with("redis-cli", &["-p", "1", "ping"], &[])?.end());
        Ok(said)
    }

    fn load(&mut self, seconds: u32) -> Result<Option<f64>> {
        let count = (REDIS_REQUESTS * seconds).to_string();
        let arguments = ["-p", &self.port, "-t", "get", "-c", "50", "-n", &count, "--csv"];
        let said = self.room.run("redis-benchmark", &arguments)?;
        let line = said.lines().find(|line| line.starts_with("\"GET\"")).context("no line for GET")?;
        let rate = line.split(',').nth(1).context("no rate")?;
        Ok(Some(rate.trim_matches('"').parse()?))
    }

    fn unit(&self) -> &'static str {
        "requests/s"
    }
}

pub(super) const MEMCACHED: Case = Case {
    name: "memcached",
    what: "memcached with two threads, eight clients in Python",
    over: Over::Sockets,
    needs: &[("memcached", "memcached"), script::PYTHON_NEEDED],
    open: |room| {
        let port = room.port()?;
        let port_text = port.to_string();
        let server = room.start(
            "memcached",
            &["-p", &port_text, "-U", "0", "-l", "127.0.0.1", "-t", "2", "-u", "nobody"],
        )?;
        room.wait_for(port, &server)?;
        room.must_be_in(&server)?;
        script::Script::python(room, "memcached.py", include_str!("../../files/memcached.py"), "requests/s")?
            .with_server(server, port)
    },
};

pub(super) const POSTGRES: Case = Case {
    name: "postgres",
    what: "PostgreSQL over TCP, psql, pgbench -S with four clients",
    over: Over::Sockets,
    needs: &[
        ("/usr/lib/postgresql/15/bin/postgres", "postgresql-15"),
        ("/usr/lib/postgresql/15/bin/pgbench", "postgresql-15"),
    ],
    open: |mut room| {
        room.as_user("postgres")?;
        let (data, port) = (room.folder("data")?.display().to_string(), room.port()?);
        let port_text = port.to_string();
        room.prepare(
            &tool("initdb"),
            &["-D", &data, "-A", "trust", "-U", "tester", "--no-sync", "-E", "UTF8"],
        )?;
        let settings =
            ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "shared_buffers=16MB"];
        let mut arguments = vec!["-D", &data, "-p", &port_text];
        settings.iter().for_each(|setting| arguments.extend(["-c", setting]));
        let server = room.start(&tool("postgres"), &arguments)?;
        room.wait_for(port, &server)?;
        room.must_be_in(&server)?;
        Ok(Box::new(Postgres { room, port: port_text, filled: false, _server: server }))
    },
};

fn tool(name: &str) -> String {
    PathBuf::from("/usr/lib/postgresql/15/bin").join(name).display().to_string()
}

struct Postgres {
    room: Room,
    port: String,
    filled: bool,
    _server: Running,
}

impl Postgres {
    /// Where everybody connects to.
    fn at(&self) -> [&str; 6] {
        ["-h", "127.0.0.1", "-p", &self.port, "-U", "tester"]
    }

    fn psql(&self, statement: &str) -> Result<String> {
        let rest = ["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", "postgres", "-c", statement];
        let said = self.room.run_with(&tool("psql"), &[&self.at()[..], &rest].concat(), &[])?;
        Ok(format!("{}{}{}", said.out, said.err, said.end()))
    }
}

impl Session for Postgres {
    fn check(&mut self) -> Result<Vec<String>> {
        let statements = [
            "create table t as select n, md5(n::text) as text from generate_series(1, 20000) n",
            "select count(*), md5(string_agg(text, '' order by n)) from t",
            "select n, text from t order by n",
            "copy t to stdout",
            "select repeat('x', 3000000)",
            "select 1/0",
            "select no_such_column",
        ];
        statements.iter().map(|statement| self.psql(statement)).collect()
    }

    fn load(&mut self, seconds: u32) -> Result<Option<f64>> {
        if !self.filled {
            self.room
                .run(&tool("pgbench"), &[&self.at()[..], &["-i", "-s", "1", "-q", "postgres"]].concat())?;
            self.filled = true;
        }
        let seconds = seconds.to_string();
        let rest = ["-S", "-c", "4", "-n", "-T", &seconds, "postgres"];
        let said = self.room.run(&tool("pgbench"), &[&self.at()[..], &rest].concat())?;
        let line = said.lines().find_map(|line| line.strip_prefix("tps = ")).context("no line with tps")?;
        Ok(Some(line.split(' ').next().unwrap_or_default().parse()?))
    }

    fn unit(&self) -> &'static str {
        "transactions/s"
    }
}
