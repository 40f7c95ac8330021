//! Interrupts and their producers.

use std::time::Duration;

use proto::ids::{InterruptNo, NodeId};
use proto::manager::DescriptorKind;
use proto::wire::program::{
    Access, Event, Imported, Incarnation, InterruptKind, LossReason, Refusal, Reply, Request,
};

use crate::actor::{interrupt_parts, memory, new_interrupt};
use crate::helpers::{connect_interrupt, node, offer_interrupt};
use crate::world::World;

fn create(number: Option<u32>, pollable: bool) -> Request {
    let (access, incarnation) = (Access::default(), Incarnation(5));
    let number = number.map(InterruptNo);
    Request::CreateInterrupt {
        number,
        kind: InterruptKind::Data,
        access,
        incarnation,
        pollable,
        again: false,
    }
}

#[test]
fn regions_are_checked() {
    let mut world = World::up(1, 1);
    let actor = world.attach(0);
    let open = memory(4096);
    let waiter = DescriptorKind::Memory { size_bytes: 4096, size_sealed: true, write_sealed: true };
    let loose = DescriptorKind::Memory { size_bytes: 4096, size_sealed: false, write_sealed: true };
    for (beside, pollable, text) in [
        (
            vec![open, open],
            false,
            "the waiter region of interrupt 7 can still be mapped for writing: seal it with F_SEAL_FUTURE_WRITE",
        ),
        (vec![loose, waiter], false, "the trigger region of interrupt 7 can still be resized"),
        (vec![open, loose], false, "the waiter region of interrupt 7 can still be resized"),
        (vec![open, DescriptorKind::Event], false, "the waiter region of interrupt 7 is not a memfd"),
        (
            vec![open, waiter, DescriptorKind::Other, DescriptorKind::Event],
            true,
            "the socket of interrupt 7 is not",
        ),
        (
            vec![open, waiter, DescriptorKind::Event, DescriptorKind::Other],
            true,
            "the socket of interrupt 7 is not",
        ),
        (vec![open, waiter, DescriptorKind::Unseen, DescriptorKind::Unseen], true, "no file descriptor left"),
        (
            vec![open, DescriptorKind::Event, DescriptorKind::Event],
            true,
            "needs 2 descriptor(s) and 1 arrived",
        ),
    ] {
        let refusal = world.ask_with(actor, create(Some(7), pollable), beside).expect_err("refused");
        assert!(refusal.to_string().contains(text), "{refusal}");
    }
    assert_eq!(world.status(0).descriptors, 1);
    world.ask_with(actor, create(Some(7), true), new_interrupt(true)).expect("created");
    assert_eq!(world.status(0).descriptors, 4);
}

#[test]
fn the_owner_is_given_both_sides_of_a_pollable_interrupt_and_importers_the_sending_one() {
    let mut world = World::up(2, 1);
    let (owner, importer) = (world.attach(0), world.attach(1));
    let beside = world.ask_with(owner, create(Some(7), true), new_interrupt(true)).expect("created").1;
    assert_eq!(beside, [DescriptorKind::Event; 2]);
    // The receiving side is nobody's but the owner's.
    assert_eq!(world.status(0).descriptors, 4);
    let body = Request::ConnectInterrupt { node: NodeId::nth(0).expect("a node"), number: InterruptNo(7) };
    let beside = world.ask_with(importer, body, Vec::new()).expect("connected").1;
    assert_eq!(beside, interrupt_parts(true));
    let again = Request::CreateInterrupt {
        number: Some(InterruptNo(8)),
        kind: InterruptKind::Plain,
        access: Access::default(),
        incarnation: Incarnation(6),
        pollable: true,
        again: true,
    };
    let beside = world.ask_with(owner, again, interrupt_parts(true)).expect("created").1;
    assert_eq!(beside, [DescriptorKind::Event]);
}

#[test]
fn a_program_that_brings_sockets_of_its_own_is_cut_off() {
    let mut world = World::up(1, 1);
    let actor = world.attach(0);
    // What the driver makes comes behind them.
    let beside = [new_interrupt(true), vec![DescriptorKind::Event; 2]].concat();
    world.request(actor, create(Some(7), true), beside);
    world.run_until("the end of the connection", |world| world.actors[actor].rejected.is_some());
    assert_eq!(world.status(0).interrupts_total, 0);
}

