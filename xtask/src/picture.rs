//! Makes the README's picture: the top of a real report in Chromium.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Where it goes.
const PICTURE: &str = "docs/report.png";
/// What a README may make its reader load, in bytes.
const MOST_BYTES: u64 = 300_000;
/// Size of the window: the verdict, what to do, the figures and the first matrices.
const WINDOW: &str = "--window-size=1180,1290";
/// A verification, or a browser, that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(300);

/// A folder that is gone afterwards.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Runs `binary` (or renders what was saved), photographs the page.
pub fn make(out: &mut impl Write, root: &Path, binary: &Path, saved: Option<&Path>) -> Result<bool> {
    let scratch = Scratch(std::env::temp_dir().join(format!("tieline-picture-{}", std::process::id())));
    std::fs::create_dir_all(&scratch.0)?;
    let page = scratch.0.join("report.html");
    let mut verify = Command::new(binary);
    verify.arg("verify").arg("--report").arg(&page).stdout(Stdio::null());
    if let Some(saved) = saved {
        verify.arg("--from").arg(saved);
    }
    // Whatever its verdict is: the page is what counts here.
    ended(verify.spawn().with_context(|| format!("{}: build it first, with --release", binary.display()))?)?;
    if !page.is_file() {
        bail!("{} verify has made no report", binary.display());
    }
    let picture = scratch.0.join("report.png");
    photograph(&page, &picture, &scratch.0)?;
    let bytes = std::fs::metadata(&picture).context("chromium has made no picture")?.len();
    if bytes > MOST_BYTES {
        bail!("the picture has {bytes} bytes, more than {MOST_BYTES}");
    }
    std::fs::copy(&picture, root.join(PICTURE))?;
    writeln!(out, "{PICTURE}: {bytes} bytes")?;
    Ok(true)
}

fn photograph(page: &Path, picture: &Path, scratch: &Path) -> Result<()> {
    let option = |name: &str, path: &Path| {
        let mut option = OsString::from(name);
        option.push(path);
        option
    };
    let child = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
        ])
        .args([WINDOW, "--blink-settings=preferredColorScheme=1"])
        .arg(option("--user-data-dir=", &scratch.join("profile")))
        .arg(option("--screenshot=", picture))
        .arg(option("file://", page))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("chromium does not start (apt-get install chromium)")?;
    ended(child)
}

/// Waits for the end, whatever it is, but not for ever.
fn ended(mut child: Child) -> Result<()> {
    let begin = Instant::now();
    while child.try_wait()?.is_none() {
        if begin.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            bail!("a program has not ended after {} s", LIMIT.as_secs());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
