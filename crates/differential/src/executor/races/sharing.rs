//! Races of listeners that share a port, and of children that share memory.

use std::thread::scope;

use shm::sync::{AtomicBool, Ordering};

use super::Promise;
use super::ends::{End, Order, client, connected, marked, must, send_all, set_nonblocking};
use super::stream::joined;
use crate::program::call::{Kind, RecvBy};
use crate::random::Random;
use crate::sys::address::Address;
use crate::sys::vfork::{self, Plan};
use crate::sys::{files, process, sockets, transfer};

/// Several listeners on one port: which one a client comes to is the kernel's choice, but it comes to one,
/// once, with what it has sent.
pub(super) fn port_group(kind: Kind, random: &mut Random) -> Promise {
    let mut doors = vec![shared_listener(kind, None)?];
    let (outcome, address) = sockets::name(doors[0].0, false);
    must("getsockname", outcome)?;
    for _ in 0..random.within(1, 3) {
        doors.push(shared_listener(kind, Some(&address))?);
    }
    let wanted = 6 + random.below(14);
    let mut clients = Vec::new();
    for number in 0..wanted {
        let end = client(kind, &address)?;
        send_all(end.0, &[number as u8], random)?;
        clients.push(end);
    }
    let mut seen = vec![0_u32; wanted];
    for door in &doors {
        loop {
            let (outcome, _) = sockets::accept(door.0, Some(libc::SOCK_CLOEXEC));
            if outcome.errno == Some(libc::EAGAIN) && !outcome.is_ok() {
                break;
            }
            let end = End(must("accept4", outcome)?);
            let (outcome, received) = transfer::receive(end.0, 2, RecvBy::Recv, 0, false, 0);
            match received.bytes.get(..outcome.count()) {
                Some(&[number]) if usize::from(number) < wanted => seen[usize::from(number)] += 1,
                _ => return Err(format!("a client sent {} bytes", outcome.ret)),
            }
        }
    }
    if seen.iter().all(|times| *times == 1) {
        Ok(())
    } else {
        Err(format!("clients were accepted {seen:?} times"))
    }
}

/// A listener that lets others have its port, at a new port or at this one.
fn shared_listener(kind: Kind, at: Option<&Address>) -> Result<End, String> {
    let domain = if kind == Kind::Tcp6 { libc::AF_INET6 } else { libc::AF_INET };
    let end = End(must("socket", sockets::socket(domain, libc::SOCK_STREAM | libc::SOCK_CLOEXEC))?);
    must(
        "setsockopt",
        sockets::set_option(end.0, libc::SOL_SOCKET, libc::SO_REUSEPORT, &1_i32.to_ne_bytes()),
    )?;
    let any = if kind == Kind::Tcp6 { Address::v6(false, 0) } else { Address::v4(false, 0) };
    must("bind", sockets::bind(end.0, at.unwrap_or(&any)))?;
    must("listen", sockets::listen(end.0, 64))?;
    set_nonblocking(&end)?;
    Ok(end)
}

/// Bytes go over a connection while another thread makes children by `vfork`, which close both ends and put
/// others in their place: in their own tables, not in the parent's.
pub(super) fn vforks(kind: Kind, random: &mut Random) -> Promise {
    let [near, far] = connected(kind)?;
    let other = connected(Kind::UnixStream)?;
    let size = 20_000 + random.below(40_000);
    let (over, mut seed) = (AtomicBool::new(false), Random::new(random.below(1 << 30) as u64));
    let mut order = Order::default();
    scope(|scope| {
        let (over, near, far, other) = (&over, &near, &far, &other);
        let breeder = scope.spawn(move || -> Promise {
            for round in 0..40 {
                if over.load(Ordering::SeqCst) {
                    break;
                }
                let ends = if round % 2 == 0 { (near.0, far.0) } else { (far.0, near.0) };
                let mut plan = Plan::new(ends.0, (other[0].0, ends.1), None, 3);
                let pid = must("vfork", vfork::make(&mut plan))?;
                let (_, status) = process::waitpid(pid, 0);
                if plan.told()[..2] != [0, i64::from(ends.1)] || libc::WEXITSTATUS(status) != 3 {
                    return Err(format!("a child ended with {status}, its calls {:?}", plan.told()));
                }
            }
            Ok(())
        });
        let writer = scope.spawn(move || {
            send_all(near.0, &marked(0, size), &mut seed)?;
            must("shutdown", sockets::shutdown(near.0, libc::SHUT_WR)).map(drop)
        });
        let read = order.check_all(far.0, random);
        over.store(true, Ordering::SeqCst);
        let _ = sockets::shutdown(far.0, libc::SHUT_RDWR);
        joined(breeder).and(joined(writer)).and(read)
    })?;
    let kept = files::fcntl(other[0].0, libc::F_GETFD, 0);
    must("fcntl", kept)?;
    order.is_complete([size, 0])
}
