//! One random program.

use std::collections::VecDeque;
use std::rc::Rc;

use std::time::Duration;

use message_queue::completion::{Completion, Ended};
use message_queue::endpoint::{
    Claimed, Counters, Direct, Mode, Posted, ReceiveRequest, SendRequest, Sent, Space,
};
use message_queue::settings::Bounds;
use message_queue::{Buffers, Endpoint, Envelope, Error, Fetch, PeerId, Settings, Want};
use seeded_random::SplitMix64;

use crate::naive::Naive;
use crate::net::{Net, Random, TestMeeting, chance};

const EAGER_MAX_BYTES: usize = 512;
/// Turns without any news after which a run is said to hang.
const HANGS_AFTER: usize = 100_000;

/// What happened in runs.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) runs: usize,
    pub(crate) counters: Counters,
    pub(crate) truncated: usize,
    pub(crate) cancelled: usize,
    pub(crate) claimed: usize,
    pub(crate) wild: usize,
    pub(crate) direct: usize,
}

impl Seen {
    pub(crate) fn add(&mut self, other: Self) {
        self.runs += other.runs;
        self.truncated += other.truncated;
        self.cancelled += other.cancelled;
        self.claimed += other.claimed;
        self.wild += other.wild;
        self.direct += other.direct;
        let (a, b) = (&mut self.counters, other.counters);
        a.eager += b.eager;
        a.offered += b.offered;
        a.read += b.read;
        a.in_parts += b.in_parts;
        a.unexpected += b.unexpected;
        a.left += b.left;
    }
}

struct Message {
    to: usize,
    space: Space,
    envelope: Envelope,
    bytes: Vec<u8>,
    mode: Mode,
    is_matched: bool,
    has_ended: bool,
}

struct Receive {
    of: usize,
    room: usize,
    posted: Option<Posted>,
    /// The message that the naive matcher gave it.
    message: Option<usize>,
    is_cancelled: bool,
    has_ended: bool,
}

/// An end point, and what it should do.
struct Node {
    endpoint: Endpoint<TestMeeting>,
    /// The numbers by which it knows the others.
    peers: Vec<PeerId>,
    naive: Naive,
    /// By source: messages that were sent and not taken.
    under_way: Vec<VecDeque<usize>>,
    told: Vec<Completion>,
    claims: Vec<(Claimed, usize)>,
}

pub(crate) struct Run {
    random: Random,
    net: Rc<Net>,
    nodes: Vec<Node>,
    messages: Vec<Message>,
    receives: Vec<Receive>,
    seen: Seen,
}

const SEND: u64 = 0;
const RECEIVE: u64 = 1 << 32;

impl Run {
    pub(crate) fn new(seed: u64) -> Self {
        let random: Random = Rc::new(std::cell::RefCell::new(SplitMix64::new(seed)));
        let count = 2 + below(&random, 3);
        let net = Net::new(&random, 4096, chance(&random, 2));
        let few = Bounds { messages: 1 + below(&random, 4), bytes: 1 << 20 };
        let many = Settings::default().unexpected;
        let settings = Settings {
            eager_max_bytes: EAGER_MAX_BYTES,
            cut_bytes: [16, 100, EAGER_MAX_BYTES][below(&random, 3)],
            fetch: [Fetch::Measured, Fetch::Read, Fetch::InParts][below(&random, 3)],
            part_wait: Duration::from_micros([0, 10][below(&random, 2)]),
            unexpected: if chance(&random, 3) { few } else { many },
            unexpected_per_peer: if chance(&random, 2) { few } else { many },
            ..Settings::default()
        };
        let mut nodes: Vec<Node> = (0..count)
            .map(|_| Node {
                endpoint: Endpoint::with(net.meeting(), settings),
                peers: Vec::new(),
                naive: Naive::default(),
                under_way: vec![VecDeque::new(); count],
                told: Vec::new(),
                claims: Vec::new(),
            })
            .collect();
        let names: Vec<_> = nodes.iter().map(|node| node.endpoint.name()).collect();
        for node in &mut nodes {
            node.peers = names.iter().map(|name| node.endpoint.peer(*name)).collect();
        }
        Self { random, net, nodes, messages: Vec::new(), receives: Vec::new(), seen: Seen::default() }
    }

