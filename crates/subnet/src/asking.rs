//! Sends many requests with a window, and hands each outcome to who asked.

use std::time::Duration;

use mad::windowed::{Done, Limits, Outcome, Windowed};
use mad::{Address, Mad, MadTransport, TransportError};

use crate::set::Subject;

/// Between two looks whether to stop.
const TICK: Duration = Duration::from_millis(100);

/// The client of the manager.
#[derive(Debug)]
pub(crate) struct Asker {
    client: Windowed<Subject>,
    limits: Limits,
}

impl Asker {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { client: Windowed::new(limits), limits }
    }

    /// Datagrams sent, repetitions included.
    pub(crate) fn sent(&self) -> u64 {
        self.client.tally().sent
    }

    /// Asks all of `requests`, and hands each outcome to `done`. They are made when there is room for them.
    /// False: `stop` returned true; requests in flight are then not waited for.
    pub(crate) fn all<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        requests: impl Iterator<Item = (Subject, Mad)>,
        done: &mut dyn FnMut(Subject, Outcome),
        stop: &dyn Fn() -> bool,
    ) -> Result<bool, TransportError> {
        let ahead = transport.room().max(self.limits.window) * 2;
        let mut requests = requests.fuse();
        let mut ended = Vec::new();
        loop {
            while self.client.open() < ahead {
                let Some((subject, mad)) = requests.next() else { break };
                self.client.ask(Address::DIRECTED, mad, subject);
            }
            if self.client.open() == 0 {
                return Ok(true);
            }
            self.client.drive(transport, TICK, &mut ended)?;
            for Done { key, outcome } in ended.drain(..) {
                done(key, outcome);
            }
            if stop() {
                return Ok(false);
            }
        }
    }
}
