//! Random programs of collective operations and messages between two members, against a naive computation:
//! nine queues in nine threads, of which each program takes some, in a random rank order.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test")]

mod member;
mod program;

use std::collections::HashMap;
use std::sync::Mutex;

use message_queue::{MessageQueue, Settings};

use member::Member;
use program::{Program, QUEUES};

const PROGRAMS: u64 = 1_500;

/// What members must have the same bits of, by program and call.
type Same = Mutex<HashMap<(u64, usize), Vec<u8>>>;

#[test]
fn random_programs_give_what_a_naive_computation_gives() {
    // Few bytes, so that messages go each way.
    let settings = Settings { eager_max_bytes: 256, ..Settings::default() };
    let queues: Vec<_> = (0..QUEUES).map(|_| MessageQueue::new(settings).unwrap()).collect();
    let names: Vec<_> = queues.iter().map(MessageQueue::name).collect();
    let same = Same::default();
    let last: Vec<_> = std::thread::scope(|scope| {
        let start = |(own, queue): (usize, MessageQueue)| {
            let (names, same) = (&names, &same);
            scope.spawn(move || {
                let mut queue = queue;
                let mut calls = 0;
                for number in 0..PROGRAMS {
                    let program = Program::new(number);
                    if let Some(rank) = program.members.iter().position(|member| *member == own) {
                        calls += program.calls.len();
                        Member { queue: &mut queue, names, same, program: &program, rank }.run();
                    }
                }
                assert!(calls > 500, "the programs leave this queue out");
                queue
            })
        };
        let threads: Vec<_> = queues.into_iter().enumerate().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for mut queue in last {
        queue.progress();
        let counters = queue.counters();
        assert!(counters.eager > 0 && counters.offered > 0 && counters.unexpected > 0, "{counters:?}");
        assert_eq!((counters.kept_messages, counters.kept_bytes), (0, 0), "a message that nobody received");
    }
}
