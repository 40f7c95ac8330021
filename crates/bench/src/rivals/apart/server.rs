//! The server of `latency` between two processes, on one host or on two.

use std::{
    cell::RefCell,
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::unix::net::{UnixListener, UnixStream},
    time::Instant,
};

use shm::window::Window;
use tieline::{Interrupt, InterruptNo, InterruptOptions, Node, NodeId, RemoteSegment, SegmentId};

use super::{ACCEPT, BLOCKS, Carrier, ECHO, LISTEN, ROUNDS_MAX, SIZED, WHAT, refused, unix_address};
use crate::{
    error::{BenchError, Result},
    patterns::{
        attach::CONNECT_TIMEOUT,
        rendezvous::{self, Mailbox, Order, ServeOptions, Service, Tool, memory::Owner},
    },
    poll::{self, ANSWER_TIMEOUT, no_answer},
    rivals::{
        LARGE_BYTES, Link, far_blocks, far_echo, far_sized,
        kernel::{self, Stream},
        ours::{self, Bells, Stores, Wait},
        puts::Puts,
        tcp_between_hosts,
    },
};

/// Serves one [`client`](super::client) until it is done or gone.
pub fn serve(options: &ServeOptions) -> Result<()> {
    let cpu = rendezvous::cpu_of(options.cpu, false)? as u64;
    let mine = RefCell::new(None);
    let lay_out = |node: &Node| {
        let interrupt = node.create_interrupt(&InterruptOptions::default())?;
        let number = u64::from(interrupt.number().0);
        *mine.borrow_mut() = Some(interrupt);
        Ok(cpu << 32 | number)
    };
    let begin = |node: &Node, theirs: u64| {
        let input: Option<Interrupt> = mine.borrow_mut().take();
        let input = input.ok_or_else(|| BenchError::Usage("latency: no interrupt was made".to_owned()))?;
        let number = InterruptNo((theirs & 0xffff_ffff) as u32);
        let out = node.connect_interrupt(options.client, number, CONNECT_TIMEOUT)?;
        Ok(Answerer {
            owner: Owner::new(Tool::Latency, node, options.most_bytes),
            node: node.clone(),
            back: back(node, options.client, theirs >> 32)?,
            bells: Bells::new(input, out),
            listening: Listening::default(),
            tcp: None,
            unix: None,
        })
    };
    rendezvous::serve(options, Tool::Latency, lay_out, begin)
}

/// The memory of a client on another host, by its number; 0: it is on this host.
fn back(node: &Node, client: NodeId, number: u64) -> Result<Option<RemoteSegment>> {
    match u32::try_from(number).map_err(|_| refused())? {
        0 => Ok(None),
        id => Ok(Some(node.connect_segment(client, SegmentId(id), CONNECT_TIMEOUT)?)),
    }
}

/// Listening sockets.
#[derive(Debug, Default)]
struct Listening {
    tcp: Option<TcpListener>,
    tcp_between_hosts: Option<tcp_between_hosts::Listening>,
    unix: Option<UnixListener>,
}

/// The server's part.
struct Answerer {
    owner: Owner,
    node: Node,
    /// Of a client on another host.
    back: Option<RemoteSegment>,
    bells: Bells,
    listening: Listening,
    tcp: Option<Stream<TcpStream>>,
    unix: Option<Stream<UnixStream>>,
}

impl Answerer {
    fn listen(&mut self, carrier: Carrier) -> Result<u64> {
        let error = BenchError::io("listening for the client");
        match carrier {
            Carrier::Tcp => {
                let listen = || -> std::io::Result<(TcpListener, u16)> {
                    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
                    listener.set_nonblocking(true)?;
                    let port = listener.local_addr()?.port();
                    Ok((listener, port))
                };
                let (listener, port) = listen().map_err(error)?;
                self.listening.tcp = Some(listener);
                Ok(u64::from(port))
            }
            Carrier::Unix => {
                // The name has this process's ID and the time, so it is unique.
                let number = u64::from(std::process::id()) << 32 | u64::from(shm::clock::now_ticks() as u32);
                let address = unix_address(number)?;
                let listen = || -> std::io::Result<UnixListener> {
                    let listener = UnixListener::bind_addr(&address)?;
                    listener.set_nonblocking(true)?;
                    Ok(listener)
                };
                self.listening.unix = Some(listen().map_err(error)?);
                Ok(number)
            }
            Carrier::Stores | Carrier::Bells => Err(refused()),
        }
    }

