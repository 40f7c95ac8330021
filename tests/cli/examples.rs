//! The examples of the API run, and say what they should.

use std::process::Command;

use tieline_tests::{Cluster, Watchdog};

fn run(name: &str) -> String {
    let _watchdog = Watchdog::usual("example");
    let cluster = Cluster::up(2).unwrap();
    let program = std::env::current_exe().unwrap();
    let program = program.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(
        program.is_file(),
        "{} is not built: run `cargo build --workspace --examples`",
        program.display()
    );
    let mut command = Command::new(program);
    cluster.set_environment(&mut command);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn hello() {
    assert_eq!(run("hello"), "node 4 received: hello over the interconnect\n");
}

#[test]
fn pingpong() {
    let said = run("pingpong");
    assert!(said.starts_with("10000 round trips, "), "{said}");
}

#[test]
fn scatter() {
    assert_eq!(run("scatter"), "256 blocks: Done, all where they belong\n");
}
