//! Which file is in which package: lays out a folder for each package, as it is on an installed system.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::super::install::{CLASSIC, files};
use super::super::{Outcome, Stop, cannot, must, release};
use super::{Edition, NAMES};

/// Where Debian has the libraries of this processor.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
/// Programs that measurements start, and the commands.
const PRIVATE: &str = "usr/libexec/tieline";
const DOCUMENTS: &str = "usr/share/doc";
/// The options of the compiler that Debian builds with.
const HARDENED: [&str; 9] = [
    "-O2",
    "-std=c11",
    "-fstack-protector-strong",
    "-D_FORTIFY_SOURCE=2",
    "-fPIE",
    "-pie",
    "-Wl,-z,relro",
    "-Wl,-z,now",
    "-Wl,--as-needed",
];

/// The folder of a package.
struct Stage<'a> {
    package: &'static str,
    folder: PathBuf,
    edition: &'a Edition,
}

/// Lays out all packages below `work`.
pub fn stage(edition: &Edition, built: &Path, work: &Path) -> Outcome {
    for package in NAMES {
        let stage = Stage { package, folder: work.join(package), edition };
        stage.common()?;
        match package {
            "tieline" => tieline(&stage, built)?,
            "libtieline1" => libraries(&stage, built)?,
            "libtieline-dev" => development(&stage)?,
            "tieline-sockets" => stage.program(
                &first(built, &["libtieline-sockets.so", "libtieline_sockets.so"])?,
                "usr/lib/tieline/libtieline-sockets.so",
                0o644,
            )?,
            _ => manager(&stage)?,
        }
    }
    Ok(())
}

fn tieline(stage: &Stage<'_>, built: &Path) -> Outcome {
    stage.program(&built.join("tieline"), "usr/bin/tieline", 0o755)?;
    for program in ["tieline-commands"].into_iter().chain(release::MEASURES) {
        stage.program(&built.join(program), &format!("{PRIVATE}/{program}"), 0o755)?;
    }
    // Those that are written in C. They find the library where it is installed, and name no other place.
    for (source, more) in [("sockets", &[][..]), ("sisci", &["-Iinclude/sisci", "-lsisci"])] {
        let path = stage.place(&format!("{PRIVATE}/tieline-{source}-measure"))?;
        must(
            Command::new("cc")
                .args(HARDENED)
                .arg(format!("examples/{source}/measure.c"))
                .arg("-o")
                .arg(&path)
                .arg(format!("-L{}", built.display()))
                .args(more),
            "a C program of the benchmarks does not compile; the reason stands above.",
        )?;
        stage.stripped(&path, 0o755)?;
    }
    for name in CLASSIC {
        let link = stage.place(&format!("{PRIVATE}/classic/{name}"))?;
        symlink("../../../bin/tieline", link)?;
    }
    pages(stage, built)?;
    let mut documents = files(Path::new(""), ".md")?;
    documents.extend(files(Path::new("docs"), ".md")?);
    documents.extend(files(Path::new("docs/adr"), ".md")?);
    documents.push("docs/report.png".into());
    for document in documents {
        stage.copy(&document, &format!("{DOCUMENTS}/tieline/{}", document.display()), 0o644)?;
    }
    stage.text(&third_party()?, &format!("{DOCUMENTS}/tieline/third-party"))
}

/// Man pages, and completions of three shells: the commands write them themselves.
fn pages(stage: &Stage<'_>, built: &Path) -> Outcome {
    let written = stage.folder.with_extension("pages");
    must(
        Command::new(built.join("tieline-commands")).arg("write-pages").arg(&written),
        "the commands did not write their man pages; the reason stands above.",
    )?;
    for page in files(&written, ".1")? {
        let name = page.file_name().unwrap_or_default().to_string_lossy().into_owned();
        stage.compressed(&fs::read(&page)?, &format!("usr/share/man/man1/{name}.gz"))?;
    }
    for (name, to) in [
        ("tieline.bash", "bash-completion/completions/tieline"),
        ("_tieline", "zsh/vendor-completions/_tieline"),
        ("tieline.fish", "fish/vendor_completions.d/tieline.fish"),
    ] {
        stage.copy(&written.join(name), &format!("usr/share/{to}"), 0o644)?;
    }
    Ok(fs::remove_dir_all(written)?)
}

fn libraries(stage: &Stage<'_>, built: &Path) -> Outcome {
    for library in ["libsisci.so", "libtieline_mq.so"] {
        stage.program(&built.join(library), &format!("{LIBRARIES}/{library}"), 0o644)?;
    }
    let [provider, cargos] = release::PROVIDER;
    // Where Debian's libfabric looks for providers.
    stage.program(
        &first(built, &[provider, cargos])?,
        &format!("{LIBRARIES}/libfabric/{provider}"),
        0o644,
    )?;
    stage.control("triggers", "activate-noawait ldconfig\n", 0o644)
}

