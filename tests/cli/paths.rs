//! Paths that lead to what is no file: each command that reads one names it and ends, soon and with little
//! memory.

use std::path::Path;
use std::thread;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tieline_tests::{Cluster, Watchdog};

/// Command lines in which `@` is a file that the command reads, and `+` a sound fabric.
const READERS: &[&str] = &[
    "fabric observe --from @",
    "fabric observe --from + --plan @",
    "fabric observe --from + --since @",
    "fabric check @",
    "fabric check + --lfts @",
    "fabric check +.tables/opensm-subnet.lst --lfts +.tables/opensm.fdbs --sl @",
    "fabric check +.tables/opensm-subnet.lst --lfts +.tables/opensm.fdbs --sl2vl @",
    "fabric compare @ +",
    "fabric compare + @",
    "fabric diff @ +",
    "fabric diff --net + @ @",
    "fabric drain @ x",
    "fabric route @",
    "fabric quality @",
    "fabric convert @ +.out.toml",
    "fabric convert --as-form ibsim @ +.out.toml",
    "fabric draw @ +.out.svg",
    "fabric serve @ --name paths",
    "bench compare @ @",
    "bench scipp --thresholds @",
    "bench acceptance --only up --thresholds @",
    "bench compare-builds @ @ --only up",
    "verify --from @ --report +.page.html",
    "verify --baseline @",
    "verify --plan @",
    "verify --thresholds @",
    "cable --plan @",
    "sockets stat --from @",
    "status --config @",
    "up --config @",
    "node run --id 4 --config @",
];

#[test]
fn what_is_no_file_is_named_and_nobody_hangs() {
    let _watchdog = Watchdog::usual("paths");
    let cluster = Cluster::empty().unwrap();
    let folder = cluster.runtime_dir().join("files");
    std::fs::create_dir(&folder).unwrap();
    let sound = folder.join("fabric.toml");
    let sound = sound.to_str().unwrap();
    let (status, _, err) = cluster.run(&["fabric", "generate", sound, "fattree", "4", "2"]).unwrap();
    assert_eq!(status, 0, "{err}");
    let (status, _, err) =
        cluster.run(&["fabric", "route", sound, "--dump", &format!("{sound}.tables")]).unwrap();
    assert_eq!(status, 0, "{err}");
    let pipe = folder.join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let directory = folder.join("directory");
    std::fs::create_dir(&directory).unwrap();
    let cluster = &cluster;
    for bad in [Path::new("/dev/zero"), &pipe, &directory, &folder.join("nothing.there")] {
        // At once: a pipe is given up after a while only.
        thread::scope(|scope| {
            for reader in READERS {
                // A directory of configuration files may be empty.
                if bad == directory && reader.contains("--config") {
                    continue;
                }
                let words: Vec<String> = reader
                    .split(' ')
                    .map(|word| word.replace('@', bad.to_str().unwrap()).replace('+', sound))
                    .collect();
                scope.spawn(move || {
                    let words: Vec<&str> = words.iter().map(String::as_str).collect();
                    let (status, out, err) = cluster.run(&words).unwrap();
                    let name = bad.file_name().unwrap().to_str().unwrap();
                    // The command line is wrong: another file is to be named.
                    assert_eq!(status, 2, "{words:?}: {out}{err}");
                    assert!(err.contains(name) && !err.contains("panicked"), "{words:?}: {err}");
                });
            }
        });
    }
}

#[test]
fn a_pipe_of_a_shell_is_as_good_as_a_file() {
    let _watchdog = Watchdog::usual("pipes as files");
    let cluster = Cluster::empty().unwrap();
    let file = cluster.runtime_dir().join("fabric.toml");
    let file = file.to_str().unwrap();
    let (status, _, err) = cluster.run(&["fabric", "generate", file, "fattree", "4", "2"]).unwrap();
    assert_eq!(status, 0, "{err}");
    let mut shell = std::process::Command::new("sh");
    cluster.set_environment(&mut shell);
    let binary = tieline_tests::cluster::tieline_binary().unwrap();
    // The writer is silent for a while.
    let script = r#"(sleep 0.2; cat "$1") | "$2" fabric quality /dev/stdin"#;
    let output = shell.args(["-c", script, "sh", file]).arg(binary).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
