//! Rare calls: io_uring, asynchronous I/O, cancelled threads, `vfork`, wrong arguments, exhausted
//! resources, many descriptors.

use super::context::Context;
use super::say;
use super::traffic::pattern;
use crate::program::Slot;
use crate::program::call::{AioBy, Call, CancelHow, CrowdBy, NumberOf, PollBy, RingOp};
use crate::sys::vfork::Plan;
use crate::sys::{Outcome, aio, cancel, files, poll, process, ring, scarce, transfer, vfork, wrong};

/// Makes such a call.
pub(super) fn perform(context: &Context, at: usize, call: &Call) -> String {
    let fd = |slot: &Slot| context.fd(*slot);
    match call {
        Call::Ring { fd: slot, op, len, to } => ring(context, at, (fd(slot), *op, *len as usize), *to),
        Call::Aio { fd: slot, by, len } => aio(at, fd(slot), *by, *len as usize),
        // Nothing else would end it.
        Call::Cancel { fd: slot, how: CancelHow::Disabled, .. } if !is_ready(fd(slot), libc::POLLIN) => {
            "not ready".to_owned()
        }
        Call::Cancel { fd: slot, at, how } => match cancel::cancel(fd(slot), *at, *how) {
            None => "no thread".to_owned(),
            Some(ended) => {
                let how = if ended.cancelled { "cancelled" } else { "ended" };
                let returned = ended.returned.map_or("nothing".to_owned(), |value| value.to_string());
                format!("= 0 {how} returned {returned} cleaned {}", ended.cleaned)
            }
        },
        Call::VforkExit { close, fd, onto, status } => vfork_exit(context, (*close, *fd, *onto), *status),
        Call::Number { to, of } => {
            context.keep(*to, number(*of));
            "set".to_owned()
        }
        Call::Scarcity { of, fd: slot } => {
            let each = scarce::scarce(*of, fd(slot)).map(say::outcome);
            each.join("; ")
        }
        Call::Crowd { fd: slot, by, copies } => crowd(fd(slot), *by, *copies as usize),
        Call::Wrong { fd: slot, by } => {
            let outcome = wrong::call(fd(slot), *by);
            say::outcome(outcome)
        }
        _ => "not a call of this kind".to_owned(),
    }
}

/// A number, by what it is to the limit of descriptors.
fn number(of: NumberOf) -> i32 {
    /// Where a limit is very high, tables as long as it would be slow.
    const HIGH: u64 = 4096;
    let limit = process::descriptor_limit().min(HIGH) as i32;
    match of {
        NumberOf::Minus => -1,
        NumberOf::Lowest => i32::MIN,
        NumberOf::Zero => 0,
        NumberOf::One => 1,
        NumberOf::Two => 2,
        NumberOf::Middle => 700,
        NumberOf::Last => limit - 1,
        NumberOf::Limit => limit,
        NumberOf::Highest => i32::MAX,
    }
}

fn ring(context: &Context, at: usize, (fd, op, len): (i32, RingOp, usize), to: Slot) -> String {
    let mut bytes = if op == RingOp::Recv { vec![transfer::BLANK; len] } else { pattern(at, len) };
    // In a thread that ends with its ring: the kernel tells a thread later that a ring of its own is gone,
    // which interrupts whatever it waits in by then.
    let made = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(64 * 1024);
        let rung = thread.spawn_scoped(scope, || ring::ring(op, fd, &mut bytes)).map(|thread| thread.join());
        rung.ok().and_then(Result::ok)
    });
    let Some(rung) = made else { return "no thread".to_owned() };
    let mut said = format!("ring {}", say::outcome(rung.setup));
    if let Some(enter) = rung.enter {
        said.push_str(&format!(" enter {}", say::outcome(enter)));
    }
    let Some(result) = rung.result else { return said + " nothing came" };
    if matches!(op, RingOp::Accept | RingOp::Socket) {
        context.keep(to, result.max(-1));
    }
    match result {
        error if error < 0 => said.push_str(&format!(" = {}", say::errno(-error))),
        events if op == RingOp::Poll => {
            said.push_str(&format!(" = {}", say::readiness(events.cast_unsigned())));
        }
        value => said.push_str(&format!(" = {value}")),
    }
    if op == RingOp::Recv {
        let got = usize::try_from(result).unwrap_or(0).min(bytes.len());
        said.push_str(&format!(" data={}", say::data(&bytes[..got])));
        if !say::is_blank(&bytes[got..]) {
            said.push_str(" overrun");
        }
    }
    said
}

fn is_ready(fd: i32, events: i16) -> bool {
    poll::poll(&mut [(fd, events, 0)], PollBy::Poll, 0).ret == 1
}

fn aio(at: usize, fd: i32, by: AioBy, len: usize) -> String {
    let reads = matches!(by, AioBy::Read | AioBy::ListRead);
    if fd >= 0 && !is_ready(fd, if reads { libc::POLLIN } else { libc::POLLOUT }) {
        return "not ready".to_owned();
    }
    let mut bytes = if reads { vec![transfer::BLANK; len] } else { pattern(at, len) };
    let (started, result) = aio::aio(fd, by, &mut bytes);
    let mut said = say::outcome(started);
    match result {
        Some(error) if error < 0 => {
            said.push_str(&format!(" over {}", say::errno(i32::try_from(-error).unwrap_or(0))));
        }
        Some(count) => {
            said.push_str(&format!(" over {count}"));
            if reads {
                let got = usize::try_from(count).unwrap_or(0).min(bytes.len());
                said.push_str(&format!(" data={}", say::data(&bytes[..got])));
            }
        }
        None => {}
    }
    said
}

