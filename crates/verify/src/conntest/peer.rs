//! One peer of an instance: the two segments, and the halves of the exchange that live in them.

use std::cell::Cell;
use std::time::{Duration, Instant};

use node_client::ClientError;
use proto::wire::program::Refusal;
use seeded_random::mix;
use tieline::{Capabilities, Error, Node, NodeId, RemoteSegment, Segment, SegmentId, SegmentOptions};

use super::incoming::Incoming;
use super::ledger::{Ledger, Outage};
use super::outgoing::{Blocked, Outgoing, Timing};
use super::report::{PeerReport, Presence};
use super::scan::LATE_NS;
use super::words::{DONE_AT, HELLO_AT, Route, inbox_bytes};

/// The inbox for what node n sends is segment `SEGMENT_BASE + n` of the receiving node.
const SEGMENT_BASE: u32 = 0x5c1c_0000;
/// Greetings are repeated: they may be lost like anything else.
const REPEAT_NS: u64 = 50_000_000;
const RECONNECT_NS: u64 = 100_000_000;
/// Who cannot be reached for so long, although its instance has been started, is not waited for.
const OUT_OF_REACH_NS: u64 = 2_000_000_000;

/// What all peers of an instance share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) own: NodeId,
    pub(super) seed: u64,
    pub(super) min_bytes: usize,
    pub(super) max_bytes: usize,
    pub(super) timing: Timing,
}

impl Terms {
    /// Instances that exchange data must agree on this.
    fn fingerprint(&self) -> u64 {
        mix(self.seed ^ mix((self.min_bytes as u64) << 32 | self.max_bytes as u64)) | 1
    }
}

/// Puts that had to wait for the link. A link that maps memory has none: there a put is a copy, which takes
/// long only if this thread gets no processor.
struct Stalls {
    longest: Option<Cell<Duration>>,
}

impl Stalls {
    fn of(remote: &RemoteSegment) -> Self {
        Self { longest: (!remote.capabilities().has(Capabilities::MAP)).then(Cell::default) }
    }

    fn put(&self, remote: &RemoteSegment, at: usize, bytes: &[u8]) -> tieline::Result<()> {
        let Some(longest) = &self.longest else { return remote.put(at, bytes) };
        let began = Instant::now();
        let result = remote.put(at, bytes);
        longest.set(longest.get().max(began.elapsed()));
        result
    }

    fn longest(&self) -> Duration {
        self.longest.as_ref().map_or(Duration::ZERO, Cell::get)
    }
}

/// What stands where a greeting should be: the number of a connection, the options, and a check of both.
type Greeting = [u64; 3];

fn check_of(epoch: u64, fingerprint: u64, at: usize) -> u64 {
    mix(epoch ^ fingerprint ^ at as u64)
}

fn greeting(inbox: &Segment, at: usize) -> Greeting {
    [0, 8, 16].map(|more| word(inbox, at + more))
}

/// A greeting that was changed on the way. Where each of them is, there is no exchange in which that could be
/// counted.
#[derive(Debug, Default)]
struct MangledGreeting {
    seen: Greeting,
    since_ns: u64,
    is_counted: bool,
}

impl MangledGreeting {
    /// One that stays is counted once; one that was half-written is whole soon.
    fn look(&mut self, seen: Greeting, now_ns: u64, ledger: &mut Ledger) {
        let [epoch, fingerprint, check] = seen;
        let is_fine = seen == [0; 3] || check == check_of(epoch, fingerprint, HELLO_AT);
        if self.seen != seen {
            *self = Self { seen, since_ns: now_ns, is_counted: false };
        } else if !is_fine && !self.is_counted && now_ns.saturating_sub(self.since_ns) >= LATE_NS {
            self.is_counted = true;
            ledger.corrupt += 1;
        }
    }
}

#[derive(Debug)]
pub(super) struct Peer {
    node: NodeId,
    inbox: Segment,
    remote: Option<RemoteSegment>,
    outgoing: Outgoing,
    incoming: Incoming,
    /// Number of this connection, and of theirs (0: they have not greeted yet).
    epoch: u64,
    their_epoch: u64,
    /// A greeting that nobody wrote.
    mangled: MangledGreeting,
    /// They run with other options: nothing they send can be right.
    disagrees: bool,
    next_greeting_ns: u64,
    next_connect_ns: u64,
    /// The peer has announced its last block, or is gone after it.
    done: bool,
    /// This side has announced it.
    said_done: bool,
    pub(super) ledger: Ledger,
    presence: Vec<Presence>,
    /// The time without a session with its manager, and why there was none, the last time.
    session_outage: Outage,
    session_lost: Option<String>,
    /// Why it cannot be reached, as the link or the managers say.
    unreachable: Option<String>,
    unreachable_since_ns: Option<u64>,
    error: Option<String>,
}

