//! Arbitrary messages: mostly from a small world, so that they meet each other, now and then from the whole range.

use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proto::ids::{AdapterNo, GroupId, InterruptNo, NodeId, SegmentId, SegmentKey};
use proto::wire::peer::{PeerMessage, PeerReply, PeerRequest, Requester};
use proto::wire::program::{
    Access, ConnectionId, Event, ImportSlot, Imported, Incarnation, InterruptKind, LossReason, Refusal, Reply,
    Request, ToManager, ToProgram,
};
use proto::wire::status::{
    AdapterInfo, Counters, LinkStatus, NodeInfo, NodeStatus, ProgramStatus, SegmentStatus, SessionState,
};

fn small_u32() -> impl Strategy<Value = u32> {
    prop_oneof![9 => 0u32..4, 1 => any::<u32>()]
}

fn small_u64() -> impl Strategy<Value = u64> {
    prop_oneof![9 => 0u64..6, 1 => any::<u64>()]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![8 => "[a-z]{0,8}", 1 => "\\PC{0,40}", 1 => Just("x".repeat(300))]
}

pub fn node() -> impl Strategy<Value = NodeId> {
    let any = (1u32..4096).prop_filter_map("no node id", |index| NodeId::new(index * 4).ok());
    prop_oneof![9 => (0usize..4).prop_map(|index| NodeId::nth(index).expect("an id")), 1 => any]
}

fn group() -> impl Strategy<Value = GroupId> {
    small_u32().prop_map(GroupId)
}

pub fn segment_key() -> impl Strategy<Value = SegmentKey> {
    prop_oneof![
        small_u32().prop_map(|id| SegmentKey::Segment(SegmentId(id))),
        group().prop_map(SegmentKey::GroupCopy)
    ]
}

fn interrupt() -> impl Strategy<Value = InterruptNo> {
    small_u32().prop_map(InterruptNo)
}

pub fn imported() -> impl Strategy<Value = Imported> {
    prop_oneof![segment_key().prop_map(Imported::Segment), interrupt().prop_map(Imported::Interrupt)]
}

fn connection() -> impl Strategy<Value = ConnectionId> {
    small_u64().prop_map(ConnectionId)
}

fn incarnation() -> impl Strategy<Value = Incarnation> {
    small_u64().prop_map(Incarnation)
}

fn slot() -> impl Strategy<Value = ImportSlot> {
    small_u32().prop_map(ImportSlot)
}

fn access() -> impl Strategy<Value = Access> {
    let listed = (vec(any::<u32>(), 0..70), option::of(any::<u32>()));
    prop_oneof![3 => Just(Access::default()), 1 => listed.prop_map(|(uids, gid)| Access { uids, gid })]
}

fn kind() -> impl Strategy<Value = InterruptKind> {
    prop_oneof![Just(InterruptKind::Plain), Just(InterruptKind::Data)]
}

