//! `tieline fleet` as a user types it, against real ssh servers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[allow(dead_code, reason = "shared with the tests of the library, which use all of it")]
#[path = "../../fleet/tests/real/servers.rs"]
mod servers;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::Value;
use servers::{Lab, kill, runs, until};

/// A user's shell: `ssh` is the lab's.
struct Shell<'a> {
    lab: &'a Lab,
}

impl Shell<'_> {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tieline-commands"));
        let path = format!("{}:{}", self.lab.path("").display(), std::env::var("PATH").unwrap());
        command.arg("fleet").args(words).env("PATH", path).env("XDG_RUNTIME_DIR", self.lab.path(""));
        for name in ["HOSTS", "HOSTS_FILE", "FF_MAX_PARALLEL", "SLURM_JOB_NODELIST", "UPLOADS_DIR"] {
            command.env_remove(name);
        }
        command.current_dir(self.lab.path("")).stdin(Stdio::null());
        command
    }

    /// Exit status, standard output, standard error.
    fn run(&self, words: &[&str]) -> (i32, String, String) {
        let output = self.command(words).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
    }

    fn json(&self, words: &[&str]) -> (i32, Value) {
        let (status, out, err) = self.run(words);
        (status, serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}")))
    }
}

#[test]
fn the_same_answers_are_one_group_and_who_failed_is_listed() {
    let Some(mut lab) = Lab::new() else { return };
    for name in ["n1", "n2", "n3"] {
        lab.server(name, "");
    }
    lab.server("odd", "SetEnv WHO=odd");
    fs::write(lab.path("hosts"), "include more\nodd\n").unwrap();
    fs::write(lab.path("more"), "group all = n[1-3]\n@all\n").unwrap();
    let shell = Shell { lab: &lab };
    let command = "printf 'one\\n%s\\nthree\\n' ${WHO:-two}";
    let (status, out, err) = shell.run(&["run", "--hosts", "hosts", "--diff", command]);
    assert_eq!(status, 0, "{out}{err}");
    let wanted = "---- n[1-3] (3 hosts) ----\none\ntwo\nthree\n---- odd ----\n--- n[1-3]\n+++ odd\n@@ -1,3 +1,3 @@\n one\n-two\n+odd\n three\n";
    assert_eq!(out, wanted);
    let (status, out, _) = shell.run(&["run", "-f", "hosts", "-P", "-x", "n[2-3]", "echo $WHO; echo end"]);
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!((status, lines), (0, vec!["n1: ", "n1: end", "odd: end", "odd: odd"]));

    // Some fail: the status, the list, the file; and the same command goes on with them.
    let marker = lab.path("marker");
    let command =
        format!("test -e {} || test \"$WHO\" != odd || {{ echo no >&2; exit 7; }}", marker.display());
    let words =
        ["run", "-w", "n1,odd,nowhere.invalid", "--punch-list", "list", "--resume", "state", &command];
    let (status, out, _) = shell.run(&words);
    assert_eq!(status, 1, "{out}");
    assert!(
        out.contains("---- odd: exit status 7 ----\nno\n2 of 3 hosts failed:\n  odd: exit status 7\n"),
        "{out}"
    );
    let list = fs::read_to_string(lab.path("list")).unwrap();
    assert!(
        list.starts_with("odd;exit-status;exit status 7\nnowhere.invalid;unknown-name;its name"),
        "{list}"
    );
    fs::write(&marker, "").unwrap();
    let (status, out, _) = shell.run(&words);
    assert!(
        status == 1 && out.contains("1 of 2 hosts failed, 1 had done it before:\n  nowhere.invalid: "),
        "{out}"
    );
    let (status, _, err) = shell.run(&["run", "-w", "n1", "--resume", "state", "false"]);
    assert!(status == 2 && err.contains("state is no state of this command"), "{err}");
}

