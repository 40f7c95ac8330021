//! What keeps a segment from being removed: a process that has a map of it, and nothing else.

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tieline_tests::{Cluster, Peer, Watchdog};

use crate::{c, finish, id, run};

/// An owner on the first node, and its users.
struct Programs {
    cluster: Cluster,
    owner: Peer,
}

impl Programs {
    fn up() -> Self {
        let cluster = Cluster::up(2).unwrap();
        let mut owner = Peer::start(&cluster, &c::program("keeps"), 0, &["own"]).unwrap();
        owner.expect("ready").unwrap();
        Self { cluster, owner }
    }

    fn user(&self, node: usize) -> Peer {
        let mut user =
            Peer::start(&self.cluster, &c::program("keeps"), node, &["use", &id(&self.cluster, 0)]).unwrap();
        user.expect("connected").unwrap();
        user
    }

    /// What comes of a removal.
    fn remove(&mut self, how: &str, wanted: &str) {
        ask(&mut self.owner, how, wanted);
    }

    fn is_busy(&mut self) {
        self.remove("remove", "busy");
    }

    fn goes(self, users: Vec<Peer>) {
        self.goes_from(users, "gone");
    }

    fn goes_from(mut self, users: Vec<Peer>, seen: &str) {
        self.remove("remove", "removed");
        for mut user in users {
            tell(&mut user, seen);
            finish(user);
        }
        finish(self.owner);
    }
}

fn ask(peer: &mut Peer, order: &str, wanted: &str) {
    peer.say(order).unwrap();
    peer.expect(wanted).unwrap();
}

fn tell(peer: &mut Peer, order: &str) {
    ask(peer, order, "done");
}

#[test]
fn a_map_keeps_a_segment_and_a_connection_does_not() {
    let _watchdog = Watchdog::usual("maps and connections");
    for node in [1, 0] {
        let mut programs = Programs::up();
        let mut user = programs.user(node);
        for _ in 0..2 {
            tell(&mut user, "map");
            programs.is_busy();
            tell(&mut user, "unmap");
        }
        programs.goes(vec![user]);
    }
}

#[test]
fn each_program_keeps_it_for_itself_until_it_dies() {
    let _watchdog = Watchdog::usual("users that die");
    let mut programs = Programs::up();
    // Two of one node, and one of the owner's.
    let (mut first, mut second, mut third) = (programs.user(1), programs.user(1), programs.user(0));
    for user in [&mut first, &mut second, &mut third] {
        tell(user, "map");
    }
    programs.is_busy();
    tell(&mut second, "unmap");
    programs.is_busy();
    third.kill().unwrap();
    programs.is_busy();
    first.kill().unwrap();
    programs.goes(vec![second]);
}

/// The kernel takes back the locks of a process that closes any descriptor of the memory.
#[test]
fn a_map_keeps_it_whatever_becomes_of_other_connections_of_its_program() {
    let _watchdog = Watchdog::usual("several connections of a program");
    let mut programs = Programs::up();
    let mut user = programs.user(1);
    tell(&mut user, "map");
    for order in ["other", "map other", "watch other", "unmap other", "end other", "forget other", "fork"] {
        tell(&mut user, order);
        programs.is_busy();
    }
    tell(&mut user, "unmap");
    programs.goes(vec![user]);
}

#[test]
fn a_program_that_is_connected_to_itself() {
    let _watchdog = Watchdog::usual("a program and its own segment");
    run(&Cluster::up(1).unwrap(), &c::program("keeps"), 0, &["alone"]);
}

/// kill -9 of a manager; returns when it is gone.
fn kill_manager(cluster: &Cluster, index: usize) {
    let pid = Pid::from_raw(cluster.manager_pid(index).unwrap().try_into().unwrap()).unwrap();
    let process = pidfd_open(pid, PidfdFlags::empty()).unwrap();
    pidfd_send_signal(&process, Signal::KILL).unwrap();
    rustix::event::poll(&mut [rustix::event::PollFd::new(&process, rustix::event::PollFlags::IN)], None)
        .unwrap();
}

/// Maps are between programs: no manager has to be there.
#[test]
fn a_map_keeps_it_while_managers_are_dead_and_restarted() {
    let _watchdog = Watchdog::usual("maps and managers that die");
    for victim in [0, 1] {
        let mut programs = Programs::up();
        let mut user = programs.user(1);
        tell(&mut user, "map");
        kill_manager(&programs.cluster, victim);
        programs.is_busy();
        let node = id(&programs.cluster, victim);
        let (status, out, errors) = programs.cluster.run(&["node", "start", "--id", &node]).unwrap();
        assert_eq!(status, 0, "{out}{errors}");
        programs.is_busy();
        tell(&mut user, "come back");
        programs.is_busy();
        tell(&mut user, "unmap");
        // A connection that the managers have not taken up again when the segment goes is reported as lost.
        programs.goes_from(vec![user], "gone or lost");
    }
}

/// A process that may connect can report a map that it does not have; not that another has none.
#[test]
fn a_hostile_user_speaks_for_itself_only() {
    let _watchdog = Watchdog::usual("a hostile user");
    let mut programs = Programs::up();
    let (mut hostile, mut user) = (programs.user(1), programs.user(1));
    ask(&mut hostile, "lock alone", "refused");
    tell(&mut user, "map");
    ask(&mut hostile, "lock alone", "refused");
    ask(&mut hostile, "unlock", "locked");
    programs.is_busy();
    tell(&mut user, "unmap");
    ask(&mut hostile, "lock", "locked");
    programs.is_busy();
    programs.remove("force", "removed");
    for mut peer in [hostile, user] {
        tell(&mut peer, "gone");
        finish(peer);
    }
    finish(programs.owner);
}
