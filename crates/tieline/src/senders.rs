//! The programs that may send to a data interrupt: pidfds of the producers, held only while they
//! may be needed.
//!
//! The library's thread writes it as producers come and go, so that nothing grows while the owner does not
//! read it.
//!
//! A producer whose descriptor found no room in this process is known by its number. A number proves less:
//! only together with the manager's word that the producer is gone does it count, and the next producer with
//! this number may delay the proof.

use std::collections::BTreeMap;
use std::sync::MutexGuard;

use node_client::{OwnLock, Sender};
use proto::wire::program::ConnectionId;
use shm::process::{DeadProof, PidFd};

/// Producers of one data interrupt.
#[derive(Debug, Default)]
pub(crate) struct Senders {
    state: OwnLock<State>,
}

#[derive(Debug, Default)]
struct State {
    living: BTreeMap<u16, (ConnectionId, Process)>,
    /// Disconnected by their death, which the kernel has not confirmed yet: for microseconds, as a rule.
    dying: Vec<(u16, Process)>,
    /// Proven dead; a claim of theirs may be in the ring. No descriptor is held for them.
    dead: BTreeMap<u16, DeadProof>,
}

#[derive(Debug)]
enum Process {
    Descriptor(PidFd),
    Number(u32),
}

impl Process {
    fn of(sender: Sender) -> Option<Self> {
        match sender {
            Sender::Descriptor(fd) => PidFd::from_fd(fd).ok().map(Self::Descriptor),
            Sender::Number(number) => Some(Self::Number(number)),
        }
    }

    fn can_be_seen(&self) -> bool {
        !matches!(self, Self::Number(0))
    }

    /// Proof of its death, if its manager has not reported it.
    fn proof_unasked(&self) -> Option<DeadProof> {
        match self {
            Self::Descriptor(process) => process.proof_of_death(),
            // It may be a number of another PID namespace, which means another process here.
            Self::Number(_) => None,
        }
    }

    /// Proof of its death, if its manager has reported it.
    fn proof(&self) -> Option<DeadProof> {
        match self {
            Self::Descriptor(process) => process.proof_of_death(),
            Self::Number(number) => DeadProof::of_number(*number),
        }
    }
}

impl Senders {
    /// Nothing in a forked child, which receives nothing either.
    fn lock(&self) -> Option<MutexGuard<'_, State>> {
        let mut state = self.state.lock()?;
        state.confirm_deaths();
        Some(state)
    }

    /// A producer has connected.
    pub(crate) fn arrived(&self, producer: u16, connection: ConnectionId, sender: Sender) {
        let (Some(process), Some(mut state)) = (Process::of(sender), self.lock()) else { return };
        let again = state.living.get(&producer).is_some_and(|(known, _)| *known == connection);
        // Announced again by a restarted manager: a descriptor that there is already is worth more than a
        // number.
        if !(again && matches!(process, Process::Number(_))) {
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
        state.living.get(&producer)?.1.proof_unasked()
    }

    /// Whether the number belongs to a producer that was introduced and may still claim or have claimed. Not
    /// of one that is gone and whose death will never be confirmed.
    pub(crate) fn knows(&self, producer: u16) -> bool {
        let Some(state) = self.lock() else { return false };
        let dying = |(known, process): &(u16, Process)| *known == producer && process.can_be_seen();
        state.living.contains_key(&producer) || state.dying.iter().any(dying)
    }
}

impl State {
    fn confirm_deaths(&mut self) {
        let dead = &mut self.dead;
        self.dying.retain(|(producer, process)| match process.proof() {
            Some(proof) => {
                dead.insert(*producer, proof);
                false
            }
            None => true,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    const FIRST: ConnectionId = ConnectionId(1);

    fn sleeper() -> Child {
        Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
    }

    fn by_number(child: &Child) -> Sender {
        Sender::Number(child.id())
    }

    fn by_descriptor(child: &Child) -> Sender {
        let pid = rustix::process::Pid::from_child(child);
        Sender::Descriptor(PidFd::open(pid).unwrap().into())
    }

    #[test]
    fn a_producer_known_by_number_is_dead_when_manager_and_kernel_say_so() {
        let (senders, mut child) = (Senders::default(), sleeper());
        senders.arrived(3, FIRST, by_number(&child));
        assert!(senders.knows(3) && senders.proof_of_death(3).is_none());
        senders.departed(FIRST, true);
        assert!(
            senders.knows(3) && senders.proof_of_death(3).is_none(),
            "it lives, whatever the manager says"
        );
        child.kill().unwrap();
        // Not reaped yet: its number cannot be another's.
        rustix::process::waitid(
            rustix::process::WaitId::Pid(rustix::process::Pid::from_child(&child)),
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT,
        )
        .unwrap();
        assert!(senders.proof_of_death(3).is_some());
        assert!(!senders.knows(3) && senders.proof_of_death(3).is_none(), "a proof is used once");
        child.wait().unwrap();
    }

    #[test]
    fn a_number_alone_proves_nothing() {
        let (senders, mut child) = (Senders::default(), sleeper());
        senders.arrived(3, FIRST, by_number(&child));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(senders.knows(3) && senders.proof_of_death(3).is_none(), "the manager has said nothing");
        senders.departed(FIRST, true);
        assert!(senders.proof_of_death(3).is_some());
        senders.arrived(4, FIRST, Sender::Number(0));
        senders.departed(FIRST, true);
        assert!(!senders.knows(4) && senders.proof_of_death(4).is_none(), "nobody will ever see its death");
    }

    #[test]
    fn a_number_does_not_take_the_place_of_a_descriptor_but_the_other_way_round() {
        let (senders, mut child) = (Senders::default(), sleeper());
        senders.arrived(3, FIRST, by_descriptor(&child));
        senders.arrived(3, FIRST, by_number(&child));
        senders.arrived(5, ConnectionId(2), by_number(&child));
        senders.arrived(5, ConnectionId(2), by_descriptor(&child));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(senders.proof_of_death(3).is_some() && senders.proof_of_death(5).is_some());
    }

    #[test]
    fn who_went_in_order_has_left_nothing_behind() {
        let (senders, mut child) = (Senders::default(), sleeper());
        senders.arrived(3, FIRST, by_number(&child));
        senders.departed(FIRST, false);
        assert!(!senders.knows(3));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(senders.proof_of_death(3).is_none());
    }
}
