//! Races of ends that are used without a wait, or while they are closed, shut down or passed on.

use std::thread::scope;
use std::time::{Duration, Instant};

use shm::sync::{AtomicBool, Ordering};

use super::Promise;
use super::ends::{End, Order, STALL, connected, marked, must, receive_some, send_all, set_nonblocking};
use super::stream::joined;
use crate::executor::say;
use crate::program::call::{EpollBy, Kind, RecvBy, SendBy};
use crate::random::Random;
use crate::sys::process::{self, Action};
use crate::sys::transfer::{self, Sending};
use crate::sys::{files, poll, sockets};

/// Two threads read from one end: each byte comes to one of them.
pub(super) fn two_readers(kind: Kind, random: &mut Random) -> Promise {
    let [near, far] = connected(kind)?;
    let sent = marked(0, 5_000 + random.below(60_000));
    let mut seeds = [0, 1].map(|_| Random::new(random.below(1 << 30) as u64));
    let mut taken = [Vec::new(), Vec::new()];
    scope(|scope| {
        let far = &far;
        let readers: Vec<_> = seeds
            .iter_mut()
            .zip(&mut taken)
            .map(|(seed, taken)| {
                scope.spawn(move || -> Promise {
                    loop {
                        match receive_some(far.0, seed)? {
                            Some(bytes) if bytes.is_empty() => return Ok(()),
                            Some(bytes) => taken.extend(bytes),
                            None => {}
                        }
                    }
                })
            })
            .collect();
        let written = send_all(near.0, &sent, random);
        // Whatever has become of the writer, the readers shall end.
        let ended = must("shutdown", sockets::shutdown(near.0, libc::SHUT_WR)).map(drop);
        readers.into_iter().try_for_each(joined).and(written).and(ended)
    })?;
    let mut all = taken.concat();
    let (mut wanted, count) = (sent, all.len());
    all.sort_unstable();
    wanted.sort_unstable();
    if all == wanted {
        Ok(())
    } else {
        Err(format!("{count} bytes of {} were taken, or others", wanted.len()))
    }
}

/// A number becomes another connection while a thread writes by it, and waits for room at times: each call's
/// bytes go to the connection that the number was when it was made.
pub(super) fn replaced_under_a_writer(kind: Kind, random: &mut Random) -> Promise {
    let ([near, far], [other_near, other_far]) = (connected(kind)?, connected(kind)?);
    for end in [&near, &other_near] {
        let room = (4096 + random.below(30_000)) as i32;
        must(
            "setsockopt",
            sockets::set_option(end.0, libc::SOL_SOCKET, libc::SO_SNDBUF, &room.to_ne_bytes()),
        )?;
    }
    let size = 200_000 + random.below(800_000);
    let mut seed = Random::new(random.below(1 << 30) as u64);
    let mut order = Order::default();
    scope(|scope| {
        let (near, other_near) = (&near, &other_near);
        let writer = scope.spawn(move || {
            let written = send_all(near.0, &marked(0, size), &mut seed);
            must("shutdown", sockets::shutdown(other_near.0, libc::SHUT_WR)).map(drop).and(written)
        });
        for _ in 0..random.below(200) {
            std::thread::yield_now();
        }
        let replaced = must("dup2", files::dup2(other_near.0, near.0)).map(drop);
        let read = order.check_all(far.0, random).and_then(|()| order.check_all(other_far.0, random));
        for end in [&far, &other_far] {
            let _ = sockets::shutdown(end.0, libc::SHUT_RDWR);
        }
        joined(writer).and(replaced).and(read)
    })?;
    order.is_complete([size, 0])
}

/// An end is handed on over one socket, several times, while its other end writes.
pub(super) fn handed_on(kind: Kind, random: &mut Random) -> Promise {
    let [near, mut far] = connected(kind)?;
    let post = connected(Kind::UnixStream)?;
    let size = 20_000 + random.below(60_000);
    let mut seed = Random::new(random.below(1 << 30) as u64);
    let mut order = Order::default();
    scope(|scope| {
        let near = &near;
        let writer = scope.spawn(move || {
            let written = send_all(near.0, &marked(0, size), &mut seed);
            must("shutdown", sockets::shutdown(near.0, libc::SHUT_WR)).map(drop).and(written)
        });
        let mut read = Ok(());
        for _ in 0..4 {
            read = read.and_then(|()| match receive_some(far.0, random)? {
                Some(bytes) => order.check(&bytes),
                None => Ok(()),
            });
            read = read.and_then(|()| {
                far = hand_on(&far, &post)?;
                Ok(())
            });
        }
        let read = read.and_then(|()| order.check_all(far.0, random));
        let _ = sockets::shutdown(far.0, libc::SHUT_RDWR);
        joined(writer).and(read)
    })?;
    order.is_complete([size, 0])
}

