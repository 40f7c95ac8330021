//! What commands do when this process or the disk has too little: they say what is lacking and end with 4,
//! and never blame a node that is in order.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use tieline_tests::{Cluster, Watchdog, executable};

/// Runs the binary under a limit of the shell's.
fn under(cluster: &Cluster, ulimit: &str, arguments: &[&str]) -> Output {
    let binary = tieline_tests::cluster::tieline_binary().unwrap();
    let mut command = Command::new("bash");
    command.args(["-c", &format!("ulimit {ulimit} && exec \"$@\""), "bash"]).arg(binary).args(arguments);
    cluster.set_environment(&mut command);
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn too_few_descriptors_are_no_fault_of_the_nodes() {
    let _watchdog = Watchdog::usual("few descriptors");
    let cluster = Cluster::up(3).unwrap();
    for descriptors in ["-n 4", "-n 6", "-n 8", "-n 12", "-n 20", "-n 32", "-n 48", "-n 64", "-n 128"] {
        for arguments in
            [&["status"][..], &["diag"], &["verify", "--running"], &["query", "--node", "4"], &["clusters"]]
        {
            let output = under(&cluster, descriptors, arguments);
            let said = text(&output);
            let status = output.status.code();
            assert!(matches!(status, Some(0 | 3 | 4)), "{descriptors} {arguments:?}: {status:?} {said}");
            if status == Some(4) {
                let why = String::from_utf8_lossy(&output.stderr);
                assert!(["ulimit -n", "Too many open files"].iter().any(|word| why.contains(word)), "{why}");
            }
        }
    }
    // Asking takes few; testing takes more, one node after the other.
    assert_eq!(under(&cluster, "-n 20", &["status"]).status.code(), Some(0));
    let output = under(&cluster, "-n 64", &["diag"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

#[test]
fn a_manager_that_cannot_start_leaves_nothing() {
    let cluster = Cluster::empty().unwrap();
    for limit in ["-f 1", "-n 16"] {
        let output = under(&cluster, limit, &["node", "run", "--id", "4"]);
        assert_eq!(output.status.code(), Some(4), "{limit}: {}", text(&output));
        let left: Vec<_> =
            std::fs::read_dir(cluster.runtime_dir()).unwrap().map(|it| it.unwrap().path()).collect();
        assert_eq!(left, Vec::<std::path::PathBuf>::new(), "{limit}: {}", text(&output));
    }
}

#[test]
fn too_little_memory_is_no_fault_of_the_nodes() {
    let _watchdog = Watchdog::usual("little memory");
    let cluster = Cluster::up(3).unwrap();
    // What the program itself takes to start differs by build; with less, the loader ends it.
    let own = (5_000..100_000)
        .step_by(1_000)
        .find(|memory| under(&cluster, &format!("-v {memory}"), &["clusters"]).status.code() == Some(0));
    let own = own.expect("the program starts in 100 MB");
    for arguments in [&["diag"][..], &["verify", "--running"]] {
        let output = under(&cluster, &format!("-v {}", own + 1_000), arguments);
        let said = text(&output);
        assert!(output.status.code() == Some(4) && said.contains("ulimit -v"), "{own} {arguments:?}: {said}");
    }
    // A thread more, and what it asks for.
    for memory in [own + 12_000, own + 30_000, own + 80_000] {
        for arguments in [&["status"][..], &["query", "--node", "4"], &["clusters"]] {
            let output = under(&cluster, &format!("-v {memory}"), arguments);
            assert_eq!(output.status.code(), Some(0), "{memory} {arguments:?}: {}", text(&output));
        }
    }
    let output = under(&cluster, &format!("-v {}", own + 400_000), &["diag"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

#[test]
fn a_file_that_cannot_be_written_is_4_with_its_name_before_the_measurement() {
    let _watchdog = Watchdog::usual("full file");
    let cluster = Cluster::up(2).unwrap();
    for file in ["/dev/full", "/nonexistent/scipp.json", "/etc"] {
        let (status, out, err) =
            cluster.run(&["bench", "scipp", "--size", "4", "--json-file", file]).unwrap();
        assert!(status == 4 && err.contains(file) && err.lines().count() == 1, "{status} {err}");
        assert_eq!(out, "");
    }
}

#[test]
fn a_file_that_may_not_grow_leaves_the_earlier_one() {
    let _watchdog = Watchdog::usual("files that may not grow");
    let cluster = Cluster::up(2).unwrap();
    let file = |name: &str| cluster.runtime_dir().join(name).to_str().unwrap().to_owned();
    let page = "<!DOCTYPE html><title>tieline verify</title>";
    let saved = "{\"schema\": \"tieline.verify/1\", \"verdict\": \"PASS\", \"steps\": []}";
    let early = "{\"earlier\": 1}";
    for (name, content) in [("page.html", page), ("saved.json", saved), ("early.json", early)] {
        std::fs::write(file(name), content).unwrap();
    }
    std::fs::write(file("lab.tar.gz"), [0x1f, 0x8b, 8]).unwrap();
    for (arguments, name) in [
        (&["verify", "--running", "--report", &file("page.html")][..], "page.html"),
        (&["verify", "--running", "--bundle", &file("lab.tar.gz")], "lab.tar.gz"),
        (&["verify", "--from", &file("saved.json"), "--report", &file("page.html")], "page.html"),
    ] {
        let before = std::fs::read(file(name)).unwrap();
        let output = under(&cluster, "-f 64", arguments);
        let said = text(&output);
        assert_eq!(output.status.code(), Some(4), "{arguments:?}: {said}");
        assert!(said.contains(name) && said.contains("File too large"), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "before the run: {said}");
        assert_eq!(std::fs::read(file(name)).unwrap(), before, "{name}");
    }
    let jitter =
        ["bench", "jitter", "--seconds", "6", "--idle-seconds", "0", "--memory", "8M", "--json-file"];
    // How much there is to say depends on how quiet the machine is: 5 KiB a second at least. The command
    // itself needs a region of 20 KiB.
    let output = under(&cluster, "-f 20", &[&jitter[..], &[&file("early.json")]].concat());
    let said = text(&output);
    assert!(output.status.code() == Some(4) && said.contains("early.json: File too large"), "{said}");
    assert!(!output.stdout.is_empty(), "the result is printed: {said}");
    assert_eq!(std::fs::read_to_string(file("early.json")).unwrap(), early);
    let left: Vec<_> =
        std::fs::read_dir(cluster.runtime_dir()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains(".part")), "{left:?}");
}

/// The kernel counts processes of a user, and root's not at all; so another user is needed, whom only root
/// can become.
#[test]
fn too_few_processes_are_no_fault_of_the_nodes() {
    let _watchdog = Watchdog::usual("few processes");
    if !rustix::process::geteuid().is_root() {
        println!("skipped: the limit on processes can be tried by root only");
        return;
    }
    const USER: u32 = 64_123;
    let home = tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o700)).tempdir().unwrap();
    let [binary, commands] = ["tieline", "tieline-commands"].map(|name| home.path().join(name));
    executable::copy(&tieline_tests::cluster::tieline_binary().unwrap(), &binary).unwrap();
    executable::copy(&tieline_tests::cluster::commands_binary().unwrap(), &commands).unwrap();
    for path in [home.path(), &binary, &commands] {
        std::os::unix::fs::chown(path, Some(USER), Some(USER)).unwrap();
    }
    let run = |processes: u32, arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid",
            &USER.to_string(),
            "--regid",
            &USER.to_string(),
            "--clear-groups",
            "prlimit",
        ]);
        command.arg(format!("--nproc={processes}")).arg(&binary).args(arguments).current_dir(home.path());
        command.env("HOME", home.path()).env("TIELINE_RUNTIME_DIR", home.path().join("run"));
        for variable in ["TIELINE_CLUSTER", "TIELINE_NODE", "TIELINE_CONFIG"] {
            command.env_remove(variable);
        }
        command.output().unwrap()
    };
    for processes in 1..4 {
        for arguments in
            [&["up", "--nodes", "3"][..], &["verify", "--nodes", "2"], &["bench", "scipp", "--size", "4"]]
        {
            let output = run(processes, arguments);
            let said = text(&output);
            let status = output.status.code();
            assert!(matches!(status, Some(0 | 4)), "{processes} {arguments:?}: {status:?} {said}");
            assert!(status == Some(0) || said.contains("ulimit -u"), "{processes} {arguments:?}: {said}");
            assert_eq!(run(100, &["down"]).status.code(), Some(0));
        }
    }
    assert_eq!(run(100, &["up", "--nodes", "3"]).status.code(), Some(0));
    for processes in 1..12 {
        let output = run(processes, &["status"]);
        assert_eq!(output.status.code(), Some(0), "{processes}: {}", text(&output));
        let output = run(processes, &["diag"]);
        assert!(matches!(output.status.code(), Some(0 | 4)), "{processes}: {}", text(&output));
    }
    assert_eq!(run(100, &["down"]).status.code(), Some(0));
}

/// Each limit that a shell can set, far below what is usual: things work, or an error names the limit;
/// nothing hangs and no signal ends anything. The table in docs/limits.md goes by this.
#[test]
fn each_limit_is_harmless_or_named() {
    let _watchdog = Watchdog::usual("each limit");
    let home = tempfile::tempdir().unwrap();
    let binary = tieline_tests::cluster::tieline_binary().unwrap();
    let run = |ulimit: &str, arguments: &str| {
        let mut command = Command::new("bash");
        command.args(["-c", &format!("ulimit {ulimit} && exec \"$@\""), "bash"]).arg(&binary);
        command.args(arguments.split(' ')).env("TIELINE_RUNTIME_DIR", home.path().join("run"));
        for variable in ["TIELINE_CLUSTER", "TIELINE_NODE", "TIELINE_CONFIG"] {
            command.env_remove(variable);
        }
        command.output().unwrap()
    };
    for (ulimit, named) in [
        ("-f 0", "ulimit -f"),
        ("-f 100", "ulimit -f"),
        ("-n 16", "ulimit -n"),
        ("-n 48", "ulimit -n"),
        ("-l 0", "ulimit -l"),
        ("-i 0", ""),
        ("-q 0", ""),
        ("-c 0", ""),
        ("-x 0", ""),
        ("-r 0", ""),
        ("-e 0", ""),
        ("-m 1000", ""),
        ("-s 512", ""),
        ("-t 60", ""),
    ] {
        for arguments in ["up --nodes 1", "bench scipp --size 4", "down"] {
            let output = run(ulimit, arguments);
            let said = text(&output);
            match output.status.code() {
                Some(0) => {}
                Some(4) if !named.is_empty() && said.contains(named) => {}
                other => panic!("{ulimit} {arguments}: {other:?} {said}"),
            }
        }
        assert_eq!(run("-c 0", "down").status.code(), Some(0));
    }
}