#[test]
fn json_has_each_host_with_its_status_and_output() {
    let Some(mut lab) = Lab::new() else { return };
    lab.server("n1", "");
    let shell = Shell { lab: &lab };
    let (status, report) = shell.json(&["run", "-w", "nowhere.invalid,n1", "--json", "echo hello; exit 3"]);
    assert_eq!(
        (status, &report["schema"], &report["complete"]),
        (1, &"tieline.fleet/1".into(), &false.into())
    );
    let host = &report["hosts"][1];
    assert_eq!(
        (&host["host"], &host["status"], &host["stdout"]),
        (&"n1".into(), &3.into(), &"hello\n".into())
    );
    assert_eq!(report["hosts"][0]["kind"], "unknown-name");
    let (status, report) = shell.json(&["verify", "-w", "n1", "--json"]);
    assert_eq!((status, &report["schema"]), (0, &"tieline.fleet-verify/1".into()));
    assert!(report["hosts"][0]["facts"]["kernel"].is_string(), "{report}");
    let (status, _, err) = shell.run(&["run", "--hosts", "gone", "true"]);
    assert!(status == 2 && err.contains("gone cannot be read: No such file"), "{err}");
    let (status, _, err) = shell.run(&["ping"]);
    assert!(status == 2 && err.contains("no hosts are given: name a file with --hosts FILE"), "{err}");
    let mut command = shell.command(&["ping"]);
    let ended = command.env("HOSTS", "n1").env("FF_MAX_PARALLEL", "2").output().unwrap();
    let out = String::from_utf8_lossy(&ended.stdout);
    assert!(
        ended.status.success() && out.starts_with("n1: ") && out.contains("ping: all 1 hosts done"),
        "{out}"
    );
}

#[test]
fn output_that_is_no_text_is_in_files_as_it_is() {
    let Some(mut lab) = Lab::new() else { return };
    lab.server("n1", "");
    let shell = Shell { lab: &lab };
    let (status, out, err) =
        shell.run(&["run", "-w", "n1", "--output-dir", "all", "printf '\\000\\377'; echo e >&2"]);
    assert_eq!(status, 0, "{out}{err}");
    assert_eq!(fs::read(lab.path("all/n1.out")).unwrap(), [0, 255]);
    assert_eq!(fs::read(lab.path("all/n1.err")).unwrap(), b"e\n");
    // 100 MB to a pipe.
    let mut command = shell.command(&["run", "-w", "n1", "head -c 100000000 /dev/zero"]);
    assert_eq!(command.output().unwrap().stdout.len(), "---- n1 ----\n".len() + 100_000_000 + 1);
}

/// A mistake is found before anything runs on a host.
#[test]
fn what_cannot_be_read_or_written_is_named_before_anything_runs() {
    let Some(mut lab) = Lab::new() else { return };
    lab.server("n1", "");
    let shell = Shell { lab: &lab };
    let marker = lab.path("ran");
    let touch = format!("touch {}", marker.display());
    fs::write(lab.path("file"), "precious\n").unwrap();
    fs::write(lab.path("hosts"), "n1\nn2\n").unwrap();
    let input = "cannot be read: No such file or directory: correct the path or its permissions";
    let directory = "file is not a directory: name another directory with";
    let foreign = "exists and is not a punch list that tieline wrote, so it is not replaced: name another file with --punch-list, or remove it";
    for (words, status, said) in [
        (&["copy", "gone", "/tmp"][..], 2, format!("gone {input}")),
        (
            &["copy", "file"],
            2,
            "<TO> is missing: behind the files name the file or directory on the hosts".into(),
        ),
        (&["copy", "file", "gone", "/tmp"], 2, format!("gone {input}")),
        (&["install", "gone.deb"], 2, format!("gone.deb {input}")),
        (&["upgrade", "gone.tgz"], 2, format!("gone.tgz {input}")),
        (&["verify", "--rules", "gone"], 2, format!("gone {input}")),
        (&["setup-ssh", "--key", "gone.pub"], 2, format!("gone.pub {input}")),
        (&["run", "--resume", ".", &touch], 2, ". cannot be read: it is not a regular file".to_owned()),
        (&["run", "--output-dir", "file", &touch], 2, format!("{directory} --output-dir")),
        (
            &["run", "--output-dir", "/proc/new", &touch],
            4,
            "the output of the hosts cannot be written to /proc/new: ".to_owned(),
        ),
        (&["run", "--output-dir", "file/below", &touch], 4, "cannot be written to file/below: ".to_owned()),
        (&["fetch", "--to", "file", "/etc/hosts"], 2, format!("{directory} --to")),
        (
            &["report", "--to", "/proc/new"],
            4,
            "the reports of the hosts cannot be written to /proc/new: ".to_owned(),
        ),
        (&["run", "--punch-list", "hosts", &touch], 2, format!("hosts {foreign}")),
        (&["ping", "--punch-list", "file"], 2, format!("file {foreign}")),
        (&["verify", "--punch-list", "file"], 2, format!("file {foreign}")),
        (&["reboot", "--yes", "--punch-list", "file"], 2, format!("file {foreign}")),
        (
            &["run", "--punch-list", "none/list", &touch],
            4,
            "the punch list cannot be written to none/list: ".to_owned(),
        ),
    ] {
        let words = [&words[..1], &["-w", "n1"], &words[1..]].concat();
        let (ended, out, err) = shell.run(&words);
        assert!(ended == status && err.contains(&said), "{words:?}: {ended} {out}{err}");
        assert_eq!((out.as_str(), err.lines().count()), ("", 1), "{words:?}");
    }
    assert!(!marker.exists(), "nothing has run");
    assert_eq!(
        (fs::read_to_string(lab.path("file")).unwrap(), fs::read_to_string(lab.path("hosts")).unwrap()),
        ("precious\n".into(), "n1\nn2\n".into())
    );
    // A list of an earlier run is replaced.
    for _ in 0..2 {
        let (status, out, err) = shell.run(&["run", "-w", "n1", "--punch-list", "list", "exit 3"]);
        assert_eq!((status, err.as_str()), (1, ""), "{out}");
        assert_eq!(fs::read_to_string(lab.path("list")).unwrap(), "n1;exit-status;exit status 3\n");
    }
}

