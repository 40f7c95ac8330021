//! Users who send descriptors whose closing sleeps: they cost the manager a thread of their own, and nobody
//! else anything. Only root can play several users; else these are skipped.

// Helpers of tests are tests, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Stdio};
use std::time::Duration;

use foreign::trial::{lingering, nested, send_with};
use foreign::{MOST_IN_MESSAGE, MOST_WAITING};
use node::config::Settings;
use node::{Daemon, DaemonOptions};
use node_client::Client;
use node_client::seqpacket::Seqpacket;
use proto::wire::encode;
use proto::wire::program::{Access, Incarnation, Request, ToManager};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, setrlimit};
use support::{ChildProcess, Place, Raw, as_user, eventually, node, place_of_users, play, segment, spawn};

const HOSTILE: u32 = 54_321;
const HONEST: u32 = 54_322;
const MANAGER: u32 = 54_324;
/// What a kernel before 6.5 does without.
const OLD_KERNEL: &str = "passrights,peerpidfd";

#[test]
fn child_role() {
    support::child_role(|role, place| match role {
        "shared manager" => {
            if let Ok(limit) = std::env::var("TL_LIMIT") {
                let most = Some(limit.parse().unwrap());
                setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).unwrap();
            }
            let uids = std::env::var("TL_UIDS").unwrap();
            let attach =
                Access { uids: uids.split(',').map(|uid| uid.parse().unwrap()).collect(), gid: None };
            let settings = Settings { attach, ..support::quick() };
            Daemon::start(&DaemonOptions { settings, ..place.options(4) }).unwrap().run().unwrap();
        }
        "attach" => assert!(place.attach(4).probe(node(4)).unwrap()),
        "cannot connect" => {
            let socket = Seqpacket::connect(&place.dir().socket(node(4)).unwrap());
            assert_eq!(socket.unwrap_err(), Errno::ACCESS);
        }
        "cannot attach" => drop(Client::attach(&place.attach_options(4), |_| {}).unwrap_err()),
        "attack unheard" => hold(&attack_unheard(place)),
        "attack unread" => hold(&attack_unread(place)),
        "attack slowly" => hold(&attack_slowly(place)),
        "attack admitted" => hold(&attack_admitted(place)),
        other => panic!("{other}"),
    });
}

/// Says that the attack is over, and keeps what it holds until the parent says so.
fn hold<T>(_held: &T) {
    println!("attacked");
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().read(&mut [0]);
}

/// Messages of one who is not welcome, with all that is known to make closing sleep, to connections that are
/// closed or not.
fn attack_unheard(place: &Place) -> Vec<impl Sized> {
    let null = std::fs::File::open("/dev/null").unwrap();
    let mut held = Vec::new();
    let mut attack = |send: &dyn Fn(&Seqpacket, &OwnedFd) -> std::io::Result<()>, hang_up: bool| {
        let (fd, release) = lingering().unwrap();
        let raw = Raw::connect(place, 4);
        // The manager may hang up first.
        let _ = send(&raw.socket, &fd);
        give_up(fd);
        held.push((release, (!hang_up).then_some(raw)));
    };
    for hang_up in [false, true] {
        attack(&|socket, fd| send_with(socket, b"x", &[fd.as_fd()]), hang_up);
        attack(&|socket, fd| send_with(socket, b"", &[fd.as_fd()]), hang_up);
        attack(
            &|socket, fd| {
                let outer = nested(fd.try_clone()?)?;
                let sent = send_with(socket, b"x", &[outer.as_fd()]);
                give_up(outer);
                sent
            },
            hang_up,
        );
        // More than a receiver of few has room for.
        attack(
            &|socket, fd| {
                let mut many = vec![null.as_fd(); MOST_IN_MESSAGE - 1];
                many.push(fd.as_fd());
                send_with(socket, b"x", &many)
            },
            hang_up,
        );
        // Behind a first message.
        attack(
            &|socket, fd| {
                send_with(socket, b"x", &[null.as_fd()])?;
                send_with(socket, b"x", &[fd.as_fd()])
            },
            hang_up,
        );
    }
    held
}

/// Closes one's own copy. A process that closes the last one sleeps: if the manager was quicker, that is
/// here, and the thread does not end before the release.
fn give_up(fd: OwnedFd) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || drop(fd))
}

