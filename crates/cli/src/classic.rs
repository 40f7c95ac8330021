//! Classic names, which are links to the binary, and classic options, which begin with a single dash.
//!
//! One table lists what each stands for. The command that a name stands for accepts the classic options too,
//! so that `tieline bench scipp -client -rn 4` works like `scipp -client -rn 4`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// A classic program.
struct Classic {
    /// Its name.
    name: &'static str,
    /// What it is a name for.
    command: &'static [&'static str],
    /// What else it implies when called by its name.
    implied: &'static [&'static str],
    /// Words and options that it takes, and what they are called here.
    words: &'static [(&'static str, &'static str)],
}

/// Those whose tools exist.
const CLASSICS: [Classic; 12] = [
    Classic {
        name: "dis_diag",
        command: &["diag"],
        implied: &["--classic"],
        words: &[("-clear", "--clear"), ("-prod", "--prod"), ("-json", "--json"), ("-help", "--help")],
    },
    Classic {
        name: "disinfo",
        command: &["query"],
        implied: &[],
        words: &[
            ("get-nodeid", "--brief"),
            ("-hostname", "--host"),
            ("-json", "--json"),
            ("-help", "--help"),
        ],
    },
    Classic {
        name: "dis_config",
        command: &["query"],
        implied: &[],
        words: &[("-gn", "--card"), ("-help", "--help")],
    },
    Classic {
        name: "sciconntest",
        command: &["conntest"],
        implied: &[],
        words: &[("-json", "--json"), ("-help", "--help")],
    },
    Classic { name: "dis_ssocks_run", command: &["run"], implied: &[], words: &[] },
    Classic {
        name: "query",
        command: &["query"],
        implied: &[],
        words: &[("-json", "--json"), ("-help", "--help")],
    },
    Classic {
        name: "scipp",
        command: &["bench", "scipp"],
        implied: &["--classic"],
        words: &[
            ("-server", "--server"),
            ("-client", "--client"),
            ("-rn", "--rn"),
            ("-size", "--size"),
            (JSON, "--json"),
            ("-help", "--help"),
        ],
    },
    Classic { name: "scibench2", command: &["bench", "scibench2"], implied: &["--classic"], words: TWO_ENDS },
    Classic { name: "dma_bench", command: &["bench", "dma"], implied: &["--classic"], words: TWO_ENDS },
    Classic { name: "intr_bench", command: &["bench", "intr"], implied: &["--classic"], words: INTERRUPTS },
    Classic {
        name: "latency_bench",
        command: &["bench", "latency"],
        implied: &["--classic"],
        words: INTERRUPTS,
    },
    // It has no classic name, but is called as the others are.
    Classic { name: "jitter_bench", command: &["bench", "jitter"], implied: &[], words: INTERRUPTS },
];

/// What the classic benchmarks of blocks take.
const TWO_ENDS: &[(&str, &str)] = &[
    ("-server", "--server"),
    ("-client", "--client"),
    ("-rn", "--rn"),
    ("-size", "--sizes"),
    (JSON, "--json"),
    ("-help", "--help"),
];

/// These have no size.
const INTERRUPTS: &[(&str, &str)] = &[
    ("-server", "--server"),
    ("-client", "--client"),
    ("-rn", "--rn"),
    (JSON, "--json"),
    ("-help", "--help"),
];

/// Where a file may follow, it is this option that takes it.
const JSON: &str = "-json";
const JSON_FILE: &str = "--json-file";

/// The classic name by which the program was called, and the command that it is a name for.
pub(crate) fn called(program: &OsStr) -> Option<(&'static str, String)> {
    let program = Path::new(program).file_name()?;
    let classic = CLASSICS.iter().find(|classic| program == classic.name)?;
    Some((classic.name, format!("tieline {}", classic.command.join(" "))))
}

