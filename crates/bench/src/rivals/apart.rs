//! Comparison transports between two processes: a server that replies, a client that measures. Our
//! transports and the kernel's sockets connect the two processes; futex, pipe and memcpy, whose
//! ends need a common parent or memory, stay within the client. The two may be on two hosts
//! ([`between_hosts`]).

mod server;

use std::{
    cell::RefCell,
    net::{Ipv4Addr, TcpStream},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixStream},
    },
    sync::Arc,
};

pub use server::serve;
use tieline::{Interrupt, InterruptNo, InterruptOptions};

use super::{
    Carried, LARGE_BYTES, LARGE_MESSAGES, Link, READING_BYTES, READING_NS, Report, SMALL_BYTES, Transport,
    between_hosts, kernel,
    kernel::Stream,
    near_blocks, near_echo,
    ours::{self, Bells, Stores, Wait},
    placement::{Sharing, sharing},
    summary::{self, Options},
    there_and_back, wake,
};
use crate::{
    baseline::{Shape, settle},
    error::{BenchError, Result},
    patterns::{
        attach::{CONNECT_TIMEOUT, path_of},
        rendezvous::{Client, Order, Tool},
        scipp::Mechanism,
    },
    pinned_pair,
    pinned_pair::PinnedPair,
    poll::Poll,
    progress::Progress,
    stats::Samples,
    timer::Timer,
};

const WHAT: &str = "latency";
/// Orders: listen (the reply is a number to connect to), accept, echo, take blocks, echo messages
/// of a size.
pub(super) const LISTEN: u64 = 3;
pub(super) const ACCEPT: u64 = 4;
const ECHO: u64 = 5;
const BLOCKS: u64 = 6;
const SIZED: u64 = 7;
/// More than any reading needs; an order beyond it is a mistake or an attack.
const ROUNDS_MAX: u64 = 1 << 32;

/// The transport of the messages between the processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    /// Between hosts puts.
    Stores = 0,
    Bells = 1,
    Tcp = 2,
    Unix = 3,
}

impl Carrier {
    const ALL: [Self; 4] = [Self::Stores, Self::Bells, Self::Tcp, Self::Unix];

    /// The word of an order, with the way of waiting.
    pub(super) fn word(self, yields: bool) -> u64 {
        self as u64 | u64::from(yields) << 8
    }

    fn of(word: u64) -> Option<(Self, Wait)> {
        let carrier = Self::ALL.into_iter().find(|known| *known as u64 == word & 0xff)?;
        match word >> 8 {
            0 => Some((carrier, Wait::Spin(Poll::Paused))),
            1 => Some((carrier, Wait::Yield)),
            _ => None,
        }
    }
}

/// The address of a UNIX listener that is known by a number.
fn unix_address(number: u64) -> Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("tieline-latency-{number:016x}"))
        .map_err(BenchError::io("naming a UNIX socket"))
}

/// A transport whose far end is in the server.
pub(super) struct Apart<'c, 'd, L> {
    name: &'static str,
    near: Arc<L>,
    client: &'c RefCell<&'d mut Client>,
    carrier: u64,
    shape: Option<Shape>,
    ticks: Vec<u64>,
    number: u64,
    block_number: u64,
    block: Vec<u8>,
    rounds: u64,
    /// Bytes of all messages, both ways.
    bytes: u64,
}

impl<'c, 'd, L: Link> Apart<'c, 'd, L> {
    pub(super) fn new(
        name: &'static str,
        near: L,
        client: &'c RefCell<&'d mut Client>,
        carrier: u64,
    ) -> Self {
        Self {
            name,
            near: Arc::new(near),
            client,
            carrier,
            shape: None,
            ticks: Vec::new(),
            number: 0,
            block_number: 0,
            block: Vec::new(),
            rounds: 0,
            bytes: 0,
        }
    }

