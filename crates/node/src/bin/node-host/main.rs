//! One host of a cluster, for the tests in network namespaces: makes or joins a cluster, runs a manager,
//! sends it requests.
//!
//! The keys are where `XDG_CONFIG_HOME` says, and the first word says what to do. It prints what came of it
//! on one line, or ends with 1 and prints why not.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

mod hostile;

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use node::config::Settings;
use node::hosts::{self, JoinOptions};
use node::runtime_dir::{ClusterDir, ClusterName};
use node::{Daemon, DaemonOptions};
use node_client::{AttachOptions, Client, Found};
use proto::ids::{NodeId, SegmentId, SegmentKey};

type Answer = Result<String, Box<dyn Error>>;

const CLUSTER: &str = "lab";
/// For each answer of the authority.
const LIMIT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match obey(&words) {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn dir(runtime: &str) -> Result<ClusterDir, Box<dyn Error>> {
    Ok(ClusterDir::new(PathBuf::from(runtime), ClusterName::new(CLUSTER)?))
}

fn obey(words: &[&str]) -> Answer {
    let node = |word: &str| -> Result<NodeId, String> { word.parse() };
    match words {
        ["init", id, address] => {
            let made = hosts::init(CLUSTER, node(id)?, address.parse()?)?;
            Ok(format!("{} {}", made.node, made.address))
        }
        ["token", life_s, of @ ..] => {
            let of = of.first().map(|id| node(id)).transpose()?;
            Ok(hosts::token(CLUSTER, of, Duration::from_secs(life_s.parse()?))?.to_string())
        }
        ["join", host, token, id] => {
            let options = JoinOptions {
                host: (*host).to_owned(),
                token: token.parse()?,
                node: Some(node(id)?),
                address: None,
                limit: LIMIT,
            };
            let joined = hosts::join(options)?;
            Ok(format!("{} {}", joined.node, joined.address))
        }
        ["renew", id, host @ ..] => {
            let renewed = hosts::renew(CLUSTER, Some(node(id)?), host.first().copied(), LIMIT)?;
            Ok(format!("{}", renewed.node))
        }
        ["revoke", id, runtime] => {
            let revoked = hosts::revoke(&dir(runtime)?, node(id)?)?;
            Ok(format!("already {} passed on {}", revoked.already, revoked.is_passed_on))
        }
        ["leave", id, runtime, host @ ..] => {
            let (runtime, host) = (&dir(runtime)?, host.first().copied());
            let options = hosts::LeaveOptions { runtime, node: Some(node(id)?), host, limit: LIMIT };
            Ok(hosts::leave(options)?.to_string())
        }
        ["run", id, runtime] => run(node(id)?, runtime),
        ["status", id, runtime] => {
            let status = node::cluster::status(&dir(runtime)?, node(id)?)?;
            let links = status.links.iter().map(|link| {
                let (state, far) = (format!("{:?}", link.session), link.other_host);
                let why = link.reason.as_deref().unwrap_or("-");
                format!("{} {state} {far} {} {why}", link.peer, link.peer_host)
            });
            Ok(links.collect::<Vec<_>>().join("\n"))
        }
        ["connect", id, runtime, to, segment] => {
            let options = AttachOptions {
                runtime_dir: Some(PathBuf::from(runtime)),
                cluster: Some(CLUSTER.to_owned()),
                node: Some(node(id)?),
                name: None,
            };
            let client = Client::attach(&options, |_| {})?;
            let key = SegmentKey::Segment(SegmentId(segment.parse()?));
            Ok(match client.find_segment(node(to)?, key, Duration::ZERO)? {
                Found::Here(..) => "connected".to_owned(),
                Found::OnOtherHost { addresses } => format!("on another host than {addresses:?}"),
            })
        }
        ["hostile", id, to, address] => hostile::run(node(id)?, node(to)?, address.parse()?),
        ["answer", address] => answer(address),
        ["disturb", address] => disturb(address),
        _ => Err(format!("what is {words:?}?").into()),
    }
}

fn run(node: NodeId, runtime: &str) -> Answer {
    tracing_subscriber::fmt().with_target(false).with_writer(std::io::stderr).with_ansi(false).init();
    let settings = Settings {
        name: Some(format!("host-{node}")),
        heartbeat_interval: Duration::from_millis(500),
        heartbeat_limit: Duration::from_secs(4),
        hosts: hosts::directory(CLUSTER),
        ..Settings::default()
    };
    let dir = dir(runtime)?;
    node::runtime_dir::prepare_root_of(&dir)?;
    let options = DaemonOptions { dir, node, settings, signals: true };
    Daemon::start(&options)?.run()?;
    Ok("ended".to_owned())
}

/// Connections that say nothing, too little, or what is no TLS; they stay until the input ends.
fn disturb(address: &str) -> Answer {
    let mut open = Vec::new();
    for _ in 0..40 {
        open.push(TcpStream::connect(address)?);
    }
    let hello = proto::wire::record::frame(proto::wire::record::RecordKind::Message, b"TLN1 in plain text")?;
    // The last is the beginning of a TLS record that never ends.
    for garbage in [
        b"GET / HTTP/1.1\r\n\r\n".as_slice(),
        b"SSH-2.0-x\r\n",
        &[0xff; 70_000],
        &hello,
        &[22, 3, 1, 2, 0, 1],
    ] {
        let mut socket = TcpStream::connect(address)?;
        // It may be closed before all is said.
        let _ = socket.write_all(garbage);
        open.push(socket);
    }
    println!("ready");
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(format!("{} connections", open.len()))
}

/// Takes each connection and ends it at once. Says to which of this host's addresses it came, each once.
fn answer(address: &str) -> Answer {
    let listener = std::net::TcpListener::bind(address)?;
    println!("ready");
    let mut seen = std::collections::BTreeSet::new();
    for socket in listener.incoming() {
        let ip = socket?.local_addr()?.ip();
        if seen.insert(ip) {
            println!("{ip}");
            std::io::stdout().flush()?;
        }
    }
    Ok("ended".to_owned())
}