#[test]
fn connections_are_kept_and_closed() {
    let Some(mut lab) = Lab::new() else { return };
    lab.server("n1", "");
    let shell = Shell { lab: &lab };
    let keep = ["run", "-w", "n1", "--keep", "5m", "echo $SSH_CONNECTION"];
    let (status, first, err) = shell.run(&keep);
    assert_eq!(status, 0, "{first}{err}");
    let folder = lab.path("tieline-fleet");
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    // The same connection: the port at this end is the same.
    assert_eq!(shell.run(&keep).1, first);
    assert_eq!(shell.run(&["close"]), (0, "1 connections closed\n".into(), String::new()));
    assert!(!folder.exists());
    assert_ne!(shell.run(&keep[..3].iter().chain(&keep[5..]).copied().collect::<Vec<_>>()).1, first);
}

#[test]
fn ctrl_c_ends_the_command_on_all_hosts_and_each_ssh() {
    let Some(mut lab) = Lab::new() else { return };
    lab.server("n1", "");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    lab.knows("silent", silent.local_addr().unwrap().port(), true);
    let shell = Shell { lab: &lab };
    let word = format!("{}.5", 200_000 + std::process::id());
    // One text: so only the process on the host has the number as a word of its own.
    let text = format!("sleep {word}");
    let mut command = shell.command(&["run", "-w", "n1,silent", &text]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    until("the command", || runs(&word));
    kill(pid, "INT");
    let ended = child.wait_with_output().unwrap();
    let out = String::from_utf8_lossy(&ended.stdout);
    assert_eq!(ended.status.code(), Some(130), "{out}");
    assert!(
        out.contains(
            "2 of 2 hosts failed:\n  n1,silent: the run was interrupted: run the same command again"
        ),
        "{out}"
    );
    until("the end of it there", || !runs(&word));
    let config = lab.path("config").display().to_string();
    until("the end of each ssh", || !runs(&config));
}

#[test]
fn keys_are_set_up_at_a_terminal_alone() {
    let Some(mut lab) = Lab::new() else { return };
    lab.server("n1", "");
    let shell = Shell { lab: &lab };
    let (status, out, err) = shell.run(&["setup-ssh", "-w", "n1"]);
    assert!(status == 0 && out.contains("setup-ssh: all 1 hosts done"), "{out}{err}");
    fs::remove_file(lab.path("known_hosts")).unwrap();
    let (status, out, err) = shell.run(&["setup-ssh", "-w", "n1"]);
    assert_eq!(status, 4, "{out}{err}");
    assert!(err.contains("n1 would ask for a password or a host key, and there is no terminal"), "{err}");
    assert!(!lab.path("known_hosts").exists(), "nothing was changed");
}

#[test]
fn software_is_installed_and_hosts_reboot_only_when_asked_for() {
    let Some(mut lab) = Lab::new() else { return };
    lab.server("n1", "");
    let shell = Shell { lab: &lab };
    fs::write(lab.path("text"), "no archive").unwrap();
    let (status, _, err) = shell.run(&["install", "-w", "n1", "text"]);
    assert!(
        status == 2 && err.contains("text cannot be installed: it is no tarball that tar can read"),
        "{err}"
    );
    // A tarball, twice.
    let prefix = lab.path("opt");
    let place = lab.path("stage").join(prefix.strip_prefix("/").unwrap());
    fs::create_dir_all(place.join("bin")).unwrap();
    fs::create_dir_all(place.join("share/doc/tieline")).unwrap();
    fs::write(place.join("share/doc/tieline/installed-files"), "").unwrap();
    fs::write(place.join("bin/tieline"), "#!/bin/sh\necho tieline 7\n").unwrap();
    fs::set_permissions(place.join("bin/tieline"), fs::Permissions::from_mode(0o755)).unwrap();
    let tar =
        Command::new("tar").current_dir(lab.path("")).args(["-C", "stage", "-czf", "t.tgz", "."]).status();
    assert!(tar.unwrap().success());
    let (status, out, err) = shell.run(&["install", "-w", "n1", "--dry-run", "t.tgz"]);
    let wanted = format!(
        "---- n1 ----\n2 files would be installed under {} (now: none)\ninstall: all 1 hosts done\n",
        prefix.display()
    );
    assert_eq!((status, out.as_str()), (0, wanted.as_str()), "{err}");
    let (status, report) = shell.json(&["upgrade", "-w", "n1", "t.tgz", "--json"]);
    assert_eq!(
        (status, &report["command"], &report["hosts"][0]["status"]),
        (1, &"upgrade".into(), &1.into())
    );
    assert!(
        report["hosts"][0]["error"].as_str().unwrap().contains("`tieline fleet install` installs this one"),
        "{report}"
    );
    let (status, out, _) = shell.run(&["install", "-w", "n1", "t.tgz"]);
    assert!(
        status == 0 && out.contains(&format!("tieline 7 under {} (before: none)", prefix.display())),
        "{out}"
    );
    // Nobody was asked.
    let (status, out, err) = shell.run(&["reboot", "-w", "n1"]);
    assert!(
        status == 2
            && out.is_empty()
            && err.contains("n1 would be rebooted, and there is no terminal to ask at: add --yes"),
        "{err}"
    );
}

#[test]
fn a_menu_runs_the_commands_that_it_prints() {
    let Some(mut lab) = Lab::new() else { return };
    lab.server("n1", "");
    let shell = Shell { lab: &lab };
    let choices = lab.path("choices");
    fs::write(&choices, "99\n5\n\nh\nn1\n5\necho \"it's\" here\n1\nq\n1\n").unwrap();
    let mut command = shell.command(&["menu"]);
    let output = command.stdin(fs::File::open(&choices).unwrap()).output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{out}");
    for wanted in [
        "`99` is not in the list: type a number from 1 to 11, h or q\n",
        "Hosts: as HOSTS or HOSTS_FILE say\n",
        "Hosts: --on n1\n",
        "$ tieline fleet run --on n1 'echo \"it'\\''s\" here'\n---- n1 ----\nit's here\n",
        "$ tieline fleet ping --on n1\nn1: ",
    ] {
        assert!(out.contains(wanted), "{wanted}: {out}");
    }
    assert_eq!(out.matches("$ tieline fleet").count(), 2, "an answer that is missing runs nothing: {out}");
    let (status, _, err) = shell.run(&["menu", "--json"]);
    assert!(status == 2 && err.contains("leave out --json"), "{err}");
}
