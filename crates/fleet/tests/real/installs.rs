//! Packages and tarballs that are installed on hosts, and hosts that reboot.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fleet::{Answer, Installing, Kind, OnMany, Parcel, Ssh};

use crate::servers::Lab;

const DRY: Installing = Installing { upgrade: false, dry_run: true, downgrade: false };
const INSTALL: Installing = Installing { upgrade: false, dry_run: false, downgrade: false };
const UPGRADE: Installing = Installing { upgrade: true, dry_run: false, downgrade: false };
const DOWNGRADE: Installing = Installing { upgrade: true, dry_run: false, downgrade: true };

fn many(ssh: &Ssh) -> OnMany<'_> {
    OnMany { ssh, at_once: 16, limit: Some(Duration::from_secs(60)) }
}

/// What a host says, or why it did not do it.
fn said(answer: &mut Answer) -> Result<String, String> {
    match &answer.failure {
        Some(failure) => Err(failure.why.clone()),
        None => Ok(String::from_utf8(answer.out.first(4096).unwrap()).unwrap()),
    }
}

fn installed(lab: &Lab, host: &str, parcel: &Parcel, how: Installing) -> Result<String, String> {
    let mut all = Vec::new();
    many(&lab.ssh()).install(&[host.to_owned()], parcel, how, |_, answer| all.push(answer), || {});
    said(&mut all[0])
}

/// A package that this version of itself alone makes different.
fn package(folder: &Path, name: &str, version: &str) -> PathBuf {
    let tree = folder.join(format!("{name}-{version}"));
    fs::create_dir_all(tree.join("DEBIAN")).unwrap();
    fs::create_dir_all(tree.join("usr/share/tieline-test")).unwrap();
    fs::write(tree.join("usr/share/tieline-test").join(name), version).unwrap();
    let control = format!(
        "Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: a test\n"
    );
    fs::write(tree.join("DEBIAN/control"), control).unwrap();
    let made = Command::new("dpkg-deb")
        .args(["--root-owner-group", "-Znone", "--build"])
        .arg(&tree)
        .arg(folder)
        .output();
    assert!(made.unwrap().status.success());
    folder.join(format!("{name}_{version}_all.deb"))
}

/// Programs in front of a host's search path.
fn program(folder: &Path, name: &str, text: &str) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join(name), format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(folder.join(name), PermissionsExt::from_mode(0o755)).unwrap();
}

/// dpkg works on a system of its own: this machine's stays as it is.
fn with_packages_of_its_own(lab: &mut Lab, name: &str) -> String {
    let root = lab.path(&format!("root-{name}"));
    for folder in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    let bin = lab.path(&format!("bin-{name}"));
    let there = root.display().to_string();
    program(
        &bin,
        "dpkg",
        &format!(
            "case $1 in --compare-versions) ;; *) set -- --root={there} --force-not-root \"$@\" ;; esac\nexec /usr/bin/dpkg \"$@\""
        ),
    );
    program(&bin, "dpkg-query", &format!("exec /usr/bin/dpkg-query --admindir={there}/var/lib/dpkg \"$@\""));
    // A system without apt-get: what is needed is found by the name of each program.
    for tool in [
        "sh",
        "id",
        "mktemp",
        "tar",
        "rm",
        "sed",
        "cat",
        "env",
        "grep",
        "head",
        "tail",
        "tr",
        "sleep",
        "dpkg-deb",
        "dpkg-split",
        "diff",
        "ldconfig",
        "start-stop-daemon",
        "setsid",
        "test",
        "printf",
        "cp",
        "mv",
        "chmod",
        "wc",
        "gzip",
    ] {
        let found = Command::new("sh")
            .args(["-c", &format!("PATH=$PATH:/usr/sbin:/sbin command -v {tool}")])
            .output()
            .unwrap();
        let path = String::from_utf8(found.stdout).unwrap();
        let path = path.trim();
        if path.starts_with('/') {
            let _ = std::os::unix::fs::symlink(path, bin.join(tool));
        }
    }
    lab.server(name, &format!("SetEnv PATH={}", bin.display()))
}

