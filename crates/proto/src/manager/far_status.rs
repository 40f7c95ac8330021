//! The status of a node from its own manager, which programs of other nodes ask for.

use super::pending::Aim;
use super::programs::printable;
use super::rails::clean_reduced;
use super::requests::Answer;
use super::status::{LINKS_BYTES, PROGRAMS_BYTES, REASON_BYTES, SEGMENTS_BYTES, cut, fitting};
use super::{Manager, ProgramConn};
use crate::ids::NodeId;
use crate::wire::is_printable;
use crate::wire::network::MAX_RAILS;
use crate::wire::peer::{PeerMessage, PeerReply, PeerRequest};
use crate::wire::program::{Refusal, Reply, RequestId};
use crate::wire::status::NodeStatus;

impl Manager {
    /// A program asks for the status of a node.
    pub(super) fn status_of(&mut self, program: ProgramConn, id: RequestId, node: NodeId) -> Answer {
        if node == self.own {
            return Ok(Some((Reply::Status(Box::new(self.status(self.now))), Vec::new())));
        }
        self.check_reachable(node)?;
        self.check_pending(program)?;
        self.ask(node, Aim::Status { program, id }, PeerRequest::Status, Vec::new());
        Ok(None)
    }

    /// Another manager asks for the status of this node.
    pub(super) fn tell_status(&mut self, node: NodeId, id: RequestId) {
        let result = Ok(PeerReply::Status(Box::new(self.status(self.now))));
        self.send_peer(node, PeerMessage::Reply { id, result }, Vec::new());
    }
}

/// The status that the manager of a node has sent: one that fits into a message to a program, with nothing in
/// it that does more to a terminal than show.
pub(super) fn status_in(reply: PeerReply, node: NodeId) -> Result<NodeStatus, Refusal> {
    let other = |what: &str| Refusal::Invalid(format!("the manager of node {node} sent {what}"));
    let PeerReply::Status(mut status) = reply else { return Err(other("a reply of another kind")) };
    if status.info.node != node {
        return Err(other(&format!("the status of node {}", status.info.node)));
    }
    clean(&mut status);
    status.links.truncate(fitting(&status.links, LINKS_BYTES));
    status.programs.truncate(fitting(&status.programs, PROGRAMS_BYTES));
    status.segments.truncate(fitting(&status.segments, SEGMENTS_BYTES));
    Ok(*status)
}

/// Adapters of a node, and capabilities of an adapter, of which another manager is believed.
const MOST_LISTED: usize = 8;
/// Pairs for which it is a relay.
const MOST_RELAYED: usize = 256;

fn clean(status: &mut NodeStatus) {
    let name = |text: &mut String| *text = printable(text);
    let info = &mut status.info;
    [&mut info.cluster, &mut info.host, &mut info.version].into_iter().for_each(name);
    info.adapters.truncate(MOST_LISTED);
    info.rails.truncate(MAX_RAILS);
    status.relayed.truncate(MOST_RELAYED);
    for adapter in &mut info.adapters {
        adapter.capabilities.truncate(MOST_LISTED);
        name(&mut adapter.kind);
        adapter.capabilities.iter_mut().for_each(name);
    }
    for link in &mut status.links {
        name(&mut link.peer_host);
        let shown = |text: String| text.chars().map(|c| if is_printable(c) { c } else { '?' }).collect();
        link.reason = link.reason.take().map(|text| cut(shown(text), REASON_BYTES[0]));
    }
    status.programs.iter_mut().for_each(|program| name(&mut program.name));
    status.segments.iter_mut().for_each(|segment| name(&mut segment.what));
    clean_reduced(status);
}
