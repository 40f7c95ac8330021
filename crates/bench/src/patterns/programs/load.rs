//! The load programs and their arguments.

use super::{room::Room, said};
use crate::error::Result;

/// A server, and the load that a client puts on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// sockperf: 14 bytes there and back; the median of half a round trip, in ns.
    PingPong,
    /// sockperf: messages of 14 bytes one way, in millions a second.
    Throughput,
    /// iperf3: one stream, written in pieces of 128 KiB, in GB a second.
    Stream,
    /// redis-benchmark: GET, in millions a second.
    Redis {
        /// Connections.
        clients: u32,
        /// Requests that are sent together.
        pipeline: u32,
    },
    /// wrk and nginx: a file of 1 KiB over 64 connections that stay open, in millions a second.
    Http,
}

/// A program, and Debian's package of it.
type Need = (&'static str, &'static str);

/// More than the library's rings take a message: no limit that the program does not run into by
/// itself. sockperf's own `max` is of slower networks, and its tables overflow where more messages
/// are sent.
const MESSAGES_A_SECOND: &str = "--mps=10000000";
/// Bytes of a reading of iperf3.
const STREAM_BYTES: &str = "1G";
/// Bytes of nginx's file.
const FILE_BYTES: usize = 1024;
/// The time of a reading of Redis at least, in seconds: its clock has milliseconds.
const REDIS_SECONDS: f64 = 0.4;
/// The same where many connections are made at its beginning.
const REDIS_MANY_SECONDS: f64 = 2.0;
/// Requests of its first reading, and at most.
const REDIS_FIRST: u64 = 4000;
const REDIS_MOST: u64 = 16_000_000;
/// Requests of each connection in a reading with rings, at least. A connection looks for its other end
/// after 1,000 uses, of which a request has two (docs/sockets.md): that beginning is then a twentieth of a
/// reading, also where the kernel is so slow that it would be all of a shorter one.
const REQUESTS_EACH: u64 = 10_000;
/// Connections of wrk.
const WRK_CLIENTS: u64 = 64;
/// A reading of wrk, in seconds, which it takes whole.
const WRK_SECONDS: u64 = 2;
const WRK_SECONDS_MOST: u64 = 20;

/// Program and arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) program: Need,
    pub(super) arguments: Vec<String>,
}

fn line<const N: usize>(program: Need, arguments: [&str; N]) -> Line {
    Line { program, arguments: arguments.map(ToOwned::to_owned).to_vec() }
}

const SOCKPERF: Need = ("sockperf", "sockperf");
const IPERF3: Need = ("iperf3", "iperf3");
const REDIS: Need = ("redis-server", "redis-server");
const REDIS_BENCHMARK: Need = ("redis-benchmark", "redis-tools");
const NGINX: Need = ("nginx", "nginx-light");
const WRK: Need = ("wrk", "wrk");

impl Load {
    /// Server and client.
    pub(super) const fn needs(self) -> [Need; 2] {
        match self {
            Self::PingPong | Self::Throughput => [SOCKPERF, SOCKPERF],
            Self::Stream => [IPERF3, IPERF3],
            Self::Redis { .. } => [REDIS, REDIS_BENCHMARK],
            Self::Http => [NGINX, WRK],
        }
    }

