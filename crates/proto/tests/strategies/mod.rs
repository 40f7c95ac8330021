//! Arbitrary messages: mostly from a small world, so that they meet each other, now and then from the whole
//! range.

pub mod node_status;

use std::net::SocketAddr;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::result::maybe_err;
use proto::ids::{GroupId, InterruptNo, NodeId, PortNo, SegmentId, SegmentKey};
use proto::wire::agent::{AGENT_WINDOW_BYTES, AgentEnd, AgentNo, FromAgent, ToAgent};
use proto::wire::network::{
    ImporterEnd, ImporterRail, MAX_ANSWER_BYTES, MAX_QUESTION_BYTES, OwnerEnd, OwnerRail, RailDown,
};
use proto::wire::peer::{Echo, PeerMessage, PeerReply, PeerRequest, Requester};
use proto::wire::program::{
    Access, ConnectionId, ImportSlot, Imported, Importer, Incarnation, InterruptKind, LossReason, Refusal,
    Request, ToManager,
};
use proto::wire::relay::Forward;

pub fn small_u32() -> impl Strategy<Value = u32> {
    prop_oneof![9 => 0u32..4, 1 => any::<u32>()]
}

pub fn small_u64() -> impl Strategy<Value = u64> {
    prop_oneof![9 => 0u64..6, 1 => any::<u64>()]
}

pub fn text() -> impl Strategy<Value = String> {
    prop_oneof![8 => "[a-z]{0,8}", 1 => "\\PC{0,40}", 1 => Just("x".repeat(300))]
}

pub fn node() -> impl Strategy<Value = NodeId> {
    let any = (1u32..4096).prop_filter_map("no node id", |index| NodeId::new(index * 4).ok());
    prop_oneof![9 => (0usize..4).prop_map(|index| NodeId::nth(index).expect("an id")), 1 => any]
}

pub fn group() -> impl Strategy<Value = GroupId> {
    small_u32().prop_map(GroupId)
}

pub fn segment_key() -> impl Strategy<Value = SegmentKey> {
    prop_oneof![
        small_u32().prop_map(|id| SegmentKey::Segment(SegmentId(id))),
        group().prop_map(SegmentKey::GroupCopy),
        small_u32().prop_map(|port| SegmentKey::Port(PortNo(port)))
    ]
}

pub fn interrupt() -> impl Strategy<Value = InterruptNo> {
    small_u32().prop_map(InterruptNo)
}

pub fn imported() -> impl Strategy<Value = Imported> {
    prop_oneof![segment_key().prop_map(Imported::Segment), interrupt().prop_map(Imported::Interrupt)]
}

pub fn connection() -> impl Strategy<Value = ConnectionId> {
    small_u64().prop_map(ConnectionId)
}

pub fn incarnation() -> impl Strategy<Value = Incarnation> {
    small_u64().prop_map(Incarnation)
}

pub fn importer() -> impl Strategy<Value = Importer> {
    (prop_oneof![Just(1000u32), any::<u32>()], small_u32()).prop_map(|(uid, pid)| Importer { uid, pid })
}

pub fn slot() -> impl Strategy<Value = ImportSlot> {
    small_u32().prop_map(ImportSlot)
}

pub fn access() -> impl Strategy<Value = Access> {
    let listed = (vec(any::<u32>(), 0..70), option::of(any::<u32>()));
    prop_oneof![3 => Just(Access::default()), 1 => listed.prop_map(|(uids, gid)| Access { uids, gid })]
}

pub fn kind() -> impl Strategy<Value = InterruptKind> {
    prop_oneof![Just(InterruptKind::Plain), Just(InterruptKind::Data)]
}

pub fn loss() -> impl Strategy<Value = LossReason> {
    prop_oneof![
        Just(LossReason::Withdrawn),
        Just(LossReason::Removed),
        Just(LossReason::OwnerDied),
        Just(LossReason::NodeLost)
    ]
}

pub fn requester() -> impl Strategy<Value = Requester> {
    (prop_oneof![Just(1000u32), any::<u32>()], vec(any::<u32>(), 0..300), any::<u32>(), text())
        .prop_map(|(uid, gids, pid, name)| Requester { uid, gids, pid, name })
}

