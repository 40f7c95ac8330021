//! `./run` itself, with a cargo that only pretends.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};

use tieline_tests::executable;

/// A folder with a `cargo` and a `rustc`, in front of the search path. Removed at the end.
struct Pretence {
    folder: PathBuf,
}

/// What cargo prints for each kind of call; a test replaces what it wants to see fail.
const CARGO: &str = r#"
case "$*" in
    "deny --version") exit 1 ;;
    *doc-commands*) echo 'documented commands: 4 passed, 0 failed' ;;
    *"--lib loom"*) echo 'test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0.1s' ;;
    *"xtask -- test"*) echo 'test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s'
              echo '  test result: ok. 100 passed; 0 failed; 0 ignored; indented, so from inside a test'
              echo 'test result: ok. 6 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s' ;;
esac
"#;

impl Pretence {
    fn new(name: &str, rust_version: &str, cargo: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("tieline-run-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let pretence = Self { folder };
        pretence.program("cargo", cargo);
        pretence.program("rustc", &format!("echo 'rustc {rust_version} (abc 2026-01-01)'"));
        // Nothing is really installed by a test.
        pretence.program("apt-get", "");
        pretence.program("apt-cache", "");
        // As cargo would have built it.
        let debug = pretence.folder.join("target/debug");
        fs::create_dir_all(&debug).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_xtask"), debug.join("xtask")).unwrap();
        pretence
    }

    fn program(&self, name: &str, body: &str) {
        let path = self.folder.join(name);
        executable::write(&path, format!("#!/bin/sh\n{body}\n"), 0o755).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// For a run that leaves daemons: a pipe would be waited for here.
    fn run_to_file(&self, arguments: &[&str]) -> ExitStatus {
        let output = fs::File::create(self.folder.join("output")).unwrap();
        self.command(arguments).stdout(output.try_clone().unwrap()).stderr(output).status().unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let search_path = format!("{}:{}", self.folder.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(script());
        command
            .args(arguments)
            .env("PATH", search_path)
            .env("CI", "true")
            .env("TMPDIR", &self.folder)
            .env("CARGO_TARGET_DIR", self.folder.join("target"))
            .env_remove("DESTDIR");
        command
    }
}

impl Drop for Pretence {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("run")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn last_line(output: &Output) -> String {
    text(&output.stdout).lines().last().unwrap_or("").to_owned()
}

/// How many steps pass as one each: those of `lint` and `test` that are no test runs.
fn checks(output: &Output) -> usize {
    let names = [
        "fmt",
        "clippy",
        "clippy-launcher",
        "tidy",
        "scripts",
        "shellcheck",
        "licences",
        "rustdoc",
        "build",
        "fuzz",
    ];
    let stdout = text(&output.stdout);
    names.iter().filter(|name| stdout.contains(&format!("== {name}: passed"))).count()
}

/// Steps that this machine does not do: cargo deny is pretended away, shellcheck may be missing for real.
fn skipped_steps(output: &Output) -> usize {
    text(&output.stdout).matches(": SKIPPED: ").count()
}

#[test]
fn alone_it_lists_its_verbs_and_each_is_there() {
    let output = Command::new(script()).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let listed: Vec<String> = text(&output.stdout)
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next().map(str::to_owned))
        .collect();
    for verb in ["build", "verify", "test", "test-programs", "soak", "install"] {
        assert!(listed.iter().any(|there| there == verb), "{verb} is not listed");
    }
    let pretence = Pretence::new("verbs", "99.0.0", "");
    for verb in listed {
        let output = pretence.run(&[&verb, "--no-such-option"]);
        let error = text(&output.stderr);
        assert!(!output.status.success() && !error.contains("unknown verb"), "{verb}: {error}");
    }
}

#[test]
fn wrong_usage_is_told_apart_from_what_cannot_run() {
    let pretence = Pretence::new("usage", "99.0.0", CARGO);
    for (arguments, status) in [
        (&["fly"][..], 2),
        (&["test", "x"], 2),
        (&["../run"], 2),
        (&["soak", "--minutes"], 2),
        (&["soak", "--minutes", "-1"], 2),
        (&["install", "--prefix", "relative"], 2),
        (&["test-programs"], 4),
        (&["uninstall", "--prefix", "/nowhere/at/all"], 4),
    ] {
        let output = pretence.run(arguments);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", text(&output.stderr));
        assert!(!output.stderr.is_empty(), "{arguments:?} does not say why");
    }
}

#[test]
fn what_only_prints_installs_and_builds_nothing() {
    let pretence = Pretence::new(
        "list",
        "99.0.0",
        "case \"$*\" in *\"--package cli\"*) echo built >\"$0.built\" ;; esac",
    );
    pretence.program("apt-get", "echo installed >\"$0.called\"");
    pretence.program("sudo", "echo asked >\"$0.called\"");
    let release = pretence.folder.join("target/release");
    fs::create_dir_all(&release).unwrap();
    // A test that lists one program, and takes one option only.
    let test = release.join("tieline-test-programs");
    let lists = "#!/bin/sh\ncase \"$*\" in --list) echo redis ;; *) echo unknown >&2; exit 2 ;; esac\n";
    executable::write(&test, lists, 0o755).unwrap();

    let output = pretence.run(&["test-programs", "--list"]);
    assert_eq!(
        (output.status.code(), text(&output.stdout).as_str()),
        (Some(0), "redis\n"),
        "{}",
        text(&output.stderr)
    );
    let output = pretence.run(&["test-programs", "--fly"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    for trace in ["apt-get.called", "sudo.called", "cargo.built"] {
        assert!(!pretence.folder.join(trace).exists(), "{trace}");
    }
}

/// On a machine that has just started another program is often at the package lists.
#[test]
fn another_installation_is_waited_for() {
    if Path::new("/run/systemd/system").exists() {
        println!("not tried: where a service manager runs no servers are installed");
        return;
    }
    let pretence = Pretence::new("locked", "99.0.0", CARGO);
    let held = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1 (apt-get)";
    pretence.program(
        "apt-get",
        &format!(
            "echo \"$*\" >>\"$0.calls\"\n\
             case \"$*\" in *update) [ \"$(grep -c update \"$0.calls\")\" -gt 2 ] || {{ echo '{held}' >&2; exit 100; }} ;; esac"
        ),
    );
    pretence.program("sleep", "echo slept >>\"$0.calls\"");
    pretence.program("sudo", "shift; exec \"$@\"");
    let release = pretence.folder.join("target/release");
    fs::create_dir_all(&release).unwrap();
    let test = release.join("tieline-test-programs");
    executable::write(&test, "#!/bin/sh\ncase \"$*\" in --packages) echo some-server ;; esac\n", 0o755)
        .unwrap();

    let output = pretence.run(&["test-programs"]);
    let calls = |program| fs::read_to_string(pretence.folder.join(program)).unwrap_or_default();
    let error = text(&output.stderr);
    assert_eq!(calls("sleep.calls").lines().count(), 2, "{error}");
    let asked = calls("apt-get.calls");
    assert_eq!(asked.lines().filter(|call| call.contains("update")).count(), 3, "{asked}{error}");
    assert!(asked.lines().last().is_some_and(|call| call.ends_with("some-server")), "{asked}{error}");
    assert_eq!(error.matches("another program uses the package lists").count(), 1, "{error}");
}

impl Pretence {
    /// Programs of this machine that a verb needs at least, and none of those that it would install; the user
    /// may not become root.
    fn bare(name: &str) -> (Self, String) {
        let pretence = Self::new(name, "99.0.0", CARGO);
        let tools = pretence.folder.join("tools");
        fs::create_dir_all(&tools).unwrap();
        for tool in [
            "bash", "sh", "awk", "cut", "dirname", "env", "head", "mkdir", "mktemp", "paste", "readlink",
            "rm", "sed", "sort",
        ] {
            let found = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output().unwrap();
            std::os::unix::fs::symlink(text(&found.stdout).trim(), tools.join(tool)).unwrap();
        }
        pretence.program("id", "echo 1000");
        pretence.program("sudo", "exit 1");
        // It is there, and the C library's files are not.
        pretence.program("cc", "exit 1");
        let path = format!("{}:{}", pretence.folder.display(), tools.display());
        (pretence, path)
    }
}

/// Who has to install by hand does it once, by a command that works where no package lists are.
#[test]
fn all_packages_of_a_verb_are_named_at_once() {
    let (pretence, path) = Pretence::bare("packages");
    for (verb, packages) in [
        ("verify", &["gcc", "libc6-dev"][..]),
        ("build", &["gcc", "libc6-dev"]),
        ("test", &["gcc", "libc6-dev", "chromium", "musl-tools", "shellcheck"]),
    ] {
        let output = pretence.command(&[verb]).env("PATH", &path).output().unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{verb}: {error}");
        let command = "sudo sh -c 'apt-get update && apt-get install -y --no-install-recommends ";
        let listed = error.split(command).nth(1).unwrap_or_else(|| panic!("{verb}: {error}"));
        let listed: Vec<&str> = listed.split('\'').next().unwrap().split(' ').collect();
        assert!(packages.iter().all(|package| listed.contains(package)), "{verb}: {error}");
        let unique: std::collections::BTreeSet<_> = listed.iter().collect();
        assert_eq!(unique.len(), listed.len(), "{verb}: {error}");
        assert!(!listed.contains(&"opensm"), "{error}");
        // Before anything else.
        assert!(
            error.starts_with("building") && error.contains("5 to 10 minutes of processor time"),
            "{verb}: {error}"
        );
    }
}

/// Its package would make it a service that starts with the system.
#[test]
fn the_subnet_manager_is_unpacked_and_never_installed() {
    let pretence = Pretence::new("opensm", "99.0.0", CARGO);
    pretence
        .program("apt-get", "echo \"$*\" >>\"$0.calls\"\ncase \"$*\" in *download*) : >opensm_3.deb ;; esac");
    pretence.program(
        "apt-cache",
        "printf 'opensm\\n  PreDepends: init-system-helpers\\n  Depends: libosm9\\n    x\\n'",
    );
    pretence.program(
        "dpkg",
        "echo \"$*\" >>\"$0.calls\"\ncase $1 in -s) exit 1 ;; -x) mkdir -p usr/sbin; echo 'exit 0' >usr/sbin/opensm; chmod 755 usr/sbin/opensm ;; esac",
    );
    pretence.program("sudo", "shift; exec \"$@\"");
    // The function alone: the rest of the verb is pretended away, and what this machine has installed is not
    // looked at.
    let source = fs::read_to_string(script()).unwrap().replace(":/usr/sbin", "");
    let body = source.split("\nverb=${1:-help}\n").next().unwrap();
    let lone = pretence.folder.join("lone");
    fs::write(&lone, format!("{body}\nunpack opensm opensm\nunpack opensm opensm\n")).unwrap();
    let path = format!("{}:/usr/bin:/bin", pretence.folder.display());
    let mut command = Command::new("bash");
    command.arg(&lone).env("PATH", path).env("CARGO_TARGET_DIR", pretence.folder.join("target"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(pretence.folder.join("target/referees/usr/sbin/opensm").exists(), "{}", text(&output.stderr));
    let calls = fs::read_to_string(pretence.folder.join("apt-get.calls")).unwrap();
    assert!(calls.contains("install") && calls.contains("libosm9"), "{calls}");
    assert!(
        calls.lines().filter(|call| call.contains("install")).all(|call| !call.contains("opensm")),
        "{calls}"
    );
    // What was unpacked once is there.
    assert_eq!(calls.matches("download opensm").count(), 1, "{calls}");
}

#[test]
fn an_old_rust_is_named_with_the_next_step() {
    let output = Pretence::new("old", "1.63.0", CARGO).run(&["build"]);
    assert_eq!(output.status.code(), Some(4));
    let error = text(&output.stderr);
    assert!(error.contains("1.63.0 is too old") && error.contains("rustup update"), "{error}");
}

#[test]
fn all_is_summed_in_the_last_line() {
    let output = Pretence::new("sum", "99.0.0", CARGO).run(&["test"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    let passed = 5 + 6 + 2 + 4 + checks(&output);
    let skipped = 1 + skipped_steps(&output);
    assert_eq!(last_line(&output), format!("{passed} passed, 0 failed, {skipped} skipped"));
    assert!(checks(&output) >= 7 && skipped_steps(&output) >= 1, "{}", text(&output.stdout));
}

#[test]
fn a_failing_step_stops_no_other_and_is_named() {
    // Clippy fails, both times; a test fails; the loom build does not compile; two documented commands fail.
    let cargo = r#"
case "$*" in
    "deny --version") exit 1 ;;
    "clippy --version") ;;
    clippy*) exit 101 ;;
    *doc-commands*) echo 'documented commands: 4 passed, 2 failed'; exit 1 ;;
    *"--lib loom"*) echo 'error: could not compile'; exit 101 ;;
    *"xtask -- test"*) echo 'test result: FAILED. 5 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s'
              exit 101 ;;
esac"#;
    let output = Pretence::new("fail", "99.0.0", cargo).run(&["test"]);
    assert_eq!(output.status.code(), Some(1));
    let passed = 5 + 4 + checks(&output);
    assert_eq!(last_line(&output), format!("{passed} passed, 6 failed, {} skipped", skipped_steps(&output)));
    for name in ["clippy", "clippy-launcher", "tests", "loom", "documents"] {
        assert!(
            text(&output.stdout).contains(&format!("\nfailed: {name}\n")),
            "{name}: {}",
            text(&output.stdout)
        );
    }
}

#[test]
fn a_run_without_a_test_has_failed() {
    let cargo = "case \"$*\" in \"deny --version\") exit 1 ;; esac";
    let output = Pretence::new("none", "99.0.0", cargo).run(&["test"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(last_line(&output).contains(" 3 failed"), "{}", last_line(&output));
}

#[test]
fn a_daemon_that_a_test_left_does_not_hold_it_up() {
    let pretence = Pretence::new("daemon", "99.0.0", "");
    // Keeps its output open while this folder is there, and complains when that lasts: somebody waits for it.
    let alive = pretence.folder.join("alive");
    let daemon = format!(
        "( turn=0; while [ -e '{0}' ]; do sleep 0.1; turn=$((turn + 1)); \
         [ $turn -lt 600 ] || {{ : >'{0}.waited'; exit; }}; done ) &",
        alive.display()
    );
    fs::write(&alive, "").unwrap();
    pretence.program("cargo", &format!("{daemon}\n{CARGO}"));
    let output = pretence.run_to_file(&["lint"]);
    let waited = pretence.folder.join("alive.waited").exists();
    fs::remove_file(&alive).unwrap();
    assert_eq!(output.code(), Some(0));
    assert!(!waited, "./run waited for a daemon");
}

#[test]
fn what_is_installed_is_what_is_removed() {
    // What cargo is told to link, the launcher, answers to one classic name, and to its own for all others.
    let links = "for word; do case $word in --emit=link=*) printf '#!/bin/sh\\necho help\\n' >\"${word#--emit=link=}\"
        chmod 755 \"${word#--emit=link=}\" ;; esac; done";
    let pretence = Pretence::new("install", "99.0.0", links);
    let target = pretence.folder.join("target/release");
    fs::create_dir_all(&target).unwrap();
    fs::write(target.join("tieline-commands"), "the commands").unwrap();
    for library in ["libsisci.so", "libtieline_mq.so", "libtieline_fi.so"] {
        fs::write(target.join(library), "a library").unwrap();
    }
    for program in ["tieline-ofi-measure", "tieline-fabric-measure", "tieline-messages-measure"] {
        fs::write(target.join(program), "a program").unwrap();
    }
    // That is none to link with: what a compiler makes is pretended too.
    let made = |name: &str| target.join(name).display().to_string();
    pretence.program(
        "cc",
        &format!(
            "case \"$*\" in *sisci/measure.c*) echo program >'{}' ;; *sockets/measure.c*) echo program >'{}' ;; \
             *libtieline-sockets.so*) echo library >'{}' ;; esac",
            made("tieline-sisci-measure"),
            made("tieline-sockets-measure"),
            made("libtieline-sockets.so")
        ),
    );
    let prefix = pretence.folder.join("usr");
    let foreign = prefix.join("bin/query");
    fs::create_dir_all(prefix.join("bin")).unwrap();
    fs::write(&foreign, "of somebody else").unwrap();

    let arguments = ["--prefix", prefix.to_str().unwrap()];
    for _ in 0..2 {
        let output = pretence.run(&["install", arguments[0], arguments[1]]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("left alone"), "{}", text(&output.stderr));
        // systemd does not look there.
        let unit = format!(
            "systemctl link {}/lib/systemd/system/tieline-node@.service; systemctl enable --now tieline-node@4",
            prefix.display()
        );
        assert!(text(&output.stderr).contains(&unit), "{}", text(&output.stderr));
        assert!(
            text(&output.stderr).contains("tieline up; tieline verify --running"),
            "{}",
            text(&output.stderr)
        );
    }
    let list = fs::read_to_string(prefix.join("share/doc/tieline/installed-files")).unwrap();
    let unique: std::collections::BTreeSet<&str> = list.lines().collect();
    assert!(list.lines().count() > 4 && unique.len() == list.lines().count(), "named twice: {list}");
    for file in list.lines() {
        assert!(Path::new(file).exists(), "{file}");
    }
    for file in [
        "include/sisci_api.h",
        "include/dis/dis_types.h",
        "src/include/sisci_api.h",
        "src/include/dis/sisci_types.h",
        "src/SISCI/api/sisci_api.h",
        "src/SISCI/src/sisci_error.h",
        "lib64/libsisci.so",
        "lib/pkgconfig/sisci.pc",
        "include/tieline_mq.h",
        "lib64/libtieline_mq.so",
        "lib/pkgconfig/tieline-mq.pc",
        "lib64/libtieline-sockets.so",
        "bin/tieline",
        "libexec/tieline/tieline-commands",
    ] {
        assert!(unique.contains(prefix.join(file).to_str().unwrap()), "{file}: {list}");
    }
    let module = fs::read_to_string(prefix.join("lib/pkgconfig/sisci.pc")).unwrap();
    assert!(
        module.starts_with(&format!("prefix={}\n", prefix.display()))
            && module.contains("-Wl,-rpath,${libdir}")
            && !module.contains('@'),
        "{module}"
    );
    assert!(!prefix.join("bin/scipp").exists(), "the pretended binary does not answer to this name");

    let output = pretence.run(&["uninstall", arguments[0], arguments[1]]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for file in list.lines() {
        assert!(!Path::new(file).exists(), "{file}");
    }
    // No folder is left but the one of somebody else's file.
    let left: Vec<_> = fs::read_dir(&prefix).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["bin"]);
    assert_eq!(fs::read_to_string(&foreign).unwrap(), "of somebody else");
}

#[test]
fn a_place_that_cannot_be_written_to_is_named_before_anything_is_copied() {
    let output = Pretence::new("readonly", "99.0.0", "").run(&["install", "--prefix", "/proc/tieline"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(text(&output.stderr).contains("cannot write to /proc"), "{}", text(&output.stderr));
}
