//! Connections whose bytes go through memory: two processes that check every byte, waiting in each way there
//! is.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use sockets_rules::layout::Reason;
use sockets_rules::status::{self, HANDED_BACK, READER_SLEPT};
use sockets_rules::{ENV_RINGS, RINGS_FORCED};
use tieline_tests::cluster::commands_binary;
use tieline_tests::{Cluster, Watchdog};

use crate::built::{made, must, program};
use crate::launcher::tieline;

/// Bytes that a run's processes have written, as they are counted.
#[derive(Debug, Default)]
struct Written {
    through_memory: u64,
    handed_back: u64,
    /// Through the kernel, because their reader slept.
    slept: u64,
    /// Through the kernel although it was awake, and why.
    awake: BTreeMap<&'static str, u64>,
}

impl Written {
    fn of(file: &Path) -> Self {
        let mut written = Self::default();
        for process in status::report(file, true).unwrap().processes {
            written.through_memory += process.through_memory.bytes_out;
            for through in process.through_kernel {
                match through.what {
                    HANDED_BACK => written.handed_back += through.moved.bytes_out,
                    READER_SLEPT => written.slept += through.moved.bytes_out,
                    what => *written.awake.entry(what).or_default() += through.moved.bytes_out,
                }
            }
        }
        written
    }

    /// Of what was written while the reader was awake: what went into rings, in percent.
    fn percent_while_awake(&self) -> f64 {
        let into_rings = self.through_memory + self.handed_back;
        let all = into_rings + self.awake.values().sum::<u64>();
        if all == 0 { 100.0 } else { into_rings as f64 * 100.0 / all as f64 }
    }

    /// Of all, so many bytes, in percent.
    fn share(&self, bytes: u64) -> f64 {
        let all = self.through_memory + self.handed_back + self.slept + self.awake.values().sum::<u64>();
        bytes as f64 * 100.0 / all.max(1) as f64
    }

    /// Of all, what the kernel never carried, in percent.
    fn percent(&self) -> f64 {
        self.share(self.through_memory)
    }

    /// Of all, what went into rings, in percent.
    fn percent_into_rings(&self) -> f64 {
        self.share(self.through_memory + self.handed_back)
    }
}

/// Runs a program under `tieline run --rings` as `rings` says; what it printed. It is counted in `file`.
fn counted(file: &Path, rings: &str, program: &[&str]) -> String {
    let mut command = tieline(&["run", "--rings", "--stats", file.to_str().unwrap(), "--"]);
    must(command.args(program).env(ENV_RINGS, rings))
}

/// Runs the program under `tieline run --rings`, forced or not, which checks every byte; what was counted.
fn run(way: &str, is_forced: bool) -> Written {
    let rings = program("rings", "rings.c", &[]);
    let file = made().join(format!("rings-{way}-{is_forced}.statistics"));
    let forced = if is_forced { RINGS_FORCED } else { "1" };
    let said = counted(&file, forced, &[rings.to_str().unwrap(), way]);
    assert!(said.contains("every byte came") || said.contains("the executed program got the rest"), "{said}");
    let written = Written::of(&file);
    let (all, kept) = (written.percent_into_rings(), written.percent());
    println!("{way}: {all:.1} % into rings, {kept:.1} % through memory: {written:?}");
    written
}

/// Every byte comes, whichever way. With rings forced they do go through rings, whatever the processors do:
/// nearly all that is written while the reader is awake.
fn holds(way: &str, least_percent_while_awake: f64) {
    let written = goes_into_rings(way, least_percent_while_awake);
    assert!(written.percent() >= LEAST, "{way}: {written:?}");
}

/// As [`holds`], of what need not stay there.
fn goes_into_rings(way: &str, least_percent_while_awake: f64) -> Written {
    let _watchdog = Watchdog::usual("rings");
    run(way, false);
    // A reader that loses its processor is awake, too, and its ring gets full: on a busy machine once more.
    let mut written = run(way, true);
    for _ in 1..RUNS {
        if written.percent_while_awake() < least_percent_while_awake {
            written = run(way, true);
        }
    }
    assert!(written.percent_while_awake() >= least_percent_while_awake, "{way}: {written:?}");
    assert!(written.percent_into_rings() >= LEAST, "{way}: {written:?}");
    written
}