fn loss() -> impl Strategy<Value = LossReason> {
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

fn object_request() -> impl Strategy<Value = Request> {
    let (key, number) = (segment_key, interrupt);
    prop_oneof![
        6 => (key(), 1u64..10_000, access(), incarnation(), any::<bool>()).prop_map(
            |(key, size_bytes, access, incarnation, available)| Request::CreateSegment {
                key, size_bytes, access, incarnation, available
            }
        ),
        1 => (key(), any::<u64>(), access(), incarnation(), any::<bool>()).prop_map(
            |(key, size_bytes, access, incarnation, available)| Request::CreateSegment {
                key, size_bytes, access, incarnation, available
            }
        ),
        2 => (key(), any::<bool>(), any::<bool>()).prop_map(|(key, available, disconnect)| {
            Request::SetAvailable { key, available, disconnect }
        }),
        2 => (key(), any::<bool>()).prop_map(|(key, force)| Request::RemoveSegment { key, force }),
        6 => (option::of(number()), kind(), access(), incarnation(), any::<bool>()).prop_map(
            |(number, kind, access, incarnation, pollable)| Request::CreateInterrupt {
                number, kind, access, incarnation, pollable
            }
        ),
        1 => number().prop_map(|number| Request::RemoveInterrupt { number }),
    ]
}

fn connection_request() -> impl Strategy<Value = Request> {
    prop_oneof![
        5 => (node(), segment_key()).prop_map(|(node, key)| Request::ConnectSegment { node, key }),
        5 => (node(), interrupt()).prop_map(|(node, number)| Request::ConnectInterrupt { node, number }),
        3 => slot().prop_map(|import| Request::Disconnect { import }),
        4 => (node(), connection(), incarnation(), imported()).prop_map(
            |(node, connection, incarnation, what)| Request::ResumeImport { node, connection, incarnation, what }
        ),
        3 => (imported(), node(), connection())
            .prop_map(|(what, node, connection)| Request::ResumeExport { what, node, connection }),
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
        1 => Just(Request::ClearCounters),
    ]
}

pub fn to_manager() -> impl Strategy<Value = ToManager> {
    prop_oneof![
        1 => (text(), any::<bool>()).prop_map(|(name, reattach)| ToManager::Hello { name, reattach }),
        20 => (any::<u64>(), request()).prop_map(|(id, body)| ToManager::Request { id, body }),
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
    ]
}

fn info() -> impl Strategy<Value = NodeInfo> {
    let adapter = (any::<u32>(), text(), vec(text(), 0..3)).prop_map(|(number, kind, capabilities)| {
        AdapterInfo { number: AdapterNo(number), kind, capabilities }
    });
    (node(), text(), text(), text(), any::<u32>(), any::<u64>(), vec(adapter, 0..3)).prop_map(
        |(node, cluster, host, version, manager_pid, incarnation, adapters)| NodeInfo {
            node, cluster, host, version, manager_pid, incarnation, adapters,
        },
    )
}

fn session_state() -> impl Strategy<Value = SessionState> {
    prop_oneof![
        Just(SessionState::Connecting),
        Just(SessionState::Valid),
        Just(SessionState::Lost),
        Just(SessionState::Refused),
        Just(SessionState::Stopped)
    ]
}

fn link() -> impl Strategy<Value = LinkStatus> {
    let numbers = any::<[u64; 5]>();
    (node(), text(), session_state(), option::of(text()), numbers).prop_map(|(peer, peer_host, session, reason, n)| {
        LinkStatus {
            adapter: AdapterNo(0),
            peer,
            peer_host,
            session,
            reason,
            generation: n[0],
            since_ns: n[1],
            downtime_ns: n[2],
            heartbeats_received: n[3],
            heartbeats_missed: n[4],
        }
    })
}

fn status() -> impl Strategy<Value = NodeStatus> {
    let program = (text(), any::<[u32; 5]>()).prop_map(|(name, n)| ProgramStatus {
        name, pid: n[0], uid: n[1], segments: n[2], interrupts: n[3], imports: n[4],
    });
    let segment = (text(), any::<u64>(), any::<bool>(), any::<[u32; 2]>()).prop_map(
        |(what, size_bytes, available, n)| SegmentStatus { what, size_bytes, available, connections: n[0], owner_pid: n[1] },
    );
    (info(), vec(link(), 0..4), vec(program, 0..4), vec(segment, 0..4), any::<[u64; 13]>()).prop_map(
        |(info, links, programs, segments, n)| NodeStatus {
            info, links, programs, segments,
            uptime_ns: n[0],
            links_total: n[1],
            programs_total: n[2],
            segments_total: n[3],
            interrupts_total: n[4],
            descriptors: n[5],
            counters: Counters {
                requests: n[6], refusals: n[7], connections: n[8], attaches: n[9],
                program_deaths: n[10], protocol_errors: n[11], sessions_lost: n[12],
            },
        },
    )
}

fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        Just(Reply::Done),
        (slot(), connection(), any::<u64>(), incarnation()).prop_map(
            |(import, connection, size_bytes, incarnation)| Reply::Segment { import, connection, size_bytes, incarnation }
        ),
        interrupt().prop_map(|number| Reply::InterruptCreated { number }),
        (slot(), connection(), incarnation(), kind(), any::<u16>(), any::<bool>()).prop_map(
            |(import, connection, incarnation, kind, producer, pollable)| Reply::Interrupt {
                import, connection, incarnation, kind, producer, pollable
            }
        ),
        slot().prop_map(|import| Reply::Resumed { import }),
        any::<bool>().prop_map(|reachable| Reply::Probed { reachable }),
        btree_set(node(), 0..8).prop_map(|nodes| Reply::Members(nodes.into_iter().collect())),
        info().prop_map(Reply::Info),
        status().prop_map(Reply::Status),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (imported(), node(), connection(), any::<u16>())
            .prop_map(|(what, node, connection, producer)| Event::Connected { what, node, connection, producer }),
        (imported(), node(), connection(), any::<bool>())
            .prop_map(|(what, node, connection, died)| Event::Disconnected { what, node, connection, died }),
        (slot(), loss()).prop_map(|(import, reason)| Event::Lost { import, reason }),
        (node(), any::<bool>()).prop_map(|(node, up)| Event::Link { node, up }),
        (group(), node(), any::<bool>()).prop_map(|(group, node, joined)| Event::Member { group, node, joined }),
    ]
}

