//! A client of the simulator's sockets, without the library that stock programs are preloaded with.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect, recv, send,
    socket_with,
};
use zerocopy::{FromBytes, IntoBytes};

use super::{
    CONTROL_DATA, ClientInfo, Control, MAGIC, Packet, client_control_name, control, control_name,
    inward_name, lid_from_wire, lid_to_wire, outward_name,
};
use crate::header::{Mad, blank};
use crate::layout::Layout;
use crate::sm::{NodeInfo, PortInfo};
use crate::transport::{Address, MadTransport, Received, TransportError};
use crate::values::Lid;

/// How long the server may take for a response to a control message.
const CONTROL_WAIT: Duration = Duration::from_secs(5);
/// Between two tries to send a control message.
const PAUSE: Duration = Duration::from_millis(5);
/// Names that one process can have, of which one is left to a preloaded library.
const NAMES: u32 = 512;
const SERVE: &str = "start the simulator under this socket name, or give the name of the one that runs";

/// A client of the simulator, or of a server that speaks its protocol. Disconnects when it is dropped.
#[derive(Debug)]
pub struct IbsimTransport {
    base: String,
    control: OwnedFd,
    packets: OwnedFd,
    client: u32,
    node: String,
    started: Instant,
    port: PortInfo,
}

/// The name of the client's sockets: the process, and one more for each further client of one process.
/// Numbers that processes can't have, so that a client that was preloaded into the same process keeps its
/// own.
fn next_name() -> u32 {
    static NEXT: Mutex<u32> = Mutex::new(0);
    let process = rustix::process::getpid().as_raw_nonzero().get() as u32;
    let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
    *next = next.wrapping_add(1);
    // A process has 22 bits, and servers print it as a signed number.
    (*next % (NAMES - 1) + 1) << 22 | process & 0x3f_ffff
}

impl IbsimTransport {
    /// Connects to the server at `base`, at the node of that name (empty: wherever the server puts it).
    ///
    /// # Errors
    /// When there is no server, it refuses, or does not respond in time.
    pub fn connect(base: &str, node: &str) -> Result<Self, TransportError> {
        let opening = |what: &str, error: Errno| TransportError::io(what, error, SERVE);
        let (name, control) = named(base).map_err(|e| opening("open a control socket", e))?;
        let server = address(&control_name(base)).map_err(|e| opening("use this socket name", e))?;
        connect(&control, &server)
            .map_err(|e| opening(&format!("connect to the simulator at {base:?}"), e))?;
        let packets = bound(&inward_name(base, name)).map_err(|e| opening("open a packet socket", e))?;
        let mut this = Self {
            base: base.to_owned(),
            control,
            packets,
            client: u32::MAX,
            node: String::new(),
            started: Instant::now(),
            port: PortInfo::default(),
        };
        this.attach(name, node)?;
        this.refresh()?;
        Ok(this)
    }

    fn attach(&mut self, name: u32, node: &str) -> Result<(), TransportError> {
        let mut info =
            ClientInfo { id: name.to_ne_bytes(), queue_pair: [0; 4], is_sm: [0; 4], node: [0; 32] };
        let Some(room) = info.node.get_mut(..node.len()).filter(|room| room.len() < 32) else {
            return Err(TransportError::Protocol {
                what: format!("the node name {node:?} is longer than the 31 bytes that this protocol allows"),
                next: "give the GUID of the node",
            });
        };
        room.copy_from_slice(node.as_bytes());
        let mut data = [0; CONTROL_DATA];
        data[..size_of::<ClientInfo>()].copy_from_slice(info.as_bytes());
        let answer = self.ask(control::CONNECT, data).map_err(|error| match error {
            TransportError::Protocol { .. } => TransportError::Protocol {
                what: format!("the simulator at {:?} accepts no client at node {node:?}", self.base),
                next: "give a node of its fabric, or disconnect another client, as ibsim serves ten at most",
            },
            other => other,
        })?;
        let Ok((info, _)) = ClientInfo::read_from_prefix(&answer) else { unreachable!() };
        self.client = u32::from_ne_bytes(info.id);
        let told = info.node.split(|byte| *byte == 0).next().unwrap_or_default();
        self.node = crate::text::plain(&String::from_utf8_lossy(told));
        let out = address(&outward_name(&self.base, self.client))
            .and_then(|out| connect(&self.packets, &out))
            .map_err(|e| TransportError::io("connect to the simulator's packet socket", e, SERVE));
        if out.is_err() {
            self.disconnect();
        }
        out
    }

