//! One node's part of the test: a thread that serves all its peers in turn.

use shm::sync::{AtomicBool, AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use node_client::ClientError;
use proto::wire::status::{LinkStatus, SessionState};
use tieline::{Error, Node, NodeId};

use super::Options;
use super::outgoing::Timing;
use super::own_manager::{Look, OwnManager};
use super::peer::{Peer, Terms};
use super::report::InstanceReport;

/// Interval of the search for missing nodes, and of the looks at the own manager.
const LOOK_NS: u64 = 250_000_000;
/// How long an instance waits at the end for what is under way, and for the others to say that they have
/// ended.
const LEAVE_NS: u64 = 2_000_000_000;
/// Rounds without work before the processor is given away for longer.
const IDLE_ROUNDS: u32 = 64;
const IDLE_SLEEP: Duration = Duration::from_micros(50);

/// What instances of one program share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Instances that have met all their peers, or given up waiting.
    pub(super) ready: AtomicU64,
    /// All are ready: the exchange begins.
    pub(super) go: AtomicBool,
    /// The time is over, or an early end was requested.
    pub(super) stop: AtomicBool,
    /// Bytes compared so far.
    pub(super) bytes: AtomicU64,
    /// Failures so far.
    pub(super) failures: AtomicU64,
}

pub(super) struct Instance<'a> {
    local: Node,
    own: NodeId,
    options: &'a Options,
    shared: &'a Shared,
    terms: Terms,
    peers: BTreeMap<NodeId, Peer>,
    manager: OwnManager,
    start: Instant,
    sent_bytes: u64,
    error: Option<String>,
}

