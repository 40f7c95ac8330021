//! Requests to subnet administration, beside the same transport with a program that only echoes.

use std::{
    path::Path,
    sync::{
        Arc,
        mpsc::{Sender, TryRecvError, channel},
    },
    time::{Duration, Instant},
};

use mad::{
    Address, Lid, Mad, MadTransport,
    header::refusal,
    ibsim::IbsimTransport,
    sa::{DATA_AT, attribute, question},
    sa_records::PathRecord,
    values::{Class, Method},
    windowed::{Limits, Outcome, Windowed},
};
use topology::{Graph, Kind};

use super::{LIMIT, Lab, failed};
use crate::{
    error::{BenchError, Result},
    progress::Waiter,
};

/// Requests in flight.
const WINDOW: usize = 64;
/// Component mask of a request for a path: the LIDs of both ends (15.2.5.16).
const BY_LIDS: u64 = 1 << 4 | 1 << 5;

/// Responses per second.
#[derive(Debug, Clone, Copy)]
pub struct Rates {
    /// Of the manager, each a path record.
    pub ours: f64,
    /// Of a program at another host that sends every request back as it came.
    pub echo: f64,
    /// The time of one request that is alone on its way, in microseconds: 99 of 100 take no longer.
    pub p99_us: f64,
}

/// A program that sends back what comes, until its handle is dropped.
struct Echo {
    lid: Lid,
    stop: Option<Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Echo {
    fn start(lab: &Lab, node: &str) -> Result<Self> {
        let mut transport = lab.connect(node)?;
        transport.refresh().map_err(failed)?;
        let lid = transport.lid();
        let (stop, ended) = channel::<()>();
        // A request of its own tells the server that it listens to this class; the answer is passed over.
        let own = question(Method::GET, attribute::CLASS_PORT_INFO, &PathRecord::default(), 0);
        transport.send(&Address::services(transport.sm_lid()), &own).map_err(failed)?;
        let thread = std::thread::spawn(move || {
            while ended.try_recv() == Err(TryRecvError::Empty) {
                let Ok(received) = transport.receive(Duration::from_millis(10)) else { break };
                let Some(received) = received.filter(|it| !it.mad.header().method().is_response()) else {
                    continue;
                };
                let mut mad = received.mad;
                mad.header_mut().set_method(Method::GET_RESPONSE);
                let to = Address { queue_pair: 1, ..Address::services(received.from.lid) };
                while transport.send(&to, &mad).is_ok_and(|sent| !sent) {
                    std::thread::yield_now();
                }
            }
        });
        Ok(Self { lid, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// So many requests for paths from one host to all in turn: responses per second.
fn rate(
    transport: &mut IbsimTransport,
    to: Lid,
    lids: &[Lid],
    count: usize,
    window: usize,
) -> Result<(f64, Vec<Duration>)> {
    let own = transport.lid();
    let limits = Limits { window, retries: 10, ..Limits::default() };
    let mut client: Windowed<(Lid, Instant)> = Windowed::new(limits);
    let (mut asked, mut answered, mut done, mut took) = (0, 0, Vec::new(), Vec::new());
    let begun = Instant::now();
    while answered < count {
        while asked < count && client.open() < window {
            let there = lids.get(asked % lids.len().max(1)).copied().unwrap_or(own);
            let mut wanted = PathRecord::default();
            wanted.set_source_lid(own).set_destination_lid(there);
            let mad = question(Method::GET, attribute::PATH, &wanted, BY_LIDS);
            client.ask(Address::services(to), mad, (there, Instant::now()));
            asked += 1;
        }
        client.drive(transport, Duration::from_millis(100), &mut done).map_err(failed)?;
        for one in done.drain(..) {
            let (there, since) = one.key;
            match one.outcome {
                Outcome::Answer(mad) if is_path(&mad, there) => took.push(since.elapsed()),
                other => return Err(failed(format!("a request for a path got no record: {other:?}"))),
            }
            answered += 1;
        }
        if begun.elapsed() > LIMIT {
            return Err(failed("requests for paths are not answered"));
        }
    }
    Ok((count as f64 / begun.elapsed().as_secs_f64(), took))
}

fn is_path(mad: &Mad, to: Lid) -> bool {
    let class = mad.header().class() == Class::ADMINISTRATION;
    class && refusal(mad).is_none() && mad.at::<DATA_AT, PathRecord>().destination_lid() == to
}

/// Brings a fabric up, and asks for `count` paths from the manager and from an echo by turns, so many
/// times.
pub fn paths(
    program: &Path,
    graph: &Graph,
    count: usize,
    times: usize,
    waiter: &Arc<dyn Waiter>,
) -> Result<Vec<Rates>> {
    let lab = Lab::start(program, graph, waiter)?;
    let manager = lab.manager(lab.host(0), &[])?;
    manager.until_up()?;
    let (_, found) = lab.found(graph.link_count())?;
    let hosts = found.graph.nodes_of(Kind::Host).flat_map(|node| found.graph.ports(node));
    let lids: Vec<Lid> =
        hosts.map(|port| Lid(found.graph.lid(port))).filter(|lid| lid.is_unicast()).collect();
    let mut transport = lab.connect(lab.host(2))?;
    transport.refresh().map_err(failed)?;
    let manager_lid = transport.sm_lid();
    let echo = Echo::start(&lab, lab.host(3))?;
    let mut rates = Vec::new();
    while rates.len() < times && (rates.is_empty() || !waiter.stop()) {
        let (of_echo, _) = rate(&mut transport, echo.lid, &lids, count, WINDOW)?;
        let (ours, _) = rate(&mut transport, manager_lid, &lids, count, WINDOW)?;
        let (_, mut alone) = rate(&mut transport, manager_lid, &lids, count.min(2000), 1)?;
        alone.sort_unstable();
        let p99 = alone.get(alone.len() * 99 / 100).copied().unwrap_or_default();
        rates.push(Rates { ours, echo: of_echo, p99_us: p99.as_secs_f64() * 1e6 });
    }
    if rates.is_empty() { Err(BenchError::Stopped { what: super::WHAT }) } else { Ok(rates) }
}
