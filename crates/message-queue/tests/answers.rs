//! A sender that needs an answer gets it from a receiver that has its message and then does other things.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::mpsc::channel;
use std::time::Duration;

use message_queue::endpoint::{Mode, SendRequest};
use message_queue::{MessageQueue, Settings, Want};

const LIMIT: Option<Duration> = Some(Duration::from_secs(30));
const ANY: Want = Want { source: None, tag: 1, ignore: 0 };

/// The receiver takes its first message of this sender, to which it has no lane, and makes no progress
/// afterwards until the send has ended.
fn ends_without_progress_of_the_receiver(mode: Mode, len: usize, is_probed: bool) {
    let mut sender = MessageQueue::new(Settings::default()).unwrap();
    let (named, name) = channel();
    let (sent, send_has_ended) = channel();
    std::thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let mut receiver = MessageQueue::new(Settings::default()).unwrap();
            named.send(receiver.name()).unwrap();
            if is_probed {
                receiver.wait_probe(&ANY, LIMIT).unwrap();
            }
            let receive = receiver.receive(ANY, vec![0; len]);
            let status = receiver.wait(receive, LIMIT).unwrap();
            send_has_ended.recv().unwrap();
            (status.error, status.buffers.into_owned().unwrap())
        });
        let to = sender.peer(name.recv().unwrap());
        let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + 1) as u8).collect();
        let request = SendRequest { mode, ..SendRequest::tagged(to, 1) };
        let send = sender.send_as(&request, bytes.clone()).unwrap();
        let ended = sender.wait(send, LIMIT);
        sent.send(()).unwrap();
        assert_eq!(ended.unwrap().error, None, "{mode:?}, {len} bytes, probed: {is_probed}");
        assert_eq!(receiver.join().unwrap(), (None, bytes));
    });
}

#[test]
fn a_send_ends_although_its_receiver_goes_on_to_other_things() {
    let long = Settings::default().eager_max_bytes + 1;
    for round in 0..50 {
        for (mode, len) in [(Mode::Standard, long), (Mode::Synchronous, 8), (Mode::Delivered, 8)] {
            ends_without_progress_of_the_receiver(mode, len, round % 2 == 1);
        }
    }
}

#[test]
fn both_need_an_answer_of_the_other_at_once() {
    let long = Settings::default().eager_max_bytes + 1;
    for _ in 0..100 {
        let mut queues = [(); 2].map(|()| MessageQueue::new(Settings::default()).unwrap());
        let names = [queues[1].name(), queues[0].name()];
        std::thread::scope(|scope| {
            for (queue, name) in queues.iter_mut().zip(names) {
                scope.spawn(move || {
                    let to = queue.peer(name);
                    let receive = queue.receive(ANY, vec![0; long]);
                    let send = queue.send(to, 1, vec![3; long]).unwrap();
                    let all = queue.wait_all(&[send, receive], LIMIT).unwrap();
                    assert!(all.iter().all(|status| status.error.is_none()), "{all:?}");
                });
            }
        });
    }
}
