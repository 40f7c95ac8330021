//! `init` of one cluster by several processes at once, and by one that is killed: there is one whole
//! authority, or none.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const HOST: &str = env!("CARGO_BIN_EXE_node-host");

fn host(root: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(HOST);
    command.args(words).env("XDG_CONFIG_HOME", root).stdout(Stdio::piped());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

fn ask(root: &Path, words: &[&str]) -> Result<String, String> {
    let output = host(root, words).output().unwrap();
    if output.status.success() { Ok(said(&output)) } else { Err(said(&output)) }
}

fn init(root: &Path, node: u32) -> Child {
    host(root, &["init", &node.to_string(), &format!("127.0.0.{node}")]).spawn().unwrap()
}

/// What is in the cluster's directory, if it holds a whole authority with this node alone.
fn assert_whole(root: &Path, node: u32) {
    let dir = root.join("tieline/hosts/lab");
    let names =
        std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    let whole = format!(
        "authority.crt authority.key cluster hosts node-{node}.address node-{node}.crt node-{node}.key tokens"
    );
    assert_eq!(names.join(" "), whole);
    let known = std::fs::read_to_string(dir.join("hosts")).unwrap();
    assert_eq!(known, format!("{node} 127.0.0.{node}:7411\n"));
    assert_eq!(ask(root, &["renew", &node.to_string()]), Ok(node.to_string()), "its files belong together");
    assert!(ask(root, &["token", "60"]).unwrap().starts_with("tl1-"));
}

#[test]
fn of_several_inits_at_once_one_succeeds_and_the_others_say_why_not() {
    for _ in 0..10 {
        let root = tempfile::tempdir().unwrap();
        let nodes = [4, 8, 12, 16];
        let running: Vec<(u32, Child)> = nodes.map(|node| (node, init(root.path(), node))).into();
        let ended = running.into_iter().map(|(node, child)| (node, child.wait_with_output().unwrap()));
        let (made, refused): (Vec<_>, Vec<_>) = ended.partition(|(_, output)| output.status.success());
        let [(node, output)] = made.as_slice() else { panic!("{made:?} {refused:?}") };
        assert_eq!(said(output), format!("{node} 127.0.0.{node}:7411"));
        for (_, output) in &refused {
            let why = said(output);
            // The second is said where the disk is so slow that the first one takes longer than others wait.
            let is_clear = why.contains("holds the authority of a cluster already: add nodes with")
                || why.contains("another process has locked");
            assert!(is_clear, "{why}");
        }
        assert_whole(root.path(), *node);
    }
}

/// Whenever that is: before it has begun, in the middle, or when it was done.
#[test]
fn after_an_init_that_was_killed_the_next_one_works() {
    let (mut begun, mut before) = (0, 0);
    for round in 0..40_u64 {
        let root = tempfile::tempdir().unwrap();
        let mut killed = init(root.path(), 4);
        let dir = root.path().join("tieline/hosts/lab");
        while !dir.exists() && killed.try_wait().unwrap().is_none() {
            std::hint::spin_loop();
        }
        std::thread::sleep(Duration::from_micros(round * 250));
        let _ = killed.kill();
        killed.wait().unwrap();
        let was_whole = dir.join("authority.key").exists();
        let is_begun = dir.join("unfinished").exists();
        begun += u32::from(is_begun && !was_whole);
        match ask(root.path(), &["init", "8", "127.0.0.8"]) {
            Ok(_) if !was_whole => assert_whole(root.path(), 8),
            Err(why) if was_whole => {
                assert!(why.contains("holds the authority of a cluster already"), "{why}");
                assert_whole(root.path(), 4);
                before += 1;
            }
            other => panic!("whole {was_whole}: {other:?}"),
        }
    }
    eprintln!("{begun} were killed in the middle, {before} when all was done");
}