/// Runs of which one must go into rings as it should.
const RUNS: usize = 4;

/// Of what is written while the reader is awake, in percent, so much goes into rings.
const WHILE_AWAKE: f64 = 95.0;

/// On the busiest machine two that are on two processors are awake at once some time.
#[test]
fn some_bytes_go_through_rings() {
    let _watchdog = Watchdog::usual("rings");
    if std::thread::available_parallelism().unwrap().get() < 2 {
        println!("left out: there is one processor, on which rings are not used");
        return;
    }
    assert!((0..20).any(|_| run("apart", false).through_memory > 0), "none ever did");
    holds("apart", WHILE_AWAKE);
}

/// On a machine as busy as any both ends are awake at once for this share of the bytes: as a rule it is 95
/// and more, beside other work at times 20.
const LEAST: f64 = 5.0;

/// Threads that write to a connection while its ends meet, which they do when it has been used for long.
#[test]
fn threads_that_write_while_the_ends_meet_keep_their_order() {
    let _watchdog = Watchdog::usual("late");
    let late = program("late", "late.c", &[]);
    let file = made().join("late.statistics");
    let said = counted(&file, "1", &[late.to_str().unwrap(), "40", "1500"]);
    assert!(said.contains("every record came in its order"), "{said}");
    let written = Written::of(&file);
    println!("{written:?}");
    if std::thread::available_parallelism().unwrap().get() > 1 {
        let met = written.through_memory + written.handed_back + written.slept;
        assert!(met > 0, "no ends have met: {written:?}");
    }
}

/// Two ends that may use one and the same processor alone: their bytes stay with the kernel, and the
/// statistics say why.
#[test]
fn ends_with_one_processor_have_no_rings() {
    let _watchdog = Watchdog::usual("one processor");
    let late = program("late", "late.c", &[]);
    let file = made().join("one-processor.statistics");
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let first = allowed.trim().split([',', '-']).next().unwrap();
    // An end that was used seldom, because it reads many records at once, has not looked for the other one
    // when the connection ends.
    let is_said = (0..20).any(|_| {
        let said = counted(&file, "1", &["taskset", "-c", first, late.to_str().unwrap(), "4", "1500"]);
        assert!(said.contains("every record came in its order"), "{said}");
        let written = Written::of(&file);
        assert_eq!((written.through_memory, written.handed_back, written.slept), (0, 0, 0), "{written:?}");
        let reasons = status::report(&file, true).unwrap().reasons;
        reasons.iter().any(|it| it.what == Reason::OneProcessor.text() && it.count > 0)
    });
    assert!(is_said, "no connection has that reason");
    let report = status::report(&file, true).unwrap();
    let text = report.details();
    assert!(text.contains("both ends may use only one and the same processor"), "{text}");
}

#[test]
fn two_that_block() {
    holds("block", WHILE_AWAKE);
}

#[test]
fn two_that_poll() {
    holds("poll", WHILE_AWAKE);
}

#[test]
fn two_that_select() {
    holds("select", WHILE_AWAKE);
}

#[test]
fn two_that_wait_for_levels() {
    holds("level", WHILE_AWAKE);
}

#[test]
fn two_that_wait_for_edges() {
    holds("edge", WHILE_AWAKE);
}

#[test]
fn two_that_send_files() {
    holds("file", WHILE_AWAKE);
}

#[test]
fn a_stream_longer_than_all_buffers() {
    // A writer that is faster than its reader finds the ring full, and writes to the kernel then. What the
    // reader has not taken when it sleeps goes back there: beside four that compute 3 to 27 % of the bytes
    // stay in memory, and on a quiet machine 16 to 99 %. So one run of several has to.
    let _watchdog = Watchdog::usual("rings, a long stream");
    run("stream", false);
    let goes =
        |written: &Written| written.percent_while_awake() >= 50.0 && written.percent_into_rings() >= LEAST;
    assert!((0..5).map(|_| run("stream", true)).any(|written| goes(&written)), "none of five");
}

