//! Arbitrary messages of managers to programs.

use std::net::IpAddr;

use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proto::fault::LinkFaults;
use proto::ids::AdapterNo;
use proto::wire::program::{Event, Reply, ToProgram};
use proto::wire::status::{
    AdapterInfo, Counters, LinkKind, LinkStatus, NodeInfo, NodeStatus, ProgramStatus, SegmentStatus,
    SessionState,
};

use crate::strategies::{
    connection, group, imported, importer, importer_end, incarnation, interrupt, kind, loss, node, owner_end,
    refusal, segment_key, slot, text,
};

fn info() -> impl Strategy<Value = NodeInfo> {
    let adapter = (any::<u32>(), text(), vec(text(), 0..3)).prop_map(|(number, kind, capabilities)| {
        AdapterInfo { number: AdapterNo(number), kind, capabilities }
    });
    (node(), text(), text(), text(), any::<u32>(), any::<u64>(), vec(adapter, 0..3)).prop_map(
        |(node, cluster, host, version, manager_pid, incarnation, adapters)| NodeInfo {
            node,
            cluster,
            host,
            version,
            manager_pid,
            incarnation,
            adapters,
            faults: incarnation.is_multiple_of(2),
        },
    )
}

fn session_state() -> impl Strategy<Value = SessionState> {
    prop_oneof![
        Just(SessionState::Connecting),
        Just(SessionState::Valid),
        Just(SessionState::Lost),
        Just(SessionState::Refused),
        Just(SessionState::Stopped),
        Just(SessionState::Revoked)
    ]
}

fn link() -> impl Strategy<Value = LinkStatus> {
    let numbers = any::<[u64; 5]>();
    (node(), text(), session_state(), option::of(text()), numbers).prop_map(
        |(peer, peer_host, session, reason, n)| LinkStatus {
            adapter: AdapterNo(0),
            peer,
            peer_host,
            other_host: n[0] % 2 == 1,
            kind: if n[1] % 2 == 1 { LinkKind::Ofi } else { LinkKind::Shm },
            session,
            reason,
            generation: n[0],
            since_ns: n[1],
            downtime_ns: n[2],
            heartbeats_received: n[3],
            heartbeats_missed: n[4],
            round_trip_ns: n[3].is_multiple_of(2).then_some(n[0]),
            least_round_trip_ns: n[3].is_multiple_of(2).then_some(n[1]),
            taken_down: n[0].is_multiple_of(2),
            partner: peer,
            faults: LinkFaults { delay_ns: n[1], lose_ppm: n[2] as u32, ..LinkFaults::default() },
        },
    )
}

fn status() -> impl Strategy<Value = NodeStatus> {
    let program = (text(), any::<[u32; 5]>()).prop_map(|(name, n)| ProgramStatus {
        name,
        pid: n[0],
        uid: n[1],
        segments: n[2],
        interrupts: n[3],
        imports: n[4],
    });
    let segment = (text(), any::<u64>(), any::<[bool; 2]>(), any::<[u32; 3]>()).prop_map(
        |(what, size_bytes, [available, shared], n)| SegmentStatus {
            what,
            size_bytes,
            available,
            connections: n[0],
            owner_pid: n[1],
            shared,
            attached: n[2],
        },
    );
    (info(), vec(link(), 0..4), vec(program, 0..4), vec(segment, 0..4), any::<[u64; 13]>()).prop_map(
        |(info, links, programs, segments, n)| NodeStatus {
            info,
            links,
            programs,
            segments,
            uptime_ns: n[0],
            links_total: n[1],
            programs_total: n[2],
            segments_total: n[3],
            interrupts_total: n[4],
            descriptors: n[5],
            counters: Counters {
                requests: n[6],
                refusals: n[7],
                connections: n[8],
                attaches: n[9],
                program_deaths: n[10],
                protocol_errors: n[11],
                sessions_lost: n[12],
            },
        },
    )
}

fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        Just(Reply::Done),
        (slot(), connection(), any::<u64>(), incarnation()).prop_map(
            |(import, connection, size_bytes, incarnation)| Reply::Segment {
                import,
                connection,
                size_bytes,
                incarnation
            }
        ),
        interrupt().prop_map(|number| Reply::InterruptCreated { number }),
        (slot(), connection(), incarnation(), kind(), any::<u16>(), any::<bool>()).prop_map(
            |(import, connection, incarnation, kind, producer, pollable)| Reply::Interrupt {
                import,
                connection,
                incarnation,
                kind,
                producer,
                pollable
            }
        ),
        any::<Option<IpAddr>>().prop_map(|address| Reply::OnOtherHost { address }),
        (slot(), connection(), any::<u64>(), incarnation(), owner_end()).prop_map(
            |(import, connection, size_bytes, incarnation, end)| Reply::ByNetwork {
                import,
                connection,
                size_bytes,
                incarnation,
                end
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
        (imported(), node(), connection(), any::<u16>(), importer()).prop_map(
            |(what, node, connection, producer, importer)| Event::Connected {
                what,
                node,
                connection,
                producer,
                importer
            }
        ),
        (imported(), node(), connection(), importer_end(), any::<Option<IpAddr>>()).prop_map(
            |(what, node, connection, end, address)| Event::WantedByNetwork {
                what,
                node,
                connection,
                end,
                address
            }
        ),
        (imported(), node(), connection(), any::<bool>())
            .prop_map(|(what, node, connection, died)| Event::Disconnected { what, node, connection, died }),
        (slot(), loss()).prop_map(|(import, reason)| Event::Lost { import, reason }),
        (node(), any::<bool>()).prop_map(|(node, up)| Event::Link { node, up }),
        (group(), node(), any::<bool>()).prop_map(|(group, node, joined)| Event::Member {
            group,
            node,
            joined
        }),
        (segment_key(), any::<bool>()).prop_map(|(key, available)| Event::Availability { key, available }),
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
