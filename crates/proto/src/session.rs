//! The state machine of a session: is the manager of the other node alive?
//!
//! One [`Session`] per other node. The manager with the higher node id dials, the other one waits. Both say
//! hello as soon as the connection stands; the session is valid when an acceptable hello has come. From then
//! on both send a heartbeat at each interval, and a side that receives nothing at all for the limit considers
//! the session lost.
//!
//! Decisions:
//! - A silent connection is *kept*: a peer that was stopped in a debugger sends again on the same socket, and
//!   nothing has been lost on it. It is still probed, ever more rarely, as two sides that were both suspended
//!   must not wait for each other. A broken connection is dialled again with a bounded exponential back-off.
//! - A manager that was held up itself gives its peers one more interval: their messages may wait.
//! - After a goodbye or a refusal it dials at the slowest pace: nothing depends on a socket that appears.
//! - A connection with an acceptable hello replaces the one before it, whichever incarnation it comes from.

mod other_way;
mod redial;
mod round_trips;

use std::time::Duration;

use crate::fault::time;
use crate::ids::NodeId;
use crate::manager::PeerConn;
use crate::time::Instant;
use crate::wire::peer::{Echo, PeerMessage};
use crate::wire::program::Incarnation;
use crate::wire::status::SessionState;
use redial::SLOWEST;
pub use redial::{REDIAL_MAX, REDIAL_MIN};
use round_trips::RoundTrips;
pub use round_trips::{Offset, RoundTrip};

/// A silent peer is probed at least every so many heartbeat limits.
const PROBE_MAX_LIMITS: u32 = 10;
/// The settings of a session.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// This node.
    pub own: NodeId,
    /// The other node.
    pub peer: NodeId,
    /// How often a heartbeat is sent.
    pub heartbeat_interval: Duration,
    /// Silence after which the session is lost.
    pub heartbeat_limit: Duration,
    /// Makes the back-off of this manager differ from that of others.
    pub seed: u64,
}

/// How a session became valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Return {
    /// The first time since this manager started.
    First,
    /// Messages arrive again on the same connection: nothing was lost on it.
    Revived,
    /// A new connection with the same incarnation: messages in between are lost.
    Reconnected,
    /// The other manager was restarted.
    Restarted,
}

/// What the owner of the session has to do, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Connect to the peer.
    Dial,
    /// Send.
    Send(PeerConn, PeerMessage),
    /// Close this connection; it is no longer the session's.
    Close(PeerConn),
    /// The session is valid now. The owner sends its announcements and then calls [`Session::settle`].
    Up(Return),
    /// The session was valid and is not any more.
    Down,
    /// The peer has ended in order.
    Stopped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    None,
    Dialling,
    /// Hello was sent, theirs is awaited until then.
    Greeting(PeerConn, Instant),
    /// Hellos were exchanged.
    Open(PeerConn),
}

/// State of the session with one other node.
#[derive(Debug)]
pub struct Session {
    settings: Settings,
    state: SessionState,
    reason: Option<String>,
    transport: Transport,
    incarnation: Option<Incarnation>,
    host: String,
    last_heard: Instant,
    /// When the next heartbeat (or probe, while silent) is sent.
    beat_at: Instant,
    probe_gap: Duration,
    /// When the peer's next heartbeat is due.
    expected: Instant,
    sequence: u64,
    redial_at: Option<Instant>,
    attempts: u32,
    generation: u64,
    since: Instant,
    ever_valid: bool,
    down_since: Option<Instant>,
    downtime: Duration,
    received: u64,
    missed: u64,
    /// Of the present connection.
    round_trips: RoundTrips,
}

impl Session {
    /// A session that waits for [`Self::seen`] or for the peer.
    pub fn new(settings: Settings, now: Instant) -> Self {
        Self {
            settings,
            state: SessionState::Connecting,
            reason: None,
            transport: Transport::None,
            incarnation: None,
            host: String::new(),
            last_heard: now,
            beat_at: now,
            probe_gap: settings.heartbeat_interval,
            expected: now,
            sequence: 0,
            redial_at: None,
            attempts: 0,
            generation: 0,
            since: now,
            ever_valid: false,
            down_since: Some(now),
            downtime: Duration::ZERO,
            received: 0,
            missed: 0,
            round_trips: RoundTrips::default(),
        }
    }

