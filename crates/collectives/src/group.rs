//! Groups and their calls.

use std::time::{Duration, Instant};

use message_queue::meet::Meeting;
use message_queue::{MessageQueue, Name, PeerId};

use crate::algorithms::{allgather, allreduce, alltoall, barrier, broadcast, reduce};
use crate::call::Call;
use crate::error::Error;
use crate::operation::Element;
use crate::settings::CollectiveSettings;
use crate::signature::{Algorithm, Kind, Signature};

/// The most members of a group.
pub const MEMBERS_MAX: usize = 1 << 12;

/// A list of end points that carry out operations together.
///
/// All members make the same calls in the same order, each with its own queue, the one that the group was
/// made with. A call returns when this member's part is done; of all operations only a barrier and those
/// whose result needs the data of all members wait for all of them.
///
/// Each call takes a `limit` for all of it, or `None` to wait for as long as it takes. A call fails with
///
/// - [`Error::Gone`] if a member that this one waits for has ended, and [`Error::GivenUp`] if a member has
///   told that its call failed: every member whose call fails tells all others. A member that has had all
///   that it needs of the others by then returns the result, and its next call fails;
/// - [`Error::Mismatch`] if a member has called another operation, or the same with another length, root or
///   algorithm. Where members that differ exchange no message at all, none of them notices, and they wait
///   until the limit;
/// - [`Error::TimedOut`], [`Error::Foreign`] and [`Error::Messages`] as they say.
///
/// After that the memory that was given holds anything, and all further calls return [`Error::Broken`],
/// because messages of the failed call may still arrive.
///
/// A call returns when the messages that this member sent in it are received or in their receivers' rings, so
/// the queue may be dropped then. While a member computes, nothing that is sent to it is received.
///
/// ```
/// use std::time::Duration;
/// use collectives::{CollectiveSettings, Group, operation};
/// use message_queue::{MessageQueue, Settings};
///
/// let mut queues = Vec::new();
/// for _ in 0..3 {
///     queues.push(MessageQueue::new(Settings::default())?);
/// }
/// let names: Vec<_> = queues.iter().map(MessageQueue::name).collect();
/// std::thread::scope(|scope| {
///     for (rank, mut queue) in queues.into_iter().enumerate() {
///         let names = &names;
///         scope.spawn(move || {
///             let mut group = Group::new(&mut queue, names, 1, CollectiveSettings::default())?;
///             let mut values = [rank as u64, 1];
///             group.allreduce(&mut queue, &mut values, operation::sum, Some(Duration::from_secs(60)))?;
///             assert_eq!(values, [3, 3]);
///             Ok::<(), collectives::Error>(())
///         });
///     }
/// });
/// # Ok::<(), message_queue::Error>(())
/// ```
#[derive(Debug)]
pub struct Group {
    name: Name,
    peers: Vec<PeerId>,
    rank: usize,
    context: u32,
    settings: CollectiveSettings,
    calls: u64,
    is_broken: bool,
}

impl Group {
    /// A group of these members, in rank order. Nothing is sent.
    ///
    /// All members give the same list, context and settings. Two groups that have two members in common must
    /// have different contexts for as long as these queues live.
    ///
    /// # Errors
    /// [`Error::NotMember`], [`Error::Twice`], [`Error::TooMany`].
    pub fn new<M: Meeting>(
        queue: &mut MessageQueue<M>,
        members: &[Name],
        context: u32,
        settings: CollectiveSettings,
    ) -> Result<Self, Error> {
        let name = queue.name();
        if members.len() > MEMBERS_MAX {
            return Err(Error::TooMany { members: members.len() });
        }
        for (second, name) in members.iter().enumerate() {
            if let Some(first) = members[..second].iter().position(|other| other == name) {
                return Err(Error::Twice { first, second });
            }
        }
        let rank = members.iter().position(|member| *member == name).ok_or(Error::NotMember)?;
        let peers = members.iter().map(|member| queue.peer(*member)).collect();
        Ok(Self { name, peers, rank, context, settings, calls: 0, is_broken: false })
    }

    /// Number of this member in the list.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Number of members.
    #[must_use]
    pub fn members(&self) -> usize {
        self.peers.len()
    }

    /// Returns when all members have called it.
    ///
    /// # Errors
    /// See [`Group`].
    pub fn barrier<M: Meeting>(
        &mut self,
        queue: &mut MessageQueue<M>,
        limit: Option<Duration>,
    ) -> Result<(), Error> {
        let CollectiveSettings { barrier_exchange, barrier_tree_members, .. } = self.settings;
        let is_long = self.members() >= barrier_tree_members;
        let algorithm = Algorithm::of(barrier_exchange.serves(0, self.members()), is_long);
        let own = Signature::new(Kind::Barrier, 0, 0, algorithm, self.calls);
        self.run(queue, own, limit, |call| match algorithm {
            Algorithm::Exchange => barrier::exchange(call),
            Algorithm::Long => barrier::tree(call),
            Algorithm::Short => barrier::dissemination(call),
        })
    }

    /// Copies the root's bytes to all members; all give the same length.
    ///
    /// # Errors
    /// [`Error::NoRoot`]; see [`Group`].
    pub fn broadcast<M: Meeting>(
        &mut self,
        queue: &mut MessageQueue<M>,
        root: usize,
        bytes: &mut [u8],
        limit: Option<Duration>,
    ) -> Result<(), Error> {
        let is_long = self.settings.broadcast.is_long(bytes.len(), self.members());
        let own = self.signature(Kind::Broadcast, root, bytes.len(), is_long);
        self.run(queue, own, limit, |call| {
            check_root(root, call.members())?;
            if is_long {
                broadcast::scatter_and_allgather(call, root, bytes)
            } else {
                broadcast::binomial_tree(call, root, bytes)
            }
        })
    }