/// Of a question or an answer about rails: rarely too many.
pub fn words(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![9 => vec(any::<u8>(), 0..40), 1 => (most - 2..most + 3).prop_map(|bytes| vec![7; bytes])]
}

fn object_request() -> impl Strategy<Value = Request> {
    let (key, number) = (segment_key, interrupt);
    prop_oneof![
        6 => (key(), 1u64..10_000, access(), incarnation(), any::<bool>(), any::<bool>()).prop_map(
            |(key, size_bytes, access, incarnation, available, shared)| Request::CreateSegment {
                key, size_bytes, access, incarnation, available, shared
            }
        ),
        1 => (key(), any::<u64>(), access(), incarnation(), any::<bool>(), any::<bool>()).prop_map(
            |(key, size_bytes, access, incarnation, available, shared)| Request::CreateSegment {
                key, size_bytes, access, incarnation, available, shared
            }
        ),
        2 => (key(), any::<bool>(), any::<bool>()).prop_map(|(key, available, disconnect)| {
            Request::SetAvailable { key, available, disconnect }
        }),
        2 => key().prop_map(|key| Request::ShareSegment { key }),
        2 => key().prop_map(|key| Request::AttachSegment { key }),
        2 => (key(), any::<bool>()).prop_map(|(key, force)| Request::RemoveSegment { key, force }),
        6 => (option::of(number()), kind(), access(), incarnation(), any::<bool>(), any::<bool>()).prop_map(
            |(number, kind, access, incarnation, pollable, again)| Request::CreateInterrupt {
                number, kind, access, incarnation, pollable, again
            }
        ),
        1 => number().prop_map(|number| Request::RemoveInterrupt { number }),
    ]
}

fn connection_request() -> impl Strategy<Value = Request> {
    prop_oneof![
        5 => (node(), segment_key()).prop_map(|(node, key)| Request::ConnectSegment { node, key }),
        5 => (node(), interrupt()).prop_map(|(node, number)| Request::ConnectInterrupt { node, number }),
        3 => (node(), imported(), importer_end())
            .prop_map(|(node, what, end)| Request::ConnectByNetwork { node, what, end }),
        3 => (connection(), maybe_err(owner_end(), text()))
            .prop_map(|(connection, end)| Request::AnswerByNetwork { connection, end }),
        3 => slot().prop_map(|import| Request::Disconnect { import }),
        2 => (slot(), vec((any::<u8>(), text()), 0..6)).prop_map(|(import, down)| Request::TellRails {
            import,
            down: down.into_iter().map(|(rail, why)| RailDown { rail, why }).collect(),
        }),
        3 => (slot(), words(MAX_QUESTION_BYTES))
            .prop_map(|(import, question)| Request::AskOwner { import, question }),
        3 => (connection(), small_u64(), words(MAX_ANSWER_BYTES)).prop_map(
            |(connection, number, answer)| Request::AnswerImporter { connection, number, answer }
        ),
        4 => (node(), connection(), incarnation(), imported()).prop_map(
            |(node, connection, incarnation, what)| Request::ResumeImport { node, connection, incarnation, what }
        ),
        3 => (imported(), node(), connection(), importer()).prop_map(
            |(what, node, connection, importer)| Request::ResumeExport { what, node, connection, importer }
        ),
    ]
}

/// Any request but the one that ends the manager.
pub fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        10 => object_request(),
        10 => connection_request(),
        1 => node().prop_map(|node| Request::Probe { node }),
        2 => group().prop_map(|group| Request::WatchGroup { group }),
        1 => group().prop_map(|group| Request::UnwatchGroup { group }),
        1 => Just(Request::NodeInfo),
        1 => Just(Request::Status),
        1 => node().prop_map(|node| Request::StatusOf { node }),
        3 => node().prop_map(|node| Request::StartAgent { node }),
        1 => Just(Request::ClearCounters),
    ]
}

pub fn to_manager() -> impl Strategy<Value = ToManager> {
    prop_oneof![
        1 => (text(), any::<bool>()).prop_map(|(name, reattach)| ToManager::Hello { name, reattach }),
        99 => (any::<u64>(), request()).prop_map(|(id, body)| ToManager::Request { id, body }),
    ]
}

