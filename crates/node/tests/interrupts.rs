//! The sockets of pollable interrupts: whose they are, what others can do to them, and what a restart leaves
//! of them.
// Helpers of tests are tests, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use node::config::Settings;
use node::{Daemon, DaemonOptions};
use node_client::{Client, ClientError, InterruptCreated, InterruptOffer};
use proto::ids::InterruptNo;
use proto::wire::program::{Access, InterruptKind, Refusal};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType,
    bind, connect, getsockname, recv, send, shutdown, socket_with,
};
use shm::region::{Region, RegionOptions};
use support::{Place, Running, eventually, memory, node, place_of_users};

const NUMBER: InterruptNo = InterruptNo(7);
const STRANGER: u32 = 54_321;
const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn child_role() {
    support::child_role(|role, place| match role {
        "hostile importer" => {
            let client = place.attach(4);
            spoil(&client);
        }
        // Rings until its parent has heard it.
        "honest importer" => {
            let client = place.attach(4);
            ring(&sender_of(&client, 4));
        }
        other => panic!("{other}"),
    });
}

/// A pollable interrupt of this program.
fn try_create(client: &Client, access: Access) -> Result<InterruptCreated, ClientError> {
    let options = RegionOptions { read_only_for_others: true, ..RegionOptions::new("waiter", 4096) };
    let (trigger, waiter) = (memory(), Region::create(&options).unwrap());
    let offer = InterruptOffer {
        number: Some(NUMBER),
        kind: InterruptKind::Plain,
        access,
        trigger: trigger.fd(),
        waiter: waiter.fd(),
        pollable: true,
    };
    client.create_interrupt(&offer)
}

fn create(client: &Client, access: Access) -> InterruptCreated {
    try_create(client, access).unwrap()
}

fn receiver_of(created: InterruptCreated) -> OwnedFd {
    created.sockets.unwrap().receiver
}

fn sender_of(client: &Client, id: u32) -> OwnedFd {
    client.connect_interrupt_within(node(id), NUMBER, LIMIT).unwrap().event.unwrap()
}

fn ring(sender: &OwnedFd) {
    assert_eq!(send(sender, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL), Ok(1));
}

fn rings(receiver: &OwnedFd) -> usize {
    let mut byte = [0; 1];
    std::iter::from_fn(|| recv(receiver, &mut byte, RecvFlags::DONTWAIT).ok()).count()
}

/// Everything that cuts off who shares a socket.
fn spoil(client: &Client) {
    let address = SocketAddrUnix::new_unnamed();
    let elsewhere = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).unwrap();
    bind(&elsewhere, &address).unwrap();
    let elsewhere_named = getsockname(&elsewhere).unwrap();
    let own = sender_of(client, 4);
    connect(&own, &elsewhere_named).unwrap();
    let own = sender_of(client, 4);
    shutdown(&own, Shutdown::Both).unwrap();
    let own = sender_of(client, 4);
    rustix::fs::fcntl_setfl(&own, rustix::fs::OFlags::empty()).unwrap();
}

fn files(place: &Place) -> Vec<PathBuf> {
    let dir = place.dir().path().join("node-4.interrupts");
    std::fs::read_dir(dir)
        .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
        .unwrap_or_default()
}

#[test]
fn what_an_importer_does_to_its_socket_is_its_own_affair() {
    let place = Place::new();
    let _managers = place.start_all(&[4, 8]);
    place.await_sessions(&[4, 8]);
    let (owner, hostile, near, far) = (place.attach(4), place.attach(8), place.attach(4), place.attach(8));
    let receiver = receiver_of(create(&owner, Access::default()));
    let (near, far) = (sender_of(&near, 4), sender_of(&far, 4));
    spoil(&hostile);
    for sender in [&near, &far] {
        assert_eq!(rings(&receiver), 0);
        ring(sender);
        assert_eq!(rings(&receiver), 1);
    }
}

