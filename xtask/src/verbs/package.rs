//! `./run package`: packages for Debian 12, made by dpkg's own tools.
//!
//! Two runs on the same commit, in the same folder and with the same compiler write the same bytes: every
//! time in a package is that of the commit, and files have the modes that stand here.

pub mod contents;
pub mod deb;
mod lintian;
mod root;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Outcome, cannot, found, misused, release, say};

/// The packages, as in `packaging/debian/control`.
pub const NAMES: [&str; 5] =
    ["tieline", "libtieline1", "libtieline-dev", "tieline-sockets", "tieline-manager"];

/// What the command line says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// Where the packages are written.
    out: Option<PathBuf>,
    /// The version of the packages, in place of the one that the commit has.
    version: Option<String>,
    /// Also from a tree with changes.
    dirty: bool,
    /// A folder with programs and libraries that are built.
    built: Option<PathBuf>,
    /// Compress fast: for tests, which read the packages once.
    fast: bool,
    /// Not checked by Lintian.
    unchecked: bool,
    /// Afterwards: install, upgrade, use, remove and purge them in a fresh Debian.
    test: bool,
}

const USAGE: &str = "usage: ./run package [--out DIR] [--version VERSION] [--dirty] [--built DIR] [--fast] [--no-lintian] [--test]";

impl Options {
    fn read(words: &[&str]) -> Outcome<Self> {
        let mut all = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || match words.next() {
                Some(value) => Ok((*value).to_owned()),
                None => misused(format!("package: {word} needs a value; {USAGE}")),
            };
            match *word {
                "--out" => all.out = Some(value()?.into()),
                "--built" => all.built = Some(value()?.into()),
                "--version" => all.version = Some(value()?),
                "--dirty" => all.dirty = true,
                "--fast" => all.fast = true,
                "--no-lintian" => all.unchecked = true,
                "--test" => all.test = true,
                _ => return misused(format!("package: unknown argument {word}; {USAGE}")),
            }
        }
        Ok(all)
    }
}

/// What all packages of a run have in common.
#[derive(Debug)]
pub struct Edition {
    /// As in the field Version.
    pub version: String,
    /// Seconds since 1970: every time in a package.
    pub epoch_s: u64,
    /// What it was made of, in words.
    pub origin: String,
}

/// Builds everything and makes the packages.
pub fn run(options: &[&str], target: &Path) -> Outcome {
    let options = Options::read(options)?;
    for (program, package) in [
        ("dpkg-deb", "dpkg"),
        ("dpkg-gencontrol", "dpkg-dev"),
        ("dpkg-shlibdeps", "dpkg-dev"),
        ("strip", "binutils"),
    ] {
        if found(program).is_none() {
            return cannot(format!(
                "{program} is not there, and packages for Debian are made with it: apt-get install {package}"
            ));
        }
    }
    let edition = edition(&options)?;
    let built = match &options.built {
        Some(folder) => folder.clone(),
        None => {
            release::build(target)?;
            target.join("release")
        }
    };
    let out = options.out.clone().unwrap_or_else(|| target.join("packages"));
    let files = make(&edition, &built, &out, options.fast)?;
    for file in &files {
        say(&format!("{}", file.display()));
    }
    if !options.unchecked {
        lintian::check(&files)?;
    }
    if options.test {
        trial::run(&edition, &built, &files, target)?;
    }
    Ok(())
}

/// Makes all packages of what is built in a folder, and returns their files.
fn make(edition: &Edition, built: &Path, out: &Path, fast: bool) -> Outcome<Vec<PathBuf>> {
    let (built, out) = (std::path::absolute(built)?, std::path::absolute(out)?);
    fs::create_dir_all(&out)?;
    let work = out.join(".work");
    let _ = fs::remove_dir_all(&work);
    contents::stage(edition, &built, &work)?;
    let files = deb::build(edition, &work, &out, fast)?;
    fs::remove_dir_all(&work)?;
    Ok(files)
}

/// The version and the time, of the commit that is checked out.
fn edition(options: &Options) -> Outcome<Edition> {
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).env("TZ", "UTC").output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=8", "HEAD"]) else {
        return cannot(
            "git names no commit here, and the version and all times of a package are a commit's: run this in a clone",
        );
    };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).unwrap_or_default();
    if let Some(first) = changed.lines().next()
        && !options.dirty
    {
        return cannot(format!(
            "{} differs from the commit, and a package is made of a commit: commit it, or add --dirty for a package to try",
            first.trim().split(' ').next_back().unwrap_or(first)
        ));
    }
    let of_commit = |format: &str| git(&["log", "-1", "--date=format-local:%Y%m%d.%H%M%S", format]);
    let epoch_s = std::env::var("SOURCE_DATE_EPOCH").ok().or_else(|| of_commit("--format=%ct"));
    let Some(epoch_s) = epoch_s.and_then(|text| text.trim().parse().ok()) else {
        return cannot("SOURCE_DATE_EPOCH is no number of seconds: correct it, or unset it");
    };
    let base = env!("CARGO_PKG_VERSION");
    let tagged = git(&["tag", "--points-at", "HEAD"])
        .is_some_and(|tags| tags.lines().any(|tag| tag == format!("v{base}")));
    let version = match &options.version {
        Some(version) => version.clone(),
        None if tagged && changed.is_empty() => base.to_owned(),
        None => {
            let date = of_commit("--format=%cd").unwrap_or_default();
            let dirty = if changed.is_empty() { "" } else { ".dirty" };
            // Before the release of that number.
            format!("{base}~git{date}.{commit}{dirty}")
        }
    };
    let dirty = if changed.is_empty() { "" } else { ", with changes" };
    Ok(Edition { version, epoch_s, origin: format!("commit {commit}{dirty}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let read = Options::read(&["--out", "/x", "--dirty", "--version", "0.0.9"]).unwrap();
        assert_eq!((read.out, read.version.as_deref(), read.dirty), (Some("/x".into()), Some("0.0.9"), true));
        for (words, says) in [(&["--out"][..], "--out needs a value"), (&["now"], "unknown argument now")] {
            let stop = Options::read(words).unwrap_err();
            assert!(matches!(&stop, super::super::Stop::Misused(text) if text.contains(says)), "{stop:?}");
        }
    }
}
