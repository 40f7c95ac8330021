//! Arbitrary states of nodes.

use std::net::IpAddr;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proto::fault::LinkFaults;
use proto::ids::{AdapterNo, NodeId};
use proto::wire::status::{
    AdapterInfo, Counters, LinkKind, LinkStatus, NodeInfo, NodeStatus, ProgramStatus, ReducedRail,
    RelayedPair, SegmentStatus, SessionState, Via,
};

use crate::strategies::{node, text};

pub fn info() -> impl Strategy<Value = NodeInfo> {
    let adapter = (any::<u32>(), text(), vec(text(), 0..3)).prop_map(|(number, kind, capabilities)| {
        AdapterInfo { number: AdapterNo(number), kind, capabilities }
    });
    (
        node(),
        text(),
        text(),
        text(),
        any::<u32>(),
        any::<u64>(),
        vec(adapter, 0..3),
        vec(any::<IpAddr>(), 0..5),
    )
        .prop_map(|(node, cluster, host, version, manager_pid, incarnation, adapters, rails)| NodeInfo {
            node,
            cluster,
            host,
            version,
            manager_pid,
            incarnation,
            adapters,
            faults: incarnation.is_multiple_of(2),
            rails,
        })
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
            clock_offset_ns: n[3].is_multiple_of(2).then_some(n[2].cast_signed()),
            clock_error_ns: n[3].is_multiple_of(2).then_some(n[1]),
            via: n[2].is_multiple_of(2).then_some(Via { relay: peer, since_ns: n[1] }),
            address: n[3].is_multiple_of(2).then_some(std::net::Ipv4Addr::LOCALHOST.into()),
            taken_down: n[0].is_multiple_of(2),
            partner: peer,
            faults: LinkFaults { delay_ns: n[1], lose_ppm: n[2] as u32, ..LinkFaults::default() },
        },
    )
}

fn reduced(n: [u64; 13]) -> ReducedRail {
    let peer = NodeId::new(4 * (n[0] as u32 % 8 + 1)).expect("a node");
    ReducedRail { peer, rail: n[1] as u8, connections: n[2] as u32, since_ns: n[3], why: n[4].to_string() }
}

fn relayed(n: [u64; 13]) -> RelayedPair {
    let node = |nth: usize| NodeId::new(4 * (n[nth] as u32 % 8 + 1)).expect("a node");
    RelayedPair { first: node(0), second: node(1), forwards: n[2] as u32, since_ns: n[3] }
}

pub fn status() -> impl Strategy<Value = NodeStatus> {
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
            relayed: if n[5].is_multiple_of(2) { Vec::new() } else { vec![relayed(n)] },
            reduced: if n[4].is_multiple_of(2) { Vec::new() } else { vec![reduced(n)] },
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
