//! Delivers messages and packets of programs.

use foreign::{Inbox, Looked};
use mad::ibsim::{
    ClientInfo, Control, MAGIC, Packet, control, inward_name, lid_from_wire, lid_to_wire, outward_name,
};
use mad::values::{Class, Gid, Method};
use mad::{Address, Layout, Lid, Mad};
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketAddrAny, SocketAddrUnix, connect, send, sendto};
use topology::PortIx;

use super::clients::{Client, is_segment};
use super::{Event, ServeError, Server, Source, TURN, sockets};
use crate::agents::{Carried, Passed};

/// What programs take for "could not be delivered": the system's number for a timeout.
const TIMED_OUT: u32 = 110;

/// Names of sockets that are tried for a program.
const NUMBERS_TRIED: usize = 1024;

/// Packets that wait as a port holds them up; further ones are lost.
const MOST_LATE: usize = 1 << 16;

/// How often [`Server::housekeeping`] is done.
const HOUSEKEEPING: std::time::Duration = std::time::Duration::from_millis(500);

/// Both kinds of messages are plain bytes.
fn bytes_of(control: &Control) -> [u8; 80] {
    zerocopy::transmute!(*control)
}

impl Server {
    pub(super) fn control_messages(&mut self, event: &mut dyn FnMut(Event)) -> Result<(), ServeError> {
        for _ in 0..TURN {
            let mut bytes = [0; 256];
            let (len, from) = match self.control.look(&mut bytes) {
                Ok(Looked::Datagram(len, from)) => (len, from),
                Ok(Looked::Stuck) => return Err(ServeError::Flooded),
                Err(Errno::INTR) => continue,
                Ok(Looked::Nothing | Looked::Later) | Err(_) => return Ok(()),
            };
            let message: Option<[u8; 80]> = bytes.get(..len).and_then(|bytes| bytes.try_into().ok());
            let message: Option<Control> = message.map(|bytes| zerocopy::transmute!(bytes));
            let (Some(mut message), Some(from)) = (message.filter(|message| message.magic == MAGIC), from)
            else {
                event(Event::Garbage { on: "control", len });
                continue;
            };
            if !self.obey(&mut message, event) {
                message.kind = control::ERROR;
            }
            self.reply(&message, &from);
        }
        Ok(())
    }

    /// To a program that does not take it in at once it is not sent: it waits for a response, and would be
    /// the first to.
    fn reply(&self, message: &Control, to: &SocketAddrAny) {
        let _ = sendto(&self.control, &bytes_of(message), SendFlags::DONTWAIT | SendFlags::NOSIGNAL, to);
    }

    fn obey(&mut self, message: &mut Control, event: &mut dyn FnMut(Event)) -> bool {
        if message.kind == control::CONNECT {
            return match self.connect(message, event) {
                Ok(()) => true,
                Err(why) => {
                    event(Event::Refused { why });
                    false
                }
            };
        }
        let number = message.client;
        let Some(client) = self.clients.by_number.get(&number) else { return false };
        let port = client.port;
        let info = *self.agents.port_info(port);
        let data = &mut message.data;
        match message.kind {
            control::DISCONNECT => self.leave(number, false, event),
            control::PORT => {
                data[..2].copy_from_slice(&info.lid().0.to_ne_bytes());
                data[2] = info.state().0;
            }
            control::VENDOR => {
                let node = self.agents.node_info(port);
                data[..4].copy_from_slice(&node.vendor().to_ne_bytes());
                data[4..8].copy_from_slice(&u32::from(node.device()).to_ne_bytes());
                data[8..12].copy_from_slice(&node.revision().to_ne_bytes());
                data[16..24].copy_from_slice(&1_u64.to_ne_bytes());
            }
            control::GID => {
                let gid = Gid::new(info.gid_prefix(), self.agents.node_info(port).port_guid());
                data[..16].copy_from_slice(&gid.0);
            }
            control::GUID => {
                data[..8].copy_from_slice(&self.agents.node_info(port).node_guid().0.to_be_bytes())
            }
            control::NODE_INFO => {
                data.fill(0);
                let node = self.agents.node_info(port);
                if let Ok(out) = mad::sm::NodeInfo::view_mut(data) {
                    *out = node;
                }
            }
            control::PORT_INFO => {
                let graph = self.agents.graph();
                let asked = graph.port(graph.owner(port), data[0]).filter(|_| data[0] != 0).unwrap_or(port);
                let info = *self.agents.port_info(asked);
                if let Ok(out) = mad::sm::PortInfo::view_mut(data) {
                    *out = info;
                }
            }
            control::SET_IS_SM => {
                let is = data[..4] != [0; 4];
                if let Some(client) = self.clients.by_number.get_mut(&number) {
                    client.is_sm = is;
                }
                self.tell_is_sm(port);
            }
            control::PARTITIONS => {
                data.fill(0);
                data[..2].fill(0xff);
            }
            _ => return false,
        }
        true
    }

