//! The corpora of the fuzz targets, as an ordinary test.
//!
//! Files named `ok-…` are messages as this version says them: they must be understood, and said in the same
//! bytes. If one is not any more, the meaning of the wire has changed: raise `PROTOCOL_VERSION` and write the
//! files anew (`cargo test -p proto --test wire -- --ignored write_the_corpora`).

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};

use proto::ids::{GroupId, InterruptNo, NodeId, PortNo, SegmentId, SegmentKey};
use proto::wire::agent::{AgentEnd, AgentNo, FromAgent, ToAgent};
use proto::wire::network::{ImporterEnd, ImporterRail, OwnerEnd, OwnerRail};
use proto::wire::peer::{Echo, PeerMessage, PeerReply, PeerRequest, Requester};
use proto::wire::program::{
    Access, ConnectionId, Event, ImportSlot, Imported, Importer, Incarnation, InterruptKind, LossReason,
    Refusal, Reply, Request, ToManager, ToProgram,
};
use proto::wire::relay::Forward;
use proto::wire::{decode, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::no_type_panics;

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

fn files(target: &str) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder(target)).expect("the corpus is there");
    entries
        .map(|entry| {
            let path = entry.expect("an entry").path();
            (
                path.file_name().expect("a name").to_string_lossy().into_owned(),
                fs::read(path).expect("a file"),
            )
        })
        .collect()
}

fn replay<T: Serialize + DeserializeOwned + Debug>(target: &str) {
    let files = files(target);
    assert!(files.iter().filter(|(name, _)| name.starts_with("ok-")).count() >= 5, "{target} has seeds");
    assert!(files.iter().any(|(name, _)| !name.starts_with("ok-")), "{target} has damaged seeds");
    for (name, bytes) in files {
        no_type_panics(&bytes);
        if name.starts_with("ok-") {
            let message = decode::<T>(&bytes);
            let message =
                message.unwrap_or_else(|error| panic!("{target}/{name} is not understood: {error}"));
            assert_eq!(encode(&message).expect("encoded"), bytes, "{target}/{name}");
        }
    }
}

#[test]
fn corpora_are_messages_or_errors() {
    replay::<ToManager>("to_manager");
    replay::<ToProgram>("to_program");
    replay::<PeerMessage>("peer_message");
}

fn node(number: u32) -> NodeId {
    NodeId::new(number).expect("an id")
}

fn importer_end() -> ImporterEnd {
    let rail = |end_point, session| ImporterRail { end_point, session };
    ImporterEnd { rails: vec![rail(vec![1, 2, 3], 0x0123_4567_89ab_cdef), rail(vec![7], 8)] }
}

fn owner_end() -> OwnerEnd {
    OwnerEnd { rails: vec![OwnerRail { end_point: vec![4, 5], key: vec![6; 32] }; 2] }
}

fn requests() -> Vec<Request> {
    let (key, number) = (SegmentKey::Segment(SegmentId(7)), InterruptNo(3));
    let access = Access { uids: vec![1000, 2000], gid: Some(100) };
    let (connection, incarnation) = (ConnectionId(0x1234_5678_9abc_0001), Incarnation(u64::MAX));
    vec![
        Request::CreateSegment {
            key,
            size_bytes: 1 << 20,
            access: access.clone(),
            incarnation,
            available: true,
            shared: false,
        },
        Request::SetAvailable { key, available: false, disconnect: true },
        Request::RemoveSegment { key: SegmentKey::GroupCopy(GroupId(1)), force: true },
        Request::ConnectSegment { node: node(8), key },
        Request::ConnectSegment { node: node(8), key: SegmentKey::Port(PortNo(9)) },
        Request::CreateInterrupt {
            number: None,
            kind: InterruptKind::Data,
            access,
            incarnation,
            pollable: true,
            again: true,
        },
        Request::RemoveInterrupt { number },
        Request::ConnectInterrupt { node: node(260), number },
        Request::Disconnect { import: ImportSlot(5) },
        Request::ConnectByNetwork { node: node(8), what: Imported::Segment(key), end: importer_end() },
        Request::AnswerByNetwork { connection, end: Ok(owner_end()) },
        Request::AnswerByNetwork { connection, end: Err("no libfabric".to_owned()) },
        Request::ResumeImport { node: node(4), connection, incarnation, what: Imported::Interrupt(number) },
        Request::Probe { node: node(4) },
        Request::WatchGroup { group: GroupId(2) },
        Request::UnwatchGroup { group: GroupId(2) },
        Request::NodeInfo,
        Request::Status,
        Request::StatusOf { node: node(8) },
        Request::ClearCounters,
        Request::StartAgent { node: node(8) },
        Request::AskOwner { import: ImportSlot(5), question: vec![1, 0, 3, 0, 0, 0] },
        Request::AnswerImporter { connection, number: 300, answer: vec![9; 32] },
        Request::Shutdown,
        Request::ResumeExport {
            what: Imported::Segment(key),
            node: node(8),
            connection,
            importer: Importer { uid: 1000, pid: 77 },
        },
        Request::ShareSegment { key },
        Request::AttachSegment { key },
    ]
}

