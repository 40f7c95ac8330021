//! Who may attach, and how a program must behave.

use std::time::Duration;

use proto::manager::{Credentials, DescriptorKind, Input, ProgramConn};
use proto::wire::program::{Access, Refusal, Reply, Request, ToManager};
use proto::wire::{self, MAX_NAME_BYTES};

use crate::actor::memory;
use crate::helpers::{KIB, connect, create_request, node, offer, segment};
use crate::world::{OWN_UID, World};

fn who(uid: u32, gids: &[u32]) -> Credentials {
    Credentials { uid, gids: gids.to_vec(), pid: 77 }
}

/// Says hello as this user; the refusal, if any.
fn hello(world: &mut World, credentials: Credentials) -> Option<Refusal> {
    let actor = world.spawn(0, credentials, "guest");
    world.actors[actor].returns = false;
    world.try_attach(actor);
    world.run_for(Duration::from_millis(100));
    assert_ne!(world.actors[actor].attached, world.actors[actor].rejected.is_some());
    assert_eq!(
        world.actors[actor].channel.is_some(),
        world.actors[actor].attached,
        "a rejected one is closed"
    );
    world.actors[actor].rejected.clone()
}

#[test]
fn own_user_and_root_may_attach_and_others_may_not() {
    let mut world = World::up(1, 1);
    assert_eq!(hello(&mut world, who(OWN_UID, &[])), None);
    assert_eq!(hello(&mut world, who(0, &[])), None);
    let refusal = hello(&mut world, who(2000, &[100])).expect("refused");
    assert_eq!(
        refusal.to_string(),
        "user 2000 may not attach to node 4 (its manager runs as user 1000): ask its owner to share it with this user, or run as the same user"
    );
    assert_eq!(world.status(0).counters.attaches, 2);
}

#[test]
fn configured_users_and_group_may_attach() {
    let mut world = World::new(1, 1);
    world.nodes[0].attach = Access { uids: vec![2000], gid: Some(500) };
    world.start(0);
    assert_eq!(hello(&mut world, who(2000, &[])), None);
    assert_eq!(hello(&mut world, who(3000, &[1, 500])), None);
    assert!(hello(&mut world, who(3000, &[1])).is_some());
}

#[test]
fn welcome_tells_the_facts() {
    let mut world = World::up(1, 1);
    let actor = world.attach(0);
    let Ok(Reply::Info(info)) = world.ask(actor, Request::NodeInfo) else { panic!("the facts") };
    assert_eq!(info, world.status(0).info);
    assert_eq!(info.node, node(4));
}

/// Sends a first message of one's own making.
fn first_words(message: &ToManager, beside: Vec<DescriptorKind>) -> (World, String) {
    let mut world = World::up(1, 1);
    let actor = world.spawn(0, who(OWN_UID, &[]), "guest");
    world.actors[actor].returns = false;
    world.connect(actor);
    world.send_raw(actor, wire::encode(message).expect("encoded"), beside);
    world.run_for(Duration::from_millis(100));
    let text = world.actors[actor].rejected.clone().expect("rejected").to_string();
    assert!(world.actors[actor].channel.is_none(), "and closed");
    assert_eq!(world.status(0).descriptors, 0);
    (world, text)
}

#[test]
fn hello_needs_the_programs_own_pidfd() {
    let hello = ToManager::Hello { name: "a".to_owned(), reattach: false };
    let (_, text) = first_words(&hello, vec![DescriptorKind::Pid(78)]);
    assert_eq!(text, "request refused: the descriptor of hello is not a pidfd of process 77");
    let (_, text) = first_words(&hello, vec![memory(1)]);
    assert_eq!(text, "request refused: the descriptor of hello is not a pidfd of process 77");
    let (_, text) = first_words(&hello, vec![]);
    assert!(text.contains("hello needs 1 descriptor(s) and 0 arrived"), "{text}");
    let (_, text) = first_words(&hello, vec![DescriptorKind::Pid(77), DescriptorKind::Pid(77)]);
    assert!(text.contains("hello needs 1 descriptor(s) and 2 arrived"), "{text}");
}

#[test]
fn a_descriptor_that_could_not_be_looked_at_is_not_called_wrong() {
    let hello = ToManager::Hello { name: "x".to_owned(), reattach: false };
    let (_, text) = first_words(&hello, vec![DescriptorKind::Unseen]);
    assert!(text.contains("no file descriptor left") && text.contains("ulimit -n"), "{text}");
}

#[test]
fn a_name_has_a_bound() {
    let name = "n".repeat(MAX_NAME_BYTES + 1);
    let (_, text) = first_words(&ToManager::Hello { name, reattach: false }, vec![DescriptorKind::Pid(77)]);
    assert_eq!(text, "request refused: the program's name has 65 bytes: use at most 64");
}

#[test]
fn hello_comes_first_and_once() {
    let (world, text) = first_words(&ToManager::Request { id: 1, body: Request::Status }, vec![]);
    assert_eq!(text, "request refused: the connection is closed, because it did not send a hello first");
    assert_eq!(world.status(0).counters.protocol_errors, 1);

    let mut world = World::up(1, 1);
    let actor = world.attach(0);
    world.actors[actor].returns = false;
    let hello = ToManager::Hello { name: String::new(), reattach: false };
    let pidfd = DescriptorKind::Pid(world.actors[actor].credentials.pid);
    world.send_raw(actor, wire::encode(&hello).expect("encoded"), vec![pidfd]);
    world.run_for(Duration::from_millis(100));
    assert!(!world.actors[actor].attached);
    assert_eq!(world.status(0).programs_total, 0);
    assert_eq!(world.status(0).descriptors, 0);
}

