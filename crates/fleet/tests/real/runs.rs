//! Commands on hosts: what each prints, and each way in which one fails.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fleet::{Answer, Kind, OnMany, Ssh, command_of, grouped};

use crate::servers::{Lab, below, free_port, kill, runs, until};

fn on(ssh: &Ssh, hosts: &[&str], command: &str, limit: Option<Duration>) -> Vec<Answer> {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut answers: Vec<Option<Answer>> = hosts.iter().map(|_| None).collect();
    let many = OnMany { ssh, at_once: 64, limit };
    many.run(&hosts, command, |number, answer| answers[number] = Some(answer), || {});
    answers.into_iter().map(|answer| answer.expect("an answer for each host")).collect()
}

fn one(ssh: &Ssh, host: &str, command: &str) -> Answer {
    on(ssh, &[host], command, Some(Duration::from_secs(60))).remove(0)
}

fn text(answer: &mut Answer) -> (String, String) {
    let of = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (of(answer.out.first(1 << 20).unwrap()), of(answer.err.first(1 << 20).unwrap()))
}

fn failed(answer: &Answer) -> (Kind, String) {
    let failure = answer.failure.clone().expect("a failure");
    (failure.kind, failure.why)
}

#[test]
fn hosts_print_and_end_with_a_status() {
    let Some(mut lab) = Lab::new() else { return };
    let (a, b) = (lab.server("a", ""), lab.server("b", ""));
    let mut both = on(&lab.ssh(), &[&a, &b], "echo out; echo err >&2", None);
    for answer in &mut both {
        assert_eq!(answer.failure, None);
        assert_eq!(text(answer), ("out\n".into(), "err\n".into()));
    }
    let groups = grouped(both);
    assert_eq!((groups.len(), groups[0].hosts.join(" ")), (1, "a b".into()));
    // Also the status by which ssh reports its own failures is the command's.
    for status in [3, 255] {
        let answer = one(&lab.ssh(), &a, &format!("exit {status}"));
        assert_eq!(failed(&answer), (Kind::Status(status), format!("exit status {status}")));
    }
    let mut nothing = one(&lab.ssh(), &a, "cat; echo done");
    assert_eq!(text(&mut nothing), ("done\n".into(), String::new()), "a command has no input");
}

#[test]
fn every_odd_character_arrives() {
    let Some(mut lab) = Lab::new() else { return };
    let a = lab.server("a", "");
    let all: String = (1..=255_u32).filter_map(char::from_u32).collect();
    for word in [
        all.as_str(),
        "",
        " ",
        "'",
        "''\"\\\n",
        "$(touch x) `id` !! ~ * ? {a,b} # ; & | < >",
        "-n",
        "ä\u{1f600}",
    ] {
        let command = command_of(&["printf".into(), "%s".into(), word.into()]);
        let mut answer = one(&lab.ssh(), &a, &command);
        assert_eq!(text(&mut answer), (word.to_owned(), String::new()), "{word:?}");
    }
    let mut lines = one(&lab.ssh(), &a, "x='a\nb'\nprintf %s \"$x\"");
    assert_eq!(text(&mut lines).0, "a\nb");
}

#[test]
fn what_a_shell_prints_at_its_start_is_no_output() {
    let Some(mut lab) = Lab::new() else { return };
    let greeting = lab.path("greeting");
    std::fs::write(&greeting, "Authorised users only\n").unwrap();
    let shell = "ForceCommand echo Welcome to the cluster; echo careful >&2; printf 'no end of line'; eval \"$SSH_ORIGINAL_COMMAND\"";
    let a = lab.server("a", &format!("Banner {}\n{shell}", greeting.display()));
    let mut answer = one(&lab.ssh(), &a, "echo out; echo err >&2");
    assert_eq!((answer.failure.clone(), text(&mut answer)), (None, ("out\n".into(), "err\n".into())));
    // A shell that is none.
    let b = lab.server("b", "ForceCommand echo 'This account is disabled' >&2; exit 1");
    let (kind, why) = failed(&one(&lab.ssh(), &b, "true"));
    assert_eq!(kind, Kind::Other);
    assert!(
        why.contains("no command can be run there (This account is disabled): try `ssh b true`"),
        "{why}"
    );
}

#[test]
fn long_and_binary_output_arrives_as_it_is() {
    let Some(mut lab) = Lab::new() else { return };
    let a = lab.server("a", "");
    let mut long = one(&lab.ssh(), &a, "head -c 100000000 /dev/zero; head -c 1000000 /dev/zero >&2");
    assert_eq!((long.failure.clone(), long.out.bytes(), long.err.bytes()), (None, 100_000_000, 1_000_000));
    let all_zero = |piece: &[u8]| {
        assert!(piece.iter().all(|byte| *byte == 0));
        Ok(())
    };
    long.out.each_piece(all_zero).unwrap();
    let octal: String = (0..=255_u8).map(|byte| format!("\\{byte:03o}")).collect();
    let mut binary = one(&lab.ssh(), &a, &format!("printf '{octal}'"));
    assert_eq!(binary.out.first(1000).unwrap(), (0..=255).collect::<Vec<u8>>());
}

