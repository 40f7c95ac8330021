//! `./run install` and `./run uninstall`.

mod linker;
mod place;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Outcome, found, is_executable, release, say};
use place::{Place, Written};

/// Classic names of the one binary.
pub(super) const CLASSIC: [&str; 11] = [
    "scipp",
    "query",
    "dis_diag",
    "disinfo",
    "dis_config",
    "scibench2",
    "dma_bench",
    "intr_bench",
    "latency_bench",
    "sciconntest",
    "dis_ssocks_run",
];

/// Folders of headers. Build files name the first two; those of programs that were written beside the
/// vendor's sources name the others.
const HEADERS: [&str; 6] =
    ["include", "include/dis", "src/include", "src/include/dis", "src/SISCI/api", "src/SISCI/src"];

/// Builds, copies everything below the prefix, and removes what an earlier version put there and this one
/// does not have.
pub fn install(options: &[&str], target: &Path) -> Outcome {
    let place = Place::read("install", options)?;
    place.need_writable("install")?;
    let release = target.join("release");
    // As root by sudo there may be no cargo; what was built before is as good.
    let built = ["tieline", "tieline-commands"].iter().all(|name| is_executable(&release.join(name)))
        && ["libsisci.so", "libtieline_mq.so", "libtieline-sockets.so", release::PROVIDER[0]]
            .iter()
            .all(|name| release.join(name).is_file());
    if found("cargo").is_some() || !built {
        release::build(target)?;
    }
    let before = place.listed().unwrap_or_default();
    let mut written = Written::begin(&place)?;
    written.put(0o755, &release.join("tieline-commands"), "libexec/tieline")?;
    written.put(0o755, &release.join("tieline"), "bin")?;
    classic_names(&place, &mut written)?;
    c_libraries(&place, &mut written, &release)?;
    written.put(0o755, &release.join("libtieline-sockets.so"), "lib64")?;
    written.put(0o755, &release.join(release::PROVIDER[0]), "lib64/libfabric")?;
    written.put(0o755, &release.join("tieline-sisci-measure"), "libexec/tieline")?;
    written.put(0o755, &release.join("tieline-sockets-measure"), "libexec/tieline")?;
    for program in release::MEASURES {
        written.put(0o755, &release.join(program), "libexec/tieline")?;
    }
    units(&place, &mut written)?;
    // Laid out as in the clone, so that the links between them lead somewhere.
    let mut documents = files(Path::new(""), ".md")?;
    documents.extend(["LICENSE-APACHE", "LICENSE-MIT"].map(PathBuf::from));
    documents.extend(files(Path::new("docs"), ".md")?);
    documents.extend(files(Path::new("docs/adr"), ".md")?);
    for document in documents {
        let folder = Path::new("share/doc/tieline").join(document.parent().unwrap_or(Path::new("")));
        written.put(0o644, &document, &folder.to_string_lossy())?;
    }
    let now = written.end()?;
    let gone: Vec<String> = before.into_iter().filter(|file| !now.contains(file)).collect();
    place.remove_files(&gone)?;
    linker::refresh(&place);
    say(&format!("installed under {}; what, is listed in {}", place.staged.display(), place.list.display()));
    if place.destdir.is_empty() {
        say_next(&place.prefix);
    }
    Ok(())
}

/// Removes what [`install`] put there, and the folders that are empty then.
pub fn uninstall(options: &[&str]) -> Outcome {
    let place = Place::read("uninstall", options)?;
    // Read whole before the list itself is removed.
    let Ok(files) = place.listed() else {
        return super::cannot(format!("nothing to remove: there is no {}", place.list.display()));
    };
    place.need_writable("uninstall")?;
    place.remove_files(&files)?;
    place.remove_empty_folders(&files);
    linker::refresh(&place);
    say(&format!("removed tieline from {}", place.staged.display()));
    Ok(())
}

