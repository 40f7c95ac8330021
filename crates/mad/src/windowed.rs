//! A client with many requests in flight: matches responses by transaction ID, sends a request again when no
//! response comes in time, and at last reports it as lost. Responses that come twice, too late or to nobody
//! are counted and dropped.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use crate::header::{Mad, refusal};
use crate::transport::{Address, MadTransport, Received, TransportError};
use crate::values::{Class, Method, Status};

/// A transport that took nothing and brought nothing for so long, and for all the time of a request, is held
/// to be stuck.
const STUCK: Duration = Duration::from_secs(5);

/// Between two tries to send to a transport that has no room.
const PAUSE: Duration = Duration::from_millis(2);

/// How many, how long, how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Requests in flight; 0 is what the transport has room for.
    pub window: usize,
    /// Until a request is repeated.
    pub timeout: Duration,
    /// Repetitions before it is given up.
    pub retries: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { window: 0, timeout: Duration::from_millis(500), retries: 3 }
    }
}

/// What became of a request.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// Answered.
    Answer(Box<Mad>),
    /// Answered with a refusal.
    Refused(Box<Mad>, Status),
    /// Not answered, though repeated.
    Silent,
    /// Could not be delivered, though repeated, as the transport reported.
    Unreachable,
}

impl Outcome {
    /// The response, if it is one.
    #[must_use]
    pub fn answer(&self) -> Option<&Mad> {
        match self {
            Self::Answer(mad) => Some(mad),
            _ => None,
        }
    }
}

/// A request's end.
#[derive(Debug, Clone)]
pub struct Done<K> {
    /// What the asker knows it by.
    pub key: K,
    /// What became of it.
    pub outcome: Outcome,
}

/// Counters of the client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Datagrams sent, repetitions included.
    pub sent: u64,
    /// Repetitions.
    pub repeated: u64,
    /// Responses that were wanted.
    pub answered: u64,
    /// Datagrams that were no response to a request in flight: doubles, late ones, strangers'.
    pub strays: u64,
    /// Requests that were given up.
    pub given_up: u64,
}

#[derive(Debug)]
struct Flight<K> {
    key: K,
    to: Address,
    mad: Mad,
    due: Duration,
    tries: u32,
    /// The transport reported at least once that it cannot be delivered.
    undelivered: bool,
}

/// The client. `K` is what the asker knows a request by.
#[derive(Debug)]
pub struct Windowed<K> {
    limits: Limits,
    next: u32,
    flights: HashMap<u32, Flight<K>>,
    /// When each flight is due, soonest first.
    due: BTreeSet<(Duration, u32)>,
    waiting: VecDeque<(Address, Mad, K)>,
    tally: Tally,
    /// Since when the transport has had no room, and nothing came.
    full_since: Option<Duration>,
    /// Requests and traps of others, for those who asked for them.
    heard: VecDeque<Received>,
    /// How many of those are kept at most.
    most_heard: usize,
}

/// The part of the transaction's number that stays the sender's own on all transports; the upper half is the
/// agent's.
fn number(mad: &Mad) -> u32 {
    mad.header().transaction() as u32
}

