//! A receiver without free descriptors: what is sent to it waits until it has some. In a program of its own,
//! because the limit is the process's.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::{Duration, Instant};

use message_queue::{MessageQueue, Settings, Want};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn a_first_message_waits_until_its_receiver_has_descriptors() {
    let mut queues = [(); 2].map(|()| MessageQueue::new(Settings::default()).unwrap());
    let names = queues.each_ref().map(MessageQueue::name);
    let [a, b] = &mut queues;
    let to_b = a.peer(names[1]);
    // One descriptor is left: for the sender's ring, whose copies are the receiver's.
    let limit = Rlimit { current: Some(100), maximum: getrlimit(Resource::Nofile).maximum };
    setrlimit(Resource::Nofile, limit).unwrap();
    let mut taken = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        taken.push(file);
        assert!(taken.len() < 100, "no limit of descriptors");
    }
    taken.pop();
    let from_a = b.peer(names[0]);
    let receive = b.receive(Want::exactly(from_a, 1), vec![0; 5]);
    let send = a.send_bytes(to_b, 1, b"later").unwrap();
    let since = Instant::now();
    while since.elapsed() < Duration::from_millis(200) {
        a.progress();
        assert!(b.test(receive).unwrap().is_none());
    }
    drop(taken);
    let until = Instant::now() + Duration::from_secs(20);
    let status = loop {
        a.progress();
        if let Some(status) = b.test(receive).unwrap() {
            break status;
        }
        assert!(Instant::now() < until, "it does not come");
    };
    assert_eq!(status.error, None);
    assert_eq!(status.buffers.into_owned().unwrap(), b"later");
    a.wait(send, Some(Duration::from_secs(20))).unwrap();
}
