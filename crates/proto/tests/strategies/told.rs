//! Arbitrary messages of managers to programs.

use std::net::IpAddr;

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use proto::wire::agent::AgentNo;
use proto::wire::network::{MAX_ANSWER_BYTES, MAX_QUESTION_BYTES};
use proto::wire::program::{Event, Reply, ToProgram};

use crate::strategies::node_status::{info, status};
use crate::strategies::{
    agent_end, connection, group, imported, importer, importer_end, incarnation, interrupt, kind, loss, node,
    owner_end, refusal, segment_key, slot, small_u64, words,
};

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
        vec(any::<IpAddr>(), 0..5).prop_map(|addresses| Reply::OnOtherHost { addresses }),
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
        small_u64().prop_map(|agent| Reply::Agent { agent: AgentNo(agent) }),
        info().prop_map(Reply::Info),
        words(MAX_ANSWER_BYTES).prop_map(|answer| Reply::Answer { answer }),
        status().prop_map(|status| Reply::Status(Box::new(status))),
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
        (imported(), node(), connection(), importer_end(), vec(any::<IpAddr>(), 0..5)).prop_map(
            |(what, node, connection, end, addresses)| Event::WantedByNetwork {
                what,
                node,
                connection,
                end,
                addresses
            }
        ),
        (imported(), node(), connection(), any::<bool>())
            .prop_map(|(what, node, connection, died)| Event::Disconnected { what, node, connection, died }),
        (slot(), loss()).prop_map(|(import, reason)| Event::Lost { import, reason }),
        (node(), any::<bool>()).prop_map(|(node, up)| Event::Link { node, up }),
        (small_u64(), agent_end()).prop_map(|(agent, end)| Event::AgentEnded { agent: AgentNo(agent), end }),
        (group(), node(), any::<bool>()).prop_map(|(group, node, joined)| Event::Member {
            group,
            node,
            joined
        }),
        (segment_key(), any::<bool>()).prop_map(|(key, available)| Event::Availability { key, available }),
        (connection(), small_u64(), words(MAX_QUESTION_BYTES))
            .prop_map(|(connection, number, question)| { Event::Asked { connection, number, question } }),
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
