//! One session on its own: dialling, silence, return.
#![allow(clippy::expect_used, clippy::panic)] // What is not as expected ends the test.

use std::time::Duration;

use proto::ids::NodeId;
use proto::manager::PeerConn;
use proto::session::{Action, REDIAL_MAX, REDIAL_MIN, Return, Session, Settings};
use proto::time::Instant;
use proto::wire::peer::PeerMessage;
use proto::wire::program::Incarnation;
use proto::wire::status::SessionState;

const INTERVAL: Duration = Duration::from_millis(100);
const LIMIT: Duration = Duration::from_millis(500);
const CONN: PeerConn = PeerConn(1);
const OTHER: PeerConn = PeerConn(2);

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn settings(own: u32, peer: u32, seed: u64) -> Settings {
    let id = |number| NodeId::new(number).expect("an id");
    Settings { own: id(own), peer: id(peer), heartbeat_interval: INTERVAL, heartbeat_limit: LIMIT, seed }
}

fn session(own: u32, peer: u32) -> Session {
    Session::new(settings(own, peer, 1), at(0))
}

fn does(act: impl FnOnce(&mut Vec<Action>)) -> Vec<Action> {
    let mut out = Vec::new();
    act(&mut out);
    out
}

/// A session that has just become valid over [`CONN`], at 0 ms.
fn valid() -> Session {
    let mut session = session(8, 4);
    assert_eq!(does(|out| session.seen(out)), [Action::Dial]);
    assert_eq!(does(|out| session.connected(at(0), CONN, out)), []);
    let up = does(|out| session.hello(at(0), CONN, Incarnation(1), "there", out));
    assert_eq!(up, [Action::Up(Return::First)]);
    session
}

/// Serves the timers up to a moment; what was done, and when (in ms).
fn serve(session: &mut Session, until_ms: u64) -> Vec<(u64, Action)> {
    let mut done = Vec::new();
    while let Some(due) = session.next_timeout().filter(|&due| due <= at(until_ms)) {
        let mut out = Vec::new();
        session.timeout(due, &mut out);
        assert!(
            session.next_timeout() != Some(due) || !out.is_empty(),
            "a timer that does nothing and stays"
        );
        done.extend(out.into_iter().map(|action| (due.as_nanos() / 1_000_000, action)));
    }
    done
}

fn is_beat(action: &Action) -> bool {
    matches!(action, Action::Send(_, PeerMessage::Heartbeat { .. }))
}

#[test]
fn the_higher_id_dials_and_the_lower_waits() {
    assert!(session(8, 4).dials());
    let mut waiting = session(4, 8);
    assert!(!waiting.dials());
    assert_eq!(does(|out| waiting.seen(out)), []);
    assert_eq!(waiting.next_timeout(), None);
    assert_eq!(waiting.state(), SessionState::Connecting);
    let up = does(|out| waiting.hello(at(5), CONN, Incarnation(1), "there", out));
    assert_eq!(up, [Action::Up(Return::First)]);
    assert_eq!((waiting.host(), waiting.downtime(at(9))), ("there", Duration::ZERO));
}

#[test]
fn heartbeats_go_out_at_each_interval_and_count_up() {
    let mut session = valid();
    assert!(does(|out| session.settle(at(0), out)).iter().all(is_beat));
    for ms in (0..=2000).step_by(50) {
        session.heard(at(ms), &mut Vec::new());
    }
    let sequences: Vec<u64> = serve(&mut session, 2000)
        .into_iter()
        .map(|(ms, action)| match action {
            Action::Send(CONN, PeerMessage::Heartbeat { sequence, .. }) if ms % 100 == 0 => sequence,
            other => panic!("{other:?} at {ms} ms"),
        })
        .collect();
    assert_eq!(sequences, (2..=21).collect::<Vec<u64>>());
}

#[test]
fn pauses_double_are_bounded_and_are_drawn_from_the_seed() {
    let pauses = |seed: u64| {
        let mut session = Session::new(settings(8, 4, seed), at(0));
        let mut now = at(0);
        session.seen(&mut Vec::new());
        let mut pauses = Vec::new();
        for _ in 0..30 {
            session.dial_failed(now, "refused");
            let due = session.next_timeout().expect("it tries again");
            pauses.push(due.since(now));
            now = due;
            assert_eq!(does(|out| session.timeout(now, out)), [Action::Dial]);
        }
        pauses
    };
    let drawn = pauses(1);
    for (attempt, pause) in drawn.iter().enumerate() {
        let full = REDIAL_MIN.saturating_mul(1 << attempt.min(20)).min(REDIAL_MAX);
        assert!(*pause >= full / 2 && *pause <= full, "attempt {attempt}: {pause:?} of {full:?}");
    }
    assert_eq!(drawn, pauses(1), "the same seed, the same pauses");
    assert_ne!(drawn, pauses(2));
}

#[test]
fn a_dial_that_fails_leaves_the_reason() {
    let mut session = session(8, 4);
    session.seen(&mut Vec::new());
    session.dial_failed(at(1), "connection refused");
    assert_eq!(session.state(), SessionState::Connecting);
    assert_eq!(session.reason(), Some("its manager cannot be connected to: connection refused"));
    // A second failure of the same attempt changes nothing.
    let due = session.next_timeout();
    session.dial_failed(at(1), "connection refused");
    assert_eq!(session.next_timeout(), due);
}

