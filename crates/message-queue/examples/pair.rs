//! Measures messages between two pinned processes, beside what the machine allows: one cache line there and
//! back, and the bare ring.
//!
//! usage: `pair [CPU CPU]` (default 0 1). Each value is the median of short blocks, which take turns with the
//! blocks of its reference.
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::process::Command;
use std::time::Duration;

use message_queue::{MessageQueue, Name, PeerId, Request, Settings, Want};
use rustix::thread::{CpuSet, sched_setaffinity};
use shm::clock::{Clock, now_ticks};
use shm::layout::CacheLine;
use shm::sync::{AtomicU64, Ordering};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const BLOCKS: usize = 30;
const TAG: u64 = 0x11;
const ACK: u64 = 0x22;
const COMMAND: u64 = 0x33;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().collect();
    if let [_, word, name, cpu] = &args[..]
        && word == "--other"
    {
        return other(name, cpu.parse()?);
    }
    let cpus = match &args[..] {
        [_, first, second] => [first.parse()?, second.parse()?],
        _ => [0, 1],
    };
    let mut queue = MessageQueue::new(settings())?;
    let name: String = queue.name().bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let mut child =
        Command::new(std::env::current_exe()?).args(["--other", &name, &cpus[1].to_string()]).spawn()?;
    pin(cpus[0])?;
    let result = measure(&mut queue, cpus);
    if result.is_err() {
        child.kill()?;
    }
    child.wait()?;
    result
}

fn settings() -> Settings {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let default = Settings::default();
    Settings {
        ring_bytes: number("RING_BYTES").unwrap_or(default.ring_bytes),
        eager_max_bytes: number("EAGER_MAX_BYTES").unwrap_or(default.eager_max_bytes),
        reads_memory: number("READS_MEMORY").unwrap_or(1) != 0,
        ..default
    }
}

fn pin(cpu: usize) -> Outcome<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// One thing that the two do together.
#[derive(Clone, Copy)]
struct Job {
    what: What,
    size: usize,
    /// Messages in a window.
    window: usize,
    times: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum What {
    Echo,
    Stream,
    Tags,
    Stop,
}

impl Job {
    fn bytes(self) -> Vec<u8> {
        [self.what as usize, self.size, self.window, self.times]
            .iter()
            .flat_map(|word| (*word as u64).to_ne_bytes())
            .collect()
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at * 8..)?.first_chunk()?) as usize);
        let what = [What::Echo, What::Stream, What::Tags, What::Stop];
        Some(Self { what: *what.get(word(0)?)?, size: word(1)?, window: word(2)?, times: word(3)? })
    }
}

/// The other process.
fn other(name: &str, cpu: usize) -> Outcome<()> {
    pin(cpu)?;
    let mut bytes = [0; message_queue::name::NAME_BYTES];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(name.get(at * 2..at * 2 + 2).ok_or("name")?, 16)?;
    }
    let mut queue = MessageQueue::new(settings())?;
    let peer = queue.peer(Name::of_bytes(&bytes).ok_or("name")?);
    let hello = queue.send_bytes(peer, COMMAND, b"hello")?;
    queue.wait(hello, None)?;
    loop {
        let command = queue.receive(Want::exactly(peer, COMMAND), vec![0; 32]);
        let status = queue.wait(command, None)?;
        if let Some(error) = status.error {
            return Err(error.into());
        }
        let job = Job::read(&status.buffers.into_owned().unwrap_or_default()).ok_or("command")?;
        match job.what {
            What::Stop => return Ok(()),
            What::Echo => echo(&mut queue, peer, job)?,
            What::Stream | What::Tags => sink(&mut queue, peer, job)?,
        }
    }
}

fn echo(queue: &mut MessageQueue, peer: PeerId, job: Job) -> Outcome<()> {
    let mut bytes = vec![0; job.size];
    for _ in 0..job.times {
        let receive = queue.receive(Want::exactly(peer, TAG), bytes);
        bytes = queue.wait(receive, None)?.buffers.into_owned().unwrap_or_default();
        bytes = send(queue, peer, bytes)?;
    }
    Ok(())
}

fn send(queue: &mut MessageQueue, peer: PeerId, bytes: Vec<u8>) -> Outcome<Vec<u8>> {
    if bytes.len() <= 1024 {
        let request = queue.send_bytes(peer, TAG, &bytes)?;
        queue.wait(request, None)?;
        return Ok(bytes);
    }
    let request = queue.send(peer, TAG, bytes)?;
    Ok(queue.wait(request, None)?.buffers.into_owned().unwrap_or_default())
}