/// Whether a connection that was refused so may succeed later, with everything as it should be.
fn may_come(error: &Error) -> bool {
    matches!(
        error,
        Error::Client(
            ClientError::TimedOut { .. }
                | ClientError::Refused(Refusal::NotFound { .. } | Refusal::NotAvailable { .. })
        )
    )
}

fn route(from: NodeId, to: NodeId, seed: u64, epoch: u64) -> Route {
    Route::new(from.get(), to.get(), seed ^ mix(epoch))
}

fn make_inbox(local: &Node, terms: &Terms, from: NodeId) -> tieline::Result<Segment> {
    let id = SegmentId(SEGMENT_BASE + from.get());
    let segment = local.create_segment_with(&SegmentOptions::new(inbox_bytes(terms.max_bytes)).id(id))?;
    segment.make_available()?;
    Ok(segment)
}

fn word(inbox: &Segment, at: usize) -> u64 {
    // Acquire by way of the window's loads: a block is put before the word that announces it, by copies that
    // keep order.
    inbox.window().atomic_u64(at).map_or(0, |word| word.load(shm::sync::Ordering::Acquire))
}

impl Peer {
    pub(super) fn new(local: &Node, terms: &Terms, node: NodeId) -> tieline::Result<Self> {
        let nobody = route(terms.own, node, terms.seed, 0);
        Ok(Self {
            node,
            inbox: make_inbox(local, terms, node)?,
            remote: None,
            outgoing: Outgoing::new(nobody, terms.min_bytes, terms.max_bytes, terms.timing),
            incoming: Incoming::new(nobody, terms.min_bytes, terms.max_bytes),
            epoch: 0,
            their_epoch: 0,
            mangled: MangledGreeting::default(),
            disagrees: false,
            next_greeting_ns: 0,
            next_connect_ns: 0,
            done: false,
            said_done: false,
            ledger: Ledger::default(),
            presence: Vec::new(),
            session_outage: Outage::default(),
            session_lost: None,
            unreachable: None,
            unreachable_since_ns: None,
            error: None,
        })
    }

    /// It answers: connected in both directions.
    pub(super) fn is_met(&self) -> bool {
        self.remote.is_some() && self.their_epoch != 0
    }

    /// The link or the managers have said for a while that it cannot be reached.
    pub(super) fn is_out_of_reach(&self, now_ns: u64) -> bool {
        self.unreachable_since_ns.is_some_and(|since_ns| now_ns.saturating_sub(since_ns) >= OUT_OF_REACH_NS)
    }

    /// Nothing more is to be done for it: it is done, or gone, and nothing is under way.
    pub(super) fn is_finished(&self) -> bool {
        self.remote.is_none() || self.done && self.said_done
    }

    pub(super) fn is_idle(&self) -> bool {
        self.remote.is_none() || self.done || self.outgoing.is_idle()
    }

    /// Connects if need be, and greets until there is an answer.
    pub(super) fn keep_connected(&mut self, local: &Node, terms: &Terms, now_ns: u64) {
        match self.remote.as_ref().map(RemoteSegment::check) {
            None if now_ns >= self.next_connect_ns => self.connect(local, terms, now_ns),
            Some(Err(Error::Lost { reason, .. })) => {
                self.lost(local, terms, now_ns, &format!("{reason:?}"));
            }
            _ => {}
        }
        self.hear_greeting(local, terms, now_ns);
        if now_ns >= self.next_greeting_ns && self.outgoing.is_idle() && !self.done {
            self.next_greeting_ns = now_ns + REPEAT_NS;
            self.say(HELLO_AT, terms, now_ns);
        }
    }