    fn connect(&mut self, message: &mut Control, event: &mut dyn FnMut(Event)) -> Result<(), String> {
        let Ok(info) = ClientInfo::read(&message.data) else {
            return Err("a message without a client name".to_owned());
        };
        let named = info.node_name();
        let name = u32::from_ne_bytes(info.id);
        let Some(port) = self.place(&named) else {
            return Err(format!("there is no node `{named}` to connect at"));
        };
        // One that died without a word and came again with the same name.
        let before =
            self.clients.by_number.iter().find(|(_, client)| client.name == name).map(|(number, _)| *number);
        if let Some(before) = before {
            self.leave(before, true, event);
        }
        self.sweep_dead(event);
        let opened = self.open(name);
        let (number, socket) = opened
            .map_err(|error| format!("no socket for program {name}: {}", std::io::Error::from(error)))?;
        self.watch(&socket, Source::Client(number)).map_err(|error| error.to_string())?;
        let is_sm = info.is_sm != [0; 4];
        self.clients.by_number.insert(number, Client::new(name, socket, port, is_sm));
        self.tell_is_sm(port);
        self.served.clients += 1;
        let node = self.agents.description(self.agents.graph().owner(port));
        info.answer(number, &node, &mut message.data);
        event(Event::Came { client: number, node });
        Ok(())
    }

    /// The socket for program `name`, and the number in that socket's name: the lowest that is free. The
    /// socket of a program that has left is closed by another thread and may keep its name for a moment, and
    /// anybody may have taken one.
    fn open(&self, name: u32) -> Result<(u32, Inbox), Errno> {
        let mut result = Err(Errno::ADDRINUSE);
        for number in self.clients.free_numbers().take(NUMBERS_TRIED) {
            let socket = sockets::bound(&outward_name(&self.base, number), &self.closer);
            result = socket.map(|socket| (number, socket));
            if !matches!(result, Err(Errno::ADDRINUSE)) {
                break;
            }
        }
        let (number, socket) = result?;
        connect(&socket, &SocketAddrUnix::new_abstract_name(&inward_name(&self.base, name))?)?;
        Ok((number, socket))
    }

    /// Sets the port's bit that a subnet manager is behind it.
    fn tell_is_sm(&mut self, port: PortIx) {
        let is = self.clients.at(port).any(|(_, client)| client.is_sm);
        self.agents.set_is_sm(port, is);
    }

    pub(super) fn leave(&mut self, number: u32, vanished: bool, event: &mut dyn FnMut(Event)) {
        let Some(client) = self.clients.by_number.remove(&number) else { return };
        self.tell_is_sm(client.port);
        event(Event::Went { client: number, vanished });
    }

    /// Programs that ended without a message: no process has their socket any more.
    fn sweep_dead(&mut self, event: &mut dyn FnMut(Event)) {
        let gone = |client: &Client| {
            SocketAddrUnix::new_abstract_name(&inward_name(&self.base, client.name))
                .and_then(|name| connect(&client.socket, &name))
                .is_err()
        };
        let dead: Vec<u32> = self
            .clients
            .by_number
            .iter()
            .filter(|(_, client)| gone(client))
            .map(|(number, _)| *number)
            .collect();
        dead.into_iter().for_each(|number| self.leave(number, true, event));
    }

