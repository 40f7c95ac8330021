use std::os::fd::AsFd;

use super::*;
use crate::Foreign;
use crate::trial::{lingering, nested};

const OWN: u32 = 1000;
const WATCHDOG: Duration = Duration::from_secs(30);

fn null() -> OwnedFd {
    std::fs::File::open("/dev/null").unwrap().into()
}

/// A descriptor, and the end that tells when it was closed.
fn watched() -> (OwnedFd, std::os::unix::net::UnixStream) {
    let (a, b) = std::os::unix::net::UnixStream::pair().unwrap();
    b.set_read_timeout(Some(WATCHDOG)).unwrap();
    (a.into(), b)
}

fn is_closed(end: &std::os::unix::net::UnixStream) {
    assert_eq!(std::io::Read::read(&mut &*end, &mut [0]).unwrap(), 0);
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < WATCHDOG, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn what_is_dropped_is_closed_and_the_thread_goes() {
    let closer = Closer::new(OWN);
    let (fd, end) = watched();
    drop(Foreign::new(fd, 7, &closer));
    is_closed(&end);
    eventually("an end without work", || closer.lock().users.is_empty());
    assert_eq!(closer.lock().threads_of_others, 0);
}

#[test]
fn a_close_that_sleeps_holds_up_its_own_user_alone_and_for_as_long() {
    let closer = Closer::new(OWN);
    let (direct, release_direct) = lingering().unwrap();
    let (inner, release_nested) = lingering().unwrap();
    let outer = nested(inner).unwrap();
    closer.close(7, direct);
    closer.close(8, outer);
    for uid in [7, 8] {
        eventually("held up", || {
            let state = closer.lock();
            state.users[&uid].is_held_up(Instant::now())
        });
        (0..=MOST_WAITING).for_each(|_| closer.close(uid, null()));
        assert_eq!(closer.load_of(uid), Load::Stuck);
        assert_eq!(closer.lock().users[&uid].threads, 1);
    }
    assert!(closer.is_busy());
    for other in [9, OWN, 0] {
        let (fd, end) = watched();
        closer.close(other, fd);
        is_closed(&end);
        assert_eq!(closer.load_of(other), Load::Light);
    }
    assert_eq!(closer.stuck_users(), [7, 8]);
    drop(release_direct);
    eventually("user 7 done", || closer.is_done_with(7));
    assert_eq!(closer.stuck_users(), [8]);
    drop(release_nested);
    eventually("user 8 done", || closer.is_done_with(8));
    assert_eq!(closer.stuck_users(), []);
}

#[test]
fn all_users_together_have_so_many_threads_and_one_that_waited_gets_the_next() {
    let closer = Closer::new(OWN);
    let mut releases = Vec::new();
    for uid in 0..u32::try_from(MOST_THREADS).unwrap() {
        let (fd, release) = lingering().unwrap();
        closer.close(2000 + uid, fd);
        releases.push(release);
    }
    eventually("all held up", || closer.is_exhausted());
    let (late, late_end) = watched();
    closer.close(3000, late);
    assert_eq!(closer.lock().threads_of_others, MOST_THREADS);
    // The own user and root are not among those who share.
    for own in [OWN, 0] {
        let (fd, end) = watched();
        closer.close(own, fd);
        is_closed(&end);
    }
    releases.clear();
    is_closed(&late_end);
    eventually("everybody done", || closer.lock().users.is_empty());
    assert_eq!(closer.lock().threads_of_others, 0);
}

#[test]
fn one_that_is_held_up_does_not_hold_up_the_own_user() {
    let closer = Closer::new(OWN);
    let (fd, _release) = lingering().unwrap();
    closer.close(OWN, fd);
    eventually("held up", || closer.lock().users[&OWN].is_held_up(Instant::now()));
    let (fd, end) = watched();
    closer.close(OWN, fd);
    is_closed(&end);
    assert_eq!(closer.stuck_users(), []);
}

#[test]
fn it_is_used_as_what_it_holds() {
    let closer = Closer::new(OWN);
    let foreign = Foreign::new(null(), 7, &closer);
    assert!(rustix::fs::fstat(foreign.as_fd()).is_ok());
    assert_eq!(foreign.uid(), 7);
}

#[test]
fn a_connection_without_descriptors_is_closed_at_once() {
    let closer = Closer::new(OWN);
    let (fd, release) = lingering().unwrap();
    closer.close(7, fd);
    eventually("held up", || closer.lock().users[&7].is_held_up(Instant::now()));
    let (fd, end) = watched();
    drop(Foreign::new_empty(fd, 7, &closer));
    is_closed(&end);
    // The usual ones stand in line.
    let (fd, end) = watched();
    let mut foreign = Foreign::new_empty(fd, 7, &closer);
    foreign.expect_descriptors();
    drop(foreign);
    assert_eq!(closer.lock().users[&7].waiting.len(), 1);
    drop(release);
    is_closed(&end);
}

#[test]
fn one_user_has_so_many_waiting_and_no_more_however_they_are_held_up() {
    let closer = Closer::new(OWN);
    let bounds = closer.shared.bounds;
    let (fd, release) = lingering().unwrap();
    closer.close(7, fd);
    for _ in 0..=bounds.user + 1 {
        closer.close(7, null());
    }
    assert_eq!((closer.load_of(7), closer.stuck_users()), (Load::Stuck, vec![7]));
    assert!(!closer.is_exhausted() && closer.load_of(8) == Load::Light);
    drop(release);
    eventually("user 7 done", || closer.is_done_with(7));
    assert_eq!(closer.load_of(7), Load::Light);
    let state = closer.lock();
    assert!(state.waiting_of_others == 0 && state.others_over.is_none());
}

/// Each is let go before it counts as held up.
#[test]
fn many_that_are_closed_slowly_are_as_bad_as_one_that_is_not() {
    let closer = Closer::new(OWN);
    let mut releases = VecDeque::new();
    for _ in 0..25 {
        let (fd, release) = lingering().unwrap();
        closer.close(7, fd);
        releases.push_back(release);
    }
    (0..=closer.shared.bounds.light).for_each(|_| closer.close(7, null()));
    while closer.load_of(7) != Load::Stuck {
        std::thread::sleep(SLOW / 3);
        assert!(releases.pop_front().is_some(), "never stuck");
    }
    drop(releases);
    eventually("user 7 done", || closer.is_done_with(7));
}

#[test]
fn all_others_together_have_so_many_waiting_and_the_own_user_does_not_count() {
    let mut closer = Closer::new(OWN);
    let shared = Arc::get_mut(&mut closer.shared).unwrap();
    shared.bounds = Bounds { light: 16, user: 100, others: 50 };
    let mut releases = Vec::new();
    let mut hold_up = |uid, number| {
        let (fd, release) = lingering().unwrap();
        closer.close(uid, fd);
        releases.push(release);
        eventually("it is being closed", || !closer.lock().users[&uid].closing.is_empty());
        (0..number).for_each(|_| closer.close(uid, null()));
    };
    (0..4).for_each(|uid| hold_up(2000 + uid, 16));
    assert_eq!((closer.load_of(2000), closer.load_of(3000)), (Load::Heavy, Load::Heavy));
    assert_eq!((closer.load_of(OWN), closer.load_of(0)), (Load::Light, Load::Light));
    assert!(closer.is_busy() && closer.stuck_users().is_empty());
    (4..8).for_each(|uid| hold_up(2000 + uid, 16));
    assert!(closer.is_exhausted());
    releases.clear();
    eventually("everybody done", || closer.lock().waiting_of_others == 0);
    assert!(!closer.is_exhausted() && closer.load_of(3000) == Load::Light);
}

#[test]
fn what_may_wait_depends_on_how_many_files_there_may_be() {
    for limit in [32, 64, 1024, 20_000, 1 << 20, u64::MAX] {
        let Bounds { light, user, others } = Bounds::of(limit);
        assert!(light <= MOST_WAITING && 2 * light <= user && 2 * user <= others, "{limit}");
        assert!(limit < 256 || others as u64 <= limit / 4, "{limit}: {others}");
    }
}