    fn connect(&mut self, local: &Node, terms: &Terms, now_ns: u64) {
        self.next_connect_ns = now_ns + RECONNECT_NS;
        let id = SegmentId(SEGMENT_BASE + terms.own.get());
        let remote = match local.connect_segment(self.node, id, Duration::ZERO) {
            Ok(remote) => remote,
            Err(error) => {
                // Who is not there yet, or too busy to answer, may come.
                self.unreachable = (!may_come(&error)).then(|| error.to_string());
                let since_ns = self.unreachable_since_ns.unwrap_or(now_ns);
                self.unreachable_since_ns = self.unreachable.is_some().then_some(since_ns);
                return;
            }
        };
        (self.unreachable, self.unreachable_since_ns) = (None, None);
        if remote.size_bytes() != inbox_bytes(terms.max_bytes) {
            self.disagrees = true;
            self.error = Some(format!(
                "node {} runs with another block size: start all instances with the same options",
                self.node
            ));
            return;
        }
        // Another number each time, also for a program that is started again in the same moment.
        self.epoch = mix(now_ns ^ u64::from(std::process::id()) << 40 ^ self.epoch) | 1;
        let route = route(terms.own, self.node, terms.seed, self.epoch);
        self.outgoing = Outgoing::new(route, terms.min_bytes, terms.max_bytes, terms.timing);
        self.remote = Some(remote);
        self.next_greeting_ns = 0;
    }

    fn say(&mut self, at: usize, terms: &Terms, now_ns: u64) {
        let Some(remote) = &self.remote else { return };
        let fingerprint = terms.fingerprint();
        let check = check_of(self.epoch, fingerprint, at);
        let words: Vec<u8> =
            [self.epoch, fingerprint, check].iter().flat_map(|word| word.to_le_bytes()).collect();
        match remote.put(at, &words) {
            // Whether they are gone is seen elsewhere, and may be no failure.
            Ok(()) | Err(Error::Lost { .. }) => {}
            Err(_) if self.is_met() => self.outgoing.begin_failure(now_ns, &mut self.ledger),
            Err(_) => {}
        }
    }

    /// The peer's number, if it has written this word.
    fn heard(&mut self, at: usize, terms: &Terms) -> Option<u64> {
        let [epoch, fingerprint, check] = greeting(&self.inbox, at);
        if epoch == 0 || check != check_of(epoch, fingerprint, at) {
            return None;
        }
        if fingerprint != terms.fingerprint() && !self.disagrees {
            self.disagrees = true;
            self.error = Some(format!(
                "node {} runs with other options (sizes or seed): start all instances with the same ones",
                self.node
            ));
        }
        (fingerprint == terms.fingerprint()).then_some(epoch)
    }

    fn hear_greeting(&mut self, local: &Node, terms: &Terms, now_ns: u64) {
        let Some(epoch) = self.heard(HELLO_AT, terms) else {
            if self.their_epoch == 0 {
                self.mangled.look(greeting(&self.inbox, HELLO_AT), now_ns, &mut self.ledger);
            }
            return;
        };
        if epoch == self.their_epoch {
            return;
        }
        if self.their_epoch != 0 {
            // A new instance writes among the words of the previous one: start with clean memory.
            return self.lost(local, terms, now_ns, "it was started again");
        }
        self.their_epoch = epoch;
        let route = route(self.node, terms.own, terms.seed, epoch);
        self.incoming = Incoming::new(route, terms.min_bytes, terms.max_bytes);
        self.presence.push(Presence { at_ns: now_ns, here: true, why: String::new() });
    }

    /// The peer is gone (for now): what was under way is given up, and its next coming finds clean memory.
    fn lost(&mut self, local: &Node, terms: &Terms, now_ns: u64, why: &str) {
        if self.is_met() && !self.done {
            self.presence.push(Presence { at_ns: now_ns, here: false, why: why.to_owned() });
            self.outgoing.begin_failure(now_ns, &mut self.ledger);
            self.outgoing.end(now_ns, &mut self.ledger);
        }
        if self.done {
            self.remote = None;
            return;
        }
        (self.remote, self.their_epoch) = (None, 0);
        self.next_connect_ns = now_ns + RECONNECT_NS;
        // One after the other: the id can only be taken again when it is free.
        let placeholder = local.create_segment_with(&SegmentOptions::new(inbox_bytes(terms.max_bytes)));
        match placeholder {
            Ok(placeholder) => drop(std::mem::replace(&mut self.inbox, placeholder)),
            Err(error) => self.error = Some(error.to_string()),
        }
        match make_inbox(local, terms, self.node) {
            Ok(inbox) => self.inbox = inbox,
            Err(error) => self.error = Some(error.to_string()),
        }
    }