    fn accept(&mut self, carrier: Carrier) -> Result<u64> {
        match carrier {
            Carrier::Tcp => {
                let listener = self.listening.tcp.take().ok_or_else(refused)?;
                let stream = accept(|| listener.accept().map(|(stream, _)| Some(stream)))?;
                stream.set_nonblocking(false).map_err(BenchError::io("accepting the client"))?;
                self.tcp = Some(kernel::tcp_stream(stream)?);
            }
            Carrier::Unix => {
                let listener = self.listening.unix.take().ok_or_else(refused)?;
                let stream = accept(|| listener.accept().map(|(stream, _)| Some(stream)))?;
                stream.set_nonblocking(false).map_err(BenchError::io("accepting the client"))?;
                self.unix = Some(kernel::unix_stream(stream)?);
            }
            Carrier::Stores | Carrier::Bells => return Err(refused()),
        }
        Ok(0)
    }

    /// Does something with this side's end of a carrier.
    fn with(&self, carrier: Carrier, wait: Wait, then: impl FnOnce(&dyn Link) -> Result<()>) -> Result<()> {
        match carrier {
            Carrier::Stores => {
                let segment =
                    self.owner.segment().filter(|segment| segment.size_bytes() >= ours::SEGMENT_BYTES);
                let own = segment.ok_or_else(refused)?.window();
                match &self.back {
                    None => then(&Stores::far(own, wait)?),
                    Some(back) => then(&Puts::far(back, own, wait)?),
                }
            }
            Carrier::Bells => then(&self.bells),
            Carrier::Tcp => then(self.tcp.as_ref().ok_or_else(refused)?),
            Carrier::Unix => then(self.unix.as_ref().ok_or_else(refused)?),
        }
    }
}

/// Accepts within the usual timeout; `try_it` returns none of somebody else.
fn accept<S>(mut try_it: impl FnMut() -> std::io::Result<Option<S>>) -> Result<S> {
    let since = Instant::now();
    loop {
        match try_it() {
            Ok(Some(stream)) => return Ok(stream),
            Ok(None) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(BenchError::io("accepting the client")(error)),
        }
        poll::still_there(since.elapsed())?;
        if since.elapsed() > ANSWER_TIMEOUT {
            return Err(no_answer(WHAT));
        }
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
}

impl Service for Answerer {
    fn follow(&mut self, order: &Order) -> Result<u64> {
        let [which, second, third] = order.arguments;
        if !(LISTEN..=SIZED).contains(&order.task) {
            return self.owner.follow(order);
        }
        let (carrier, wait) = Carrier::of(which).ok_or_else(refused)?;
        match order.task {
            LISTEN => return self.listen(carrier),
            ACCEPT => return self.accept(carrier),
            ECHO if third < ROUNDS_MAX && second < u64::MAX / 2 => {
                self.with(carrier, wait, |link| far_echo(link, second, third))?;
            }
            BLOCKS if second.max(third) < u64::MAX / 2 && carrier != Carrier::Bells => {
                let mut into = vec![0xa5; LARGE_BYTES];
                self.with(carrier, wait, |link| far_blocks(link, second, third, &mut into))?;
            }
            SIZED if third < ROUNDS_MAX && matches!(carrier, Carrier::Tcp | Carrier::Unix) => {
                let size = usize::try_from(second).ok().filter(|size| (1..=LARGE_BYTES).contains(size));
                let mut block = vec![0x5a; size.ok_or_else(refused)?];
                self.with(carrier, wait, |link| far_sized(link, &mut block, third))?;
            }
            _ => return Err(refused()),
        }
        Ok(0)
    }

    fn follow_between_hosts(
        &mut self,
        order: &Order,
        mine: Window<'_>,
        theirs: &RemoteSegment,
    ) -> Result<u64> {
        let carrier = Carrier::of(order.arguments[0]).map(|(carrier, _)| carrier);
        match (order.task, carrier) {
            (LISTEN, Some(Carrier::Tcp)) => {
                let mailbox = Mailbox::between_hosts(mine, theirs, Tool::Latency)?;
                self.listening.tcp_between_hosts = tcp_between_hosts::Listening::new(&self.node, mailbox)?;
                Ok(u64::from(self.listening.tcp_between_hosts.is_some()))
            }
            (ACCEPT, Some(Carrier::Tcp)) => {
                let listening = self.listening.tcp_between_hosts.take().ok_or_else(refused)?;
                let stream = accept(|| {
                    let (stream, _) = listening.listener.accept()?;
                    listening.is_client(stream)
                })?;
                self.tcp = Some(kernel::tcp_stream(stream)?);
                Ok(0)
            }
            (LISTEN | ACCEPT, _) => Err(refused()),
            _ => self.follow(order),
        }
    }
}