#[test]
fn another_version_is_told_both() {
    let mut world = World::up(1, 1);
    let actor = world.spawn(0, who(OWN_UID, &[]), "old");
    world.actors[actor].returns = false;
    world.connect(actor);
    let hello = ToManager::Hello { name: "old".to_owned(), reattach: false };
    let mut bytes = wire::encode(&hello).expect("encoded");
    let (theirs, ours) = (wire::PROTOCOL_VERSION + 1, wire::PROTOCOL_VERSION);
    bytes[4..6].copy_from_slice(&theirs.to_le_bytes());
    world.send_raw(actor, bytes, vec![DescriptorKind::Pid(77)]);
    world.run_for(Duration::from_millis(100));
    let refusal = world.actors[actor].rejected.clone().expect("rejected");
    assert_eq!(refusal, Refusal::Version { theirs, ours });
    assert_eq!(
        refusal.to_string(),
        format!(
            "the other side uses version {theirs} of the control protocol, this node manager version {ours}: install the same tieline on both sides"
        )
    );
}

#[test]
fn garbage_ends_the_connection_and_everything_of_it() {
    let mut world = World::up(2, 1);
    let (owner, importer) = (world.attach(0), world.attach(1));
    offer(&mut world, owner, segment(1));
    let (import, _) = connect(&mut world, importer, 4, segment(1));
    world.actors[owner].returns = false;
    let garbage = [b"TLN1", &wire::PROTOCOL_VERSION.to_le_bytes()[..], &[0xff; 3]].concat();
    world.send_raw(owner, garbage, vec![memory(1), memory(2)]);
    world.run_for(Duration::from_millis(100));
    let text = world.actors[owner].rejected.clone().expect("told why").to_string();
    assert!(
        text.starts_with("request refused: the connection is closed, because it sent an invalid message"),
        "{text}"
    );
    assert!(!world.nodes[1].page.alive(import));
    let status = world.status(0);
    assert_eq!((status.segments_total, status.descriptors), (0, 0));
    assert_eq!((status.counters.protocol_errors, status.counters.program_deaths), (1, 1));
}

#[test]
fn descriptors_too_many_end_the_connection_and_too_few_only_the_request() {
    let mut world = World::up(1, 1);
    let actor = world.attach(0);
    let create = create_request(segment(1), Access::default(), true);
    let refusal = world.ask(actor, create.clone()).expect_err("no memory");
    assert!(refusal.to_string().contains("segment 1 needs 1 descriptor(s) and 0 arrived"), "{refusal}");
    assert!(world.actors[actor].attached);
    world.actors[actor].returns = false;
    world.request(actor, create, vec![memory(4 * KIB), memory(4 * KIB)]);
    world.run_for(Duration::from_millis(100));
    assert!(!world.actors[actor].attached);
    assert_eq!(world.status(0).counters.protocol_errors, 2);
    assert_eq!(world.status(0).descriptors, 0);
}

#[test]
fn programs_have_a_limit() {
    let mut world = World::new(1, 1);
    world.nodes[0].limits.programs = 2;
    world.start(0);
    let process = |pid| Credentials { uid: OWN_UID, gids: vec![], pid };
    assert_eq!(hello(&mut world, process(71)), None);
    assert_eq!(hello(&mut world, process(72)), None);
    let refusal = hello(&mut world, process(73)).expect("full");
    assert_eq!(
        refusal.to_string(),
        "programs of this node: the limit of 2 is reached: raise it in the configuration, or release some"
    );
}

#[test]
fn who_says_nothing_is_closed() {
    let mut world = World::up(1, 1);
    let actor = world.spawn(0, who(OWN_UID, &[]), "mute");
    world.actors[actor].returns = false;
    world.connect(actor);
    world.run_for(Duration::from_secs(9));
    assert!(world.actors[actor].channel.is_some());
    world.run_for(Duration::from_secs(2));
    assert!(world.actors[actor].channel.is_none());
}

#[test]
fn what_comes_for_unknown_connections_is_ignored_and_its_descriptors_closed() {
    let mut world = World::up(1, 1);
    let descriptors = world.receive(0, &[memory(1), DescriptorKind::Other]);
    let message = ToManager::Request { id: 1, body: Request::Status };
    world.input(0, Input::ProgramMessage { program: ProgramConn(99), message, descriptors });
    let descriptors = world.receive(0, &[memory(1)]);
    let error = wire::CodecError::BadMagic;
    world.input(0, Input::ProgramGarbage { program: ProgramConn(99), error, descriptors });
    world.input(0, Input::ProgramGone { program: ProgramConn(99) });
    assert!(world.nodes[0].tokens.is_empty());
}

#[test]
fn a_name_cannot_write_to_terminals() {
    let mut world = World::up(1, 1);
    let actor = world.spawn(0, who(OWN_UID, &[]), "a\x1b[2J\u{202e}b");
    world.try_attach(actor);
    world.run_until("attached", |world| world.actors[actor].attached);
    assert_eq!(world.status(0).programs[0].name, "a?[2J?b");
}
