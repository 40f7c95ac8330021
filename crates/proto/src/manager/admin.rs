//! An administrator's operations on links: down, up, degrade, swap.
//!
//! A link is up for programs when its session is valid and neither end has taken it down. Each end tells the
//! other, so that both show the same; heartbeats continue, so that the other end can be told when it comes up
//! again.

use std::time::Duration;

use super::{LogLevel, Manager, Output, ProgramConn};
use crate::fault::{LinkChange, LinkFaults};
use crate::ids::NodeId;
use crate::time::Instant;
use crate::wire::peer::PeerMessage;
use crate::wire::program::{Event, Refusal, Reply};

/// What was done to the link to one peer.
#[derive(Debug, Default)]
pub(super) struct Admin {
    /// Taken down at this end.
    pub(super) down_here: bool,
    /// Taken down at the other end, as the peer reports.
    pub(super) down_there: bool,
    /// What is done to what this node's programs send there.
    pub(super) faults: LinkFaults,
    /// The node that responds in this peer's place: its cable was swapped.
    pub(super) leads_to: Option<NodeId>,
    /// What programs were last shown of the link, and of their imports.
    shown_up: bool,
    shown_suspended: bool,
    /// How often it was taken down or brought up.
    pub(super) changes: u64,
    changed_at: Option<Instant>,
    down_before: Duration,
}

impl Admin {
    /// Neither end has taken it down.
    pub(super) fn carries(&self) -> bool {
        !self.down_here && !self.down_there
    }

    /// How long it was taken down, this time included.
    pub(super) fn downtime(&self, now: Instant) -> Duration {
        let lasting = self.changed_at.filter(|_| !self.carries()).map(|at| now.since(at));
        self.down_before + lasting.unwrap_or_default()
    }

    /// When it was last taken down or brought up.
    pub(super) fn changed_at(&self) -> Option<Instant> {
        self.changed_at
    }

    /// Carries out a change of carrier; returns whether it made a difference.
    fn set_down(&mut self, now: Instant, here: bool, there: bool) -> bool {
        let before = self.carries();
        let downtime = self.downtime(now);
        (self.down_here, self.down_there) = (here, there);
        if self.carries() == before {
            return false;
        }
        self.down_before = downtime;
        self.changed_at = Some(now);
        self.changes += 1;
        true
    }
}

impl Manager {
    /// A program (`tieline link`) changes a link.
    pub(super) fn change_link(
        &mut self,
        program: ProgramConn,
        node: NodeId,
        change: LinkChange,
    ) -> Result<Reply, Refusal> {
        let uid = self.programs.get(&program).map_or(u32::MAX, |entry| entry.credentials.uid);
        if uid != 0 && uid != self.config.uid {
            return Err(Refusal::Denied { what: format!("change links of node {}", self.own), uid });
        }
        if !self.peers.get(&node).is_some_and(|peer| peer.seen) {
            let why = "no manager of this node was seen in the cluster".to_owned();
            return Err(Refusal::Unreachable { node, why });
        }
        if !matches!(change, LinkChange::Down | LinkChange::Up) && !self.config.info.faults {
            return Err(Refusal::Invalid(self.without_faults()));
        }
        let title = self.program_title(program);
        self.log(LogLevel::Warn, format!("{title} changes the link to node {node}: {change}"));
        match change {
            LinkChange::Down | LinkChange::Up => self.take_down(node, change == LinkChange::Down),
            LinkChange::Faults(faults) => {
                faults.check().map_err(Refusal::Invalid)?;
                self.peer_entry(node).admin.faults = faults;
                self.out.push_back(Output::SetFaults { node, faults });
            }
            LinkChange::LeadsTo(other) => {
                self.peer_entry(node).admin.leads_to = other.filter(|other| *other != node);
            }
        }
        Ok(Reply::Done)
    }

    /// What the administrator has to do: `tieline up` starts nodes of one machine with faults, and no others.
    fn without_faults(&self) -> String {
        let own = self.own;
        if self.peers.values().any(|peer| peer.elsewhere) {
            return format!(
                "node {own} runs without fault injection: set `enabled = true` under [faults] in its configuration, or TIELINE_FAULTS=1 in \
                 the environment, then restart it on its host with `tieline node restart --node {own}`"
            );
        }
        format!(
            "node {own} runs without fault injection: restart the cluster with it (`tieline down`, `tieline up --faults`), or set \
             `enabled = true` under [faults] in its configuration and restart it (`tieline node restart --node {own}`)"
        )
    }

    fn take_down(&mut self, node: NodeId, down: bool) {
        let now = self.now;
        let admin = &mut self.peer_entry(node).admin;
        let there = admin.down_there && down;
        admin.set_down(now, down, there);
        // "Up" at either end is up: a process that brings a link up does not have to know who took it down.
        self.send_peer(node, PeerMessage::Carrier { up: !down }, Vec::new());
        self.show_link(node);
    }

    /// The other end has taken the link down, or brought it up.
    pub(super) fn heard_carrier(&mut self, node: NodeId, up: bool) {
        let now = self.now;
        let admin = &mut self.peer_entry(node).admin;
        let here = admin.down_here && !up;
        admin.set_down(now, here, !up);
        self.show_link(node);
    }

    /// A session is valid: announces again what the other end does not know. `anew`: it knows nothing from
    /// before.
    pub(super) fn announce_carrier(&mut self, node: NodeId, anew: bool) {
        let now = self.now;
        let admin = &mut self.peer_entry(node).admin;
        if anew {
            let here = admin.down_here;
            admin.set_down(now, here, false);
        }
        if admin.down_here {
            self.send_peer(node, PeerMessage::Carrier { up: false }, Vec::new());
        }
    }

    /// Shows programs the state of the link, if it has changed: the state page first, then the event.
    pub(super) fn show_link(&mut self, node: NodeId) {
        let peer = self.peer_entry(node);
        let (up, suspended) = (peer.link_up && peer.admin.carries(), !peer.admin.carries());
        if std::mem::replace(&mut peer.admin.shown_suspended, suspended) != suspended {
            let imports: Vec<_> = peer.imports.iter().copied().collect();
            let words = imports.into_iter().map(|import| Output::SuspendImport { import, suspended });
            self.out.extend(words);
        }
        let shown = &mut self.peer_entry(node).admin.shown_up;
        if std::mem::replace(shown, up) == up {
            return;
        }
        self.out.push_back(Output::SetLink { node, up });
        self.event_to_all(&Event::Link { node, up });
    }

    /// No data passes to this node, although its manager's messages may arrive.
    pub(super) fn is_taken_down(&self, node: NodeId) -> bool {
        self.peers.get(&node).is_some_and(|peer| !peer.admin.carries())
    }

    /// The node that is really at the end of the link that should lead to this one.
    pub(super) fn at_the_end(&self, node: NodeId) -> NodeId {
        self.peers.get(&node).and_then(|peer| peer.admin.leads_to).unwrap_or(node)
    }
}