impl<K> Windowed<K> {
    /// None in flight.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        // Not the same numbers as the asker before, whose late responses may still come.
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Self::starting_at(limits, since.subsec_nanos())
    }

    /// The same with a first number: for those who want to repeat a run exactly.
    #[must_use]
    pub fn starting_at(limits: Limits, first: u32) -> Self {
        Self {
            limits,
            next: first,
            flights: HashMap::new(),
            due: BTreeSet::new(),
            waiting: VecDeque::new(),
            tally: Tally::default(),
            full_since: None,
            heard: VecDeque::new(),
            most_heard: 0,
        }
    }

    /// The same, which keeps up to `most` requests and traps that others send: for a manager. Further ones
    /// are dropped, as a port without room drops them: who sent them repeats them.
    #[must_use]
    pub fn hearing(mut self, most: usize) -> Self {
        self.most_heard = most;
        self
    }

    /// The next request or trap of another program or agent, oldest first.
    pub fn heard(&mut self) -> Option<Received> {
        self.heard.pop_front()
    }

    /// Asks, as soon as there is room. The response comes out of [`drive`](Self::drive).
    pub fn ask(&mut self, to: Address, mad: Mad, key: K) {
        self.waiting.push_back((to, mad, key));
    }

    /// Requests that have no end yet.
    #[must_use]
    pub fn open(&self) -> usize {
        self.flights.len() + self.waiting.len()
    }

    /// What was counted so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Sends what there is room for, and takes in what came; waits for at most `wait` while nothing ends.
    /// Requests that ended are appended to `done`.
    ///
    /// # Errors
    /// Those of the transport, and that it takes nothing any more; the requests stay.
    pub fn drive<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        wait: Duration,
        done: &mut Vec<Done<K>>,
    ) -> Result<(), TransportError> {
        let until = transport.now() + wait;
        let before = done.len();
        loop {
            self.fill(transport)?;
            let mut came = 0;
            while let Some(received) = transport.receive(Duration::ZERO)? {
                self.take(&received, transport.now(), done);
                came += 1;
                // Room was made: what waits goes out before the next is taken in, so that neither side runs
                // dry.
                if came % 4 == 0 {
                    self.fill(transport)?;
                }
            }
            let now = transport.now();
            self.expire(transport, now, done)?;
            if done.len() > before || self.open() == 0 || now >= until {
                return Ok(());
            }
            if came > 0 {
                continue;
            }
            let mut next = self.due.first().map_or(until, |(due, _)| (*due).min(until));
            if self.full_since.is_some() {
                // What is due can't be sent: no busy waiting for room.
                next = next.max(now + PAUSE).min(until);
            }
            if let Some(received) = transport.receive(next.saturating_sub(now))? {
                self.take(&received, transport.now(), done);
            }
        }
    }

    fn fill<T: MadTransport + ?Sized>(&mut self, transport: &mut T) -> Result<(), TransportError> {
        let window = if self.limits.window == 0 { transport.room() } else { self.limits.window };
        self.still_takes(transport.now())?;
        while self.flights.len() < window {
            let Some((to, mut mad, key)) = self.waiting.pop_front() else { break };
            while self.flights.contains_key(&self.next) {
                self.next = self.next.wrapping_add(1);
            }
            mad.header_mut().set_transaction(self.next.into());
            if !transport.send(&to, &mad)? {
                self.waiting.push_front((to, mad, key));
                self.full_since.get_or_insert(transport.now());
                break;
            }
            self.full_since = None;
            self.tally.sent += 1;
            let due = transport.now() + self.limits.timeout;
            self.due.insert((due, self.next));
            self.flights.insert(self.next, Flight { key, to, mad, due, tries: 0, undelivered: false });
            self.next = self.next.wrapping_add(1);
        }
        Ok(())
    }

    /// A process that takes no datagram for so long will take none: without an end to it, requests that wait
    /// to be sent wait forever.
    fn still_takes(&self, now: Duration) -> Result<(), TransportError> {
        let longest = STUCK.max(self.limits.timeout.saturating_mul(self.limits.retries.saturating_add(1)));
        match self.full_since {
            Some(since) if now.saturating_sub(since) > longest => Err(TransportError::Protocol {
                what: format!("the transport accepted no MAD for {} s", longest.as_secs()),
                next: "check whether the simulator, or the driver of the device, is stopped",
            }),
            _ => Ok(()),
        }
    }

    fn take(&mut self, received: &Received, now: Duration, done: &mut Vec<Done<K>>) {
        let (mad, undelivered) = (&received.mad, received.undelivered);
        self.full_since = None;
        // A request of somebody else may have the number of one in flight.
        if !undelivered && !mad.header().method().is_response() && self.heard.len() < self.most_heard {
            self.heard.push_back(*received);
            return;
        }
        let number = number(mad);
        let Some(flight) =
            self.flights.get_mut(&number).filter(|flight| answers(&flight.mad, mad, undelivered))
        else {
            self.tally.strays += 1;
            return;
        };
        if undelivered {
            // It is due at once, and so it is repeated as often as one that stays silent.
            flight.undelivered = true;
            self.due.remove(&(flight.due, number));
            // A moment later, not at once: what was in the way may pass.
            flight.due = now + self.limits.timeout / 64;
            self.due.insert((flight.due, number));
            return;
        }
        let busy = refusal(mad).filter(|status| status.is_busy()).is_some();
        if busy && flight.tries < self.limits.retries {
            // Asked again when its time is over.
            return;
        }
        let due = flight.due;
        self.due.remove(&(due, number));
        if let Some(flight) = self.flights.remove(&number) {
            self.tally.answered += 1;
            let outcome = match refusal(mad) {
                None => Outcome::Answer(Box::new(*mad)),
                Some(status) => Outcome::Refused(Box::new(*mad), status),
            };
            done.push(Done { key: flight.key, outcome });
        }
    }

    fn expire<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        now: Duration,
        done: &mut Vec<Done<K>>,
    ) -> Result<(), TransportError> {
        while let Some(&(due, number)) = self.due.first().filter(|(due, _)| *due <= now) {
            let Some(flight) = self.flights.get_mut(&number) else {
                self.due.remove(&(due, number));
                continue;
            };
            if flight.tries < self.limits.retries {
                if !transport.send(&flight.to, &flight.mad)? {
                    self.full_since.get_or_insert(now);
                    break;
                }
                self.full_since = None;
                flight.tries += 1;
                flight.due = now + self.limits.timeout;
                self.due.remove(&(due, number));
                self.due.insert((flight.due, number));
                self.tally.sent += 1;
                self.tally.repeated += 1;
                continue;
            }
            self.due.remove(&(due, number));
            if let Some(flight) = self.flights.remove(&number) {
                self.tally.given_up += 1;
                let outcome = if flight.undelivered { Outcome::Unreachable } else { Outcome::Silent };
                done.push(Done { key: flight.key, outcome });
            }
        }
        Ok(())
    }
}

