//! Messages in one direction and in both, several under way.

use std::collections::VecDeque;

use message_queue::{Request, Want};
use shm::clock::{Clock, now_ticks};

use super::{End, Fallible, GIVE_UP_AFTER, Holder};

/// Tags of messages that say what the receiver has.
const POSTED: u64 = 0x22;
const RECEIVED: u64 = 0x23;
/// Tag of the first message, and by how much two tags differ.
const FIRST: u64 = 0x33;
const TAG_STEP: u64 = 1 << 16;

/// What is sent.
pub(super) struct Stream {
    bytes: usize,
    count: usize,
    window: usize,
    tags: usize,
    buffers: usize,
}

impl Stream {
    pub(super) fn new(
        bytes: usize,
        count: usize,
        window: usize,
        tags: usize,
        buffers: usize,
    ) -> Fallible<Self> {
        if window == 0 || tags == 0 || buffers < window {
            return Err("a stream has a window, a tag, and a buffer for each message of its window".into());
        }
        Ok(Self { bytes, count, window, tags, buffers })
    }

    fn tag(&self, number: usize) -> u64 {
        FIRST + (number % self.tags) as u64 * TAG_STEP
    }

    /// Buffers whose pages are there.
    fn buffers(&self) -> VecDeque<Vec<u8>> {
        (0..self.buffers).map(|number| vec![number as u8 | 1; self.bytes]).collect()
    }

    /// The next place in the window.
    fn after(&self, place: usize) -> usize {
        if place + 1 == self.window { 0 } else { place + 1 }
    }
}

impl<H: Holder> End<H> {
    /// Sends them all: the time until the receiver has them, in ns.
    pub(super) fn send_all(&mut self, stream: &Stream) -> Fallible<f64> {
        self.receive(POSTED, vec![0; 1])?;
        let is_short = stream.bytes <= self.eager_max_bytes;
        let mut spare = stream.buffers();
        let (mut under_way, mut place) = (vec![None; stream.window], 0);
        let began = now_ticks();
        for number in 0..stream.count {
            if let Some(request) = under_way[place].take() {
                let memory = self.ended(request)?;
                if !is_short {
                    spare.push_back(memory);
                }
            }
            let tag = stream.tag(number);
            under_way[place] = Some(if is_short {
                // Its memory is not given away.
                self.holder.queue().send_bytes(self.peer, tag, &spare[place])?
            } else {
                let message = spare.pop_front().ok_or("no buffer")?;
                self.holder.queue().send(self.peer, tag, message)?
            });
            place = stream.after(place);
        }
        for request in under_way.into_iter().flatten() {
            self.ended(request)?;
        }
        self.receive(RECEIVED, vec![0; 1])?;
        Ok(Clock::global().ns(now_ticks() - began))
    }

    /// Sends and receives as many: the time until all of them have ended at this end, in ns.
    pub(super) fn exchange(&mut self, bytes: usize, count: usize, window: usize) -> Fallible<f64> {
        if window == 0 {
            return Err("an exchange has a window".into());
        }
        let mut to: Vec<Vec<u8>> = vec![vec![1; bytes]; window];
        let mut from = to.clone();
        let began = now_ticks();
        let mut left = count;
        while left > 0 {
            let some = left.min(window);
            let mut requests = Vec::with_capacity(2 * some);
            for memory in from.drain(..some) {
                requests.push(self.holder.queue().receive(Want::exactly(self.peer, FIRST), memory));
            }
            for memory in to.drain(..some) {
                requests.push(self.holder.queue().send(self.peer, FIRST, memory)?);
            }
            for (at, status) in
                self.holder.queue().wait_all(&requests, Some(GIVE_UP_AFTER))?.into_iter().enumerate()
            {
                if let Some(error) = status.error {
                    return Err(error.into());
                }
                let memory = status.buffers.into_owned().unwrap_or_default();
                if at < some { from.push(memory) } else { to.push(memory) }
            }
            left -= some;
        }
        Ok(Clock::global().ns(now_ticks() - began))
    }

    /// Waits for an operation: its memory.
    fn ended(&mut self, request: Request) -> Fallible<Vec<u8>> {
        let status = self.holder.queue().wait(request, Some(GIVE_UP_AFTER))?;
        match status.error {
            Some(error) => Err(error.into()),
            None => Ok(status.buffers.into_owned().unwrap_or_default()),
        }
    }

    /// Receives them all.
    pub(super) fn receive_all(&mut self, stream: &Stream) -> Fallible<()> {
        let mut spare = stream.buffers();
        let mut posted = Vec::with_capacity(stream.window);
        for number in 0..stream.window.min(stream.count) {
            let want = Want::exactly(self.peer, stream.tag(number));
            posted.push(self.holder.queue().receive(want, spare.pop_front().ok_or("no buffer")?));
        }
        self.send(POSTED, vec![1])?;
        let mut place = 0;
        for number in 0..stream.count {
            let mut memory = self.ended(posted[place])?;
            let next = number + stream.window;
            if next < stream.count {
                if let Some(other) = spare.pop_front() {
                    spare.push_back(std::mem::replace(&mut memory, other));
                }
                posted[place] =
                    self.holder.queue().receive(Want::exactly(self.peer, stream.tag(next)), memory);
            }
            place = stream.after(place);
        }
        self.send(RECEIVED, vec![1]).map(drop)
    }
}
