//! Reads the counters of all ports at once. Nothing is discovered anew, and nothing is ever cleared.
//!
//! Performance datagrams have no directed form: a port without a LID can't be asked, and is reported so. What
//! a sweep found is made into a [`Plan`] once; each [`collect`] then asks all its ports, with many requests
//! in flight.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use mad::header::ClassPortInfo;
use mad::pm::{self, PortCounters, PortCountersExtended, attribute, capability};
use mad::values::Method;
use mad::windowed::{Done, Limits, Outcome, Tally, Windowed};
use mad::{Address, Lid, MadTransport, TransportError};
use topology::{Graph, Kind, PortIx};

#[cfg(test)]
mod tests;

pub use crate::counting::Counters;

/// A node that left so many requests in a row without a response is not asked any more this time.
const MAX_UNANSWERED: u32 = 3;
/// Of `ClassPortInfo::capability_mask2`: the counters of 64 bits hold errors too.
const EXTENDED_ERRORS: u32 = 1 << 1;
/// All counters that a narrow attribute has.
const ALL: u32 = u32::MAX;
/// The first eight of the attribute of 64 bits: data and packets.
const TRAFFIC: u64 = 0xff;
/// The four of them that every extended counter has.
const TRAFFIC_WITHOUT_CASTS: u64 = 0x0f;

/// How to collect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Requests in flight, and how long each may take.
    pub limits: Limits,
    /// Ask for counters of 64 bits where a node has them: twice the datagrams.
    pub extended: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { limits: Limits::default(), extended: true }
    }
}

/// What a node's performance agent can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Agent {
    traffic: u64,
}

#[derive(Debug, Clone, Copy)]
struct Target {
    port: PortIx,
    lid: Lid,
    number: u8,
}

/// Whom to ask: all ports of a fabric that have a link.
#[derive(Debug, Clone)]
pub struct Plan {
    targets: Vec<Target>,
    without_lid: Vec<PortIx>,
    /// By LID; what is not known yet is asked.
    agents: HashMap<Lid, Agent>,
}

impl Plan {
    /// All ports of a graph that have a cable and whose node has a LID.
    #[must_use]
    pub fn new(graph: &Graph) -> Self {
        let mut plan = Self { targets: Vec::new(), without_lid: Vec::new(), agents: HashMap::new() };
        for port in
            graph.nodes().flat_map(|node| graph.ports(node)).filter(|port| graph.peer(*port).is_some())
        {
            let lid = Lid(graph.lid(port));
            if lid.is_unicast() {
                plan.targets.push(Target { port, lid, number: graph.number(port) });
            } else {
                plan.without_lid.push(port);
            }
        }
        // By number first, so that the requests to a node are far apart, and a silent one does not fill the
        // window.
        plan.targets.sort_by_key(|target| (target.number, target.port));
        debug_assert!(
            plan.targets
                .iter()
                .all(|target| graph.kind(graph.owner(target.port)) != Kind::Switch || target.number > 0)
        );
        plan
    }

    /// How many ports are asked.
    #[must_use]
    pub fn ports(&self) -> usize {
        self.targets.len()
    }
}

/// Counters of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The port.
    pub port: PortIx,
    /// When its (last) response came, by the transport's clock.
    pub at: Duration,
    /// The counters. Those that were only there in fewer bits stopped at their largest value.
    pub counters: Counters,
    /// Data and packets were there in 64 bits.
    pub wide: bool,
}

/// Why a port has no reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Its node has no LID.
    NoLid,
    /// Nothing came back.
    Silent,
    /// The transport reported that the request cannot be delivered.
    Unreachable,
    /// It refuses, with this status.
    Refused(u16),
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoLid => f.write_str("has no LID: is there a subnet manager?"),
            Self::Silent => f.write_str("does not respond"),
            Self::Unreachable => f.write_str("cannot be reached"),
            Self::Refused(status) => write!(f, "rejects the request (status {status:#06x})"),
        }
    }
}

/// What was collected.
#[derive(Debug, Clone, Default)]
pub struct Collected {
    /// In the order of ports.
    pub readings: Vec<Reading>,
    /// Ports without a reading, in their order.
    pub missing: Vec<(PortIx, Missing)>,
    /// Datagrams.
    pub tally: Tally,
    /// How long it took, by the transport's clock.
    pub took: Duration,
    /// `stop` returned true before all ports were read.
    pub stopped: bool,
}

#[derive(Debug, Clone, Copy)]
enum Question {
    Agent(Lid),
    Narrow(usize),
    Wide(usize),
}

/// Reads the counters of all ports of a plan. `stop` is asked now and then, and ends it with what there is.
///
/// # Errors
/// Those of the transport.
pub fn collect<T: MadTransport + ?Sized>(
    transport: &mut T,
    plan: &mut Plan,
    options: &Options,
    stop: &dyn Fn() -> bool,
) -> Result<Collected, TransportError> {
    let begun = transport.now();
    let mut round = Round::new(plan, options);
    if options.extended {
        let mut unknown: Vec<Lid> = round.plan.targets.iter().map(|target| target.lid).collect();
        unknown.sort_unstable();
        unknown.dedup();
        unknown.retain(|lid| !round.plan.agents.contains_key(lid));
        round.pending.extend(unknown.into_iter().map(Question::Agent));
        round.run(transport, stop)?;
    }
    for index in 0..round.plan.targets.len() {
        round.pending.push_back(Question::Narrow(index));
        let target = round.plan.targets[index];
        if options.extended && round.plan.agents.get(&target.lid).is_some_and(|agent| agent.traffic != 0) {
            round.pending.push_back(Question::Wide(index));
        }
    }
    round.run(transport, stop)?;
    let mut collected = round.finish();
    collected.took = transport.now().saturating_sub(begun);
    Ok(collected)
}

