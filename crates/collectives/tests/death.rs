//! A member that ends at a random moment: a process that is killed, or a queue that is dropped. All others
//! get an error that says so, and the group is unusable.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use collectives::{CollectiveSettings, Error, Group, operation};
use message_queue::{MessageQueue, Name, Settings};
use seeded_random::SplitMix64;

/// Beyond all doubt, and a failure if it is reached.
const LIMIT: Option<Duration> = Some(Duration::from_secs(60));
const MEMBERS: usize = 5;

fn settings(round: u64) -> CollectiveSettings {
    if round.is_multiple_of(2) { CollectiveSettings::SHORT } else { CollectiveSettings::LONG }
}

/// Call number `call` of all members.
fn call(group: &mut Group, queue: &mut MessageQueue, call: usize) -> Result<(), Error> {
    let root = call % MEMBERS;
    let len = [3, 700, 20_000][call % 3];
    match call % 6 {
        0 => group.barrier(queue, LIMIT),
        1 => group.broadcast(queue, root, &mut vec![1; len], LIMIT),
        2 => group.reduce(queue, root, &mut vec![1_u32; len], operation::sum, LIMIT),
        3 => group.allreduce(queue, &mut vec![1_u64; len], operation::max, LIMIT),
        4 => group.allgather(queue, &vec![1; len], &mut vec![0; len * MEMBERS], LIMIT),
        _ => group.alltoall(queue, &vec![1; len * MEMBERS], &mut vec![0; len * MEMBERS], LIMIT),
    }
}

/// Calls until one fails; that is the end of another member, and of the group.
fn outlive(queue: &mut MessageQueue, names: &[Name], round: u64) {
    let mut group = Group::new(queue, names, 1, settings(round)).unwrap();
    let error = (0..).find_map(|number| call(&mut group, queue, number).err()).unwrap();
    assert!(matches!(error, Error::Gone { .. } | Error::GivenUp { .. }), "{error}");
    assert_eq!(call(&mut group, queue, 0), Err(Error::Broken));
}

fn queues(count: usize) -> (Vec<MessageQueue>, Vec<Name>) {
    let queues: Vec<_> = (0..count).map(|_| MessageQueue::new(Settings::default()).unwrap()).collect();
    let names = queues.iter().map(MessageQueue::name).collect();
    (queues, names)
}

#[test]
fn a_queue_that_is_dropped_between_calls_ends_the_calls_of_all_others() {
    let mut random = SplitMix64::new(3);
    for round in 0..16 {
        let (queues, names) = queues(MEMBERS);
        let (leaves, calls) = (random.below(MEMBERS), random.below(12));
        std::thread::scope(|scope| {
            for (rank, mut queue) in queues.into_iter().enumerate() {
                let names = &names;
                scope.spawn(move || {
                    if rank != leaves {
                        return outlive(&mut queue, names, round);
                    }
                    // It may drop the queue before it has exchanged anything.
                    let mut group = Group::new(&mut queue, names, 1, settings(round)).unwrap();
                    (0..calls).for_each(|number| call(&mut group, &mut queue, number).unwrap());
                });
            }
        });
    }
}

/// The process that is killed: it writes its name and reads those of all members.
#[test]
#[ignore = "started by the test beside it"]
fn child() {
    let mut queue = MessageQueue::new(Settings::default()).unwrap();
    // Behind what the test program writes itself.
    println!("\nname {}", text_of(queue.name()));
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).unwrap();
    let mut words = line.split_whitespace();
    let round = words.next().unwrap().parse().unwrap();
    let names: Vec<Name> = words.map(name_of).collect();
    let mut group = Group::new(&mut queue, &names, 1, settings(round)).unwrap();
    // If it is not killed, it ends with the others.
    let _ = (0..).find_map(|number| call(&mut group, &mut queue, number).err());
}

fn text_of(name: Name) -> String {
    name.bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn name_of(text: &str) -> Name {
    let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..text.len() / 2).map(byte).collect();
    Name::of_bytes(bytes.first_chunk().unwrap()).unwrap()
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start() -> (Killed, Name) {
    let args = ["--exact", "child", "--ignored", "--nocapture"];
    let mut command = Command::new(std::env::current_exe().unwrap());
    let mut child = Killed(command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let name = lines.find_map(|line| line.unwrap().strip_prefix("name ").map(name_of)).unwrap();
    (child, name)
}

#[test]
fn a_process_that_is_killed_ends_the_calls_of_all_others() {
    let mut random = SplitMix64::new(4);
    for round in 0..10 {
        let (mut child, name) = start();
        let (queues, mut names) = queues(MEMBERS - 1);
        names.insert(random.below(MEMBERS), name);
        let line: Vec<String> = names.iter().map(|name| text_of(*name)).collect();
        writeln!(child.0.stdin.as_mut().unwrap(), "{round} {}", line.join(" ")).unwrap();
        let lives = Duration::from_micros(random.below(60_000) as u64);
        std::thread::scope(|scope| {
            for mut queue in queues {
                let names = &names;
                scope.spawn(move || outlive(&mut queue, names, round));
            }
            let until = Instant::now() + lives;
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
            child.0.kill().unwrap();
        });
    }
}
