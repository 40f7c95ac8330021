//! The client of `latency` on another host than its server: puts, interrupts, libfabric's own calls, TCP.
//!
//! A futex, a pipe and a UNIX socket reach no other host. What is left out is named in the report.

use std::cell::RefCell;

use tieline::{Interrupt, InterruptNo, Node, NodeId, RemoteSegment, Segment, SegmentOptions};

use super::{
    Report, Transport,
    apart::{ACCEPT, Apart, Carrier, LISTEN},
    kernel,
    ours::{self, Bells, Wait},
    own_calls::{OWN_CALLS, OwnCalls},
    placement::{Sharing, sharing},
    puts::{NEAR_BYTES, PUTS, Puts},
    report::LeftOut,
    summary::{self, Options, Setting},
    tcp_between_hosts,
};
use crate::{
    error::{BenchError, Result},
    patterns::{
        attach::{CONNECT_TIMEOUT, is_elsewhere},
        rendezvous::{Client, Order},
        scipp::Mechanism,
    },
    pinned_pair::{self, PinnedPair},
    poll::Poll,
    progress::Progress,
    stats::order,
    timer::Timer,
};

/// Readings of each way of waiting before the way is chosen.
const TRIALS: usize = 3;

/// What the client has of its own: the memory that the server puts into, and an interrupt.
pub(super) struct Own {
    pub(super) memory: Segment,
    pub(super) interrupt: Interrupt,
}

/// The memory of a client whose server is on another host; none within a host.
pub(super) fn memory(node: &Node, server: Option<NodeId>) -> Result<Option<Segment>> {
    if !server.map_or(Ok(false), |server| is_elsewhere(node, server))? {
        return Ok(None);
    }
    let memory = node.create_segment_with(&SegmentOptions::new(NEAR_BYTES))?;
    memory.make_available()?;
    Ok(Some(memory))
}

/// Measures with a server on another host.
pub(super) fn report(
    options: &Options,
    cpus: [usize; 2],
    client: &mut Client,
    own: Own,
    progress: &mut dyn Progress,
) -> Result<Report> {
    let (number, far_cpu) = (client.extra() & 0xffff_ffff, client.extra() >> 32);
    let theirs = client.node.connect_interrupt(client.server, InterruptNo(number as u32), CONNECT_TIMEOUT)?;
    let remote = client.memory(ours::SEGMENT_BYTES)?;
    let setting = Setting {
        nodes: [client.node.id().get(), client.server.get()],
        cpus: [cpus[0], far_cpu as usize],
        processes: 2,
        path: client.path(),
        mechanism: Mechanism::Put,
    };
    let Own { memory, interrupt } = own;
    summary::measure(options, setting, progress, |timer, progress| {
        pinned_pair::on(cpus, |pair| {
            let _watched = client.watch();
            let client = RefCell::new(client);
            let mut left_out = vec![LeftOut::new("futex, pipe, UNIX socket", "they reach no other host")];
            let waits = if sharing(cpus) == Sharing::SameCore { &[true][..] } else { &[false, true] };
            let yields = faster(timer, pair, &client, (&remote, &memory), waits)?;
            let puts = puts(&client, (&remote, &memory), yields)?;
            let bells = Bells::new(interrupt, theirs);
            let mut transports: Vec<Box<dyn Transport<'_> + '_>> = vec![
                Box::new(puts),
                Box::new(Apart::new(ours::INTERRUPT, bells, &client, Carrier::Bells.word(yields))),
            ];
            match OwnCalls::new(&client)? {
                Some(calls) => transports.push(Box::new(calls)),
                None => left_out.push(LeftOut::new(OWN_CALLS, "they cannot be made between these two hosts")),
            }
            match tcp(&client)? {
                Ok(tcp) => {
                    let word = Carrier::Tcp.word(yields);
                    transports.push(Box::new(Apart::new(kernel::TCP_BETWEEN_HOSTS, tcp, &client, word)));
                }
                Err(why) if options.by_size => {
                    return Err(BenchError::Absent { what: kernel::TCP_BETWEEN_HOSTS, reason: why });
                }
                Err(why) => left_out.push(LeftOut::new(kernel::TCP_BETWEEN_HOSTS, &why)),
            }
            let mut readings = summary::rounds(options, timer, pair, transports, progress)?;
            readings.left_out = left_out;
            Ok(readings)
        })
    })
}

/// Puts to the server's memory and from it to the own one.
fn puts<'c, 'd, 'a>(
    client: &'c RefCell<&'d mut Client>,
    (remote, own): (&'a RemoteSegment, &'a Segment),
    yields: bool,
) -> Result<Apart<'c, 'd, Puts<'a>>> {
    let wait = if yields { Wait::Yield } else { Wait::Spin(Poll::Paused) };
    let near = Puts::near(remote, own.window(), wait)?;
    Ok(Apart::new(PUTS, near, client, Carrier::Stores.word(yields)))
}

/// Whether puts are faster if both ends yield their processors: libfabric's threads may need them.
fn faster<'env>(
    timer: &Timer,
    pair: &mut PinnedPair<'env>,
    client: &RefCell<&mut Client>,
    memory: (&RemoteSegment, &Segment),
    waits: &[bool],
) -> Result<bool> {
    let mut best = (true, f64::INFINITY);
    for &yields in waits {
        let mut puts = puts(client, memory, yields)?;
        let mut readings = Vec::with_capacity(TRIALS);
        for _ in 0..TRIALS {
            readings.push(Transport::half_round_trip_ns(&mut puts, timer, pair, None)?);
        }
        let half_ns = order::median(&readings).unwrap_or(f64::INFINITY);
        if half_ns < best.1 {
            best = (yields, half_ns);
        }
    }
    Ok(best.0)
}

/// Lets the server listen, connects, and lets the server accept; or why there is no TCP.
fn tcp(
    client: &RefCell<&mut Client>,
) -> Result<std::result::Result<kernel::Stream<std::net::TcpStream>, String>> {
    let mut client = client.borrow_mut();
    let order = |task| Order::new(task, [Carrier::Tcp.word(false), 0, 0]);
    if client.order(order(LISTEN), &mut || Ok(()))? == 0 {
        return Ok(Err("the node of the other end has no address of the internet".to_owned()));
    }
    let stream = match tcp_between_hosts::connect(&client.mailbox()?.left()?) {
        Ok(stream) => stream,
        Err(why) => return Ok(Err(why)),
    };
    client.order(order(ACCEPT), &mut || Ok(()))?;
    Ok(Ok(stream))
}