/// Sends an end, and gives what came.
fn hand_on(end: &End, post: &[End; 2]) -> Result<End, String> {
    let sending = Sending {
        fd: post[0].0,
        bytes: b"x",
        by: SendBy::Sendmsg,
        flags: 0,
        to: None,
        bad: false,
        descriptors: &[end.0],
    };
    must("sendmsg", transfer::send(&sending).0)?;
    let (outcome, received) = transfer::receive(post[1].0, 1, RecvBy::Recvmsg, 0, false, 64);
    must("recvmsg", outcome)?;
    received.descriptors.first().map(|fd| End(*fd)).ok_or_else(|| "no descriptor came".to_owned())
}

/// A writer whose handler of a signal writes to the same end: the bytes of each arrive once and in order.
pub(super) fn handler_writes(kind: Kind, random: &mut Random) -> Promise {
    let [near, far] = connected(kind)?;
    let size = 20_000 + random.below(40_000);
    let (over, mut seed) = (AtomicBool::new(false), Random::new(random.below(1 << 30) as u64));
    process::write_in_handlers(near.0);
    must("sigaction", process::sigaction(libc::SIGUSR2, Action::Write))?;
    let (pid, writer) = process::ids();
    let mut order = Order::default();
    let mut reads = Random::new(random.below(1 << 30) as u64);
    scope(|scope| {
        let (over, far, order) = (&over, &far, &mut order);
        let reader = scope.spawn(move || {
            let read = order.check_all(far.0, &mut reads);
            let _ = sockets::shutdown(far.0, libc::SHUT_RDWR);
            read
        });
        let shooter = scope.spawn(move || {
            for _ in 0..1000 {
                if over.load(Ordering::SeqCst) {
                    break;
                }
                let _ = process::kill_thread(pid.cast_signed(), writer.cast_signed(), libc::SIGUSR2);
                std::thread::yield_now();
            }
            Ok(())
        });
        let written = send_all(near.0, &marked(0, size), &mut seed);
        over.store(true, Ordering::SeqCst);
        let shot = joined(shooter);
        let ended = must("shutdown", sockets::shutdown(near.0, libc::SHUT_WR)).map(drop);
        joined(reader).and(shot).and(written).and(ended)
    })?;
    let by_handlers = process::written_in_handlers();
    let _ = process::sigaction(libc::SIGUSR2, Action::Ignore);
    order.is_complete([size, by_handlers])
}

/// Both halves of an end are shut down: its other end writes no more after a while, and is told why.
pub(super) fn shut_down_both(kind: Kind, random: &mut Random) -> Promise {
    let [near, far] = connected(kind)?;
    // Few before: behind a full buffer the kernel tells nobody.
    const FEW: usize = 60;
    let read = random.percent(50);
    let (over, mut seed) = (AtomicBool::new(false), Random::new(random.below(1 << 30) as u64));
    scope(|scope| {
        let (over, near) = (&over, &near);
        let writer = scope.spawn(move || {
            let (end, mut writes) = (Instant::now() + Duration::from_millis(STALL.unsigned_abs().into()), 0);
            while Instant::now() < end {
                writes += 1;
                if writes > FEW && !over.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                    continue;
                }
                let bytes = vec![7; 1 + seed.below(300)];
                let sending = Sending {
                    fd: near.0,
                    bytes: &bytes,
                    by: SendBy::Send,
                    flags: libc::MSG_NOSIGNAL,
                    to: None,
                    bad: false,
                    descriptors: &[],
                };
                let outcome = transfer::send(&sending).0;
                match outcome.errno {
                    _ if outcome.is_ok() => std::thread::yield_now(),
                    Some(libc::EPIPE | libc::ECONNRESET) => return Ok(()),
                    _ => return Err(format!("send {}", say::outcome(outcome))),
                }
            }
            Err("writes went on".to_owned())
        });
        for _ in 0..random.below(20) {
            std::thread::yield_now();
        }
        let was_read = if read { receive_some(far.0, random).map(drop) } else { Ok(()) };
        let ended = must("shutdown", sockets::shutdown(far.0, libc::SHUT_RDWR)).map(drop);
        over.store(true, Ordering::SeqCst);
        joined(writer).and(was_read).and(ended)
    })
}

/// What moves within so long is no stall.
struct Progress(Instant);

impl Progress {
    fn new() -> Self {
        Self(Instant::now())
    }

    fn moved(&mut self) {
        self.0 = Instant::now();
    }

    fn check(&self) -> Promise {
        let is_stalled = self.0.elapsed() > Duration::from_millis(STALL.unsigned_abs().into());
        if is_stalled { Err("nothing moves any more".to_owned()) } else { Ok(()) }
    }
}

