//! The members of a test that are on this host, if the others are on another one: threads, each with a
//! message queue at a port of the node.
//!
//! Members of even rank are on the host that measures, those of odd rank on the other one. So the two of each
//! pair are on different hosts, and neighbours of a group, too.

use std::{
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use collectives::measured::{End, Fallible, Holder};
use tieline::messages::{Everywhere, Name, Settings};
use tieline::{MessageQueue, Node, NodeId, PortNo};

use super::{PROCESSES_MAX, WHAT};
use crate::{
    error::{BenchError, Result},
    progress::Waiter,
};

/// Ports of members are numbered apart from those that programs choose.
const PORTS: u32 = 0x5e00_0000;
/// Of one client.
const PORTS_OF_CLIENT: u32 = PROCESSES_MAX as u32;
/// Bits of a client's node that are told apart: as many as there is room for.
const CLIENT_MASK: u32 = (1 << 24) / PORTS_OF_CLIENT - 1;
/// The members of the other host begin at the same time.
const MEET_LIMIT: Duration = Duration::from_secs(20);
/// Longest that an order may take.
const ORDER_LIMIT: Duration = Duration::from_secs(60);
/// A wait looks so often whether the run is to end.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Which of the two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The one that measures.
    Near = 0,
    Far = 1,
}

/// Who takes part, and where.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) side: Side,
    /// The nodes of both sides, the near one first.
    pub(super) nodes: [NodeId; 2],
    /// Members of both sides.
    pub(super) members: usize,
}

impl Plan {
    /// Where a member of this rank is.
    fn place(&self, rank: usize) -> (NodeId, PortNo) {
        let [client, _] = self.nodes;
        let first = PORTS + (client.get() & CLIENT_MASK) * PORTS_OF_CLIENT;
        (self.nodes[rank % 2], PortNo(first + rank as u32))
    }

    /// The ranks of this side.
    fn ranks(&self) -> impl Iterator<Item = usize> + use<> {
        (self.side as usize..self.members).step_by(2)
    }
}

/// A queue of the node, as an end holds it.
#[derive(Debug)]
struct Held(MessageQueue);

impl Holder for Held {
    type Meeting = Everywhere;

    #[inline]
    fn queue(&mut self) -> &mut tieline::messages::Engine {
        &mut self.0
    }
}

type Said = std::result::Result<String, String>;

/// One member, which ends when it gets no more orders.
struct Member {
    orders: Sender<String>,
    answers: Receiver<Said>,
    thread: JoinHandle<()>,
}

/// The members of this host, in the order of their ranks. If this is dropped, they are left to themselves:
/// one that waits for the other side is not ended from outside.
pub(super) struct Team {
    plan: Plan,
    members: Vec<Member>,
    waiter: Arc<dyn Waiter>,
}

impl Team {
    /// Starts them, the first on the first of these processors and so on in turn, and waits until all of both
    /// sides have met.
    pub(super) fn meet(node: &Node, plan: Plan, cpus: &[usize], waiter: &Arc<dyn Waiter>) -> Result<Self> {
        let start = |(at, rank): (usize, usize)| {
            let (orders, given) = channel();
            let (said, answers) = channel();
            let (node, cpu) = (node.clone(), cpus.get(at % cpus.len().max(1)).copied());
            let run = move || member(&node, plan, rank, cpu, &given, &said);
            let thread = std::thread::Builder::new().name(format!("bench-rank-{rank}"));
            let thread = thread.spawn(run).map_err(BenchError::io("starting a thread"))?;
            Ok(Member { orders, answers, thread })
        };
        let members = plan.ranks().enumerate().map(start).collect::<Result<_>>()?;
        let mut team = Self { plan, members, waiter: Arc::clone(waiter) };
        team.answers(plan.members)?;
        Ok(team)
    }

    /// What each of the first `members` of both sides that is on this one says of this order.
    pub(super) fn carry_out(&mut self, members: usize, order: &str) -> Result<Vec<String>> {
        let plan = Plan { members, ..self.plan };
        let count = plan.ranks().count();
        for member in self.members.iter().take(count) {
            member.orders.send(order.to_owned()).map_err(|_| other_end("a member has ended".to_owned()))?;
        }
        self.answers(count)
    }

