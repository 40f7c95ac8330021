//! Progress: what has arrived is taken out of the lanes, and what waited for room is put in.
//!
//! The thread that makes progress may be one of a C program that is cancelled. What is done for most messages
//! makes no call in which that would happen, and the rest is done [`without_points`].

use std::time::{Duration, Instant};

use cancellation::without_points;
use shm::doorbell::{SURE_AFTER_NS, Sleep};

use super::Endpoint;
use crate::alarm::{Alarm, Armed};
use crate::completion::Sink;
use crate::error::Error;
use crate::inboxes::Inbox;
use crate::lane::{Found, Inlet, LaneError, Outlet};
use crate::meet::{Arrival, Meeting};
use crate::peer::{Answers, Process, Way};
use crate::wire::{Beginning, Head, Kind};

/// Records taken out of one lane before the next is looked at.
const AT_ONCE: usize = 64;
/// So many records that were taken in one turn are a stream.
const STREAM_FROM: usize = 2;
/// Every so many turns it is looked whether a peer has ended: a system call, which then costs a small part of
/// the turns.
const WATCH_EVERY: u32 = 1 << 12;

impl<M: Meeting> Endpoint<M> {
    /// Takes what has arrived, and sends what waited for room: whether anything went on.
    #[inline]
    pub fn progress(&mut self, sink: &mut impl Sink) -> bool {
        if self.meeting.has_arrivals() {
            without_points(|| self.take_arrivals(sink));
        }
        let core = &mut self.core;
        let mut is_any = self.inboxes.turn(|inbox| {
            if inbox.left_at == Some(core.changes) {
                return false;
            }
            let mut taken = 0;
            while taken < AT_ONCE {
                let peer = inbox.peer;
                match inbox.inlet.take_if(|record| core.take(peer, record, sink)) {
                    Ok(Found::Taken(())) => {
                        taken += 1;
                        // To look costs as much as a message: that is for the next turn, but in a stream.
                        let is_stream = taken >= STREAM_FROM && inbox.inlet.expects_more();
                        if !is_stream && !inbox.inlet.knows_more() {
                            break;
                        }
                    }
                    Ok(Found::Nothing) => {
                        if inbox.is_last {
                            core.is_any_lost = true;
                        }
                        break;
                    }
                    Ok(Found::Left) => {
                        inbox.left_at = Some(core.changes);
                        core.counters.left += 1;
                        return taken > 0;
                    }
                    Err(error) => {
                        core.wrong(peer, what_of(error), sink);
                        break;
                    }
                }
                if core.is_any_lost {
                    break;
                }
            }
            inbox.left_at = None;
            taken > 0
        });
        if self.core.is_any_lost {
            without_points(|| self.drop_lost(sink));
        }
        // The way to a peer that needs an answer came before what it needs one for, and this may be the last
        // turn for long.
        if is_any && self.meeting.has_arrivals() {
            without_points(|| self.take_arrivals(sink));
        }
        is_any |= self.pump_if_busy(sink);
        self.turns = self.turns.wrapping_add(1);
        // While there is always something of others, now and then.
        let is_time = !is_any || self.turns.is_multiple_of(AT_ONCE as u32);
        if is_time && !self.core.asked.is_empty() {
            is_any |= self.core.read_stalled(sink);
        }
        if self.turns.is_multiple_of(WATCH_EVERY) {
            self.watch(sink);
        }
        is_any
    }

    /// Whether nothing goes on that no peer wakes for.
    fn is_idle(&self) -> bool {
        let core = &self.core;
        core.busy.is_empty() && core.asked.is_empty() && !core.is_any_lost
    }

    /// Lanes from which messages come.
    pub(crate) fn lanes(&self) -> usize {
        self.inboxes.iter().count()
    }

    /// Whether who was armed with so many lanes, and sleeps, is woken when there is something to do, and
    /// nothing is there yet.
    pub(crate) fn may_sleep_on(&self, lanes: usize) -> bool {
        let has_none = |inbox: &Inbox<M::Inlet>| inbox.left_at.is_none() && inbox.inlet.is_empty();
        self.is_idle()
            && self.lanes() == lanes
            && !self.meeting.has_arrivals()
            && self.inboxes.iter().all(has_none)
    }

    /// Sleeps until a peer sends something, for `limit` at most: whether it could. It cannot while something
    /// goes on by itself that no peer wakes for, such as a send that waits for room.
    ///
    /// A peer may miss who goes to sleep in that very moment; then it is found after a millisecond.
    #[cold]
    pub fn sleep(&mut self, limit: Duration) -> bool {
        let limit = limit.min(self.longest_sleep());
        self.is_idle() && self.meeting.arrivals_word().is_some_and(|own| self.inboxes.sleep(own, limit))
    }

    /// Longest sleep of a thread that is armed.
    pub(crate) fn longest_sleep(&self) -> Duration {
        if self.meeting.has_silent_peers() { Duration::from_nanos(SURE_AFTER_NS) } else { Duration::MAX }
    }

    /// Has peers ring for a sleep of whoever holds the alarm, and adds to it what wakes the sleeper. Whether
    /// the sleep can begin; [`Endpoint::disarm`] ends it in any case. Who sleeps is to look again after a
    /// while, as with [`Endpoint::sleep`].
    ///
    /// If it `lasts`, peers go on ringing after other sleeps: of one that is not ended so.
    #[cold]
    pub fn arm(&mut self, alarm: &mut Alarm, sleep: &Sleep, lasts: bool) -> Armed {
        self.is_armed_for_good |= lasts;
        let word = self.meeting.arrivals_handle().filter(|_| self.is_idle());
        let Some(word) = word else { return Armed::Restless };
        alarm.add(word, 0);
        self.inboxes.arm(alarm, sleep, || self.meeting.has_arrivals())
    }

