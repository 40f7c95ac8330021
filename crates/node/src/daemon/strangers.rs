//! Limits users that make this process hold more descriptors than it can close.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use foreign::Load;
use proto::manager::ProgramConn;
use rustix::event::epoll;

use super::{Daemon, Key};

/// How often it is examined who can be listened to again.
const PAUSE: Duration = Duration::from_millis(100);

impl Daemon {
    /// Whether a program's user has so much to be closed that nothing more is taken: the program is then
    /// listened to later.
    pub(super) fn put_off(&mut self, program: ProgramConn) -> bool {
        let Some(end) = self.programs.get(&program) else { return false };
        let uid = end.connection.uid();
        if self.is_own_or_root(uid) || self.may_take_from(uid) {
            return false;
        }
        if self.put_off.insert(program) {
            self.watch_for_room(Key::Program(program));
        }
        self.look_at_users_soon();
        true
    }

    pub(super) fn look_at_users_soon(&mut self) {
        self.look_at_users_at.get_or_insert(Instant::now() + PAUSE);
    }

    /// Whether a message of this user may be taken in: not many of its descriptors are still to be closed,
    /// and room for all that it may carry.
    fn may_take_from(&mut self, uid: u32) -> bool {
        self.closer.load_of(uid) == Load::Light && self.is_there_room()
    }

    /// Whether what waits to be closed leaves room for a message.
    fn is_there_room(&mut self) -> bool {
        let now = Instant::now();
        // Each look takes a call for each number.
        if self.no_room_until.is_some_and(|until| now < until) {
            return false;
        }
        let is_free = self.descriptors.has_room_for_a_message() || !self.closer.has_of_others();
        self.no_room_until = (!is_free).then(|| now + PAUSE / 2);
        is_free
    }

    /// Whether what a user has connected before that is to be dropped. A process that has just sent what
    /// can't be closed is shut out now.
    pub(super) fn is_shut_out(&mut self, uid: u32) -> bool {
        if self.is_own_or_root(uid) {
            return false;
        }
        if !self.door.is_shut_for(uid)
            && (self.closer.load_of(uid) == Load::Stuck || self.closer.is_exhausted())
        {
            self.see_to_the_door();
            self.look_at_users_soon();
        }
        self.door.is_shut_for(uid)
    }

    /// Accepts no program until what was refused is closed.
    pub(super) fn accept_later(&mut self) {
        self.accepts_nothing = true;
        self.want_programs(false);
        self.look_at_users_soon();
    }

    fn want_programs(&self, wanted: bool) {
        let flags = if wanted { epoll::EventFlags::IN } else { epoll::EventFlags::empty() };
        let data = epoll::EventData::new_u64(Key::Programs.encode());
        // It is in the set. If this fails all the same, it is accepted a little more than should be.
        let _ = epoll::modify(&self.epoll, self.programs_listener.as_fd(), data, flags);
    }

    fn is_own_or_root(&self, uid: u32) -> bool {
        uid == 0 || uid == self.own_uid
    }

    /// Listens again to those whose user's descriptors are closed, and shuts the door for those whose can't
    /// be.
    pub(super) fn look_at_users(&mut self) {
        let now = Instant::now();
        if self.look_at_users_at.is_none_or(|at| at > now)
            && !(self.closer.is_busy() && self.look_at_users_at.is_none())
        {
            return;
        }
        for program in std::mem::take(&mut self.put_off) {
            let uid = self.programs.get(&program).map(|end| end.connection.uid());
            if uid.is_some_and(|uid| !self.may_take_from(uid)) {
                self.put_off.insert(program);
            } else {
                self.watch_for_room(Key::Program(program));
            }
        }
        if self.accepts_nothing && self.is_there_room() {
            self.accepts_nothing = false;
            self.want_programs(true);
        }
        self.see_to_the_door();
        self.in_flight.look_at_the_ended();
        let more = !self.put_off.is_empty()
            || self.closer.is_busy()
            || self.door.is_shut_for_anybody()
            || self.accepts_nothing
            || self.in_flight.keeps_any();
        self.look_at_users_at = more.then(|| now + PAUSE);
    }

    fn see_to_the_door(&mut self) {
        let mut shut: BTreeSet<u32> = self.closer.stuck_users().into_iter().collect();
        // Who was shut out comes back when everything is closed, not as soon as a little is.
        shut.extend(self.door.shut_out().into_iter().filter(|uid| !self.closer.is_done_with(*uid)));
        let all = self.closer.is_exhausted();
        match self.door.shut(shut.clone(), all) {
            Ok(false) => {}
            Ok(true) if all => self.warn(
                "descriptors that other users sent cannot be closed, and all threads for that are blocked: only this user and \
                 root can attach until they are closed"
                    .to_owned(),
            ),
            Ok(true) if shut.is_empty() => self.warn("all users can attach again".to_owned()),
            Ok(true) => self.warn(format!(
                "descriptors that users {shut:?} sent cannot be closed: {} until they are closed",
                if self.door.is_by_list() { "these users cannot attach" } else { "only this user and root can attach" }
            )),
            Err(errno) => self.warn(format!("the mode of the socket for programs cannot be set: {errno}")),
        }
    }

    /// Hangs up: it ends for the other side at once, whenever its turn to be closed comes.
    pub(super) fn hang_up(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.epoll, &fd);
        let _ = rustix::net::shutdown(&fd, rustix::net::Shutdown::Both);
    }
}
