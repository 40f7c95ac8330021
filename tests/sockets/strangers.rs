//! Connections through memory beside other users, and in namespaces: who else can reach them, and what of a
//! program's own they take.
//!
//! Other users are made by root only; a process that is not root leaves those tests out, and says so.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use tieline_tests::{Watchdog, executable};

use crate::built::{library, must, program};
use crate::launcher::tieline;

/// The first of ten users of these tests alone, one a test: nobody has such a number, not even another run of
/// these tests beside this one.
fn first() -> u32 {
    3_000_000 + std::process::id() % 10_000_000 * 10
}

fn stranger() -> u32 {
    first() + 9
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("left out: only root can be other users");
    }
    is_root
}

/// The program and the library where every user can execute them.
struct Room {
    folder: tempfile::TempDir,
}

impl Room {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        executable::copy(&program("strangers", "strangers.c", &[]), &folder.path().join("strangers"))
            .unwrap();
        fs::copy(library(), folder.path().join("libtieline-sockets.so")).unwrap();
        Self { folder }
    }

    /// These words before the program, which runs with rings forced.
    fn command(&self, before: &[&str], way: &[&str]) -> Command {
        let program = self.folder.path().join("strangers");
        let mut words: Vec<&str> = before.to_vec();
        words.push(program.to_str().unwrap());
        words.extend(way);
        let preload = format!("LD_PRELOAD={}", self.folder.path().join("libtieline-sockets.so").display());
        let path = format!("PATH={}:/usr/sbin:/usr/bin:/sbin:/bin", self.folder.path().display());
        // By `env`, so that what comes before it is the test's own.
        let at = words.len() - 1 - way.len();
        words.splice(at..at, ["env", &preload, &path, "TIELINE_SOCKETS_RINGS=2"]);
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(self.folder.path());
        command
    }

    /// As this user.
    fn of(&self, user: u32, way: &[&str]) -> Command {
        let numbers = [format!("--reuid={user}"), format!("--regid={user}")];
        self.command(&["setpriv", &numbers[0], &numbers[1], "--clear-groups"], way)
    }
}

/// How many regions of rings the program had.
fn regions(said: &str) -> u32 {
    let count = said.trim().strip_prefix("every byte came; ").and_then(|rest| rest.strip_suffix(" regions"));
    count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{said}"))
}

fn shared(user: u32) -> PathBuf {
    format!("/dev/shm/tieline-rings-{user}").into()
}

fn temporary(user: u32) -> PathBuf {
    format!("/tmp/tieline-rings-{user}").into()
}

/// A user of whom nothing is there before, and nothing stays.
struct User(u32);

impl User {
    fn new(number: u32) -> Self {
        let user = Self(number);
        user.clear();
        user
    }

    fn clear(&self) {
        for path in [shared(self.0), temporary(self.0)] {
            if fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) {
                let _ = fs::remove_dir_all(path);
            } else {
                let _ = fs::remove_file(path);
            }
        }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.clear();
    }
}

#[test]
fn a_stranger_reaches_nothing_of_a_pair() {
    let _watchdog = Watchdog::usual("strangers");
    if !is_root() {
        return;
    }
    let room = Room::new();
    for user in [0, first()] {
        let _user = User::new(user);
        let mut stranger = room.of(stranger(), &["attack", &user.to_string(), "2"]);
        let stranger = stranger.stdout(std::process::Stdio::piped()).spawn().unwrap();
        for _ in 0..5 {
            assert_eq!(regions(&must(&mut room.of(user, &["pair"]))), 2, "user {user}");
        }
        let said = stranger.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(said.contains(" reached 0"), "user {user}: {said}");
    }
}

#[test]
fn what_is_left_is_one_file_that_only_its_user_can_reach() {
    let _watchdog = Watchdog::usual("strangers");
    if !is_root() {
        return;
    }
    let user = User::new(first() + 1);
    assert_eq!(regions(&must(&mut Room::new().of(user.0, &["pair"]))), 2);
    let directory = fs::metadata(shared(user.0)).unwrap();
    assert_eq!((directory.uid(), directory.mode() & 0o7777), (user.0, 0o700));
    let names: Vec<_> = fs::read_dir(shared(user.0)).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names, ["connections"]);
    let file = fs::metadata(shared(user.0).join("connections")).unwrap();
    assert_eq!((file.uid(), file.mode() & 0o7777), (user.0, 0o600));
}

/// A stranger's directory in the place of the user's own.
fn squat(path: &Path) {
    fs::create_dir(path).unwrap();
    fs::write(path.join("connections"), vec![0; 4096]).unwrap();
    for (path, mode) in [(path.join("connections"), 0o666), (path.to_owned(), 0o777)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        chown(&path, Some(stranger()), Some(stranger())).unwrap();
    }
}

#[test]
fn a_directory_of_somebody_else_is_not_used() {
    let _watchdog = Watchdog::usual("strangers");
    if !is_root() {
        return;
    }
    let (room, user) = (Room::new(), User::new(first() + 2));
    squat(&shared(user.0));
    // There is another place.
    assert_eq!(regions(&must(&mut room.of(user.0, &["pair"]))), 2);
    assert_eq!(fs::metadata(temporary(user.0)).unwrap().uid(), user.0);
    // And then there is none: a link that leads to a stranger's is no directory of the user's, one to the
    // user's own neither.
    let own = room.folder.path().join("own");
    fs::rename(temporary(user.0), &own).or_else(|_| fs::create_dir(&own)).unwrap();
    fs::remove_dir_all(temporary(user.0)).ok();
    chown(&own, Some(user.0), Some(user.0)).unwrap();
    symlink(&own, temporary(user.0)).unwrap();
    assert_eq!(regions(&must(&mut room.of(user.0, &["pair"]))), 0);
    let there = fs::read(shared(user.0).join("connections")).unwrap();
    assert!(there.len() == 4096 && there.iter().all(|&byte| byte == 0), "somebody wrote into it");
}

