//! What a status prints, on made-up clusters.

use proto::ids::AdapterNo;
use tieline::LinkFaults;

use super::*;

fn node(id: u32) -> NodeId {
    NodeId::new(id).unwrap()
}

fn link(session: SessionState, since: Duration) -> LinkStatus {
    LinkStatus {
        adapter: AdapterNo(0),
        peer: node(8),
        peer_host: "rack1-b".into(),
        other_host: false,
        kind: Default::default(),
        session,
        reason: None,
        generation: 1,
        since_ns: since.as_nanos() as u64,
        downtime_ns: 0,
        taken_down: false,
        partner: node(8),
        faults: LinkFaults::default(),
        heartbeats_received: 10,
        heartbeats_missed: 0,
        round_trip_ns: None,
        least_round_trip_ns: None,
        clock_offset_ns: None,
        clock_error_ns: None,
        address: None,
        via: None,
    }
}

#[test]
fn a_node_of_another_host_that_was_stopped_has_a_next_step() {
    let stopped = link(SessionState::Stopped, Duration::ZERO);
    assert_eq!(problem_of(node(4), &stopped).unwrap(), "node 4: session with node 8 is stopped");
    let far = problem_of(node(4), &LinkStatus { other_host: true, ..stopped }).unwrap();
    assert!(
        far.contains(": start it with `tieline node start --node 8` on rack1-b, or let it leave there"),
        "{far}"
    );
}

#[test]
fn only_sessions_that_were_lost_a_moment_ago_are_waited_for() {
    let both = [node(4), node(8)];
    let waits = |links: &[LinkStatus], answering: &[NodeId]| may_come_back(links.iter(), answering);
    let (valid, lost) = (SessionState::Valid, SessionState::Lost);
    let fine = link(valid, Duration::ZERO);
    let lately = link(lost, Duration::from_secs(1));
    assert!(waits(&[lately.clone(), fine.clone()], &both));
    assert!(!waits(&[fine], &both), "nothing is lost");
    assert!(!waits(std::slice::from_ref(&lately), &both[..1]), "its manager is gone");
    for other in [
        link(lost, LOST_LATELY),
        link(SessionState::Refused, Duration::ZERO),
        LinkStatus { taken_down: true, ..link(valid, Duration::ZERO) },
        LinkStatus { partner: node(12), ..link(valid, Duration::ZERO) },
    ] {
        assert!(!waits(&[lately.clone(), other.clone()], &both), "{other:?}");
    }
}