#[test]
fn packages_are_installed_upgraded_and_not_made_older_unasked() {
    let Some(mut lab) = Lab::new() else { return };
    if !Path::new("/usr/bin/dpkg-deb").exists() {
        println!("skipped: this system has no dpkg");
        return;
    }
    let host = with_packages_of_its_own(&mut lab, "a");
    let [old, new] = ["1.0", "1.1"].map(|version| package(&lab.path(""), "tieline-x", version));
    let other = package(&lab.path(""), "tieline-y", "1.1");
    let [old, both] = [vec![old], vec![new, other]].map(|files| Parcel::new(&files).unwrap());
    let none = installed(&lab, &host, &both, UPGRADE).unwrap_err();
    assert!(none.contains("none of these packages is installed there: `tieline fleet install`"), "{none}");
    assert_eq!(installed(&lab, &host, &old, DRY).unwrap(), "tieline-x 1.0 would be installed (now: none)\n");
    assert_eq!(installed(&lab, &host, &old, INSTALL).unwrap(), "tieline-x 1.0 (before: none)\n");
    let file = lab.path("root-a/usr/share/tieline-test/tieline-x");
    assert_eq!(fs::read_to_string(&file).unwrap(), "1.0");
    // What is not there is not upgraded.
    assert_eq!(installed(&lab, &host, &both, UPGRADE).unwrap(), "tieline-x 1.1 (before: 1.0)\n");
    assert_eq!(fs::read_to_string(&file).unwrap(), "1.1");
    let older = installed(&lab, &host, &old, UPGRADE).unwrap_err();
    assert_eq!(older, "tieline-x 1.1 is newer than 1.0: add --downgrade to install the older one");
    assert_eq!(installed(&lab, &host, &old, DOWNGRADE).unwrap(), "tieline-x 1.0 (before: 1.1)\n");
    // A file that only is called a package.
    let broken = lab.path("broken_1_all.deb");
    fs::write(&broken, "no package").unwrap();
    let why = installed(&lab, &host, &Parcel::new(&[broken]).unwrap(), INSTALL).unwrap_err();
    assert!(why.contains("broken_1_all.deb is no package of Debian"), "{why}");
    // What dpkg says of a package that it does not install.
    let tree = lab.path("tieline-x-1.1");
    let control = fs::read_to_string(tree.join("DEBIAN/control")).unwrap();
    fs::write(
        tree.join("DEBIAN/control"),
        format!("{}Depends: nowhere\nDescription: a test\n", control.replace("Description: a test\n", "")),
    )
    .unwrap();
    let made = Command::new("dpkg-deb")
        .args(["-Znone", "--build"])
        .arg(&tree)
        .arg(lab.path("needy_1_all.deb"))
        .output();
    assert!(made.unwrap().status.success());
    let why =
        installed(&lab, &host, &Parcel::new(&[lab.path("needy_1_all.deb")]).unwrap(), INSTALL).unwrap_err();
    assert!(why.contains("dpkg: error") || why.contains("depend"), "{why}");
}

#[test]
fn who_is_not_root_needs_sudo_without_a_password() {
    let Some(mut lab) = Lab::new() else { return };
    let bin = lab.path("user");
    program(&bin, "id", "case $1 in -u) echo 1000 ;; *) echo someone ;; esac");
    program(&bin, "sudo", "exit 1");
    let host = lab.server("user", &format!("SetEnv PATH={}:/usr/bin:/bin", bin.display()));
    let file = package(&lab.path(""), "tieline-z", "1");
    let why = installed(&lab, &host, &Parcel::new(&[file]).unwrap(), INSTALL).unwrap_err();
    assert!(why.starts_with("someone is not root there, and sudo asks for a password"), "{why}");
    let mut all = Vec::new();
    many(&lab.ssh()).reboot(&[host], Duration::from_secs(5), |_, answer| all.push(answer), || {});
    let why = said(&mut all[0]).unwrap_err();
    assert!(why.starts_with("someone is not root there"), "{why}");
}