    /// Name of the node that it is at, as the server says, without what may not go to a terminal.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Asks the server again for the LIDs of the port and of its manager, which may have changed.
    ///
    /// # Errors
    /// When the server does not respond.
    pub fn refresh(&mut self) -> Result<(), TransportError> {
        let data = self.ask(control::PORT_INFO, [0; CONTROL_DATA])?;
        if let Ok(port) = PortInfo::view(&data) {
            self.port = *port;
        }
        Ok(())
    }

    /// The port, as of the last [`refresh`](Self::refresh).
    #[must_use]
    pub fn port_info(&self) -> &PortInfo {
        &self.port
    }

    /// The node that it is at.
    ///
    /// # Errors
    /// When the server does not respond.
    pub fn node_info(&mut self) -> Result<NodeInfo, TransportError> {
        let data = self.ask(control::NODE_INFO, [0; CONTROL_DATA])?;
        Ok(NodeInfo::view(&data).copied().unwrap_or_default())
    }

    /// Tells the server that a subnet manager begins or ends here, which then gets what is sent to one.
    ///
    /// # Errors
    /// When the server does not respond.
    pub fn set_is_sm(&mut self, is: bool) -> Result<(), TransportError> {
        let mut data = [0; CONTROL_DATA];
        data[..4].copy_from_slice(&u32::from(is).to_ne_bytes());
        self.ask(control::SET_IS_SM, data).map(|_| ())
    }

