//! Races of several users of one connection.

use std::thread::{ScopedJoinHandle, scope};

use shm::sync::{AtomicBool, Ordering};

use super::Promise;
use super::ends::{Order, connected, marked, receive_some, send_all, send_some, set_nonblocking};
use crate::program::call::Kind;
use crate::random::Random;
use crate::sys::process::{self, Action};
use crate::sys::sockets;

/// What a thread found, or that it panicked.
pub(super) fn joined(thread: ScopedJoinHandle<'_, Promise>) -> Promise {
    thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned()))
}

/// Two threads write to one end: the bytes of each arrive once and in order.
pub(super) fn two_writers(kind: Kind, random: &mut Random) -> Promise {
    let [near, far] = connected(kind)?;
    let sizes = [0, 1].map(|_| 5_000 + random.below(60_000));
    let mut seeds = [0, 1].map(|_| Random::new(random.below(1 << 30) as u64));
    let mut order = Order::default();
    scope(|scope| {
        let near = &near;
        let writers: Vec<_> = seeds
            .iter_mut()
            .enumerate()
            .map(|(writer, seed)| scope.spawn(move || send_all(near.0, &marked(writer, sizes[writer]), seed)))
            .collect();
        let ending = scope.spawn(move || {
            writers.into_iter().try_for_each(joined)?;
            super::ends::must("shutdown", sockets::shutdown(near.0, libc::SHUT_WR)).map(drop)
        });
        let read = order.check_all(far.0, random);
        // A reader that gave up must not leave writers waiting.
        let _ = sockets::shutdown(far.0, libc::SHUT_RDWR);
        joined(ending).and(read)
    })?;
    order.is_complete(sizes)
}

/// Both ends send and receive at once, more than buffers hold, without blocking.
pub(super) fn both_ways(kind: Kind, random: &mut Random) -> Promise {
    let ends = connected(kind)?;
    ends.iter().try_for_each(set_nonblocking)?;
    // Small ones, so that they are full most of the time.
    let room = (4096 + random.below(30_000)) as i32;
    for end in &ends {
        let set = sockets::set_option(end.0, libc::SOL_SOCKET, libc::SO_SNDBUF, &room.to_ne_bytes());
        super::ends::must("setsockopt", set)?;
    }
    let sizes = [0, 1].map(|_| 40_000 + random.below(200_000));
    let mut seeds = [0, 1].map(|_| Random::new(random.below(1 << 30) as u64));
    scope(|scope| {
        let threads: Vec<_> = seeds
            .iter_mut()
            .enumerate()
            .map(|(me, seed)| {
                let fd = ends[me].0;
                scope.spawn(move || exchange(fd, me, sizes, seed))
            })
            .collect();
        threads.into_iter().try_for_each(joined)
    })
}

fn exchange(fd: i32, me: usize, sizes: [usize; 2], random: &mut Random) -> Promise {
    let (bytes, mut sent, mut order) = (marked(me, sizes[me]), 0, Order::default());
    let peer = 1 - me;
    while sent < bytes.len() || order.seen[peer] < sizes[peer] {
        let mut events = 0;
        if sent < bytes.len() {
            events |= libc::POLLOUT;
        }
        if order.seen[peer] < sizes[peer] {
            events |= libc::POLLIN;
        }
        let ready = super::ends::ready(fd, events)?;
        if ready & libc::POLLIN != 0 {
            match receive_some(fd, random)? {
                Some(bytes) if bytes.is_empty() => return Err("an end without a reason".to_owned()),
                Some(bytes) => order.check(&bytes)?,
                None => {}
            }
        }
        // On until it is full: that is where bytes get lost.
        while ready & libc::POLLOUT != 0 && sent < bytes.len() {
            let Some(more) = send_some(fd, &bytes[sent..], random)? else { break };
            sent += more;
        }
    }
    Ok(())
}

/// A reader that is shot at with signals gets every byte all the same.
pub(super) fn signals(kind: Kind, random: &mut Random) -> Promise {
    let restart = random.percent(50);
    let _ = process::sigaction(libc::SIGUSR2, Action::Count { restart });
    let [near, far] = connected(kind)?;
    let size = 20_000 + random.below(40_000);
    let (over, mut seed) = (AtomicBool::new(false), Random::new(random.below(1 << 30) as u64));
    let (pid, reader) = process::ids();
    let mut order = Order::default();
    scope(|scope| {
        let (over, near) = (&over, &near);
        let shooter = scope.spawn(move || {
            for _ in 0..3000 {
                if over.load(Ordering::SeqCst) {
                    break;
                }
                let _ = process::kill_thread(pid.cast_signed(), reader.cast_signed(), libc::SIGUSR2);
                std::thread::yield_now();
            }
            Ok(())
        });
        let writer = scope.spawn(move || {
            send_all(near.0, &marked(0, size), &mut seed)?;
            super::ends::must("shutdown", sockets::shutdown(near.0, libc::SHUT_WR)).map(drop)
        });
        let read = order.check_all(far.0, random);
        over.store(true, Ordering::SeqCst);
        let _ = sockets::shutdown(far.0, libc::SHUT_RDWR);
        joined(shooter).and(joined(writer)).and(read)
    })?;
    order.is_complete([size, 0])
}

/// A direction that ends while its reader waits: first every byte, then the end.
pub(super) fn shutdown(kind: Kind, random: &mut Random) -> Promise {
    for _ in 0..8 {
        let [near, far] = connected(kind)?;
        let size = random.below(3000);
        let (mut seed, pause) = (Random::new(random.below(1 << 30) as u64), random.percent(50));
        let mut order = Order::default();
        scope(|scope| {
            let near = &near;
            let writer = scope.spawn(move || {
                if pause {
                    std::thread::yield_now();
                }
                send_all(near.0, &marked(0, size), &mut seed)?;
                super::ends::must("shutdown", sockets::shutdown(near.0, libc::SHUT_WR)).map(drop)
            });
            let read = order.check_all(far.0, random);
            joined(writer).and(read)
        })?;
        order.is_complete([size, 0])?;
    }
    Ok(())
}