    pub(crate) fn all(mut self) -> Seen {
        for _ in 0..20 + below(&self.random, 100) {
            let node = below(&self.random, self.nodes.len());
            match below(&self.random, 16) {
                0..4 => self.send(node),
                4..7 => self.receive(node, None),
                7 => self.receive_direct(node),
                8 => self.cancel_any(node),
                9 => self.probe(node),
                10 => self.claim(node),
                11 => self.end_claim(node),
                _ => self.progress(node),
            }
        }
        self.finish();
        self.seen.runs = 1;
        for node in &self.nodes {
            let counters = node.endpoint.counters();
            assert_eq!((counters.kept_messages, counters.kept_bytes), (0, 0));
            self.seen.add(Seen { counters, ..Seen::default() });
        }
        self.seen
    }

    fn send(&mut self, from: usize) {
        let (to, number) = (below(&self.random, self.nodes.len()), self.messages.len());
        let bytes = bytes_of(number, length(&self.random));
        let space = space(&self.random);
        let mode = match below(&self.random, 6) {
            0 => Mode::Synchronous,
            1 => Mode::Delivered,
            _ => Mode::Standard,
        };
        let data = chance(&self.random, 3).then(|| self.random.borrow_mut().next_u64());
        let tag = if space == Space::Plain { 0 } else { tag(&self.random) };
        let user = SEND + number as u64;
        let waits = !chance(&self.random, 4);
        let node = &mut self.nodes[from];
        let request = SendRequest { to: node.peers[to], space, tag, data, user, mode, waits };
        let is_now = mode == Mode::Standard && chance(&self.random, 3);
        let outcome = if is_now && node.endpoint.send_now(&request, bytes.as_slice()).unwrap() {
            Ok(Sent::Now(Buffers::default()))
        } else {
            node.endpoint.send(&request, bytes.clone().into(), &mut node.told)
        };
        let has_ended = match outcome {
            Ok(Sent::Now(_)) => true,
            Ok(Sent::Later) => false,
            Err(Error::NotNow { .. }) if !waits => return,
            Err(error) => panic!("{error}"),
        };
        let source = self.nodes[to].peers[from];
        let envelope = Envelope { source, tag, data, len_bytes: bytes.len() };
        self.messages.push(Message { to, space, envelope, bytes, mode, is_matched: false, has_ended });
        if to == from {
            self.arrive(to, number);
        } else {
            self.nodes[to].under_way[from].push_back(number);
        }
        self.after(from);
    }

    /// A message has come to where it goes, by the order in which the rings told.
    fn arrive(&mut self, to: usize, number: usize) {
        let message = &self.messages[number];
        assert_eq!(message.to, to);
        if let Some(receive) = self.nodes[to].naive.arrive(message.space, message.envelope, number) {
            self.pair(receive, number);
        }
    }

    fn pair(&mut self, receive: usize, message: usize) {
        assert!(!std::mem::replace(&mut self.messages[message].is_matched, true));
        self.receives[receive].message = Some(message);
    }

    fn receive(&mut self, node: usize, want: Option<(Space, Want)>) {
        let number = self.receives.len();
        let (space, want) = want.unwrap_or_else(|| self.want(node));
        self.seen.wild += usize::from(want.source.is_none() || want.ignore != 0);
        let room = if chance(&self.random, 4) { length(&self.random) } else { 8 * EAGER_MAX_BYTES };
        let request = ReceiveRequest { space, want, user: RECEIVE + number as u64 };
        let message = self.nodes[node].naive.post(space, want, number);
        self.receives.push(Receive {
            of: node,
            room,
            posted: None,
            message: None,
            is_cancelled: false,
            has_ended: false,
        });
        if let Some(message) = message {
            self.pair(number, message);
        }
        let Node { endpoint, told, .. } = &mut self.nodes[node];
        let posted = endpoint.receive(&request, vec![0; room].into(), told);
        assert_eq!(posted.is_some(), message.is_none(), "a receive waits if and only if there is no message");
        self.receives[number].posted = posted;
        self.after(node);
    }