    /// One control message, and its response.
    fn ask(&mut self, kind: u32, data: [u8; CONTROL_DATA]) -> Result<[u8; CONTROL_DATA], TransportError> {
        let what = format!("get a response from the simulator at {:?}", self.base);
        let message = Control { magic: MAGIC, client: self.client, kind, len: CONTROL_DATA as u32, data };
        let until = Instant::now() + CONTROL_WAIT;
        self.tell(&message, until).map_err(|e| TransportError::io(what.clone(), e, SERVE))?;
        let mut answer = Control { magic: 0, client: 0, kind: 0, len: 0, data: [0; CONTROL_DATA] };
        loop {
            // Whatever comes: what is no response to this does not make the time longer.
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(TransportError::io(what, Errno::TIMEDOUT, SERVE));
            }
            if !ready(&self.control, PollFlags::IN, left)
                .map_err(|e| TransportError::io(what.clone(), e, SERVE))?
            {
                continue;
            }
            let (_, len) = recv(&self.control, answer.as_mut_bytes(), RecvFlags::DONTWAIT | RecvFlags::TRUNC)
                .map_err(|e| TransportError::io(what.clone(), e, SERVE))?;
            let own = answer.kind == kind || answer.kind == control::ERROR;
            if len == size_of::<Control>() && answer.magic == MAGIC && own {
                break;
            }
        }
        if answer.kind == control::ERROR {
            return Err(TransportError::Protocol {
                what: format!(
                    "the simulator at {:?} rejected the request {}",
                    self.base,
                    control::name(kind)
                ),
                next: "read what the simulator printed",
            });
        }
        Ok(answer.data)
    }

    /// Sends a control message, as soon as the server takes one.
    fn tell(&self, message: &Control, until: Instant) -> Result<(), Errno> {
        loop {
            match send(&self.control, message.as_bytes(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(_) => return Ok(()),
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => {}
                Err(error) => return Err(error),
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Errno::TIMEDOUT);
            }
            // A socket of this kind may be called writable although its receiver has no room.
            ready(&self.control, PollFlags::OUT, left)?;
            std::thread::sleep(PAUSE.min(left));
        }
    }

    fn disconnect(&mut self) {
        let message = Control {
            magic: MAGIC,
            client: self.client,
            kind: control::DISCONNECT,
            len: 0,
            data: [0; CONTROL_DATA],
        };
        // The last message: its response is not waited for, and a server that is gone needs none.
        let _ = send(&self.control, message.as_bytes(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }
}

impl Drop for IbsimTransport {
    fn drop(&mut self) {
        if self.client != u32::MAX {
            self.disconnect();
        }
    }
}

impl MadTransport for IbsimTransport {
    fn send(&mut self, to: &Address, mad: &Mad) -> Result<bool, TransportError> {
        let mut packet = Packet::new(mad);
        packet.to_lid = lid_to_wire(to.lid);
        packet.from_lid = if to.lid == Lid::PERMISSIVE { packet.to_lid } else { 0 };
        packet.to_queue_pair = to.queue_pair.to_be();
        packet.from_queue_pair = to.queue_pair.min(1).to_be();
        match send(&self.packets, packet.as_bytes(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => Ok(false),
            Err(Errno::CONNREFUSED | Errno::NOTCONN | Errno::PIPE | Errno::CONNRESET) => {
                Err(TransportError::Gone(format!("the simulator at {:?}", self.base)))
            }
            Err(error) => Err(TransportError::io("send to the simulator", error, SERVE)),
        }
    }

    fn receive(&mut self, wait: Duration) -> Result<Option<Received>, TransportError> {
        let mut packet = Packet::new(&blank());
        for waited in [false, true] {
            match recv(&self.packets, packet.as_mut_bytes(), RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
                Ok((_, len)) if len == size_of::<Packet>() => return Ok(Some(arrived(&packet))),
                // Not of this protocol: nothing that was sent here.
                Ok(_) | Err(Errno::INTR) => return Ok(None),
                Err(Errno::AGAIN) if waited || wait.is_zero() => return Ok(None),
                Err(Errno::AGAIN) => {
                    ready(&self.packets, PollFlags::IN, wait)
                        .map_err(|e| TransportError::io("wait for the simulator", e, SERVE))?;
                }
                Err(Errno::CONNREFUSED | Errno::CONNRESET | Errno::NOTCONN) => {
                    return Err(TransportError::Gone(format!("the simulator at {:?}", self.base)));
                }
                Err(error) => return Err(TransportError::io("receive from the simulator", error, SERVE)),
            }
        }
        Ok(None)
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn lid(&self) -> Lid {
        self.port.lid()
    }

    fn sm_lid(&self) -> Lid {
        self.port.sm_lid()
    }

    /// A socket of this kind holds eleven datagrams unless its owner asked for more, and the server drops
    /// what finds no room.
    fn room(&self) -> usize {
        10
    }
}

fn arrived(packet: &Packet) -> Received {
    Received {
        from: Address {
            lid: lid_from_wire(packet.from_lid),
            queue_pair: u32::from_be(packet.from_queue_pair),
            queue_key: 0,
            service_level: 0,
        },
        mad: Mad(packet.mad),
        undelivered: packet.status != 0,
    }
}

fn address(name: &[u8]) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new_abstract_name(name)
}

fn bound(name: &[u8]) -> Result<OwnedFd, Errno> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // Anybody can reach it until it is connected, and closing what they send could hold this process up.
    // Before Linux 6.16 the kernel can't: then only the moment until then is short.
    let _ = shm::socket::refuse_descriptors(std::os::fd::AsFd::as_fd(&socket), true);
    bind(&socket, &address(name)?)?;
    Ok(socket)
}

/// The first control socket whose name is free.
fn named(base: &str) -> Result<(u32, OwnedFd), Errno> {
    for _ in 1..NAMES {
        let name = next_name();
        match bound(&client_control_name(base, name)) {
            Err(Errno::ADDRINUSE) => {}
            other => return other.map(|control| (name, control)),
        }
    }
    Err(Errno::ADDRINUSE)
}

fn ready(socket: &OwnedFd, what: PollFlags, wait: Duration) -> Result<bool, Errno> {
    let wait = Timespec {
        tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: wait.subsec_nanos().into(),
    };
    match poll(&mut [PollFd::new(socket, what)], Some(&wait)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error),
    }
}
