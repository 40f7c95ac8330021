//! The connection test: is each link of each adapter up, and does it lead to the planned node?
//!
//! Where to start reading: `judge` (what is called a deviation), then [`run`].

mod judge;
mod plan;
mod rates;
mod render;
mod save;
mod seen;
#[cfg(test)]
mod tests;

use proto::ids::AdapterNo;
use serde::Serialize;
use tieline::NodeId;

use crate::Target;
use crate::capacity::CouldNotRun;
use crate::status::{self, Hosts};
use crate::verdict::Verdict;

pub use plan::{Plan, PlanError, PlannedLink, Rates};
pub use rates::{Check, Measured, Watch};
pub use save::{check as check_place, save};
pub use seen::{LinkReport, LinkState, NodeCables, RailReport};

/// Schema of the report.
pub const SCHEMA: &str = "tieline.cable/1";
/// Schema of a plan that is printed as JSON.
pub const PLAN_SCHEMA: &str = "tieline.plan/1";

/// In which way the cluster is not as planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Planned, and not there or not up.
    Missing,
    /// Two cables are in each other's place.
    Swapped,
    /// A link ends at another node than planned.
    Elsewhere,
    /// A link is plugged into another adapter than planned.
    Adapter,
    /// There, and not planned.
    Extra,
    /// It does not reach what the plan asks for.
    Slow,
    /// The plan asks for a measurement that could not be made.
    Unmeasured,
}

impl Kind {
    /// As people read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Swapped => "swapped",
            Self::Elsewhere => "elsewhere",
            Self::Adapter => "adapter",
            Self::Extra => "extra",
            Self::Slow => "slow",
            Self::Unmeasured => "unmeasured",
        }
    }
}

/// One thing that is not as planned.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Deviation {
    /// In which way.
    pub kind: Kind,
    /// The node that it is about: of a link, its lower end; of a swap, the lower of the two.
    pub node: NodeId,
    /// The adapter there.
    pub adapter: AdapterNo,
    /// The node at the other end, or the other one of a swap; `None` if several links of `node` are meant.
    pub partner: Option<NodeId>,
    /// The node that is there instead.
    pub found: Option<NodeId>,
    /// The links that it is about, by their ends.
    pub links: Vec<[NodeId; 2]>,
    /// What is wrong.
    pub text: String,
    /// What to do about it.
    pub next_step: String,
}

/// What is asked for.
#[derive(Debug)]
pub struct Request {
    /// The links that there should be.
    pub plan: Plan,
    /// Whose nodes are asked for their links.
    pub hosts: Hosts,
    /// Only links of this node.
    pub only: Option<NodeId>,
    /// All that is there is measured, whatever the plan asks for: for a plan that is to be saved.
    pub measure_all: bool,
}

/// What was found.
#[derive(Debug, Serialize)]
pub struct CableReport {
    /// As planned, not as planned, or in doubt because of a measurement.
    pub verdict: Verdict,
    /// The cluster.
    pub cluster: String,
    /// Against what it was judged.
    pub plan: Plan,
    /// By node: whether it answers, and its links.
    pub nodes: Vec<NodeCables>,
    /// What was measured, if the plan asks for it.
    pub measured: Vec<Measured>,
    /// What is not as planned.
    pub deviations: Vec<Deviation>,
    /// What a measurement leaves open.
    pub doubts: Vec<String>,
    /// Ended early, by request.
    pub partial: bool,
}

/// Looks at all links of the target (all nodes of its cluster) and compares them with the plan. An error is a
/// lack of this process's own, or a plan for another cluster. `stop` may ask for an early end of
/// measurements.
pub fn run(
    target: &Target,
    request: Request,
    tell: &mut dyn FnMut(&str),
    stop: &dyn Fn() -> bool,
) -> Result<CableReport, CableError> {
    let cluster = target.cluster.clone().unwrap_or_else(|| "default".into());
    tell("asking all nodes for their links");
    let status = status::collect_settled_on(request.hosts, target, stop)?;
    let mut nodes = seen::nodes(&status);
    request.plan.check_known(&cluster, &seen::known(&nodes))?;
    seen::add_silent(&mut nodes, &request.plan.nodes);
    let mut deviations = judge::deviations(&request.plan, &nodes);
    deviations.retain(|deviation| request.only.is_none_or(|node| judge::concerns(deviation, node)));
    let (wanted, far) = rates::wanted(&request, &nodes, &deviations);
    let (measured, busy) = if wanted.is_empty() {
        (Vec::new(), None)
    } else {
        tell(&format!("measuring {}", crate::run::counted(wanted.len(), "link")));
        rates::measure(target, &wanted, stop)
    };
    let mut doubts = Vec::new();
    rates::judge(&wanted, &measured, busy.as_deref(), stop(), &mut deviations, &mut doubts);
    doubts.extend(far.into_iter().filter(|_| !request.measure_all).map(rates::not_measured));
    if request.plan.path.is_none()
        && deviations.is_empty()
        && seen::known(&nodes).len() < 2
        && let Some(why) = target.lacks_a_peer()
    {
        doubts.push(format!("a link {why}"));
    }
    if let Some(only) = request.only {
        nodes.retain(|node| node.node == only);
    }
    seen::mark(&mut nodes, &request.plan, &deviations);
    let partial = !wanted.is_empty() && stop();
    let verdict = match (deviations.is_empty(), doubts.is_empty() && !partial) {
        (false, _) => Verdict::Fail,
        (true, false) => Verdict::Inconclusive,
        (true, true) => Verdict::Pass,
    };
    Ok(CableReport { verdict, cluster, plan: request.plan, nodes, measured, deviations, doubts, partial })
}

/// The test could not be run.
#[derive(Debug, thiserror::Error)]
pub enum CableError {
    /// The cluster could not be asked.
    #[error(transparent)]
    CouldNotRun(#[from] CouldNotRun),
    /// The plan cannot be used.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

impl From<node::NodeError> for CableError {
    fn from(error: node::NodeError) -> Self {
        Self::CouldNotRun(error.into())
    }
}

impl CableReport {
    /// The present links as a plan; with limits from the measurements, if there are any.
    pub fn as_plan(&self) -> Plan {
        let mut plan = Plan::of_links(
            self.nodes.iter().flat_map(|node| &node.links).filter(|link| link.state == LinkState::Up),
        );
        plan.nodes = self.nodes.iter().map(|node| node.node).collect();
        for link in &mut plan.links {
            link.rates = rates::as_limits(&self.measured, link.ends);
        }
        plan
    }
}
