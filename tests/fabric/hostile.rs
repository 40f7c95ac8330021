//! Servers of the simulator's protocol that lie, fall silent, stop or die: nothing hangs, nothing harms a
//! terminal.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tieline_tests::Watchdog;

use crate::harness::{Place, Served};

/// What the server does with datagrams of the fabric.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// Control messages are read and not answered.
    Deaf,
    /// Control messages are answered by floods of what is no answer.
    Flood,
    /// Control works, and no datagram of the fabric is ever read.
    Stuck,
    /// Each datagram is answered by others: wrong sizes, garbage, wrong numbers, the question itself.
    Garbage,
    /// Control works; the server goes away at the first datagram.
    Gone,
}

fn name(base: &str, what: &str) -> SocketAddr {
    SocketAddr::from_abstract_name(format!("{base}:{what}\0")).unwrap()
}

/// A server in this process, until it is dropped.
struct Hostile {
    base: String,
    end: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Hostile {
    fn start(way: Way) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let base = format!("th{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let control = UnixDatagram::bind_addr(&name(&base, "ctl")).unwrap();
        let packets = UnixDatagram::bind_addr(&name(&base, "out0")).unwrap();
        let end = Arc::new(AtomicBool::new(false));
        for socket in [&control, &packets] {
            socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        }
        let over = Arc::clone(&end);
        let first = std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let mut message = [0; 80];
                let Ok((80, from)) = control.recv_from(&mut message) else { continue };
                match way {
                    Way::Deaf => {}
                    Way::Flood => {
                        for size in (0..2_000).map(|number| number % 200) {
                            if over.load(Ordering::Relaxed) {
                                break;
                            }
                            drop(control.send_to_addr(&vec![0xee; size], &from));
                        }
                    }
                    _ => {
                        if message[8..12] == 1_u32.to_ne_bytes() {
                            message[16..60].fill(0);
                            message[28..58]
                                .copy_from_slice(b"evil\x1b[2J\x1b]0;owned\x07\xe2\x80\xae\xc2\x9b31mxxxx");
                        }
                        drop(control.send_to_addr(&message, &from));
                    }
                }
            }
        });
        let over = Arc::clone(&end);
        let second = std::thread::spawn(move || {
            let mut seed = 1_u64;
            while !over.load(Ordering::Relaxed) {
                if way == Way::Stuck {
                    std::thread::sleep(Duration::from_millis(20));
                    continue;
                }
                let mut packet = [0; 288];
                let Ok((_, from)) = packets.recv_from(&mut packet) else { continue };
                match way {
                    Way::Gone => return,
                    Way::Garbage => {
                        for size in [0, 1, 287, 289, 4_000] {
                            drop(packets.send_to_addr(&vec![0xff; size], &from));
                        }
                        let mut answers = [packet; 4];
                        // The question itself; an answer to another number; an answer of nothing but noise;
                        // one with a wrong route.
                        answers[1][32 + 3] = 0x81;
                        answers[1][32 + 15] ^= 0x55;
                        answers[2][32 + 3] = 0x81;
                        for byte in &mut answers[2][32 + 64..] {
                            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                            *byte = (seed >> 33) as u8;
                        }
                        answers[3][32 + 3] = 0x81;
                        answers[3][32 + 129] ^= 7;
                        answers.iter().for_each(|answer| drop(packets.send_to_addr(answer, &from)));
                    }
                    _ => {}
                }
            }
        });
        Self { base, end, threads: vec![first, second] }
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

/// Names of the sockets that there are for a server.
fn sockets_of(base: &str) -> usize {
    // Names of others need not be texts.
    let all = std::fs::read("/proc/net/unix").unwrap();
    String::from_utf8_lossy(&all).matches(&format!("@{base}:")).count()
}

#[test]
fn a_server_that_lies_or_falls_silent_is_an_error_or_an_anomaly_and_never_a_hang() {
    let _watchdog = Watchdog::usual("hostile servers");
    let place = Place::new();
    for (way, status, says) in [
        (Way::Deaf, 4, "timed out"),
        (Way::Flood, 4, "timed out"),
        (Way::Stuck, 4, "local node"),
        (Way::Garbage, 4, "local node"),
        (Way::Gone, 4, "is gone"),
    ] {
        let server = Hostile::start(way);
        let words = ["observe", "--ibsim", &server.base, "--timeout", "50", "--retries", "1"];
        let (got, out, err) = place.run(&words);
        let number = way as usize;
        // Garbage may look like an answer of the local node for a while, which is then an anomaly.
        let is_anomaly = way == Way::Garbage && got == 1 && out.contains("anomaly");
        assert!(
            is_anomaly || got == status && err.to_lowercase().contains(says),
            "{number}: {got} {out}{err}"
        );
        for text in [&out, &err] {
            let plain = |c: char| c == '\n' || !c.is_control() && !('\u{202a}'..='\u{202e}').contains(&c);
            assert!(text.chars().all(plain), "{number}: {text:?}");
        }
        assert!(!err.contains("panicked"), "{number}: {err}");
        // The server's own two, or none of those that are gone; nothing of the client's.
        assert!(sockets_of(&server.base) <= 2, "{number}");
    }
}

fn live(place: &Place, base: &str) -> Child {
    let words = ["observe", "--ibsim", base, "--timeout", "200", "--retries", "1", "--watch", "1"];
    place.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process.try_into().unwrap()).unwrap(), signal).unwrap();
}

#[test]
fn a_server_that_is_killed_and_a_signal_end_a_look_whenever_they_come() {
    let watchdog = Watchdog::usual("killed servers");
    let place = Place::new();
    place.done(&["generate", "net.toml", "fattree", "16", "3"]);
    for after in [0, 20, 60, 200, 700] {
        let served = Served::start(&place, "net.toml", &[]);
        let looking = live(&place, &served.name);
        std::thread::sleep(Duration::from_millis(after));
        signal(served.pid(), Signal::KILL);
        let output = looking.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{after}: {err}");
        assert!(!err.contains("panicked"), "{err}");
        let base = served.name.clone();
        drop(served);
        assert_eq!(sockets_of(&base), 0, "{after}");
        watchdog.progress();
    }
    let served = Served::start(&place, "net.toml", &[]);
    for after in [0, 20, 60, 200, 700] {
        let looking = live(&place, &served.name);
        std::thread::sleep(Duration::from_millis(after));
        signal(looking.id(), Signal::INT);
        let output = looking.wait_with_output().unwrap();
        // Before its own handling of signals begins the system's ends it.
        let code = std::os::unix::process::ExitStatusExt::signal(&output.status);
        assert!(output.status.code() == Some(130) || code == Some(2), "{after}: {output:?}");
        watchdog.progress();
    }
    // The server still serves, and has only its own sockets.
    place.done(&["observe", "--ibsim", &served.name, "--no-counters", "--quiet"]);
}

#[test]
fn a_server_that_is_stopped_is_no_endless_wait() {
    let _watchdog = Watchdog::usual("stopped servers");
    let place = Place::new();
    place.done(&["generate", "net.toml", "fattree", "16", "3"]);
    let served = Served::start(&place, "net.toml", &[]);
    let looking = live(&place, &served.name);
    std::thread::sleep(Duration::from_millis(900));
    signal(served.pid(), Signal::STOP);
    let output = looking.wait_with_output().unwrap();
    signal(served.pid(), Signal::CONT);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{err}");
}
