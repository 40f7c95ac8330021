//! Files that are copied and fetched, and hosts that are verified.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use fleet::{Answer, Kind, OnMany, Rules, Source, Ssh};

use crate::servers::Lab;

fn all(hosts: &[String], run: impl FnOnce(&mut dyn FnMut(usize, Answer))) -> Vec<Answer> {
    let mut answers: Vec<Option<Answer>> = hosts.iter().map(|_| None).collect();
    run(&mut |number, answer| answers[number] = Some(answer));
    answers.into_iter().map(|answer| answer.expect("an answer for each host")).collect()
}

fn many(ssh: &Ssh) -> OnMany<'_> {
    OnMany { ssh, at_once: 16, limit: Some(Duration::from_secs(60)) }
}

fn copied(ssh: &Ssh, hosts: &[String], source: &Source) -> Vec<Answer> {
    all(hosts, |each| many(ssh).copy(hosts, source, each, || {}))
}

fn why(answer: &Answer) -> &str {
    answer.failure.as_ref().map_or("", |failure| &failure.why)
}

#[test]
fn a_file_arrives_complete_with_its_mode_and_comes_back() {
    let Some(mut lab) = Lab::new() else { return };
    let hosts = [lab.server("a", "")];
    let there = lab.path("there");
    fs::create_dir(&there).unwrap();
    let name = "-odd 'name' \"$x\"; `y` ä\\";
    let from = lab.path(name);
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| number.to_le_bytes()[1]).collect();
    fs::write(&from, &bytes).unwrap();
    fs::set_permissions(&from, PermissionsExt::from_mode(0o750)).unwrap();
    // Into a directory, and under another name.
    for to in [there.clone(), there.join("other; name")] {
        let source = Source::new(std::slice::from_ref(&from), to.to_str().unwrap()).unwrap();
        assert_eq!(copied(&lab.ssh(), &hosts, &source)[0].failure, None);
    }
    for name in [name, "other; name"] {
        assert_eq!(fs::read(there.join(name)).unwrap(), bytes, "{name}");
        assert_eq!(fs::metadata(there.join(name)).unwrap().permissions().mode() & 0o777, 0o750);
    }
    assert_eq!(fs::read_dir(&there).unwrap().count(), 2, "nothing else is left there");
    let (remote, into) = (there.join(name), lab.path("fetched"));
    let fetched =
        all(&hosts, |each| many(&lab.ssh()).fetch(&hosts, remote.to_str().unwrap(), &into, each, || {}));
    assert_eq!(fetched[0].failure, None);
    assert_eq!(fs::read(into.join("a").join(name)).unwrap(), bytes);
    for (file, wanted) in
        [(there.clone(), "is a directory: fetch a file"), (there.join("gone"), "No such file")]
    {
        let fetched =
            all(&hosts, |each| many(&lab.ssh()).fetch(&hosts, file.to_str().unwrap(), &into, each, || {}));
        assert!(why(&fetched[0]).contains(wanted), "{}", why(&fetched[0]));
    }
    assert_eq!(fs::read_dir(into.join("a")).unwrap().count(), 1);
}

#[test]
fn directories_arrive_with_what_is_in_them() {
    let Some(mut lab) = Lab::new() else { return };
    let hosts = [lab.server("a", "")];
    fs::create_dir_all(lab.path("tree/deep")).unwrap();
    fs::write(lab.path("tree/deep/file"), "deep").unwrap();
    fs::write(lab.path("-single"), "single").unwrap();
    let there = lab.path("there");
    let source = Source::new(&[lab.path("tree"), lab.path("-single")], there.to_str().unwrap()).unwrap();
    let refused = copied(&lab.ssh(), &hosts, &source);
    assert!(why(&refused[0]).contains("there is no directory: make it first"), "{}", why(&refused[0]));
    fs::create_dir(&there).unwrap();
    assert_eq!(copied(&lab.ssh(), &hosts, &source)[0].failure, None);
    assert_eq!(fs::read_to_string(there.join("tree/deep/file")).unwrap(), "deep");
    assert_eq!(fs::read_to_string(there.join("-single")).unwrap(), "single");
    let gone = Source::new(&[lab.path("gone")], "x").unwrap_err().to_string();
    assert!(gone.contains("gone cannot be read: No such file"), "{gone}");
}

