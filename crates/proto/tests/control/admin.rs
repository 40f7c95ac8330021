//! Links that are taken down, made worse, or swapped on purpose.

use proto::fault::{LinkChange, LinkFaults};
use proto::wire::program::{Event, Refusal, Reply, Request};
use proto::wire::status::LinkStatus;

use crate::helpers::{connect, node, offer, segment, try_connect};
use crate::world::{LIMIT, World};

fn change(world: &mut World, actor: usize, peer: u32, change: LinkChange) -> Result<Reply, Refusal> {
    let result = world.ask(actor, Request::ChangeLink { peer: node(peer), change });
    world.run_for(LIMIT / 2);
    result
}

fn link(world: &World, at: usize, to: u32) -> LinkStatus {
    world.status(at).links.into_iter().find(|link| link.peer == node(to)).expect("a link")
}

fn links_told(world: &mut World, actor: usize) -> Vec<(u32, bool)> {
    let events = world.events(actor).into_iter();
    events
        .filter_map(|event| match event {
            Event::Link { node, up } => Some((node.get(), up)),
            _ => None,
        })
        .collect()
}

#[test]
fn a_link_that_is_down_suspends_imports_refuses_connections_and_comes_up_again() {
    let mut world = World::up(3, 1);
    let (owner, importer, admin) = (world.attach(0), world.attach(1), world.attach(0));
    offer(&mut world, owner, segment(1));
    let (import, _) = connect(&mut world, importer, 4, segment(1));
    links_told(&mut world, importer);
    change(&mut world, admin, 8, LinkChange::Down).expect("down");
    assert!(world.nodes[1].page.suspended.contains(&import), "also at the end that did not take it down");
    assert!(!world.nodes[1].page.links[&node(4)].1);
    assert_eq!(links_told(&mut world, importer), [(4, false)]);
    let refusal = try_connect(&mut world, importer, 4, segment(1)).expect_err("down").to_string();
    assert!(refusal.contains("taken down") && refusal.contains("tieline link up"), "{refusal}");
    assert_eq!(world.ask(importer, Request::Probe { node: node(4) }), Ok(Reply::Probed { reachable: false }));
    for (at, to) in [(0, 8), (1, 4)] {
        let status = link(&world, at, to);
        assert!(status.taken_down && status.downtime_ns > 0, "{status:?}");
    }
    assert!(!link(&world, 0, 12).taken_down, "others are not touched");
    // From the end that did not take it down.
    let other = world.attach(1);
    change(&mut world, other, 4, LinkChange::Up).expect("up");
    assert!(!world.nodes[1].page.suspended.contains(&import) && world.nodes[1].page.alive(import));
    assert!(world.nodes[0].page.links[&node(8)].1 && world.nodes[1].page.links[&node(4)].1);
    assert_eq!(links_told(&mut world, importer), [(4, true)]);
    try_connect(&mut world, importer, 4, segment(1)).expect("up again");
}

#[test]
fn a_restarted_manager_hears_that_its_link_is_down() {
    let mut world = World::up(2, 1);
    let admin = world.attach(0);
    change(&mut world, admin, 8, LinkChange::Down).expect("down");
    world.kill(1);
    world.run_for(LIMIT);
    world.start(1);
    world.run_until("valid", |world| world.all_valid());
    world.run_for(LIMIT);
    assert!(link(&world, 1, 4).taken_down && link(&world, 0, 8).taken_down);
    // And the one that took it down, started anew, knows of nothing: the link stands.
    world.kill(0);
    world.run_for(LIMIT);
    world.start(0);
    world.run_until("valid", |world| world.all_valid());
    world.run_for(LIMIT);
    assert!(!link(&world, 1, 4).taken_down && !link(&world, 0, 8).taken_down);
}

#[test]
fn an_import_made_while_the_link_is_down_by_resumption_is_suspended() {
    let mut world = World::up(2, 1);
    let (owner, importer, admin) = (world.attach(0), world.attach(1), world.attach(0));
    offer(&mut world, owner, segment(1));
    connect(&mut world, importer, 4, segment(1));
    change(&mut world, admin, 8, LinkChange::Down).expect("down");
    world.cut(0, 1);
    world.run_until("valid", |world| world.all_valid());
    world.run_for(LIMIT);
    assert_eq!(world.nodes[1].page.suspended.len(), 1);
    change(&mut world, admin, 8, LinkChange::Up).expect("up");
    assert!(world.nodes[1].page.suspended.is_empty());
}

#[test]
fn faults_are_shown_in_the_page_and_the_status_and_are_checked() {
    let mut world = World::up(2, 1);
    let admin = world.attach(0);
    let faults = LinkFaults { lose_ppm: 10_000, ..LinkFaults::default() };
    change(&mut world, admin, 8, LinkChange::Faults(faults)).expect("faults");
    assert_eq!(world.nodes[0].page.faults[&node(8)], faults);
    assert_eq!((link(&world, 0, 8).faults, link(&world, 1, 4).faults), (faults, LinkFaults::default()));
    let wrong = LinkFaults { lose_ppm: u32::MAX, ..LinkFaults::default() };
    let refusal = change(&mut world, admin, 8, LinkChange::Faults(wrong)).expect_err("impossible");
    assert!(matches!(&refusal, Refusal::Invalid(text) if text.contains("loss")), "{refusal}");
}

#[test]
fn swapped_cables_lead_to_the_other_node() {
    let mut world = World::up(3, 1);
    let (eight, twelve, caller) = (world.attach(1), world.attach(2), world.attach(0));
    offer(&mut world, twelve, segment(7));
    for (peer, other) in [(8, 12), (12, 8)] {
        change(&mut world, caller, peer, LinkChange::LeadsTo(Some(node(other)))).expect("swapped");
    }
    assert_eq!((link(&world, 0, 8).partner, link(&world, 0, 12).partner), (node(12), node(8)));
    connect(&mut world, caller, 8, segment(7));
    let refusal = try_connect(&mut world, caller, 12, segment(7)).expect_err("it is at the other end");
    assert!(matches!(refusal, Refusal::NotFound { .. }), "{refusal}");
    change(&mut world, caller, 8, LinkChange::LeadsTo(None)).expect("as it was");
    offer(&mut world, eight, segment(9));
    connect(&mut world, caller, 8, segment(9));
}

#[test]
fn strangers_unknown_nodes_and_managers_without_faults_refuse() {
    let mut world = World::up(2, 1);
    let admin = world.attach(0);
    let refusal = change(&mut world, admin, 400, LinkChange::Down).expect_err("nobody").to_string();
    assert!(refusal.contains("node 400"), "{refusal}");
}