#[test]
fn numbers_are_wished_or_drawn() {
    let mut world = World::up(1, 1);
    let actor = world.attach(0);
    offer_interrupt(&mut world, actor, 7, InterruptKind::Plain);
    let refusal = world.ask_with(actor, create(Some(7), false), interrupt_parts(false)).expect_err("taken");
    assert!(matches!(&refusal, Refusal::InUse { what, .. } if what == "interrupt 7"), "{refusal}");
    let mut drawn = Vec::new();
    for _ in 0..3 {
        let reply = world.ask_with(actor, create(None, false), interrupt_parts(false)).expect("created").0;
        let Reply::InterruptCreated { number } = reply else { panic!("{reply:?}") };
        drawn.push(number);
    }
    drawn.dedup();
    assert_eq!(drawn.len(), 3);
    assert_eq!(world.status(0).interrupts_total, 4);
}

#[test]
fn the_owner_of_a_data_interrupt_gets_the_producers_pidfd() {
    for place in [0, 1] {
        for kind in [InterruptKind::Data, InterruptKind::Plain] {
            let mut world = World::up(2, 1);
            let (owner, producer) = (world.attach(0), world.attach(place));
            offer_interrupt(&mut world, owner, 7, kind);
            let (_, connection, number) = connect_interrupt(&mut world, producer, 4, 7).expect("connected");
            world.run_for(Duration::from_millis(10));
            let (event, beside) = world.actors[owner].events.pop().expect("told");
            let what = Imported::Interrupt(InterruptNo(7));
            let from = world.nodes[place].id;
            let importer = world.importer(producer);
            assert_eq!(event, Event::Connected { what, node: from, connection, producer: number, importer });
            let pid = world.actors[producer].credentials.pid;
            let expected = if kind == InterruptKind::Data { vec![DescriptorKind::Pid(pid)] } else { vec![] };
            assert_eq!(beside, expected);
            world.run_for(Duration::from_millis(100));
            assert_eq!(world.nodes[0].tokens.len() as u64, world.status(0).descriptors);
        }
    }
}

#[test]
fn producers_are_numbered_upwards_and_numbers_rest_before_they_come_again() {
    let mut world = World::up(2, 1);
    let (owner, producer) = (world.attach(0), world.attach(1));
    offer_interrupt(&mut world, owner, 7, InterruptKind::Data);
    let mut last = None;
    for expected in 0..5 {
        let (import, _, number) = connect_interrupt(&mut world, producer, 4, 7).expect("connected");
        assert_eq!(number, expected);
        if let Some(before) = last.replace(import) {
            world.ask(producer, Request::Disconnect { import: before }).expect("disconnected");
        }
    }
}

#[test]
fn a_removed_interrupt_is_lost_to_its_producers() {
    let mut world = World::up(2, 1);
    let (owner, producer) = (world.attach(0), world.attach(1));
    offer_interrupt(&mut world, owner, 7, InterruptKind::Plain);
    let (import, ..) = connect_interrupt(&mut world, producer, 4, 7).expect("connected");
    world.ask(owner, Request::RemoveInterrupt { number: InterruptNo(7) }).expect("removed");
    world.run_for(Duration::from_millis(10));
    let lost = Event::Lost { import, reason: LossReason::Removed };
    assert_eq!(world.events(producer), [lost]);
    assert_eq!(
        connect_interrupt(&mut world, producer, 4, 7),
        Err(Refusal::NotFound { what: "interrupt 7".to_owned(), node: node(4) })
    );
    assert!(world.ask(owner, Request::RemoveInterrupt { number: InterruptNo(7) }).is_err());
}

#[test]
fn interrupts_have_a_limit() {
    let mut world = World::new(1, 1);
    world.nodes[0].limits.interrupts = 1;
    world.start(0);
    let actor = world.attach(0);
    world.ask_with(actor, create(None, false), interrupt_parts(false)).expect("created");
    let refusal = world.ask_with(actor, create(None, false), interrupt_parts(false)).expect_err("full");
    assert_eq!(refusal, Refusal::Limit { what: "interrupts of this node".to_owned(), limit: 1 });
}