/// Receives windows of messages and says each time that it has them.
fn sink(queue: &mut MessageQueue, peer: PeerId, job: Job) -> Outcome<()> {
    let mut spare: Vec<Vec<u8>> = (0..job.window).map(|_| vec![0; job.size]).collect();
    let mut requests: Vec<Request> = Vec::with_capacity(job.window);
    for _ in 0..job.times {
        for (tag, bytes) in (0..job.window).zip(spare.drain(..)) {
            let tag = if job.what == What::Tags { tag as u64 } else { 0 };
            requests.push(queue.receive(Want::exactly(peer, TAG + (tag << 16)), bytes));
        }
        let ready = queue.send_bytes(peer, ACK, b"posted")?;
        queue.wait(ready, None)?;
        for request in requests.drain(..) {
            let status = queue.wait(request, None)?;
            if let Some(error) = status.error {
                return Err(error.into());
            }
            spare.push(status.buffers.into_owned().unwrap_or_default());
        }
    }
    let done = queue.send_bytes(peer, ACK, b"done")?;
    queue.wait(done, None)?;
    Ok(())
}

fn command(queue: &mut MessageQueue, peer: PeerId, job: Job) -> Outcome<()> {
    let request = queue.send_bytes(peer, COMMAND, &job.bytes())?;
    queue.wait(request, None)?;
    Ok(())
}

/// The times between the same place of each turn. Their median is not moved by the turns in which somebody
/// else had the processor.
struct Laps(Vec<u64>);

impl Laps {
    fn begin(times: usize) -> Self {
        let mut laps = Vec::with_capacity(times + 1);
        laps.push(now_ticks());
        Self(laps)
    }

    #[inline]
    fn lap(&mut self) {
        self.0.push(now_ticks());
    }

    fn ns(&self) -> f64 {
        let clock = Clock::global();
        let mut all: Vec<f64> = self.0.windows(2).map(|two| clock.ns(two[1] - two[0])).collect();
        median(&mut all)
    }

    fn half_ns(&self) -> f64 {
        self.ns() / 2.0
    }
}

/// Nanoseconds of half a round trip.
fn half_rtt_ns(queue: &mut MessageQueue, peer: PeerId, size: usize, times: usize) -> Outcome<f64> {
    command(queue, peer, Job { what: What::Echo, size, window: 1, times })?;
    let mut bytes = vec![0; size];
    let mut laps = Laps::begin(times);
    for _ in 0..times {
        bytes = send(queue, peer, bytes)?;
        let receive = queue.receive(Want::exactly(peer, TAG), bytes);
        bytes = queue.wait(receive, None)?.buffers.into_owned().unwrap_or_default();
        laps.lap();
    }
    Ok(laps.half_ns())
}

/// Messages a second in windows.
fn rate(queue: &mut MessageQueue, peer: PeerId, job: Job) -> Outcome<f64> {
    command(queue, peer, job)?;
    let mut spare: Vec<Vec<u8>> = (0..job.window).map(|_| vec![1; job.size]).collect();
    let mut requests: Vec<Request> = Vec::with_capacity(job.window);
    let ack = |queue: &mut MessageQueue| -> Outcome<()> {
        let request = queue.receive(Want::exactly(peer, ACK), vec![0; 8]);
        queue.wait(request, None)?;
        Ok(())
    };
    ack(queue)?;
    let mut laps = Laps::begin(job.times);
    for turn in 0..job.times {
        if turn > 0 {
            ack(queue)?;
            laps.lap();
        }
        for (tag, bytes) in (0..job.window).zip(spare.iter_mut()) {
            let tag = if job.what == What::Tags { tag as u64 } else { 0 };
            let to = TAG + (tag << 16);
            requests.push(if job.size <= 1024 {
                queue.send_bytes(peer, to, bytes)?
            } else {
                queue.send(peer, to, std::mem::take(bytes))?
            });
        }
        for (request, place) in requests.drain(..).zip(spare.iter_mut()) {
            let status = queue.wait(request, None)?;
            if job.size > 1024 {
                *place = status.buffers.into_owned().unwrap_or_default();
            }
        }
    }
    ack(queue)?;
    laps.lap();
    Ok(job.window as f64 / laps.ns() * 1e9)
}

