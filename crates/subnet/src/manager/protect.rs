//! Management keys (M_Keys): which ports obey another one, and an answer to those that were asked with a
//! wrong one.

use fabric::sweep::Found;
use mad::MadTransport;
use topology::{Kind, NodeIx, PortIx, counted, verb};

use super::{ManageError, Manager};
use crate::front::Front;
use crate::model::own_port;
use crate::report::NAMED;
use crate::set::Subject;

impl Manager {
    /// Which end ports obey another key, in words: nothing is set there. If this manager's own port is one,
    /// or most are, the fabric is another manager's: an error. A single host that gave itself a key is none.
    pub(super) fn look_at_protection(&self, found: &Found, home: NodeIx) -> Result<Vec<String>, ManageError> {
        let (graph, protection) = (&found.graph, &self.options.protection);
        let is_end =
            |port: &PortIx| (graph.kind(graph.owner(*port)) == Kind::Switch) == (graph.number(*port) == 0);
        let all = graph.nodes().flat_map(|node| graph.ports(node)).filter(is_end);
        let reporting: Vec<PortIx> = all.filter(|port| found.port(*port).is_some()).collect();
        let is_foreign = |port: &PortIx| found.port(*port).is_some_and(|info| protection.is_foreign(info));
        let foreign: Vec<PortIx> = reporting.iter().copied().filter(is_foreign).collect();
        let own = own_port(graph, &found.nodes, home).filter(|own| foreign.contains(own));
        if let Some(first) = own.or(foreign.first().copied())
            && (own.is_some() || foreign.len() * 2 > reporting.len())
        {
            let place = fabric::names::place(graph, first);
            return Err(ManageError::Key { place, others: foreign.len() - 1 });
        }
        let named = foreign.iter().take(NAMED).map(|port| {
            let place = fabric::names::place(graph, *port);
            format!("{place} has another M_Key than this manager's, so nothing is set there: take that key away, or give it ours")
        });
        let mut words: Vec<String> = named.collect();
        let more = foreign.len().saturating_sub(NAMED);
        if more > 0 {
            let has = verb(more, "has", "have");
            words.push(format!("{} {has} another M_Key than this manager's", counted(more, "further port")));
        }
        Ok(words)
    }

    /// A port got a request with a wrong key (trap 256). Its lease runs from then on, and at its end
    /// everybody may read the key: a request with the right one stops that.
    pub(super) fn confirm_keys<T: MadTransport + ?Sized>(
        &mut self,
        front: &mut Front<'_, T>,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        let ports = std::mem::take(&mut self.confirm);
        let Some(subnet) = self.subnet.as_ref().filter(|_| !ports.is_empty()) else { return Ok(()) };
        let model = &subnet.model;
        let requests = ports.into_iter().filter_map(|port| {
            let subject = Subject::Port(port);
            Some((subject, subject.get(&model.graph, &model.path_to(port)?)))
        });
        // Who does not respond may have lost its cable: then it is found by other means.
        self.asker.all(front, requests, &mut |_, _| (), stop)?;
        Ok(())
    }

    /// Ports of which a trap tells that they are to be [confirmed](Self::confirm_keys).
    pub(super) fn was_asked_with_wrong_key(&mut self, from: mad::Lid) {
        let port = self.subnet.as_ref().and_then(|subnet| subnet.model.lids.port(from.0));
        self.confirm.extend(port.filter(|_| self.options.protection.key.is_some()));
    }
}