#[test]
fn another_user_cannot_cut_off_a_third_one() {
    let Some(place) = place_of_users() else { return };
    let both = Access { uids: vec![STRANGER, STRANGER + 1], gid: None };
    let settings = Settings { attach: both.clone(), ..support::quick() };
    let daemon = Daemon::start(&DaemonOptions { settings, ..place.options(4) }).unwrap();
    let stop = daemon.stop_handle();
    let _manager = Running { stop, thread: Some(std::thread::spawn(move || daemon.run().unwrap())) };
    let owner = place.attach(4);
    let receiver = receiver_of(create(&owner, both));
    support::play(&mut support::as_user(&place, STRANGER, STRANGER, "hostile importer"));
    assert_eq!(rings(&receiver), 0);
    support::play(&mut support::as_user(&place, STRANGER + 1, STRANGER + 1, "honest importer"));
    assert_eq!(rings(&receiver), 1);
}

#[test]
fn nothing_can_be_put_into_the_queue_of_a_socket_that_an_importer_is_given() {
    let place = Place::new();
    let _manager = place.start(4);
    let (owner, importer) = (place.attach(4), place.attach(4));
    let receiver = receiver_of(create(&owner, Access::default()));
    let autobound = |socket: &OwnedFd| {
        bind(socket, &SocketAddrUnix::new_unnamed()).unwrap();
        getsockname(socket).unwrap()
    };
    let put_into = |socket: &OwnedFd, name: SocketAddrAny| {
        connect(socket, &name).unwrap();
        send(socket, b"x", SendFlags::NOSIGNAL)
    };
    let sender = sender_of(&importer, 4);
    let other = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).unwrap();
    connect(&sender, &autobound(&other)).unwrap();
    assert_eq!(put_into(&other, autobound(&sender)), Err(Errno::PIPE), "whom the importer lets");
    let sender = sender_of(&importer, 4);
    assert_eq!(put_into(&receiver, autobound(&sender)), Err(Errno::PIPE), "its owner");
}

#[test]
fn the_name_of_a_receiving_socket_lasts_as_long_as_the_interrupt() {
    let place = Place::new();
    let manager = place.start(4);
    let owner = place.attach(4);
    let created = create(&owner, Access::default());
    assert_eq!(files(&place).len(), 1);
    // Refused: nothing stays of it.
    try_create(&owner, Access::default()).unwrap_err();
    assert_eq!(files(&place).len(), 1);
    owner.remove_interrupt(NUMBER).unwrap();
    assert_eq!(files(&place).len(), 0);
    drop(created);
    let created = create(&owner, Access::default());
    drop((created, owner));
    eventually("the name goes with its program", || files(&place).is_empty());
    drop(manager);
    assert!(!place.dir().path().join("node-4.interrupts").exists());
}

/// Rings by a connection from before and by a new one reach the descriptor that the owner polls all the time.
fn goes_on(place: &Place, restart: impl FnOnce()) {
    let (owner, importer) = (place.attach(4), place.attach(4));
    let receiver = receiver_of(create(&owner, Access::default()));
    let before = sender_of(&importer, 4);
    restart();
    eventually("the programs are back", || owner.probe(node(4)).is_ok() && importer.probe(node(4)).is_ok());
    let after = sender_of(&importer, 4);
    for sender in [&before, &after] {
        assert_eq!(rings(&receiver), 0);
        ring(sender);
        assert_eq!(rings(&receiver), 1);
    }
    owner.remove_interrupt(NUMBER).unwrap();
    assert_eq!(files(place).len(), 0);
}

#[test]
fn after_an_orderly_restart_the_manager_finds_the_sockets_again() {
    let place = Place::new();
    let mut manager = Some(place.start(4));
    goes_on(&place, || {
        drop(manager.take());
        manager = Some(place.start(4));
    });
}

#[test]
fn after_the_managers_death_the_next_one_finds_the_sockets_again() {
    let place = Place::new();
    let mut manager = Some(place.start_process(4));
    goes_on(&place, || {
        manager.take().unwrap().kill();
        manager = Some(place.start_process(4));
    });
}

#[test]
fn an_interrupt_whose_name_was_removed_is_not_there_after_a_restart() {
    let place = Place::new();
    let manager = place.start(4);
    let owner = place.attach(4);
    let _created = create(&owner, Access::default());
    for file in files(&place) {
        std::fs::remove_file(file).unwrap();
    }
    drop(manager);
    let _manager = place.start(4);
    eventually("the owner is back", || owner.probe(node(4)).is_ok());
    match place.attach(4).connect_interrupt(node(4), NUMBER) {
        Err(ClientError::Refused(Refusal::NotFound { .. })) => {}
        other => panic!("{other:?}"),
    }
}
