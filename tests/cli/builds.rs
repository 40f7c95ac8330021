//! Two builds compared: programs that are in for them, and the binary beside itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tieline_tests::cluster::tieline_binary;
use tieline_tests::{Cluster, Watchdog, executable};

use crate::bench_compare::{figures, json_of};

/// A program that others may execute.
pub(super) fn script(path: &Path, text: &str) {
    executable::write(path, text, 0o755).unwrap();
}

/// A program that is in for a build: it knows these figures, each of which costs so many times its baseline.
pub(super) fn stand_in(folder: &Path, ratios: &[(&str, f64)]) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    let ids: Vec<String> = ratios.iter().map(|(id, _)| format!("\"{id}\"")).collect();
    for one in ratios {
        fs::write(folder.join(one.0), figures(&[*one]).to_string()).unwrap();
    }
    let program = folder.join("tieline");
    // Its words are `bench acceptance --json --quiet`, then `--list` or `--only ID`.
    let text = format!(
        "#!/bin/sh\n\
         case \"$*\" in\n\
         'bench acceptance --json --quiet --list') echo '[{}]' ;;\n\
         'bench acceptance --json --quiet --only '*) echo \"${{TIELINE_SOCKETS_LIBRARY-unset}}\" >'{dir}/library'; cat \"{dir}/$6\" ;;\n\
         *) echo \"what is $*\" >&2; exit 2 ;;\n\
         esac\n",
        ids.join(", "),
        dir = folder.display()
    );
    script(&program, &text);
    program
}

/// Two stand-ins, and `bench compare-builds` of them.
struct Pair {
    cluster: Cluster,
    programs: [String; 2],
}

impl Pair {
    fn new(before: &[(&str, f64)], now: &[(&str, f64)]) -> Self {
        let cluster = Cluster::empty().unwrap();
        let of = |name: &str, ratios: &[(&str, f64)]| {
            stand_in(&cluster.runtime_dir().join(name), ratios).to_str().unwrap().to_owned()
        };
        let programs = [of("old", before), of("new", now)];
        Self { cluster, programs }
    }

    fn compare(&self, more: &[&str]) -> (i32, String, String) {
        let [old, new] = &self.programs;
        let names = ["--old-name", "v1", "--new-name", "v2"];
        self.cluster.run(&[&["bench", "compare-builds", old, new], &names[..], more].concat()).unwrap()
    }
}