/// Is `mad` the response to `question` (or the request itself, come back), and not something else with the
/// same number?
fn answers(question: &Mad, mad: &Mad, undelivered: bool) -> bool {
    let (asked, got) = (question.header(), mad.header());
    let method = match asked.method() {
        asked if undelivered => asked,
        Method::SET => Method::GET_RESPONSE,
        asked => Method(asked.0 | 0x80),
    };
    let same_route = asked.class() != Class::DIRECTED
        || question.smp().header().hop_count() == mad.smp().header().hop_count()
            && question.smp().initial_path() == mad.smp().initial_path();
    same_route
        && asked.class() == got.class()
        && asked.attribute() == got.attribute()
        && asked.modifier() == got.modifier()
        && got.method() == method
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Received;
    use crate::values::Lid;

    /// Takes so many datagrams, and then none; nothing comes.
    struct Stopped(Duration, u32);

    impl MadTransport for Stopped {
        fn send(&mut self, _: &Address, _: &Mad) -> Result<bool, TransportError> {
            let room = self.1 > 0;
            self.1 = self.1.saturating_sub(1);
            Ok(room)
        }
        fn receive(&mut self, wait: Duration) -> Result<Option<Received>, TransportError> {
            self.0 += wait;
            Ok(None)
        }
        fn now(&self) -> Duration {
            self.0
        }
        fn lid(&self) -> Lid {
            Lid(0)
        }
        fn sm_lid(&self) -> Lid {
            Lid(0)
        }
    }

    #[test]
    fn who_takes_nothing_any_more_is_an_error_and_no_endless_wait() {
        for room in [0, 1, 3, 11] {
            let mut client = Windowed::new(Limits::default());
            (0..20).for_each(|key| client.ask(Address::DIRECTED, crate::header::blank(), key));
            let (mut transport, mut done) = (Stopped(Duration::ZERO, room), Vec::new());
            let ended = (0..10_000)
                .find_map(|_| client.drive(&mut transport, Duration::from_millis(100), &mut done).err());
            let error = ended.unwrap_or_else(|| panic!("with room for {room} it went on")).to_string();
            assert!(error.contains("accepted no MAD"), "{error}");
        }
    }
}
