//! Makes packages of the folders that are laid out: their control files, and the packages themselves.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::super::{Outcome, Stop, cannot};
use super::{Edition, NAMES};

/// Who makes the packages, as in the field Maintainer.
const MAINTAINER: &str = "Maintainer: ";

/// Builds all packages into `out`.
pub fn build(edition: &Edition, work: &Path, out: &Path, fast: bool) -> Outcome<Vec<PathBuf>> {
    // dpkg's programs read this from the folder that they run in.
    let debian = work.join("debian");
    fs::create_dir_all(&debian)?;
    fs::copy("packaging/debian/control", debian.join("control"))?;
    fs::write(debian.join("changelog"), changelog(edition)?)?;
    let mut all = Vec::new();
    for package in NAMES {
        let folder = work.join(package);
        sums(&folder)?;
        fs::write(debian.join("substvars"), libraries_needed(work, package)?)?;
        let package_option = format!("-p{package}");
        let folder_option = format!("-P{package}");
        said_by(
            Command::new("dpkg-gencontrol")
                .args([&package_option, &folder_option])
                .args(["-Tdebian/substvars", "-fdebian/files"])
                .current_dir(work),
        )?;
        fs::set_permissions(folder.join("DEBIAN/control"), PermissionsExt::from_mode(0o644))?;
        let mut pack = Command::new("dpkg-deb");
        // More threads cut the archive otherwise.
        pack.args(["--root-owner-group", "--threads-max=1"]).args(if fast {
            ["-Zgzip", "-z1"]
        } else {
            ["-Zxz", "-z6"]
        });
        pack.arg("--build").arg(&folder).arg(out).env("SOURCE_DATE_EPOCH", edition.epoch_s.to_string());
        said_by(&mut pack)?;
        all.push(out.join(format!("{package}_{}_amd64.deb", edition.version)));
    }
    Ok(all)
}

/// The one entry of the packages' own changelog, whose date is that of the commit.
pub fn changelog(edition: &Edition) -> Outcome<String> {
    let control = fs::read_to_string("packaging/debian/control")?;
    let Some(maintainer) = control.lines().find_map(|line| line.strip_prefix(MAINTAINER)) else {
        return cannot("packaging/debian/control has no field Maintainer: add it");
    };
    let mut date = Command::new("date");
    let at = format!("@{}", edition.epoch_s);
    let date = said_by(date.args(["-u", "-R", "-d", &at]).env("LC_ALL", "C"))?;
    Ok(format!(
        "tieline ({}) bookworm; urgency=medium\n\n  * Made of {}.\n    What is new is in CHANGELOG.md, in the documents of the \
         package tieline.\n\n -- {maintainer}  {}\n",
        edition.version,
        edition.origin,
        date.trim()
    ))
}

/// The file md5sums of a package.
fn sums(folder: &Path) -> Outcome {
    let script =
        "find . -type f ! -path './DEBIAN/*' -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 -r md5sum";
    let sums = said_by(Command::new("sh").args(["-c", script]).current_dir(folder))?;
    let path = folder.join("DEBIAN/md5sums");
    fs::create_dir_all(folder.join("DEBIAN"))?;
    fs::set_permissions(folder.join("DEBIAN"), PermissionsExt::from_mode(0o755))?;
    fs::write(&path, sums)?;
    Ok(fs::set_permissions(&path, PermissionsExt::from_mode(0o644))?)
}

/// The packages whose libraries the programs of a package need, as a variable for the field Depends.
fn libraries_needed(work: &Path, package: &str) -> Outcome<String> {
    let is_elf = |path: &Path| fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"));
    let binaries: Vec<PathBuf> =
        below(&work.join(package))?.into_iter().filter(|path| is_elf(path)).collect();
    if binaries.is_empty() {
        return Ok("shlibs:Depends=\n".to_owned());
    }
    let mut command = Command::new("dpkg-shlibdeps");
    // Our own libraries are named in the control file.
    command.args(["-O", "--ignore-missing-info", "-xlibtieline1", "--warnings=0"]);
    command.arg(format!("-l{}", work.join("libtieline1/usr/lib/x86_64-linux-gnu").display()));
    command.args(binaries.iter().map(|path| format!("-e{}", path.display()))).current_dir(work);
    said_by(&mut command)
}

/// The files below a folder that are no links, in the order of their names.
pub fn below(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
        if kind.is_dir() {
            found.extend(below(&path)?);
        } else if kind.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// What a program prints; if it fails, why.
pub fn said_by(command: &mut Command) -> Outcome<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Stop::Cannot(format!("{name} cannot be started: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    cannot(format!("{name} failed ({}): {}", output.status, said.trim()))
}