#[test]
fn no_hello_within_the_limit_is_given_up() {
    let mut session = session(8, 4);
    session.seen(&mut Vec::new());
    session.connected(at(0), CONN, &mut Vec::new());
    assert_eq!(serve(&mut session, 499), []);
    let done = serve(&mut session, 500);
    assert_eq!(done, [(500, Action::Close(CONN))]);
    assert_eq!(session.reason(), Some("no hello within 500 ms"));
    assert!(session.next_timeout().is_some(), "and tried again");
}

#[test]
fn silence_is_lost_at_the_limit_and_any_word_brings_it_back() {
    let mut session = valid();
    session.heard(at(120), &mut Vec::new());
    let done = serve(&mut session, 619);
    assert!(done.iter().all(|(_, action)| is_beat(action)), "{done:?}");
    assert_eq!(serve(&mut session, 620), [(620, Action::Down)]);
    assert_eq!((session.state(), session.generation()), (SessionState::Lost, 2));
    assert_eq!(session.open_conn(), Some(CONN), "the connection is kept");
    assert_eq!(does(|out| session.heard(at(5000), out)), [Action::Up(Return::Revived)]);
    assert_eq!(session.downtime(at(9000)), Duration::from_millis(4380));
    assert_eq!(session.since(at(9000)), Duration::from_secs(4));
}

#[test]
fn a_silent_peer_is_probed_ever_more_rarely() {
    let mut session = valid();
    serve(&mut session, 500);
    let probes: Vec<u64> = serve(&mut session, 600_000).into_iter().map(|(ms, _)| ms).collect();
    let gaps: Vec<u64> = probes.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(gaps.windows(2).all(|two| two[0] <= two[1]));
    assert_eq!(gaps.last(), Some(&5000), "every ten limits in the end");
    assert!(probes.len() < 130);
}

#[test]
fn a_timer_served_late_gives_the_peer_one_more_interval() {
    let mut session = valid();
    let late = does(|out| session.timeout(at(60_000), out));
    assert!(late.iter().all(is_beat), "{late:?}");
    assert!(session.is_valid());
    assert_eq!(serve(&mut session, 60_099).len(), 0);
    assert_eq!(serve(&mut session, 60_200).first(), Some(&(60_100, Action::Down)), "but not two");
}

#[test]
fn missed_heartbeats_are_counted() {
    let mut session = valid();
    for ms in [100, 200, 300] {
        session.heard(at(ms), &mut Vec::new());
        session.heartbeat(at(ms), ms, None);
    }
    // Others than heartbeats keep the session, and do not count.
    for ms in (350..=1000).step_by(50) {
        serve(&mut session, ms);
        session.heard(at(ms), &mut Vec::new());
    }
    let (received, missed) = session.heartbeats();
    assert_eq!(received, 3);
    assert!((6..=7).contains(&missed), "{missed}");
}

#[test]
fn a_new_connection_replaces_the_old_one() {
    for (incarnation, back) in [(1, Return::Reconnected), (2, Return::Restarted)] {
        let mut session = valid();
        let done = does(|out| session.hello(at(50), OTHER, Incarnation(incarnation), "there", out));
        assert_eq!(done, [Action::Down, Action::Close(CONN), Action::Up(back)]);
        assert_eq!(does(|out| session.closed(at(60), CONN, out)), [], "the old one is nobody's");
        assert!(session.is_valid());
        assert_eq!(does(|out| session.closed(at(70), OTHER, out)), [Action::Down]);
    }
}

#[test]
fn goodbye_and_refusal_stay_until_it_is_better() {
    let mut session = valid();
    assert_eq!(does(|out| session.bye(at(10), out)), [Action::Down, Action::Stopped, Action::Close(CONN)]);
    assert_eq!(session.state(), SessionState::Stopped);
    let due = session.next_timeout().expect("it goes on trying");
    assert!(due.since(at(10)) >= REDIAL_MAX / 2, "slowly");
    session.timeout(due, &mut Vec::new());
    session.dial_failed(due, "no such file");
    assert_eq!(session.reason(), Some("its manager was stopped"));
    assert_eq!(does(|out| session.seen(out)), [Action::Dial], "at once when its socket appears");
    session.connected(due, OTHER, &mut Vec::new());
    assert_eq!(does(|out| session.refused(due, "other cluster", out)), [Action::Close(OTHER)]);
    assert_eq!((session.state(), session.reason()), (SessionState::Refused, Some("other cluster")));
}

#[test]
fn a_connection_that_breaks_again_and_again_is_not_dialled_without_pause() {
    let mut session = valid();
    let mut now = 10;
    let mut longest = Duration::ZERO;
    for number in 2..12 {
        let conn = session.conn().expect("open");
        session.closed(at(now), conn, &mut Vec::new());
        let due = session.next_timeout().expect("it tries again");
        longest = longest.max(due.since(at(now)));
        assert_eq!(does(|out| session.timeout(due, out)), [Action::Dial]);
        now = due.as_nanos() / 1_000_000 + 1;
        session.connected(at(now), PeerConn(number), &mut Vec::new());
        session.hello(at(now), PeerConn(number), Incarnation(1), "there", &mut Vec::new());
        now += 1;
    }
    assert!(longest >= REDIAL_MAX / 2);
    // One that has held for a while is dialled at once again.
    let conn = session.conn().expect("open");
    let later = now + 1000;
    session.closed(at(later), conn, &mut Vec::new());
    let due = session.next_timeout().expect("it tries again");
    assert!(due.since(at(later)) <= REDIAL_MIN);
}
