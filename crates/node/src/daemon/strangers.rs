//! Users who have this process hold more than it can close: what is taken from them meanwhile, and what is not.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use foreign::Load;
use proto::manager::ProgramConn;
use rustix::event::epoll;

use super::{Daemon, Key};

/// How often it is looked at who can be listened to again.
const PAUSE: Duration = Duration::from_millis(100);

impl Daemon {
    /// Whether a program's user has so much to be closed that nothing more is taken: the program is then listened to later.
    pub(super) fn put_off(&mut self, program: ProgramConn) -> bool {
        let Some(end) = self.programs.get(&program) else { return false };
        let uid = end.connection.uid();
        if self.is_own_or_root(uid) || self.closer.load_of(uid) == Load::Light {
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

    /// Whether what a user has connected before that is to be dropped.
    pub(super) fn is_shut_out(&self, uid: u32) -> bool {
        !self.is_own_or_root(uid) && self.door.is_shut_for(uid)
    }

    fn is_own_or_root(&self, uid: u32) -> bool {
        uid == 0 || uid == self.own_uid
    }

    /// Listens again to those whose user's descriptors are closed, and shuts the door for those whose can't be.
    pub(super) fn look_at_users(&mut self) {
        let now = Instant::now();
        if self.look_at_users_at.is_none_or(|at| at > now)
            && !(self.closer.is_busy() && self.look_at_users_at.is_none())
        {
            return;
        }
        let light = |daemon: &Self, program: &ProgramConn| {
            let end = daemon.programs.get(program);
            end.is_none_or(|end| daemon.closer.load_of(end.connection.uid()) == Load::Light)
        };
        let again: Vec<_> = self.put_off.iter().filter(|program| light(self, program)).copied().collect();
        for program in again {
            self.put_off.remove(&program);
            self.watch_for_room(Key::Program(program));
        }
        self.see_to_the_door();
        self.in_flight.look_at_the_ended();
        let more = !self.put_off.is_empty()
            || self.closer.is_busy()
            || self.door.is_shut_for_anybody()
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
                "descriptors that other users sent can't be closed, and all threads for that are held up: nobody but this user \
                 and root can attach until they are"
                    .to_owned(),
            ),
            Ok(true) if shut.is_empty() => self.warn("all users can attach again".to_owned()),
            Ok(true) => self.warn(format!(
                "descriptors that users {shut:?} sent can't be closed: {} can attach until they are",
                if self.door.is_by_list() { "none of them" } else { "nobody but this user and root" }
            )),
            Err(errno) => self.warn(format!("the rights of the socket for programs can't be set: {errno}")),
        }
    }

    /// Hangs up: it ends for the other side at once, whenever its turn to be closed comes.
    pub(super) fn hang_up(&self, fd: impl AsFd) {
        let _ = epoll::delete(&self.epoll, &fd);
        let _ = rustix::net::shutdown(&fd, rustix::net::Shutdown::Both);
    }
}