/// So is one that others may write to, whosesoever it is.
#[test]
fn a_directory_that_others_may_write_to_is_not_used() {
    let _watchdog = Watchdog::usual("strangers");
    if !is_root() {
        return;
    }
    let (room, user) = (Room::new(), User::new(first() + 3));
    for path in [shared(user.0), temporary(user.0)] {
        fs::create_dir(&path).unwrap();
        chown(&path, Some(user.0), Some(user.0)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    assert_eq!(regions(&must(&mut room.of(user.0, &["pair"]))), 0);
}

#[test]
fn ends_of_two_users_stay_with_the_kernel() {
    let _watchdog = Watchdog::usual("strangers");
    if !is_root() {
        return;
    }
    let user = User::new(first() + 4);
    assert_eq!(regions(&must(&mut Room::new().command(&[], &["pair", &user.0.to_string()]))), 0);
}

/// Whether the ends meet there or not: every byte comes. A namespace that this machine does not give is
/// named.
#[test]
fn ends_in_namespaces() {
    let _watchdog = Watchdog::usual("namespaces");
    let room = Room::new();
    let hidden = "mount -t proc -o hidepid=2 proc /proc && exec \"$@\"";
    let frozen = "mount -o remount,bind,ro /proc && exec \"$@\"";
    let without = "umount -l /proc && exec \"$@\"";
    let user = User::new(first() + 5);
    let (uid, gid) = (format!("--reuid={}", user.0), format!("--regid={}", user.0));
    let ways: &[(&str, Option<u32>, &[&str])] = &[
        ("user", Some(2), &["unshare", "--user", "--map-root-user"]),
        // Each user looks like the same one there.
        ("user, not mapped", Some(0), &["unshare", "--user"]),
        ("process numbers", Some(2), &["unshare", "--pid", "--fork", "--mount-proc"]),
        ("process numbers of another /proc", Some(0), &["unshare", "--pid", "--fork"]),
        ("network", Some(2), &["unshare", "--net"]),
        ("mount", Some(2), &["unshare", "--mount"]),
        ("/proc that is read-only", Some(2), &["unshare", "--mount", "sh", "-c", frozen, "sh"]),
        ("no /proc", Some(0), &["unshare", "--mount", "sh", "-c", without, "sh"]),
        (
            "hidepid",
            Some(2),
            &["unshare", "--mount", "sh", "-c", hidden, "sh", "setpriv", &uid, &gid, "--clear-groups"],
        ),
        (
            "all",
            Some(2),
            &["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--net", "--ipc"],
        ),
    ];
    for (what, wanted, before) in ways {
        let mut probe = before.to_vec();
        probe.push("true");
        if !Command::new(probe[0]).args(&probe[1..]).output().is_ok_and(|output| output.status.success()) {
            println!("{what}: left out: not to be had here");
            continue;
        }
        let said = must(&mut room.command(before, &["pair"]));
        println!("{what}: {}", said.trim());
        if let Some(wanted) = wanted {
            assert_eq!(regions(&said), *wanted, "{what}");
        }
    }
}

fn limited(way: &[&str]) -> String {
    let limits = program("limits", "limits.c", &[]);
    let mut command = tieline(&["run", "--rings", "--", limits.to_str().unwrap()]);
    must(command.args(way).env("TIELINE_SOCKETS_RINGS", "2"))
}

/// A program that may write small files only is not ended for a ring.
#[test]
fn a_limit_of_file_sizes() {
    let _watchdog = Watchdog::usual("limits");
    let limits = program("limits", "limits.c", &[]);
    let run = tieline(&["run", "--rings", "--", limits.to_str().unwrap(), "files"]);
    let mut words = vec!["-c".to_owned(), "ulimit -f 100; exec \"$@\"".to_owned(), "sh".to_owned()];
    words.push(run.get_program().to_str().unwrap().to_owned());
    words.extend(run.get_args().map(|word| word.to_str().unwrap().to_owned()));
    let mut command = Command::new("sh");
    command.args(words).envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert_eq!(must(command.env("TIELINE_SOCKETS_RINGS", "2")), "3000 round trips\n");
    // Nor is one that sets the limit itself, whenever it does while its ends look for each other.
    let mut lowered = tieline(&["run", "--rings", "--", limits.to_str().unwrap(), "lowered"]);
    assert_eq!(must(lowered.env("TIELINE_SOCKETS_RINGS", "1")), "goes on under each limit\n");
}

/// Connections whose other end has no library cost no descriptor beside their own.
#[test]
fn descriptors_are_the_programs() {
    let _watchdog = Watchdog::usual("limits");
    let limits = program("limits", "limits.c", &[]);
    let plain = must(Command::new(limits).args(["many", "80"]).stdin(std::process::Stdio::null()));
    assert_eq!(limited(&["many", "80"]), plain);
}

#[test]
fn numbers_are_the_programs() {
    let _watchdog = Watchdog::usual("limits");
    assert_eq!(limited(&["numbers"]), "all numbers stay the program's\n");
}
