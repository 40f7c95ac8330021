//! Calls that wait for descriptors. All end in the kernel, where all descriptors are; a faster way begins here.

use libc::{c_int, epoll_event, fd_set, nfds_t, pollfd, sigset_t, size_t, timespec, timeval};

use crate::hook::forwards;

forwards! {
    fn poll(fds: *mut pollfd, count: nfds_t, limit: c_int) -> c_int, as libc::SYS_poll;
    fn __poll(fds: *mut pollfd, count: nfds_t, limit: c_int) -> c_int, as libc::SYS_poll;
    fn __poll_chk(fds: *mut pollfd, count: nfds_t, limit: c_int, room: size_t) -> c_int, as libc::SYS_poll;
    fn ppoll(fds: *mut pollfd, count: nfds_t, limit: *const timespec, mask: *const sigset_t) -> c_int, else -1;
    fn __ppoll_chk(fds: *mut pollfd, count: nfds_t, limit: *const timespec, mask: *const sigset_t, room: size_t) -> c_int, else -1;
    fn select(count: c_int, input: *mut fd_set, output: *mut fd_set, other: *mut fd_set, limit: *mut timeval) -> c_int, as libc::SYS_select;
    fn __select(count: c_int, input: *mut fd_set, output: *mut fd_set, other: *mut fd_set, limit: *mut timeval) -> c_int, as libc::SYS_select;
    fn pselect(count: c_int, input: *mut fd_set, output: *mut fd_set, other: *mut fd_set, limit: *const timespec, mask: *const sigset_t) -> c_int, else -1;
    fn epoll_ctl(epoll: c_int, what: c_int, fd: c_int, event: *mut epoll_event) -> c_int, as libc::SYS_epoll_ctl;
    fn epoll_wait(epoll: c_int, events: *mut epoll_event, room: c_int, limit: c_int) -> c_int, as libc::SYS_epoll_wait;
    fn epoll_pwait(epoll: c_int, events: *mut epoll_event, room: c_int, limit: c_int, mask: *const sigset_t) -> c_int, else -1;
    fn epoll_pwait2(epoll: c_int, events: *mut epoll_event, room: c_int, limit: *const timespec, mask: *const sigset_t) -> c_int, else -1;
}