    /// Ends them, who have carried out all that they were ordered, and waits until their ports are free.
    pub(super) fn part(self) {
        let threads: Vec<_> = self.members.into_iter().map(|member| member.thread).collect();
        threads.into_iter().for_each(|thread| _ = thread.join());
    }

    fn answers(&mut self, count: usize) -> Result<Vec<String>> {
        let since = Instant::now();
        self.members.iter().take(count).map(|member| member.answer(since, &*self.waiter)).collect()
    }
}

impl Member {
    fn answer(&self, since: Instant, waiter: &dyn Waiter) -> Result<String> {
        loop {
            match self.answers.recv_timeout(LOOK_EVERY) {
                Ok(Ok(said)) => return Ok(said),
                Ok(Err(why)) => return Err(other_end(why)),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(other_end("a member has ended".to_owned()));
                }
                Err(RecvTimeoutError::Timeout) if waiter.stop() => {
                    return Err(BenchError::Stopped { what: WHAT });
                }
                Err(RecvTimeoutError::Timeout) if since.elapsed() > ORDER_LIMIT => {
                    let why = format!("a member has not responded for {} s", ORDER_LIMIT.as_secs());
                    return Err(other_end(why));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

fn other_end(reason: String) -> BenchError {
    BenchError::OtherEnd { what: WHAT, reason }
}

/// What a member's thread does.
fn member(
    node: &Node,
    plan: Plan,
    rank: usize,
    cpu: Option<usize>,
    orders: &Receiver<String>,
    answers: &Sender<Said>,
) {
    let said = |result: Fallible<String>| {
        answers.send(result.map_err(|error| format!("rank {rank}: {error}"))).is_ok()
    };
    let mut end = match open(node, plan, rank, cpu) {
        Ok(end) => end,
        Err(error) => {
            said(Err(error));
            return;
        }
    };
    if !said(Ok("ready".to_owned())) {
        return;
    }
    for order in orders {
        let words: Vec<&str> = order.split_whitespace().collect();
        if !said(end.obey(&words)) {
            return;
        }
    }
}

fn open(node: &Node, plan: Plan, rank: usize, cpu: Option<usize>) -> Fallible<End<Held>> {
    if let Some(cpu) = cpu {
        shm::cpu::pin_current_thread(cpu)?;
    }
    let settings = Settings::from_environment()?;
    let (_, port) = plan.place(rank);
    let mut queue = node.message_queue(port, &settings)?;
    let mut names: Vec<Name> = Vec::with_capacity(plan.members);
    for other in 0..plan.members {
        if other == rank {
            names.push(queue.name());
            continue;
        }
        let (node, port) = plan.place(other);
        let peer = queue.peer_at(node, port, MEET_LIMIT)?;
        names.push(queue.endpoint().name_of(peer).ok_or("a queue without a name")?);
    }
    End::open(Held(queue), &settings, &names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_both_sides_have_places_of_their_own() {
        let nodes = [0, 1].map(|at| NodeId::nth(at).unwrap());
        let plan = |side, members| Plan { side, nodes, members };
        assert_eq!(plan(Side::Near, 5).ranks().collect::<Vec<_>>(), [0, 2, 4]);
        assert_eq!(plan(Side::Far, 5).ranks().collect::<Vec<_>>(), [1, 3]);
        let all: Vec<_> =
            (0..PROCESSES_MAX).map(|rank| plan(Side::Near, PROCESSES_MAX).place(rank)).collect();
        let of_others = Plan { nodes: [nodes[1], nodes[0]], ..plan(Side::Near, PROCESSES_MAX) };
        for rank in 0..PROCESSES_MAX {
            assert_eq!(all.iter().filter(|place| **place == all[rank]).count(), 1, "rank {rank}");
            assert!(!all.contains(&of_others.place(rank)), "rank {rank}");
        }
    }
}