#[test]
fn a_figure_that_became_worse_is_found() {
    let _watchdog = Watchdog::usual("two builds");
    let pair = Pair::new(
        &[("put.1MiB.hot", 1.0), ("put.4MiB.hot", 1.0), ("put.16MiB.hot", 1.0), ("put.old", 1.0)],
        &[("put.1MiB.hot", 1.1), ("put.4MiB.hot", 0.5), ("put.16MiB.hot", 1.0)],
    );
    let (status, out, err) = pair.compare(&["--only", "put", "--json"]);
    let all = json_of(&out);
    assert_eq!((status, &all["schema"]), (1, &"tieline.compare_builds/1".into()), "{err}");
    let outcomes: Vec<_> = (0..3).map(|at| all["figures"][at]["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["worse", "better", "no_worse"], "{out}");
    // Once more, as the rule has it; the rest once.
    let series: Vec<_> = (0..3).map(|at| all["figures"][at]["series"].as_array().unwrap().len()).collect();
    assert_eq!(series, [2, 1, 1]);
    let first = &all["figures"][0]["series"][0];
    assert!((first["ratio"].as_f64().unwrap() - 1.0 / 1.1).abs() < 1e-9, "{first}");
    assert_eq!((first["rounds"].as_array().unwrap().len(), &first["before"]), (6, &40.0.into()));
    assert_eq!([&all["not_before"][0], &all["not_now"][0]], ["put.1MiB.cold", "put.old"]);
    let (status, out, _) = pair.compare(&["--only", "put.4MiB.hot", "put.16MiB.hot"]);
    assert!(status == 0 && out.contains("v2 against v1") && out.contains("better"), "{out}");
    let (status, out, _) = pair.compare(&["--only", "put.4MiB.hot", "put.64MiB.hot"]);
    assert!(status == 0 && out.contains("put.64MiB.hot: not in v1\n"), "{out}");
    let (status, out, _) = pair.compare(&["--only", "put.64MiB.hot"]);
    assert!(status == 3 && out.contains("put.64MiB.hot: not in v1\n"), "nothing to compare: {out}");
}

#[test]
fn each_build_uses_the_library_that_lies_beside_it() {
    let _watchdog = Watchdog::usual("the library of a build");
    let pair = Pair::new(&[("put.1MiB.hot", 1.0)], &[("put.1MiB.hot", 1.0)]);
    let [old, new] = &pair.programs;
    let mut command =
        pair.cluster.command(&["bench", "compare-builds", old, new, "--only", "put.1MiB.hot"]).unwrap();
    let output = command.env("TIELINE_SOCKETS_LIBRARY", "/somewhere").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for side in ["old", "new"] {
        let told = fs::read_to_string(pair.cluster.runtime_dir().join(side).join("library")).unwrap();
        assert_eq!(told, "unset\n", "{side}");
    }
}

#[test]
fn what_cannot_be_compared_is_named() {
    let _watchdog = Watchdog::usual("builds that are none");
    let pair = Pair::new(&[("put.1MiB.hot", 1.0)], &[("put.1MiB.hot", 1.0)]);
    let [old, new] = &pair.programs;
    let run = |words: &[&str]| {
        let (status, _, err) = pair.cluster.run(&[&["bench", "compare-builds"], words].concat()).unwrap();
        (status, err)
    };
    let broken = pair.cluster.runtime_dir().join("broken");
    let broken = broken.to_str().unwrap();
    script(Path::new(broken), "#!/bin/sh\necho first >&2\necho 'no such word' >&2\nexit 2\n");
    let no_json = pair.cluster.runtime_dir().join("no_json");
    let no_json = no_json.to_str().unwrap();
    script(
        Path::new(no_json),
        "#!/bin/sh\ncase \"$*\" in *list) echo '[\"put.1MiB.hot\"]' ;; *) echo hello ;; esac\n",
    );
    for (words, status, says) in [
        (&[old, new, "--only", "put.1MB.hot"][..], 2, "`put.1MiB.hot`"),
        (&[old, new, "--only", "nothing.like.it"], 2, "--list"),
        (&["/nonexistent/tieline", new], 2, "/nonexistent/tieline"),
        (&[old], 2, "NEW"),
        (&[old, new, "--rounds", "5"], 2, "--rounds"),
        (&[old, new, "--cpus", "1"], 2, "1"),
        (&[old, new, "--node", "4"], 2, "--node"),
        (
            &["/bin/true", new],
            2,
            "/bin/true is not a `tieline` program: `bench acceptance --list` printed nothing",
        ),
        (&[broken, new, "--only", "put.1MiB.hot"], 4, "no such word"),
        (&[no_json, no_json, "--only", "put.1MiB.hot"], 4, "not JSON"),
    ] {
        let (got, err) = run(words);
        assert!(got == status && err.contains(says), "{words:?}: {got} {err}");
    }
    // Only now it fails: that is worse, and the reason is printed.
    let (status, out, _) =
        pair.cluster.run(&["bench", "compare-builds", old, no_json, "--only", "put.1MiB.hot"]).unwrap();
    assert!(status == 1 && out.contains("not JSON") && out.contains("WORSE"), "{out}");
}

#[test]
fn a_signal_ends_it_with_what_there_is() {
    let _watchdog = Watchdog::usual("builds, interrupted");
    let pair = Pair::new(&[("put.1MiB.hot", 1.0)], &[("put.1MiB.hot", 1.0)]);
    let [old, new] = &pair.programs;
    // The fourth run of the build of now lasts.
    let folder = pair.cluster.runtime_dir().join("new");
    let counting = pair.cluster.runtime_dir().join("counting");
    let lasts = pair.cluster.runtime_dir().join("lasts");
    script(
        &counting,
        &format!(
            "#!/bin/sh\necho >>'{dir}/count'\nif [ $(wc -l <'{dir}/count') -eq 4 ]; then echo $$ >'{lasts}'; exec sleep 600; fi\n\
             exec '{new}' \"$@\"\n",
            dir = folder.display(),
            lasts = lasts.display(),
        ),
    );
    let mut command = pair
        .cluster
        .command(&[
            "bench",
            "compare-builds",
            old,
            counting.to_str().unwrap(),
            "--only",
            "put.1MiB.hot",
            "--json",
        ])
        .unwrap();
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = || fs::read_to_string(&lasts).ok()?.trim().parse::<i32>().ok();
    while pid().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let all = json_of(&out);
    assert_eq!((output.status.code(), &all["partial"]), (Some(130), &true.into()), "{out}{err}");
    assert_eq!(all["figures"][0]["series"][0]["rounds"].as_array().unwrap().len(), 3, "{out}");
    assert!(err.contains("the result is partial"), "{err}");
    assert!(!Path::new(&format!("/proc/{}", pid().unwrap())).exists(), "the run of the build goes on");
}

#[test]
fn the_binary_is_no_worse_than_itself() {
    let _watchdog = Watchdog::new("a build beside itself", Duration::from_secs(600));
    let cluster = Cluster::empty().unwrap();
    let program = tieline_binary().unwrap();
    let program = program.to_str().unwrap();
    let call = ["bench", "compare-builds", program, program, "--only", "harness.overhead", "--rounds", "6"];
    let (status, out, err) = cluster.run(&[&call[..], &["--json"]].concat()).unwrap();
    // On a busy machine too much may be disturbed to say anything.
    assert!(matches!(status, 0 | 3), "{out}{err}");
    let figure = &json_of(&out)["figures"][0];
    assert_eq!((&figure["id"], &figure["unit"]), (&"harness.overhead".into(), &"ns".into()), "{out}");
    let series = &figure["series"][0];
    let count = |name: &str| series[name].as_array().unwrap().len();
    assert_eq!(count("rounds") + count("disturbed"), 6, "{out}");
    assert!(series["failed"].as_array().unwrap().iter().all(|reason| reason.is_null()), "{out}");
}