    /// Unit of its readings.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::PingPong => "ns",
            Self::Stream => "GB/s",
            Self::Throughput | Self::Redis { .. } | Self::Http => "M/s",
        }
    }

    /// Size of a message, where it is one.
    pub const fn size_bytes(self) -> Option<u64> {
        match self {
            Self::PingPong | Self::Throughput => Some(14),
            Self::Stream => Some(128 << 10),
            Self::Http => Some(FILE_BYTES as u64),
            Self::Redis { .. } => None,
        }
    }

    /// The duration of a reading, in seconds, starts and ends included. sockperf pauses for two
    /// seconds around each.
    pub const fn reading_seconds(self) -> f64 {
        match self {
            Self::PingPong | Self::Throughput => 3.5,
            Self::Stream | Self::Redis { clients: 0..=1, .. } => 0.8,
            Self::Redis { .. } => 6.0,
            Self::Http => 8.0,
        }
    }

    /// Facts that a reader needs to compare it.
    pub fn note(self) -> String {
        match self {
            Self::PingPong => {
                "sockperf pp --tcp, percentile 50.000 of half the round trip, a second a reading"
            }
            Self::Throughput => {
                "sockperf tp --tcp, a second a reading; Nagle's algorithm is on, as it is by default"
            }
            Self::Stream => "iperf3 -l 128K, a GiB a reading",
            Self::Redis { .. } => {
                "redis-benchmark -t get of a key that is not there; server and client on a processor each"
            }
            Self::Http => {
                "nginx with one process, no sendfile, as it is by default; wrk -t1 -c64, 2 seconds a reading; with rings up to 20, \
                 so that each connection has 10,000 requests"
            }
        }
        .to_owned()
    }

    /// The server, at a port of loopback.
    pub(super) fn server(self, port: u16, room: &Room) -> Result<Line> {
        let port_text = port.to_string();
        Ok(match self {
            Self::PingPong | Self::Throughput => {
                line(SOCKPERF, ["server", "--tcp", "-i", "127.0.0.1", "-p", &port_text])
            }
            Self::Stream => line(IPERF3, ["-s", "-B", "127.0.0.1", "-p", &port_text]),
            Self::Redis { .. } => {
                let folder = room.path().display().to_string();
                let [bind, save] = [["--bind", "127.0.0.1"], ["--save", ""]];
                let arguments = [["--port", &port_text], bind, save, ["--dir", &folder]];
                Line {
                    program: REDIS,
                    arguments: arguments.concat().iter().map(ToString::to_string).collect(),
                }
            }
            Self::Http => {
                room.file("file", &[b'x'; FILE_BYTES])?;
                let root = room.path().display().to_string();
                let name = format!("nginx-{port}.conf");
                let is_root = rustix::process::geteuid().is_root();
                let path = room.file(&name, nginx_configuration(&root, port, is_root).as_bytes())?;
                let log = format!("{root}/nginx-{port}.log");
                line(NGINX, ["-e", &log, "-c", &path.display().to_string()])
            }
        })
    }

    /// The command line of the client. `amount` is the result of [`Self::amount`].
    pub(super) fn client(self, port: u16, amount: u64) -> Line {
        let port = port.to_string();
        match self {
            Self::PingPong => line(
                SOCKPERF,
                ["pp", "--tcp", "-i", "127.0.0.1", "-p", &port, "-m", "14", "-t", "1", MESSAGES_A_SECOND],
            ),
            Self::Throughput => {
                line(SOCKPERF, ["tp", "--tcp", "-i", "127.0.0.1", "-p", &port, "-m", "14", "-t", "1"])
            }
            Self::Stream => {
                line(IPERF3, ["-c", "127.0.0.1", "-p", &port, "-l", "128K", "-n", STREAM_BYTES, "-J"])
            }
            Self::Redis { clients, pipeline } => {
                let [clients, pipeline, amount] =
                    [clients.into(), pipeline.into(), amount].map(|n: u64| n.to_string());
                line(
                    REDIS_BENCHMARK,
                    [
                        "-h",
                        "127.0.0.1",
                        "-p",
                        &port,
                        "-t",
                        "get",
                        "-c",
                        &clients,
                        "-P",
                        &pipeline,
                        "-n",
                        &amount,
                        "--csv",
                    ],
                )
            }
            Self::Http => {
                let address = format!("http://127.0.0.1:{port}/file");
                line(WRK, ["-t1", &format!("-c{WRK_CLIENTS}"), &format!("-d{amount}s"), &address])
            }
        }
    }

    /// Reads the client's result from its output.
    pub(super) fn value(self, said: &str) -> Option<f64> {
        match self {
            Self::PingPong => said::ping_pong_ns(said),
            Self::Throughput => said::throughput_millions(said),
            Self::Stream => said::stream_gb(said),
            Self::Redis { .. } => said::redis_millions(said),
            Self::Http => said::wrk_millions(said),
        }
    }

    /// The amount for the next client, after one with this result: requests of Redis, seconds of wrk. With
    /// rings each connection has [`REQUESTS_EACH`].
    pub(super) fn amount(self, millions_a_second: Option<f64>, has_rings: bool) -> u64 {
        let rate = millions_a_second.map(|millions| millions * 1e6);
        match self {
            Self::Http => {
                let least = if has_rings { WRK_CLIENTS * REQUESTS_EACH } else { 0 };
                let seconds = rate.map_or(0, |rate| (least as f64 / rate).ceil() as u64);
                seconds.clamp(WRK_SECONDS, WRK_SECONDS_MOST)
            }
            Self::Redis { clients, pipeline } => {
                let each = if has_rings { REQUESTS_EACH } else { 0 };
                let least = u64::from(clients) * u64::from(pipeline) * each;
                let seconds = if clients > 1 { REDIS_MANY_SECONDS } else { REDIS_SECONDS };
                let lasts = rate.map_or(0, |rate| (rate * seconds) as u64);
                lasts.clamp(least.clamp(REDIS_FIRST, REDIS_MOST), REDIS_MOST)
            }
            Self::PingPong | Self::Throughput | Self::Stream => 1,
        }
    }
}

