//! nginx, haproxy and curl.

use anyhow::{Context, Result};
use rustix::process::Signal;

use crate::{
    case::{Case, Need, Over, Session},
    room::Room,
    running::Running,
};

const NGINX_NEEDED: Need = ("nginx", "nginx-light");
const CURL_NEEDED: Need = ("curl", "curl");
const WRK_NEEDED: Need = ("wrk", "wrk");
/// Files that are served, and their sizes: from one to more than any buffer.
const FILES: [(&str, usize); 4] = [("empty", 0), ("small", 1024), ("middle", 100_000), ("large", 5_000_000)];

pub(super) const NGINX: Case = Case {
    name: "nginx",
    what: "nginx with two workers, sendfile and a reload; curl; wrk with 64 connections",
    over: Over::Sockets,
    needs: &[NGINX_NEEDED, CURL_NEEDED, WRK_NEEDED],
    open: |room| Ok(Box::new(Nginx::start(room, false)?)),
};

pub(super) const NGINX_TLS: Case = Case {
    name: "nginx-tls",
    what: "the same over TLS",
    over: Over::Sockets,
    needs: &[NGINX_NEEDED, CURL_NEEDED, WRK_NEEDED, ("openssl", "openssl")],
    open: |room| Ok(Box::new(Nginx::start(room, true)?)),
};

pub(super) const HAPROXY: Case = Case {
    name: "haproxy",
    what: "haproxy before nginx; curl; wrk with 64 connections",
    over: Over::Sockets,
    needs: &[NGINX_NEEDED, CURL_NEEDED, WRK_NEEDED, ("haproxy", "haproxy")],
    open: |room| {
        let nginx = Nginx::start(room, false)?;
        let room = &nginx.room;
        let port = room.port()?;
        let config = format!(
            "global\n  maxconn 500\ndefaults\n  mode http\n  timeout connect 5s\n  timeout client 20s\n  timeout server 20s\n\
             frontend f\n  bind 127.0.0.1:{port}\n  default_backend b\nbackend b\n  server s 127.0.0.1:{}\n",
            nginx.port
        );
        let path = room.file("haproxy.cfg", config)?;
        let server = room.start("haproxy", &["-db", "-f", &path.display().to_string()])?;
        room.wait_for(port, &server)?;
        room.must_be_in(&server)?;
        Ok(Box::new(Haproxy { nginx, port, _server: server }))
    },
};

pub(super) const CURL: Case = Case {
    name: "curl",
    what: "curl: ranges, uploads, many in parallel, refused and silent servers",
    over: Over::Sockets,
    needs: &[NGINX_NEEDED, CURL_NEEDED],
    open: |room| Ok(Box::new(Curl(Nginx::start(room, false)?))),
};

struct Nginx {
    room: Room,
    port: u16,
    tls: bool,
    server: Running,
}

impl Nginx {
    fn start(room: Room, tls: bool) -> Result<Self> {
        for (name, size) in FILES {
            let bytes: Vec<u8> = (0..size).map(|at| (at * 31 + at / 251) as u8).collect();
            room.file(&format!("www/{name}"), bytes)?;
        }
        for folder in ["temp", "up"] {
            room.folder(folder)?;
        }
        let port = room.port()?;
        let listen = if tls { certificate(&room)? } else { String::new() };
        let path = room.file("nginx.conf", config(&room, port, tls, &listen))?;
        let server =
            room.start("nginx", &["-e", &room.text("error.log"), "-c", &path.display().to_string()])?;
        room.wait_for(port, &server)?;
        room.must_be_in(&server)?;
        Ok(Self { room, port, tls, server })
    }

    fn address(&self, port: u16, file: &str) -> String {
        format!("http{}://127.0.0.1:{port}/{file}", if self.tls { "s" } else { "" })
    }

    /// Everything that is served, by its sum, through a port.
    fn sums(&self, port: u16) -> Result<Vec<String>> {
        let mut said = Vec::new();
        for (name, _) in FILES {
            let to = self.room.text("fetched");
            let told = ["-sSk", "-o", &to, "-w", "%{http_code} %{size_download} %{num_connects}"];
            said.push(self.room.run("curl", &[&told[..], &[&self.address(port, name)]].concat())?);
            said.push(
                self.room.prepare("sha256sum", &[&to])?.split(' ').next().unwrap_or_default().to_owned(),
            );
        }
        Ok(said)
    }