fn to_manager() -> Vec<ToManager> {
    let hello = ToManager::Hello { name: "writer".to_owned(), reattach: true };
    let requests = requests().into_iter().zip(1..);
    requests.map(|(body, id)| ToManager::Request { id, body }).chain([hello]).collect()
}

fn to_program() -> Vec<ToProgram> {
    let (import, connection, incarnation) = (ImportSlot(3), ConnectionId(9), Incarnation(11));
    let what = Imported::Segment(SegmentKey::Segment(SegmentId(7)));
    let replies = [
        Reply::Done,
        Reply::Segment { import, connection, size_bytes: 4096, incarnation },
        Reply::InterruptCreated { number: InterruptNo(1) },
        Reply::Interrupt {
            import,
            connection,
            incarnation,
            kind: InterruptKind::Plain,
            producer: 2,
            pollable: true,
        },
        Reply::OnOtherHost { addresses: vec![[10, 0, 0, 1].into(), [10, 0, 1, 1].into()] },
        Reply::ByNetwork { import, connection, size_bytes: 4096, incarnation, end: owner_end() },
        Reply::Resumed { import },
        Reply::Probed { reachable: true },
        Reply::Members(vec![node(4), node(8)]),
        Reply::Agent { agent: AgentNo(3) },
        Reply::Answer { answer: vec![9; 32] },
    ];
    let refusals = [
        Refusal::InUse { what: "segment 7".to_owned(), owner: "program `a` (pid 1)".to_owned() },
        Refusal::NotFound { what: "segment 7".to_owned(), node: node(4) },
        Refusal::Unreachable { node: node(4), why: "its manager was stopped".to_owned() },
        Refusal::Version { theirs: 9, ours: 1 },
        Refusal::NotShared { what: "segment 7".to_owned(), node: node(4) },
        Refusal::OwnerBusy { what: "segment 7".to_owned(), node: node(4) },
        Refusal::NoDataLink {
            what: "segment 7".to_owned(),
            node: node(8),
            host: "b".to_owned(),
            why: "no".to_owned(),
        },
        Refusal::NoDescriptors { limit: Some(1024) },
        Refusal::NoAgents { node: node(8) },
    ];
    let events = [
        Event::Connected {
            what,
            node: node(8),
            connection,
            producer: 0,
            importer: Importer { uid: 1000, pid: 77 },
        },
        Event::WantedByNetwork {
            what,
            node: node(8),
            connection,
            end: importer_end(),
            addresses: vec![[10, 0, 0, 1].into()],
        },
        Event::Disconnected { what, node: node(8), connection, died: true },
        Event::Lost { import, reason: LossReason::OwnerDied },
        Event::Link { node: node(8), up: true },
        Event::Member { group: GroupId(1), node: node(12), joined: false },
        Event::Availability { key: SegmentKey::Segment(SegmentId(7)), available: true },
        Event::AgentEnded { agent: AgentNo(3), end: AgentEnd::Exited { status: 0 } },
        Event::AgentEnded { agent: AgentNo(3), end: AgentEnd::Killed { signal: 9 } },
        Event::Asked { connection: ConnectionId(9), number: 300, question: vec![1, 0, 3, 0, 0, 0] },
    ];
    let mut all = vec![ToProgram::Rejected(Refusal::Invalid("no".to_owned()))];
    all.extend(replies.map(|reply| ToProgram::Reply { id: 300, result: Ok(reply) }));
    all.extend(refusals.map(|refusal| ToProgram::Reply { id: 301, result: Err(refusal) }));
    all.extend(events.map(ToProgram::Event));
    all
}