/// Turns a call by a classic name, or with classic options, into a call of `tieline`.
pub(crate) fn translate(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let called = arguments.first().map(Path::new).and_then(Path::file_name).unwrap_or_default().to_owned();
    if let Some(classic) = CLASSICS.iter().find(|classic| called == *classic.name) {
        let mut translated = vec![OsString::from("tieline")];
        translated.extend(classic.command.iter().chain(classic.implied).map(OsString::from));
        translated.extend(classic.options(&arguments.split_off(1)));
        return translated;
    }
    for classic in &CLASSICS {
        let words = classic.command.len();
        // What is behind `run` is a program's.
        let end = arguments.iter().position(|word| word == "run" || word == "--").unwrap_or(arguments.len());
        if let Some(at) = arguments[..end].windows(words).position(|window| window == classic.command) {
            let rest = arguments.split_off(at + words);
            arguments.extend(classic.options(&rest));
            break;
        }
    }
    arguments
}

impl Classic {
    fn options(&self, arguments: &[OsString]) -> Vec<OsString> {
        let takes_file = self.command.first() == Some(&"bench");
        let is_value =
            |next: Option<&OsString>| next.is_some_and(|next| !next.as_encoded_bytes().starts_with(b"-"));
        let translated = arguments.iter().enumerate().map(|(at, argument)| {
            if takes_file && argument == JSON && is_value(arguments.get(at + 1)) {
                return JSON_FILE.into();
            }
            self.word(argument)
        });
        translated.collect()
    }

    fn word(&self, argument: &OsStr) -> OsString {
        self.words
            .iter()
            .find(|(classic, _)| argument == *classic)
            .map_or_else(|| argument.to_owned(), |(_, ours)| ours.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_classic_name_becomes_its_command() {
        for (classic, ours) in [
            ("/opt/DIS/bin/scipp -server -rn 8", "tieline bench scipp --classic --server --rn 8"),
            (
                "scipp -client -rn 4 -size 64 -json x",
                "tieline bench scipp --classic --client --rn 4 --size 64 --json-file x",
            ),
            ("scipp -json", "tieline bench scipp --classic --json"),
            (
                "scibench2 -client -rn 4 -size 64 -json x",
                "tieline bench scibench2 --classic --client --rn 4 --sizes 64 --json-file x",
            ),
            ("dma_bench -server -rn 8", "tieline bench dma --classic --server --rn 8"),
            ("intr_bench -client -rn 4 -json", "tieline bench intr --classic --client --rn 4 --json"),
            ("dis_diag -V 9 -clear -prod", "tieline diag --classic -V 9 --clear --prod"),
            ("latency_bench -client -rn 4", "tieline bench latency --classic --client --rn 4"),
            ("tieline bench jitter -server -rn 8", "tieline bench jitter --server --rn 8"),
            ("disinfo get-nodeid -hostname a", "tieline query --brief --host a"),
            ("dis_config -gn", "tieline query --card"),
            ("sciconntest -t 5", "tieline conntest -t 5"),
            ("query -json", "tieline query --json"),
            ("dis_ssocks_run --help", "tieline run --help"),
        ] {
            assert_eq!(translate(words(classic)), words(ours), "{classic}");
        }
    }

    #[test]
    fn classic_options_are_understood_behind_the_command_itself() {
        let call = translate(words("tieline --quiet bench scipp -size 4 -client --rn 8"));
        assert_eq!(call, words("tieline --quiet bench scipp --size 4 --client --rn 8"));
        assert_eq!(translate(words("tieline diag -clear")), words("tieline diag --clear"));
    }

    #[test]
    fn anything_else_is_left_alone() {
        for plain in [
            "target/debug/tieline status -json",
            "tieline -clear up",
            "tieline bench limits -size 4",
            "tieline -q run diag -clear",
        ] {
            assert_eq!(translate(words(plain)), words(plain));
        }
    }

    #[test]
    fn what_the_table_says_exists() {
        use clap::CommandFactory;
        for classic in &CLASSICS {
            let mut command = crate::args::Cli::command();
            command.build();
            for name in classic.command {
                command = command.find_subcommand(name).unwrap().clone();
            }
            let has =
                |long: &str| command.get_arguments().any(|arg| arg.get_long() == long.strip_prefix("--"));
            let ours = classic.words.iter().map(|(_, ours)| ours).chain(classic.implied);
            let file = (classic.command.first() == Some(&"bench")).then_some(&JSON_FILE);
            for option in ours.chain(file) {
                assert!(has(option), "{} {option}", classic.name);
            }
        }
    }
}
