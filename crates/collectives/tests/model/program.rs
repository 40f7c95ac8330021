//! A random program, the same for all members.

use collectives::{CollectiveSettings, Exchange, Switch};
use seeded_random::{SplitMix64, mix};

/// Queues, and the most members of a program.
pub(crate) const QUEUES: usize = 9;
/// Where the programs with a switch change the algorithm.
const SWITCH_BYTES: usize = 96;
const CALLS_MAX: usize = 3;

pub(crate) struct Program {
    pub(crate) number: u64,
    /// Queues in rank order.
    pub(crate) members: Vec<usize>,
    pub(crate) settings: CollectiveSettings,
    pub(crate) calls: Vec<Spec>,
}

/// One call, and the message between two members around it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(crate) seed: u64,
    pub(crate) kind: usize,
    pub(crate) root: usize,
    /// Bytes or values, of a block if there are blocks.
    pub(crate) len: usize,
    pub(crate) element: usize,
    pub(crate) operation: usize,
    /// Each member sends to the rank so far after it.
    pub(crate) message: Option<usize>,
}

impl Program {
    pub(crate) fn new(number: u64) -> Self {
        let mut random = SplitMix64::new(mix(number));
        let mut members: Vec<usize> = (0..QUEUES).collect();
        random.shuffle(&mut members);
        // Fewer are quicker, and all sizes come often.
        let most = 1 + random.below(QUEUES);
        members.truncate(1 + random.below(most));
        let settings = match random.below(3) {
            0 => CollectiveSettings::SHORT,
            1 => CollectiveSettings::LONG,
            _ => mixed(random.below(4), random.below(6)),
        };
        let count = 1 + random.below(CALLS_MAX);
        let calls = (0..count).map(|_| Spec::new(&mut random, members.len())).collect();
        Self { number, members, settings, calls }
    }
}

fn mixed(members: usize, exchange_max: usize) -> CollectiveSettings {
    let switch = Switch { bytes: SWITCH_BYTES, members };
    let exchange = Exchange { bytes_max: SWITCH_BYTES, members_max: exchange_max };
    CollectiveSettings {
        barrier_tree_members: 4,
        barrier_exchange: exchange,
        broadcast: switch,
        reduce: switch,
        allreduce: switch,
        allreduce_exchange: exchange,
        allgather: switch,
        alltoall: switch,
    }
}

impl Spec {
    fn new(random: &mut SplitMix64, members: usize) -> Self {
        Self {
            seed: random.next_u64(),
            kind: random.below(6),
            root: random.below(members),
            len: length(random),
            element: random.below(8),
            operation: random.below(7),
            message: random.coin().then(|| random.below(members)),
        }
    }

    /// Random words of one member.
    pub(crate) fn words(&self, rank: usize, len: usize) -> impl Iterator<Item = u64> + use<> {
        let mut random = SplitMix64::new(mix(self.seed ^ rank as u64));
        (0..len).map(move |_| random.next_u64())
    }

    pub(crate) fn bytes(&self, rank: usize, len: usize) -> Vec<u8> {
        self.words(rank, len).map(|word| word as u8).collect()
    }
}

/// None, few, around the switch in values of each size, around an eager message, and some more.
fn length(random: &mut SplitMix64) -> usize {
    let around = [0, 1, 4, SWITCH_BYTES / 8, SWITCH_BYTES / 4, SWITCH_BYTES, 256];
    if random.below(24) == 0 {
        return 1_000 + random.below(3_000);
    }
    let around = around[random.below(around.len())];
    (around + random.below(5)).saturating_sub(2)
}
