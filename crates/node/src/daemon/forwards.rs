//! A relay's forwards: starts and ends their processes; and connections to managers that a relay forwards.

use std::net::{IpAddr, SocketAddr};

use proto::ids::NodeId;
use proto::manager::{Input, PeerConn};
use proto::wire::relay::ForwardNo;
use rustix::event::epoll::{self, EventFlags};
use trust::channel::Channel;

use super::{Daemon, Key, clock, watch};
use crate::forward::{LocalForward, Route};
use crate::network::{Network, is_here};
use crate::remote::Remote;

impl Daemon {
    /// Begins to connect to a node at a port of the relay's host.
    pub(super) fn dial_relayed(&mut self, node: NodeId, relay: NodeId, through: PeerConn, port: u16) {
        let dialled = self.remote_via(node, relay, through, port);
        let failed = dialled.map_or_else(Some, |remote| self.add_remote(remote));
        if let Some(why) = failed {
            self.follow_up.push(Input::DialFailed { node, why: format!("via node {relay}: {why}") });
        }
    }

    fn remote_via(
        &mut self,
        node: NodeId,
        relay: NodeId,
        through: PeerConn,
        port: u16,
    ) -> Result<Remote, String> {
        let network = self.network.as_ref().filter(|network| !network.is_revoked);
        let host = network.and_then(|network| Some((network, network.remotes.get(&through)?.from())));
        let (network, host) = host.ok_or_else(|| format!("the session with node {relay} was lost"))?;
        let channel = Channel::dial(&network.identity, node, clock()).map_err(|error| error.to_string())?;
        let remote = Remote::dial(SocketAddr::new(host, port), node, channel);
        let mut remote = remote.map_err(|error| error.to_string())?;
        remote.via = Some(relay);
        Ok(remote)
    }

    /// Answered in the follow-up, before anything else is heard.
    pub(super) fn open_forward(
        &mut self,
        forward: ForwardNo,
        from: (NodeId, PeerConn),
        to: (NodeId, PeerConn),
        at: Option<SocketAddr>,
    ) {
        let route = self.network.as_ref().ok_or_else(|| "this node has no certificate".to_owned());
        let route = route.and_then(|network| route_of(network, from, to, at));
        let started = route.and_then(|route| {
            let started = LocalForward::start(&route, self.forwards.values());
            started.map_err(|error| match error.kind() {
                std::io::ErrorKind::AddrInUse => format!(
                    "port {} of {} is in use on the relay's host: start the program that connects again, with another port",
                    route.target.port(),
                    route.target.ip()
                ),
                _ => format!("its process cannot be started ({error}): see the log of the relay's manager"),
            })
        });
        let result = started.and_then(|(mut local, at)| {
            let watched = watch(&self.epoll, &local.pidfd, Key::ForwardDeath(forward), EventFlags::IN);
            if let Err(errno) = watched {
                // Its end could not be noticed.
                local.end();
                return Err(errno.to_string());
            }
            self.forwards.insert(forward, local);
            Ok(at)
        });
        if let Err(why) = &result {
            self.warn(format!("a forward from node {} to node {} is refused: {why}", from.0, to.0));
        }
        self.follow_up.push(Input::ForwardReady { forward, result });
    }

    pub(super) fn renew_forward(&self, forward: ForwardNo) {
        if let Some(local) = self.forwards.get(&forward) {
            local.renew();
        }
    }

    pub(super) fn drain_forward(&mut self, forward: ForwardNo) {
        if let Some(local) = self.forwards.get_mut(&forward) {
            local.drain();
        }
    }

    pub(super) fn close_forward(&mut self, forward: ForwardNo) {
        if let Some(local) = self.forwards.get_mut(&forward) {
            local.kill();
        }
    }

    pub(super) fn forward_died(&mut self, forward: ForwardNo) {
        let Some(local) = self.forwards.get_mut(&forward) else { return };
        if local.reap() {
            let _ = epoll::delete(&self.epoll, &local.pidfd);
            self.forwards.remove(&forward);
            self.tell(Input::ForwardGone { forward });
        }
    }

    /// None outlives its manager.
    pub(super) fn end_forwards(&mut self) {
        self.forwards.values_mut().for_each(LocalForward::end);
        self.forwards.clear();
    }
}

/// Between which addresses; the error says why not.
fn route_of(
    network: &Network,
    (from, its): (NodeId, PeerConn),
    (to, theirs): (NodeId, PeerConn),
    at: Option<SocketAddr>,
) -> Result<Route, String> {
    let remotes = network.remotes.get(&its).zip(network.remotes.get(&theirs));
    let (near, far) = remotes.ok_or("a session was just lost")?;
    let own = |remote: &Remote| remote.own_address().map_err(|error| error.to_string());
    let mut allowed: Vec<IpAddr> = network.hosts.addresses(from).iter().map(SocketAddr::ip).collect();
    allowed.push(near.from());
    let allowed = allowed.iter().map(IpAddr::to_canonical).collect();
    let target = target_of(to, network.hosts.addresses(to), far.from(), at, is_here)?;
    Ok(Route { listen: own(near)?, allowed, source: own(far)?, target, is_end_point: at.is_some() })
}

/// The end point, if it is at an address of the node; else its manager, at the address that is used by now.
fn target_of(
    node: NodeId,
    known: &[SocketAddr],
    used: IpAddr,
    at: Option<SocketAddr>,
    is_here: impl Fn(IpAddr) -> bool,
) -> Result<SocketAddr, String> {
    let target = match at {
        Some(at) if known.iter().any(|known| known.ip() == at.ip()) => at,
        Some(at) => return Err(format!("{} is no address of node {node}", at.ip())),
        None => {
            let same = known.iter().find(|known| known.ip() == used);
            *same.or(known.first()).ok_or_else(|| format!("no address of node {node} is known"))?
        }
    };
    // A node may say of any address that it is its own.
    if is_here(target.ip()) {
        return Err(format!("{} is an address of the relay's own host", target.ip()));
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_connects_to_no_address_but_the_nodes_own() {
        let node = NodeId::new(8).unwrap();
        let at = |text: &str| -> SocketAddr { text.parse().unwrap() };
        let known = [at("192.0.2.1:7411"), at("192.0.2.2:7411"), at("127.0.0.1:7411")];
        let target = |used: &str, at: Option<&str>| {
            let at = at.map(|at| at.parse().unwrap());
            target_of(node, &known, used.parse().unwrap(), at, |ip| ip.is_loopback())
        };
        assert_eq!(target("192.0.2.2", None), Ok(known[1]));
        assert_eq!(target("192.0.2.9", None), Ok(known[0]), "it has come from another address");
        assert_eq!(target("192.0.2.1", Some("192.0.2.2:4000")), Ok(at("192.0.2.2:4000")));
        let refused = target("192.0.2.1", Some("192.0.2.3:4000")).unwrap_err();
        assert_eq!(refused, "192.0.2.3 is no address of node 8");
        for (used, at) in [("192.0.2.1", Some("127.0.0.1:4000")), ("127.0.0.1", None)] {
            let refused = target(used, at).unwrap_err();
            assert_eq!(refused, "127.0.0.1 is an address of the relay's own host");
        }
        let unknown = target_of(node, &[], known[0].ip(), None, |_| false).unwrap_err();
        assert_eq!(unknown, "no address of node 8 is known");
    }
}
