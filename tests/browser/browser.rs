//! A browser that is started for one page, watched, and gone afterwards.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::picture::Picture;

/// Longer than this a page of one file takes on no machine.
const LIMIT: Duration = Duration::from_secs(90);

const FLAGS: [&str; 12] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--disable-dev-shm-usage",
    "--enable-logging=stderr",
    // Nothing leaves the machine, whatever a page or the browser asks for.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
];

/// What a visit left behind.
pub(crate) struct Visit {
    pub out: String,
    pub err: String,
    net_log: String,
}

/// Where Chromium is; `None`, and said so, where it is not installed.
pub(crate) fn find(test: &str) -> Option<Browser> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).map(|dir| dir.join("chromium")).find(|file| file.is_file());
    if found.is_none() {
        println!("SKIP {test}: chromium is not installed (apt-get install chromium)");
    }
    found.map(|program| Browser {
        program,
        dir: tempfile::Builder::new().prefix("tieline-browser-").tempdir().unwrap(),
    })
}

/// Chromium, with a folder for what it makes.
pub(crate) struct Browser {
    program: PathBuf,
    dir: tempfile::TempDir,
}

/// How a page is examined.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    pub width: u32,
    pub height: u32,
    pub dark: bool,
}

impl Browser {
    /// A page of this content in a file of its own.
    pub(crate) fn page(&self, name: &str, html: &str) -> PathBuf {
        let path = self.file(name);
        std::fs::write(&path, html).unwrap();
        path
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Opens a page with these further arguments, and waits for the end. A browser that has stopped moving,
    /// which happens on a machine with much other work, is started once more.
    fn visit(&self, page: &Path, more: &[OsString]) -> Visit {
        let visited = self.try_to_visit(page, more).or_else(|said| {
            println!("started once more: {said}");
            self.try_to_visit(page, more)
        });
        visited.unwrap_or_else(|said| panic!("twice: {said}"))
    }

    /// What it says if it does not end.
    fn try_to_visit(&self, page: &Path, more: &[OsString]) -> Result<Visit, String> {
        let profile = tempfile::tempdir_in(self.dir.path()).unwrap();
        let [out, err, net_log] = ["out", "err", "net.json"].map(|name| profile.path().join(name));
        let mut child = Command::new(&self.program)
            .args(FLAGS)
            .arg(option("--user-data-dir=", &profile.path().join("user")))
            .arg(option("--log-net-log=", &net_log))
            .args(more)
            .arg(option("file://", page))
            // Its helpers end with it, and may be ended with it.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(&err).unwrap())
            .spawn()
            .unwrap();
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if begin.elapsed() > LIMIT {
                let group = Pid::from_child(&child);
                let _ = kill_process_group(group, Signal::KILL);
                let _ = child.wait();
                return Err(format!("chromium has not ended after {} s: {}", LIMIT.as_secs(), read(&err)));
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let visit = Visit { out: read(&out), err: read(&err), net_log: read(&net_log) };
        assert!(status.success(), "{status}: {}", visit.err);
        Ok(visit)
    }

    /// A picture of the page.
    pub(crate) fn screenshot(&self, page: &Path, look: Look) -> (Picture, Visit) {
        let picture = self.file("picture.png");
        let visit = self.visit(page, &[window(look), scheme(look), option("--screenshot=", &picture)]);
        (Picture::read(&picture), visit)
    }

    /// What is printed, as PDF.
    pub(crate) fn print(&self, page: &Path) -> Vec<u8> {
        let paper = self.file("paper.pdf");
        self.visit(page, &["--no-pdf-header-footer".into(), option("--print-to-pdf=", &paper)]);
        std::fs::read(paper).unwrap()
    }

    /// The page's elements after it has been loaded in a window of this size.
    pub(crate) fn elements(&self, page: &Path, look: Look) -> String {
        self.visit(page, &[window(look), "--dump-dom".into()]).out
    }
}

/// An option and its file.
fn option(name: &str, path: &Path) -> OsString {
    let mut option = OsString::from(name);
    option.push(path);
    option
}

fn window(look: Look) -> OsString {
    format!("--window-size={},{}", look.width, look.height).into()
}

fn scheme(look: Look) -> OsString {
    format!("--blink-settings=preferredColorScheme={}", if look.dark { 0 } else { 1 }).into()
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}

impl Visit {
    /// What the page wrote to the console: errors, warnings, refusals.
    pub(crate) fn console(&self) -> Vec<String> {
        self.err.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect()
    }

    /// Addresses that the page asked for. The browser itself calls its maker now and then; those requests
    /// come from no page and, as no name is resolved, from nowhere.
    pub(crate) fn requests(&self) -> Vec<String> {
        let log: serde_json::Value =
            serde_json::from_str(&self.net_log).unwrap_or_else(|error| panic!("net log: {error}"));
        let events = log["events"].as_array().unwrap();
        let mut found: Vec<String> = events
            .iter()
            .map(|event| &event["params"])
            .filter(|request| request["initiator"].as_str().is_some_and(|origin| origin != "not an origin"))
            .filter_map(|request| request["url"].as_str())
            .filter(|address| !address.starts_with("file:"))
            .map(str::to_owned)
            .collect();
        found.sort();
        found.dedup();
        found
    }
}