#[test]
fn a_tarball_is_unpacked_and_takes_the_place_of_the_one_before() {
    let Some(mut lab) = Lab::new() else { return };
    let host = lab.server("a", "");
    let prefix = lab.path("opt");
    let inside = prefix.strip_prefix("/").unwrap();
    let make = |version: &str, more: &str| {
        let stage = lab.path(&format!("stage-{version}"));
        let place = stage.join(inside);
        program(&place.join("bin"), "tieline", &format!("echo tieline {version}"));
        fs::write(place.join("bin").join(more), version).unwrap();
        let list = place.join("share/doc/tieline/installed-files");
        fs::create_dir_all(list.parent().unwrap()).unwrap();
        let files: String = ["bin/tieline", &format!("bin/{more}"), "share/doc/tieline/installed-files"]
            .iter()
            .map(|name| format!("{}\n", prefix.join(name).display()))
            .collect();
        fs::write(list, files).unwrap();
        let file = lab.path(&format!("{version}.tar.gz"));
        let made = Command::new("tar").arg("-C").arg(&stage).arg("-czf").arg(&file).arg(".").status();
        assert!(made.unwrap().success());
        Parcel::new(&[file]).unwrap()
    };
    let (old, new) = (make("1.0", "gone"), make("1.1", "new"));
    let place = prefix.display();
    let none = installed(&lab, &host, &new, UPGRADE).unwrap_err();
    assert!(none.contains(&format!("no tarball is installed under {place} there")), "{none}");
    let dry = installed(&lab, &host, &old, DRY).unwrap();
    assert_eq!(dry, format!("3 files would be installed under {place} (now: none)\n"));
    assert!(!prefix.exists());
    let done = installed(&lab, &host, &old, INSTALL).unwrap();
    assert_eq!(done, format!("tieline 1.0 under {place} (before: none)\n"));
    let done = installed(&lab, &host, &new, UPGRADE).unwrap();
    assert_eq!(done, format!("tieline 1.1 under {place} (before: 1.0)\n"));
    assert!(prefix.join("bin/new").exists() && !prefix.join("bin/gone").exists());
}

#[test]
fn hosts_reboot_and_are_waited_for() {
    let Some(mut lab) = Lab::new() else { return };
    // Another boot: the number that the kernel gives it changes, for this server alone.
    let bin = lab.path("boots");
    let id = lab.path("boot_id");
    let another = format!(
        "[ $1 = reboot ] && sleep 1 && cat /proc/sys/kernel/random/uuid >{0} && exec /usr/bin/env mount --bind {0} /proc/sys/kernel/random/boot_id",
        id.display()
    );
    program(&bin, "systemctl", &another);
    let stuck = lab.path("stuck");
    // This machine stays up, whatever goes wrong here.
    for (folder, name) in [(&bin, "shutdown"), (&bin, "reboot"), (&stuck, "shutdown"), (&stuck, "reboot")] {
        program(folder, name, "exit 0");
    }
    program(&stuck, "systemctl", "exit 0");
    let good = lab.server("good", &format!("SetEnv PATH={}:/usr/bin:/bin", bin.display()));
    let bad = lab.server("bad", &format!("SetEnv PATH={}:/usr/bin:/bin", stuck.display()));
    let hosts = [good, bad, "nowhere.invalid".to_owned()];
    let mut all: Vec<Option<Answer>> = vec![None, None, None];
    many(&lab.ssh()).reboot(
        &hosts,
        Duration::from_secs(12),
        |number, answer| all[number] = Some(answer),
        || {},
    );
    let of = |number: usize| all[number].as_ref().expect("an answer for each host");
    assert_eq!(of(0).failure, None);
    let failure = of(1).failure.as_ref().unwrap();
    assert!(
        failure.kind == Kind::TimedOut && failure.why.contains("it still runs the old boot after 12 s"),
        "{failure:?}"
    );
    assert_eq!(of(2).failure.as_ref().unwrap().kind, Kind::UnknownName);
}
