//! Someone who knows how to meet an end point, and then writes what it likes.

use message_queue::meet::{Arrival, Datagrams, Meeting};
use message_queue::{MessageQueue, Name, PeerId};
use shm::ring::record::Producer;

/// Lives as long as it writes: an end point whose socket is gone has ended.
pub(crate) struct Stranger {
    pub(crate) meeting: Datagrams,
    pub(crate) outlet: Box<Producer>,
}

impl Stranger {
    pub(crate) fn to(queue: &mut MessageQueue) -> (Self, PeerId) {
        let name = Name::new().unwrap();
        let mut meeting = Datagrams::begin(name, 32 << 10).unwrap();
        meeting.ask(&queue.name()).unwrap();
        let outlet = loop {
            queue.progress();
            match meeting.arrivals().pop() {
                Some(Arrival::Outlet { outlet, .. }) => break outlet,
                Some(_) => panic!("no answer"),
                None => std::thread::yield_now(),
            }
        };
        (Self { meeting, outlet }, queue.peer(name))
    }

    pub(crate) fn write(&mut self, words: &[u64]) {
        self.write_with(words, b"");
    }

    /// Bytes follow the words.
    pub(crate) fn write_with(&mut self, words: &[u64], bytes: &[u8]) {
        let mut record: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        record.extend(bytes);
        self.outlet.push(&record).unwrap();
        self.meeting.has_arrivals();
    }
}
