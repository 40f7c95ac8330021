//! The master answers requests to subnet administration (SA).

use mad::header::Mad;
use mad::sa::{self, RmppKind, rmpp_flag};
use mad::sm::SmInfo;
use mad::{Lid, MadTransport, Received};

use super::{ManageError, Manager};
use crate::front::Front;
use crate::hearing::back_to;
use crate::sa::{Answer, View, answer};

/// Requests that are answered before others have their turn.
const TURN: usize = 64;

impl Manager {
    /// Answers some requests, and sends again what was not acknowledged. True: more wait.
    pub(super) fn serve_some<T: MadTransport + ?Sized>(
        &mut self,
        front: &mut Front<'_, T>,
    ) -> Result<bool, ManageError> {
        for (to, mad) in self.transfers.repeat(front.now()) {
            front.send_soon(&to, &mad)?;
        }
        if self.subnet.is_none() {
            return Ok(false);
        }
        while let Some((from, transaction)) = front.desk.next_acknowledged() {
            self.registry.subscriptions.heard(from, transaction);
        }
        for (to, mad) in self.registry.subscriptions.outgoing(front.now()) {
            front.send_soon(&to, &mad)?;
        }
        let mut managers = None;
        for _ in 0..TURN {
            let Some(received) = front.desk.next_asked() else { return Ok(false) };
            let managers = managers.get_or_insert_with(|| self.managers(&front.desk.me.info()));
            self.serve_one(front, &received, managers)?;
        }
        Ok(true)
    }

    /// This manager and others, as they last reported themselves.
    fn managers(&self, me: &SmInfo) -> Vec<(Lid, SmInfo)> {
        let others = self.peers.values().filter(|peer| peer.missed == 0 && peer.lid.is_unicast());
        let others = others.map(|peer| {
            let mut info = SmInfo::default();
            info.set_guid(peer.rank.guid).set_priority(peer.rank.priority).set_state(peer.state);
            (peer.lid, info)
        });
        std::iter::once((self.own_lid, *me)).chain(others).collect()
    }

    fn serve_one<T: MadTransport + ?Sized>(
        &mut self,
        front: &mut Front<'_, T>,
        received: &Received,
        managers: &[(Lid, SmInfo)],
    ) -> Result<(), ManageError> {
        let Some(subnet) = &self.subnet else { return Ok(()) };
        let (to, now) = (back_to(received), front.now());
        let rmpp = sa::header(&received.mad).rmpp();
        if rmpp.flags() & rmpp_flag::ACTIVE != 0 && rmpp.kind() != RmppKind::DATA {
            for (to, mad) in self.transfers.heard(now, received.from.lid, &received.mad) {
                front.send_soon(&to, &mad)?;
            }
            return Ok(());
        }
        let tables = &subnet.model.written.tables;
        let view = View { model: &subnet.model, tables, managers, key: self.options.key, now };
        let response: Option<Mad> = match answer(&view, &mut self.registry, received) {
            Answer::One(mad) => Some(*mad),
            Answer::Table(header, bytes) => self.transfers.begin(now, to, &header, bytes),
        };
        if let Some(mad) = response {
            front.send_soon(&to, &mad)?;
        }
        Ok(())
    }
}