    /// The state.
    pub fn state(&self) -> SessionState {
        self.state
    }

    /// Requests may be sent.
    pub fn is_valid(&self) -> bool {
        self.state == SessionState::Valid
    }

    /// Why it is not valid.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// The connection of a session after its hello, silent or not.
    pub fn open_conn(&self) -> Option<PeerConn> {
        match self.transport {
            Transport::Open(conn) => Some(conn),
            _ => None,
        }
    }

    /// The connection, whatever its state.
    pub fn conn(&self) -> Option<PeerConn> {
        match self.transport {
            Transport::Open(conn) | Transport::Greeting(conn, _) => Some(conn),
            _ => None,
        }
    }

    /// The peer's incarnation, as last received.
    pub fn incarnation(&self) -> Option<Incarnation> {
        self.incarnation
    }

    /// The peer's host, as last received.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// How often it went up or down.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Time since the state last changed.
    pub fn since(&self, now: Instant) -> Duration {
        now.since(self.since)
    }

    /// Time that it was not valid, this time included; without the first connecting, if that succeeded.
    pub fn downtime(&self, now: Instant) -> Duration {
        self.downtime + self.down_since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Heartbeats that arrived, and those that were due and did not.
    pub fn heartbeats(&self) -> (u64, u64) {
        (self.received, self.missed)
    }

    /// What was measured with them, on the present connection.
    pub fn round_trip(&self) -> Option<RoundTrip> {
        self.round_trips.measured()
    }

    /// The other manager's clock less this one's.
    pub fn clock_offset(&self, now: Instant) -> Option<Offset> {
        self.round_trips.offset(now)
    }

    /// This side dials.
    pub fn dials(&self) -> bool {
        self.settings.own > self.settings.peer
    }

    /// The peer's socket exists: worth an attempt at once.
    pub fn seen(&mut self, out: &mut Vec<Action>) {
        self.attempts = 0;
        if self.dials() && self.transport == Transport::None {
            self.dial(out);
        }
    }

    /// The dialled connection is established, and the hello was sent on it.
    pub fn connected(&mut self, now: Instant, conn: PeerConn, out: &mut Vec<Action>) {
        match self.transport {
            // Nothing was asked for while one is open.
            Transport::Open(_) => return out.push(Action::Close(conn)),
            Transport::Greeting(old, _) => out.push(Action::Close(old)),
            Transport::None | Transport::Dialling => {}
        }
        self.redial_at = None;
        self.transport = Transport::Greeting(conn, now + self.settings.heartbeat_limit);
    }

    /// Dialling failed.
    pub fn dial_failed(&mut self, now: Instant, why: &str) {
        if self.transport == Transport::Dialling {
            self.transport = Transport::None;
            if !matches!(self.state, SessionState::Refused | SessionState::Stopped | SessionState::Revoked) {
                self.reason = Some(format!("its manager cannot be connected to: {why}"));
            }
            self.redial_later(now);
        }
    }

    /// An acceptable hello came on `conn`, dialled or accepted.
    pub fn hello(
        &mut self,
        now: Instant,
        conn: PeerConn,
        incarnation: Incarnation,
        host: &str,
        out: &mut Vec<Action>,
    ) {
        if let Some(old) = self.conn().filter(|&old| old != conn) {
            if self.is_valid() {
                self.leave(now, SessionState::Lost, "another connection took its place", out);
            }
            out.push(Action::Close(old));
        }
        let back = match self.incarnation {
            None => Return::First,
            Some(known) if known == incarnation => Return::Reconnected,
            Some(_) => Return::Restarted,
        };
        self.transport = Transport::Open(conn);
        self.round_trips = RoundTrips::default();
        self.redial_at = None;
        self.incarnation = Some(incarnation);
        host.clone_into(&mut self.host);
        self.enter_valid(now, back, out);
    }

    /// The owner has sent its announcements at the start of a connection: the first heartbeat ends them.
    pub fn settle(&mut self, now: Instant, out: &mut Vec<Action>) {
        if let (Transport::Open(conn), true) = (self.transport, self.is_valid()) {
            self.beat(now, conn, out);
            self.beat_at = self.next_tick(now);
        }
    }

    /// Anything came on the open connection.
    pub fn heard(&mut self, now: Instant, out: &mut Vec<Action>) {
        if !matches!(self.transport, Transport::Open(_)) {
            return;
        }
        self.last_heard = now;
        if self.state == SessionState::Lost {
            self.enter_valid(now, Return::Revived, out);
        }
    }

    /// A heartbeat came (after [`Self::heard`]).
    pub fn heartbeat(&mut self, now: Instant, sequence: u64, echo: Option<Echo>) {
        self.received += 1;
        self.round_trips.came(now, sequence, echo);
        self.expected = now + self.settings.heartbeat_interval;
    }

    /// The peer ended in order, by a message on the session's connection.
    pub fn bye(&mut self, now: Instant, out: &mut Vec<Action>) {
        self.leave(now, SessionState::Stopped, "its manager was stopped", out);
        out.push(Action::Stopped);
        self.hang_up(out);
        self.attempts = SLOWEST;
        self.redial_later(now);
    }

    /// One side does not accept the other.
    pub fn refused(&mut self, now: Instant, why: &str, out: &mut Vec<Action>) {
        self.leave(now, SessionState::Refused, why, out);
        self.hang_up(out);
        self.attempts = SLOWEST;
        self.redial_later(now);
    }

    /// The peer's certificate was revoked, or ours: it is not dialled until it is [`Self::seen`] again.
    pub fn revoked(&mut self, now: Instant, state: SessionState, why: &str, out: &mut Vec<Action>) {
        self.leave(now, state, why, out);
        self.hang_up(out);
        self.redial_at = None;
    }

    /// The connection closed (`Close` is not wanted any more).
    pub fn closed(&mut self, now: Instant, conn: PeerConn, out: &mut Vec<Action>) {
        if self.conn() == Some(conn) {
            self.transport = Transport::None;
            self.fail(now, "the connection to its manager broke", out);
        }
    }

    /// The peer broke a rule: the connection is given up.
    pub fn broken(&mut self, now: Instant, why: &str, out: &mut Vec<Action>) {
        self.hang_up(out);
        self.fail(now, why, out);
    }

    /// Lets time pass.
    pub fn timeout(&mut self, now: Instant, out: &mut Vec<Action>) {
        match self.transport {
            Transport::None if self.redial_at.is_some_and(|at| at <= now) => self.dial(out),
            Transport::Greeting(conn, until) if now.since(until) >= self.settings.heartbeat_interval => {
                // Served late: the hello is probably waiting.
                self.transport = Transport::Greeting(conn, now + self.settings.heartbeat_interval);
            }
            Transport::Greeting(_, until) if until <= now => {
                let why = format!("no hello within {} ms", self.settings.heartbeat_limit.as_millis());
                self.hang_up(out);
                self.fail(now, &why, out);
            }
            Transport::Open(conn) if self.is_valid() => self.watch(now, conn, out),
            Transport::Open(conn) if self.beat_at <= now => {
                self.beat(now, conn, out);
                self.probe_gap =
                    (self.probe_gap * 2).min(self.settings.heartbeat_limit.saturating_mul(PROBE_MAX_LIMITS));
                self.beat_at = now + self.probe_gap;
            }
            _ => {}
        }
    }

    /// When [`Self::timeout`] is wanted next.
    pub fn next_timeout(&self) -> Option<Instant> {
        match self.transport {
            Transport::None => self.redial_at,
            Transport::Dialling => None,
            Transport::Greeting(_, until) => Some(until),
            Transport::Open(_) if self.is_valid() => Some(self.beat_at.min(self.silence_at())),
            Transport::Open(_) => Some(self.beat_at),
        }
    }

    fn silence_at(&self) -> Instant {
        self.last_heard + self.settings.heartbeat_limit
    }

    /// A valid session's timer: missed heartbeats, silence, our own heartbeat.
    fn watch(&mut self, now: Instant, conn: PeerConn, out: &mut Vec<Action>) {
        let Settings { heartbeat_interval: interval, heartbeat_limit: limit, .. } = self.settings;
        let due = self.next_timeout().unwrap_or(now);
        if now.since(due) >= interval && self.silence_at() <= now {
            // This manager was held up itself: one more interval for what waits in its sockets.
            self.last_heard = Instant::from_nanos(now.as_nanos().saturating_sub(nanos(limit))) + interval;
        }
        self.count_missed(now, interval);
        if self.silence_at() <= now {
            let why = format!("no heartbeat for {}", time(nanos(limit)));
            self.leave(now, SessionState::Lost, &why, out);
            self.probe_gap = interval;
            self.beat_at = now + self.probe_gap;
            return;
        }
        if self.beat_at <= now {
            self.beat(now, conn, out);
            self.beat_at = self.next_tick(now);
        }
    }

    fn count_missed(&mut self, now: Instant, interval: Duration) {
        // Half an interval of patience: the two sides' ticks and the scheduler are not exact.
        let late = now.since(self.expected + interval / 2);
        if now >= self.expected + interval / 2 {
            let missed = 1 + nanos(late) / nanos(interval).max(1);
            self.missed += missed;
            self.expected =
                self.expected + Duration::from_nanos(nanos(interval).max(1).saturating_mul(missed));
        }
    }

    fn beat(&mut self, now: Instant, conn: PeerConn, out: &mut Vec<Action>) {
        self.sequence += 1;
        let echo = self.round_trips.send(now, self.sequence);
        out.push(Action::Send(conn, PeerMessage::Heartbeat { sequence: self.sequence, echo }));
    }

    /// All sessions of a manager beat at multiples of the interval: an idle manager wakes once for all.
    fn next_tick(&self, now: Instant) -> Instant {
        let interval = nanos(self.settings.heartbeat_interval).max(1);
        Instant::from_nanos((now.as_nanos() / interval).saturating_add(1).saturating_mul(interval))
    }

    fn enter_valid(&mut self, now: Instant, back: Return, out: &mut Vec<Action>) {
        let Settings { heartbeat_interval, .. } = self.settings;
        if let Some(since) = self.down_since.take()
            && (self.ever_valid || self.state != SessionState::Connecting)
        {
            self.downtime += now.since(since);
        }
        self.state = SessionState::Valid;
        self.reason = None;
        self.ever_valid = true;
        self.since = now;
        self.generation += 1;
        self.last_heard = now;
        self.expected = now + heartbeat_interval;
        self.beat_at = self.next_tick(now);
        out.push(Action::Up(back));
    }

    /// Ends validity, if there was any, and takes the new state.
    fn leave(&mut self, now: Instant, state: SessionState, why: &str, out: &mut Vec<Action>) {
        if self.is_valid() {
            self.generation += 1;
            self.down_since = Some(now);
            if now.since(self.since) >= self.settings.heartbeat_limit {
                // It held for a while: this is no connection that breaks again and again.
                self.attempts = 0;
            }
            out.push(Action::Down);
        }
        if self.state != state {
            self.state = state;
            self.since = now;
        }
        self.reason = Some(why.to_owned());
    }

    /// The connection is no more, for a reason that time may heal.
    fn fail(&mut self, now: Instant, why: &str, out: &mut Vec<Action>) {
        match self.state {
            SessionState::Valid => self.leave(now, SessionState::Lost, why, out),
            SessionState::Connecting | SessionState::Lost => self.reason = Some(why.to_owned()),
            SessionState::Refused | SessionState::Stopped | SessionState::Revoked => {}
        }
        self.redial_later(now);
    }

    fn hang_up(&mut self, out: &mut Vec<Action>) {
        if let Some(conn) = self.conn() {
            out.push(Action::Close(conn));
        }
        self.transport = Transport::None;
    }

    fn dial(&mut self, out: &mut Vec<Action>) {
        self.transport = Transport::Dialling;
        self.redial_at = None;
        out.push(Action::Dial);
    }

    fn redial_later(&mut self, now: Instant) {
        if self.dials() && self.transport == Transport::None {
            self.redial_at = Some(now + redial::pause(&self.settings, self.attempts));
            self.attempts = self.attempts.saturating_add(1);
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
