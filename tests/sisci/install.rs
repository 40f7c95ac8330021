//! What `./run install` puts under a prefix is enough for existing build files and for pkg-config.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tieline_tests::cluster::{commands_binary, put_xtask, tieline_binary};
use tieline_tests::{Cluster, Watchdog, executable};

use crate::c;

const SOURCE: &str = r#"
#include <stdio.h>
#include "sisci_api.h"
int main(void)
{
    sci_error_t error;
    sci_desc_t sd;
    unsigned int node = 0;
    SCIInitialize(0, &error);
    SCIOpen(&sd, 0, &error);
    SCIGetLocalNodeId(0, &node, 0, &error);
    printf("node %u\n", node);
    SCITerminate();
    return error != SCI_ERR_OK;
}
"#;

/// A folder in which `./run` finds what it would have built, and a cargo that builds nothing.
fn pretended_build(folder: &Path) {
    let release = folder.join("target/release");
    fs::create_dir_all(&release).unwrap();
    put_xtask(&folder.join("target")).unwrap();
    symlink(tieline_binary().unwrap(), release.join("tieline")).unwrap();
    symlink(commands_binary().unwrap(), release.join("tieline-commands")).unwrap();
    symlink(c::library(), release.join("libsisci.so")).unwrap();
    // The other libraries, and programs that measure.
    for program in [
        "libtieline_mq.so",
        "libtieline_fi.so",
        "tieline-ofi-measure",
        "tieline-fabric-measure",
        "tieline-messages-measure",
    ] {
        fs::write(release.join(program), "").unwrap();
    }
    // The sockets library is linked from an object; an empty archive will do.
    fs::write(release.join("libtieline-sockets.o"), "!<arch>\n").unwrap();
    // The launcher is what cargo is asked to link.
    let links = format!(
        "for word; do case $word in --emit=link=*) ln -s '{}' \"${{word#--emit=link=}}\" ;; esac; done",
        tieline_binary().unwrap().display()
    );
    for (name, does) in [("cargo", links.as_str()), ("rustc", "echo 'rustc 99.0.0 (abc 2026-01-01)'")] {
        let program = folder.join(name);
        executable::write(&program, format!("#!/bin/sh\n{does}\n"), 0o755).unwrap();
    }
}

/// `./run VERB --prefix PREFIX`, staged.
fn script(folder: &Path, verb: &str, prefix: &Path, staging: &Path) {
    let search_path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    c::must(
        Command::new(c::top().join("run"))
            .args([verb, "--prefix", prefix.to_str().unwrap()])
            .env("PATH", search_path)
            .env("CI", "true")
            .env("CARGO_TARGET_DIR", folder.join("target"))
            .env("DESTDIR", staging),
    );
}

/// Compiles the program with what `arguments` say, and runs it on a node.
fn works(cluster: &Cluster, folder: &Path, lib_dir: &Path, before: &[String], after: &[String]) {
    let source = folder.join("program.c");
    fs::write(&source, SOURCE).unwrap();
    let program = folder.join("program");
    c::must(Command::new("cc").args(before).arg("-o").arg(&program).arg(&source).args(after));
    let mut command = Command::new(&program);
    cluster.set_environment(&mut command);
    let said = c::must(command.env("TIELINE_NODE", "8").env("LD_LIBRARY_PATH", lib_dir));
    assert_eq!(said, "node 8\n");
}

#[test]
fn programs_build_against_what_is_installed() {
    let _watchdog = Watchdog::usual("installation");
    let cluster = Cluster::up(2).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    pretended_build(folder);
    let prefix = folder.join("opt/DIS");
    script(folder, "install", &prefix, Path::new(""));
    let lib_dir = prefix.join("lib64");
    for (include, library) in [("include", "lib64"), ("include/dis", "lib")] {
        let include = [format!("-I{}", prefix.join(include).display())];
        let library = [format!("-L{}", prefix.join(library).display()), "-lsisci".to_owned()];
        works(&cluster, folder, &lib_dir, &include, &library);
    }
    if c::is_there("pkg-config") {
        let modules = prefix.join("lib/pkgconfig");
        let ask = |what: &str| -> Vec<String> {
            let said =
                c::must(Command::new("pkg-config").args([what, "sisci"]).env("PKG_CONFIG_PATH", &modules));
            said.split_whitespace().map(str::to_owned).collect()
        };
        works(&cluster, folder, &lib_dir, &ask("--cflags"), &ask("--libs"));
    }
    for program in ["bin/scipp", "sbin/disinfo", "sbin/dis_diag"] {
        c::must(Command::new(prefix.join(program)).arg("--help"));
    }
    script(folder, "uninstall", &prefix, Path::new(""));
    assert_eq!(files(&prefix), Vec::<PathBuf>::new());
}

#[test]
fn a_staged_installation_names_the_final_place() {
    let _watchdog = Watchdog::usual("staged installation");
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    pretended_build(folder);
    let staging = folder.join("staging");
    script(folder, "install", Path::new("/opt/DIS"), &staging);
    let module = fs::read_to_string(staging.join("opt/DIS/lib/pkgconfig/sisci.pc")).unwrap();
    assert!(module.starts_with("prefix=/opt/DIS\n"), "{module}");
    assert!(staging.join("opt/DIS/lib64/libsisci.so").is_file());
    script(folder, "uninstall", Path::new("/opt/DIS"), &staging);
    assert_eq!(files(&staging), Vec::<PathBuf>::new());
}

/// Everything in a folder that is no folder itself.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}
