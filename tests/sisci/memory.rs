//! The programs under tools that see a wrong access to memory.

use std::process::Command;

use tieline_tests::{Cluster, Watchdog};

use crate::c;

/// These call nearly every function, and are quick also when each instruction is examined.
const PROGRAMS: [&str; 5] = ["life_cycle", "copy", "dma_gather", "handles", "unsupported"];
/// With threads, callbacks and large transfers: for tools that cost little.
const MORE: [&str; 7] = ["maps", "channels", "dma", "data_interrupts", "callbacks_end", "cancel", "threads"];

fn run(cluster: &Cluster, command: &mut Command) {
    cluster.set_environment(command);
    command.env("TIELINE_NODE", crate::id(cluster, 0));
    c::must(command);
}

/// An old valgrind refuses system calls that it has never heard of, and says so.
fn knows_the_kernel(cluster: &Cluster, command: &mut Command) -> bool {
    cluster.set_environment(command);
    let output = command.env("TIELINE_NODE", crate::id(cluster, 0)).output().unwrap();
    !String::from_utf8_lossy(&output.stderr).contains("unhandled amd64-linux syscall")
}

#[test]
fn valgrind_sees_no_error() {
    if !c::is_there("valgrind") {
        return;
    }
    let _watchdog = Watchdog::new("programs under valgrind", std::time::Duration::from_secs(600));
    let cluster = Cluster::up(1).unwrap();
    for name in PROGRAMS {
        let mut command = Command::new("valgrind");
        command.args(["-q", "--error-exitcode=9", "--fair-sched=yes"]).arg(c::program(name));
        if !knows_the_kernel(&cluster, &mut command) {
            println!("SKIPPED: this valgrind is older than system calls that the library needs");
            return;
        }
        run(&cluster, &mut command);
    }
}

#[test]
fn the_sanitizers_see_no_error() {
    let flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let probe = c::made().join("probe.c");
    std::fs::write(&probe, "int main(void) { return 0; }\n").unwrap();
    let can = Command::new("cc").args(flags).arg("-o").arg(c::made().join("probe")).arg(&probe).output();
    if !can.is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: this compiler has no sanitizers");
        return;
    }
    // Where a process may not be looked into, leaks cannot be looked for.
    let finds_leaks =
        Command::new(c::made().join("probe")).output().is_ok_and(|output| output.status.success());
    let _watchdog = Watchdog::usual("programs with sanitizers");
    let cluster = Cluster::up(1).unwrap();
    for name in PROGRAMS.iter().chain(&MORE) {
        let source = c::top().join(format!("tests/sisci/c/{name}.c"));
        let program = c::compile_as(&format!("{name}.sanitized"), &source, &flags);
        // What the library keeps is no leak, also after SCITerminate.
        let leaks = format!("detect_leaks={}", u8::from(finds_leaks));
        run(&cluster, Command::new(program).env("ASAN_OPTIONS", leaks));
    }
}
