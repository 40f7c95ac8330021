//! The lists of hosts and of revoked certificates on disk: what a full disk refuses is stored later.

use std::time::Duration;

use trust::TrustError;

use super::network::HOSTS;
use super::{Daemon, clock};
use crate::network::Network;

/// Between two attempts.
const STORE_AGAIN: Duration = Duration::from_secs(10);

impl Daemon {
    /// What was to be stored was, or will be tried again. A failure that lasts is reported once.
    pub(super) fn note_stored(&mut self, what: &str, outcome: Result<(), TrustError>) {
        let Some(network) = &mut self.network else { return };
        let Err(error) = outcome else { return };
        network.store_again_at = Some(clock() + STORE_AGAIN);
        if !std::mem::replace(&mut network.is_storing_refused, true) {
            let every_s = STORE_AGAIN.as_secs();
            self.warn(format!(
                "{what} cannot be stored, so a restart would lose what is new: {error} (this is tried every {every_s} s)"
            ));
        }
    }

    /// Both lists, where one of them was refused a while ago.
    pub(super) fn store_again_if_due(&mut self) {
        let now = clock();
        let is_due = |network: &&mut Network| network.store_again_at.is_some_and(|at| at <= now);
        let Some(network) = self.network.as_mut().filter(is_due) else { return };
        network.store_again_at = None;
        let hosts = network.hosts.save(&network.store);
        let list = network.identity.revocations.keep(&network.store);
        if hosts.is_ok() && list.is_ok() {
            network.is_storing_refused = false;
            return self.info("the lists of hosts and of revoked certificates are stored again");
        }
        self.note_stored(HOSTS, hosts);
        self.note_stored("the list of revoked certificates", list);
    }
}
