//! Connections with managers of other hosts, and with hosts that join: carries records between them and the
//! state machine.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::Duration;

use proto::ids::NodeId;
use proto::manager::{Input, PeerConn, Revoked};
use proto::wire::peer::PeerMessage;
use proto::wire::record::RecordKind;
use proto::wire::{decode, encode};
use rustix::event::epoll::{self, EventFlags};
use trust::channel::{Channel, Event, HANDSHAKE_LIMIT, Purpose};
use trust::hosts::HostMap;

use super::{Daemon, Key, clock, watch};
use crate::network::Network;
use crate::remote::Remote;

/// Connections accepted before others get their turn.
const ACCEPTS_AT_ONCE: usize = 16;
/// After what time accepting is tried again where no descriptor was left.
const NO_DESCRIPTOR_PAUSE: Duration = Duration::from_millis(100);

impl Daemon {
    /// Tells the machine of all nodes whose addresses are known.
    pub(super) fn look_for_hosts(&mut self) {
        let nodes: Vec<_> = self.network.iter().flat_map(|network| network.hosts.nodes()).collect();
        self.hosts_seen(&nodes);
    }

    pub(super) fn hosts_seen(&mut self, nodes: &[NodeId]) {
        let own = self.node;
        if self.network.as_ref().is_some_and(|network| network.is_revoked) {
            return;
        }
        for node in nodes.iter().filter(|node| **node != own) {
            self.tell(Input::HostSeen { node: *node });
        }
    }

    /// Nodes of which only others have told, who are gone, or for which there is no room any more.
    pub(super) fn forget_dropped(&mut self) {
        let Some(network) = &mut self.network else { return };
        let mut dropped = network.hosts.take_dropped();
        // Of who is gone the machine knows why. The other has proved who it is meanwhile, and says so next.
        let list = network.identity.revocations.list();
        dropped.retain(|node| !list.is_gone(*node));
        dropped.retain(|node| network.remotes.values().all(|remote| remote.node != Some(*node)));
        for node in dropped {
            self.tell(Input::HostRevoked { node, revoked: Revoked::Left });
        }
    }

    pub(super) fn remote(&mut self, peer: PeerConn) -> Option<&mut Remote> {
        self.network.as_mut()?.remotes.get_mut(&peer)
    }

