//! What a forked child may do with what its parent attached: read and write payload memory through the
//! windows that it inherited; nothing else, and each attempt is a typed error, never a signal or a hang.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tieline::{Direction, DmaEntry, Error, GroupId, InterruptOptions, SegmentId, SegmentState};
use tieline_tests::Watchdog;

use crate::two_nodes;

/// Runs `child` in a forked child and gives its exit status.
fn in_child(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child only runs `child`, which takes no lock that another thread of the parent could have
    // held (it uses handles made by this thread), and leaves by `_exit`.
    // tidy: allow(unsafe): a test of fork must fork
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let status = child();
        // SAFETY: ends this process at once; nothing of the parent's is run. tidy: allow(unsafe): as above
        unsafe { libc::_exit(status) }
    }
    let mut status = 0;
    // SAFETY: `pid` is the child made above and `status` is writable. tidy: allow(unsafe): as above
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert!(libc::WIFEXITED(status), "the child was ended by a signal: {status:#x}");
    libc::WEXITSTATUS(status)
}

#[test]
fn a_child_uses_inherited_memory_and_nothing_else() {
    let _watchdog = Watchdog::usual("fork");
    let cluster = two_nodes();
    let (a, b) = (cluster.attach(0).unwrap(), cluster.attach(1).unwrap());
    let segment = a.create_segment(SegmentId(1), 4096).unwrap();
    segment.make_available().unwrap();
    let remote = b.connect_segment(a.id(), SegmentId(1), Duration::from_secs(5)).unwrap();
    let map = remote.map().unwrap();
    let interrupt = a.create_interrupt(&InterruptOptions::default()).unwrap();
    let bell = b.connect_interrupt(a.id(), interrupt.number(), Duration::from_secs(5)).unwrap();
    let messages = a.create_data_interrupt(&InterruptOptions::default(), 16, 4).unwrap();
    let sender = b.connect_data_interrupt(a.id(), messages.number(), Duration::from_secs(5)).unwrap();
    let queue = b.dma_engine(1).unwrap();
    queue
        .gather(
            &segment,
            &remote,
            Direction::Push,
            &[DmaEntry { size_bytes: 8, local_offset: 0, remote_offset: 8 }],
        )
        .unwrap();

    let failed = in_child(|| {
        let forked = |outcome: Result<(), Error>| match outcome {
            Err(Error::Forked { .. }) => true,
            Err(error) => error.to_string().contains("attach again in the child"),
            Ok(()) => false,
        };
        let checks = [
            map.window().is_ok_and(|window| window.put(100, b"child").is_ok()),
            forked(remote.put(0, &[1])),
            forked(bell.trigger()),
            forked(interrupt.take().map(drop)),
            forked(sender.trigger(b"x")),
            forked(messages.take(&mut [0; 16]).map(drop)),
            forked(queue.post().map(drop)),
            forked(queue.wait(None).map(drop)),
            {
                queue.abort();
                queue.poll();
                true
            },
            forked(a.create_segment(SegmentId(9), 64).map(drop)),
            forked(b.probe(a.id()).map(drop)),
        ];
        checks.iter().position(|right| !right).map_or(0, |at| at as i32 + 1)
    });
    assert_eq!(failed, 0, "check {failed} of the child went wrong");

    // The child's store arrived, its end took nothing away, and the parent's handles work.
    let mut found = [0; 5];
    segment.window().get(100, &mut found).unwrap();
    assert_eq!(&found, b"child");
    remote.put(0, &[1]).unwrap();
    bell.trigger().unwrap();
    assert_eq!(interrupt.wait(Some(Duration::from_secs(10))).unwrap(), 1);
    sender.trigger(b"parent").unwrap();
    assert_eq!(messages.wait(&mut [0; 16], Some(Duration::from_secs(10))).unwrap(), 6);
}