    /// Combines the values of all members, place by place; the root has the result in `values`, and the
    /// others have theirs as they were. All give the same length.
    ///
    /// `operation` must be associative but for rounding, and commutative ([`crate::operation`] has the usual
    /// ones).
    ///
    /// # Errors
    /// [`Error::NoRoot`]; see [`Group`].
    pub fn reduce<M: Meeting, T: Element>(
        &mut self,
        queue: &mut MessageQueue<M>,
        root: usize,
        values: &mut [T],
        operation: impl Fn(T, T) -> T,
        limit: Option<Duration>,
    ) -> Result<(), Error> {
        let bytes = size_of_val(values);
        let is_long = self.settings.reduce.is_long(bytes, self.members());
        let own = self.signature(Kind::Reduce, root, bytes, is_long);
        self.run(queue, own, limit, |call| {
            check_root(root, call.members())?;
            if is_long {
                reduce::reduce_scatter_and_gather(call, root, values, &operation)
            } else {
                reduce::binomial_tree(call, root, values, &operation)
            }
        })
    }

    /// Combines the values of all members, place by place; all members have the result in `values`. All give
    /// the same length; `operation` is as for [`Group::reduce`].
    ///
    /// The result has the same bits on all members, also if the operation rounds: either one member computes
    /// a value and all others get a copy, or all compute it by the same steps, with the value of the lower
    /// ranks as the first argument of `operation`, which must return the same for the same arguments.
    /// Another number of members or another algorithm may round differently.
    ///
    /// # Errors
    /// See [`Group`].
    pub fn allreduce<M: Meeting, T: Element>(
        &mut self,
        queue: &mut MessageQueue<M>,
        values: &mut [T],
        operation: impl Fn(T, T) -> T,
        limit: Option<Duration>,
    ) -> Result<(), Error> {
        let bytes = size_of_val(values);
        let is_exchange = self.settings.allreduce_exchange.serves(bytes, self.members());
        let is_long = self.settings.allreduce.is_long(bytes, self.members());
        let algorithm = Algorithm::of(is_exchange, is_long);
        let own = Signature::new(Kind::Allreduce, 0, bytes, algorithm, self.calls);
        self.run(queue, own, limit, |call| match algorithm {
            Algorithm::Exchange => allreduce::exchange(call, values, &operation),
            Algorithm::Long => allreduce::reduce_scatter_and_allgather(call, values, &operation),
            Algorithm::Short => allreduce::recursive_doubling(call, values, &operation),
        })
    }

    /// Gathers one block of each member on all members, in rank order. All blocks have the same length.
    ///
    /// # Errors
    /// [`Error::Length`] if `all` is not as long as the blocks of all members; see [`Group`].
    pub fn allgather<M: Meeting>(
        &mut self,
        queue: &mut MessageQueue<M>,
        mine: &[u8],
        all: &mut [u8],
        limit: Option<Duration>,
    ) -> Result<(), Error> {
        let bytes = mine.len() * self.members();
        let is_long = self.settings.allgather.is_long(bytes, self.members());
        let own = self.signature(Kind::Allgather, 0, bytes, is_long);
        self.run(queue, own, limit, |call| {
            check_length(all.len(), bytes)?;
            if is_long { allgather::ring(call, mine, all) } else { allgather::bruck(call, mine, all) }
        })
    }

    /// Sends one block to each member, and receives one from each: block `i` of `to` goes to rank `i`, and
    /// block `i` of `from` comes from it. All blocks of all members have the same length.
    ///
    /// # Errors
    /// [`Error::Length`] if the two differ in length, or do not divide by the members; see [`Group`].
    pub fn alltoall<M: Meeting>(
        &mut self,
        queue: &mut MessageQueue<M>,
        to: &[u8],
        from: &mut [u8],
        limit: Option<Duration>,
    ) -> Result<(), Error> {
        let block = to.len() / self.members();
        let is_long = self.settings.alltoall.is_long(block, self.members());
        let own = self.signature(Kind::Alltoall, 0, to.len(), is_long);
        self.run(queue, own, limit, |call| {
            check_length(to.len(), block * call.members())?;
            check_length(from.len(), to.len())?;
            if is_long {
                alltoall::pairwise(call, block, to, from)
            } else {
                alltoall::bruck(call, block, to, from)
            }
        })
    }

    fn signature(&self, kind: Kind, root: usize, bytes: usize, is_long: bool) -> Signature {
        Signature::new(kind, root, bytes, Algorithm::of(false, is_long), self.calls)
    }

    fn run<M: Meeting>(
        &mut self,
        queue: &mut MessageQueue<M>,
        own: Signature,
        limit: Option<Duration>,
        algorithm: impl FnOnce(&mut Call<'_, M>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if queue.name() != self.name {
            return Err(Error::WrongQueue);
        }
        if self.is_broken {
            return Err(Error::Broken);
        }
        self.calls += 1;
        let Self { rank, context, .. } = *self;
        // A limit beyond what the clock can say is none.
        let until = limit.and_then(|limit| Instant::now().checked_add(limit));
        let (sends, receive) = (Vec::new(), None);
        let mut call = Call { queue, peers: &self.peers, rank, context, own, until, sends, receive };
        let ended = algorithm(&mut call).and_then(|()| call.end());
        if ended.is_err() {
            call.give_up();
            self.is_broken = true;
        }
        ended
    }
}

fn check_root(root: usize, members: usize) -> Result<(), Error> {
    if root < members { Ok(()) } else { Err(Error::NoRoot { root, members }) }
}

fn check_length(got_bytes: usize, needed_bytes: usize) -> Result<(), Error> {
    if got_bytes == needed_bytes { Ok(()) } else { Err(Error::Length { got_bytes, needed_bytes }) }
}
