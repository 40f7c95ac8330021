//! Several descriptors, listeners and processes at once.

use std::thread::scope;

use shm::sync::{AtomicBool, AtomicUsize, Ordering};

use super::Promise;
use super::ends::{End, Order, client, connected, listener, marked, must, send_all, set_nonblocking};
use super::stream::joined;
use crate::program::call::{EpollBy, Kind, RecvBy};
use crate::random::Random;
use crate::sys::{files, poll, process, sockets, transfer};

/// A number that means one connection, then another, while somebody reads from it: what it gets is from
/// either, and nothing is lost to it.
pub(super) fn numbers_change_hands(kind: Kind, random: &mut Random) -> Promise {
    let pairs = [connected(kind)?, connected(kind)?];
    let size = 2000 + random.below(8000);
    for (writer, [near, far]) in pairs.iter().enumerate() {
        send_all(near.0, &marked(writer, size), random)?;
        must("shutdown", sockets::shutdown(near.0, libc::SHUT_WR))?;
        set_nonblocking(far)?;
    }
    let number = End(must("dup", files::dup(pairs[0][1].0))?);
    let (over, mut order) = (AtomicBool::new(false), Order::default());
    scope(|scope| {
        let (over, number, pairs) = (&over, &number, &pairs);
        let mut chance = Random::new(random.below(1 << 30) as u64);
        let changer = scope.spawn(move || {
            while !over.load(Ordering::SeqCst) {
                let from = pairs[chance.below(2)][1].0;
                must("dup2", files::dup2(from, number.0))?;
                std::thread::yield_now();
            }
            Ok(())
        });
        let mut ends = 0;
        let mut read = Ok(());
        // Two empty connections answer with their ends for ever.
        while read.is_ok() && ends < 400 {
            let (outcome, received) = transfer::receive(number.0, 64, RecvBy::Read, 0, false, 0);
            match outcome.ret {
                0 => ends += 1,
                -1 => read = Err(format!("read {}", crate::executor::say::outcome(outcome))),
                _ => read = order.check(&received.bytes[..outcome.count()]),
            }
            if ends % 8 == 7 {
                std::thread::yield_now();
            }
        }
        over.store(true, Ordering::SeqCst);
        joined(changer).and(read)
    })?;
    for [_, far] in &pairs {
        order.check_all(far.0, random)?;
    }
    order.is_complete([size, size])
}

/// Workers on one epoll set: each message is taken once.
pub(super) fn workers(kind: Kind, random: &mut Random) -> Promise {
    const CONNECTIONS: usize = 3;
    let connections: Vec<[End; 2]> = (0..CONNECTIONS).map(|_| connected(kind)).collect::<Result<_, _>>()?;
    let set = End(must("epoll_create", poll::epoll_create(libc::EPOLL_CLOEXEC))?);
    let mode = if random.percent(60) { libc::EPOLLONESHOT } else { libc::EPOLLONESHOT | libc::EPOLLET };
    let events = (libc::EPOLLIN | mode).cast_unsigned();
    for (at, [_, far]) in connections.iter().enumerate() {
        set_nonblocking(far)?;
        must("epoll_ctl", poll::epoll_ctl(set.0, libc::EPOLL_CTL_ADD, far.0, events, at as u64))?;
    }
    let wanted = CONNECTIONS * (100 + random.below(200));
    let taken = AtomicUsize::new(0);
    scope(|scope| {
        let (set, connections, taken) = (&set, &connections, &taken);
        let work = move || -> Promise {
            let mut silent = 0;
            while taken.load(Ordering::SeqCst) < wanted {
                let (outcome, found) = poll::epoll_wait(set.0, EpollBy::Wait, 2, 50);
                must("epoll_wait", outcome)?;
                silent = if found.is_empty() { silent + 1 } else { 0 };
                if silent > 60 {
                    return Err(format!("{} of {wanted} bytes, then silence", taken.load(Ordering::SeqCst)));
                }
                for (_, at) in found {
                    let fd = connections[at as usize][1].0;
                    loop {
                        let (outcome, _) = transfer::receive(fd, 16, RecvBy::Recv, 0, false, 0);
                        if !outcome.is_ok() && outcome.errno == Some(libc::EAGAIN) {
                            break;
                        }
                        taken.fetch_add(must("recv", outcome)?.unsigned_abs() as usize, Ordering::SeqCst);
                    }
                    must("epoll_ctl", poll::epoll_ctl(set.0, libc::EPOLL_CTL_MOD, fd, events, at))?;
                }
            }
            Ok(())
        };
        let threads = [scope.spawn(work), scope.spawn(work)];
        let mut sent = Ok(());
        for _ in 0..wanted / CONNECTIONS {
            for [near, _] in connections {
                sent = sent.and_then(|()| send_all(near.0, &[7], random));
            }
        }
        threads.into_iter().try_for_each(joined).and(sent)
    })?;
    let taken = taken.into_inner();
    if taken == wanted { Ok(()) } else { Err(format!("{taken} bytes of {wanted} were taken")) }
}