fn peer_messages() -> Vec<PeerMessage> {
    let requester = || Requester { uid: 1000, gids: vec![4, 100], pid: 77, name: "reader".to_owned() };
    let (connection, incarnation) = (ConnectionId(9), Incarnation(11));
    let key = SegmentKey::Segment(SegmentId(7));
    let number = InterruptNo(3);
    let hello = PeerMessage::Hello {
        node: node(8),
        incarnation,
        cluster: "default".to_owned(),
        host: "here".to_owned(),
    };
    let requests = [
        PeerRequest::ConnectSegment { key, requester: requester() },
        PeerRequest::ConnectInterrupt { number, requester: requester() },
        PeerRequest::ConnectByNetwork {
            what: Imported::Segment(key),
            requester: requester(),
            end: importer_end(),
        },
        PeerRequest::Resume { connection, incarnation, what: Imported::Segment(key), requester: requester() },
        PeerRequest::Status,
        PeerRequest::StartAgent { requester: requester() },
        PeerRequest::Relay {
            forward: Forward::EndPoint { from: node(8), at: ([10, 0, 0, 1], 40_000).into() },
        },
        PeerRequest::AskOwner { connection, question: vec![1, 0, 3, 0, 0, 0] },
    ];
    let replies = [
        PeerReply::Segment { connection, size_bytes: 4096, incarnation },
        PeerReply::Interrupt {
            connection,
            incarnation,
            kind: InterruptKind::Data,
            producer: 2,
            pollable: false,
        },
        PeerReply::ByNetwork { connection, size_bytes: 4096, incarnation, end: owner_end() },
        PeerReply::Resumed,
        PeerReply::Agent { agent: AgentNo(3) },
        PeerReply::Relay { at: ([10, 0, 0, 3], 40_001).into() },
        PeerReply::Answer { answer: vec![9; 32] },
    ];
    let mut all = vec![
        hello,
        PeerMessage::Rejected(Refusal::Denied { what: "join".to_owned(), uid: 5 }),
        PeerMessage::Heartbeat {
            sequence: 1 << 40,
            echo: Some(Echo { sequence: 1 << 39, held_ns: 70_000_000, clock_ns: 1 << 50 }),
        },
        PeerMessage::Bye,
        PeerMessage::Lost { connection, reason: LossReason::Withdrawn },
        PeerMessage::Released { connection, died: true },
        PeerMessage::Member { group: GroupId(1), joined: true },
        PeerMessage::Relays,
        PeerMessage::Via { relay: node(12) },
        PeerMessage::ForwardOver {
            forward: Forward::EndPoint { from: node(8), at: ([10, 0, 0, 1], 40_000).into() },
        },
        PeerMessage::ForwardsKept { forwards: vec![Forward::Manager { to: node(8) }] },
        PeerMessage::ToAgent { agent: AgentNo(3), word: ToAgent::Bytes(vec![1, 2]) },
        PeerMessage::ToAgent { agent: AgentNo(3), word: ToAgent::Credit(16_384) },
        PeerMessage::ToAgent { agent: AgentNo(3), word: ToAgent::InputEnded },
        PeerMessage::ToAgent { agent: AgentNo(3), word: ToAgent::Stop },
        PeerMessage::FromAgent { agent: AgentNo(3), word: FromAgent::Bytes(vec![1, 2]) },
        PeerMessage::FromAgent { agent: AgentNo(3), word: FromAgent::Credit(16_384) },
        PeerMessage::FromAgent {
            agent: AgentNo(3),
            word: FromAgent::Ended(AgentEnd::Lost { why: "no".to_owned() }),
        },
    ];
    all.extend(requests.map(|body| PeerMessage::Request { id: 5, body }));
    all.extend(replies.map(|reply| PeerMessage::Reply { id: 5, result: Ok(reply) }));
    all
}

/// Writes each message, and some of them damaged in one place each.
fn write<T: Serialize>(target: &str, messages: &[T]) {
    let folder = folder(target);
    fs::create_dir_all(&folder).expect("a folder");
    for (index, message) in messages.iter().enumerate() {
        let bytes = encode(message).expect("encoded");
        fs::write(folder.join(format!("ok-{index:02}")), &bytes).expect("written");
        let mut damaged = bytes.clone();
        match index % 4 {
            0 => damaged.truncate(bytes.len() / 2 + 3),
            1 => damaged.iter_mut().skip(7).for_each(|byte| *byte |= 0x80),
            2 => damaged.push(0),
            _ => damaged[6] = damaged[6].wrapping_add(5),
        }
        fs::write(folder.join(format!("damaged-{index:02}")), &damaged).expect("written");
    }
}

#[test]
#[ignore = "writes the seeds of the fuzz targets; run it when PROTOCOL_VERSION is raised"]
fn write_the_corpora() {
    write("to_manager", &to_manager());
    write("to_program", &to_program());
    write("peer_message", &peer_messages());
}