/// The files of a folder of the clone whose names end so, in the order of their names.
pub(super) fn files(folder: &Path, end: &str) -> Outcome<Vec<PathBuf>> {
    let read = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut found = Vec::new();
    for entry in fs::read_dir(read)? {
        let name = entry?.file_name();
        let path = folder.join(&name);
        if name.to_string_lossy().ends_with(end) && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Links with the classic names to the one binary. Scripts look for them in either folder.
fn classic_names(place: &Place, written: &mut Written<'_>) -> Outcome {
    let help = |name: &str| {
        let output = Command::new(place.staged.join("bin/tieline")).arg0(name).arg("--help").output().ok()?;
        Some((output.status.success(), [output.stdout, output.stderr].concat()))
    };
    let plain = help("tieline").map(|(_, text)| text);
    for name in CLASSIC {
        // Under such a name the binary is another program than under its own.
        let answers = help(name).is_some_and(|(success, text)| success && Some(text) != plain);
        for (folder, leads_to) in [("bin", "tieline"), ("sbin", "../bin/tieline")] {
            let link = place.staged.join(folder).join(name);
            if place::is_of_something_else(&link, leads_to) {
                say(&format!("left alone: {} belongs to something else", link.display()));
            } else if !answers {
                say(&format!("left out of {folder}: this binary does not answer to the name {name}"));
            } else {
                written.link(name, folder, leads_to)?;
            }
        }
    }
    Ok(())
}

/// The C libraries, where build files of their programs look.
fn c_libraries(place: &Place, written: &mut Written<'_>, release: &Path) -> Outcome {
    for library in ["libsisci.so", "libtieline_mq.so"] {
        written.put(0o755, &release.join(library), "lib64")?;
        link_library(place, written, library)?;
    }
    written.put(0o644, Path::new("include/tieline/tieline_mq.h"), "include")?;
    for header in files(Path::new("include/sisci"), ".h")? {
        for folder in HEADERS {
            written.put(0o644, &header, folder)?;
        }
    }
    for module in ["sisci.pc", "tieline-mq.pc"] {
        let text = fs::read_to_string(Path::new("packaging/pkgconfig").join(module))?
            .replace("@PREFIX@", &place.prefix)
            .replace("@VERSION@", env!("CARGO_PKG_VERSION"));
        written.put_text(&text, module, "lib/pkgconfig")?;
    }
    Ok(())
}

/// Build files name `lib` as well as `lib64`, and the linker of some distributions looks in `/usr/local/lib`
/// only.
fn link_library(place: &Place, written: &mut Written<'_>, name: &str) -> Outcome {
    let leads_to = &format!("../lib64/{name}");
    let link = place.staged.join("lib").join(name);
    // Where lib64 is another name of lib, the library is there.
    let identity = |path: &Path| path.metadata().map(|file| (file.dev(), file.ino())).ok();
    let library = identity(&place.staged.join("lib64").join(name));
    if library.is_some() && identity(&link) == library && !link.is_symlink() {
        return Ok(());
    }
    if place::is_of_something_else(&link, leads_to) {
        say(&format!("left alone: {} belongs to something else", link.display()));
        return Ok(());
    }
    written.link(name, "lib", leads_to)
}

fn units(place: &Place, written: &mut Written<'_>) -> Outcome {
    let mut all = files(Path::new("packaging"), ".service")?;
    all.extend(files(Path::new("packaging/systemd"), ".service")?);
    if all.is_empty() {
        say("left out: packaging holds no service");
    }
    let binaries = format!("{}/bin", place.prefix);
    for unit in all {
        // A unit names the binary by its full path, which is not known before now.
        let text = fs::read_to_string(&unit)?
            .replace("@BINDIR@", &binaries)
            .replace("/usr/bin/tieline", &format!("{binaries}/tieline"));
        let name = unit.file_name().unwrap_or_default().to_string_lossy();
        written.put_text(&text, &name, "lib/systemd/system")?;
    }
    Ok(())
}

/// What to type now. systemd looks for units below a few folders only; one elsewhere has to be linked.
fn say_next(prefix: &str) {
    let first = match prefix {
        "/usr" | "/usr/local" => "systemctl daemon-reload".to_owned(),
        _ => format!("systemctl link {prefix}/lib/systemd/system/tieline-node@.service"),
    };
    let binaries = format!("{prefix}/bin");
    let path = std::env::var("PATH").unwrap_or_default();
    let search = if path.split(':').any(|folder| folder == binaries) {
        String::new()
    } else {
        format!("PATH=$PATH:{binaries}; ")
    };
    say(&format!("next, by hand: {search}tieline up; tieline verify --running"));
    say(&format!(
        "or as a service of this machine, one for each node: {first}; systemctl enable --now tieline-node@4"
    ));
}