    /// A receive that is carried out at once, or not at all.
    fn receive_direct(&mut self, node: usize) {
        let (space, want) = self.want(node);
        let room = if chance(&self.random, 4) { length(&self.random) } else { 8 * EAGER_MAX_BYTES };
        let mut bytes = vec![0; room];
        let Node { endpoint, told, .. } = &mut self.nodes[node];
        let direct = endpoint.receive_direct(space, &want, &mut bytes, told);
        if let Direct::Received(envelope, error) = direct {
            // It is as if it had been posted before the message came, if that came by this call.
            let number = self.receives.len();
            let message = self.nodes[node].naive.post(space, want, number);
            let (of, posted) = (node, None);
            self.receives.push(Receive {
                of,
                room,
                posted,
                message: None,
                is_cancelled: false,
                has_ended: false,
            });
            if let Some(message) = message {
                self.pair(number, message);
            }
            self.take_from_rings();
            let (user, ended) = (RECEIVE + number as u64, Ended::Receive(Some(envelope)));
            let buffers = bytes.into();
            self.nodes[node].told.push(Completion { user, ended, error, buffers, ends_many: false });
            self.seen.direct += 1;
        }
        self.after(node);
    }

    fn want(&self, node: usize) -> (Space, Want) {
        let space = space(&self.random);
        let source = below(&self.random, self.nodes.len());
        let source = (!chance(&self.random, 3)).then(|| self.nodes[node].peers[source]);
        let ignore = if chance(&self.random, 3) { [1, 3 << 40, u64::MAX][below(&self.random, 3)] } else { 0 };
        (space, Want { source, tag: if space == Space::Plain { 0 } else { tag(&self.random) }, ignore })
    }

    fn cancel_any(&mut self, node: usize) {
        let own = self.receives.iter().enumerate().filter(|(_, receive)| receive.of == node);
        let posted: Vec<usize> =
            own.filter(|(_, receive)| receive.posted.is_some()).map(|(at, _)| at).collect();
        if !posted.is_empty() {
            self.cancel(node, posted[below(&self.random, posted.len())]);
        }
    }

    fn cancel(&mut self, node: usize, number: usize) {
        let Node { endpoint, told, naive, .. } = &mut self.nodes[node];
        let Some(posted) = self.receives[number].posted else { return };
        // Whoever has got a message, or was cancelled before, cannot be cancelled.
        let waits = naive.cancel(number);
        assert_eq!(endpoint.cancel(posted, told), waits);
        self.receives[number].is_cancelled |= waits;
        self.seen.cancelled += usize::from(waits);
        self.after(node);
    }

    fn probe(&mut self, node: usize) {
        let (space, want) = self.want(node);
        let Node { endpoint, naive, .. } = &mut self.nodes[node];
        assert_eq!(endpoint.probe(space, &want), naive.probe(space, &want));
    }

    fn claim(&mut self, node: usize) {
        let (space, want) = self.want(node);
        let Node { endpoint, naive, claims, .. } = &mut self.nodes[node];
        let (claimed, message) = (endpoint.claim(space, &want), naive.take(space, &want));
        assert_eq!(claimed.is_some(), message.is_some());
        if let (Some(claimed), Some(message)) = (claimed, message) {
            assert_eq!(claimed.envelope(), self.messages[message].envelope);
            claims.push((claimed, message));
            self.seen.claimed += 1;
        }
    }

    fn end_claim(&mut self, node: usize) {
        let Some((claimed, message)) = self.nodes[node].claims.pop() else { return };
        if chance(&self.random, 3) {
            self.messages[message].is_matched = true;
            let Node { endpoint, told, .. } = &mut self.nodes[node];
            endpoint.throw_away(claimed, told);
        } else {
            let (number, room) = (self.receives.len(), 8 * EAGER_MAX_BYTES);
            self.receives.push(Receive {
                of: node,
                room,
                posted: None,
                message: None,
                is_cancelled: false,
                has_ended: false,
            });
            self.pair(number, message);
            let Node { endpoint, told, .. } = &mut self.nodes[node];
            endpoint.receive_claimed(claimed, RECEIVE + number as u64, vec![0; room].into(), told);
        }
        self.after(node);
    }

    fn progress(&mut self, node: usize) {
        let Node { endpoint, told, .. } = &mut self.nodes[node];
        endpoint.progress(told);
        self.after(node);
    }

    /// What rings and end points have told since.
    fn after(&mut self, node: usize) {
        self.take_from_rings();
        for completion in std::mem::take(&mut self.nodes[node].told) {
            match completion.ended {
                Ended::Send => self.check_send(completion),
                Ended::Receive(envelope) => self.check_receive(completion, envelope),
            }
        }
    }

