//! What `tieline sockets stat` says is what the programs' own calls have moved: each byte once, at both ends
//! the same.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use sockets_rules::statistics::Moved;
use sockets_rules::status::{Process, Report, report};
use tieline_tests::Watchdog;

use crate::built::{library, made, program};
use crate::launcher::tieline;

/// By process: what came, and what went.
type Accounts = BTreeMap<u32, Moved>;

/// What a run says: the programs' accounts, and what was counted.
struct Run {
    accounts: Accounts,
    counted: BTreeMap<u32, Process>,
    /// A connection was reset before all of it was read.
    is_reset: bool,
}

/// Runs a program that tells its accounts, with rings as `rings` says, and examines its statistics meanwhile.
fn run(name: &str, arguments: &[&str], rings: &str) -> Run {
    let program = program(name, &format!("{name}.c"), &[]);
    let file = made().join(format!("{name}-{}-{rings}.statistics", arguments.join("-")));
    let mut command = tieline(&["run", "--stats", file.to_str().unwrap(), "--", program.to_str().unwrap()]);
    command.args(arguments).env("TIELINE_SOCKETS_RINGS", rings).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        // Before the launcher has made the file, there is none, or an old one.
        if let Ok(now) = report(&file, true) {
            now.processes.iter().for_each(holds_together);
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{arguments:?}: {}: {said}", output.status);
    let accounts = said.lines().filter_map(account).collect();
    Run { accounts, counted: counted(&file), is_reset: said.contains("reset: ") }
}

/// The time that it takes to build the library is none of the test's.
fn watch(what: &'static str) -> Watchdog {
    library();
    Watchdog::usual(what)
}

fn account(line: &str) -> Option<(u32, Moved)> {
    let mut words = line.strip_prefix("account ")?.split(' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let pid = u32::try_from(number()?).ok()?;
    Some((pid, Moved { bytes_in: number()?, bytes_out: number()? }))
}

fn counted(file: &Path) -> BTreeMap<u32, Process> {
    let Report { processes, .. } = report(file, true).unwrap();
    processes.into_iter().map(|it| (it.pid, it)).collect()
}

/// At any moment: nothing is below 0, parts are no more than the whole, and what was not through memory is
/// there by reason.
fn holds_together(process: &Process) {
    let Process { moved, through_memory, .. } = process;
    let kernel = process.through_kernel.iter().fold(Moved::default(), |sum, it| sum.and(it.moved));
    // Nobody moves that much.
    let most = 1 << 50;
    assert!(moved.bytes_in < most && moved.bytes_out < most, "{process:#?}");
    assert_eq!(moved.bytes_in, through_memory.bytes_in + kernel.bytes_in, "{process:#?}");
    assert_eq!(moved.bytes_out, through_memory.bytes_out + kernel.bytes_out, "{process:#?}");
    assert!(process.reasons.iter().all(|it| it.count < 1 << 40), "{process:#?}");
}

impl Run {
    /// Each process has counted what its account says, in all.
    fn is_exact(&self) {
        for (pid, account) in &self.accounts {
            match self.counted.get(pid) {
                Some(process) => {
                    holds_together(process);
                    assert_eq!(process.moved, *account, "{process:#?}");
                }
                None => assert_eq!(*account, Moved::default(), "process {pid} has counted nothing"),
            }
        }
        assert!(self.counted.keys().all(|pid| self.accounts.contains_key(pid)));
    }

    /// What was read was written; what was written to memory was read from memory. How much that was.
    fn ends_agree(&self) -> u64 {
        let all = self.counted.values().fold(Moved::default(), |sum, it| sum.and(it.moved));
        assert_eq!(all.bytes_in, all.bytes_out, "all of it was read");
        let memory = self.counted.values().fold(Moved::default(), |sum, it| sum.and(it.through_memory));
        let processes = self.counted.values().map(|it| (it.pid, it.through_memory)).collect::<Vec<_>>();
        assert_eq!(memory.bytes_in, memory.bytes_out, "{processes:#?}");
        memory.bytes_in
    }

    fn handed_back(&self) -> u64 {
        let all = self.counted.values().flat_map(|it| &it.through_kernel);
        all.filter(|it| it.what == "handed back").map(|it| it.moved.bytes_out).sum()
    }

    fn connections(&self) -> (u64, u64) {
        let sum = |of: fn(&Process) -> u64| self.counted.values().map(of).sum();
        (sum(|it| it.connections), sum(|it| it.reasons.iter().map(|reason| reason.count).sum()))
    }
}

/// Random programs, whatever they do with their connections. That bytes went through rings, and came back
/// from there, is no accident.
#[test]
fn sums_are_what_was_moved() {
    let _watchdog = watch("sums");
    let (mut through_memory, mut handed_back, mut resets) = (0, 0, 0);
    for seed in 1..=12 {
        let rings = if seed % 4 == 0 { "0" } else { "2" };
        let run = run("sums", &[&seed.to_string(), "4"], rings);
        println!("seed {seed}, rings {rings}{}", if run.is_reset { ": a connection was reset" } else { "" });
        run.is_exact();
        // What was on its way is counted by the one that sent it alone. That there is a reset at all is for
        // other tests to judge.
        resets += u32::from(run.is_reset);
        through_memory += if run.is_reset { 0 } else { run.ends_agree() };
        handed_back += run.handed_back();
    }
    assert!(resets < 3, "{resets} runs ended with a reset");
    println!("{through_memory} bytes went through memory, {handed_back} were handed back");
    if std::thread::available_parallelism().unwrap().get() >= 2 {
        assert!(through_memory > 0 && handed_back > 0);
    }
}

/// Connections that are used twice, by threads that accept and close at the same moment.
#[test]
fn many_short_connections_of_several_threads() {
    let _watchdog = watch("many");
    for rings in ["0", "1", "2"] {
        let run = run("counts", &["many"], rings);
        run.is_exact();
        assert_eq!(run.connections(), (6000, 6000), "rings {rings}");
        let moved: Vec<Moved> = run.counted.values().map(|it| it.moved).collect();
        assert_eq!(moved, [Moved { bytes_in: 6000, bytes_out: 12_000 }]);
    }
}

#[test]
fn one_connection_of_several_threads() {
    let _watchdog = watch("threads");
    for rings in ["0", "2"] {
        let run = run("counts", &["threads"], rings);
        run.is_exact();
        run.ends_agree();
        assert_eq!(run.connections(), (2, 2), "rings {rings}");
    }
}

#[test]
fn a_connection_that_is_inherited_while_its_other_end_is_looked_for() {
    let _watchdog = watch("forked");
    for rings in ["0", "1", "2"] {
        let run = run("counts", &["forked"], rings);
        run.is_exact();
        run.ends_agree();
        // The parent's, the child's, and the other end, whose second number is no second connection.
        assert_eq!(run.connections(), (3, 3), "rings {rings}");
    }
}

#[test]
fn what_is_handed_back_is_not_through_memory() {
    let _watchdog = watch("handed");
    for rings in ["1", "2"] {
        let run = run("counts", &["handed"], rings);
        run.is_exact();
        let (memory, back) = (run.ends_agree(), run.handed_back());
        println!("rings {rings}: {memory} bytes through memory, {back} handed back");
    }
}

/// As through the kernel.
#[test]
fn small_messages_of_two_processes_are_not_mixed() {
    let _watchdog = watch("whole");
    for rings in ["0", "1", "2"] {
        let run = run("counts", &["whole"], rings);
        run.is_exact();
        println!("rings {rings}: {} bytes through memory", run.ends_agree());
    }
}

/// Also by its number: whichever process it was had the rings.
#[test]
fn a_change_of_user_by_its_number_is_seen() {
    let _watchdog = watch("user");
    let run = run("counts", &["user"], "1");
    run.is_exact();
    let notes: Vec<u64> = run
        .counted
        .values()
        .map(|it| it.notes.iter().find(|note| note.what == "user, root or limit changed"))
        .map(|note| note.map_or(0, |note| note.count))
        .collect();
    assert_eq!(notes.iter().sum::<u64>(), 1, "{notes:?}");
}

/// Of a process that is killed between two calls all is known; of one that is killed in a call, all but that
/// call.
#[test]
fn what_a_killed_process_has_moved_is_not_lost() {
    const CALL: u64 = 100;
    let _watchdog = watch("killed");
    for rings in ["0", "2"] {
        let run = run("counts", &["killed"], rings);
        let mut wrote = 0;
        for (pid, account) in &run.accounts {
            let counted = run.counted.get(pid).map(|it| it.moved).unwrap_or_default();
            assert_eq!(counted.bytes_in, account.bytes_in);
            assert!((account.bytes_out..=account.bytes_out + CALL).contains(&counted.bytes_out));
            wrote += counted.bytes_out;
        }
        assert!(wrote > 20 * CALL);
    }
}