/// One process in the foreground, which ends at a signal; its own user stays the same.
fn nginx_configuration(root: &str, port: u16, is_root: bool) -> String {
    let user = if is_root { "user root;\n" } else { "" };
    let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temps = kinds.map(|kind| format!("{kind}_temp_path \"{root}/temp-{port}-{kind}\";\n")).concat();
    format!(
        "daemon off;\nmaster_process off;\npid \"{root}/nginx-{port}.pid\";\n{user}events {{ worker_connections 256; }}\n\
         http {{\naccess_log off;\nkeepalive_requests 1000000000;\n{temps}\
         server {{ listen 127.0.0.1:{port}; root \"{root}\"; }}\n}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &Line) -> String {
        format!("{} {}", line.program.0, line.arguments.join(" "))
    }

    #[test]
    fn clients_are_told() {
        let of = |load: Load| words(&load.client(4711, 20_000));
        assert_eq!(of(Load::PingPong), "sockperf pp --tcp -i 127.0.0.1 -p 4711 -m 14 -t 1 --mps=10000000");
        assert_eq!(of(Load::Throughput), "sockperf tp --tcp -i 127.0.0.1 -p 4711 -m 14 -t 1");
        assert_eq!(of(Load::Stream), "iperf3 -c 127.0.0.1 -p 4711 -l 128K -n 1G -J");
        assert_eq!(
            of(Load::Redis { clients: 50, pipeline: 16 }),
            "redis-benchmark -h 127.0.0.1 -p 4711 -t get -c 50 -P 16 -n 20000 --csv"
        );
        assert_eq!(words(&Load::Http.client(4711, 7)), "wrk -t1 -c64 -d7s http://127.0.0.1:4711/file");
    }

    #[test]
    fn servers_are_told() {
        let room = Room::new().unwrap();
        let root = room.path().display().to_string();
        let of = |load: Load| words(&load.server(4711, &room).unwrap());
        assert_eq!(of(Load::PingPong), "sockperf server --tcp -i 127.0.0.1 -p 4711");
        assert_eq!(of(Load::Stream), "iperf3 -s -B 127.0.0.1 -p 4711");
        let redis = Load::Redis { clients: 1, pipeline: 1 };
        assert_eq!(of(redis), format!("redis-server --port 4711 --bind 127.0.0.1 --save  --dir {root}"));
        assert_eq!(of(Load::Http), format!("nginx -e {root}/nginx-4711.log -c {root}/nginx-4711.conf"));
        assert_eq!(std::fs::read(room.path().join("file")).unwrap().len(), FILE_BYTES);
    }

    #[test]
    fn nginx_keeps_to_its_folder_and_to_loopback() {
        let text = nginx_configuration("/r", 4711, true);
        assert!(text.contains("listen 127.0.0.1:4711;") && text.contains("user root;"), "{text}");
        assert!(text.contains("daemon off;") && text.contains("master_process off;"), "{text}");
        assert!(
            text.lines().filter(|line| line.contains("_temp_path")).all(|line| line.contains("\"/r/")),
            "{text}"
        );
        assert!(!nginx_configuration("/r", 4711, false).contains("user"));
    }

    #[test]
    fn readings_last_and_with_rings_are_long_for_each_connection() {
        let load = Load::Redis { clients: 1, pipeline: 1 };
        assert_eq!((load.amount(None, false), load.amount(None, true)), (4000, 10_000));
        assert_eq!((load.amount(Some(0.05), false), load.amount(Some(0.1), true)), (20_000, 40_000));
        assert_eq!((load.amount(Some(1e-9), false), load.amount(Some(1e-9), true)), (4000, 10_000));
        assert_eq!(load.amount(Some(1e9), true), 16_000_000);
        let many = Load::Redis { clients: 50, pipeline: 1 };
        assert_eq!((many.amount(Some(0.05), false), many.amount(None, true)), (100_000, 500_000));
        assert_eq!(Load::Redis { clients: 50, pipeline: 16 }.amount(Some(0.7), true), 8_000_000);
        let wrk = |rate| Load::Http.amount(rate, true);
        assert_eq!((wrk(None), wrk(Some(1.0)), wrk(Some(0.2)), wrk(Some(0.001))), (2, 2, 4, 20));
        assert_eq!(Load::Http.amount(Some(0.001), false), 2);
    }
}
