//! Executes poll, select and epoll.

use super::context::Context;
use super::say;
use crate::program::call::{Call, CtlOp, EpollEvent, PollEvent};
use crate::program::{Set, Slot, Word as _};
use crate::sys::poll;

/// Calls that ask for readiness.
pub(super) fn perform(context: &Context, call: &Call) -> String {
    match call {
        Call::Poll { by, set, timeout } => {
            let mut entries: Vec<(i32, i16, i16)> =
                set.iter().map(|entry| (context.fd(entry.fd), poll_events(entry.events), 0)).collect();
            let mut said = say::outcome(poll::poll(&mut entries, *by, *timeout));
            for (entry, asked) in entries.iter().zip(set) {
                if entry.2 != 0 {
                    said.push(' ');
                    asked.fd.write(&mut said);
                    said.push(':');
                    said.push_str(&say::readiness(u32::from(entry.2.cast_unsigned())));
                }
            }
            said
        }
        Call::EpollCtl { fd, op, member, events } => {
            let op = match op {
                CtlOp::Add => libc::EPOLL_CTL_ADD,
                CtlOp::Mod => libc::EPOLL_CTL_MOD,
                CtlOp::Del => libc::EPOLL_CTL_DEL,
            };
            let outcome = poll::epoll_ctl(
                context.fd(*fd),
                op,
                context.fd(*member),
                epoll_events(*events),
                u64::from(member.0),
            );
            say::outcome(outcome)
        }
        Call::EpollWait { fd, by, max, timeout } => {
            let (outcome, mut events) = poll::epoll_wait(context.fd(*fd), *by, *max, *timeout);
            // The order of events is no promise.
            events.sort_by_key(|(events, data)| (*data, *events));
            let mut said = say::outcome(outcome);
            for (events, data) in events {
                said.push(' ');
                match u8::try_from(data) {
                    Ok(slot) => Slot(slot).write(&mut said),
                    Err(_) => said.push_str(&format!("data={data:#x}")),
                }
                said.push(':');
                said.push_str(&say::readiness(events));
            }
            said
        }
        _ => "not a call of this kind".to_owned(),
    }
}

fn poll_events(events: Set<PollEvent>) -> i16 {
    events.members().fold(0, |sum, event| {
        sum | match event {
            PollEvent::In => libc::POLLIN,
            PollEvent::Pri => libc::POLLPRI,
            PollEvent::Out => libc::POLLOUT,
            PollEvent::Rdhup => libc::POLLRDHUP,
        }
    })
}

fn epoll_events(events: Set<EpollEvent>) -> u32 {
    let flags = events.flags(|event| match event {
        EpollEvent::In => libc::EPOLLIN,
        EpollEvent::Pri => libc::EPOLLPRI,
        EpollEvent::Out => libc::EPOLLOUT,
        EpollEvent::Rdhup => libc::EPOLLRDHUP,
        EpollEvent::Edge => libc::EPOLLET,
        EpollEvent::Oneshot => libc::EPOLLONESHOT,
        EpollEvent::Exclusive => libc::EPOLLEXCLUSIVE,
    });
    flags.cast_unsigned()
}
