//! A directory, commands in it, and a server of a fabric that ends with its test.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use tempfile::TempDir;
use tieline_tests::cluster::tieline_binary;

/// What came of a command: status, standard output, standard error.
pub(crate) type Done = (i32, String, String);

/// A place for files.
pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        tieline_tests::dispositions::pass_on_the_usual();
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// `tieline fabric WORDS…` in this directory.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(tieline_binary().unwrap());
        command.arg("fabric").args(words).current_dir(self.dir.path()).stdin(Stdio::null());
        for name in ["TIELINE_CLUSTER", "TIELINE_NODE", "TIELINE_CONFIG", "TIELINE_RUNTIME_DIR"] {
            command.env_remove(name);
        }
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Done {
        let output = self.command(words).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
    }

    /// A command that must end with 0: what it printed.
    pub(crate) fn done(&self, words: &[&str]) -> String {
        let (status, out, err) = self.run(words);
        assert_eq!(status, 0, "{words:?}: {out}{err}");
        out
    }

    /// Status and JSON of a command.
    pub(crate) fn json(&self, words: &[&str]) -> (i32, Value) {
        let (status, out, err) = self.run(&[words, &["--json"]].concat());
        (status, serde_json::from_str(&out).unwrap_or_else(|error| panic!("{words:?}: {error}: {out}{err}")))
    }
}

/// Kinds of what was found, each as often as it was.
pub(crate) fn kinds(report: &Value) -> Vec<&str> {
    report["findings"].as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap()).collect()
}

/// The words of the first finding of a kind.
pub(crate) fn text<'a>(report: &'a Value, kind: &str) -> &'a str {
    let found = report["findings"].as_array().unwrap().iter().find(|one| one["kind"] == kind);
    found.unwrap_or_else(|| panic!("no {kind}: {report:#}"))["text"].as_str().unwrap()
}

/// A fabric that is served.
pub(crate) struct Served {
    process: Child,
    pub(crate) name: String,
    control: BufReader<UnixStream>,
}

impl Served {
    pub(crate) fn start(place: &Place, file: &str, more: &[&str]) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("tf{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let socket = place.path(&format!("{name}.ctl"));
        let words = ["serve", file, "--name", &name, "--control", socket.to_str().unwrap()];
        let mut process = place.command(&[&words[..], more].concat()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        assert!(first.starts_with("serving"), "{first}");
        // What it says later is taken away, so that it never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        let control = BufReader::new(UnixStream::connect(socket).unwrap());
        Self { process, name, control }
    }

    /// A command, and its answer.
    pub(crate) fn tell(&mut self, line: &str) -> String {
        self.control.get_mut().write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        self.control.read_line(&mut answer).unwrap();
        assert!(answer.starts_with("ok"), "{line}: {answer}");
        answer
    }

    pub(crate) fn observe<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        [&["observe", "--ibsim", &self.name, "--timeout", "100", "--retries", "1"], more].concat()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn wait(mut self) -> i32 {
        self.process.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
