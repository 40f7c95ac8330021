//! Message queues that find each other by node and port.

use std::time::Duration;

use tieline::messages::{MessageError, Settings, Want};
use tieline::{Error, MessageQueue, PortNo};
use tieline_tests::Watchdog;

use crate::two_nodes;

const SOON: Duration = Duration::from_secs(10);
const LIMIT: Option<Duration> = Some(SOON);

fn open(node: &tieline::Node, port: u32) -> MessageQueue {
    node.message_queue(PortNo(port), &Settings::default()).unwrap()
}

/// Both in one thread, so both have to be moved on.
fn exchange(from: &mut MessageQueue, to: &mut MessageQueue, bytes: &[u8]) {
    let ((a, a_port), (b, b_port)) = (from.address(), to.address());
    let (to_b, to_a) = (from.peer_at(b, b_port, SOON).unwrap(), to.peer_at(a, a_port, SOON).unwrap());
    assert_eq!((from.address_of(to_b), to.address_of(to_a)), (Some((b, b_port)), Some((a, a_port))));
    let receive = to.receive(Want::exactly(to_a, 5), vec![0; bytes.len()]);
    let send = from.send(to_b, 5, bytes.to_vec()).unwrap();
    let received = loop {
        from.progress();
        if let Some(status) = to.test(receive).unwrap() {
            break status;
        }
    };
    assert_eq!((received.error, received.buffers.into_owned().as_deref()), (None, Some(bytes)));
    assert_eq!(from.wait(send, LIMIT).unwrap().error, None);
}

#[test]
fn queues_of_two_nodes_find_each_other() {
    let _watchdog = Watchdog::usual("messages");
    let cluster = two_nodes();
    let (a, b) = (cluster.attach(0).unwrap(), cluster.attach(1).unwrap());
    // A port is of its node; segments and ports are numbered apart.
    let segment = a.create_segment(tieline::SegmentId(1), 4096).unwrap();
    let (mut first, mut second) = (open(&a, 1), open(&b, 1));
    for len in [0, 1, 100, 8_192, 300_000] {
        exchange(&mut first, &mut second, &vec![len as u8; len]);
        exchange(&mut second, &mut first, &vec![!len as u8; len]);
    }
    drop(segment);
    // Also two of one node.
    exchange(&mut first, &mut open(&a, 2), b"beside");
}

#[test]
fn a_port_is_used_once_and_free_again_when_its_queue_is_closed() {
    let cluster = two_nodes();
    let (a, b) = (cluster.attach(0).unwrap(), cluster.attach(1).unwrap());
    let first = open(&a, 7);
    let refused = a.message_queue(PortNo(7), &Settings::default()).unwrap_err().to_string();
    assert!(refused.contains("message queue at port 7") && refused.contains("exists already"), "{refused}");
    let mut other = open(&b, 7);
    let before = other.peer_at(a.id(), PortNo(7), SOON).unwrap();
    assert!(first.close(SOON));
    let absent = other.peer_at(a.id(), PortNo(7), Duration::ZERO).unwrap_err();
    assert!(matches!(absent, Error::Client(_)), "{absent}");
    assert!(absent.to_string().contains("message queue at port 7"), "{absent}");
    // The one that was closed is gone for good, and the next one is another.
    let gone = other.send_bytes(before, 1, b"late").map(|send| other.wait(send, LIMIT).unwrap().error);
    let is_gone = |error| matches!(error, MessageError::PeerGone { .. });
    assert!(gone.map_or_else(is_gone, |error| error.is_some_and(is_gone)));
    let mut again = open(&a, 7);
    assert_ne!(other.peer_at(a.id(), PortNo(7), SOON).unwrap(), before);
    exchange(&mut other, &mut again, b"again");
}

#[test]
fn a_queue_that_is_opened_later_is_waited_for() {
    let _watchdog = Watchdog::usual("messages that wait");
    let cluster = two_nodes();
    let (a, b) = (cluster.attach(0).unwrap(), cluster.attach(1).unwrap());
    let mut early = open(&a, 3);
    std::thread::scope(|scope| {
        let late = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            open(&b, 4)
        });
        early.peer_at(b.id(), PortNo(4), SOON).unwrap();
        drop(late.join().unwrap());
    });
}

#[test]
fn threads_share_a_queue() {
    let _watchdog = Watchdog::usual("shared messages");
    let cluster = two_nodes();
    let node = cluster.attach(0).unwrap();
    let (shared, mut other) = (open(&node, 1).share(), open(&node, 2));
    assert_eq!(shared.address(), (node.id(), PortNo(1)));
    let to_other = shared.peer_at(node.id(), PortNo(2), SOON).unwrap();
    assert_eq!(shared.address_of(to_other), Some((node.id(), PortNo(2))));
    let to_shared = other.peer_at(node.id(), PortNo(1), SOON).unwrap();
    std::thread::scope(|scope| {
        for tag in 0..3 {
            let shared = shared.clone();
            scope.spawn(move || {
                let receive = shared.with(|queue| queue.receive(Want::exactly(to_other, tag), vec![0; 8]));
                let status = shared.wait(receive, LIMIT).unwrap();
                assert_eq!(status.buffers.into_owned().unwrap(), tag.to_ne_bytes());
            });
        }
        for tag in 0..3_u64 {
            let send = other.send_bytes(to_shared, tag, &tag.to_ne_bytes()).unwrap();
            other.wait(send, LIMIT).unwrap();
        }
    });
    assert!(shared.finish(SOON));
    assert!(other.peer_at(node.id(), PortNo(1), Duration::ZERO).is_err());
}