/// Sends as much as there is room for.
fn send_now(end: &End, bytes: &[u8]) -> Result<Option<usize>, String> {
    let sending =
        Sending { fd: end.0, bytes, by: SendBy::Write, flags: 0, to: None, bad: false, descriptors: &[] };
    let outcome = transfer::send(&sending).0;
    match outcome.errno {
        _ if outcome.is_ok() => Ok(Some(outcome.count())),
        Some(libc::EAGAIN) => Ok(None),
        _ => Err(format!("write {}", say::outcome(outcome))),
    }
}

/// Receives what there is; nothing at the end.
fn receive_now(end: &End, len: usize) -> Result<Option<Vec<u8>>, String> {
    let (outcome, mut received) = transfer::receive(end.0, len, RecvBy::Recv, 0, false, 0);
    match outcome.errno {
        _ if outcome.is_ok() => {
            received.bytes.truncate(outcome.count());
            Ok(Some(received.bytes))
        }
        Some(libc::EAGAIN) => Ok(None),
        _ => Err(format!("recv {}", say::outcome(outcome))),
    }
}

/// Both ends try without ever waiting: everything comes.
pub(super) fn never_waits(kind: Kind, random: &mut Random) -> Promise {
    let [near, far] = connected(kind)?;
    set_nonblocking(&near)?;
    set_nonblocking(&far)?;
    let bytes = marked(0, 50_000 + random.below(400_000));
    let (part, len) = (1 + random.below(30_000), 1 + random.below(30_000));
    let mut order = Order::default();
    scope(|scope| {
        let (near, bytes) = (&near, &bytes);
        let writer = scope.spawn(move || {
            let (mut sent, mut progress) = (0, Progress::new());
            while sent < bytes.len() {
                match send_now(near, &bytes[sent..bytes.len().min(sent + part)])? {
                    Some(count) => {
                        sent += count;
                        progress.moved();
                    }
                    None => std::thread::yield_now(),
                }
                progress.check()?;
            }
            Ok(())
        });
        let mut progress = Progress::new();
        let mut read = Ok(());
        while read.is_ok() && order.seen[0] < bytes.len() {
            read = progress.check().and_then(|()| match receive_now(&far, len)? {
                Some(found) if found.is_empty() => Err("an end without a reason".to_owned()),
                Some(found) => {
                    progress.moved();
                    order.check(&found)
                }
                None => {
                    std::thread::yield_now();
                    Ok(())
                }
            });
        }
        let _ = sockets::shutdown(far.0, libc::SHUT_RDWR);
        joined(writer).and(read)
    })?;
    order.is_complete([bytes.len(), 0])
}

/// Both ends take a short call for a full or an empty kernel, and wait for the next edge then, as epoll(7)
/// allows.
pub(super) fn short_and_edges(kind: Kind, random: &mut Random) -> Promise {
    let [near, far] = connected(kind)?;
    set_nonblocking(&near)?;
    set_nonblocking(&far)?;
    let bytes = marked(0, 50_000 + random.below(600_000));
    let (part, len) = (1000 + random.below(60_000), 1000 + random.below(60_000));
    let mut order = Order::default();
    scope(|scope| {
        let (near, bytes) = (&near, &bytes);
        let writer = scope.spawn(move || -> Promise {
            let edges = edges(near, libc::EPOLLOUT)?;
            let mut sent = 0;
            while sent < bytes.len() {
                let piece = &bytes[sent..bytes.len().min(sent + part)];
                let count = send_now(near, piece)?.unwrap_or(0);
                sent += count;
                if count < piece.len() {
                    next_edge(&edges)?;
                }
            }
            Ok(())
        });
        let edges = edges(&far, libc::EPOLLIN);
        let mut read = edges.as_ref().map(drop).map_err(Clone::clone);
        while read.is_ok() && order.seen[0] < bytes.len() {
            read = receive_now(&far, len).and_then(|found| {
                let found = found.unwrap_or_default();
                order.check(&found)?;
                match &edges {
                    Ok(edges) if found.len() < len && order.seen[0] < bytes.len() => next_edge(edges),
                    _ => Ok(()),
                }
            });
        }
        let _ = sockets::shutdown(far.0, libc::SHUT_RDWR);
        joined(writer).and(read)
    })?;
    order.is_complete([bytes.len(), 0])
}

/// An epoll that tells edges of an end.
fn edges(end: &End, events: i32) -> Result<End, String> {
    let set = End(must("epoll_create", poll::epoll_create(libc::EPOLL_CLOEXEC))?);
    let events = (events | libc::EPOLLET).cast_unsigned();
    must("epoll_ctl", poll::epoll_ctl(set.0, libc::EPOLL_CTL_ADD, end.0, events, 0))?;
    Ok(set)
}

fn next_edge(edges: &End) -> Promise {
    let (outcome, found) = poll::epoll_wait(edges.0, EpollBy::Wait, 4, STALL);
    must("epoll_wait", outcome)?;
    if found.is_empty() { Err("no edge came any more".to_owned()) } else { Ok(()) }
}
