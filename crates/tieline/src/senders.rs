//! Who may send to a data interrupt: process descriptors of the producers, held only while they can still be needed.
//!
//! The library's thread writes it as producers come and go, so that nothing grows while the owner does not look.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::MutexGuard;

use node_client::OwnLock;
use proto::wire::program::ConnectionId;
use shm::process::{DeadProof, PidFd};

/// Producers of one data interrupt.
#[derive(Debug, Default)]
pub(crate) struct Senders {
    state: OwnLock<State>,
}

#[derive(Debug, Default)]
struct State {
    living: BTreeMap<u16, (ConnectionId, PidFd)>,
    /// Disconnected by their death, which the kernel has not confirmed yet: for microseconds.
    dying: Vec<(u16, PidFd)>,
    /// Proven dead; a claim of theirs may be in the ring. No descriptor is held for them.
    dead: BTreeMap<u16, DeadProof>,
}

impl Senders {
    /// Nothing in a forked child, which receives nothing either.
    fn lock(&self) -> Option<MutexGuard<'_, State>> {
        let mut state = self.state.lock()?;
        state.confirm_deaths();
        Some(state)
    }

    /// A producer has connected.
    pub(crate) fn arrived(&self, producer: u16, connection: ConnectionId, pidfd: Option<OwnedFd>) {
        if let (Some(Ok(process)), Some(mut state)) = (pidfd.map(PidFd::from_fd), self.lock()) {
            state.living.insert(producer, (connection, process));
        }
    }

    /// It has gone away, in order or by dying. One that went in order has left no claim behind.
    pub(crate) fn departed(&self, connection: ConnectionId, died: bool) {
        let Some(mut state) = self.lock() else { return };
        let Some(producer) =
            state.living.iter().find(|(_, (known, _))| *known == connection).map(|(number, _)| *number)
        else {
            return;
        };
        if let Some((_, process)) = state.living.remove(&producer)
            && died
        {
            state.dying.push((producer, process));
        }
    }

    /// Proof that the producer of this number has died, to be used once.
    pub(crate) fn proof_of_death(&self, producer: u16) -> Option<DeadProof> {
        let mut state = self.lock()?;
        if let Some(proof) = state.dead.remove(&producer) {
            return Some(proof);
        }
        state.living.get(&producer)?.1.proof_of_death()
    }

    /// Whether the number belongs to somebody who was introduced and may still claim or have claimed.
    pub(crate) fn knows(&self, producer: u16) -> bool {
        let Some(state) = self.lock() else { return false };
        state.living.contains_key(&producer) || state.dying.iter().any(|(known, _)| *known == producer)
    }
}

impl State {
    fn confirm_deaths(&mut self) {
        let dead = &mut self.dead;
        self.dying.retain(|(producer, process)| match process.proof_of_death() {
            Some(proof) => {
                dead.insert(*producer, proof);
                false
            }
            None => true,
        });
    }
}