#[test]
fn a_writer_that_is_killed() {
    holds("kill", WHILE_AWAKE);
}

#[test]
fn a_half_that_is_shut_down() {
    holds("half", WHILE_AWAKE);
}

#[test]
fn a_reader_that_executes_another_program() {
    holds("exec", WHILE_AWAKE);
}

/// What programs seldom do, plain and with rings.
#[test]
fn what_programs_seldom_do() {
    let watchdog = Watchdog::usual("odd calls");
    let odd = program("odd", "odd.c", &["-pthread"]);
    let odd = odd.to_str().unwrap();
    for way in [
        "reconnects",
        "clones",
        "sends a file",
        "peeks",
        "filters",
        "is limited",
        "executes",
        "forks",
        "ends both",
    ] {
        let plain = must(std::process::Command::new(odd).arg(way));
        for rings in ["1", RINGS_FORCED] {
            let mut command = tieline(&["run", "--rings", "--", odd, way]);
            assert_eq!(must(command.env(ENV_RINGS, rings)), plain, "{way}, {ENV_RINGS}={rings}");
            watchdog.progress();
        }
    }
}

/// A listener that was made before this program was executed: what it accepts is as good as any.
#[test]
fn connections_of_an_inherited_listener() {
    let _watchdog = Watchdog::usual("inherited listener");
    let odd = program("odd", "odd.c", &["-pthread"]);
    let file = made().join("inherited-listener.statistics");
    counted(&file, RINGS_FORCED, &[odd.to_str().unwrap(), "executes"]);
    let written = Written::of(&file);
    // That of 200 rounds of 14 bytes, of which some are written while their reader sleeps.
    assert!(written.through_memory + written.handed_back + written.slept >= 200 * 14, "{written:?}");
    assert!(written.percent_while_awake() >= WHILE_AWAKE, "{written:?}");
}

/// A child counts what it has inherited as its parent did, or not at all.
#[test]
fn children_count_the_connections_that_they_inherit() {
    let _watchdog = Watchdog::usual("children count");
    let odd = program("odd", "odd.c", &["-pthread"]);
    for rings in ["1", RINGS_FORCED] {
        let file = made().join(format!("children-{rings}.statistics"));
        counted(&file, rings, &[odd.to_str().unwrap(), "forks"]);
        for process in status::report(&file, true).unwrap().processes {
            let reasons = process.reasons.iter().fold(0_u64, |sum, it| sum.saturating_add(it.count));
            assert_eq!(reasons, process.connections, "{rings}: {process:#?}");
        }
    }
}

/// Both ends in one thread, from the first byte.
#[test]
fn one_thread_that_has_both_ends() {
    let _watchdog = Watchdog::usual("one thread");
    let one = program("one", "one.c", &[]);
    let file = made().join("one.statistics");
    assert_eq!(counted(&file, RINGS_FORCED, &[one.to_str().unwrap()]), "every byte came\n");
    let written = Written::of(&file);
    println!("{:.1} % through memory: {written:?}", written.percent());
    assert!(written.percent() >= 95.0, "{written:?}");
}

/// What the kernel is to hold back (`TCP_CORK`, `MSG_MORE`) goes to it; what follows goes through memory
/// again.
#[test]
fn what_is_held_back() {
    let _watchdog = Watchdog::usual("held back");
    let held = program("held", "held.c", &[]);
    let held = held.to_str().unwrap();
    let plain = must(&mut std::process::Command::new(held));
    assert_eq!(plain.matches(": held back\n").count(), 6, "{plain}");
    let file = made().join("held.statistics");
    assert_eq!(counted(&file, RINGS_FORCED, &[held]), plain);
    let written = Written::of(&file);
    println!("{:.1} % through memory: {written:?}", written.percent());
    assert!(written.percent() >= 90.0, "{written:?}");
}

