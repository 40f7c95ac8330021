//! Segments and interrupts between two nodes, with real memory.
// Helpers of tests are tests, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::os::fd::AsFd;
use std::time::Duration;

use node_client::{ClientError, ClientEvent, ImportState, InterruptCreated, InterruptOffer, Sender};
use proto::ids::InterruptNo;
use proto::wire::program::{Access, Imported, InterruptKind, LossReason, Refusal};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use shm::process::PidFd;
use shm::region::{MapAccess, Region, RegionOptions};
use support::{Place, await_event, memory, node, offer, segment};

fn refusal<T: std::fmt::Debug>(result: Result<T, ClientError>) -> Refusal {
    match result {
        Err(ClientError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn two_nodes_see_the_same_bytes() {
    let place = Place::new();
    let _managers = place.start_all(&[4, 8]);
    let ((owner, owner_events), importer) = (place.attach_with_events(8), place.attach(4));
    let ours = offer(&owner, 7);
    let (import, fd, size) = importer.connect_segment(node(8), segment(7)).unwrap();
    assert_eq!((size, import.node(), import.state()), (4096, node(8), ImportState::Alive));
    let theirs = Region::open(fd, MapAccess::ReadWrite).unwrap();
    theirs.window().put(100, b"through").unwrap();
    let mut bytes = [0; 7];
    ours.window().get(100, &mut bytes).unwrap();
    assert_eq!(&bytes, b"through");
    let what = Imported::Segment(segment(7));
    let connection = await_event(&owner_events, |event| match event {
        ClientEvent::Connected { what: which, node: from, connection, .. }
            if *which == what && *from == node(4) =>
        {
            Some(*connection)
        }
        _ => None,
    });
    assert!(matches!(refusal(owner.remove_segment(segment(7), false)), Refusal::Busy { connections: 1, .. }));
    importer.disconnect(&import).unwrap();
    importer.disconnect(&import).unwrap();
    await_event(&owner_events, |event| match event {
        ClientEvent::Disconnected { connection: which, died: false, .. } => {
            (*which == connection).then_some(())
        }
        _ => None,
    });
    owner.remove_segment(segment(7), false).unwrap();
    assert_eq!(owner.status().unwrap().segments_total, 0);
}

#[test]
fn a_node_connects_to_its_own_segments_too() {
    let place = Place::new();
    let _manager = place.start(4);
    let client = place.attach(4);
    let _region = offer(&client, 1);
    let (import, _fd, _) = client.connect_segment(node(4), segment(1)).unwrap();
    assert_eq!(import.state(), ImportState::Alive);
}

#[test]
fn what_is_not_there_is_said_or_waited_for() {
    let place = Place::new();
    let _managers = place.start_all(&[4, 8]);
    let (owner, importer) = (place.attach(8), place.attach(4));
    assert!(matches!(refusal(importer.connect_segment(node(8), segment(7))), Refusal::NotFound { .. }));
    assert!(matches!(refusal(importer.connect_segment(node(12), segment(7))), Refusal::Unreachable { .. }));
    let region = memory();
    owner.create_segment(segment(7), 4096, Access::default(), region.fd()).unwrap();
    assert!(matches!(refusal(importer.connect_segment(node(8), segment(7))), Refusal::NotAvailable { .. }));
    let short = Duration::from_millis(20);
    let last = refusal(importer.connect_segment_within(node(8), segment(7), short));
    assert!(matches!(last, Refusal::NotAvailable { .. }));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            importer.connect_segment_within(node(8), segment(7), support::WATCHDOG).unwrap().0.state()
        });
        owner.set_available(segment(7), true, false).unwrap();
        assert_eq!(waiting.join().unwrap(), ImportState::Alive);
    });
    assert!(matches!(
        refusal(owner.create_segment(segment(7), 4096, Access::default(), region.fd())),
        Refusal::InUse { .. }
    ));
}