    /// One look in both directions; says how many bytes moved. `more`: new blocks may be sent.
    pub(super) fn exchange(&mut self, terms: &Terms, now_ns: u64, more: bool) -> usize {
        let Some(remote) = &self.remote else { return 0 };
        if self.their_epoch == 0 || self.disagrees {
            return 0;
        }
        let inbox = &self.inbox;
        let stalls = Stalls::of(remote);
        let mut moved =
            usize::from(self.outgoing.take_answers(now_ns, |at| word(inbox, at), &mut self.ledger));
        let received = self.incoming.receive(
            now_ns,
            |at| word(inbox, at),
            |at, bytes| {
                // Cannot fail: all places lie in the inbox, by construction.
                let _ = inbox.window().get(at, bytes);
            },
            |at, bytes| stalls.put(remote, at, bytes),
            &mut self.ledger,
        );
        moved += received.unwrap_or(0);
        let put = |at, bytes: &[u8]| stalls.put(remote, at, bytes);
        let sent = self.outgoing.send(now_ns, more, put, &mut self.ledger);
        if stalls.longest() >= Duration::from_nanos(terms.timing.failure_after_ns) {
            // Answers that came meanwhile are read before anything looks at the time. They end it.
            self.outgoing.begin_failure(now_ns, &mut self.ledger);
        }
        match sent {
            Ok(sent) => moved + sent,
            Err(Blocked(_)) => moved,
        }
    }

    /// The session with its manager is lost, for this reason, or it is not. Data may go on: so this is an
    /// outage of its own. Returns whether it begins here. What a peer does after its last block does not
    /// count.
    pub(super) fn note_session(&mut self, now_ns: u64, lost: Option<String>) -> bool {
        let Some(why) = lost.filter(|_| self.is_met() && !self.done) else {
            self.session_outage.end(now_ns, &mut self.ledger);
            return false;
        };
        let before = self.ledger.failures;
        self.session_outage.begin(now_ns, &mut self.ledger);
        self.session_lost = Some(why);
        self.ledger.failures > before
    }

    /// Announces the last block, and checks whether the peer has done so.
    pub(super) fn take_leave(&mut self, terms: &Terms, now_ns: u64) {
        self.hear_leave(terms);
        if !self.outgoing.is_idle() {
            return;
        }
        if self.remote.as_ref().is_some_and(|remote| matches!(remote.check(), Err(Error::Lost { .. }))) {
            // They were faster; their last word may have been lost.
            (self.done, self.said_done) = (true, true);
        }
        if !self.said_done || now_ns >= self.next_greeting_ns {
            self.next_greeting_ns = now_ns + REPEAT_NS;
            self.say(DONE_AT, terms, now_ns);
            self.said_done = true;
        }
    }

    /// The peer has announced its last block: its end is no failure.
    pub(super) fn hear_leave(&mut self, terms: &Terms) {
        if !self.done && self.their_epoch != 0 && self.heard(DONE_AT, terms) == Some(self.their_epoch) {
            self.done = true;
        }
    }

    pub(super) fn finish(mut self, now_ns: u64) -> PeerReport {
        self.outgoing.end(now_ns, &mut self.ledger);
        self.session_outage.end(now_ns, &mut self.ledger);
        PeerReport {
            node: self.node,
            found: self.presence.iter().any(|presence| presence.here),
            ledger: self.ledger,
            presence: self.presence,
            session_lost: self.session_lost,
            unreachable: self.unreachable,
            error: self.error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_that_arrive_changed_are_corrupt_once_each_and_one_that_was_half_written_is_not() {
        let (mut mangled, mut ledger) = (MangledGreeting::default(), Ledger::default());
        let mut at = |now_ns, seen| {
            mangled.look(seen, now_ns, &mut ledger);
            ledger.corrupt
        };
        let right = [7, 9, check_of(7, 9, HELLO_AT)];
        assert_eq!([at(0, [0; 3]), at(LATE_NS, [0; 3])], [0; 2], "nothing was written");
        assert_eq!(
            [at(1000, [7, 0, 0]), at(1000 + LATE_NS - 1, [7, 0, 0])],
            [0; 2],
            "it may be half-written"
        );
        assert_eq!(
            [at(9 * LATE_NS, right), at(20 * LATE_NS, right)],
            [0; 2],
            "of other options: not changed"
        );
        for (nth, word) in (1..).zip([1, 2, 3]) {
            let began_ns = 100 * LATE_NS * nth;
            assert_eq!(at(began_ns, [7, 9, word]), nth - 1);
            assert_eq!([1, 2].map(|late| at(began_ns + late * LATE_NS, [7, 9, word])), [nth; 2]);
        }
    }
}
