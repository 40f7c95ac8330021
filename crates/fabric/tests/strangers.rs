//! Anybody of a network namespace can send to the sockets of a served fabric: that holds nobody up.

// Helpers of tests are tests, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use fabric::server::{Event, Options, serve};
use foreign::trial::{lingering, nested, send_with};
use mad::ibsim::{IbsimTransport, control_name, outward_name};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use topology::build::{FatTree, fat_tree};

const ALONE: &str = "TL_ALONE";

/// Runs this test again in a process of its own, which does without these things that newer kernels have.
fn alone(name: &str, without: &str) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]).env(ALONE, "1").env(foreign::ENV_WITHOUT, without);
    let output = command.output().unwrap();
    assert!(output.status.success(), "without `{without}`: {}", String::from_utf8_lossy(&output.stderr));
}

/// A served fabric: its sockets' name, what ends it when it is dropped, and its thread.
fn served(name: &str) -> (String, Sender<()>, JoinHandle<()>) {
    let base = format!("{name}-{}", std::process::id());
    let options = Options { base: base.clone(), control: None, bring_up: true };
    let (ready, is_ready) = channel();
    let (stop, stopped) = channel::<()>();
    let server = std::thread::spawn(move || {
        let graph = fat_tree(&FatTree::new(4, 2)).unwrap();
        let mut event = |event: Event| {
            if event == Event::Ready {
                ready.send(()).unwrap();
            }
        };
        let ended = || !matches!(stopped.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty));
        serve(graph, &options, &mut event, &ended).unwrap();
    });
    is_ready.recv_timeout(Duration::from_secs(30)).unwrap();
    (base, stop, server)
}

/// The name of a socket of the server's may be somebody else's, or still that of a program that has just
/// left.
#[test]
fn a_name_that_is_taken_keeps_no_program_out() {
    let (base, stop, server) = served("names");
    let taken: Vec<_> = (0..3)
        .map(|number| {
            let socket =
                socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).unwrap();
            bind(&socket, &SocketAddrUnix::new_abstract_name(&outward_name(&base, number)).unwrap()).unwrap();
            socket
        })
        .collect();
    for _ in 0..500 {
        IbsimTransport::connect(&base, "").unwrap().node_info().unwrap();
    }
    drop(taken);
    drop(stop);
    server.join().unwrap();
}

/// A process that takes the path of the command socket first need not accept anybody.
#[test]
fn a_command_socket_whose_listener_accepts_nobody_is_not_waited_for() {
    let path = std::env::temp_dir().join(format!("tieline-full-{}", std::process::id()));
    let address = SocketAddrUnix::new(&path).unwrap();
    let socket = |flags| socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
    let listener = socket(SocketFlags::CLOEXEC);
    bind(&listener, &address).unwrap();
    listen(&listener, 0).unwrap();
    let mut waiting = Vec::new();
    loop {
        let one = socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
        let connected = connect(&one, &address);
        waiting.push(one);
        if connected.is_err() {
            break;
        }
    }
    let base = format!("full-{}", std::process::id());
    let options = Options { base, control: Some(path.clone()), bring_up: true };
    let graph = fat_tree(&FatTree::new(4, 2)).unwrap();
    let error = serve(graph, &options, &mut |_| (), &|| true).unwrap_err().to_string();
    assert!(error.contains("create the control socket") && error.contains("in use"), "{error}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn what_strangers_send_beside_their_messages_holds_nobody_up() {
    if std::env::var_os(ALONE).is_none() {
        for without in ["", "passrights"] {
            alone("what_strangers_send_beside_their_messages_holds_nobody_up", without);
        }
        return;
    }
    let (base, stop, server) = served("strangers");
    let stranger = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).unwrap();
    connect(&stranger, &SocketAddrUnix::new_abstract_name(&control_name(&base)).unwrap()).unwrap();
    let mut releases = Vec::new();
    for round in 0..8 {
        let (fd, release) = lingering().unwrap();
        releases.push(release);
        let fd = if round % 2 == 0 { fd } else { nested(fd).unwrap() };
        // Refused by a new kernel. A process that closes the last copy sleeps: not this thread.
        let _ = send_with(&stranger, b"x", &[std::os::fd::AsFd::as_fd(&fd)]);
        std::thread::spawn(move || drop(fd));
    }
    let mut client = IbsimTransport::connect(&base, "").unwrap();
    client.node_info().unwrap();
    drop(releases);
    drop(stop);
    server.join().unwrap();
}