fn development(stage: &Stage<'_>) -> Outcome {
    for header in files(Path::new("include/sisci"), ".h")? {
        let name = header.file_name().unwrap_or_default().to_string_lossy().into_owned();
        stage.copy(&header, &format!("usr/include/sisci/{name}"), 0o644)?;
    }
    stage.copy(Path::new("include/tieline/tieline_mq.h"), "usr/include/tieline_mq.h", 0o644)?;
    for (module, include) in [("sisci.pc", "${prefix}/include/sisci"), ("tieline-mq.pc", "${prefix}/include")]
    {
        let text = fs::read_to_string(Path::new("packaging/pkgconfig").join(module))?;
        let text = replaced(
            &text,
            &[
                ("@PREFIX@", "/usr"),
                ("@VERSION@", env!("CARGO_PKG_VERSION")),
                ("${prefix}/include\n", &format!("{include}\n")),
                ("${prefix}/lib64", "${prefix}/lib/x86_64-linux-gnu"),
                (" -Wl,-rpath,${libdir}", ""),
            ],
        )?;
        stage.text(&text, &format!("{LIBRARIES}/pkgconfig/{module}"))?;
    }
    for folder in ["sisci", "messages"] {
        for end in [".c", ".h"] {
            for example in files(&Path::new("examples").join(folder), end)? {
                let name = example.file_name().unwrap_or_default().to_string_lossy().into_owned();
                stage.copy(
                    &example,
                    &format!("{DOCUMENTS}/libtieline-dev/examples/{folder}/{name}"),
                    0o644,
                )?;
            }
        }
    }
    Ok(())
}

fn manager(stage: &Stage<'_>) -> Outcome {
    let name = "tieline-node@.service";
    let text = fs::read_to_string(Path::new("packaging/systemd").join(name))?;
    stage.text(&unit(&text)?, &format!("lib/systemd/system/{name}"))?;
    let debian = Path::new("packaging/debian");
    stage.copy(&debian.join("tieline-manager.default"), "etc/default/tieline", 0o644)?;
    stage.copy(&debian.join("tieline-manager.toml"), "etc/tieline/service/access.toml", 0o644)?;
    stage.control("conffiles", "/etc/default/tieline\n/etc/tieline/service/access.toml\n", 0o644)?;
    for script in ["postinst", "prerm", "postrm"] {
        let text = fs::read_to_string(debian.join(format!("tieline-manager.{script}")))?;
        stage.control(script, &text, 0o755)?;
    }
    Ok(())
}

/// What a manager that is not root's does without.
const WITHOUT_RIGHTS: &str = "CapabilityBoundingSet=\nProtectClock=yes\nProtectHostname=yes\nProtectKernelLogs=yes\nRestrictRealtime=yes\n\
                              RestrictSUIDSGID=yes\nSystemCallFilter=@system-service\nSystemCallErrorNumber=EPERM\n";

/// The unit for a system that has the user `tieline`: what is installed without a package runs as root, whose
/// own clusters are in `/run/tieline`.
pub fn unit(text: &str) -> Outcome<String> {
    replaced(
        text,
        &[
            ("Type=notify\n", "Type=notify\nUser=tieline\nGroup=tieline\n"),
            (
                "Environment=TIELINE_RUNTIME_DIR=/run/tieline\n",
                "Environment=TIELINE_RUNTIME_DIR=/run/tieline-service TIELINE_CONFIG=/etc/tieline/service\n",
            ),
            ("RuntimeDirectory=tieline\n", "RuntimeDirectory=tieline-service\n"),
            (
                "SystemCallArchitectures=native\n",
                &format!("SystemCallArchitectures=native\n{WITHOUT_RIGHTS}"),
            ),
            ("\n[Service]", "Documentation=man:tieline-node-run(1)\n\n[Service]"),
        ],
    )
}

/// Each of these texts is there, and is replaced.
fn replaced(text: &str, all: &[(&str, &str)]) -> Outcome<String> {
    let mut text = text.to_owned();
    for (from, to) in all {
        if !text.contains(from) {
            return cannot(format!(
                "a template of packaging has no `{}` any more: adapt xtask's verb package",
                from.trim()
            ));
        }
        text = text.replace(from, to);
    }
    Ok(text)
}

/// The first of these that is built.
fn first(built: &Path, names: &[&str]) -> Outcome<PathBuf> {
    let places = || names.iter().map(|name| built.join(name));
    match places().find(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => cannot(format!(
            "{} is not built: leave out --built, or name a folder in which everything is",
            places().next().unwrap_or_default().display()
        )),
    }
}

/// The packages of the Rust registry that are linked in, with their licences.
fn third_party() -> Outcome<String> {
    let mut tree = Command::new("cargo");
    tree.args([
        "tree",
        "--locked",
        "--offline",
        "--prefix",
        "none",
        "--edges",
        "normal",
        "--format",
        "{p}: {l}",
    ]);
    for package in release::PACKAGES.iter().chain(&["sockets", "launcher"]) {
        tree.args(["--package", package]);
    }
    let output = tree.output().map_err(|error| Stop::Cannot(format!("cargo cannot be started: {error}")))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return cannot(format!("cargo tree does not name the packages that are linked in: {said}"));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    // Those of this project name the folder that they are in.
    let lines = text.lines().map(|line| line.trim_end_matches(" (*)").replace(" (proc-macro)", ""));
    let all: std::collections::BTreeSet<String> =
        lines.filter(|line| !line.is_empty() && !line.contains("(/")).collect();
    let head = "Packages of the Rust registry that programs and libraries of tieline contain, with\n\
                their licences:\n\n";
    Ok(format!("{head}{}\n", all.into_iter().collect::<Vec<_>>().join("\n")))
}

