//! The result of a call as text that two runs can be compared by.
//!
//! Behind `@` stands a port, behind `%` a process: numbers that are the kernel's to choose.

use crate::sys::Outcome;
use crate::sys::transfer::BLANK;

/// `= 5`, or `= -1 EAGAIN`; with what happened to errno if the call worked.
pub(super) fn outcome(outcome: Outcome) -> String {
    match outcome.errno {
        None => format!("= {}", outcome.ret),
        Some(error) if outcome.ret < 0 => format!("= {} {}", outcome.ret, errno(error)),
        Some(error) => format!("= {} errno:{}", outcome.ret, errno(error)),
    }
}

/// The name of an error.
pub(super) fn errno(error: i32) -> String {
    let name = match error {
        libc::EPERM => "EPERM",
        libc::ENOENT => "ENOENT",
        libc::ESRCH => "ESRCH",
        libc::EINTR => "EINTR",
        libc::EIO => "EIO",
        libc::EBADF => "EBADF",
        libc::ECHILD => "ECHILD",
        libc::EAGAIN => "EAGAIN",
        libc::ENOMEM => "ENOMEM",
        libc::EFAULT => "EFAULT",
        libc::EBUSY => "EBUSY",
        libc::EEXIST => "EEXIST",
        libc::EINVAL => "EINVAL",
        libc::EMFILE => "EMFILE",
        libc::ENOTTY => "ENOTTY",
        libc::ESPIPE => "ESPIPE",
        libc::EPIPE => "EPIPE",
        libc::ENOSYS => "ENOSYS",
        libc::ELOOP => "ELOOP",
        libc::ENOTSOCK => "ENOTSOCK",
        libc::EDESTADDRREQ => "EDESTADDRREQ",
        libc::EMSGSIZE => "EMSGSIZE",
        libc::EPROTOTYPE => "EPROTOTYPE",
        libc::ENOPROTOOPT => "ENOPROTOOPT",
        libc::EPROTONOSUPPORT => "EPROTONOSUPPORT",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::EAFNOSUPPORT => "EAFNOSUPPORT",
        libc::EADDRINUSE => "EADDRINUSE",
        libc::EADDRNOTAVAIL => "EADDRNOTAVAIL",
        libc::ECONNABORTED => "ECONNABORTED",
        libc::ECONNRESET => "ECONNRESET",
        libc::EISCONN => "EISCONN",
        libc::ENOTCONN => "ENOTCONN",
        libc::ESHUTDOWN => "ESHUTDOWN",
        libc::ETIMEDOUT => "ETIMEDOUT",
        libc::ECONNREFUSED => "ECONNREFUSED",
        libc::EALREADY => "EALREADY",
        libc::EINPROGRESS => "EINPROGRESS",
        other => return format!("E{other}"),
    };
    name.to_owned()
}

/// The name of a signal.
pub(super) fn signal(signal: i32) -> String {
    match signal {
        libc::SIGUSR1 => "USR1".to_owned(),
        libc::SIGUSR2 => "USR2".to_owned(),
        libc::SIGPIPE => "PIPE".to_owned(),
        libc::SIGURG => "URG".to_owned(),
        libc::SIGTERM => "TERM".to_owned(),
        other => format!("SIG{other}"),
    }
}

/// Named bits, joined with `|`; what has no name as a number.
fn bits(value: u32, names: &[(u32, &str)]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = value;
    for (bit, name) in names {
        if rest & bit != 0 {
            parts.push((*name).to_owned());
            rest &= !bit;
        }
    }
    if rest != 0 || parts.is_empty() {
        parts.push(format!("{rest:#x}"));
    }
    parts.join("|")
}

/// What poll answered.
pub(super) fn readiness(events: u32) -> String {
    // EPOLL's values are POLL's, with more above.
    bits(
        events,
        &[
            (0x1, "IN"),
            (0x2, "PRI"),
            (0x4, "OUT"),
            (0x8, "ERR"),
            (0x10, "HUP"),
            (0x20, "NVAL"),
            (0x2000, "RDHUP"),
        ],
    )
}

/// Flags of a message that was received.
pub(super) fn message_flags(flags: i32) -> String {
    bits(
        flags.cast_unsigned(),
        &[
            (libc::MSG_OOB as u32, "OOB"),
            (libc::MSG_CTRUNC as u32, "CTRUNC"),
            (libc::MSG_TRUNC as u32, "TRUNC"),
            (libc::MSG_EOR as u32, "EOR"),
            (libc::MSG_CMSG_CLOEXEC as u32, "CLOEXEC"),
        ],
    )
}

/// Length, digest and beginning of bytes. The digest is 32-bit FNV-1a (Fowler, Noll, Vo).
pub(super) fn data(bytes: &[u8]) -> String {
    let digest =
        bytes.iter().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    let start: String = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{}:{digest:08x}:{start}", bytes.len())
}

/// Whether bytes behind the end of what was received were written.
pub(super) fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == BLANK)
}

/// How a process ended.
pub(super) fn status(status: i32) -> String {
    if libc::WIFEXITED(status) {
        format!("exit:{}", libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        format!("killed:{}", signal(libc::WTERMSIG(status)))
    } else {
        format!("status:{status:#x}")
    }
}
