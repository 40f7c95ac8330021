//! Discovers a fabric by directed routes from one port, with many requests in flight. Nothing is
//! set.
//!
//! Every link between switches is asked about from both ends. What does not fit together is asked again, and
//! what still does not is said: [`Anomaly`].

use std::time::Duration;

use mad::header::Path;
use mad::sm::{NodeDescription, NodeInfo, PortInfo, SwitchInfo};
use mad::windowed::{Limits, Tally};
use mad::{MadTransport, TransportError};
use topology::{Graph, NodeIx, PortIx};

mod anomaly;
mod explore;
mod settle;
#[cfg(test)]
mod tests;

pub use anomaly::{Anomaly, PortLocation};
use explore::Explorer;
pub(crate) use explore::is_up;
pub use settle::link_spec;

/// How to sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Requests in flight, and how long each may take.
    pub limits: Limits,
    /// Nodes after which it gives up: no fabric has more LIDs, but a faulty switch may invent any number.
    pub most_nodes: usize,
    /// Ports that these nodes may have together. A fat tree with all LIDs that there are has fewer than
    /// 300,000; what is remembered of each, and what is asked of each, makes memory and time of a sweep.
    pub most_ports: usize,
    /// Requests that may stay without a response before nothing more is asked.
    pub most_silent: usize,
}

/// Anomalies that are kept in words; the rest is counted.
pub const MAX_ANOMALIES: usize = 4_000;

impl Default for Options {
    fn default() -> Self {
        Self { limits: Limits::default(), most_nodes: 0x1_0000, most_ports: 0x6_0000, most_silent: 4_096 }
    }
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Nodes found so far.
    pub nodes: usize,
    /// Requests that have no response yet.
    pub open: usize,
    /// Datagrams so far.
    pub tally: Tally,
}

/// Why there is no result at all.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// Datagrams can't be sent.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// Not even the local node responds.
    #[error("the local node does not respond: check that its driver is loaded and that the port exists")]
    LocalUnresponsive,
    /// `stop` returned true.
    #[error("the sweep was stopped after {0} nodes")]
    Stopped(usize),
}

/// What a node reports of itself.
#[derive(Debug, Clone)]
pub struct NodeFacts {
    /// What it is.
    pub info: NodeInfo,
    /// Its NodeDescription; `None` if it was not reported.
    pub description: Option<NodeDescription>,
    /// Of a switch; `None` if it was not reported.
    pub switch: Option<SwitchInfo>,
    /// The path by which it was asked.
    pub path: Path,
}

/// What was found.
#[derive(Debug)]
pub struct Found {
    /// The fabric. Node 0 is where the sweep stood; the others follow in the order of their distance and port
    /// numbers.
    pub graph: Graph,
    /// What the nodes report, by [`NodeIx`].
    pub nodes: Vec<NodeFacts>,
    /// What the ports report, by [`PortIx`]; `None` for ports without a response.
    pub ports: Vec<Option<PortInfo>>,
    /// What does not fit.
    pub anomalies: Vec<Anomaly>,
    /// Anomalies beyond [`MAX_ANOMALIES`].
    pub more_anomalies: u64,
    /// Datagrams.
    pub tally: Tally,
    /// How long it took, by the transport's clock.
    pub took: Duration,
}

impl Found {
    /// What a node reports of itself.
    #[must_use]
    pub fn node(&self, node: NodeIx) -> Option<&NodeFacts> {
        self.nodes.get(node.index())
    }

    /// What a port reports.
    #[must_use]
    pub fn port(&self, port: PortIx) -> Option<&PortInfo> {
        self.ports.get(port.index())?.as_ref()
    }
}

/// Sweeps the fabric behind `transport`. `progress` is called now and then; so is `stop`, which ends the
/// sweep if it returns true.
///
/// # Errors
/// No transport, no local node, or `stop` returned true. All else is an [`Anomaly`].
pub fn sweep<T: MadTransport + ?Sized>(
    transport: &mut T,
    options: &Options,
    progress: &mut dyn FnMut(&Progress),
    stop: &dyn Fn() -> bool,
) -> Result<Found, SweepError> {
    let begun = transport.now();
    let mut explorer = Explorer::new(options);
    explorer.start();
    // Each round settles which ends belong together. What contradicts itself is asked anew, and may turn out
    // to be a node of its own; then there is more to explore.
    for round in 0.. {
        explorer.run(transport, progress, stop)?;
        if explorer.nodes.is_empty() {
            return Err(SweepError::LocalUnresponsive);
        }
        if round == settle::MOST_ROUNDS || !explorer.contradictions(round == 0) {
            break;
        }
    }
    let mut found = explorer.finish();
    found.took = transport.now().saturating_sub(begun);
    Ok(found)
}