    /// The sleep has ended.
    #[cold]
    pub fn disarm(&mut self, sleep: &Sleep) {
        if !self.is_armed_for_good {
            self.inboxes.disarm(sleep);
        }
    }

    #[cold]
    pub(super) fn take_arrivals(&mut self, sink: &mut impl Sink) {
        for arrival in self.meeting.arrivals() {
            match arrival {
                Arrival::Inlet { name, process, inlet } => {
                    if !self.core.may_be_peer(&name) {
                        inlet.close();
                        continue;
                    }
                    let id = self.core.peer(name);
                    let peer = &mut self.core.peers[id as usize];
                    // A second lane would break the order of messages; and who is lost is not listened to
                    // again.
                    if self.inboxes.of(id).is_none() && !matches!(peer.way, Way::Lost(_)) {
                        if matches!(peer.process, Process::Unknown) {
                            peer.process = Process::of(process);
                        }
                        peer.answers = Answers::Open;
                        self.inboxes.push(id, inlet);
                    } else {
                        inlet.close();
                    }
                }
                Arrival::Outlet { name, process, outlet } => {
                    if !self.core.may_be_peer(&name) {
                        outlet.close();
                        continue;
                    }
                    let id = self.core.peer(name);
                    let peer = &mut self.core.peers[id as usize];
                    if matches!(peer.way, Way::Unknown | Way::Asked) {
                        if matches!(peer.process, Process::Unknown) {
                            peer.process = Process::of(process);
                        }
                        peer.open(outlet);
                    } else {
                        outlet.close();
                    }
                }
                Arrival::NotYet { name, is_ring } => {
                    let id = self.core.peer(name);
                    let peer = &mut self.core.peers[id as usize];
                    if is_ring && matches!(peer.way, Way::Asked) {
                        peer.way = Way::Unknown;
                    }
                    if !is_ring && peer.answers == Answers::Invited {
                        peer.answers = Answers::Needed;
                    }
                    self.core.set_busy(id);
                }
                Arrival::Failed { name, errno } => {
                    let id = self.core.peer(name);
                    self.core.lose(id, Error::NoWay { peer: id, errno }, sink);
                }
                Arrival::Nonsense { name } => {
                    let id = self.core.peer(name);
                    self.core.wrong(id, "an answer that is no end of a ring", sink);
                }
            }
        }
    }

    /// Sends what waits for room: whether anything went out.
    #[inline]
    pub(super) fn pump_if_busy(&mut self, sink: &mut impl Sink) -> bool {
        !self.core.busy.is_empty() && without_points(|| self.pump_all(sink))
    }

    #[cold]
    fn pump_all(&mut self, sink: &mut impl Sink) -> bool {
        let records = self.core.records_out;
        let mut busy = std::mem::take(&mut self.core.busy);
        busy.retain(|id| {
            let is_unknown = matches!(self.core.peers[*id as usize].way, Way::Unknown);
            if is_unknown && let Err(error) = self.reach(*id, sink) {
                self.core.lose(*id, error, sink);
            }
            let is_busy = self.core.pump(*id, sink);
            if self.core.peers[*id as usize].answers == Answers::Needed
                && let Err(error) = self.invite(*id, sink)
            {
                self.core.lose(*id, error, sink);
            }
            is_busy
        });
        // Those that became busy meanwhile.
        for id in std::mem::replace(&mut self.core.busy, busy) {
            self.core.set_busy(id);
        }
        self.core.records_out != records
    }

    /// Before it is dropped: lets sends end and tells the peers, for `limit` at most. Whether all of that was
    /// done.
    ///
    /// Memory that was given away for sends that have not ended is never freed: a peer may still read it.
    /// What was lent is the program's again once this is dropped: what a peer reads of it then, it takes for
    /// lost.
    pub fn finish(&mut self, limit: Duration, sink: &mut impl Sink) -> bool {
        let until = Instant::now() + limit;
        let mut has_told = false;
        loop {
            self.progress(sink);
            let is_under_way = self.core.sends.iter().any(|(_, sending)| sending.request.to != super::OWN);
            if !is_under_way && !has_told {
                self.core.tell_all(Beginning::new(Head { kind: Kind::Bye, flags: 0, id: 0 }));
                has_told = true;
            }
            if has_told && self.core.busy.is_empty() && self.core.has_arrived() {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            std::thread::yield_now();
        }
    }
}

impl<M: Meeting> Drop for Endpoint<M> {
    fn drop(&mut self) {
        // For peers to which this one has no lane, too, and although the process lives on. What was lent is
        // the program's again; what was given away is kept, and may still be read.
        let is_lent = self.core.has_lent_memory();
        self.inboxes.each(|inbox| if is_lent { inbox.inlet.close() } else { inbox.inlet.stop() });
        // Whoever did not call `finish` says so at least, where there is room for a word.
        self.core.tell_all(Beginning::new(Head { kind: Kind::Bye, flags: 0, id: 0 }));
        for peer in &self.core.peers {
            if let Way::Open(outlet) = &peer.way {
                outlet.close();
            }
        }
        self.core.keep_memory_of_sends();
    }
}

/// Marks the end of a peer's lane: nothing comes behind what is in it.
pub(super) fn is_over<I>(inbox: &Inbox<I>) -> bool {
    inbox.is_last
}

fn what_of(error: LaneError) -> &'static str {
    match error {
        LaneError::Broken(what) => what,
        LaneError::Full | LaneError::TooLong => "a lane that fails to receive",
    }
}