impl Stage<'_> {
    /// What every package has.
    fn common(&self) -> Outcome {
        let package = self.package;
        self.copy(
            Path::new("packaging/debian/copyright"),
            &format!("{DOCUMENTS}/{package}/copyright"),
            0o644,
        )?;
        self.compressed(
            super::deb::changelog(self.edition)?.as_bytes(),
            &format!("{DOCUMENTS}/{package}/changelog.gz"),
        )?;
        let overrides = PathBuf::from(format!("packaging/debian/{package}.lintian-overrides"));
        if overrides.is_file() {
            self.copy(&overrides, &format!("usr/share/lintian/overrides/{package}"), 0o644)?;
        }
        Ok(())
    }

    /// A path in the package whose folder is there.
    fn place(&self, to: &str) -> Outcome<PathBuf> {
        let path = self.folder.join(to);
        let mut folder = self.folder.clone();
        fs::create_dir_all(path.parent().unwrap_or(&self.folder))?;
        // Whatever the user's mask is.
        for step in Path::new(to).parent().into_iter().flat_map(Path::components) {
            folder.push(step);
            fs::set_permissions(&folder, PermissionsExt::from_mode(0o755))?;
        }
        fs::set_permissions(&self.folder, PermissionsExt::from_mode(0o755))?;
        Ok(path)
    }

    fn copy(&self, from: &Path, to: &str, mode: u32) -> Outcome {
        let path = self.place(to)?;
        fs::copy(from, &path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Stop::Cannot(format!("{} is not there: build it first", from.display())),
            _ => Stop::Cannot(format!("{} cannot be copied: {error}", from.display())),
        })?;
        Ok(fs::set_permissions(&path, PermissionsExt::from_mode(mode))?)
    }

    fn text(&self, text: &str, to: &str) -> Outcome {
        self.bytes(text.as_bytes(), to, 0o644)
    }

    fn bytes(&self, bytes: &[u8], to: &str, mode: u32) -> Outcome {
        let path = self.place(to)?;
        fs::write(&path, bytes)?;
        Ok(fs::set_permissions(&path, PermissionsExt::from_mode(mode))?)
    }

    /// A file for dpkg.
    fn control(&self, name: &str, text: &str, mode: u32) -> Outcome {
        self.bytes(text.as_bytes(), &format!("DEBIAN/{name}"), mode)
    }

    /// A program or a library, without what only a debugger reads.
    fn program(&self, from: &Path, to: &str, mode: u32) -> Outcome {
        self.copy(from, to, mode)?;
        self.stripped(&self.folder.join(to), mode)
    }

    fn stripped(&self, path: &Path, mode: u32) -> Outcome {
        let mut strip = Command::new("strip");
        strip.args(["--strip-unneeded", "--remove-section=.comment", "--remove-section=.note"]).arg(path);
        must(&mut strip, "strip failed; the reason stands above.")?;
        Ok(fs::set_permissions(path, PermissionsExt::from_mode(mode))?)
    }

    /// Compressed as Debian wants it: without a name and a time.
    fn compressed(&self, bytes: &[u8], to: &str) -> Outcome {
        let mut gzip = Command::new("gzip");
        let mut child = gzip
            .args(["-9", "-n", "-c"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Stop::Cannot(format!("gzip cannot be started: {error}")))?;
        let Some(mut input) = child.stdin.take() else { return cannot("gzip has no input") };
        let bytes = bytes.to_vec();
        // A long text fills both pipes.
        let writer = std::thread::spawn(move || input.write_all(&bytes));
        let output = child.wait_with_output()?;
        writer.join().map_err(|_| Stop::Cannot("gzip was not given its input".to_owned()))??;
        if !output.status.success() {
            return cannot(format!("gzip failed: {}", output.status));
        }
        self.bytes(&output.stdout, to, 0o644)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_runs_as_its_own_user_and_apart_from_roots_clusters() {
        let text = fs::read_to_string("../packaging/systemd/tieline-node@.service").unwrap();
        let unit = unit(&text).unwrap();
        for line in [
            "User=tieline",
            "RuntimeDirectory=tieline-service",
            "NoNewPrivileges=yes",
            "ExecStart=/usr/bin/tieline node run --node %i",
        ] {
            assert!(unit.lines().any(|there| there == line), "{line}: {unit}");
        }
        assert!(!unit.contains("=/run/tieline\n"), "{unit}");
        assert!(replaced("x", &[("y", "z")]).is_err());
    }
}