#[test]
fn each_way_not_to_get_in_is_named_with_the_next_step() {
    let Some(mut lab) = Lab::new() else { return };
    let other = lab.path("other_key");
    let good = lab.server("good", "");
    // Its key is not the one in known_hosts.
    let changed = lab.server("changed", &format!("HostKey {}", other.display()));
    let password = lab.server(
        "password",
        "PubkeyAuthentication no\nPasswordAuthentication yes\nKbdInteractiveAuthentication yes",
    );
    let keys = lab.server("keys", "AuthorizedKeysFile none");
    lab.knows("refused", free_port(), true);
    let config = std::fs::read_to_string(lab.path("config")).unwrap();
    let port = config
        .split("Host good\n HostName 127.0.0.1\n Port ")
        .nth(1)
        .unwrap()
        .lines()
        .next()
        .unwrap()
        .to_owned();
    let empty = lab.path("none").display().to_string();
    let known = lab.path("known_hosts").display().to_string();
    let new = format!(
        "Host new\n Port {port}\n HostName 127.0.0.1\n UserKnownHostsFile {empty}\n GlobalKnownHostsFile none\n IdentityFile {}\n",
        lab.path("key").display()
    );
    std::fs::write(lab.path("config"), config + &new).unwrap();
    let hosts = [good.as_str(), &changed, &password, &keys, "refused", "new", "nowhere.invalid"];
    let answers = on(&lab.ssh(), &hosts, "true", Some(Duration::from_secs(30)));
    assert_eq!(answers[0].failure, None);
    for (answer, kind, wanted) in [
        (
            &answers[1],
            Kind::HostKeyChanged,
            format!("not the one in known_hosts ({known}:2): ask its administrator why"),
        ),
        (
            &answers[2],
            Kind::NoLogin,
            "it asks for a password, which is never typed here: `ssh-copy-id password`".into(),
        ),
        (&answers[3], Kind::NoLogin, "it accepts none of your keys: `ssh-copy-id keys`".into()),
        (&answers[4], Kind::Refused, "start sshd on it".into()),
        (&answers[5], Kind::HostKeyUnknown, "run `ssh new` once, and compare the fingerprint".into()),
        (&answers[6], Kind::UnknownName, "its name has no address".into()),
    ] {
        let (is, why) = failed(answer);
        assert!(is == kind && why.contains(&wanted) && !why.contains('\n'), "{}: {is:?}: {why}", answer.host);
    }
}

#[test]
fn hosts_that_do_not_answer_delay_nobody() {
    let Some(mut lab) = Lab::new() else { return };
    let a = lab.server("a", "");
    // It accepts connections, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    lab.knows("silent", silent.local_addr().unwrap().port(), true);
    let began = Instant::now();
    let (mut first, hosts) = (None, ["silent".to_owned(), a]);
    let many = OnMany { ssh: &lab.ssh(), at_once: 64, limit: Some(Duration::from_secs(4)) };
    many.run(
        &hosts,
        "true",
        |number, answer| {
            let failure = answer.failure.map(|failure| (failure.kind, failure.why));
            if number == 1 {
                assert_eq!(failure, None);
                first = Some(began.elapsed());
            } else {
                assert!(first.is_some(), "the other host was first");
                let (kind, why) = failure.unwrap();
                assert!(
                    kind == Kind::TimedOut && why.contains("it did not answer within 4 s"),
                    "{kind:?} {why}"
                );
            }
        },
        || {},
    );
    assert!(first.is_some());
}

#[test]
fn a_host_that_dies_in_the_middle_is_named() {
    let Some(mut lab) = Lab::new() else { return };
    let (a, b) = (lab.server("a", ""), lab.server("b", ""));
    let (pid, marker) = (lab.servers[0].child.id(), lab.path("begun"));
    let path = marker.clone();
    let killer = std::thread::spawn(move || {
        until("the command", || path.exists());
        below(pid).into_iter().for_each(|pid| kill(pid, "KILL"));
    });
    let command =
        format!("if [ ! -e {0} ]; then echo begun; echo > {0}; sleep 600; fi; echo all", marker.display());
    let mut died = one(&lab.ssh(), &a, &command);
    killer.join().unwrap();
    assert_eq!(failed(&died).0, Kind::Lost);
    assert_eq!(text(&mut died).0, "begun\n");
    assert_eq!(text(&mut one(&lab.ssh(), &b, &command)).0, "all\n");
}

static STOP: AtomicBool = AtomicBool::new(false);

#[test]
fn an_end_by_the_user_or_by_time_leaves_no_process_there() {
    let Some(mut lab) = Lab::new() else { return };
    let a = lab.server("a", "");
    let number = |offset: u32| format!("{}.{}", 100_000 + offset, std::process::id());
    // By time; a process that ignores the first signal, and one behind it.
    let (late, stubborn) = (number(1), number(2));
    let command = format!("trap '' TERM; sleep {stubborn} & sleep {late}; sleep {late}");
    let answer = on(&lab.ssh(), &[&a], &command, Some(Duration::from_secs(3))).remove(0);
    let (kind, why) = failed(&answer);
    assert!(kind == Kind::TimedOut && why.contains("the command did not end within 3 s"), "{kind:?} {why}");
    until("the end of both", || !runs(&late) && !runs(&stubborn));
    // By the user.
    let stopped = number(3);
    let word = stopped.clone();
    let stopper = std::thread::spawn(move || {
        until("the command", || runs(&word));
        STOP.store(true, Ordering::SeqCst);
    });
    let ssh = Ssh { stop: || STOP.load(Ordering::SeqCst), ..lab.ssh() };
    assert_eq!(failed(&one(&ssh, &a, &format!("sleep {stopped}"))).0, Kind::Interrupted);
    stopper.join().unwrap();
    until("the end of it", || !runs(&stopped));
}

#[test]
fn what_a_command_leaves_behind_does_not_delay_its_end() {
    let Some(mut lab) = Lab::new() else { return };
    let a = lab.server("a", "");
    let mut answer = one(&lab.ssh(), &a, "sleep 300 & echo done");
    assert_eq!((answer.failure.clone(), text(&mut answer).0), (None, "done\n".into()));
    assert!(answer.took < Duration::from_secs(50), "{:?}", answer.took);
}