/// What a child by `vfork` is to do with the numbers in these slots.
pub(super) fn child_plan(
    context: &Context,
    (close, fd, onto): (Option<Slot>, Option<Slot>, Option<Slot>),
    image: Option<(&str, &[String])>,
    status: i32,
) -> Plan {
    let number = |slot: Option<Slot>| slot.map_or(-1, |slot| context.fd(slot));
    Plan::new(number(close), (number(fd), number(onto)), image, status)
}

/// What came of the child's calls.
pub(super) fn told(plan: &Plan) -> String {
    let each = plan.told().map(|value| match value {
        -7 => "-".to_owned(),
        error if error < 0 => say::errno(i32::try_from(-error).unwrap_or(0)),
        value => value.to_string(),
    });
    each.join(",")
}

fn vfork_exit(context: &Context, slots: (Option<Slot>, Option<Slot>, Option<Slot>), status: u8) -> String {
    let mut plan = child_plan(context, slots, None, i32::from(status));
    let child = vfork::make(&mut plan);
    if !child.is_ok() {
        return say::outcome(child);
    }
    let (waited, status) = process::waitpid(child.fd(), 0);
    if waited.ret != child.ret {
        return format!("= %{} child {} wait {}", child.ret, told(&plan), say::outcome(waited));
    }
    format!("= %{} child {} {}", child.ret, told(&plan), say::status(status))
}

/// Copies, as many as come; what a wait for all says of them; and their end.
fn crowd(fd: i32, by: CrowdBy, copies: usize) -> String {
    let mut held = Vec::with_capacity(copies);
    let mut said = String::new();
    for _ in 0..copies {
        let copy = files::dup(fd);
        if !copy.is_ok() {
            said = format!("dup {} ", say::outcome(copy));
            break;
        }
        held.push(copy.fd());
    }
    let (first, last) = (held.first().copied().unwrap_or(-1), held.last().copied().unwrap_or(-1));
    said.push_str(&format!("{} copies {first}..{last} ", held.len()));
    said.push_str(&match by {
        CrowdBy::Poll => polled(&held, PollBy::Poll),
        CrowdBy::Ppoll => polled(&held, PollBy::Ppoll),
        CrowdBy::Select => polled(&held, PollBy::Select),
        CrowdBy::Epoll => gathered(&held),
    });
    let failed = held.iter().filter(|copy| !files::close(**copy).is_ok()).count();
    if failed > 0 {
        said.push_str(&format!(" {failed} not closed"));
    }
    said
}

/// Waits for all at once, with numbers between that are none.
fn polled(held: &[i32], by: PollBy) -> String {
    let mut set: Vec<(i32, i16, i16)> =
        held.iter().map(|fd| (*fd, libc::POLLIN | libc::POLLOUT | libc::POLLPRI, 0)).collect();
    if matches!(by, PollBy::Poll | PollBy::Ppoll) {
        set.insert(held.len() / 2, (-1, libc::POLLIN, 0));
    }
    let outcome = poll::poll(&mut set, by, 0);
    format!("{} {}", say::outcome(outcome), runs(set.iter().map(|entry| u32::from(entry.2.cast_unsigned()))))
}

/// The same by a set of their own.
fn gathered(held: &[i32]) -> String {
    let set = poll::epoll_create(libc::EPOLL_CLOEXEC);
    let wanted = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP) as u32;
    let mut added: Vec<Outcome> = Vec::with_capacity(held.len());
    for (at, fd) in held.iter().enumerate() {
        added.push(poll::epoll_ctl(set.fd(), libc::EPOLL_CTL_ADD, *fd, wanted, at as u64));
    }
    let failed = added.iter().find(|outcome| !outcome.is_ok());
    let (outcome, mut events) =
        poll::epoll_wait(set.fd(), crate::program::call::EpollBy::Wait, held.len().max(1) as i32, 0);
    events.sort_by_key(|(_, data)| *data);
    let mut said = format!("{} {}", say::outcome(outcome), runs(events.iter().map(|(events, _)| *events)));
    if let Some(failed) = failed {
        said.push_str(&format!(" add {}", say::outcome(*failed)));
    }
    let _ = files::close(set.fd());
    said
}

/// Answers with how often each comes in a row.
fn runs(answers: impl Iterator<Item = u32>) -> String {
    let mut runs: Vec<(u32, usize)> = Vec::new();
    for answer in answers {
        match runs.last_mut() {
            Some((same, count)) if *same == answer => *count += 1,
            _ => runs.push((answer, 1)),
        }
    }
    let each: Vec<String> =
        runs.iter().map(|(answer, count)| format!("{count}*{}", say::readiness(*answer))).collect();
    each.join(" ")
}
