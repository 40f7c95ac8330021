//! One of several message queues that are measured together: messages there and back, in one direction and in
//! both, and operations of a group, timed.
//!
//! All ends know each other in rank order; of these each even one exchanges messages with the next. They
//! carry out orders, in words ([`End::obey`]). Of one host each is a process (`tieline-messages-measure`), of
//! two hosts a thread of the process that measures, or of the one that serves it (crate `bench`).

mod group;
mod stream;

use std::time::Duration;

use message_queue::endpoint::Counters;
use message_queue::meet::{Datagrams, Meeting};
use message_queue::{MessageQueue, Name, PeerId, Settings, Want};
use shm::clock::{Clock, now_ticks};
use stream::Stream;

use crate::group::Group;
use crate::settings::CollectiveSettings;

/// An end that cannot go on says why.
pub type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const TAG: u64 = 0x11;
/// Nothing takes this long: the other end is gone.
const GIVE_UP_AFTER: Duration = Duration::from_secs(20);
/// Round trips before those that count, as a part of these.
const WARM_UP_PART: usize = 16;

/// Holds the queue of an end.
pub trait Holder {
    /// How its queue meets others.
    type Meeting: Meeting;

    /// The queue.
    fn queue(&mut self) -> &mut MessageQueue<Self::Meeting>;
}

impl<M: Meeting> Holder for MessageQueue<M> {
    type Meeting = M;

    #[inline]
    fn queue(&mut self) -> &mut Self {
        self
    }
}

/// One end.
#[derive(Debug)]
pub struct End<H: Holder = MessageQueue<Datagrams>> {
    holder: H,
    /// All ends, in rank order.
    names: Vec<Name>,
    peer: PeerId,
    group: Group,
    eager_max_bytes: usize,
    /// Longest message that goes in one record, which a receive takes from the ring itself.
    direct_max_bytes: usize,
    /// When paths were last asked for.
    counted: Counters,
}

impl<H: Holder> End<H> {
    /// The end of a queue with these settings, among all of these in rank order. It is there when all are.
    ///
    /// # Errors
    /// The queue is not among them, or another one is not there.
    pub fn open(mut holder: H, settings: &Settings, members: &[Name]) -> Fallible<Self> {
        let group = group_of(&mut holder, members)?;
        let queue = holder.queue();
        let partner = members.get(group.rank() ^ 1);
        // The last of an odd number has none, and no order that needs one.
        let peer = queue.peer(partner.copied().unwrap_or(queue.name()));
        let has_partner = partner.is_some();
        let mut end = Self {
            holder,
            names: members.to_vec(),
            peer,
            group,
            // Of the others some do not fit a record of the ring: they are sent without a copy.
            eager_max_bytes: settings.eager_max_bytes.min(settings.ring_bytes / 4),
            direct_max_bytes: settings.cut_bytes,
            counted: Counters::default(),
        };
        // Both lanes are there before anything is measured: an end of a long message that waits for its lane
        // waits for this end's next order.
        if has_partner {
            // Posted before: the send may end only when the other end receives.
            let want = Want::exactly(end.peer, TAG);
            let receive = end.holder.queue().receive(want, vec![0]);
            end.send(TAG, vec![0])?;
            if let Some(error) = end.holder.queue().wait(receive, Some(GIVE_UP_AFTER))?.error {
                return Err(error.into());
            }
        }
        end.together()?;
        Ok(end)
    }

    /// Carries out one order.
    ///
    /// All begin and end the orders but the last four together.
    ///
    /// - `echo BYTES ROUNDS` at one end, `answer BYTES ROUNDS` at the other: the former reports half the time
    ///   of a round trip, in ns.
    /// - `send BYTES COUNT WINDOW TAGS BUFFERS` and `receive …`: COUNT messages in one direction, WINDOW of
    ///   them under way at both ends, with TAGS tags in turn, from and to BUFFERS buffers in turn. The former
    ///   reports the time from the first one until the receiver has confirmed the last, in ns.
    /// - `exchange BYTES COUNT WINDOW` at both ends: COUNT messages each way, WINDOW of them at once. Both
    ///   report the time in ns.
    /// - `barrier COUNT`, `broadcast|allreduce|allgather|alltoall BYTES COUNT` at all: each reports the mean
    ///   time of its calls, in ns. Between two calls there is a barrier that does not count.
    /// - `members COUNT` at the first so many: orders are theirs alone from now on.
    /// - `paths`: how many messages this end has received in the two ways of long ones since the last such
    ///   order: copied out of the sender's memory, and in parts.
    /// - `check BYTES SEED` and `expect BYTES SEED`: one message, every byte of which is compared.
    ///
    /// # Errors
    /// It is no order, or an operation failed.
    pub fn obey(&mut self, words: &[&str]) -> Fallible<String> {
        let [order, numbers @ ..] = words else { return Err("an empty order".into()) };
        let numbers: Vec<usize> = numbers.iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
        if let ("members", [count]) = (*order, numbers.as_slice()) {
            return self.is_one_of(*count).map(done);
        }
        match *order {
            "check" | "expect" => return self.check(order, &numbers),
            "paths" => return Ok(self.paths()),
            _ => {}
        }
        self.together()?;
        let said = self.measure(order, &numbers)?;
        self.together()?;
        Ok(said)
    }

