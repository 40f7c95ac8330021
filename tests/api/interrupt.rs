//! Interrupts: latched, counted, waited for, called back, polled.

use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tieline::{Error, InterruptNo, InterruptOptions, Node, RemoteInterrupt};
use tieline_tests::{Peer, Watchdog};

use crate::{PEER, two_nodes};

const SOON: Duration = Duration::from_secs(10);

fn connect(from: &Node, to: &Node, number: InterruptNo) -> RemoteInterrupt {
    from.connect_interrupt(to.id(), number, SOON).unwrap()
}

#[test]
fn triggers_before_the_wait_are_latched_and_counted() {
    let _watchdog = Watchdog::usual("latched");
    let cluster = two_nodes();
    let (a, b) = (cluster.attach(0).unwrap(), cluster.attach(1).unwrap());
    let interrupt = a.create_interrupt(&InterruptOptions::default()).unwrap();
    let remote = connect(&b, &a, interrupt.number());
    for _ in 0..5 {
        remote.trigger().unwrap();
    }
    assert_eq!(interrupt.wait(Some(SOON)).unwrap(), 5);
    let error = interrupt.wait(Some(Duration::from_millis(5))).unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    remote.trigger().unwrap();
    assert_eq!(interrupt.take().unwrap(), 1);
    assert_eq!(interrupt.take().unwrap(), 0);
}

#[test]
fn no_trigger_is_lost_between_two_programs() {
    let _watchdog = Watchdog::usual("triggers");
    let cluster = two_nodes();
    let (a, b) = (cluster.attach(0).unwrap(), cluster.attach(1).unwrap());
    let interrupt = a.create_interrupt(&InterruptOptions::default()).unwrap();
    let remotes = [connect(&b, &a, interrupt.number()), connect(&b, &a, interrupt.number())];
    const EACH: u32 = 20_000;
    std::thread::scope(|scope| {
        for remote in &remotes {
            scope.spawn(move || (0..EACH).for_each(|_| remote.trigger().unwrap()));
        }
        let mut came = 0;
        while came < 2 * EACH {
            came += interrupt.wait(Some(SOON)).unwrap();
        }
        assert_eq!(came, 2 * EACH);
    });
}

#[test]
fn a_sleeper_in_another_process_is_woken() {
    let _watchdog = Watchdog::usual("sleeper");
    let cluster = two_nodes();
    let mut owner = Peer::start(&cluster, PEER, 0, &["interrupt", "77"]).unwrap();
    owner.expect("ready").unwrap();
    let b = cluster.attach(1).unwrap();
    let remote = b.connect_interrupt(cluster.nodes()[0], InterruptNo(77), SOON).unwrap();
    for _ in 0..20 {
        owner.say("wait").unwrap();
        std::thread::sleep(Duration::from_millis(2));
        remote.trigger().unwrap();
        owner.expect("came 1").unwrap();
    }
    owner.kill().unwrap();
    // The loss shows in the state page as soon as the manager has seen the death.
    let gone = (0..1000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(5));
        remote.trigger().err()
    });
    assert!(matches!(gone, Some(Error::Lost { .. })), "{gone:?}");
}

#[test]
fn a_callback_is_called_and_its_handler_ends_it() {
    let _watchdog = Watchdog::usual("callback");
    let cluster = two_nodes();
    let (a, b) = (cluster.attach(0).unwrap(), cluster.attach(1).unwrap());
    let interrupt = a.create_interrupt(&InterruptOptions::default()).unwrap();
    let number = interrupt.number();
    let (told, tell) = channel();
    let handler = interrupt.on_trigger(move |count| told.send(count).unwrap()).unwrap();
    let remote = connect(&b, &a, number);
    remote.trigger().unwrap();
    assert_eq!(tell.recv_timeout(SOON).unwrap(), 1);
    drop(handler);
    assert!(tell.recv_timeout(SOON).is_err(), "the callback's thread must have ended");
    assert!(b.connect_interrupt(a.id(), number, Duration::ZERO).is_err());
}

#[test]
fn the_descriptor_becomes_readable_and_is_cleared_by_take() {
    let _watchdog = Watchdog::usual("pollable");
    let cluster = two_nodes();
    let (a, b) = (cluster.attach(0).unwrap(), cluster.attach(1).unwrap());
    let options = InterruptOptions { pollable: true, ..InterruptOptions::default() };
    let interrupt = a.create_interrupt(&options).unwrap();
    let remote = connect(&b, &a, interrupt.number());
    let readable = |limit: Duration| {
        let descriptor = interrupt.descriptor().unwrap();
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], Some(&limit)).unwrap() == 1
    };
    assert!(!readable(Duration::ZERO));
    for _ in 0..100 {
        remote.trigger().unwrap();
        assert!(readable(SOON));
        assert_eq!(interrupt.take().unwrap(), 1);
        assert!(!readable(Duration::ZERO));
    }
    let plain = a.create_interrupt(&InterruptOptions::default()).unwrap();
    assert!(plain.descriptor().unwrap_err().to_string().contains("pollable"));
}