/// Threads that accept from one listener: each client is accepted once.
pub(super) fn acceptors(kind: Kind, random: &mut Random) -> Promise {
    let (door, address) = listener(kind)?;
    set_nonblocking(&door)?;
    let wanted = 8 + random.below(16);
    let accepted = AtomicUsize::new(0);
    scope(|scope| {
        let (door, accepted) = (&door, &accepted);
        let work = move || -> Promise {
            for _ in 0..2000 {
                if accepted.load(Ordering::SeqCst) >= wanted {
                    return Ok(());
                }
                let mut set = [(door.0, libc::POLLIN, 0)];
                must("poll", poll::poll(&mut set, crate::program::call::PollBy::Poll, 5))?;
                let (outcome, _) = sockets::accept(door.0, Some(libc::SOCK_CLOEXEC));
                if outcome.is_ok() {
                    let end = End(outcome.fd());
                    let (outcome, received) = transfer::receive(end.0, 2, RecvBy::Recv, 0, false, 0);
                    must("recv", outcome)?;
                    if received.bytes[..outcome.count()] != [9] {
                        return Err(format!("a client sent {:?}", &received.bytes[..outcome.count()]));
                    }
                    accepted.fetch_add(1, Ordering::SeqCst);
                } else if outcome.errno != Some(libc::EAGAIN) {
                    must("accept4", outcome)?;
                }
            }
            Err(format!("{} of {wanted} clients were accepted", accepted.load(Ordering::SeqCst)))
        };
        let threads = [scope.spawn(work), scope.spawn(work)];
        let mut clients = Vec::new();
        let mut connected = Ok(());
        for _ in 0..wanted {
            connected = connected.and_then(|()| {
                let end = client(kind, &address)?;
                send_all(end.0, &[9], random)?;
                clients.push(end);
                Ok(())
            });
        }
        threads.into_iter().try_for_each(joined).and(connected)
    })?;
    let accepted = accepted.into_inner();
    if accepted == wanted { Ok(()) } else { Err(format!("{accepted} clients of {wanted} were accepted")) }
}

/// A child writes beside its parent, and may be killed: what comes of it comes in order.
pub(super) fn forked_writer(kind: Kind, random: &mut Random) -> Promise {
    let [near, far] = connected(kind)?;
    let sizes = [5_000 + random.below(30_000), 5_000 + random.below(30_000)];
    let (killed, mut seed) = (random.percent(40), Random::new(random.below(1 << 30) as u64));
    let child = process::fork();
    if child.ret == 0 {
        process::end_after(super::super::LIFETIME);
        let _ = files::close(far.0);
        let sent = send_all(near.0, &marked(1, sizes[1]), &mut seed);
        process::exit(i32::from(sent.is_err()));
    }
    let pid = must("fork", child)?;
    let mut order = Order::default();
    let read = scope(|scope| {
        let near = &near;
        let writer = scope.spawn(move || {
            let sent = send_all(near.0, &marked(0, sizes[0]), &mut seed);
            if killed {
                let _ = process::kill(pid, libc::SIGKILL);
            }
            let (_, status) = process::waitpid(pid, 0);
            // Now nobody else holds this end.
            let ended = must("shutdown", sockets::shutdown(near.0, libc::SHUT_WR)).map(drop);
            let well = killed || status == 0;
            sent.and(ended).and(if well { Ok(()) } else { Err(format!("the child ended with {status}")) })
        });
        let read = order.check_all(far.0, random);
        let _ = sockets::shutdown(far.0, libc::SHUT_RDWR);
        joined(writer).and(read)
    });
    read?;
    let whole = if killed { order.seen[1].min(sizes[1]) } else { sizes[1] };
    order.is_complete([sizes[0], whole])
}
