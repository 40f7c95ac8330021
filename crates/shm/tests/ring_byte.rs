//! The byte ring against a model and under stress.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests, with helpers outside test functions")]

mod ring_support;

use proptest::prelude::*;
use ring_support::{Random, give_way, message, must_end};
use shm::ring::byte::{Reader, Writer, pair};
use std::collections::VecDeque;

#[derive(Clone, Debug)]
enum Step {
    Write(usize),
    WriteVectored(Vec<usize>),
    Read(usize),
    ReadVectored(Vec<usize>),
    GiveBack,
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 0..=16usize, 2 => 17..=64usize, 2 => 65..=3000usize]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => length().prop_map(Step::Write),
        1 => prop::collection::vec(length(), 0..5).prop_map(Step::WriteVectored),
        4 => length().prop_map(Step::Read),
        1 => prop::collection::vec(length(), 0..5).prop_map(Step::ReadVectored),
        1 => Just(Step::GiveBack),
    ]
}

struct Machine {
    writer: Writer,
    reader: Reader,
    model: VecDeque<u8>,
    number: u64,
}

impl Machine {
    fn bytes(&mut self, len: usize) -> Vec<u8> {
        self.number += 1;
        message(self.number, len)
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Write(len) => {
                let bytes = self.bytes(len);
                let room = self.writer.has_room();
                let count = self.writer.write(&bytes).unwrap();
                assert!(count <= len && (count > 0 || len == 0 || !room), "{count} of {len}, {room}");
                self.model.extend(&bytes[..count]);
                if count == 0 && len > 0 {
                    self.emptied_ring_takes_something();
                }
            }
            Step::WriteVectored(lens) => {
                let buffers: Vec<_> = lens.iter().map(|&len| self.bytes(len)).collect();
                let slices: Vec<_> = buffers.iter().map(Vec::as_slice).collect();
                let count = self.writer.write_vectored(&slices).unwrap();
                self.model.extend(&buffers.concat()[..count]);
            }
            Step::Read(len) => {
                let mut buffer = vec![0; len];
                let count = self.reader.read(&mut buffer).unwrap();
                assert_eq!(count, len.min(self.model.len()));
                assert_eq!(buffer[..count], self.model.drain(..count).collect::<Vec<_>>());
            }
            Step::ReadVectored(lens) => {
                let mut buffers: Vec<_> = lens.iter().map(|&len| vec![0; len]).collect();
                let mut slices: Vec<_> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
                let count = self.reader.read_vectored(&mut slices).unwrap();
                assert_eq!(count, lens.iter().sum::<usize>().min(self.model.len()));
                assert_eq!(buffers.concat()[..count], self.model.drain(..count).collect::<Vec<_>>());
            }
            Step::GiveBack => self.reader.give_back(),
        }
        assert_eq!(self.reader.is_empty(), self.model.is_empty());
        assert_eq!(self.writer.written() - self.reader.bytes_read(), self.model.len() as u64);
    }

    fn emptied_ring_takes_something(&mut self) {
        self.step(Step::Read(self.model.len()));
        self.step(Step::Read(1));
        assert!(self.writer.has_room());
        let bytes = self.bytes(1000);
        let count = self.writer.write(&bytes).unwrap();
        assert!(count > 0);
        self.model.extend(&bytes[..count]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn behaves_as_a_stream(capacity in 1..5000usize, steps in prop::collection::vec(step(), 1..300)) {
        let (writer, reader) = pair(capacity).unwrap();
        let mut machine = Machine { writer, reader, model: VecDeque::new(), number: 0 };
        for step in steps {
            machine.step(step);
        }
        machine.step(Step::Read(machine.model.len() + 1));
    }
}

/// Byte `i` of the stream.
fn byte_at(i: u64) -> u8 {
    (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn stress(capacity: usize, total: u64, largest: usize) {
    let (mut writer, mut reader) = pair(capacity).unwrap();
    let sender = std::thread::spawn(move || {
        let (mut random, mut turns) = (Random::new(3), 0);
        while writer.written() < total {
            let len = (1 + random.below(largest) as u64).min(total - writer.written());
            let bytes: Vec<u8> = (writer.written()..).take(len as usize).map(byte_at).collect();
            let mut done = 0;
            while done < bytes.len() {
                done += writer.write(&bytes[done..]).unwrap();
                give_way(&mut turns);
            }
        }
    });
    let (mut random, mut turns, mut buffer) = (Random::new(4), 0, vec![0; largest]);
    while reader.bytes_read() < total {
        let (at, want) = (reader.bytes_read(), 1 + random.below(largest));
        let count = reader.read(&mut buffer[..want]).unwrap();
        for (i, byte) in (at..).zip(&buffer[..count]) {
            assert_eq!(*byte, byte_at(i), "byte {i}");
        }
        if count == 0 {
            give_way(&mut turns);
        }
    }
    sender.join().unwrap();
    assert_eq!(reader.read(&mut buffer), Ok(0));
}

#[test]
fn two_threads_small_pieces_tiny_ring() {
    must_end(|| stress(512, 1_000_000, 60));
}

#[test]
fn two_threads_all_sizes() {
    must_end(|| stress(16 << 10, 20_000_000, 40_000));
}

#[test]
fn per_connection_structures_stay_small() {
    assert!(size_of::<Writer>() <= 208, "{}", size_of::<Writer>());
    assert!(size_of::<Reader>() <= 272, "{}", size_of::<Reader>());
}