#[test]
fn messages_arrive_whole_in_order_and_from_many() {
    let _watchdog = Watchdog::usual("data interrupt");
    let cluster = two_nodes();
    let (a, b) = (cluster.attach(0).unwrap(), cluster.attach(1).unwrap());
    let interrupt = a.create_data_interrupt(&InterruptOptions::default(), 32, 16).unwrap();
    let remotes: Vec<_> =
        (0..2).map(|_| b.connect_data_interrupt(a.id(), interrupt.number(), SOON).unwrap()).collect();
    assert!(b.connect_interrupt(a.id(), interrupt.number(), Duration::ZERO).is_err());
    let refused = remotes[0].trigger(&[0; 33]).unwrap_err();
    assert!(matches!(refused, Error::TooLong { limit: 32, .. }), "{refused}");
    const EACH: u32 = 3000;
    std::thread::scope(|scope| {
        for (sender, remote) in remotes.iter().enumerate() {
            scope.spawn(move || {
                for number in 0..EACH {
                    let text = format!("{sender} {number}");
                    while let Err(error) = remote.trigger(text.as_bytes()) {
                        assert!(matches!(error, Error::Full { .. }), "{error}");
                        std::thread::yield_now();
                    }
                }
            });
        }
        let mut next = [0; 2];
        let mut message = [0; 32];
        for _ in 0..2 * EACH {
            let len = interrupt.wait(&mut message, Some(SOON)).unwrap();
            let text = std::str::from_utf8(&message[..len]).unwrap();
            let (sender, number) = text.split_once(' ').unwrap();
            let sender: usize = sender.parse().unwrap();
            assert_eq!(number.parse::<u32>().unwrap(), next[sender]);
            next[sender] += 1;
        }
        assert_eq!(next, [EACH; 2]);
    });
}

#[test]
fn messages_are_called_back_until_the_handler_is_dropped() {
    let _watchdog = Watchdog::usual("message callback");
    let cluster = two_nodes();
    let (a, b) = (cluster.attach(0).unwrap(), cluster.attach(1).unwrap());
    let interrupt = a.create_data_interrupt(&InterruptOptions::default(), 32, 4).unwrap();
    let remote = b.connect_data_interrupt(a.id(), interrupt.number(), SOON).unwrap();
    let (told, tell) = channel();
    let node = a.clone();
    let handler = interrupt
        .on_message(move |message| {
            // A callback may use the API.
            let created = node.create_interrupt(&InterruptOptions::default()).is_ok();
            told.send((message.to_vec(), created)).unwrap();
        })
        .unwrap();
    for number in 0..50u8 {
        remote.trigger(&[number; 3]).unwrap();
        assert_eq!(tell.recv_timeout(SOON).unwrap(), (vec![number; 3], true));
    }
    let number = handler.number();
    drop(handler);
    assert!(tell.recv_timeout(SOON).is_err(), "the callback's thread must have ended");
    assert!(b.connect_data_interrupt(a.id(), number, Duration::ZERO).is_err());
}

#[test]
fn messages_of_a_killed_sender_arrive_and_the_ring_goes_on() {
    let _watchdog = Watchdog::usual("killed sender");
    let cluster = two_nodes();
    let a = cluster.attach(0).unwrap();
    let options = InterruptOptions { number: Some(InterruptNo(5)), ..InterruptOptions::default() };
    let interrupt = a.create_data_interrupt(&options, 32, 4).unwrap();
    let mut message = [0; 32];
    for round in 0..10 {
        let mut sender = Peer::start(&cluster, PEER, 1, &["send", &a.id().to_string(), "5"]).unwrap();
        sender.expect("ready").unwrap();
        sender.say(&format!("round {round}")).unwrap();
        sender.expect("sent").unwrap();
        sender.kill().unwrap();
        let len = interrupt.wait(&mut message, Some(SOON)).unwrap();
        assert_eq!(message[..len], *format!("round {round}").as_bytes());
    }
}

/// Producers that come and go leave no descriptor with the owner, which never examines its ring meanwhile.
#[test]
fn an_owner_holds_no_descriptor_of_senders_that_have_left() {
    let _watchdog = Watchdog::usual("senders come and go");
    let cluster = two_nodes();
    let (a, b) = (cluster.attach(0).unwrap(), cluster.attach(1).unwrap());
    let interrupt = a.create_data_interrupt(&InterruptOptions::default(), 32, 4).unwrap();
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let connect = || b.connect_data_interrupt(a.id(), interrupt.number(), SOON).unwrap();
    drop(connect());
    let before = open();
    for _ in 0..300 {
        drop(connect());
    }
    // Departures are reported in passing; other tests of this process open and close descriptors of their
    // own.
    let settled = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        open() < before + 150
    });
    assert!(settled, "{} descriptors more than before", open() - before);
}

/// Two threads at one interrupt: the second gets an error, and does not wait for the first.
#[test]
fn a_second_waiter_is_refused_and_not_held_up() {
    let _watchdog = Watchdog::usual("second waiter");
    let cluster = two_nodes();
    let a = cluster.attach(0).unwrap();
    let interrupt = a.create_interrupt(&InterruptOptions::default()).unwrap();
    let bell = a.connect_interrupt(a.id(), interrupt.number(), SOON).unwrap();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| interrupt.wait(Some(SOON)));
        let refused = (0..1000).find_map(|_| {
            std::thread::sleep(Duration::from_millis(1));
            interrupt.take().err()
        });
        assert!(matches!(refused, Some(Error::Busy { .. })), "{refused:?}");
        bell.trigger().unwrap();
        assert_eq!(first.join().unwrap().unwrap(), 1);
    });
}