pub fn to_program() -> impl Strategy<Value = ToProgram> {
    prop_oneof![
        info().prop_map(|info| ToProgram::Welcome { info }),
        refusal().prop_map(ToProgram::Rejected),
        (any::<u64>(), reply()).prop_map(|(id, reply)| ToProgram::Reply { id, result: Ok(reply) }),
        (any::<u64>(), refusal()).prop_map(|(id, refusal)| ToProgram::Reply { id, result: Err(refusal) }),
        event().prop_map(ToProgram::Event),
    ]
}

fn peer_request() -> impl Strategy<Value = PeerRequest> {
    prop_oneof![
        (segment_key(), requester()).prop_map(|(key, requester)| PeerRequest::ConnectSegment { key, requester }),
        (interrupt(), requester()).prop_map(|(number, requester)| PeerRequest::ConnectInterrupt { number, requester }),
        (connection(), incarnation(), imported(), requester()).prop_map(
            |(connection, incarnation, what, requester)| PeerRequest::Resume { connection, incarnation, what, requester }
        ),
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
        1 => Just(PeerReply::Resumed),
    ]
}

pub fn peer_message() -> impl Strategy<Value = PeerMessage> {
    let cluster = prop_oneof![9 => Just("default".to_owned()), 1 => text()];
    let id = || prop_oneof![9 => 1u64..12, 1 => any::<u64>()];
    prop_oneof![
        3 => (node(), incarnation(), cluster, text()).prop_map(|(node, incarnation, cluster, host)| {
            PeerMessage::Hello { node, incarnation, cluster, host }
        }),
        1 => refusal().prop_map(PeerMessage::Rejected),
        3 => any::<u64>().prop_map(|sequence| PeerMessage::Heartbeat { sequence }),
        1 => Just(PeerMessage::Bye),
        12 => (any::<u64>(), peer_request()).prop_map(|(id, body)| PeerMessage::Request { id, body }),
        8 => (id(), peer_reply()).prop_map(|(id, reply)| PeerMessage::Reply { id, result: Ok(reply) }),
        2 => (id(), refusal()).prop_map(|(id, refusal)| PeerMessage::Reply { id, result: Err(refusal) }),
        3 => (connection(), loss()).prop_map(|(connection, reason)| PeerMessage::Lost { connection, reason }),
        3 => (connection(), any::<bool>()).prop_map(|(connection, died)| PeerMessage::Released { connection, died }),
        3 => (group(), any::<bool>()).prop_map(|(group, joined)| PeerMessage::Member { group, joined }),
    ]
}
