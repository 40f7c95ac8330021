//! `pt2pt` between hosts: a client measures with a server on a node of another host.
//!
//! The client's orders are words for the members, left in the server's mailbox; each side gives them to its
//! own members ([`super::team`]). Memory of the far node is a segment of the server, which takes no part.

use std::sync::Arc;

use shm::window::Window;
use tieline::{Node, NodeId, RemoteSegment};

use super::{
    Options, PROCESSES_MAX, Report, WHAT,
    memory::Memory,
    team::{Plan, Side, Team},
};
use crate::{
    cpus,
    error::{BenchError, Result},
    patterns::rendezvous::{self, Client, Mailbox, Order, ServeOptions, Service, Tool, memory::Owner, serve},
    progress::{Progress, Quiet, Waiter},
};

/// The server starts as many members as its share of this number, and lets them meet ours.
const TASK_MEET: u64 = 16;
/// Those of its members that are among so many carry out what was left in its mailbox; the reply has what
/// each says, on lines.
const TASK_CARRY_OUT: u64 = 17;
const BETWEEN: char = '\n';
/// Longest reason that is left for the client: a mailbox takes no more.
const REASON_CHARS_MAX: usize = 250;
/// Message of known bytes, before messages of its size are measured.
const SEED: usize = 1;

/// The server, and the members of this host.
pub(super) struct Hosts {
    client: Client,
    cpus: Vec<usize>,
    waiter: Arc<dyn Waiter>,
    /// The members of all tests meet once.
    team: Option<Team>,
    most_members: usize,
    /// Those of the present test.
    members: usize,
}

impl Hosts {
    /// Meets the server on node `place.far`, which must be given.
    pub(super) fn meet(options: &Options, cpus: [usize; 2], progress: &mut dyn Progress) -> Result<Self> {
        let place = options.place.clone().unwrap_or_default();
        let client = Client::meet(&place, Tool::Pt2pt, progress, |_| Ok(0))?;
        if !client.is_between_hosts() {
            let text = format!(
                "node {} is on this host, and --rn names a node of another one: leave --rn out to measure within this host",
                client.server
            );
            return Err(BenchError::Usage(text));
        }
        let cpus = match options.cpus {
            Some(given) => given.to_vec(),
            None => from(cpus[0])?,
        };
        let of_messages = options.tests.iter().filter(|test| !test.is_of_memory());
        let most_members = of_messages.map(|test| test.members(options)).max().unwrap_or_default();
        Ok(Self { client, cpus, waiter: progress.waiter(), team: None, most_members, members: 0 })
    }

    /// The nodes, the processors of the first two ends, and the link between them.
    pub(super) fn place(&self) -> ([NodeId; 2], [usize; 2], String) {
        let far = usize::try_from(self.client.extra()).unwrap_or(usize::MAX);
        let near = self.cpus.first().copied().unwrap_or_default();
        ([self.client.node.id(), self.client.server], [near, far], self.client.path())
    }

    /// The next orders are for so many members of both sides.
    pub(super) fn start(&mut self, members: usize) -> Result<()> {
        if self.team.is_none() {
            self.team = Some(self.meet_all()?);
        }
        self.members = members;
        self.carry_out(&[format!("members {members}")]).map(drop)
    }

    fn meet_all(&mut self) -> Result<Team> {
        let nodes = [self.client.node.id(), self.client.server];
        let plan = Plan { side: Side::Near, nodes, members: self.most_members };
        let (node, cpus, waiter) = (self.client.node.clone(), self.cpus.clone(), Arc::clone(&self.waiter));
        let mut team = Err(no_members());
        let order = Order::new(TASK_MEET, [self.most_members as u64, 0, 0]);
        self.order(order, &mut || {
            team = Ok(Team::meet(&node, plan, &cpus, &waiter)?);
            Ok(())
        })?;
        team
    }

    /// What each member says of its order, in rank order: the orders are given in turn.
    pub(super) fn carry_out(&mut self, orders: &[String]) -> Result<Vec<String>> {
        let (Some(near), Some(far)) = (orders.first(), orders.last()) else { return Ok(Vec::new()) };
        let Some(mut team) = self.team.take() else { return Err(no_members()) };
        self.client.mailbox()?.leave(far)?;
        let (mut ours, members) = (Vec::new(), self.members);
        self.order(Order::new(TASK_CARRY_OUT, [members as u64, 0, 0]), &mut || {
            ours = team.carry_out(members, near)?;
            Ok(())
        })?;
        self.team = Some(team);
        let theirs = self.client.mailbox()?.left()?;
        let mut theirs = theirs.split(BETWEEN).map(str::to_owned);
        let each = ours.into_iter().flat_map(|ours| [Some(ours), theirs.next()]);
        Ok(each.flatten().collect())
    }

    /// Sends known bytes from the first member to the second, which compares them.
    pub(super) fn prove(&mut self, size_bytes: usize) -> Result<()> {
        let words = format!("{size_bytes} {SEED}");
        self.carry_out(&[format!("check {words}"), format!("expect {words}")]).map(drop)
    }

    /// Memory of the far node.
    pub(super) fn memory(&mut self, size_bytes: usize) -> Result<Memory> {
        let remote = self.client.memory(Memory::segment_bytes(size_bytes))?;
        Memory::there(remote, self.client.node.clone(), size_bytes, &self.waiter)
    }

