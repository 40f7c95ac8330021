//! What a provider of libfabric may do, and those of TCP never do by themselves: it refuses memory, reports
//! that operations have failed, and messages that are cut off. And libfabric is removed while programs run.

use std::path::{Path, PathBuf};
use std::process::Command;

use tieline_tests::Watchdog;

use crate::c;
use crate::lab::{Host, Program, two_hosts, until};
use crate::namespaces::Hosts;

const SIZE: usize = 1_000_000;
const REACH: &str = env!("CARGO_BIN_EXE_tieline-reach");

/// The library that the dynamic linker finds.
fn libfabric() -> PathBuf {
    let known = c::must(Command::new("/sbin/ldconfig").arg("-p"));
    let line = known.lines().find(|line| line.trim().starts_with("libfabric.so.1 "));
    let path = line.and_then(|line| line.split(" => ").nth(1));
    path.unwrap_or_else(|| panic!("libfabric is not installed: {known}")).trim().into()
}

/// A folder with a library in the place of libfabric that makes mistakes; `None`: it cannot be compiled here,
/// for the reason that is printed.
fn faulty() -> Option<PathBuf> {
    if !c::is_there("cc") {
        return None;
    }
    if !Path::new("/usr/include/rdma/fabric.h").is_file() {
        println!("skipped: the headers of libfabric are not installed (package libfabric-dev)");
        return None;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("faulty-libfabric");
    std::fs::create_dir_all(&folder).unwrap();
    let source = c::top().join("tests/hosts/c/faulty_libfabric.c");
    // Another test may be running it: the new one takes its place at once.
    let made = folder.join(format!("made-{:?}", std::thread::current().id()));
    c::must(
        Command::new("cc")
            .args(["-std=gnu11", "-g", "-O1", "-shared", "-fPIC"])
            .args(c::STRICT)
            .arg(format!("-Wl,--version-script,{}", source.with_extension("map").display()))
            .arg("-o")
            .arg(&made)
            .arg(&source)
            .arg("-ldl"),
    );
    std::fs::rename(made, folder.join("libfabric.so.1")).unwrap();
    Some(folder)
}

/// A program whose libfabric makes the mistakes that files in a folder of its host ask for.
struct Faults {
    folder: PathBuf,
    library: PathBuf,
    real: PathBuf,
}

impl Faults {
    fn of(host: &Host) -> Option<Self> {
        let folder = host.folder().join("faults");
        std::fs::create_dir_all(&folder).unwrap();
        Some(Self { folder, library: faulty()?, real: libfabric() })
    }

    fn program(&self, host: &Host, arguments: &[&str]) -> Program {
        let [folder, library, real] =
            [&self.folder, &self.library, &self.real].map(|path| path.to_str().unwrap());
        let variables = [("FAULTS", folder), ("LD_LIBRARY_PATH", library), ("REAL_LIBFABRIC", real)];
        host.program_with(arguments, &variables)
    }

    fn begin(&self, fault: &str) {
        std::fs::write(self.folder.join(fault), "").unwrap();
    }

    fn end(&self, fault: &str) {
        std::fs::remove_file(self.folder.join(fault)).unwrap();
    }

    /// A fault that comes once has come.
    fn is_over(&self, fault: &str) -> bool {
        !self.folder.join(fault).exists()
    }
}

fn exchange(owner: &mut Program, user: &mut Program, seed: u64) {
    user.must(&format!("put {seed} 0 {SIZE}"), "done");
    owner.must(&format!("check {seed} 0 {SIZE}"), "same");
    owner.must(&format!("fill {seed}1 0 {SIZE}"), "done");
    user.must(&format!("get {seed}1 0 {SIZE}"), "same");
}

#[test]
fn memory_that_the_provider_refuses_is_named_and_can_be_reached_later() {
    let _watchdog = Watchdog::usual("memory that is refused");
    let Some((first, second)) = two_hosts() else { return };
    let Some(faults) = Faults::of(&second) else { return };
    let mut owner = faults.program(&second, &["own", "7", &SIZE.to_string()]).ready();
    faults.begin("registration");
    let said = first.program(&["reach", "8", "7"]).0.line().unwrap();
    println!("{said}");
    assert!(said.starts_with("error: segment 7 of node 8 cannot be reached: "), "{said}");
    assert!(said.contains("fi_mr_reg failed on provider tcp;ofi_rxm: "), "{said}");
    assert!(said.contains("limits of locked memory"), "{said}");
    faults.end("registration");
    let mut user = first.program(&["reach", "8", "7"]).ready();
    exchange(&mut owner, &mut user, 1);
    // What was reached before is still reached.
    faults.begin("registration");
    exchange(&mut owner, &mut user, 2);
}

#[test]
fn an_operation_that_the_provider_reports_as_failed_is_an_error_that_names_it() {
    let watchdog = Watchdog::usual("operations that fail");
    let Some((first, second)) = two_hosts() else { return };
    let Some(faults) = Faults::of(&first) else { return };
    let mut owner = second.program(&["own", "7", &SIZE.to_string()]).ready();
    let mut user = faults.program(&first, &["reach", "8", "7"]).ready();
    exchange(&mut owner, &mut user, 1);
    for (seed, (fault, order, name)) in
        [("write-error", "put", "a put"), ("read-error", "get", "a get")].into_iter().enumerate()
    {
        faults.begin(fault);
        let failed = user.ask(&format!("{order} 2 0 {SIZE}"));
        println!("{failed}");
        assert!(faults.is_over(fault));
        let begin = format!("error: the ofi link to node 8 failed: {name} to node 8 failed: ");
        assert!(
            failed.starts_with(&begin) && failed.contains("(error 5; provider tcp;ofi_rxm says: "),
            "{failed}"
        );
        assert_eq!(user.ask("put 2 0 8"), failed, "at once, and the same");
        user.must("again", "done");
        exchange(&mut owner, &mut user, 10 + seed as u64);
        watchdog.progress();
    }
}

/// What is short cannot be read, and counts for nothing: nothing is carried out by it.
#[test]
fn messages_that_are_cut_off_do_nothing_and_who_waits_for_them_is_told() {
    let _watchdog = Watchdog::usual("messages that are cut off");
    let Some((first, second)) = two_hosts() else { return };
    let Some(faults) = Faults::of(&second) else { return };
    let mut owner = faults.program(&second, &["own", "7", &SIZE.to_string()]).ready();
    let mut user = first.program(&["reach", "8", "7"]).ready();
    user.must("add 8 5", "was 0");
    faults.begin("short-message");
    let failed = user.ask("add 8 7");
    println!("{failed}");
    let begin = "error: the ofi link to node 8 failed: an atomic operation to node 8 made no progress for ";
    assert!(failed.starts_with(begin) && failed.contains("(the peer did not respond)"), "{failed}");
    faults.end("short-message");
    user.must("again", "done");
    user.must("add 8 0", "was 5");
    exchange(&mut owner, &mut user, 1);
}

/// The operations that are reported as failed were carried out: they land twice, and nobody sees it.
#[test]
fn chunks_that_the_provider_reports_as_failed_go_over_another_rail() {
    const BYTES: usize = 6_000_000;
    let watchdog = Watchdog::usual("chunks that fail");
    let Some(library) = faulty() else { return };
    let Some(hosts) = Hosts::up_with(2, &["--rails", "2", "--rate", "500mbit"]) else { return };
    let mut owner = hosts.program("host2", REACH, &["own", "7", &BYTES.to_string()]).ready();
    hosts.must("host1", &["mkdir", "/run/faults"]);
    let library = format!("LD_LIBRARY_PATH={}", library.display());
    let real = format!("REAL_LIBFABRIC={}", libfabric().display());
    let words = ["FAULTS=/run/faults", &library, &real, REACH, "reach", "8", "7"];
    let mut user = hosts.program("host1", "env", &words).ready();
    until("all rails", || user.ask("rails") == "all");
    for seed in 1..=4 {
        let fault = ["/run/faults/write-error", "/run/faults/read-error"][seed % 2];
        hosts.must("host1", &["touch", fault]);
        user.must(&format!("put {seed} 0 {BYTES}"), "done");
        owner.must(&format!("check {seed} 0 {BYTES}"), "same");
        user.must(&format!("get {seed} 0 {BYTES}"), "same");
        hosts.must("host1", &["test", "!", "-e", fault]);
        until("the rail comes back", || user.ask("rails") == "all");
        watchdog.progress();
    }
}

#[test]
fn libfabric_that_is_removed_stays_with_those_who_use_it_and_is_named_to_others() {
    let _watchdog = Watchdog::usual("libfabric that is removed");
    let Some((first, second)) = two_hosts() else { return };
    let folder = first.folder().join("libfabric");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("libfabric.so.1");
    std::fs::copy(libfabric(), &file).unwrap();
    let variables = [("LD_LIBRARY_PATH", folder.to_str().unwrap())];
    let mut owner = second.program(&["own", "7", &SIZE.to_string()]).ready();
    let mut user = first.program_with(&["reach", "8", "7"], &variables).ready();
    exchange(&mut owner, &mut user, 1);
    std::fs::remove_file(&file).unwrap();
    // In its place is something else, as in the middle of an installation.
    std::fs::write(&file, "no library").unwrap();
    exchange(&mut owner, &mut user, 2);
    user.must("again", "done");
    exchange(&mut owner, &mut user, 3);
    let said = first.program_with(&["reach", "8", "7"], &variables).0.line().unwrap();
    let begin =
        "error: segment 7 of node 8 is on another host and cannot be reached: libfabric cannot be loaded (";
    assert!(said.starts_with(begin) && said.contains("install the package libfabric1"), "{said}");
    // It tells nobody else.
    exchange(&mut owner, &mut user, 4);
}