    fn round_trips(&mut self, shape: Shape) -> Result<()> {
        let Self { near, ticks, number, carrier, .. } = self;
        let order = Order::new(ECHO, [*carrier, *number, shape.events()]);
        self.client.borrow_mut().order(order, &mut || near_echo(&**near, shape, *number, ticks))?;
        self.number += 2 * shape.events();
        self.rounds += shape.events();
        self.bytes += there_and_back(shape.events(), SMALL_BYTES);
        Ok(())
    }
}

impl<'env, L: Link> Transport<'env> for Apart<'_, '_, L> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn half_round_trip_ns(
        &mut self,
        timer: &Timer,
        _duo: &mut PinnedPair<'env>,
        all: Option<&mut Samples>,
    ) -> Result<f64> {
        let shape = match self.shape {
            Some(shape) => shape,
            None => {
                self.round_trips(Shape::trial())?;
                let event_ns = settle(timer, &self.ticks, 1, 1.0, None);
                *self.shape.insert(Shape::lasting(timer, event_ns, READING_NS))
            }
        };
        self.round_trips(shape)?;
        Ok(settle(timer, &self.ticks, shape.batch, 2.0, all))
    }

    fn bandwidth_gb_s(&mut self, timer: &Timer, _duo: &mut PinnedPair<'env>) -> Result<Option<f64>> {
        if !self.near.carries_blocks() {
            return Ok(None);
        }
        self.block.resize(LARGE_BYTES, 0x5a);
        let Self { near, block, number, block_number, carrier, .. } = self;
        let mut ticks = 0;
        let order = Order::new(BLOCKS, [*carrier, *block_number, *number]);
        self.client.borrow_mut().order(order, &mut || {
            ticks = near_blocks(&**near, *block_number, *number, block)?;
            Ok(())
        })?;
        self.block_number += LARGE_MESSAGES + 1;
        self.number += 4;
        self.bytes += READING_BYTES;
        Ok(Some((LARGE_MESSAGES * LARGE_BYTES as u64) as f64 / timer.ns(ticks)))
    }

    fn sized(&mut self, _duo: &mut PinnedPair<'env>, size_bytes: usize, rounds: u64) -> Result<Vec<u64>> {
        let Self { near, block, carrier, .. } = self;
        block.resize(LARGE_BYTES, 0x5a);
        let mut ticks = Vec::new();
        let order = Order::new(SIZED, [*carrier, size_bytes as u64, rounds]);
        self.client.borrow_mut().order(order, &mut || {
            ticks = super::near_sized(&**near, &mut block[..size_bytes], rounds)?;
            Ok(())
        })?;
        self.bytes += there_and_back(rounds, size_bytes);
        Ok(ticks)
    }

    fn rounds(&self) -> u64 {
        self.rounds
    }

    fn carried(&self) -> Option<Carried> {
        Carried::of(self.bytes, self.near.kernel_bytes())
    }
}

/// Lets the server listen, connects, and lets the server accept.
fn socket<S>(
    client: &RefCell<&mut Client>,
    carrier: Carrier,
    connect: impl FnOnce(u64) -> Result<Stream<S>>,
) -> Result<Stream<S>> {
    let mut client = client.borrow_mut();
    let mut order = |task| client.order(Order::new(task, [carrier.word(false), 0, 0]), &mut || Ok(()));
    let number = order(LISTEN)?;
    let stream = connect(number)?;
    order(ACCEPT)?;
    Ok(stream)
}

fn connect_tcp(number: u64) -> Result<Stream<TcpStream>> {
    let port = u16::try_from(number).map_err(|_| refused())?;
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))
        .map_err(BenchError::io("connecting TCP to the server over the loopback interface"))?;
    kernel::tcp_stream(stream)
}

fn connect_unix(number: u64) -> Result<Stream<UnixStream>> {
    let stream = UnixStream::connect_addr(&unix_address(number)?)
        .map_err(BenchError::io("connecting to the server's UNIX socket"))?;
    kernel::unix_stream(stream)
}

fn refused() -> BenchError {
    BenchError::Usage("no such order".to_owned())
}

