//! A hostile member of the cluster: it has a certificate, and says what it is told to, a line of its standard
//! input at a time.

use std::io::{BufRead, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use proto::ids::NodeId;
use proto::time::Instant;
use proto::wire::encode;
use proto::wire::peer::PeerMessage;
use proto::wire::program::Incarnation;
use proto::wire::record::RecordKind;
use trust::channel::{Channel, PIECE_BYTES};
use trust::hosts::HostMap;
use trust::identity::Identity;
use trust::store::Store;

use super::{Answer, CLUSTER};

/// Between two looks at the socket and at the input.
const PAUSE: Duration = Duration::from_millis(1);
/// After so many of them a heartbeat.
const BEAT_EVERY: u64 = 200;

struct Member {
    socket: TcpStream,
    channel: Channel,
    identity: Identity,
    greeted: bool,
}

/// Connects as `node` to the manager of `to`. Each line that was obeyed is printed:
///
/// - `hello`: what a manager says first; heartbeats follow, and no answer to anything.
/// - `tell NODE ADDRESS …`: where nodes are; its own address, too, if it names itself.
/// - `own ADDRESS COUNT`: that its own address is this one, then the next one, and so on, so many times.
pub(super) fn run(node: NodeId, to: NodeId, at: SocketAddr) -> Answer {
    let store = node::hosts::directory(CLUSTER).ok_or("no directory")?;
    let store = Store::open(&store)?.ok_or("it has not joined")?;
    let identity = Identity::load(&store, node)?.ok_or("it has no certificate")?;
    let socket = TcpStream::connect(at)?;
    socket.set_nonblocking(true)?;
    let channel = Channel::dial(&identity, to, Instant::from_nanos(0))?;
    let mut member = Member { socket, channel, identity, greeted: false };
    let lines = input();
    for round in 0_u64.. {
        if let Err(why) = member.pump() {
            return Ok(format!("the connection has ended: {why}"));
        }
        match lines.try_recv() {
            Ok(line) => {
                member.obey(&line)?;
                println!("{line}");
                std::io::stdout().flush()?;
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => break,
        }
        if member.greeted && round % BEAT_EVERY == 0 {
            member.say(&PeerMessage::Heartbeat { sequence: round, echo: None })?;
        }
        std::thread::sleep(PAUSE);
    }
    Ok("its input has ended".to_owned())
}

fn input() -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

impl Member {
    /// What waits is sent, and what comes is taken and forgotten.
    fn pump(&mut self) -> Result<(), String> {
        let mut piece = [0; PIECE_BYTES];
        loop {
            self.channel.write_to(&mut self.socket).map_err(|error| error.to_string())?;
            match self.socket.read(&mut piece) {
                Ok(0) => return Err("closed".to_owned()),
                Ok(read) => {
                    let came = self.channel.received(piece.get(..read).unwrap_or_default());
                    came.map_err(|error| error.to_string())?;
                    while self.channel.next_event().is_some() {}
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn say(&mut self, message: &PeerMessage) -> Result<(), Box<dyn std::error::Error>> {
        Ok(self.channel.send(RecordKind::Message, &encode(message)?)?)
    }

    fn tell(&mut self, hosts: &HostMap) -> Result<(), Box<dyn std::error::Error>> {
        Ok(self.channel.send(RecordKind::Hosts, &hosts.to_bytes()?)?)
    }

    fn obey(&mut self, line: &str) -> Result<(), Box<dyn std::error::Error>> {
        let node = self.identity.node;
        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["hello"] => {
                self.greeted = true;
                let (cluster, host) = (CLUSTER.to_owned(), format!("host-{node}"));
                self.say(&PeerMessage::Hello { node, incarnation: Incarnation(1), cluster, host })
            }
            ["tell", pairs @ ..] => {
                let mut hosts = HostMap::default();
                for pair in pairs.chunks_exact(2) {
                    if let [other, address] = pair {
                        hosts.set(other.parse()?, address.parse()?);
                    }
                }
                self.tell(&hosts)
            }
            ["own", address, count] => {
                let first: std::net::SocketAddrV4 = address.parse()?;
                for nth in 0..count.parse()? {
                    let ip = std::net::Ipv4Addr::from(u32::from(*first.ip()) + nth);
                    let mut hosts = HostMap::default();
                    hosts.set(node, SocketAddr::from((ip, first.port())));
                    self.tell(&hosts)?;
                    self.pump()?;
                    std::thread::sleep(PAUSE);
                }
                Ok(())
            }
            other => Err(format!("what is {other:?}?").into()),
        }
    }
}
