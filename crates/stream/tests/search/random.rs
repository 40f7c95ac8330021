//! Large cases at random: many bytes, many cuts, every kind of call, seeds that a failure names.

use crate::cases::{case, small};
use crate::choices::{Choice, choices};
use crate::steps::apply;
use crate::world::{Case, Op, World};

/// A small generator of its own, so that a seed means the same for ever (xorshift64*).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let mixed = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D);
        ((mixed >> 33) % limit as u64) as usize
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }
}

fn writes(dice: &mut Dice, count: usize) -> Vec<Op> {
    let mut ops = Vec::new();
    for _ in 0..count {
        let most = if dice.one_in(4) { 200 } else { 8 };
        let size = 1 + dice.below(most) as u32;
        ops.push(match dice.below(8) {
            0..5 => Op::Write(size),
            5 if dice.one_in(2) => Op::BeforeSleep,
            5 | 6 => Op::TryWrite(size),
            _ => Op::WriteHungUp(size),
        });
    }
    if dice.one_in(2) {
        ops.push(Op::ShutDown);
    }
    ops.push(Op::Close);
    ops
}

fn reads(dice: &mut Dice, count: usize, withdraws: bool) -> Vec<Op> {
    let mut ops = Vec::new();
    for _ in 0..count {
        match dice.below(12) {
            0 if withdraws => ops.extend([Op::Withdraw, Op::RawRead(1 + dice.below(3) as u32), Op::Renew]),
            0..3 => ops.push(Op::TryRead),
            3 => ops.push(Op::Look),
            4 if dice.one_in(2) => ops.push(Op::Poll),
            5 if dice.one_in(8) => ops.push(Op::Seen),
            4 => ops.push(Op::Peek(1 + dice.below(9) as u32)),
            _ => ops.push(Op::Read(1 + dice.below(40) as u32)),
        }
    }
    ops.push(Op::ReadToEnd(1 + dice.below(64) as u32));
    ops
}

fn random_case(seed: u64) -> Case {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let (writers, readers) = (1 + dice.below(2), 1 + dice.below(2));
    // A renewed consent belongs to the one who withdrew it, so only a sole reader does.
    let withdraws = readers == 1 && dice.one_in(2);
    Case {
        ring: 1 + dice.below(64) as u32,
        pipe: 1 + dice.below(64) as u32,
        writers: (0..writers).map(|_| writes(&mut dice, 60)).collect(),
        readers: (0..readers).map(|_| reads(&mut dice, 40, withdraws)).collect(),
        kill: if dice.one_in(3) { (0..writers + readers).collect() } else { vec![] },
        reset_on_death: dice.one_in(2),
        overdue: dice.one_in(2),
        timers: true,
        spurious: dice.one_in(4),
        stops: !withdraws && dice.one_in(4),
        may_abort: withdraws,
        buffered: dice.one_in(2),
        hurries: dice.one_in(2),
        resets: dice.one_in(4),
        closes: dice.one_in(4),
        is_asked: dice.one_in(2),
        ..case("random", &[], &[])
    }
}

/// What a run has to have seen somewhere for the runs together to mean something.
#[derive(Default, Debug)]
struct Seen {
    bytes: u64,
    through_ring: u64,
    openings: u64,
    hand_backs: u64,
    kills: u64,
    finished: u64,
}

#[test]
fn no_byte_is_lost_doubled_or_moved() {
    let mut seen = Seen::default();
    for seed in 1..=u64::from(small(600, 100_000)) {
        run(seed, &mut seen);
    }
    println!("{seen:?}");
    assert!(seen.through_ring > 10_000 && seen.openings > 1_000 && seen.hand_backs > 1_000, "{seen:?}");
    assert!(seen.kills > 50 && seen.bytes > seen.through_ring, "{seen:?}");
}

fn run(seed: u64, seen: &mut Seen) {
    use stream::{Word, path};
    let case = random_case(seed);
    let mut dice = Dice(seed | 1 << 40);
    let mut world = World::new(&case);
    let mut possible = Vec::new();
    for _ in 0..2_000_000 {
        if world.is_done(&case) {
            seen.finished += 1;
            break;
        }
        choices(&case, &world, &mut possible);
        assert!(!possible.is_empty(), "seed {seed}: nothing can happen any more");
        let choice = pick(&mut dice, &possible);
        let before = (world.words[Word::Path as usize], world.kernel.written);
        if let Err(what) = apply(&case, &mut world, choice) {
            panic!("seed {seed}: {choice:?}: {what}");
        }
        let now = world.words[Word::Path as usize];
        seen.openings += u64::from(before.0 != path::RING && now == path::RING);
        seen.hand_backs += u64::from(!path::is_back(before.0) && path::is_back(now));
        seen.kills += u64::from(matches!(choice, Choice::Kill(_)));
    }
    assert!(world.is_done(&case), "seed {seed}: does not come to an end");
    seen.bytes += u64::from(world.delivered);
    seen.through_ring += world.words[Word::Head as usize];
}

/// Seldom what is seldom: deaths, timers, calls for no reason.
fn pick(dice: &mut Dice, possible: &[Choice]) -> Choice {
    loop {
        let choice = possible[dice.below(possible.len())];
        let is_seldom = match choice {
            Choice::Kill(_) => !dice.one_in(4_000),
            Choice::Hurry(_) | Choice::Timer(_) | Choice::Overdue(_) | Choice::Visit(_) | Choice::Wake(_) => {
                !dice.one_in(20)
            }
            _ => false,
        };
        let is_all_there_is = possible.iter().all(|choice| matches!(choice, Choice::Kill(_)));
        if !is_seldom || is_all_there_is {
            return choice;
        }
    }
}