#[test]
fn dropping_inherited_handles_in_a_child_takes_nothing_from_the_parent() {
    let _watchdog = Watchdog::usual("fork and drop");
    let cluster = two_nodes();
    let (a, b) = (cluster.attach(0).unwrap(), cluster.attach(1).unwrap());
    let segment = a.create_segment(SegmentId(1), 4096).unwrap();
    segment.make_available().unwrap();
    let remote = b.connect_segment(a.id(), SegmentId(1), Duration::from_secs(5)).unwrap();
    let interrupt = a.create_interrupt(&InterruptOptions::default()).unwrap();
    let bell = b.connect_interrupt(a.id(), interrupt.number(), Duration::from_secs(5)).unwrap();
    let handler = interrupt.on_trigger(|_| ()).unwrap();
    let queue = b.dma_engine(1).unwrap();
    // The child gets copies of the handles by moving them into the closure there; the parent's own stay.
    let handles = std::mem::ManuallyDrop::new((segment, remote, handler, bell, queue));
    let status = in_child(|| {
        // SAFETY: this process's copy is used once, here. tidy: allow(unsafe): a test of fork must drop twice
        drop(unsafe { std::ptr::read(&raw const *handles) });
        0
    });
    assert_eq!(status, 0);
    let (segment, remote, _handler, bell, _queue) = std::mem::ManuallyDrop::into_inner(handles);
    remote.put(0, b"still here").unwrap();
    bell.trigger().unwrap();
    let again = b.connect_segment(a.id(), SegmentId(1), Duration::from_secs(5)).unwrap();
    again.put(0, b"x").unwrap();
    drop((again, remote));
    segment.remove(true).map_err(|(_, error)| error).unwrap();
}

/// Whatever the library's thread, or another of the program's, holds at the moment of the fork, stays held in
/// the child for ever: nothing that a child calls may wait for it.
#[test]
fn a_child_forked_in_the_middle_of_events_waits_for_no_lock() {
    let _watchdog = Watchdog::usual("fork amid events");
    let cluster = two_nodes();
    let (a, b) = (cluster.attach(0).unwrap(), cluster.attach(1).unwrap());
    let segment = a.create_segment(SegmentId(1), 4096).unwrap();
    segment.make_available().unwrap();
    let remote = b.connect_segment(a.id(), SegmentId(1), Duration::from_secs(5)).unwrap();
    let _member = a.join_group(GroupId(7), 4096).unwrap();
    let group = b.connect_group(GroupId(7)).unwrap();
    group.wait_members(1, Duration::from_secs(10)).unwrap();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Each connection and its end is an event of `a`, and each answer goes through the lock of `b`'s
        // attachment.
        let connecting = scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                let again = b.connect_segment(a.id(), SegmentId(1), Duration::from_secs(5)).unwrap();
                segment.make_available().unwrap();
                group.put(0, b"x").unwrap();
                drop(again);
            }
        });
        for round in 0..300 {
            let failed = in_child(|| {
                let forked = |outcome: Result<(), Error>| {
                    outcome.is_err_and(|error| error.to_string().contains("attach again in the child"))
                };
                let checks = [
                    forked(a.create_segment(SegmentId(9), 64).map(drop)),
                    forked(b.connect_segment(a.id(), SegmentId(1), Duration::from_secs(5)).map(drop)),
                    forked(segment.wait_event(Duration::from_secs(3600)).map(drop)),
                    forked(remote.wait_event(Duration::from_secs(3600)).map(drop)),
                    forked(segment.make_available()),
                    forked(group.put(0, b"y").map(drop)),
                    forked(a.create_interrupt(&InterruptOptions::default()).map(drop)),
                    forked(a.status().map(drop)),
                    a.info().node == a.id() && segment.state() == SegmentState::Available,
                    group.members().is_empty(),
                ];
                checks.iter().position(|right| !right).map_or(0, |at| at as i32 + 1)
            });
            assert_eq!(failed, 0, "check {failed} of the child of round {round} went wrong");
        }
        ended.store(true, Ordering::Relaxed);
        connecting.join().unwrap();
    });
}