#[test]
fn a_full_file_system_is_named_and_keeps_the_old_file() {
    let Some(mut lab) = Lab::new() else { return };
    let hosts = [lab.server("a", "")];
    let (small, large) = (lab.path("small"), lab.path("large"));
    fs::write(&small, "old").unwrap();
    fs::write(&large, vec![1; 1 << 20]).unwrap();
    let source = Source::new(&[small], "/run/small/file").unwrap();
    assert_eq!(copied(&lab.ssh(), &hosts, &source)[0].failure, None);
    let source = Source::new(&[large], "/run/small/file").unwrap();
    let full = copied(&lab.ssh(), &hosts, &source);
    assert!(why(&full[0]).contains("No space left on device"), "{}", why(&full[0]));
    let mut there =
        all(&hosts, |each| many(&lab.ssh()).run(&hosts, "ls /run/small; cat /run/small/file", each, || {}));
    assert_eq!(there[0].out.first(100).unwrap(), b"file\nold");
}

#[test]
fn a_host_that_is_gone_while_a_file_is_copied_keeps_the_old_one() {
    let Some(mut lab) = Lab::new() else { return };
    let hosts = [lab.server("a", "")];
    // It ends by itself in the middle of a file that never comes whole.
    let (pipe, there) = (lab.path("sent"), lab.path("there"));
    fs::write(&pipe, vec![7; 5 << 20]).unwrap();
    fs::write(&there, "old").unwrap();
    let source = Source::new(std::slice::from_ref(&pipe), there.to_str().unwrap()).unwrap();
    fs::write(&pipe, vec![7; 2 << 20]).unwrap();
    let cut = copied(&lab.ssh(), &hosts, &source);
    assert!(why(&cut[0]).contains("the file was cut off: copy it again"), "{}", why(&cut[0]));
    assert_eq!(fs::read_to_string(&there).unwrap(), "old");
}

#[test]
fn facts_of_hosts_are_collected_and_compared() {
    let Some(mut lab) = Lab::new() else { return };
    let mut hosts: Vec<String> = ["a", "b", "c"].iter().map(|name| lab.server(name, "")).collect();
    hosts.push("nowhere.invalid".into());
    let ssh = lab.ssh();
    let all = many(&ssh).verify(&hosts, &[], &Rules::default(), || {});
    let facts = all.hosts[0].1.as_ref().unwrap();
    for name in ["kernel", "cpu.count", "memory.gib", "limit.locked_memory", "clock", "tieline.version"] {
        assert!(facts.contains_key(name), "{name}: {facts:?}");
    }
    assert_eq!((all.deviations.len(), facts["clock"].as_str()), (0, "as here"), "{:?}", all.deviations);
    assert_eq!(all.hosts[3].1.as_ref().unwrap_err().kind, Kind::UnknownName);
    // One of them has another limit.
    let odd = lab.server("odd", "ForceCommand ulimit -n 333; eval \"$SSH_ORIGINAL_COMMAND\"");
    hosts[3] = odd;
    let ssh = lab.ssh();
    let all = many(&ssh).verify(&hosts, &[], &Rules::default(), || {});
    let said: Vec<String> = all
        .deviations
        .iter()
        .map(|one| format!("{} {} {}", one.hosts.join(","), one.fact, one.value))
        .collect();
    assert_eq!(said, ["odd limit.open_files 333"]);
    let path = lab.path("rules");
    fs::write(&path, "limit.open_files <= 300\n").unwrap();
    let rules = fleet::read_rules(&path).unwrap();
    let all = many(&ssh).verify(&hosts, &[], &rules, || {});
    let with_rule: usize = all.deviations.iter().map(|one| one.hosts.len()).sum();
    assert_eq!(with_rule, 4, "{:?}", all.deviations);
}

#[test]
fn a_report_of_each_host_is_an_archive() {
    let Some(mut lab) = Lab::new() else { return };
    let hosts = [lab.server("a", "")];
    let into = lab.path("reports");
    let answers = all(&hosts, |each| many(&lab.ssh()).report(&hosts, &into, each, || {}));
    assert_eq!(answers[0].failure, None);
    let tar = |words: &[&str]| {
        let mut tar = std::process::Command::new("tar");
        let output = tar.args(words).arg("-f").arg(into.join("a/report.tar.gz")).arg("report/facts").output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    assert!(tar(&["-xzO"]).contains("\nkernel\t"), "{}", tar(&["-xzO"]));
    assert_eq!(tar(&["-tz"]), "report/facts\n");
}