    fn take_from_rings(&mut self) {
        for (of, from) in self.net.taken() {
            let at = |name| self.nodes.iter().position(|node| node.endpoint.name() == name).unwrap();
            let (of, from) = (at(of), at(from));
            let number = self.nodes[of].under_way[from].pop_front().expect("a message that nobody sent");
            self.arrive(of, number);
        }
    }

    fn check_send(&mut self, completion: Completion) {
        let message = &mut self.messages[(completion.user - SEND) as usize];
        assert_eq!(completion.error, None);
        assert!(!std::mem::replace(&mut message.has_ended, true), "an end that was told before");
        assert!(message.is_matched || message.mode != Mode::Synchronous, "no receive has begun");
        assert!(completion.buffers.into_owned().unwrap() == message.bytes);
    }

    fn check_receive(&mut self, completion: Completion, envelope: Option<Envelope>) {
        let receive = &mut self.receives[(completion.user - RECEIVE) as usize];
        assert!(!std::mem::replace(&mut receive.has_ended, true), "an end that was told before");
        if receive.is_cancelled {
            assert_eq!((completion.error, envelope), (Some(Error::Cancelled), None));
            return;
        }
        let message = &self.messages[receive.message.expect("a receive without a message has ended")];
        assert_eq!(envelope, Some(message.envelope));
        let (message_bytes, room_bytes) = (message.bytes.len(), receive.room);
        let truncated = Error::Truncated { message_bytes, room_bytes };
        assert_eq!(completion.error, (message_bytes > room_bytes).then_some(truncated));
        self.seen.truncated += usize::from(message_bytes > room_bytes);
        let got = completion.buffers.into_owned().unwrap();
        let len = message_bytes.min(room_bytes);
        assert!(got[..len] == message.bytes[..len] && got[len..].iter().all(|byte| *byte == 0));
    }

    /// Receives all that is left.
    fn finish(&mut self) {
        let mut idle = 0;
        while self.messages.iter().any(|message| !message.is_matched || !message.has_ended)
            || self.receives.iter().any(|receive| receive.message.is_some() && !receive.has_ended)
        {
            let before = self.news();
            for node in 0..self.nodes.len() {
                self.progress(node);
                self.end_claim(node);
                for space in [Space::Tagged, Space::Plain] {
                    if self.nodes[node].endpoint.probe(space, &Want::anything()).is_some() {
                        self.receive(node, Some((space, Want::anything())));
                    }
                }
            }
            idle = if self.news() == before { idle + 1 } else { 0 };
            assert!(idle < HANGS_AFTER, "nothing goes on any more");
        }
        for node in 0..self.nodes.len() {
            for number in self.nodes[node].naive.waiting_receives() {
                self.cancel(node, number);
            }
        }
        assert!(self.receives.iter().all(|receive| receive.has_ended), "a receive that did not end");
    }

    fn news(&self) -> (usize, usize) {
        let ended = self.messages.iter().filter(|message| message.has_ended).count();
        let received = self.receives.iter().filter(|receive| receive.has_ended).count();
        (ended + self.messages.iter().filter(|message| message.is_matched).count(), received)
    }
}

fn below(random: &Random, limit: usize) -> usize {
    (random.borrow_mut().next_u64() % limit as u64) as usize
}

fn space(random: &Random) -> Space {
    if chance(random, 4) { Space::Plain } else { Space::Tagged }
}

/// Few, so that much matches; with bits in both halves.
fn tag(random: &Random) -> u64 {
    [0, 1, 2, 1 << 40, 3 << 40][below(random, 5)]
}

/// Around every threshold: words, a line with and without data, what is kept in place, eager, a part.
fn length(random: &Random) -> usize {
    const AROUND: [usize; 9] =
        [1, 8, 32, 40, 48, 56, EAGER_MAX_BYTES, 2 * EAGER_MAX_BYTES, 7 * EAGER_MAX_BYTES];
    AROUND[below(random, AROUND.len())] + below(random, 3) - 1
}

fn bytes_of(number: usize, len: usize) -> Vec<u8> {
    let mut random = SplitMix64::new(number as u64 ^ 0x5eed);
    (0..len).map(|_| random.next_u64() as u8 | 1).collect()
}