/// Measures with the far ends in another process that runs [`serve`] on node `place.far` (which
/// must be given).
pub fn client(options: &Options, progress: &mut dyn Progress) -> Result<Report> {
    let cpus = options.check()?;
    let same = sharing(cpus) == Sharing::SameCore;
    let mut own = None;
    let mut client = Client::meet(&options.place, Tool::Latency, progress, |node| {
        let create = || Ok(node.create_interrupt(&InterruptOptions::default())?);
        // Interrupts learn at their birth whether spinning can pay: not where both sides share a
        // processor.
        let interrupt = if same { pinned_pair::pinned(cpus[0], create)? } else { create()? };
        let memory = between_hosts::memory(node, options.place.far)?;
        let id = memory.as_ref().and_then(tieline::Segment::id).map_or(0, |id| u64::from(id.0));
        let laid_out = id << 32 | u64::from(interrupt.number().0);
        own = Some((interrupt, memory));
        Ok(laid_out)
    })?;
    let report = match own {
        Some((interrupt, None)) => within_host(options, cpus, &mut client, interrupt, progress),
        Some((interrupt, Some(memory))) => {
            let own = between_hosts::Own { memory, interrupt };
            between_hosts::report(options, cpus, &mut client, own, progress)
        }
        None => Err(BenchError::Usage("latency: no interrupt was made".to_owned())),
    };
    // The server may end in any case; if that fails too, the first error is returned.
    let stopped = client.stop();
    report.and_then(|report| stopped.map(|()| report))
}

fn within_host(
    options: &Options,
    cpus: [usize; 2],
    client: &mut Client,
    mine: Interrupt,
    progress: &mut dyn Progress,
) -> Result<Report> {
    let same = sharing(cpus) == Sharing::SameCore;
    let (number, far_cpu) = (client.extra() & 0xffff_ffff, client.extra() >> 32);
    let theirs = client.node.connect_interrupt(client.server, InterruptNo(number as u32), CONNECT_TIMEOUT)?;
    let remote = client.memory(ours::SEGMENT_BYTES)?;
    let map = remote.map()?;
    let wait = if same { Wait::Yield } else { Wait::Spin(Poll::Paused) };
    let stores = Stores::near(map.window()?, &remote, wait)?;
    let setting = summary::Setting {
        nodes: [client.node.id().get(), client.server.get()],
        cpus: [cpus[0], far_cpu as usize],
        processes: 2,
        path: path_of(&client.node),
        mechanism: Mechanism::Stores,
    };
    summary::measure(options, setting, progress, |timer, progress| {
        pinned_pair::on(cpus, |pair| {
            let _watched = client.watch();
            let client = RefCell::new(client);
            let unix = socket(&client, Carrier::Unix, connect_unix)?;
            let tcp = socket(&client, Carrier::Tcp, connect_tcp)?;
            let bells = Bells::new(mine, theirs);
            let transports: Vec<Box<dyn Transport<'_> + '_>> = vec![
                Box::new(Apart::new(ours::STORES, stores, &client, Carrier::Stores.word(same))),
                Box::new(Apart::new(ours::INTERRUPT, bells, &client, Carrier::Bells.word(same))),
                Box::new(wake::futex()),
                Box::new(kernel::pipe()?),
                Box::new(Apart::new(kernel::UNIX, unix, &client, Carrier::Unix.word(same))),
                Box::new(Apart::new(kernel::TCP, tcp, &client, Carrier::Tcp.word(same))),
            ];
            summary::rounds(options, timer, pair, transports, progress)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carriers_have_their_words() {
        for carrier in Carrier::ALL {
            assert_eq!(Carrier::of(carrier.word(false)), Some((carrier, Wait::Spin(Poll::Paused))));
            assert_eq!(Carrier::of(carrier.word(true)), Some((carrier, Wait::Yield)));
        }
        for word in [4, 0x200, u64::MAX] {
            assert_eq!(Carrier::of(word), None);
        }
    }
}
