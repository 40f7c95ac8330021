//! How many small records a second go through the record ring, between two pinned threads, every payload
//! read.
//!
//! `cargo run --release -p shm --example ring_rate [-- BLOCKS [RECORDS_PER_BLOCK [CAPACITY_BYTES [RECORD_BYTES]]]]`
//!
//! Blocks of the two kinds alternate, so that a disturbance meets both: one `push` per record, and batches
//! of 16. Beside them the half round trip of one record through two rings. A block in which either thread had
//! to wait for its processor (others were running there) says nothing and is left out; how many were left is
//! printed.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a measuring program")]

use shm::cpu::pin_current_thread;
use shm::ring::PushError;
use shm::ring::record::{Consumer, Producer, pair};
use std::hint::spin_loop;
use std::sync::Barrier;
use std::time::Instant;

/// A figure, unless its block was disturbed.
type Figure = Option<f64>;

const BATCH: usize = 16;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>().unwrap());
    let mut next = |default| arguments.next().unwrap_or(default);
    let (blocks, records, capacity, len) = (next(101), next(400_000) / BATCH * BATCH, next(1 << 16), next(8));
    let cpus: Vec<usize> = shm::cpu::allowed_cpus().unwrap().iter().collect();
    assert!(cpus.len() >= 2, "two processors are needed");
    let cpus = [cpus[0], cpus[1]];
    println!(
        "processors {cpus:?}, ring of {capacity} bytes, {blocks} blocks of {records} records of {len} bytes"
    );

    let (mut single, mut batch, mut half_rtt) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..blocks {
        single.push(rate(
            cpus,
            records,
            capacity,
            |producer| send_single(producer, records, len),
            take_single,
        ));
        batch.push(rate(cpus, records, capacity, |producer| send_batches(producer, records, len), take_all));
        half_rtt.push(half_round_trip_ns(cpus, 20_000, len));
    }
    print("single   M records/s", &single);
    print("batch16  M records/s", &batch);
    print("half round trip, ns ", &half_rtt);
}

/// Nanoseconds that this thread has waited for a processor while it could have run.
fn waited_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn print(what: &str, figures: &[Figure]) {
    let mut values: Vec<f64> = figures.iter().copied().flatten().collect();
    if values.is_empty() {
        println!("{what}: all {} blocks were disturbed", figures.len());
        return;
    }
    values.sort_by(f64::total_cmp);
    let at = |part: f64| values[((values.len() - 1) as f64 * part) as usize];
    let [min, q1, median, q3, max] = [0.0, 0.25, 0.5, 0.75, 1.0].map(at);
    println!(
        "{what}: median {median:.1}  (min {min:.1}, quartiles {q1:.1} to {q3:.1}, max {max:.1}; {} of {} blocks)",
        values.len(),
        figures.len()
    );
}

/// Millions of records a second that `take` gets while `send` sends.
fn rate(
    cpus: [usize; 2],
    records: usize,
    capacity: usize,
    send: impl Fn(&mut Producer) + Sync,
    take: impl Fn(&mut Consumer, usize) -> u64 + Sync,
) -> Figure {
    let (producer, consumer) = pair(capacity).unwrap();
    let start = Barrier::new(2);
    let (start, send, take) = (&start, &send, &take);
    std::thread::scope(|scope| {
        // Each thread owns its end: side by side on one stack, the two would share a cache line.
        let sender = scope.spawn(move || {
            let mut producer = producer;
            pin_current_thread(cpus[0]).unwrap();
            start.wait();
            let waited = waited_ns();
            send(&mut producer);
            waited_ns() - waited
        });
        let taker = scope.spawn(move || {
            let mut consumer = consumer;
            pin_current_thread(cpus[1]).unwrap();
            start.wait();
            let (waited, began) = (waited_ns(), Instant::now());
            let sum = take(&mut consumer, records);
            let seconds = began.elapsed().as_secs_f64();
            let waited = waited_ns() - waited;
            assert_eq!(sum, (records as u64 - 1) * records as u64 / 2, "a payload was lost or changed");
            (records as f64 / seconds / 1e6, waited, seconds)
        });
        let (rate, waited, seconds) = taker.join().unwrap();
        quiet(rate, waited + sender.join().unwrap(), seconds)
    })
}

