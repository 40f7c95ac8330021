//! Stands between a manager and its transport: what others ask is answered at once, whatever the manager
//! does at the moment. So no other manager takes it for dead while it sweeps or writes.

use std::collections::VecDeque;
use std::time::Duration;

use mad::sm::SmInfo;
use mad::values::SmState;
use mad::{Address, Guid, Lid, Mad, MadTransport, Received, TransportError};

use crate::hearing::{Heard, Myself, back_to, heard};
use crate::peer::Way;

/// What is kept until the manager looks at it; further ones are lost, as on a network.
const MOST_KEPT: usize = 4096;
/// Those who asked and are to be asked back; a fabric has few managers.
const MOST_ASKERS: usize = 32;
/// How often a response is tried to be sent, and for how long what comes is taken in between.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(1);

/// What came and is to be dealt with when there is time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kept {
    /// A trap of this number from this LID.
    Trap(u16, Lid),
    /// Another manager told this one to do this, and was told that it will be done.
    Told { modifier: u32, sender: SmInfo, by: Option<Way> },
}

/// What the manager is to others, and what they sent.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) me: Myself,
    kept: VecDeque<Kept>,
    askers: Vec<Way>,
    /// Responses that came while there was no room for one of ours.
    late: VecDeque<Received>,
}

impl Desk {
    pub(crate) fn new(priority: u8, key: u64) -> Self {
        let me = Myself { guid: Guid(0), priority, key, state: SmState::DISCOVERING, activity: 0 };
        Self { me, kept: VecDeque::new(), askers: Vec::new(), late: VecDeque::new() }
    }

    /// The oldest that is to be dealt with.
    pub(crate) fn next(&mut self) -> Option<Kept> {
        self.kept.pop_front()
    }

    /// Those who asked since the last call.
    pub(crate) fn take_askers(&mut self) -> Vec<Way> {
        std::mem::take(&mut self.askers)
    }

    /// This one may be a manager, and is to be asked.
    pub(crate) fn asked_by(&mut self, way: Way) {
        if !self.askers.contains(&way) && self.askers.len() < MOST_ASKERS {
            self.askers.push(way);
        }
    }

    fn keep(&mut self, kept: Kept) {
        if self.kept.len() < MOST_KEPT {
            self.kept.push_back(kept);
        }
    }

    /// Takes what came. `None`: it is a response, and for somebody else; otherwise what goes back, and
    /// whether there is something to be dealt with.
    fn take(&mut self, received: &Received) -> Option<(Option<Mad>, bool)> {
        if received.undelivered || received.mad.header().method().is_response() {
            return None;
        }
        self.me.activity = self.me.activity.wrapping_add(1);
        let (response, is_kept) = match heard(received, &self.me) {
            Heard::Trap { number, from, response } => {
                self.keep(Kept::Trap(number, from));
                (Some(response), true)
            }
            Heard::Asked { by, response } => {
                by.into_iter().for_each(|way| self.asked_by(way));
                (Some(response), false)
            }
            Heard::Told { modifier, sender, by, response } => {
                if let Some(modifier) = modifier {
                    self.keep(Kept::Told { modifier, sender, by });
                }
                (Some(response), modifier.is_some())
            }
            Heard::Foreign { response } => (Some(response), false),
            Heard::Other => (None, false),
        };
        Some((response, is_kept))
    }
}

/// The transport as the manager uses it: only responses come out of it.
pub(crate) struct Front<'a, T: ?Sized> {
    inner: &'a mut T,
    pub(crate) desk: &'a mut Desk,
}

impl<'a, T: MadTransport + ?Sized> Front<'a, T> {
    pub(crate) fn new(inner: &'a mut T, desk: &'a mut Desk) -> Self {
        Self { inner, desk }
    }

    /// Sends what nobody responds to. If there is no room for long it is lost: traps and requests are
    /// repeated by who sent them.
    pub(crate) fn send_soon(&mut self, to: &Address, mad: &Mad) -> Result<(), TransportError> {
        for _ in 0..TRIES {
            if self.inner.send(to, mad)? {
                break;
            }
            if let Some(received) = self.inner.receive(PAUSE)?
                && self.desk.late.len() < MOST_KEPT
            {
                self.desk.late.push_back(received);
            }
        }
        Ok(())
    }
}

impl<T: MadTransport + ?Sized> MadTransport for Front<'_, T> {
    fn send(&mut self, to: &Address, mad: &Mad) -> Result<bool, TransportError> {
        self.inner.send(to, mad)
    }

    /// Returns early, and with nothing, if something came that the manager is to deal with.
    fn receive(&mut self, wait: Duration) -> Result<Option<Received>, TransportError> {
        let until = self.inner.now() + wait;
        loop {
            let received = match self.desk.late.pop_front() {
                Some(received) => Some(received),
                None => self.inner.receive(until.saturating_sub(self.inner.now()))?,
            };
            let Some(received) = received else { return Ok(None) };
            let Some((response, is_kept)) = self.desk.take(&received) else { return Ok(Some(received)) };
            if let Some(response) = response {
                self.send_soon(&back_to(&received), &response)?;
            }
            if is_kept {
                return Ok(None);
            }
        }
    }

    fn now(&self) -> Duration {
        self.inner.now()
    }

    fn lid(&self) -> Lid {
        self.inner.lid()
    }

    fn sm_lid(&self) -> Lid {
        self.inner.sm_lid()
    }

    fn room(&self) -> usize {
        self.inner.room()
    }
}