    fn wrk(&self, port: u16, seconds: u32) -> Result<Option<f64>> {
        let arguments = ["-t1", "-c64", &format!("-d{seconds}s"), &self.address(port, "small")];
        let said = self.room.run("wrk", &arguments)?;
        if said.contains("Socket errors") || said.contains("Non-2xx") {
            anyhow::bail!("wrk met errors: {said}");
        }
        let line = said.lines().find_map(|line| line.strip_prefix("Requests/sec:")).context("no rate")?;
        Ok(Some(line.trim().parse()?))
    }
}

fn certificate(room: &Room) -> Result<String> {
    let [key, certificate] = ["key.pem", "certificate.pem"].map(|name| room.text(name));
    let subject = ["-subj", "/CN=localhost", "-days", "2", "-nodes", "-newkey", "rsa:2048"];
    let files = ["-keyout", &key, "-out", &certificate];
    room.prepare("openssl", &[&["req", "-x509"], &subject[..], &files[..]].concat())?;
    Ok(format!("ssl_certificate {certificate}; ssl_certificate_key {key};"))
}

fn config(room: &Room, port: u16, tls: bool, certificate: &str) -> String {
    let [temp, up, www, pid] = ["temp", "up", "www", "nginx.pid"].map(|name| room.text(name));
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let temps: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {temp}/{kind};\n"))
        .concat();
    let ssl = if tls { " ssl" } else { "" };
    format!(
        "daemon off; worker_processes 2; pid {pid}; {user}\nevents {{ worker_connections 300; }}\n\
         http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000; {temps}\n\
         server {{ listen 127.0.0.1:{port}{ssl}; {certificate} client_max_body_size 20m; root {www};\n\
         location /up/ {{ alias {up}/; dav_methods PUT; }} }} }}\n"
    )
}

impl Session for Nginx {
    fn check(&mut self) -> Result<Vec<String>> {
        let mut said = self.sums(self.port)?;
        self.server.signal(Signal::HUP)?;
        // New workers take over while old ones end: nothing may fail in between.
        for _ in 0..10 {
            said.extend(self.sums(self.port)?);
        }
        Ok(said)
    }

    fn load(&mut self, seconds: u32) -> Result<Option<f64>> {
        self.wrk(self.port, seconds)
    }

    fn unit(&self) -> &'static str {
        "requests/s"
    }
}

struct Haproxy {
    nginx: Nginx,
    port: u16,
    _server: Running,
}

impl Session for Haproxy {
    fn check(&mut self) -> Result<Vec<String>> {
        self.nginx.sums(self.port)
    }

    fn load(&mut self, seconds: u32) -> Result<Option<f64>> {
        self.nginx.wrk(self.port, seconds)
    }

    fn unit(&self) -> &'static str {
        "requests/s"
    }
}

struct Curl(Nginx);

impl Session for Curl {
    fn check(&mut self) -> Result<Vec<String>> {
        let (room, port) = (&self.0.room, self.0.port);
        let at = |file: &str| self.0.address(port, file);
        let curl = |arguments: &[&str]| -> Result<String> {
            let said = room.run_with("curl", &[&["-sS"], arguments].concat(), &[])?;
            // Addresses and times are not comparable, the kind of an error is.
            Ok(format!("{} {}", said.end(), said.out.len()))
        };
        let upload = room.text("www/large");
        let silent = std::net::TcpListener::bind("127.0.0.1:0")?;
        let nobody = format!("http://127.0.0.1:{}/", silent.local_addr()?.port());
        let mut said = vec![
            curl(&["-r", "100-299", &at("middle")])?,
            curl(&["-I", "-o", "/dev/null", &at("small")])?,
            curl(&["-f", &at("absent")])?,
            curl(&["http://127.0.0.1:1/"])?,
            curl(&["-m", "0.5", &nobody])?,
            curl(&["--http1.0", &at("large")])?,
            curl(&["--limit-rate", "20M", &at("large")])?,
            curl(&["-T", &upload, &at("up/large")])?,
            curl(&["-6", "http://[::1]:1/"])?,
            curl(&["-Z", "--parallel-max", "20", "-o", "/dev/null", &format!("{}?[1-100]", at("small"))])?,
        ];
        said.push(room.prepare("cmp", &[&upload, &room.text("up/large")])?);
        Ok(said)
    }
}
