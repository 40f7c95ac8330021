//! The line on the exit status at the end of each `--help`; `docs/exit-status.md` describes all statuses.

/// Where nothing is judged.
const DONE: &str = "0 done, 2 wrong usage or configuration, 4 could not run.";
/// Where something is judged, and nothing can be inconclusive.
const CHECKED: &str = "0 passed, 1 a check failed, 2 wrong usage or configuration, 4 could not run.";
/// Where something is judged, and a measurement may be inconclusive.
const JUDGED: &str =
    "0 passed, 1 a check failed, 2 wrong usage or configuration, 3 inconclusive, 4 could not run.";
/// A benchmark that `--thresholds` makes judge.
const MEASURED: &str = "0 done, 1 a limit of --thresholds is not kept, 2 wrong usage or configuration, 3 inconclusive (with \
                        --thresholds), 4 could not run.";
/// The same of one that checks the bytes.
const MEASURED_AND_CHECKED: &str = "0 done, 1 data did not arrive as it was sent, or a limit of --thresholds is not kept, 2 wrong usage \
                                    or configuration, 3 inconclusive (with --thresholds), 4 could not run.";
const COMPARED: &str = "0 no figure is worse, 1 a figure is worse or missing, 2 wrong usage or a wrong file, 3 a figure is \
                        inconclusive, 4 could not run.";
const OBSERVED: &str = "0 nothing is wrong, 1 something is wrong, 2 wrong usage or no fabric in the file, 3 something could not be \
                        judged, 4 could not run or could not write.";
const ROUTED: &str = "0 all CAs reach each other without a credit loop, 1 they do not, 2 wrong usage or no fabric in the file, 4 could \
                      not run or could not write.";
const WRITTEN: &str = "0 done, 2 wrong usage or no fabric in the file, 4 could not run or could not write.";
const GROUP: &str = "see the help of each command.";

/// The exit statuses of the command of these names; none: the help of all commands says it itself.
pub(super) fn of(path: &[String]) -> Option<&'static str> {
    let names: Vec<&str> = path.iter().map(String::as_str).collect();
    Some(match names.as_slice() {
        [] | ["help", ..] => return None,
        ["status"] | ["node", "status"] => CHECKED,
        ["diag" | "conntest" | "verify"] => JUDGED,
        ["cable"] => {
            "0 as planned, 1 not as planned, 2 wrong plan or wrong usage, 3 a measurement is inconclusive, 4 could not run or could \
             not write."
        }
        ["on"] => {
            "the command's, or 128 and the signal that ended it; 127 there is no such command, 126 it cannot be executed, 2 there is no \
             such host, 4 no hosts run, or this user is not root."
        }
        ["run"] => {
            "the program's; 127 there is no such program, 126 it cannot be executed, 2 wrong usage, 4 the library is missing, the file \
             of --stats cannot be created, or --strict and the library cannot be preloaded."
        }
        ["fleet", "close" | "menu"] => DONE,
        ["fleet", "verify"] => {
            "0 no host deviates, 1 a host deviates or could not be examined, 2 wrong usage, list or rules, 4 could not run."
        }
        ["fleet", ..] => {
            "0 all hosts did it, 1 a host did not, 2 wrong usage or list, 4 could not run or could not write."
        }
        ["tune"] => "0 done, 3 measured but not stored, because the machine was busy, 4 could not run.",
        ["sockets", "stat"] => {
            "0 done, 2 wrong usage or a file that holds no statistics, 4 there is no such process, or could not run."
        }
        ["bench" | "node"] => GROUP,
        ["bench", "scipp" | "intr" | "jitter" | "latency"] => MEASURED,
        ["bench", "scibench2" | "dma"] => MEASURED_AND_CHECKED,
        ["bench", "hosts"] => {
            "0 all pairs were measured, 2 wrong usage or configuration, 3 some were not measured, 4 could not run."
        }
        ["bench", "acceptance"] => JUDGED,
        ["bench", "compare" | "compare-builds"] => COMPARED,
        ["fabric"] | ["fabric", "observe"] => OBSERVED,
        ["fabric", "route" | "drain" | "compare"] => ROUTED,
        ["fabric", "check"] => {
            "0 every LID is reached without a credit loop, 1 it is not, 2 wrong usage, or no fabric or tables in the file, 3 whether \
             the credit loop is real could not be judged, 4 could not run."
        }
        ["fabric", "diff"] => {
            "0 there is no difference, 1 there is one, 2 wrong usage or no fabric in a file, 4 could not run."
        }
        ["fabric", "manage"] => {
            "0 every link is active and every pair of CAs has a route, 1 not so, or a Set failed, 2 wrong usage or a wrong file, 4 \
             could not run or could not write, or another SM manages the fabric."
        }
        ["fabric", _] => WRITTEN,
        _ => DONE,
    })
}