/// Nanoseconds of one line from one processor to the other.
fn line_ns(cpus: [usize; 2], times: u64) -> Outcome<f64> {
    let lines = [CacheLine(AtomicU64::new(0)), CacheLine(AtomicU64::new(0))];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = pin(cpus[1]);
            for turn in 1..=times {
                while lines[0].load(Ordering::Acquire) != turn {}
                // Release: pairs with the Acquire of the other loop.
                lines[1].store(turn, Ordering::Release);
            }
        });
        let mut laps = Laps::begin(times as usize);
        for turn in 1..=times {
            // Release: pairs with the Acquire of the other loop.
            lines[0].store(turn, Ordering::Release);
            while lines[1].load(Ordering::Acquire) != turn {}
            laps.lap();
        }
        Ok(laps.half_ns())
    })
}

/// Nanoseconds of half a round trip of 8 bytes through two bare rings.
fn ring_ns(cpus: [usize; 2], times: u64) -> Outcome<f64> {
    let (mut there, mut from_there) = shm::ring::record::pair(32 << 10)?;
    let (mut back, mut from_back) = shm::ring::record::pair(32 << 10)?;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _ = pin(cpus[1]);
            let mut bytes = [0; 8];
            for _ in 0..times {
                while let Ok(None) = from_there.pop_into(&mut bytes) {}
                let _ = back.push(&bytes);
            }
        });
        let (mut laps, mut bytes) = (Laps::begin(times as usize), [0; 8]);
        for _ in 0..times {
            let _ = there.push(&bytes);
            while let Ok(None) = from_back.pop_into(&mut bytes) {}
            laps.lap();
        }
        Ok(laps.half_ns())
    })
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn measure(queue: &mut MessageQueue, cpus: [usize; 2]) -> Outcome<()> {
    let hello =
        queue.wait_probe(&Want { source: None, tag: COMMAND, ignore: 0 }, Some(Duration::from_secs(20)))?;
    let peer = hello.source;
    let request = queue.receive(Want::exactly(peer, COMMAND), vec![0; 8]);
    queue.wait(request, None)?;
    let wanted = std::env::var("ONLY").unwrap_or_default();
    let is_wanted = |id: &str| wanted.is_empty() || wanted.split(',').any(|part| id.contains(part));
    for (size, times) in [(8, 4_000), (1 << 10, 2_000), (8 << 10, 1_000), (16 << 10, 500), (64 << 10, 200)] {
        let id = format!("half_rtt.{size}B");
        if !is_wanted(&id) {
            continue;
        }
        let mut values = [const { Vec::new() }; 3];
        for _ in 0..BLOCKS {
            values[0].push(half_rtt_ns(queue, peer, size, times)?);
            values[1].push(line_ns(cpus, 4_000)?);
            values[2].push(ring_ns(cpus, 4_000)?);
        }
        let mut ratios: Vec<f64> = values[0].iter().zip(&values[2]).map(|(ours, ring)| ours / ring).collect();
        let [ours, line, ring] = values.map(|mut values| median(&mut values));
        let ratio = median(&mut ratios);
        println!(
            "{id:24} {ours:10.1} ns   line {line:6.1} ns   ring {ring:6.1} ns   ratio to the ring {ratio:5.2}"
        );
    }
    let jobs = [
        ("rate.8B", Job { what: What::Stream, size: 8, window: 64, times: 300 }),
        ("rate.8B.1000_tags", Job { what: What::Tags, size: 8, window: 1000, times: 20 }),
        ("bw.8KiB", Job { what: What::Stream, size: 8 << 10, window: 32, times: 20 }),
        ("bw.64KiB", Job { what: What::Stream, size: 64 << 10, window: 16, times: 10 }),
        ("bw.1MiB", Job { what: What::Stream, size: 1 << 20, window: 8, times: 4 }),
        ("bw.4MiB", Job { what: What::Stream, size: 4 << 20, window: 4, times: 3 }),
    ];
    for (id, mut job) in jobs {
        if let Some(window) = std::env::var("WINDOW").ok().and_then(|text| text.parse().ok()) {
            job.window = window;
        }
        if !is_wanted(id) {
            continue;
        }
        let mut values = Vec::new();
        for _ in 0..BLOCKS {
            values.push(rate(queue, peer, job)?);
        }
        let rate = median(&mut values);
        let bytes = rate * job.size as f64 / 1e9;
        println!("{id:24} {:10.3} million/s   {bytes:8.2} GB/s", rate / 1e6);
    }
    println!("{:?}", queue.counters());
    command(queue, peer, Job { what: What::Stop, size: 0, window: 0, times: 0 })
}