/// One who is admitted sends more than is closed, on connections that were welcomed.
fn attack_admitted(place: &Place) -> impl Sized {
    let null = std::fs::File::open("/dev/null").unwrap();
    let mut releases = Vec::new();
    let request = encode(&ToManager::Request { id: 1, body: Request::Status }).unwrap();
    // Each message of this kind ends its connection.
    let mut raws: Vec<_> = (0..20).map(|_| Raw::hello(place, 4)).collect();
    let mut closings = Vec::new();
    let mut hold_up = |raw: &Raw| {
        let (fd, release) = lingering().unwrap();
        let outer = nested(fd).unwrap();
        send_with(&raw.socket, &request, &[outer.as_fd()]).unwrap();
        releases.push(release);
        closings.push(give_up(outer));
        // Which does not sleep where the manager has, or will have, the last copy.
        std::thread::sleep(Duration::from_millis(1));
        closings.iter().any(|closing| closing.is_finished())
    };
    let mut held_up = raws[..16].iter().fold(false, |_, raw| hold_up(raw));
    while !held_up {
        let raw = Raw::hello(place, 4);
        held_up = hold_up(&raw);
        raws.push(raw);
    }
    for raw in &raws[16..20] {
        send_with(&raw.socket, &request, &vec![null.as_fd(); MOST_IN_MESSAGE]).unwrap();
    }
    (releases, raws)
}

/// One who is admitted lets go of what can't be closed one by one, and meanwhile connects and hangs up.
fn attack_slowly(place: &Place) -> impl Sized {
    let request = encode(&ToManager::Request { id: 1, body: Request::Status }).unwrap();
    let raws: Vec<_> = (0..24).map(|_| Raw::hello(place, 4)).collect();
    let mut releases = Vec::new();
    for raw in &raws {
        let (fd, release) = lingering().unwrap();
        send_with(&raw.socket, &request, &[fd.as_fd()]).unwrap();
        give_up(fd);
        releases.push(release);
    }
    std::thread::spawn(move || {
        for release in releases {
            std::thread::sleep(Duration::from_millis(80));
            drop(release);
        }
    });
    let socket = place.dir().socket(node(4)).unwrap();
    for _ in 0..10_000 {
        drop(Seqpacket::connect(&socket));
    }
    raws
}