    pub(super) fn packets(&mut self, number: u32, event: &mut dyn FnMut(Event)) -> Result<(), ServeError> {
        self.flush(number, event);
        for _ in 0..TURN {
            let Some(client) = self.clients.by_number.get_mut(&number) else { return Ok(()) };
            let mut bytes = [0; 512];
            match client.socket.look(&mut bytes) {
                Ok(Looked::Stuck) => return Err(ServeError::Flooded),
                Ok(Looked::Datagram(len, _)) => {
                    match bytes.get(..len).and_then(|bytes| <[u8; 288]>::try_from(bytes).ok()) {
                        Some(bytes) => {
                            let packet: Packet = zerocopy::transmute!(bytes);
                            client.sent(&Mad(packet.mad));
                            self.packet(number, packet, event);
                        }
                        None => event(Event::Garbage { on: "packets", len }),
                    }
                }
                Err(Errno::INTR) => {}
                Ok(Looked::Nothing | Looked::Later) => return Ok(()),
                Err(_) => {
                    self.leave(number, true, event);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn packet(&mut self, number: u32, mut packet: Packet, event: &mut dyn FnMut(Event)) {
        let Some(client) = self.clients.by_number.get_mut(&number) else { return };
        self.served.datagrams += 1;
        let mad = Mad(packet.mad);
        let lid = lid_from_wire(packet.to_lid);
        let to =
            Address { lid, queue_pair: u32::from_be(packet.to_queue_pair), queue_key: 0, service_level: 0 };
        let port = client.port;
        let carried = self.agents.carry(port, &to, &mad);
        self.passing = self.agents.take_passed();
        match carried {
            Carried::Answered(from, answer) => {
                self.served.answered += 1;
                packet.mad = answer.0;
                let own = self.agents.port_info(port).lid();
                let directed = lid == Lid::PERMISSIVE;
                packet.from_lid = if directed { packet.to_lid } else { lid_to_wire(from) };
                packet.to_lid = if directed { packet.to_lid } else { lid_to_wire(own) };
                std::mem::swap(&mut packet.to_queue_pair, &mut packet.from_queue_pair);
                packet.status = 0;
                self.send(number, &packet, event);
            }
            Carried::Arrived(at, from, arrived) => {
                let question = !mad.header().method().is_response();
                if self.hand(number, at, from, &packet, &arrived, event) {
                    self.served.handed += 1;
                } else if question {
                    self.undelivered(number, packet, event);
                }
            }
            Carried::Taken => {}
            Carried::Lost => self.undelivered(number, packet, event),
        }
    }

    /// The program gets its datagram back. A lost response concerns only the requester.
    fn undelivered(&mut self, number: u32, mut packet: Packet, event: &mut dyn FnMut(Event)) {
        self.served.lost += 1;
        if !Mad(packet.mad).header().method().is_response() {
            packet.status = TIMED_OUT.to_be();
            self.send(number, &packet, event);
        }
    }

    /// Hands a datagram to the program behind a port that it is for. False: there is none.
    fn hand(
        &mut self,
        from: u32,
        at: PortIx,
        lid: Lid,
        packet: &Packet,
        mad: &Mad,
        event: &mut dyn FnMut(Event),
    ) -> bool {
        let header = mad.header();
        let (class, method) = (header.class(), header.method());
        let response = method.is_response();
        let receiver = if response {
            let wanting = self.clients.by_number.iter_mut().filter(|(_, client)| client.port == at);
            wanting
                .filter(|(_, client)| client.speaks(class))
                .find_map(|(number, client)| client.expects(mad).then_some(*number))
        } else {
            let report = method == Method::REPORT;
            let to_sm = |client: &Client| client.is_sm && !report;
            let all: Vec<(u32, &Client)> = self.clients.at(at).collect();
            let sm = all.iter().find(|(_, client)| to_sm(client));
            // Only programs that registered a class get its datagrams: others have no queue for it.
            sm.or_else(|| {
                all.iter().find(|(number, client)| client.speaks(class) && (report || *number != from))
            })
            .map(|(number, _)| *number)
        };
        let Some(receiver) = receiver else { return false };
        let asked = *packet;
        let mut packet = *packet;
        packet.mad = mad.0;
        packet.from_lid = if class == Class::DIRECTED { packet.from_lid } else { lid_to_wire(lid) };
        packet.status = 0;
        if !self.send(receiver, &packet, event) {
            return false;
        }
        let now = self.now();
        // Nobody responds to an acknowledgement of segments.
        let wants_response = !response && !is_segment(mad);
        if wants_response && let Some(client) = self.clients.by_number.get_mut(&from) {
            client.asks(now, asked, mad);
        }
        true
    }

    /// As [`send_now`](Self::send_now), but late or twice, if that happened on the way.
    fn send(&mut self, number: u32, packet: &Packet, event: &mut dyn FnMut(Event)) -> bool {
        let Passed { doubled, late, .. } = std::mem::take(&mut self.passing);
        if late.is_zero() {
            let is_there = self.send_now(number, packet, event);
            return if doubled { self.send_now(number, packet, event) } else { is_there };
        }
        for _ in 0..1 + u32::from(doubled) {
            if self.late.len() < MOST_LATE {
                self.delayed += 1;
                self.late.insert((self.now() + late, self.delayed), (number, *packet));
            } else {
                self.served.dropped += 1;
            }
        }
        self.clients.by_number.contains_key(&number)
    }

    /// Sends what is due.
    pub(super) fn send_late(&mut self, event: &mut dyn FnMut(Event)) {
        let now = self.now();
        while let Some(first) = self.late.first_entry().filter(|first| first.key().0 <= now) {
            let (number, packet) = first.remove();
            self.send_now(number, &packet, event);
        }
    }

    /// False: the program is gone.
    fn send_now(&mut self, number: u32, packet: &Packet, event: &mut dyn FnMut(Event)) -> bool {
        let Some(client) = self.clients.by_number.get_mut(&number) else { return false };
        let bytes: [u8; 288] = zerocopy::transmute!(*packet);
        // In order: what waits goes first.
        let sent = if client.waiting.is_empty() {
            send(&client.socket, &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
        } else {
            Err(Errno::AGAIN)
        };
        match sent {
            Ok(_) => true,
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => {
                if !client.keep(&bytes) {
                    self.served.dropped += 1;
                }
                true
            }
            Err(_) => {
                self.leave(number, true, event);
                false
            }
        }
    }

    /// What the system does for programs of a real fabric: requests to other programs that stay without a
    /// response come back, and programs that are gone are noticed.
    pub(super) fn housekeeping(&mut self, event: &mut dyn FnMut(Event)) {
        let now = self.now();
        if now.saturating_sub(self.kept_house) < HOUSEKEEPING {
            return;
        }
        self.kept_house = now;
        self.sweep_dead(event);
        let late: Vec<(u32, Packet)> = self
            .clients
            .by_number
            .iter_mut()
            .flat_map(|(number, client)| client.late(now).into_iter().map(|packet| (*number, packet)))
            .collect();
        late.into_iter().for_each(|(number, packet)| self.undelivered(number, packet, event));
    }

    /// Sends what a program had no room for before.
    fn flush(&mut self, number: u32, event: &mut dyn FnMut(Event)) {
        let Some(client) = self.clients.by_number.get_mut(&number) else { return };
        while let Some(bytes) = client.waiting.front() {
            match send(&client.socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(_) => drop(client.waiting.pop_front()),
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => return,
                Err(_) => return self.leave(number, true, event),
            }
        }
    }

    pub(super) fn flush_all(&mut self, event: &mut dyn FnMut(Event)) -> bool {
        let behind = |(number, client): (&u32, &Client)| (!client.waiting.is_empty()).then_some(*number);
        let waiting: Vec<u32> = self.clients.by_number.iter().filter_map(behind).collect();
        waiting.iter().for_each(|number| self.flush(*number, event));
        !waiting.is_empty()
    }

    /// Traps that are due go to the managers of the ports that send them.
    pub(super) fn send_traps(&mut self, event: &mut dyn FnMut(Event)) {
        if !self.agents.has_traps() {
            return;
        }
        let now = self.now();
        for (port, to, mad) in self.agents.due_traps(now) {
            let Carried::Arrived(at, from, mad) = self.agents.carry_trap(port, to, &mad) else { continue };
            let manager = self.clients.at(at).find(|(_, client)| client.is_sm).map(|(number, _)| number);
            let Some(manager) = manager else { continue };
            let mut packet = Packet::new(&mad);
            packet.to_lid = lid_to_wire(to);
            packet.from_lid = lid_to_wire(from);
            self.served.traps += 1;
            self.send(manager, &packet, event);
        }
    }
}