/// The figure, if the two threads waited for less than a hundredth of the time.
fn quiet(figure: f64, waited_ns: u64, seconds: f64) -> Figure {
    (waited_ns as f64 * 1e-9 < seconds / 100.0).then_some(figure)
}

fn send_single(producer: &mut Producer, records: usize, len: usize) {
    let mut buffer = vec![0; len];
    for number in 0..records as u64 {
        buffer[..8].copy_from_slice(&number.to_ne_bytes());
        push(producer, &buffer);
    }
}

fn send_batches(producer: &mut Producer, records: usize, len: usize) {
    let mut batch = vec![vec![0; len]; BATCH];
    let mut small = [[0; 8]; BATCH];
    for first in (0..records as u64).step_by(BATCH) {
        if len == 8 {
            small.iter_mut().zip(first..).for_each(|(record, number)| *record = number.to_ne_bytes());
            push_all(producer, &small);
        } else {
            batch
                .iter_mut()
                .zip(first..)
                .for_each(|(r, number)| r[..8].copy_from_slice(&number.to_ne_bytes()));
            push_all(producer, &batch);
        }
    }
}

fn push(producer: &mut Producer, record: &[u8]) {
    while let Err(error) = producer.push(record) {
        assert_eq!(error, PushError::Full);
        spin_loop();
    }
}

fn push_all<R: AsRef<[u8]>>(producer: &mut Producer, records: &[R]) {
    let mut done = 0;
    while done < records.len() {
        match producer.push_batch(&records[done..]) {
            Ok(count) => done += count,
            Err(error) => assert_eq!(error, PushError::Full),
        }
    }
}

fn take_single(consumer: &mut Consumer, records: usize) -> u64 {
    let mut buffer = [0; 4096];
    let mut sum = 0u64;
    for _ in 0..records {
        while consumer.pop_into(&mut buffer).unwrap().is_none() {}
        sum = sum.wrapping_add(u64::from_ne_bytes(buffer[..8].try_into().unwrap()));
    }
    sum
}

fn take_all(consumer: &mut Consumer, records: usize) -> u64 {
    let (mut taken, mut sum) = (0, 0u64);
    while taken < records {
        taken +=
            consumer.drain(usize::MAX, |record| sum = sum.wrapping_add(record.load_u64(0).unwrap())).unwrap();
    }
    sum
}

fn half_round_trip_ns(cpus: [usize; 2], turns: usize, len: usize) -> Figure {
    let (there, arrived) = pair(1 << 16).unwrap();
    let (back, returned) = pair(1 << 16).unwrap();
    std::thread::scope(|scope| {
        let echo = scope.spawn(move || {
            let (mut arrived, mut back) = (arrived, back);
            pin_current_thread(cpus[0]).unwrap();
            let mut buffer = vec![0; len];
            let waited = waited_ns();
            for _ in 0..turns {
                while arrived.pop_into(&mut buffer).unwrap().is_none() {}
                push(&mut back, &buffer);
            }
            waited_ns() - waited
        });
        let pinger = scope.spawn(move || {
            let (mut there, mut returned) = (there, returned);
            let record = vec![1; len];
            pin_current_thread(cpus[1]).unwrap();
            let mut buffer = vec![0; len];
            let (waited, began) = (waited_ns(), Instant::now());
            for _ in 0..turns {
                push(&mut there, &record);
                while returned.pop_into(&mut buffer).unwrap().is_none() {}
            }
            (began.elapsed().as_secs_f64(), waited_ns() - waited)
        });
        let (seconds, waited) = pinger.join().unwrap();
        quiet(seconds * 1e9 / turns as f64 / 2.0, waited + echo.join().unwrap(), seconds)
    })
}
