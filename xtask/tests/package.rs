//! `./run package`, of what is built for tests: what is in the packages, and whether they are the same each
//! time.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tieline_tests::cluster::commands_binary;

const NAMES: [&str; 5] = ["libtieline-dev", "libtieline1", "tieline-manager", "tieline-sockets", "tieline"];

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Why packages can't be made here, which a test then says.
fn missing() -> Option<String> {
    let is_there = |program: &str| {
        Command::new("sh")
            .args(["-c", &format!("command -v {program}")])
            .output()
            .is_ok_and(|it| it.status.success())
    };
    let all = ["dpkg-deb", "dpkg-gencontrol", "dpkg-shlibdeps", "strip", "git"];
    all.into_iter()
        .find(|program| !is_there(program))
        .map(|program| format!("skipped: {program} is not installed"))
}

/// The packages of one run, in the order of their names; and what the run said.
fn made(out: &Path, more: &[&str]) -> (Vec<PathBuf>, String) {
    let commands = commands_binary().unwrap();
    let built = commands.parent().unwrap();
    let mut run = Command::new(env!("CARGO_BIN_EXE_xtask"));
    run.args(["run", "package", "--dirty", "--fast", "--built"]).arg(built).arg("--out").arg(out).args(more);
    let output = run.current_dir(top()).env_remove("SOURCE_DATE_EPOCH").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let mut files: Vec<PathBuf> = fs::read_dir(out).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    (files, said)
}

fn dpkg_deb(words: &[&str], file: &Path) -> String {
    let output = Command::new("dpkg-deb").args(words).arg(file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn packages_hold_what_they_should_and_are_the_same_twice() {
    if let Some(why) = missing() {
        println!("{why}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (files, said) = made(&folder.path().join("one"), &[]);
    let names: Vec<String> = files.iter().map(|file| dpkg_deb(&["-f"], file)).collect();
    let field = |at: usize, name: &str| {
        names[at].lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).unwrap_or("").to_owned()
    };
    assert_eq!((0..files.len()).map(|at| field(at, "Package")).collect::<Vec<_>>(), NAMES);
    // Lintian, where it is installed, has found nothing: else the run fails.
    assert!(
        said.contains("lintian finds no error and no warning") || said.contains("not checked by lintian"),
        "{said}"
    );
    let version = field(4, "Version");
    assert!(version.starts_with("0.1.0"), "{version}");
    assert!(field(4, "Depends").contains(&format!("libtieline1 (= {version})")), "{}", names[4]);
    assert!(field(1, "Depends").contains("libc6 (>= "), "{}", names[1]);
    assert!(field(1, "Conflicts").contains("dolphin-sisci-ix"), "{}", names[1]);
    assert!(field(3, "Conflicts").contains("dolphin-supersockets"), "{}", names[3]);
    let listed: Vec<String> = files.iter().map(|file| dpkg_deb(&["-c"], file)).collect();
    for (at, paths) in [
        (
            0,
            &[
                "./usr/include/sisci/sisci_api.h",
                "./usr/include/tieline_mq.h",
                "./usr/lib/x86_64-linux-gnu/pkgconfig/sisci.pc",
            ][..],
        ),
        (
            1,
            &[
                "./usr/lib/x86_64-linux-gnu/libsisci.so",
                "./usr/lib/x86_64-linux-gnu/libtieline_mq.so",
                "./usr/lib/x86_64-linux-gnu/libfabric/libtieline-fi.so",
            ],
        ),
        (
            4,
            &[
                "./usr/bin/tieline",
                "./usr/libexec/tieline/tieline-commands",
                "./usr/share/man/man1/tieline-fleet-run.1.gz",
                "./usr/share/bash-completion/completions/tieline",
                "./usr/share/zsh/vendor-completions/_tieline",
                "./usr/share/fish/vendor_completions.d/tieline.fish",
                "./usr/share/doc/tieline/docs/commands.md",
                "./usr/libexec/tieline/classic/scipp -> ../../../bin/tieline",
            ],
        ),
        (
            2,
            &[
                "./lib/systemd/system/tieline-node@.service",
                "./etc/default/tieline",
                "./etc/tieline/service/access.toml",
            ],
        ),
        (3, &["./usr/lib/tieline/libtieline-sockets.so"]),
    ] {
        for path in paths {
            assert!(listed[at].lines().any(|line| line.ends_with(path)), "{path}: {}", listed[at]);
        }
    }
    for line in listed.iter().flat_map(|text| text.lines()) {
        assert!(line.contains(" root/root "), "{line}");
    }
    let control = folder.path().join("control");
    let status = Command::new("dpkg-deb").arg("-e").arg(&files[2]).arg(&control).status();
    assert!(status.unwrap().success());
    assert_eq!(
        fs::read_to_string(control.join("conffiles")).unwrap(),
        "/etc/default/tieline\n/etc/tieline/service/access.toml\n"
    );
    // The man page of a command is its help.
    let page = Command::new("dpkg-deb").arg("--fsys-tarfile").arg(&files[4]).output().unwrap().stdout;
    let tar = folder.path().join("tree.tar");
    fs::write(&tar, page).unwrap();
    let script = "tar -xOf \"$0\" ./usr/share/man/man1/tieline-fleet-run.1.gz | gzip -dc";
    let page = Command::new("sh").args(["-c", script]).arg(&tar).output().unwrap();
    let page = String::from_utf8(page.stdout).unwrap();
    assert!(page.contains("Run a command on each host") && page.contains("punch"), "{page}");
    let script = "tar -xOf \"$0\" ./usr/share/bash-completion/completions/tieline";
    let completion =
        Command::new("sh").args(["-c", &format!("{script} | bash -n")]).arg(&tar).output().unwrap();
    assert!(completion.status.success(), "{completion:?}");
    // The same once more.
    let (again, _) = made(&folder.path().join("two"), &["--no-lintian"]);
    for (one, two) in files.iter().zip(&again) {
        assert_eq!(one.file_name(), two.file_name());
        assert!(fs::read(one).unwrap() == fs::read(two).unwrap(), "{} differs", one.display());
    }
}

#[test]
fn what_is_missing_is_named() {
    if let Some(why) = missing() {
        println!("{why}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let run = |words: &[&str], path: Option<&Path>| {
        let mut run = Command::new(env!("CARGO_BIN_EXE_xtask"));
        run.args(["run", "package"]).args(words).current_dir(top());
        if let Some(path) = path {
            run.env("PATH", path);
        }
        let output = run.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let empty = folder.path().join("empty");
    fs::create_dir_all(&empty).unwrap();
    let out = folder.path().join("out");
    let (status, said) =
        run(&["--dirty", "--built", empty.to_str().unwrap(), "--out", out.to_str().unwrap()], None);
    assert!(status == Some(4) && said.contains("empty/tieline is not there: build it first"), "{said}");
    let (status, said) = run(&[], Some(&empty));
    assert!(
        status == Some(4) && said.contains("dpkg-deb is not there") && said.contains("apt-get install dpkg"),
        "{said}"
    );
    let (status, said) = run(&["--now"], None);
    assert!(status == Some(2) && said.contains("unknown argument --now; usage: ./run package"), "{said}");
}