pub fn refusal() -> impl Strategy<Value = Refusal> {
    prop_oneof![
        (text(), text()).prop_map(|(what, owner)| Refusal::InUse { what, owner }),
        (text(), node()).prop_map(|(what, node)| Refusal::NotFound { what, node }),
        (text(), node()).prop_map(|(what, node)| Refusal::NotAvailable { what, node }),
        (text(), any::<u32>()).prop_map(|(what, uid)| Refusal::Denied { what, uid }),
        (node(), text()).prop_map(|(node, why)| Refusal::Unreachable { node, why }),
        (text(), any::<u32>()).prop_map(|(what, connections)| Refusal::Busy { what, connections }),
        (text(), any::<u64>()).prop_map(|(what, limit)| Refusal::Limit { what, limit }),
        text().prop_map(Refusal::Invalid),
        (any::<u16>(), any::<u16>()).prop_map(|(theirs, ours)| Refusal::Version { theirs, ours }),
        (text(), node()).prop_map(|(what, node)| Refusal::NotShared { what, node }),
        (text(), node()).prop_map(|(what, node)| Refusal::OwnerBusy { what, node }),
        option::of(any::<u64>()).prop_map(|limit| Refusal::NoDescriptors { limit }),
        node().prop_map(|node| Refusal::NoAgents { node }),
        (text(), node(), text(), text()).prop_map(|(what, node, host, why)| Refusal::NoDataLink {
            what,
            node,
            host,
            why
        }),
    ]
}

/// Some are longer than is allowed.
pub fn importer_end() -> impl Strategy<Value = ImporterEnd> {
    let rail = (vec(any::<u8>(), 0..1110), any::<u64>())
        .prop_map(|(end_point, session)| ImporterRail { end_point, session });
    vec(rail, 0..6).prop_map(|rails| ImporterEnd { rails })
}

/// Some are longer than is allowed.
pub fn owner_end() -> impl Strategy<Value = OwnerEnd> {
    let rail = (vec(any::<u8>(), 0..1110), vec(any::<u8>(), 0..66))
        .prop_map(|(end_point, key)| OwnerRail { end_point, key });
    vec(rail, 0..6).prop_map(|rails| OwnerEnd { rails })
}

pub fn agent_no() -> impl Strategy<Value = AgentNo> {
    small_u64().prop_map(AgentNo)
}

pub fn agent_end() -> impl Strategy<Value = AgentEnd> {
    prop_oneof![
        any::<i32>().prop_map(|status| AgentEnd::Exited { status }),
        any::<i32>().prop_map(|signal| AgentEnd::Killed { signal }),
        text().prop_map(|why| AgentEnd::Lost { why }),
    ]
}

/// Some pieces are longer than is allowed.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![8 => vec(any::<u8>(), 0..40), 1 => (0..=20_000usize).prop_map(|bytes| vec![7; bytes])]
}

fn credit() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 0..=AGENT_WINDOW_BYTES, 1 => any::<u32>()]
}

pub fn to_agent() -> impl Strategy<Value = ToAgent> {
    prop_oneof![
        4 => piece().prop_map(ToAgent::Bytes),
        2 => credit().prop_map(ToAgent::Credit),
        1 => Just(ToAgent::InputEnded),
        1 => Just(ToAgent::Stop),
    ]
}

pub fn from_agent() -> impl Strategy<Value = FromAgent> {
    prop_oneof![
        4 => piece().prop_map(FromAgent::Bytes),
        2 => credit().prop_map(FromAgent::Credit),
        1 => agent_end().prop_map(FromAgent::Ended),
    ]
}

fn socket() -> impl Strategy<Value = SocketAddr> {
    any::<(u16, u8)>().prop_map(|(port, host)| SocketAddr::from(([10, 0, 0, host], port)))
}

fn forward() -> impl Strategy<Value = Forward> {
    prop_oneof![
        node().prop_map(|to| Forward::Manager { to }),
        (node(), socket()).prop_map(|(from, at)| Forward::EndPoint { from, at }),
    ]
}