    /// Ends the server, and the members.
    pub(super) fn stop(self) -> Result<()> {
        if let Some(team) = self.team {
            team.part();
        }
        self.client.stop()
    }

    /// An order to the server, while `near` is done here. What the server has left is the cause of its error,
    /// but members of both sides may have errors of each other.
    fn order(&mut self, order: Order, near: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let mut ours = None;
        let outcome =
            self.client.order(order, &mut || near().inspect_err(|error| ours = Some(reason(error))));
        let Err(error) = outcome else { return Ok(()) };
        let theirs = self.client.mailbox().and_then(|mailbox| mailbox.left()).unwrap_or_default();
        if !matches!(error, BenchError::OtherEnd { .. }) || theirs.is_empty() {
            return Err(error);
        }
        let node = self.client.server;
        let ours = ours.map(|ours| format!("; here: {ours}")).unwrap_or_default();
        Err(BenchError::Absent { what: WHAT, reason: format!("the end on node {node}: {theirs}{ours}") })
    }
}

/// What a member has said, without the words around it.
fn reason(error: &BenchError) -> String {
    match error {
        BenchError::OtherEnd { reason, .. } => reason.clone(),
        other => other.to_string(),
    }
}

/// The processors of this process, from this one on.
fn from(first: usize) -> Result<Vec<usize>> {
    let mut all = cpus::allowed()?;
    if let Some(at) = all.iter().position(|cpu| *cpu == first) {
        all.rotate_left(at);
    }
    Ok(all)
}

fn no_members() -> BenchError {
    BenchError::Usage(format!("{WHAT}: no members were started"))
}

/// Measures with the far ends on node `place.far`, where [`serve_hosts`] runs.
///
/// # Errors
/// As [`super::run`]; the server is not there or fails.
pub fn client(options: &Options, progress: &mut dyn Progress) -> Result<Report> {
    options.check()?;
    let cpus = match options.cpus {
        Some(cpus) => cpus,
        None => [rendezvous::cpu_of(None, true)?; 2],
    };
    let mut hosts = Hosts::meet(options, cpus, progress)?;
    let report = super::measured(options, &mut super::Place::Hosts(&mut hosts), progress);
    // The server may end in any case; if that fails too, the first error is returned.
    let stopped = hosts.stop();
    report.and_then(|report| stopped.map(|()| report))
}

/// Serves one [`client`] until it is done or gone.
///
/// # Errors
/// The client does not come, or is gone.
pub fn serve_hosts(options: &ServeOptions) -> Result<()> {
    let cpu = rendezvous::cpu_of(options.cpu, false)?;
    let (client, most_bytes) = (options.client, options.most_bytes);
    serve(
        options,
        Tool::Pt2pt,
        |_| Ok(cpu as u64),
        |node, _| {
            let owner = Owner::new(Tool::Pt2pt, node, most_bytes);
            Ok(Far { owner, node: node.clone(), client, cpus: from(cpu)?, team: None })
        },
    )
}

/// The server's part.
struct Far {
    owner: Owner,
    node: Node,
    client: NodeId,
    cpus: Vec<usize>,
    team: Option<Team>,
}

impl Far {
    /// What is to be left for the client, if it is one of these orders.
    fn carry_out(&mut self, order: &Order, words: &str) -> Result<Option<String>> {
        let [members, ..] = order.arguments;
        match order.task {
            TASK_MEET => {
                self.team = None;
                let members =
                    usize::try_from(members).ok().filter(|count| (2..=PROCESSES_MAX).contains(count));
                let members = members.ok_or_else(no_members)?;
                let plan = Plan { side: Side::Far, nodes: [self.client, self.node.id()], members };
                let waiter: Arc<dyn Waiter> = Arc::new(Quiet);
                self.team = Some(Team::meet(&self.node, plan, &self.cpus, &waiter)?);
                Ok(Some(String::new()))
            }
            TASK_CARRY_OUT => {
                let team = self.team.as_mut().ok_or_else(no_members)?;
                let members = usize::try_from(members).unwrap_or_default();
                Ok(Some(team.carry_out(members, words)?.join(&BETWEEN.to_string())))
            }
            _ => Ok(None),
        }
    }

    /// The same, with mailboxes for the words.
    fn answer(&mut self, order: &Order, mailbox: Mailbox<'_>) -> Result<u64> {
        match self.carry_out(order, &mailbox.left()?) {
            Ok(Some(said)) => mailbox.leave(&said).map(|()| 0),
            Ok(None) => self.owner.follow(order),
            Err(error) => {
                let reason: String = reason(&error).chars().take(REASON_CHARS_MAX).collect();
                mailbox.leave(&reason)?;
                Err(BenchError::OtherEnd { what: WHAT, reason })
            }
        }
    }
}

impl Service for Far {
    fn follow(&mut self, order: &Order) -> Result<u64> {
        self.owner.follow(order)
    }

    fn follow_between_hosts(
        &mut self,
        order: &Order,
        mine: Window<'_>,
        theirs: &RemoteSegment,
    ) -> Result<u64> {
        self.answer(order, Mailbox::between_hosts(mine, theirs, Tool::Pt2pt)?)
    }
}
