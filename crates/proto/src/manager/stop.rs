//! Orderly shutdown.

use super::{LogLevel, Manager, Output};
use crate::ids::NodeId;
use crate::wire::peer::PeerMessage;
use crate::wire::program::{ConnectionId, ImportSlot, LossReason};

impl Manager {
    /// Everything of this node is over, on both sides: programs see their imports end, owners see which
    /// importers go, peers are told goodbye. Nothing happens after that.
    pub(super) fn stop(&mut self) {
        if self.stopped {
            return;
        }
        self.stopped = true;
        self.log(LogLevel::Info, format!("manager of node {} stops", self.own));
        self.close_all_agents();
        let slots: Vec<ImportSlot> = self.imports.by_connection.values().copied().collect();
        let exports: Vec<ConnectionId> = self.exports.by_id.keys().copied().collect();
        for connection in exports {
            self.drop_export(connection, false);
        }
        for slot in slots {
            self.end_import(slot, LossReason::NodeLost);
        }
        let up = self.peers.iter().filter(|(_, peer)| peer.link_up);
        let up: Vec<NodeId> = up.map(|(&node, _)| node).collect();
        for node in up {
            self.out.push_back(Output::SetLink { node, up: false });
        }
        for (program, _) in std::mem::take(&mut self.programs) {
            self.out.push_back(Output::CloseProgram { program });
        }
        for (peer, _) in std::mem::take(&mut self.sockets) {
            // To a silent one, too: it may only be held up.
            self.out.push_back(Output::ToPeer { peer, message: PeerMessage::Bye, descriptors: Vec::new() });
            self.out.push_back(Output::ClosePeer { peer });
        }
        self.forget_everything();
        self.close_all_tokens();
        self.out.push_back(Output::Exit);
    }

    fn forget_everything(&mut self) {
        self.shares = Default::default();
        self.objects.clear();
        self.segments = 0;
        self.interrupts = 0;
        self.imports = Default::default();
        self.peers.clear();
        self.pending.clear();
        self.waiting.clear();
        self.kept.clear();
        self.local_unconfirmed.clear();
        self.gone_before.clear();
        self.watchers.clear();
        self.agents = Default::default();
        self.forwards = Default::default();
        self.held_ends = Default::default();
        self.timers.clear_all();
    }
}
