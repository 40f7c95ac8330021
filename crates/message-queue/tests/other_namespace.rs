//! A peer in another user namespace, as in a container: the kernel lets it not read this process's memory.
//! What is sent to it comes through the ring; the other way nothing changes.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test, and why it is skipped")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use message_queue::{Fetch, MessageQueue, Name, Settings, Want};

const LIMIT: Option<Duration> = Some(Duration::from_secs(60));
const LEN: usize = 300_000;
const TO_CHILD: u64 = 1;
const FROM_CHILD: u64 = 2;

fn queue() -> MessageQueue {
    MessageQueue::new(Settings { fetch: Fetch::Read, ..Settings::default() }).unwrap()
}

fn bytes(seed: u8) -> Vec<u8> {
    (0..LEN).map(|at| (at >> 7) as u8 ^ at as u8 ^ seed).collect()
}

/// The process in the other namespace: started by the other test, which writes its name.
#[test]
#[ignore = "started by the test beside it"]
fn child() {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).unwrap();
    let name = line.trim();
    let name: Vec<u8> =
        (0..name.len() / 2).map(|at| u8::from_str_radix(&name[at * 2..at * 2 + 2], 16).unwrap()).collect();
    let mut queue = queue();
    let parent = queue.peer(Name::of_bytes(name.first_chunk().unwrap()).unwrap());
    let send = queue.send(parent, FROM_CHILD, bytes(FROM_CHILD as u8)).unwrap();
    let receive = queue.receive(Want::exactly(parent, TO_CHILD), vec![0; LEN]);
    assert_eq!(queue.wait(send, LIMIT).unwrap().error, None);
    let status = queue.wait(receive, LIMIT).unwrap();
    assert_eq!(status.error, None);
    assert!(status.buffers.into_owned().unwrap() == bytes(TO_CHILD as u8));
    let counters = queue.counters();
    println!("read {} in parts {}", counters.read, counters.in_parts);
    assert!(queue.close(LIMIT.unwrap()));
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn messages_cross_user_namespaces() {
    let unshare = ["--user", "--map-current-user", "--"];
    let can = Command::new("unshare").args(unshare).arg("true").output();
    if !can.is_ok_and(|output| output.status.success()) {
        println!("skipped: this machine makes no user namespaces (program `unshare`, package util-linux)");
        return;
    }
    let mut queue = queue();
    let exe = std::env::current_exe().unwrap();
    let mut child = Command::new("unshare");
    child.args(unshare).arg(exe).args(["--exact", "child", "--ignored", "--nocapture"]);
    let mut child = Killed(child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let name: String = queue.name().bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    writeln!(child.0.stdin.as_mut().unwrap(), "{name}").unwrap();
    let receive = queue.receive(Want { source: None, tag: FROM_CHILD, ignore: 0 }, vec![0; LEN]);
    let status = queue.wait(receive, LIMIT).unwrap();
    assert_eq!(status.error, None);
    let child_number = status.envelope.unwrap().source;
    assert!(status.buffers.into_owned().unwrap() == bytes(FROM_CHILD as u8));
    let send = queue.send(child_number, TO_CHILD, bytes(TO_CHILD as u8)).unwrap();
    assert_eq!(queue.wait(send, LIMIT).unwrap().error, None);
    let lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    let said: Vec<_> = lines.filter(|line| line.contains("in parts")).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].ends_with("read 0 in parts 1"), "{said:?}");
    assert!(child.0.wait().unwrap().success());
}
