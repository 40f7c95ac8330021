//! Waits that another thread ends.

use std::thread;
use std::time::Duration;

use tieline::{Error, InterruptOptions, SegmentId};
use tieline_tests::Watchdog;

use crate::two_nodes;

const SOON: Duration = Duration::from_secs(10);
/// Longer than the watchdog lets anything take: only the cancellation can end such a wait.
const EVER: Duration = Duration::from_secs(3600);

fn is_cancelled<T: std::fmt::Debug>(result: tieline::Result<T>) {
    assert!(matches!(result, Err(Error::Cancelled { .. })), "{result:?}");
}

#[test]
fn waits_for_events_end() {
    let _watchdog = Watchdog::usual("cancelled waits for events");
    let cluster = two_nodes();
    let (a, b) = (cluster.attach(0).unwrap(), cluster.attach(1).unwrap());
    let segment = a.create_segment(SegmentId(7), 4096).unwrap();
    segment.make_available().unwrap();
    let remote = b.connect_segment(a.id(), SegmentId(7), SOON).unwrap();
    segment.wait_event(SOON).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| is_cancelled(segment.wait_event(EVER)));
        scope.spawn(|| is_cancelled(remote.wait_event(EVER)));
        thread::sleep(Duration::from_millis(20));
        segment.cancel_waits();
        remote.cancel_waits();
    });
    is_cancelled(segment.wait_event(EVER));
    is_cancelled(remote.wait_event(EVER));
}

#[test]
fn waits_for_interrupts_end() {
    let _watchdog = Watchdog::usual("cancelled waits for interrupts");
    let cluster = two_nodes();
    let node = cluster.attach(0).unwrap();
    for pollable in [false, true] {
        let options = InterruptOptions { pollable, ..InterruptOptions::default() };
        let plain = node.create_interrupt(&options).unwrap();
        let data = node.create_data_interrupt(&options, 48, 4).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| is_cancelled(plain.wait(None)));
            scope.spawn(|| is_cancelled(data.wait(&mut [0; 48], Some(EVER))));
            thread::sleep(Duration::from_millis(20));
            plain.cancel_waits().unwrap();
            data.cancel_waits().unwrap();
        });
        is_cancelled(plain.wait(None));
        is_cancelled(data.wait(&mut [0; 48], None));
    }
}

#[test]
fn a_message_that_is_there_is_given_out_before_the_end() {
    let _watchdog = Watchdog::usual("message before the end");
    let cluster = two_nodes();
    let node = cluster.attach(0).unwrap();
    let data = node.create_data_interrupt(&InterruptOptions::default(), 48, 4).unwrap();
    let sender = node.connect_data_interrupt(node.id(), data.number(), SOON).unwrap();
    sender.trigger(b"last").unwrap();
    data.cancel_waits().unwrap();
    let mut message = [0; 48];
    assert_eq!(data.wait(&mut message, None).unwrap(), 4);
    assert_eq!(&message[..4], b"last");
    is_cancelled(data.wait(&mut message, None));
}
