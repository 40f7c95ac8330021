//! Sockets as a kernel has them: they keep order and lose nothing until they close; and the adversary between
//! nodes.

use std::time::Duration;

use proto::ids::NodeId;
use proto::manager::{Credentials, Descriptor, DescriptorKind, FdToken, Input, PeerConn, ProgramConn};
use proto::time::Instant;
use proto::wire::{self, PROTOCOL_VERSION};
use serde::de::DeserializeOwned;

use crate::world::{ADDRESS, World};

/// One end of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Manager { node: usize, life: u64 },
    Actor(usize),
}

#[derive(Debug)]
pub struct Channel {
    /// For sockets between managers: dialler first.
    pub ends: [Place; 2],
    /// When the last thing arrives at each end.
    pub last: [Instant; 2],
    /// Everything under way is lost.
    pub cut: bool,
    /// This end has closed it.
    pub closed: [bool; 2],
}

#[derive(Debug, Clone)]
pub enum Parcel {
    Opened {
        channel: u64,
        dialled: Option<NodeId>,
        credentials: Credentials,
    },
    Data {
        channel: u64,
        bytes: Vec<u8>,
        beside: Vec<DescriptorKind>,
    },
    Closed {
        channel: u64,
    },
    Seen(NodeId),
    DialFailed(NodeId),
    /// An actor tries to attach (again).
    Attach,
}

impl World {
    pub fn open(&mut self, ends: [Place; 2]) -> u64 {
        let id = self.next_channel;
        self.next_channel += 1;
        let channel = Channel { ends, last: [self.now; 2], cut: false, closed: [false; 2] };
        self.channels.insert(id, channel);
        id
    }

    pub fn delay(&mut self, (least, most): (u64, u64)) -> Duration {
        Duration::from_micros(least + self.rng.below(most - least + 1))
    }

    pub fn post(&mut self, delay: Duration, to: Place, parcel: Parcel) {
        self.sequence += 1;
        self.queue.insert((self.now + delay, self.sequence), (to, parcel));
    }

    /// Puts a parcel on its way to one end, after what is under way there.
    pub fn arrive(&mut self, id: u64, end: usize, delay: Duration, parcel: Parcel) {
        let now = self.now;
        let channel = self.channels.get_mut(&id).expect("an open socket");
        let at = channel.last[end].max(now + delay);
        channel.last[end] = at;
        let to = channel.ends[end];
        self.post(at.since(now), to, parcel);
    }

    pub fn send(&mut self, index: usize, id: u64, from: Place, mut bytes: Vec<u8>, tokens: &[FdToken]) {
        let node = &self.nodes[index];
        let beside: Vec<DescriptorKind> =
            tokens.iter().map(|token| *node.tokens.get(token).expect("an open descriptor is sent")).collect();
        bytes[4..6].copy_from_slice(&node.version.to_le_bytes());
        self.send_from(id, from, bytes, beside);
    }

    pub fn send_from(&mut self, id: u64, from: Place, bytes: Vec<u8>, beside: Vec<DescriptorKind>) {
        let Some(channel) = self.channels.get(&id) else { return };
        let end = usize::from(channel.ends[0] == from);
        assert!(!channel.closed[1 - end], "something is sent on a socket that its sender has closed");
        if channel.closed[end] {
            return;
        }
        let range = match channel.ends[end] {
            Place::Manager { .. } if matches!(from, Place::Manager { .. }) => self.net.peer_us,
            _ => self.net.program_us,
        };
        let delay = self.delay(range);
        self.arrive(id, end, delay, Parcel::Data { channel: id, bytes, beside });
    }