    pub(super) fn accept_hosts(&mut self) {
        // One at a time of each, as long as there are any.
        let count = self.network.as_ref().map_or(0, |network| network.listeners.len());
        let mut waiting: VecDeque<usize> = (0..count).collect();
        for _ in 0..ACCEPTS_AT_ONCE {
            let (Some(network), Some(nth)) = (&mut self.network, waiting.pop_front()) else { return };
            let Some(listener) = network.listeners.get(nth) else { return };
            let accepted = listener.accept();
            if accepted.is_ok() {
                waiting.push_back(nth);
            }
            match accepted {
                // Nobody is to believe this node.
                Ok(_) if network.is_revoked => {}
                Ok((socket, from)) => {
                    let channel = Channel::accept(&network.identity, clock());
                    let crowded = network.one_too_many(from.ip());
                    if let Some(oldest) = crowded {
                        self.lose_remote(oldest, Some("too many others have connected since".to_owned()));
                    }
                    // One that is broken already is of no use.
                    if let Ok(remote) = Remote::accepted(socket, from, channel) {
                        self.add_remote(remote);
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) if error.raw_os_error().is_some_and(is_scarcity) => {
                    network.accept_again_at = Some(clock() + NO_DESCRIPTOR_PAUSE);
                    for listener in &network.listeners {
                        let _ = epoll::delete(&self.epoll, listener);
                    }
                    return self
                        .warn(format!("a connection from another host cannot be accepted yet: {error}"));
                }
                Err(_) => waiting.push_back(nth),
            }
        }
    }

    pub(super) fn add_remote(&mut self, remote: Remote) -> Option<String> {
        self.next_conn += 1;
        let peer = PeerConn(self.next_conn);
        let mut flags = EventFlags::IN;
        flags.set(EventFlags::OUT, remote.wants_write);
        if let Err(errno) = watch(&self.epoll, &remote, Key::Remote(peer), flags) {
            return Some(errno.to_string());
        }
        self.network.as_mut()?.remotes.insert(peer, remote);
        None
    }

    /// Begins to connect to a node on another host, or lets that wait for its turn; false: its address is not
    /// known.
    pub(super) fn dial_host(&mut self, node: NodeId) -> bool {
        let Some(network) = self.network.as_mut().filter(|network| network.hosts.get(node).is_some()) else {
            return false;
        };
        network.dial_addresses.begin(node);
        if network.dials.begin(node) {
            self.dial_now(node);
        }
        true
    }

    /// At the next of its addresses; at another one where that fails at once.
    fn dial_now(&mut self, node: NodeId) {
        loop {
            let Some(network) = &mut self.network else { return };
            let address = network.dial_addresses.next(node, network.hosts.addresses(node));
            let failed = match address {
                Some(address) => {
                    let channel = Channel::dial(&network.identity, node, clock());
                    let is_only = network.hosts.addresses(node).len() == 1;
                    let dial = |channel| {
                        let remote = Remote::dial(address, node, channel)?;
                        if is_only { Ok(()) } else { remote.give_up_sooner() }.map(|()| remote)
                    };
                    let remote = channel
                        .map_err(|error| error.to_string())
                        .and_then(|channel| dial(channel).map_err(|error| error.to_string()));
                    let failed = remote.map_or_else(Some, |remote| self.add_remote(remote));
                    failed.map(|why| format!("{why} (at {address})"))
                }
                None => Some("its address is not known any more".to_owned()),
            };
            let (Some(why), Some(network)) = (failed, &mut self.network) else { return };
            if let Some(why) = network.dial_addresses.failed(node, why) {
                network.dials.ended(node);
                return self.follow_up.push(Input::DialFailed { node, why });
            }
        }
    }

    /// An address did not lead to the node: another one is dialled in its turn, or the attempt has failed.
    fn address_failed(&mut self, node: NodeId, why: String) {
        let Some(network) = &mut self.network else { return };
        match network.dial_addresses.failed(node, why) {
            Some(why) => self.tell(Input::DialFailed { node, why }),
            None if network.dials.begin(node) => self.dial_now(node),
            None => {}
        }
    }

    /// An attempt is over, and others may begin.
    fn dial_those_who_wait(&mut self) {
        while let Some(node) = self.network.as_mut().and_then(|network| network.dials.next()) {
            self.dial_now(node);
        }
        if !self.follow_up.is_empty() {
            self.carry_out();
        }
    }

    pub(super) fn remote_ready(&mut self, peer: PeerConn) {
        let Some(remote) = self.remote(peer) else { return };
        match remote.stands() {
            Ok(true) => {}
            Ok(false) => return,
            Err(why) => return self.lose_remote(peer, Some(why)),
        }
        let (events, outcome) = remote.read();
        for event in events {
            // What the machine does with one may end the connection.
            let Some(remote) = self.remote(peer) else { return };
            if !remote.is_closing() {
                self.remote_event(peer, event);
            }
        }
        match outcome {
            Ok(()) => self.flush_remote(peer),
            Err(why) => self.lose_remote(peer, why),
        }
    }

    fn remote_event(&mut self, peer: PeerConn, event: Event) {
        match event {
            Event::Peer(_) if self.remote(peer).is_some_and(|remote| remote.announces) => self.announce(peer),
            Event::Peer(node) => {
                let Some(network) = &mut self.network else { return };
                let told = network.hosts.to_bytes().unwrap_or_default();
                let list = network.identity.revocations.list();
                let Some(remote) = network.remotes.get_mut(&peer) else { return };
                // A newer list may have come since the handshake.
                if remote.channel.proof().is_none_or(|proof| network.identity.revocations.refuses(proof)) {
                    return self.refuse_revoked(peer);
                }
                remote.node = Some(node);
                network.dials.proved(node);
                let (dialled, address, via) = (remote.dialled, remote.from(), remote.via);
                // The first word: for who has dialled, it is the proof that its certificate was accepted.
                if let Some(list) = list.as_bytes() {
                    remote.send(RecordKind::Revoked, list);
                }
                remote.send(RecordKind::Hosts, &told);
                self.tell(match via {
                    Some(relay) => Input::HostConnectedVia { peer, node, relay, address },
                    None => Input::HostConnected { peer, dialled, node, address },
                });
                self.dial_those_who_wait();
            }
            Event::Joiner | Event::Renewer(_) | Event::Leaver(_) => {
                if let Some(remote) = self.remote(peer) {
                    remote.hurry(clock());
                }
            }
            Event::Record(record) => {
                let purpose = self.remote(peer).map(|remote| remote.channel.purpose());
                match (purpose, record.kind) {
                    (Some(Purpose::Peer), RecordKind::Message) => self.tell(match decode(&record.body) {
                        Ok(message) => Input::PeerMessage { peer, message, descriptors: Vec::new() },
                        Err(error) => Input::PeerGarbage { peer, error, descriptors: Vec::new() },
                    }),
                    (Some(Purpose::Peer), RecordKind::Hosts) => self.heard_of_hosts(peer, &record.body),
                    (Some(Purpose::Peer), RecordKind::Revoked) => self.heard_of_revoked(peer, &record.body),
                    (Some(Purpose::Join), RecordKind::Join) => self.serve_join(peer, &record.body),
                    (Some(Purpose::Renew), RecordKind::Join) => self.serve_renewal(peer, &record.body),
                    (Some(Purpose::Leave), RecordKind::Join) => self.serve_leave(peer, &record.body),
                    _ => self.lose_remote(peer, Some("it sent a message of the wrong kind".to_owned())),
                }
            }
        }
    }

    fn heard_of_hosts(&mut self, peer: PeerConn, body: &[u8]) {
        let Some(network) = &mut self.network else { return };
        let Some(from) = network.remotes.get(&peer).and_then(|remote| remote.node) else { return };
        let mut told = match HostMap::from_bytes(body) {
            Ok(told) => told,
            Err(error) => return self.lose_remote(peer, Some(error.to_string())),
        };
        network.without_gone(&mut told, Some(from));
        let news = network.hosts.merge(from, &told);
        self.spread(&news);
    }

    /// Keeps what is new, passes it on, and tells the machine: soon, see [`crate::news`].
    pub(super) fn spread(&mut self, nodes: &[NodeId]) {
        let Some(network) = self.network.as_mut().filter(|_| !nodes.is_empty()) else { return };
        network.news.add(nodes);
        self.spread_if_due();
    }

    pub(super) fn spread_if_due(&mut self) {
        let Some(network) = &mut self.network else { return };
        let Network { news, hosts, .. } = network;
        let Some(seen) = news.take(clock(), |node| hosts.get(node).is_some()) else { return };
        let kept = network.hosts.save(&network.store);
        let all = network.hosts.to_bytes().unwrap_or_default();
        let told: Vec<_> = network
            .remotes
            .iter_mut()
            .filter(|(_, remote)| remote.node.is_some())
            .map(|(conn, remote)| (*conn, remote.send(RecordKind::Hosts, &all)))
            .collect();
        self.note_stored(HOSTS, kept);
        for (conn, fits) in told {
            if fits { self.flush_remote(conn) } else { self.lose_remote(conn, Some(UNREAD.to_owned())) }
        }
        self.hosts_seen(&seen);
        self.forget_dropped();
    }

    /// Whether this connection leads to another host; then the message is on its way.
    pub(super) fn send_to_host(&mut self, peer: PeerConn, message: &PeerMessage) -> bool {
        let bytes = encode(message);
        let Some(remote) = self.remote(peer) else { return false };
        let sent = match bytes {
            Ok(bytes) if !remote.send(RecordKind::Message, &bytes) => Err(UNREAD.to_owned()),
            Ok(_) => remote.flush(),
            Err(error) => Err(error.to_string()),
        };
        match sent {
            Ok(()) => self.watch_remote(peer),
            // The machine is being heard out.
            Err(why) => {
                self.warn(format!("a connection with another host is closed: {why}"));
                self.drop_remote(peer);
                self.follow_up.push(Input::PeerGone { peer });
            }
        }
        true
    }

    /// Whether this connection leads to another host; then it is closed after what was sent.
    pub(super) fn close_host(&mut self, peer: PeerConn) -> bool {
        let Some(remote) = self.remote(peer) else { return false };
        remote.close_soon(clock());
        self.flush_remote(peer);
        true
    }

    pub(super) fn flush_remote(&mut self, peer: PeerConn) {
        let Some(remote) = self.remote(peer) else { return };
        match remote.flush() {
            Ok(()) if remote.is_closing() && remote.channel.is_flushed() => drop(self.drop_remote(peer)),
            Ok(()) => self.watch_remote(peer),
            Err(why) => self.lose_remote(peer, Some(why)),
        }
    }

    fn watch_remote(&mut self, peer: PeerConn) {
        let Some(remote) = self.network.as_mut().and_then(|network| network.remotes.get_mut(&peer)) else {
            return;
        };
        let wants_write = remote.waits_for_room();
        if std::mem::replace(&mut remote.wants_write, wants_write) != wants_write {
            let mut flags = EventFlags::IN;
            flags.set(EventFlags::OUT, wants_write);
            let data = epoll::EventData::new_u64(Key::Remote(peer).encode());
            // It is in the set; if this fails all the same, the limits of the session end it.
            let _ = epoll::modify(&self.epoll, remote.as_fd(), data, flags);
        }
    }

    fn drop_remote(&mut self, peer: PeerConn) -> Option<Remote> {
        let network = self.network.as_mut()?;
        let remote = network.remotes.remove(&peer)?;
        if let Some(node) = remote.dialled {
            network.dials.ended(node);
        }
        let _ = epoll::delete(&self.epoll, remote.as_fd());
        remote.hang_up();
        Some(remote)
    }

    /// A connection ends, and whoever has to know is told why. `None`: the other side has closed it.
    pub(super) fn lose_remote(&mut self, peer: PeerConn, why: Option<String>) {
        let Some(remote) = self.drop_remote(peer) else { return };
        let from = remote.from();
        let closed = "the other side has closed the connection".to_owned();
        match (remote.node, remote.dialled) {
            (Some(node), _) => {
                if let Some(why) = why {
                    self.warn(format!("the connection with node {node} at {from} is closed: {why}"));
                    if let Some(network) = &mut self.network {
                        network.dial_addresses.broke(node);
                    }
                }
                self.tell(Input::PeerGone { peer });
            }
            // It is tried again.
            (None, _) if remote.announces => {}
            (None, Some(node)) if remote.channel.limit().is_some() => {
                let why = format!("{} (at {from})", why.unwrap_or(closed));
                if remote.refuses_us {
                    self.tell(Input::DialRefused { node, why });
                } else if let Some(relay) = remote.via {
                    self.tell(Input::DialFailed { node, why: format!("via node {relay}: {why}") });
                } else {
                    self.address_failed(node, why);
                }
            }
            _ if remote.is_closing() => {}
            _ => self.warn(format!(
                "a connection from {from} was closed before it proved its identity: {}",
                why.unwrap_or(closed)
            )),
        }
        self.dial_those_who_wait();
    }

    /// Gives up what has taken too long.
    pub(super) fn pass_time_of_hosts(&mut self) {
        let now = clock();
        let Some(network) = &mut self.network else { return };
        let overdue = network.overdue(now);
        if network.accept_again_at.is_some_and(|at| at <= now) {
            network.accept_again_at = None;
            for listener in &network.listeners {
                let _ = watch(&self.epoll, listener, Key::Network, EventFlags::IN);
            }
        }
        self.spread_if_due();
        self.store_again_if_due();
        self.announce_if_due();
        for peer in overdue {
            self.lose_remote(peer, Some(format!("no response within {} s", HANDSHAKE_LIMIT.as_secs())));
        }
    }

    /// What was said last is sent as far as it goes, and what is new is kept.
    pub(super) fn say_last_words(&mut self) {
        if let Some(network) = self.network.as_mut().filter(|network| network.news.is_any())
            && let Err(error) = network.hosts.save(&network.store)
        {
            self.warn(format!("{HOSTS} cannot be stored: {error}"));
        }
        for remote in self.network.iter_mut().flat_map(|network| network.remotes.values_mut()) {
            let _ = remote.flush();
        }
    }

    pub(super) fn next_timeout_of_hosts(&self) -> Option<proto::time::Instant> {
        self.network.as_ref().and_then(Network::next_timeout)
    }
}

/// What of other hosts is stored, in warnings.
pub(super) const HOSTS: &str = "the addresses of other hosts";

pub(super) const UNREAD: &str = "it does not read what it is sent";

/// No descriptor or memory is left, which another attempt at once would not change.
fn is_scarcity(code: i32) -> bool {
    use rustix::io::Errno;
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM].contains(&Errno::from_raw_os_error(code))
}