    fn measure(&mut self, order: &str, numbers: &[usize]) -> Fallible<String> {
        match (order, numbers) {
            ("echo", [bytes, rounds]) => Ok(self.echo(*bytes, *rounds)?.to_string()),
            ("answer", [bytes, rounds]) => self.answer(*bytes, *rounds).map(done),
            ("send", [bytes, count, window, tags, buffers]) => {
                Ok(self.send_all(&Stream::new(*bytes, *count, *window, *tags, *buffers)?)?.to_string())
            }
            ("receive", [bytes, count, window, tags, buffers]) => {
                self.receive_all(&Stream::new(*bytes, *count, *window, *tags, *buffers)?).map(done)
            }
            ("exchange", [bytes, count, window]) => Ok(self.exchange(*bytes, *count, *window)?.to_string()),
            ("barrier", [count]) => Ok(self.barrier(*count)?.to_string()),
            ("broadcast", [bytes, count]) => Ok(self.broadcast(*bytes, *count)?.to_string()),
            ("allreduce", [bytes, count]) => Ok(self.allreduce(*bytes, *count)?.to_string()),
            ("allgather", [bytes, count]) => Ok(self.allgather(*bytes, *count)?.to_string()),
            ("alltoall", [bytes, count]) => Ok(self.alltoall(*bytes, *count)?.to_string()),
            _ => Err(format!("`{order}` with {} numbers is no order", numbers.len()).into()),
        }
    }

    /// The group is one of the first so many ends, which this is one of.
    fn is_one_of(&mut self, count: usize) -> Fallible<()> {
        let first = self.names.get(..count).ok_or("there are not so many members")?;
        self.group = group_of(&mut self.holder, first)?;
        Ok(())
    }

    fn paths(&mut self) -> String {
        let now = self.holder.queue().counters();
        let before = std::mem::replace(&mut self.counted, now);
        format!("{} {}", now.read - before.read, now.in_parts - before.in_parts)
    }

    fn check(&mut self, order: &str, numbers: &[usize]) -> Fallible<String> {
        match (order, numbers) {
            ("check", [bytes, seed]) => self.send(TAG, pattern(*bytes, *seed)).map(|_| done(())),
            ("expect", [bytes, seed]) => {
                let received = self.receive(TAG, vec![0; *bytes])?;
                if received == pattern(*bytes, *seed) {
                    Ok(done(()))
                } else {
                    Err("other bytes arrived".into())
                }
            }
            _ => Err(format!("`{order}` with {} numbers is no order", numbers.len()).into()),
        }
    }

    /// Half the time of a round trip, in ns.
    fn echo(&mut self, bytes: usize, rounds: usize) -> Fallible<f64> {
        let mut message = vec![0; bytes];
        let want = Want::exactly(self.peer, TAG);
        let is_short = bytes <= self.direct_max_bytes;
        let mut began = now_ticks();
        let warm_up = rounds / WARM_UP_PART;
        for round in 0..warm_up + rounds {
            if round == warm_up {
                began = now_ticks();
            }
            message = self.send(TAG, message)?;
            if is_short {
                self.holder.queue().receive_into(&want, &mut message, Some(GIVE_UP_AFTER))?;
            } else {
                message = self.receive(TAG, message)?;
            }
        }
        Ok(Clock::global().ns(now_ticks() - began) / (2 * rounds.max(1)) as f64)
    }

    fn answer(&mut self, bytes: usize, rounds: usize) -> Fallible<()> {
        let mut message = vec![0; bytes];
        let want = Want::exactly(self.peer, TAG);
        for _ in 0..rounds / WARM_UP_PART + rounds {
            if bytes <= self.direct_max_bytes {
                self.holder.queue().receive_into(&want, &mut message, Some(GIVE_UP_AFTER))?;
            } else {
                message = self.receive(TAG, message)?;
            }
            message = self.send(TAG, message)?;
        }
        Ok(())
    }

    /// Sends a message and waits until its memory is its owner's again.
    #[inline]
    fn send(&mut self, tag: u64, message: Vec<u8>) -> Fallible<Vec<u8>> {
        if message.len() <= self.eager_max_bytes {
            let request = self.holder.queue().send_bytes(self.peer, tag, &message)?;
            return match self.holder.queue().wait(request, Some(GIVE_UP_AFTER))?.error {
                None => Ok(message),
                Some(error) => Err(error.into()),
            };
        }
        let request = self.holder.queue().send(self.peer, tag, message)?;
        let status = self.holder.queue().wait(request, Some(GIVE_UP_AFTER))?;
        match status.error {
            None => Ok(status.buffers.into_owned().unwrap_or_default()),
            Some(error) => Err(error.into()),
        }
    }

    #[inline]
    fn receive(&mut self, tag: u64, message: Vec<u8>) -> Fallible<Vec<u8>> {
        let request = self.holder.queue().receive(Want::exactly(self.peer, tag), message);
        let status = self.holder.queue().wait(request, Some(GIVE_UP_AFTER))?;
        match status.error {
            None => Ok(status.buffers.into_owned().unwrap_or_default()),
            Some(error) => Err(error.into()),
        }
    }
}

/// A group of these ends. Each number of them has a context of its own.
fn group_of(holder: &mut impl Holder, members: &[Name]) -> Fallible<Group> {
    let context = u32::try_from(members.len())?;
    Ok(Group::new(holder.queue(), members, context, CollectiveSettings::default())?)
}

fn done((): ()) -> String {
    "done".to_owned()
}

/// The same bytes at both ends.
fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    let byte =
        |at: usize| (at as u64 ^ (seed as u64).rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    (0..bytes).map(|at| byte(at) as u8).collect()
}