impl<'a> Instance<'a> {
    pub(super) fn new(
        local: Node,
        own: NodeId,
        options: &'a Options,
        shared: &'a Shared,
        crowd: u64,
    ) -> Self {
        // Instances that share a processor wait for each other: what is late is not lost.
        let timing = Timing { patience_ns: 20_000_000 * crowd, failure_after_ns: 1_000_000_000 * crowd };
        let terms = Terms {
            own,
            seed: options.seed,
            min_bytes: options.min_bytes,
            max_bytes: options.block_bytes,
            timing,
        };
        Self {
            local,
            own,
            options,
            shared,
            terms,
            peers: BTreeMap::new(),
            manager: OwnManager::default(),
            start: Instant::now(),
            sent_bytes: 0,
            error: None,
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Asks the own manager whether it runs, and for its links: those whose sessions are lost are outages of
    /// the nodes at their ends, whose data may go on.
    fn look_at_manager(&mut self) -> Vec<LinkStatus> {
        let status = self.local.status();
        let now_ns = self.now_ns();
        let (look, links) = match status {
            Ok(status) => (Look::Runs { incarnation: status.info.incarnation }, status.links),
            Err(Error::Client(ClientError::ManagerGone { why, .. })) => (Look::Gone(why), Vec::new()),
            Err(_) => (Look::Silent, Vec::new()),
        };
        let mut failures = u64::from(self.manager.note(now_ns, look));
        for (node, peer) in &mut self.peers {
            let sessions = || links.iter().filter(|link| link.peer == *node);
            let Some(first) = sessions().next() else { continue };
            let is_lost = sessions().all(|link| link.session == SessionState::Lost);
            let lost = is_lost.then(|| first.reason.clone().unwrap_or_default());
            failures += u64::from(peer.note_session(now_ns, lost));
        }
        self.shared.failures.fetch_add(failures, Ordering::Relaxed);
        links
    }

    /// Searches for nodes that are not known yet. A node whose manager has ended in order takes part only if
    /// it must.
    fn look_for_peers(&mut self) {
        let is_there =
            |link: &&LinkStatus| !matches!(link.session, SessionState::Stopped | SessionState::Revoked);
        let links = self.look_at_manager();
        let seen = links.iter().filter(is_there).map(|link| link.peer);
        let wanted = self.options.nodes.iter().copied().chain(seen);
        let new: Vec<NodeId> = wanted
            .filter(|node| *node != self.own && !self.peers.contains_key(node))
            .filter(|node| !self.options.only_listed || self.options.nodes.contains(node))
            .collect();
        for node in new {
            if self.peers.contains_key(&node) {
                continue;
            }
            match Peer::new(&self.local, &self.terms, node) {
                Ok(peer) => drop(self.peers.insert(node, peer)),
                Err(error) => self.error = Some(error.to_string()),
            }
        }
    }

    fn keep_connected(&mut self) {
        let now_ns = self.now_ns();
        for peer in self.peers.values_mut() {
            peer.hear_leave(&self.terms);
            peer.keep_connected(&self.local, &self.terms, now_ns);
        }
    }

    /// Waits until all peers answer, or patience is at an end.
    fn meet(&mut self) {
        self.look_for_peers();
        let patience_ns = u64::try_from(self.options.meet_within.as_nanos()).unwrap_or(u64::MAX);
        let is_last = self.options.all_are_started();
        while self.error.is_none() && self.now_ns() < patience_ns {
            self.keep_connected();
            // Others may have begun: who is waited for by nobody answers.
            let now_ns = self.now_ns();
            self.round(now_ns, false);
            let mut all = self.options.nodes.iter().filter(|node| **node != self.own);
            let is_settled = |peer: &Peer| peer.is_met() || is_last && peer.is_out_of_reach(now_ns);
            if all.all(|node| self.peers.get(node).is_some_and(is_settled)) {
                break;
            }
            if self.shared.stop.load(Ordering::Relaxed) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.shared.ready.fetch_add(1, Ordering::Relaxed);
        while !self.shared.go.load(Ordering::Relaxed) && !self.shared.stop.load(Ordering::Relaxed) {
            self.keep_connected();
            self.round(self.now_ns(), false);
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Bytes that may have been sent by now.
    fn allowance(&self, since_ns: u64) -> u64 {
        match self.options.throttle_bytes_per_s {
            Some(rate) => (u128::from(rate) * u128::from(since_ns) / 1_000_000_000) as u64,
            None => u64::MAX,
        }
    }

    fn round(&mut self, begun_ns: u64, more: bool) -> usize {
        let now_ns = self.now_ns();
        let more = more && self.sent_bytes < self.allowance(now_ns - begun_ns);
        let mut moved = 0;
        for peer in self.peers.values_mut() {
            let before = peer.ledger;
            moved += peer.exchange(&self.terms, now_ns, more);
            self.sent_bytes += peer.ledger.bytes_sent - before.bytes_sent;
            let checked = peer.ledger.bytes_checked - before.bytes_checked;
            if checked > 0 {
                self.shared.bytes.fetch_add(checked, Ordering::Relaxed);
            }
            let failed = peer.ledger.failures - before.failures;
            if failed > 0 {
                self.shared.failures.fetch_add(failed, Ordering::Relaxed);
            }
        }
        moved
    }

    /// Runs until the stop flag is set, then until what is under way has arrived.
    pub(super) fn run(mut self) -> InstanceReport {
        self.meet();
        let begun_ns = self.now_ns();
        let mut idle = 0;
        let mut next_look_ns = begun_ns + LOOK_NS;
        let mut next_care_ns = begun_ns;
        while !self.shared.stop.load(Ordering::Relaxed) {
            let moved = self.round(begun_ns, true);
            rest(&mut idle, moved);
            let now_ns = self.now_ns();
            if now_ns >= next_care_ns {
                next_care_ns = now_ns + 1_000_000;
                self.keep_connected();
            }
            if now_ns >= next_look_ns {
                next_look_ns = now_ns + LOOK_NS;
                self.look_for_peers();
            }
        }
        self.leave(begun_ns);
        // Once more, for what ended since the last look.
        self.look_at_manager();
        let now_ns = self.now_ns();
        let peers = std::mem::take(&mut self.peers).into_values().map(|peer| peer.finish(now_ns)).collect();
        let manager_outages = std::mem::take(&mut self.manager).into_outages();
        InstanceReport { node: self.own, host: None, peers, manager_outages, error: self.error }
    }

    fn leave(&mut self, begun_ns: u64) {
        let until_ns = self.now_ns() + LEAVE_NS * self.terms.timing.patience_ns / 20_000_000;
        let mut idle = 0;
        loop {
            let moved = self.round(begun_ns, false);
            rest(&mut idle, moved);
            let now_ns = self.now_ns();
            for peer in self.peers.values_mut().filter(|peer| peer.is_met()) {
                peer.take_leave(&self.terms, now_ns);
            }
            let ended =
                self.peers.values().all(|peer| !peer.is_met() || peer.is_finished() && peer.is_idle());
            if ended || now_ns >= until_ns {
                break;
            }
        }
        // Others may still wait for the last word: it is in their memory, so nothing more is needed.
    }
}

fn rest(idle: &mut u32, moved: usize) {
    if moved > 0 {
        *idle = 0;
        return;
    }
    *idle += 1;
    if *idle > IDLE_ROUNDS { std::thread::sleep(IDLE_SLEEP) } else { std::thread::yield_now() }
}