/// What was written without waiting comes without a further call of the writer; and one that takes a short
/// write for a full kernel is told when there is room again.
#[test]
fn writers_that_do_not_wait() {
    let watchdog = Watchdog::usual("writers that do not wait");
    let tries = program("tries", "tries.c", &[]);
    for words in [["rest", "1"], ["edges", "1"], ["edges", "2"]] {
        let file = made().join(format!("tries-{}-{}.statistics", words[0], words[1]));
        let said = counted(&file, RINGS_FORCED, &[tries.to_str().unwrap(), words[0], words[1]]);
        assert_eq!(said, "every byte came\n", "{words:?}");
        let written = Written::of(&file);
        println!("{words:?}: {written:?}");
        assert!(written.through_memory + written.handed_back > 0, "{written:?}");
        watchdog.progress();
    }
}

/// While bytes go back to the kernel, and at the end of that.
#[test]
fn a_signal_handler_that_writes_in_between() {
    let _watchdog = Watchdog::usual("handler");
    let handler = program("handler", "handler.c", &[]);
    let mut command = tieline(&["run", "--", handler.to_str().unwrap(), "2"]);
    let said = must(command.env(ENV_RINGS, RINGS_FORCED));
    assert!(said.contains("of its handler came"), "{said}");
}

/// A benchmark of ours says by what its bytes went as the kernel has counted them, whatever the command line
/// was.
#[test]
fn the_table_of_latencies_says_what_carried_its_bytes() {
    let watchdog = Watchdog::usual("latencies by rings");
    if std::thread::available_parallelism().unwrap().get() < 2 {
        println!("left out: there is one processor, on which rings are not used");
        return;
    }
    let cluster = Cluster::up(2).unwrap();
    let said = |options: &[&str]| {
        let commands = commands_binary().unwrap();
        let bench = ["bench", "latency", "--classic", "--rounds", "1", "--quiet"];
        let mut command = tieline(&[&["run"], options, &["--", commands.to_str().unwrap()], &bench].concat());
        cluster.set_environment(&mut command);
        if options.contains(&"--rings") {
            command.env(ENV_RINGS, RINGS_FORCED);
        }
        let said = must(&mut command);
        watchdog.progress();
        said.lines().nth(1).unwrap().to_owned()
    };
    let with = said(&["--rings"]);
    assert!(with.contains("over TCP, loopback; ") && with.ends_with(" bypassed the kernel."), "{with}");
    assert_eq!(said(&[]), "Socket transfers are made over kernel TCP, loopback.");
}

/// Without the option nothing of it happens.
#[test]
fn off_unless_asked_for() {
    let _watchdog = Watchdog::usual("rings");
    let rings = program("rings", "rings.c", &[]);
    let file = made().join("no-rings.statistics");
    let file = file.to_str().unwrap();
    must(&mut tieline(&["run", "--stats", file, "--", rings.to_str().unwrap(), "block"]));
    let stat = must(&mut tieline(&["sockets", "stat", "--from", file, "--json"]));
    let stat: Value = serde_json::from_str(&stat).unwrap();
    assert_eq!(stat["processes"][0]["bytes_past_kernel"], 0, "{stat:#}");
}

/// `liburing` makes system calls by instructions of its own, which are not seen: nothing of it happens in a
/// program that it is loaded into.
#[test]
fn a_program_with_liburing_stays_with_the_kernel() {
    let _watchdog = Watchdog::usual("rings");
    program("liburing.so.2", "nothing.c", &["-shared", "-fPIC", "-Wl,-soname,liburing.so.2"]);
    let folder = made();
    let (from, at) = (format!("-L{}", folder.display()), format!("-Wl,-rpath,{}", folder.display()));
    let flags = ["-Wl,--no-as-needed", &from, &at, "-l:liburing.so.2"];
    let linked = program("rings-with-liburing", "rings.c", &flags);
    let file = folder.join("liburing.statistics");
    counted(&file, RINGS_FORCED, &[linked.to_str().unwrap(), "block"]);
    let stat = must(&mut tieline(&["sockets", "stat", "--from", file.to_str().unwrap(), "--json"]));
    let stat: Value = serde_json::from_str(&stat).unwrap();
    for process in stat["processes"].as_array().unwrap() {
        assert_eq!(process["bytes_past_kernel"], 0, "{stat:#}");
    }
    let stat = must(&mut tieline(&["sockets", "stat", "--from", file.to_str().unwrap()]));
    assert!(stat.contains("program is confined") || stat.contains("io_uring"), "{stat}");
}