#[test]
fn each_way_of_ending_reaches_the_importer() {
    let place = Place::new();
    let _managers = place.start_all(&[4, 8]);
    let (owner, (importer, events)) = (place.attach(8), place.attach_with_events(4));
    let lost = |id| {
        await_event(&events, |event| match event {
            ClientEvent::Lost { import, reason } if *import == id => Some(*reason),
            _ => None,
        })
    };
    for (index, expected) in
        [LossReason::Withdrawn, LossReason::Removed, LossReason::OwnerDied].into_iter().enumerate()
    {
        let id = u32::try_from(index).unwrap();
        let another = place.attach(8);
        let _region = offer(&another, id);
        let (import, ..) = importer.connect_segment(node(8), segment(id)).unwrap();
        match expected {
            LossReason::Withdrawn => another.set_available(segment(id), false, true).unwrap(),
            LossReason::Removed => another.remove_segment(segment(id), true).unwrap(),
            _ => drop(another),
        }
        assert_eq!(lost(import.id()), expected);
        assert_eq!(import.state(), ImportState::Ended(expected));
        importer.disconnect(&import).unwrap();
    }
    assert_eq!(importer.status().unwrap().programs[0].imports, 0);
    assert!(owner.probe(node(4)).unwrap());
}

#[test]
fn memory_that_could_change_its_size_is_refused() {
    let place = Place::new();
    let _manager = place.start(4);
    let client = place.attach(4);
    let create = |fd: std::os::fd::BorrowedFd<'_>, size| {
        refusal(client.create_segment(segment(1), size, Access::default(), fd)).to_string()
    };
    let unsealed = memfd_create("x", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&unsealed, 4096).unwrap();
    let text = create(unsealed.as_fd(), 4096);
    assert!(text.contains("seal"), "{text}");
    fcntl_add_seals(&unsealed, SealFlags::GROW).unwrap();
    create(unsealed.as_fd(), 4096);
    fcntl_add_seals(&unsealed, SealFlags::SHRINK).unwrap();
    create(unsealed.as_fd(), 8192);
    create(std::fs::File::open("/dev/null").unwrap().as_fd(), 4096);
    create(eventfd(0, EventfdFlags::CLOEXEC).unwrap().as_fd(), 8);
    client.create_segment(segment(1), 4096, Access::default(), unsealed.as_fd()).unwrap();
    // Only the program's own pidfd and this memory are held.
    assert_eq!(client.status().unwrap().descriptors, 2);
}

#[test]
fn an_interrupt_arrives_with_its_descriptors() {
    let place = Place::new();
    let _managers = place.start_all(&[4, 8]);
    let ((owner, events), importer) = (place.attach_with_events(8), place.attach(4));
    let options = RegionOptions { read_only_for_others: true, ..RegionOptions::new("waiter", 4096) };
    let (trigger, waiter) = (memory(), Region::create(&options).unwrap());
    let offer = InterruptOffer {
        number: Some(InterruptNo(5)),
        kind: InterruptKind::Data,
        access: Access::default(),
        trigger: trigger.fd(),
        waiter: waiter.fd(),
        pollable: true,
    };
    let InterruptCreated { number, incarnation, sockets } = owner.create_interrupt(&offer).unwrap();
    let listener = sockets.unwrap().receiver;
    assert_eq!(number, InterruptNo(5));
    let grant = importer.connect_interrupt(node(8), number).unwrap();
    assert_eq!((grant.kind, grant.import.incarnation()), (InterruptKind::Data, incarnation));
    rustix::io::write(grant.event.unwrap(), &[3]).unwrap();
    let mut ring = [0; 8];
    assert_eq!(rustix::io::read(&listener, &mut ring), Ok(1));
    assert_eq!(ring[0], 3);
    assert!(Region::open(grant.waiter, MapAccess::ReadWrite).is_err());
    let (producer, pid) = await_event(&events, |event| match event {
        ClientEvent::Connected { producer, sender: Some(Sender::Descriptor(pidfd)), .. } => {
            Some((*producer, PidFd::from_fd(pidfd.try_clone().unwrap()).unwrap().pid_of()))
        }
        _ => None,
    });
    assert_eq!(producer, grant.producer);
    assert_eq!(pid, Some(std::process::id()));
    owner.remove_interrupt(number).unwrap();
    support::eventually("the import has ended", || {
        grant.import.state() == ImportState::Ended(LossReason::Removed)
    });
}