/// A user who is admitted has as many descriptors sent as possible, and reads none.
fn attack_unread(place: &Place) -> impl Sized {
    let owner = Raw::hello(place, 4);
    let body = Request::CreateSegment {
        key: segment(1),
        size_bytes: 4096,
        access: Access::default(),
        incarnation: Incarnation(1),
        available: true,
        shared: false,
    };
    let region = support::memory();
    owner.socket.send(&encode(&ToManager::Request { id: 1, body }).unwrap(), &[region.fd()]).unwrap();
    owner.receive().unwrap();
    let body = Request::ConnectSegment { node: node(4), key: segment(1) };
    let connect = encode(&ToManager::Request { id: 2, body }).unwrap();
    let raws: Vec<_> = (0..8).map(|_| Raw::hello(place, 4)).collect();
    let mut buffer = vec![0; proto::wire::MAX_DATAGRAM_BYTES];
    for raw in &raws {
        // Until nothing has been taken for a while.
        let (mut sent, mut full) = (0, 0);
        while sent < 300 && full < 50 {
            match raw.socket.send(&connect, &[]) {
                Ok(()) => (sent, full) = (sent + 1, 0),
                Err(_) => {
                    full += 1;
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
            // Who has the segment must not be crowded by those who connect.
            while owner.socket.receive(&mut buffer).is_ok() {}
        }
    }
    (owner, raws)
}

/// A manager in a process that these users may attach to.
fn shared(place: &Place, uids: &str, without: &str) -> ChildProcess {
    let root = place.root.to_str().unwrap();
    let environment = [("TL_ROOT", root), ("TL_UIDS", uids), (foreign::ENV_WITHOUT, without)];
    let manager = ChildProcess::start("shared manager", &environment);
    eventually("the manager's socket", || Seqpacket::connect(&place.dir().socket(node(4)).unwrap()).is_ok());
    manager
}

/// Starts an attack and waits until it is over; what it holds is let go with [`let_go`].
fn attacker(place: &Place, uid: u32, role: &str) -> Child {
    let mut child = spawn(as_user(place, uid, uid, role).stdin(Stdio::piped()).stdout(Stdio::piped()));
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let attacked = lines.any(|line| line.unwrap().contains("attacked"));
    assert!(attacked, "the attack ended early");
    child
}

fn let_go(attacker: Child) {
    // Closes its standard input first.
    assert!(attacker.wait_with_output().unwrap().status.success());
}

fn succeeds(place: &Place, role: &str) -> bool {
    let mut command = as_user(place, HOSTILE, HOSTILE, role);
    let mut child = spawn(command.stdout(Stdio::null()).stderr(Stdio::null()));
    child.wait().unwrap().success()
}

/// How many threads and descriptors a manager has.
fn cost(manager: &ChildProcess) -> (usize, usize) {
    let count = |what| std::fs::read_dir(format!("/proc/{}/{what}", manager.child.id())).unwrap().count();
    (count("task"), count("fd"))
}

fn has_lists(place: &Place) -> bool {
    use std::os::unix::fs::MetadataExt;
    let by_list = std::fs::metadata(place.dir().path()).unwrap().mode() & 0o007 == 0;
    if !by_list {
        println!("skipped: the file system of {} has no access control lists", place.root.display());
    }
    by_list
}

/// The manager answers its own user, and lets another one in.
fn is_well(place: &Place, client: &Client, honest: &str) {
    for _ in 0..20 {
        assert!(client.probe(node(4)).unwrap());
    }
    assert!(place.attach(4).probe(node(4)).unwrap());
    play(&mut as_user(place, HONEST, HONEST, honest));
}

#[test]
fn who_is_not_listed_cannot_connect() {
    let Some(place) = place_of_users() else { return };
    let _manager = shared(&place, &HONEST.to_string(), "");
    if has_lists(&place) {
        play(&mut as_user(&place, HOSTILE, HOSTILE, "cannot connect"));
        play(&mut as_user(&place, HONEST, HONEST, "attach"));
    }
}

#[test]
fn a_refused_user_who_can_connect_costs_one_thread_and_holds_nobody_up() {
    let Some(place) = place_of_users() else { return };
    for without in ["acl", "acl,passrights", "acl,passrights,peerpidfd"] {
        let manager = shared(&place, &HONEST.to_string(), without);
        let client = place.attach(4);
        let (threads, descriptors) = cost(&manager);
        let attackers =
            [attacker(&place, HOSTILE, "attack unheard"), attacker(&place, 54_323, "attack unheard")];
        is_well(&place, &client, "attach");
        let now = cost(&manager);
        // One each, and one for what the manager's own user and the honest one have had closed.
        assert!(now.0 <= threads + 2 + 3, "{now:?} threads and descriptors, {threads} before");
        assert!(now.1 <= descriptors + 2 * (MOST_WAITING + 10), "{now:?} threads and descriptors");
        attackers.into_iter().for_each(let_go);
        eventually("everything is closed", || cost(&manager).1 <= descriptors + 1);
        is_well(&place, &client, "attach");
    }
}

#[test]
fn an_admitted_user_whose_descriptors_cannot_be_closed_is_shut_out_alone() {
    let Some(place) = place_of_users() else { return };
    for without in ["", OLD_KERNEL] {
        let manager = shared(&place, &format!("{HOSTILE},{HONEST}"), without);
        if !has_lists(&place) {
            return;
        }
        let client = place.attach(4);
        let attack = attacker(&place, HOSTILE, "attack admitted");
        eventually("shut out", || succeeds(&place, "cannot connect"));
        is_well(&place, &client, "attach");
        let_go(attack);
        eventually("let in again", || succeeds(&place, "attach"));
        is_well(&place, &client, "attach");
        drop(manager);
    }
}

#[test]
fn without_lists_all_others_are_shut_out_and_the_own_user_goes_on() {
    let Some(place) = place_of_users() else { return };
    let manager = shared(&place, &format!("{HOSTILE},{HONEST}"), "acl,passrights,peerpidfd");
    let client = place.attach(4);
    let attack = attacker(&place, HOSTILE, "attack admitted");
    let socket = place.dir().socket(node(4)).unwrap();
    let mode = || {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(&socket).unwrap().mode() & 0o777
    };
    eventually("shut", || mode() == 0o600);
    is_well(&place, &client, "cannot connect");
    let_go(attack);
    eventually("open again", || mode() == 0o666);
    is_well(&place, &client, "attach");
    drop(manager);
}

#[test]
fn who_has_things_closed_slowly_and_connects_without_end_fills_no_table() {
    let Some(place) = place_of_users() else { return };
    for (limit, without) in [(4096, ""), (4096, OLD_KERNEL), (1024, OLD_KERNEL)] {
        let (root, limit_text) = (place.root.to_str().unwrap(), limit.to_string());
        let uids = format!("{HOSTILE},{HONEST}");
        let environment = [
            ("TL_ROOT", root),
            ("TL_UIDS", &uids),
            ("TL_LIMIT", &limit_text),
            (foreign::ENV_WITHOUT, without),
        ];
        let manager = ChildProcess::start("shared manager", &environment);
        eventually("the manager's socket", || {
            Seqpacket::connect(&place.dir().socket(node(4)).unwrap()).is_ok()
        });
        if !has_lists(&place) {
            return;
        }
        let client = place.attach(4);
        let descriptors = cost(&manager).1;
        let attack = attacker(&place, HOSTILE, "attack slowly");
        let now = cost(&manager).1;
        // Twice what may wait of one user, and a backlog.
        assert!(now <= descriptors + 2 * MOST_WAITING + limit / 16 + 100, "{now}, {descriptors} before");
        is_well(&place, &client, "attach");
        let_go(attack);
        eventually("let in again", || succeeds(&place, "attach"));
    }
}

/// The kernel counts what is not read for the manager's user, and root may have any number of it.
#[test]
fn replies_that_nobody_reads_stop_nobody_else() {
    let Some(place) = place_of_users() else { return };
    std::os::unix::fs::chown(&place.root, Some(MANAGER), Some(MANAGER)).unwrap();
    let mut manager = as_user(&place, MANAGER, MANAGER, "shared manager");
    manager.env("TL_UIDS", format!("{HOSTILE},{HONEST}")).env("TL_LIMIT", "512").stdout(Stdio::null());
    let mut manager = spawn(&mut manager);
    eventually("the manager's socket", || Seqpacket::connect(&place.dir().socket(node(4)).unwrap()).is_ok());
    let attack = attacker(&place, HOSTILE, "attack unread");
    for uid in [HONEST, MANAGER, 0, HOSTILE] {
        play(&mut as_user(&place, uid, uid, "attach"));
    }
    let_go(attack);
    let client = place.attach(4);
    eventually("they are gone", || client.status().unwrap().programs_total == 1);
    play(&mut as_user(&place, HOSTILE, HOSTILE, "attach"));
    manager.kill().unwrap();
    manager.wait().unwrap();
}

#[test]
fn a_manager_ends_although_something_cannot_be_closed() {
    let Some(place) = place_of_users() else { return };
    let mut manager = shared(&place, &HOSTILE.to_string(), OLD_KERNEL);
    let attack = attacker(&place, HOSTILE, "attack admitted");
    let client = place.attach(4);
    client.shutdown().unwrap();
    let start = std::time::Instant::now();
    while manager.child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < support::WATCHDOG, "the manager does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    let_go(attack);
}

/// Runs a role as a user in namespaces of its own, after commands that root gives there. None: this system
/// does not allow that.
fn confined(
    place: &Place,
    namespaces: &str,
    before: &str,
    user: &str,
    role: &str,
) -> Option<std::process::Output> {
    let role_of = as_user(place, 0, 0, role);
    let mut command = std::process::Command::new("unshare");
    command.args(namespaces.split(' ')).args(["sh", "-c"]);
    let binary = place.root.join("binary");
    let play = format!("{} --exact child_role --nocapture --test-threads=1", binary.display());
    command.arg(format!("({before}) || exit 77; exec {user} {play}"));
    command.envs(role_of.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.current_dir("/").stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(77) || said.contains("unshare:") {
        println!("skipped: `unshare {namespaces}` and `{before}` are not possible here: {said}");
        return None;
    }
    Some(output)
}

/// What a container changes changes nothing in who is who.
#[test]
fn in_namespaces_and_with_little_of_proc_users_are_who_they_are() {
    let Some(place) = place_of_users() else { return };
    let _manager = shared(&place, &HONEST.to_string(), "");
    let lists = has_lists(&place);
    let honest = format!("setpriv --reuid={HONEST} --regid={HONEST} --clear-groups");
    let hostile = format!("setpriv --reuid={HOSTILE} --regid={HOSTILE} --clear-groups");
    let own_root = "unshare --user --map-root-user";
    for (namespaces, before) in [
        ("--mount", "true"),
        ("--net", "true"),
        ("--pid --fork --mount-proc", "true"),
        ("--mount", "mount -o remount,bind,ro /proc"),
        ("--pid --fork --mount-proc", "mount -o remount,hidepid=2 /proc"),
        ("--mount", "mount -t tmpfs none /proc"),
        ("--mount --pid --net --ipc --uts --fork --mount-proc", "true"),
    ] {
        for (user, role) in [
            (honest.clone(), "attach"),
            (format!("{honest} {own_root}"), "attach"),
            (hostile.clone(), if lists { "cannot connect" } else { "cannot attach" }),
            // Root of a user namespace is nobody outside of it.
            (format!("{hostile} {own_root}"), if lists { "cannot connect" } else { "cannot attach" }),
        ] {
            let Some(output) = confined(&place, namespaces, before, &user, role) else { continue };
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{namespaces}, {before}, {user}, {role}: {said}");
        }
    }
}
