//! `./run compare`: in a repository of the test's own, whose builds are stand-ins.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tieline_tests::Watchdog;
use tieline_tests::cluster::{put_xtask, tieline_binary};

use crate::builds::{script, stand_in};

const ID: &str = "put.1MiB.hot";

/// A repository with the project's `run`, and programs that pretend to build.
struct Repository {
    folder: tempfile::TempDir,
}

fn must(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

impl Repository {
    /// The present tree's build costs so many times the baseline.
    fn new(now: f64) -> Self {
        let made = Self { folder: tempfile::tempdir().unwrap() };
        let top = made.top();
        for name in ["sockets", "launcher"] {
            fs::create_dir_all(top.join("crates").join(name)).unwrap();
        }
        fs::create_dir_all(made.release()).unwrap();
        fs::write(made.release().join("libtieline_fi.so"), "").unwrap();
        put_xtask(&top.join("target")).unwrap();
        fs::create_dir_all(made.programs()).unwrap();
        for (name, says) in [("cargo", ""), ("cc", ""), ("rustc", "rustc 99.0.0 (abc 2026-01-01)")] {
            script(&made.programs().join(name), &format!("#!/bin/sh\necho '{says}'\n"));
        }
        for name in ["sockets", "launcher"] {
            script(&top.join("crates").join(name).join("build.sh"), "#!/bin/sh\n");
        }
        fs::write(top.join("Cargo.toml"), "rust-version = \"1.0\"\n").unwrap();
        fs::write(top.join(".gitignore"), "/target\n").unwrap();
        // Measures as a stand-in does, and compares as the binary does.
        let measures = stand_in(&made.folder.path().join("now"), &[(ID, now)]);
        script(
            &made.release().join("tieline"),
            &format!(
                "#!/bin/sh\ncase \"$*\" in *--json\\ --quiet*) exec '{}' \"$@\" ;; *) exec '{}' \"$@\" ;; esac\n",
                measures.display(),
                tieline_binary().unwrap().display()
            ),
        );
        made.git(&["init", "--quiet"]);
        made
    }

    fn top(&self) -> PathBuf {
        self.folder.path().join("tree")
    }

    fn release(&self) -> PathBuf {
        self.top().join("target/release")
    }

    fn programs(&self) -> PathBuf {
        self.folder.path().join("programs")
    }

    fn git(&self, words: &[&str]) -> String {
        let mut command = Command::new("git");
        command.current_dir(self.top()).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        let who = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
        must(command.args(who).args(words)).trim().to_owned()
    }

    /// A commit whose `run` is this.
    fn commit(&self, run: &str) -> String {
        script(&self.top().join("run"), run);
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", "a build"]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// The project's own script.
    fn commit_real(&self) -> String {
        self.commit(&fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../run")).unwrap())
    }

    /// A commit whose build costs so many times the baseline, and is counted.
    fn commit_build(&self, ratio: f64) -> String {
        let folder = self.folder.path().join(format!("before-{ratio}"));
        let program = stand_in(&folder, &[(ID, ratio)]);
        self.commit(&format!(
            "#!/bin/sh\n[ \"$1\" = build ] && mkdir -p target/release && echo >>'{}' && ln -s '{}' target/release/tieline\n",
            self.folder.path().join("count").display(),
            program.display()
        ))
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.top().join("run"));
        let path = format!("{}:{}", self.programs().display(), std::env::var("PATH").unwrap());
        command.arg("compare").args(words).env("PATH", path).env("CI", "true");
        // Git would show its repository to itself, and cargo its folder.
        for name in ["CARGO_TARGET_DIR", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            command.env_remove(name);
        }
        command.env("GIT_CEILING_DIRECTORIES", self.folder.path());
        command
    }

    fn compare(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let output = self.command(words).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    /// What lies in the folder of builds.
    fn kept(&self) -> Vec<String> {
        let Ok(folder) = fs::read_dir(self.top().join("target/compare")) else { return Vec::new() };
        folder.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

#[test]
fn an_earlier_commit_is_built_once_and_compared() {
    let _watchdog = Watchdog::usual("run compare");
    let repository = Repository::new(1.0);
    let (same, slow) = (repository.commit_build(1.0), repository.commit_build(0.8));
    let head = repository.commit_real();
    for _ in 0..2 {
        let (status, out, err) = repository.compare(&[&same, "--only", ID]);
        let title = format!("{} against {}, ", &head[..7], &same[..7]);
        assert!(status == Some(0) && out.starts_with(&title) && out.contains("no worse"), "{out}{err}");
        assert!(err.contains(&format!("target/compare/{same}")), "{err}");
    }
    let count = fs::read_to_string(repository.folder.path().join("count")).unwrap();
    assert_eq!((count.lines().count(), repository.kept()), (1, vec![same.clone()]));
    // Local changes belong to the present tree.
    fs::write(repository.top().join("new"), "").unwrap();
    let (status, out, err) = repository.compare(&["HEAD~1", "--only", ID, "--json"]);
    let all = crate::bench_compare::json_of(&out);
    assert_eq!((status, &all["figures"][0]["outcome"]), (Some(1), &"worse".into()), "{err}");
    assert_eq!(all["now"]["name"], format!("{} with local changes", &head[..7]));
    assert_eq!(all["before"]["name"], slow[..7]);
    // What nobody has used for long goes.
    let old = repository.top().join("target/compare/making.abc");
    fs::create_dir_all(&old).unwrap();
    must(Command::new("touch").args(["-d", "20 days ago"]).arg(&old));
    must(
        Command::new("touch")
            .args(["-d", "20 days ago"])
            .arg(repository.top().join("target/compare").join(&slow)),
    );
    let (status, ..) = repository.compare(&[&same, "--only", ID]);
    assert_eq!((status, repository.kept()), (Some(0), vec![same]));
}

#[test]
fn what_cannot_be_built_or_is_no_commit_is_named_and_leaves_nothing() {
    let _watchdog = Watchdog::usual("run compare, misused");
    let repository = Repository::new(1.0);
    let broken = repository.commit("#!/bin/sh\necho 'a mistake in line 7' >&2\nexit 1\n");
    let empty = repository.commit("#!/bin/sh\n");
    repository.commit_real();
    for (words, status, says) in [
        (&[][..], 2, "--help"),
        (&["--only", ID], 2, "commit"),
        (&["no-such-commit"], 2, "'no-such-commit'"),
        (&["HEAD:run"], 2, "'HEAD:run'"),
        (&["HEAD~1", "--only", "put.1MB.hot"], 2, "`put.1MiB.hot`"),
        (&["HEAD~1", "--nonsense"], 2, "--nonsense"),
        (&[&broken, "--only", ID], 4, "a mistake in line 7"),
        (&[&broken, "--only", ID], 4, "does not build"),
        (&[&empty, "--only", ID], 4, "without target/release/tieline"),
    ] {
        let (got, out, err) = repository.compare(words);
        assert!(got == Some(status) && err.contains(says), "{words:?}: {got:?} {out}{err}");
        assert_eq!(repository.kept(), Vec::<String>::new(), "{words:?}");
    }
    let (status, out, _) = repository.compare(&["--help"]);
    assert!(status == Some(0) && out.contains("Examples:") && out.contains("--only ID"), "{out}");
    // As in an archive of the sources.
    fs::remove_dir_all(repository.top().join(".git")).unwrap();
    let (status, _, err) = repository.compare(&["HEAD", "--only", ID]);
    assert!(status == Some(4) && err.contains("no earlier commits"), "{err}");
}

#[test]
fn a_build_that_is_interrupted_leaves_nothing() {
    let _watchdog = Watchdog::usual("run compare, interrupted");
    for signal in [Signal::INT, Signal::TERM] {
        let repository = Repository::new(1.0);
        let begun = repository.folder.path().join("begun");
        repository.commit(&format!("#!/bin/sh\necho >'{}'\nexec sleep 600\n", begun.display()));
        repository.commit_real();
        let mut command = repository.command(&["HEAD~1", "--only", ID]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn().unwrap();
        while !begun.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        // As a terminal does.
        kill_process_group(Pid::from_child(&child), signal).unwrap();
        let status = child.wait().unwrap();
        assert!(!status.success(), "{signal:?}: {status}");
        assert_eq!(repository.kept(), Vec::<String>::new(), "{signal:?}");
    }
}

#[test]
fn a_folder_of_builds_may_lie_elsewhere() {
    let _watchdog = Watchdog::usual("run compare, CARGO_TARGET_DIR");
    let repository = Repository::new(1.0);
    let before = repository.commit_build(1.0);
    repository.commit_real();
    let elsewhere = repository.folder.path().join("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    put_xtask(&elsewhere).unwrap();
    symlink(repository.release(), elsewhere.join("release")).unwrap();
    let mut command = repository.command(&[&before, "--only", ID]);
    let output = command.env("CARGO_TARGET_DIR", &elsewhere).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(elsewhere.join("compare").join(&before).is_dir() && repository.kept().is_empty());
}