    pub fn close(&mut self, id: u64, from: Place) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        let end = usize::from(channel.ends[0] == from);
        if std::mem::replace(&mut channel.closed[1 - end], true) {
            return;
        }
        if channel.closed[end] {
            self.channels.remove(&id);
        } else {
            self.arrive(id, end, Duration::from_micros(10), Parcel::Closed { channel: id });
        }
    }

    /// The adversary cuts a connection between two managers: what is under way is lost.
    pub fn cut(&mut self, a: usize, b: usize) {
        let between: Vec<u64> = self
            .channels
            .iter()
            .filter(|(_, channel)| nodes_of(&channel.ends) == Some(pair(a, b)) && !channel.cut)
            .map(|(&id, _)| id)
            .collect();
        for id in between {
            if let Some(channel) = self.channels.get_mut(&id) {
                channel.cut = true;
            }
            for end in 0..2 {
                let delay = self.delay(self.net.peer_us);
                self.arrive(id, end, delay, Parcel::Closed { channel: id });
            }
        }
    }

    /// Nothing passes between two nodes, and nothing is lost.
    pub fn part(&mut self, a: usize, b: usize) {
        if a != b {
            self.parted.insert(pair(a, b));
        }
    }

    pub fn heal(&mut self) {
        self.parted.clear();
        for (_, to, parcel) in std::mem::take(&mut self.held) {
            self.post(Duration::ZERO, to, parcel);
        }
    }

    pub fn deliver(&mut self, to: Place, parcel: Parcel) {
        if let Parcel::Opened { channel, .. } | Parcel::Data { channel, .. } | Parcel::Closed { channel } =
            &parcel
        {
            let Some(channel) = self.channels.get(channel) else { return };
            if channel.cut && !matches!(parcel, Parcel::Closed { .. } | Parcel::Opened { .. }) {
                return;
            }
            if let Some(nodes) = nodes_of(&channel.ends).filter(|nodes| self.parted.contains(nodes)) {
                return self.held.push((nodes, to, parcel));
            }
        }
        match to {
            Place::Actor(actor) => self.deliver_to_actor(actor, parcel),
            Place::Manager { node, life } => {
                if self.nodes[node].life != life || self.nodes[node].manager.is_none() {
                    return;
                }
                if self.nodes[node].hung {
                    self.nodes[node].inbox.push(parcel);
                } else {
                    self.give(node, parcel);
                }
            }
        }
    }

    /// What a driver does with what it reads.
    pub fn give(&mut self, index: usize, parcel: Parcel) {
        let input = match parcel {
            Parcel::Seen(node) if self.apart => Input::HostSeen { node },
            Parcel::Seen(node) => Input::PeerSeen { node },
            Parcel::DialFailed(node) => Input::DialFailed { node, why: "connection refused".to_owned() },
            Parcel::Attach => return,
            Parcel::Opened { channel, dialled, credentials } => match self.is_program(channel) {
                true => Input::ProgramConnected { program: ProgramConn(channel), credentials },
                false if self.apart => {
                    let node = self.other_end(channel, index);
                    Input::HostConnected { peer: PeerConn(channel), dialled, node, address: ADDRESS }
                }
                false => Input::PeerConnected { peer: PeerConn(channel), dialled, credentials },
            },
            Parcel::Closed { channel } => {
                let program = self.is_program(channel);
                self.close_quietly(channel, Place::Manager { node: index, life: self.nodes[index].life });
                match program {
                    true => Input::ProgramGone { program: ProgramConn(channel) },
                    false => Input::PeerGone { peer: PeerConn(channel) },
                }
            }
            Parcel::Data { channel, bytes, beside } => {
                let descriptors = self.receive(index, &beside);
                if self.is_program(channel) {
                    let program = ProgramConn(channel);
                    match self.decode(index, bytes) {
                        Ok(message) => Input::ProgramMessage { program, message, descriptors },
                        Err(error) => Input::ProgramGarbage { program, error, descriptors },
                    }
                } else {
                    assert!(!self.apart || beside.is_empty(), "descriptors do not leave a host");
                    let peer = PeerConn(channel);
                    match self.decode(index, bytes) {
                        Ok(message) => Input::PeerMessage { peer, message, descriptors },
                        Err(error) => Input::PeerGarbage { peer, error, descriptors },
                    }
                }
            }
        };
        self.input(index, input);
    }

    /// A manager understands its own version alone.
    pub fn decode<T: DeserializeOwned>(
        &self,
        index: usize,
        mut bytes: Vec<u8>,
    ) -> Result<T, wire::CodecError> {
        if let Some(version) = bytes.get_mut(4..6) {
            let theirs = u16::from_le_bytes([version[0], version[1]]);
            if theirs != self.nodes[index].version {
                return Err(wire::CodecError::OtherVersion { theirs });
            }
            version.copy_from_slice(&PROTOCOL_VERSION.to_le_bytes());
        }
        wire::decode(&bytes)
    }

    /// The kernel makes new descriptors for the receiver.
    pub fn receive(&mut self, index: usize, beside: &[DescriptorKind]) -> Vec<Descriptor> {
        let mut descriptors = Vec::new();
        for &kind in beside {
            let token = FdToken(self.next_token);
            self.next_token += 1;
            self.nodes[index].tokens.insert(token, kind);
            descriptors.push(Descriptor { token, kind });
        }
        descriptors
    }

    /// Whose manager is at the other end.
    fn other_end(&self, channel: u64, index: usize) -> NodeId {
        let ends = self.channels.get(&channel).map(|channel| channel.ends).into_iter().flatten();
        let mut others = ends.filter_map(|end| match end {
            Place::Manager { node, .. } if node != index => Some(node),
            _ => None,
        });
        self.nodes[others.next().expect("another manager")].id
    }

    pub fn is_program(&self, channel: u64) -> bool {
        self.channels.get(&channel).is_some_and(|channel| matches!(channel.ends[0], Place::Actor(_)))
    }

    /// A reader that has seen the end closes its own end.
    pub fn close_quietly(&mut self, id: u64, at: Place) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        let end = usize::from(channel.ends[1] == at);
        channel.closed[end] = true;
        if channel.closed == [true, true] {
            self.channels.remove(&id);
        }
    }
}

pub fn pair(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

pub fn nodes_of(ends: &[Place; 2]) -> Option<(usize, usize)> {
    match *ends {
        [Place::Manager { node: a, .. }, Place::Manager { node: b, .. }] => Some(pair(a, b)),
        _ => None,
    }
}