struct Round<'a> {
    plan: &'a mut Plan,
    client: Windowed<Question>,
    ahead: usize,
    pending: VecDeque<Question>,
    readings: Vec<Option<Reading>>,
    missing: Vec<Option<Missing>>,
    unanswered: HashMap<Lid, u32>,
    stopped: bool,
}

impl<'a> Round<'a> {
    fn new(plan: &'a mut Plan, options: &Options) -> Self {
        let count = plan.targets.len();
        Self {
            plan,
            client: Windowed::new(options.limits),
            ahead: options.limits.window,
            pending: VecDeque::new(),
            readings: vec![None; count],
            missing: vec![None; count],
            unanswered: HashMap::new(),
            stopped: false,
        }
    }

    fn run<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), TransportError> {
        let ahead = transport.room().max(self.ahead) * 2;
        let mut done = Vec::new();
        while !self.stopped {
            while self.client.open() < ahead {
                let Some(question) = self.pending.pop_front() else { break };
                self.ask(question);
            }
            if self.client.open() == 0 {
                return Ok(());
            }
            self.client.drive(transport, Duration::from_millis(100), &mut done)?;
            let now = transport.now();
            done.drain(..).for_each(|done| self.take(now, done));
            self.stopped = stop();
        }
        Ok(())
    }

    fn lid(&self, question: Question) -> Lid {
        match question {
            Question::Agent(lid) => lid,
            Question::Narrow(index) | Question::Wide(index) => self.plan.targets[index].lid,
        }
    }

    fn ask(&mut self, question: Question) {
        let lid = self.lid(question);
        if self.unanswered.get(&lid).is_some_and(|count| *count >= MAX_UNANSWERED) {
            self.miss(question, Missing::Silent);
            return;
        }
        let (attribute, number) = match question {
            Question::Agent(_) => (attribute::CLASS_PORT_INFO, 0),
            Question::Narrow(index) => (attribute::PORT_COUNTERS, self.plan.targets[index].number),
            Question::Wide(index) => (attribute::PORT_COUNTERS_EXTENDED, self.plan.targets[index].number),
        };
        self.client.ask(Address::services(lid), pm::question(Method::GET, attribute, number), question);
    }

    fn miss(&mut self, question: Question, why: Missing) {
        if let Question::Narrow(index) = question {
            self.missing[index] = Some(why);
        }
    }

    fn take(&mut self, now: Duration, Done { key, outcome }: Done<Question>) {
        let lid = self.lid(key);
        let mad = match outcome {
            Outcome::Answer(mad) => mad,
            Outcome::Refused(_, status) => {
                self.unanswered.remove(&lid);
                return self.miss(key, Missing::Refused(status.0));
            }
            silent => {
                *self.unanswered.entry(lid).or_default() += 1;
                let unreachable = matches!(silent, Outcome::Unreachable);
                return self.miss(key, if unreachable { Missing::Unreachable } else { Missing::Silent });
            }
        };
        self.unanswered.remove(&lid);
        match key {
            Question::Agent(lid) => {
                self.plan.agents.insert(lid, agent(mad.data()));
            }
            Question::Narrow(index) => {
                let wide = self.readings[index].take();
                let mut reading = wide.clone().unwrap_or_else(|| self.reading(index));
                let before = reading.counters;
                reading.counters.store(mad.data::<PortCounters>(), ALL);
                if wide.is_some() {
                    // What is there in more bits already stays.
                    let traffic = self.plan.agents.get(&lid).map_or(0, |agent| agent.traffic);
                    reading.counters.keep_extended(&before, traffic);
                }
                reading.at = now;
                self.readings[index] = Some(reading);
            }
            Question::Wide(index) => {
                let traffic = self.plan.agents.get(&lid).map_or(0, |agent| agent.traffic);
                let mut reading = self.readings[index].take().unwrap_or_else(|| self.reading(index));
                reading.counters.store_extended(mad.data::<PortCountersExtended>(), traffic);
                (reading.wide, reading.at) = (true, now);
                self.readings[index] = Some(reading);
            }
        }
    }

    fn reading(&self, index: usize) -> Reading {
        Reading {
            port: self.plan.targets[index].port,
            at: Duration::ZERO,
            counters: Counters::default(),
            wide: false,
        }
    }

    fn finish(self) -> Collected {
        let targets = self.plan.targets.iter().zip(self.readings).zip(self.missing);
        let mut collected =
            Collected { tally: self.client.tally(), stopped: self.stopped, ..Collected::default() };
        for ((target, reading), missing) in targets {
            match (reading, missing) {
                (Some(reading), None) => collected.readings.push(reading),
                (_, Some(why)) => collected.missing.push((target.port, why)),
                (None, None) => {}
            }
        }
        collected.missing.extend(self.plan.without_lid.iter().map(|port| (*port, Missing::NoLid)));
        collected.readings.sort_by_key(|reading| reading.port);
        collected.missing.sort_by_key(|(port, _)| *port);
        collected
    }
}

fn agent(info: &ClassPortInfo) -> Agent {
    let traffic = if info.capability_mask() & capability::EXTENDED_WIDTH != 0 {
        TRAFFIC
    } else if info.capability_mask() & capability::EXTENDED_WIDTH_NO_IETF != 0 {
        TRAFFIC_WITHOUT_CASTS
    } else {
        0
    };
    let errors = if info.capability_mask2() & EXTENDED_ERRORS != 0 { u64::from(u32::MAX) << 32 } else { 0 };
    Agent { traffic: if traffic == 0 { 0 } else { traffic | errors } }
}