fn peer_request() -> impl Strategy<Value = PeerRequest> {
    prop_oneof![
        (segment_key(), requester())
            .prop_map(|(key, requester)| PeerRequest::ConnectSegment { key, requester }),
        (interrupt(), requester())
            .prop_map(|(number, requester)| PeerRequest::ConnectInterrupt { number, requester }),
        (imported(), requester(), importer_end())
            .prop_map(|(what, requester, end)| PeerRequest::ConnectByNetwork { what, requester, end }),
        (connection(), incarnation(), imported(), requester()).prop_map(
            |(connection, incarnation, what, requester)| PeerRequest::Resume {
                connection,
                incarnation,
                what,
                requester
            }
        ),
        Just(PeerRequest::Status),
        requester().prop_map(|requester| PeerRequest::StartAgent { requester }),
        forward().prop_map(|forward| PeerRequest::Relay { forward }),
        (connection(), words(MAX_QUESTION_BYTES))
            .prop_map(|(connection, question)| PeerRequest::AskOwner { connection, question }),
    ]
}

fn peer_reply() -> impl Strategy<Value = PeerReply> {
    prop_oneof![
        3 => (connection(), 0u64..10_000, incarnation()).prop_map(
            |(connection, size_bytes, incarnation)| PeerReply::Segment { connection, size_bytes, incarnation }
        ),
        3 => (connection(), incarnation(), kind(), any::<u16>(), any::<bool>()).prop_map(
            |(connection, incarnation, kind, producer, pollable)| PeerReply::Interrupt {
                connection, incarnation, kind, producer, pollable
            }
        ),
        2 => (connection(), any::<u64>(), incarnation(), owner_end()).prop_map(
            |(connection, size_bytes, incarnation, end)| PeerReply::ByNetwork {
                connection, size_bytes, incarnation, end
            }
        ),
        1 => Just(PeerReply::Resumed),
        2 => agent_no().prop_map(|agent| PeerReply::Agent { agent }),
        1 => socket().prop_map(|at| PeerReply::Relay { at }),
        1 => words(MAX_ANSWER_BYTES).prop_map(|answer| PeerReply::Answer { answer }),
        1 => node_status::status().prop_map(|status| PeerReply::Status(Box::new(status))),
    ]
}

fn echo() -> impl Strategy<Value = Echo> {
    any::<[u64; 3]>().prop_map(|[sequence, held_ns, clock_ns]| Echo { sequence, held_ns, clock_ns })
}

pub fn peer_message() -> impl Strategy<Value = PeerMessage> {
    let cluster = prop_oneof![9 => Just("default".to_owned()), 1 => text()];
    let id = || prop_oneof![9 => 1u64..12, 1 => any::<u64>()];
    prop_oneof![
        2 => (node(), incarnation(), cluster, text()).prop_map(|(node, incarnation, cluster, host)| {
            PeerMessage::Hello { node, incarnation, cluster, host }
        }),
        1 => refusal().prop_map(PeerMessage::Rejected),
        10 => (any::<u64>(), option::of(echo())).prop_map(|(sequence, echo)| PeerMessage::Heartbeat { sequence, echo }),
        1 => Just(PeerMessage::Bye),
        50 => (any::<u64>(), peer_request()).prop_map(|(id, body)| PeerMessage::Request { id, body }),
        40 => (id(), peer_reply()).prop_map(|(id, reply)| PeerMessage::Reply { id, result: Ok(reply) }),
        8 => (id(), refusal()).prop_map(|(id, refusal)| PeerMessage::Reply { id, result: Err(refusal) }),
        6 => (connection(), loss()).prop_map(|(connection, reason)| PeerMessage::Lost { connection, reason }),
        6 => (connection(), any::<bool>()).prop_map(|(connection, died)| PeerMessage::Released { connection, died }),
        8 => (group(), any::<bool>()).prop_map(|(group, joined)| PeerMessage::Member { group, joined }),
        1 => Just(PeerMessage::Relays),
        1 => node().prop_map(|relay| PeerMessage::Via { relay }),
        1 => forward().prop_map(|forward| PeerMessage::ForwardOver { forward }),
        1 => vec(forward(), 0..4).prop_map(|forwards| PeerMessage::ForwardsKept { forwards }),
        8 => (agent_no(), to_agent()).prop_map(|(agent, word)| PeerMessage::ToAgent { agent, word }),
        8 => (agent_no(), from_agent()).prop_map(|(agent, word)| PeerMessage::FromAgent { agent, word }),
    ]
}
