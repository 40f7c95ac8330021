//! What one member of a program does, and what it must get.

use std::fmt::Debug;
use std::time::Duration;

use collectives::Group;
use collectives::operation::{self, Bits, Element, Number};
use message_queue::{MessageQueue, Name, Request, Want};
use zerocopy::IntoBytes;

use crate::Same;
use crate::program::{Program, Spec};

const LIMIT: Option<Duration> = Some(Duration::from_secs(120));

pub(crate) struct Member<'a> {
    pub(crate) queue: &'a mut MessageQueue,
    pub(crate) names: &'a [Name],
    pub(crate) same: &'a Same,
    pub(crate) program: &'a Program,
    pub(crate) rank: usize,
}

impl Member<'_> {
    pub(crate) fn run(&mut self) {
        let Program { number, members, settings, calls } = self.program;
        let names: Vec<Name> = members.iter().map(|member| self.names[*member]).collect();
        let mut group = Group::new(self.queue, &names, *number as u32, *settings).unwrap();
        assert_eq!((group.rank(), group.members()), (self.rank, members.len()));
        for (at, spec) in calls.iter().enumerate() {
            let tag = number << 8 | at as u64;
            let sent = spec.message.map(|shift| self.send(spec, &names, tag, shift));
            match spec.kind {
                0 => group.barrier(self.queue, LIMIT).unwrap(),
                1 => self.broadcast(&mut group, spec),
                2 => self.gather(&mut group, spec),
                3 => self.exchange(&mut group, spec),
                _ => self.combine(&mut group, spec, at),
            }
            if let Some((request, shift)) = sent.zip(spec.message) {
                self.receive(spec, &names, tag, shift, request);
            }
        }
    }

    fn send(&mut self, spec: &Spec, names: &[Name], tag: u64, shift: usize) -> Request {
        let to = self.queue.peer(names[(self.rank + shift) % names.len()]);
        self.queue.send_bytes(to, tag, &spec.bytes(self.rank, 3 * spec.len)).unwrap()
    }

    fn receive(&mut self, spec: &Spec, names: &[Name], tag: u64, shift: usize, sent: Request) {
        let from = (self.rank + names.len() - shift) % names.len();
        let source = (spec.seed & 1 == 0).then(|| self.queue.peer(names[from]));
        let receive = self.queue.receive(Want { source, tag, ignore: 0 }, vec![0; 3 * spec.len]);
        let status = self.queue.wait(receive, LIMIT).unwrap();
        assert_eq!(status.error, None);
        assert!(status.buffers.into_owned().unwrap() == spec.bytes(from, 3 * spec.len));
        assert_eq!(self.queue.wait(sent, LIMIT).unwrap().error, None);
    }

    fn broadcast(&mut self, group: &mut Group, spec: &Spec) {
        let sent = spec.bytes(spec.root, spec.len);
        let mut bytes = if self.rank == spec.root { sent.clone() } else { vec![0; spec.len] };
        group.broadcast(self.queue, spec.root, &mut bytes, LIMIT).unwrap();
        assert!(bytes == sent, "{spec:?}");
    }

    fn gather(&mut self, group: &mut Group, spec: &Spec) {
        let members = group.members();
        let mut all = vec![0; spec.len * members];
        group.allgather(self.queue, &spec.bytes(self.rank, spec.len), &mut all, LIMIT).unwrap();
        let expected: Vec<u8> = (0..members).flat_map(|rank| spec.bytes(rank, spec.len)).collect();
        assert!(all == expected, "{spec:?}");
    }

    fn exchange(&mut self, group: &mut Group, spec: &Spec) {
        let (members, len) = (group.members(), spec.len);
        let mut from = vec![0; len * members];
        group.alltoall(self.queue, &spec.bytes(self.rank, len * members), &mut from, LIMIT).unwrap();
        let own = self.rank * len..(self.rank + 1) * len;
        let expected = (0..members).flat_map(|rank| spec.bytes(rank, len * members)[own.clone()].to_vec());
        assert!(from == expected.collect::<Vec<_>>(), "{spec:?}");
    }

    fn combine(&mut self, group: &mut Group, spec: &Spec, at: usize) {
        match spec.element {
            0 => self.bits(group, spec, at, |word| word as i32),
            1 => self.bits(group, spec, at, |word| word as i64),
            2 => self.bits(group, spec, at, |word| word as u32),
            3 => self.bits(group, spec, at, |word| word),
            // So few bits that nothing is rounded.
            4 => self.numbers(group, spec, at, |word| [0.5_f32, -1.0, 2.0, -1.0][word as usize % 4]),
            5 => self.numbers(group, spec, at, |word| [0.5_f64, -1.0, 2.0, -1.0][word as usize % 4]),
            6 => self.rounded(group, spec, at),
            _ => {
                let both = |a: [u32; 2], b: [u32; 2]| [a[0].wrapping_add(b[0]), a[1].max(b[1])];
                self.check(group, spec, at, |word| [word as u32, (word >> 32) as u32], both);
            }
        }
    }

    fn bits<T: Bits + Debug + PartialEq>(
        &mut self,
        group: &mut Group,
        spec: &Spec,
        at: usize,
        of: fn(u64) -> T,
    ) {
        match spec.operation {
            4 => self.check(group, spec, at, of, operation::and),
            5 => self.check(group, spec, at, of, operation::or),
            6 => self.check(group, spec, at, of, operation::xor),
            _ => self.numbers(group, spec, at, of),
        }
    }

    fn numbers<T: Number + Debug + PartialEq>(
        &mut self,
        group: &mut Group,
        spec: &Spec,
        at: usize,
        of: fn(u64) -> T,
    ) {
        match spec.operation % 4 {
            0 => self.check(group, spec, at, of, operation::sum),
            1 => self.check(group, spec, at, of, operation::product),
            2 => self.check(group, spec, at, of, operation::min),
            _ => self.check(group, spec, at, of, operation::max),
        }
    }

    fn check<T: Element + Debug + PartialEq>(
        &mut self,
        group: &mut Group,
        spec: &Spec,
        at: usize,
        of: fn(u64) -> T,
        operation: impl Fn(T, T) -> T,
    ) {
        let values_of = |rank| spec.words(rank, spec.len).map(of).collect::<Vec<T>>();
        let expected = (1..group.members()).fold(values_of(0), |all, rank| {
            all.into_iter().zip(values_of(rank)).map(|(a, b)| operation(a, b)).collect()
        });
        let mut values = values_of(self.rank);
        if spec.kind == 4 {
            group.reduce(self.queue, spec.root, &mut values, &operation, LIMIT).unwrap();
            let expected = if self.rank == spec.root { expected } else { values_of(self.rank) };
            assert!(values == expected, "{spec:?}");
        } else {
            group.allreduce(self.queue, &mut values, &operation, LIMIT).unwrap();
            assert!(values == expected, "{spec:?}");
            self.compare(at, values.as_bytes());
        }
    }

    /// Any bits, also those of what is no number: the result is the same on all members.
    fn rounded(&mut self, group: &mut Group, spec: &Spec, at: usize) {
        // Of two that are no numbers, the result is the first: their bits tell the order of the arguments.
        let no_number = |word| if word % 3 == 0 { word | 0x7ff << 52 } else { word };
        let of = |word| if spec.seed & 2 == 0 { f64::from_bits(no_number(word)) } else { word as f64 / 3e9 };
        let mut values: Vec<f64> = spec.words(self.rank, spec.len).map(of).collect();
        let operation = [operation::sum, operation::product, operation::min, operation::max];
        group.allreduce(self.queue, &mut values, operation[spec.operation % 4], LIMIT).unwrap();
        self.compare(at, values.as_bytes());
    }

    fn compare(&self, at: usize, bytes: &[u8]) {
        let mut same = self.same.lock().unwrap();
        let first = same.entry((self.program.number, at)).or_insert_with(|| bytes.to_vec());
        assert!(first == bytes, "bits differ between members");
    }
}
