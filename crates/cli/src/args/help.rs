//! Changes to the text of `--help`: it lists what an option cannot be combined with, and leaves out
//! common options that a command refuses. Both are derived from the declarations of the options, so
//! that the text is always up to date.

use std::collections::BTreeMap;

use clap::{Arg, Command, CommandFactory};

use super::{Cli, exit_help};

/// Common options that a command never uses; `meaning` refuses them with the reason.
const MEANINGLESS: [(&[&str], &[&str]); 49] = [
    (&["up"], &["node"]),
    (&["down"], &["node"]),
    (&["on"], &["node"]),
    (&["link"], &["node"]),
    (&["clusters"], &["node", "cluster"]),
    (&["tune"], &["node", "cluster"]),
    // `--cluster` is of use with `--running`.
    (&["verify"], &["node"]),
    (&["cluster", "renew"], &["runtime_dir"]),
    (&["cluster", "show"], &["node", "runtime_dir"]),
    (&["cluster", "init"], &["runtime_dir"]),
    (&["cluster", "token"], &["runtime_dir"]),
    (&["cluster", "join"], &["cluster", "runtime_dir"]),
    (&["cluster", "revoke"], &["node"]),
    (&["run"], &["node", "cluster"]),
    (&["sockets"], &["node", "cluster"]),
    (&["sockets", "status"], &["node", "cluster"]),
    (&["sockets", "stat"], &["node", "cluster"]),
    (&["fleet"], &["node", "cluster", "runtime_dir"]),
    (&["fleet", "run"], &["node", "cluster", "runtime_dir"]),
    (&["fleet", "ping"], &["node", "cluster", "runtime_dir"]),
    (&["fleet", "copy"], &["node", "cluster", "runtime_dir"]),
    (&["fleet", "fetch"], &["node", "cluster", "runtime_dir"]),
    (&["fleet", "verify"], &["node", "cluster", "runtime_dir"]),
    (&["fleet", "report"], &["node", "cluster", "runtime_dir"]),
    (&["fleet", "setup-ssh"], &["node", "cluster", "runtime_dir"]),
    (&["fleet", "install"], &["node", "cluster", "runtime_dir"]),
    (&["fleet", "upgrade"], &["node", "cluster", "runtime_dir"]),
    (&["fleet", "reboot"], &["node", "cluster", "runtime_dir"]),
    (&["fleet", "menu"], &["node", "cluster", "runtime_dir"]),
    (&["fleet", "close"], &["node", "cluster", "runtime_dir"]),
    (&["bench", "compare"], &["node", "cluster", "runtime_dir"]),
    (&["bench", "compare-builds"], &["node", "cluster", "runtime_dir"]),
    (&["bench", "thresholds"], &["node", "cluster", "runtime_dir"]),
    (&["bench", "hosts"], &["node"]),
    (&["bench", "limits"], &["node", "cluster", "runtime_dir"]),
    (&["bench", "acceptance"], &["node", "cluster"]),
    (&["fabric"], &["node", "cluster", "runtime_dir"]),
    (&["fabric", "observe"], &["node", "cluster", "runtime_dir"]),
    (&["fabric", "serve"], &["node", "cluster", "runtime_dir"]),
    (&["fabric", "manage"], &["node", "cluster", "runtime_dir"]),
    (&["fabric", "route"], &["node", "cluster", "runtime_dir"]),
    (&["fabric", "quality"], &["node", "cluster", "runtime_dir"]),
    (&["fabric", "check"], &["node", "cluster", "runtime_dir"]),
    (&["fabric", "drain"], &["node", "cluster", "runtime_dir"]),
    (&["fabric", "compare"], &["node", "cluster", "runtime_dir"]),
    (&["fabric", "diff"], &["node", "cluster", "runtime_dir"]),
    (&["fabric", "convert"], &["node", "cluster", "runtime_dir"]),
    (&["fabric", "draw"], &["node", "cluster", "runtime_dir"]),
    (&["fabric", "generate"], &["node", "cluster", "runtime_dir"]),
];

/// Options that a command refuses although it shares them with others of its group.
const REFUSED: [(&[&str], &str); 1] = [(&["fleet", "verify"], "resume")];

/// The help of a common option for a command to which it means something else.
const OTHERWISE: [(&[&str], &str, &str); 20] = [
    (&["status"], "node", ALL_NODES),
    (
        &["cable"],
        "node",
        "Only this node, not for a plan (--generate, --save); not taken from TIELINE_NODE, which says where programs attach [default: all nodes]",
    ),
    (&["diag"], "node", ALL_NODES),
    (&["conntest"], "node", ALL_NODES),
    (
        &["node"],
        "node",
        "The node [env: TIELINE_NODE] [default: this host's, if it has joined a cluster of several hosts; `node run` takes `id` under [node] in the configuration before]",
    ),
    (
        &["node", "run"],
        "node",
        "The node [env: TIELINE_NODE] [default: `id` under [node] in the configuration, else this host's, if it has joined a cluster of several hosts]",
    ),
    (&["node", "start"], "node", ONE_NODE),
    (&["node", "stop"], "node", ONE_NODE),
    (&["node", "restart"], "node", ONE_NODE),
    (&["node", "status"], "node", ONE_NODE),
    (
        &["bench"],
        "node",
        "Node of this end, for a benchmark between two nodes [env: TIELINE_NODE] [default: the only one]",
    ),
    (&["bench", "pt2pt"], "node", "With --rn: node of this end [env: TIELINE_NODE] [default: the only one]"),
    (
        &["bench", "pt2pt"],
        "cluster",
        "With --rn: name of the cluster [env: TIELINE_CLUSTER] [default: tieline]",
    ),
    (&["bench", "pt2pt"], "runtime_dir", "With --rn: directory of the cluster's sockets"),
    (&["on"], "json", "Print an error of `tieline on` itself as JSON; the command's output is not changed"),
    (&["run"], "json", "Print an error of `tieline run` itself as JSON; the program's output is not changed"),
    (
        &["cluster", "init"],
        "node",
        "ID of this host's node; not taken from TIELINE_NODE, which says where programs attach [default: 4]",
    ),
    (
        &["cluster", "token"],
        "node",
        "Node that may use the token; not taken from TIELINE_NODE, which says where programs attach [default: any new node]",
    ),
    (
        &["cluster", "leave"],
        "node",
        "The node that leaves; not taken from TIELINE_NODE, which says where programs attach [default: the only node of this host]",
    ),
    (
        &["cluster", "join"],
        "node",
        "ID of this host's node; not taken from TIELINE_NODE, which says where programs attach [default: the token's, else the next free one]",
    ),
];
const ALL_NODES: &str =
    "Only this node; not taken from TIELINE_NODE, which says where programs attach [default: all nodes]";
const ONE_NODE: &str =
    "The node [env: TIELINE_NODE] [default: this host's, if it has joined a cluster of several hosts]";

/// The command line, with its help complete.
pub(crate) fn command() -> Command {
    let plain = Cli::command();
    // Only built commands know the common options.
    let mut built = plain.clone();
    built.build();
    let common = plain.get_arguments().filter(|arg| arg.is_global_set()).cloned();
    let common: Vec<Arg> = common.map(with_negative_numbers).collect();
    complete(plain, &built, &mut Vec::new(), &common)
}

fn complete(mut command: Command, built: &Command, path: &mut Vec<String>, common: &[Arg]) -> Command {
    for (id, others) in conflicts(built) {
        // The help of a common option is the same for all commands, so it lists no conflicts.
        if common.iter().all(|arg| arg.get_id() != id.as_str()) {
            command = command.mut_arg(id, |arg| {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                arg.help(with_others(&help, &others))
            });
        }
    }
    let ids: Vec<_> = command.get_arguments().map(|arg| arg.get_id().clone()).collect();
    for id in ids {
        command = command.mut_arg(id, with_negative_numbers);
    }
    for (_, id) in REFUSED.iter().filter(|(of, _)| path.iter().eq(of.iter())) {
        command = command.mut_arg(*id, |arg| arg.hide(true));
    }
    let hidden = MEANINGLESS.iter().find(|(of, _)| path.iter().eq(of.iter())).map_or(&[][..], |(_, ids)| ids);
    for arg in common.iter().filter(|arg| hidden.contains(&arg.get_id().as_str())) {
        command = command.arg(arg.clone().hide(true));
    }
    for (_, id, help) in OTHERWISE.iter().filter(|(of, ..)| path.iter().eq(of.iter())) {
        if let Some(arg) = common.iter().find(|arg| arg.get_id() == id) {
            command = command.arg(arg.clone().help(*help));
        }
    }
    if let Some(statuses) = exit_help::of(path) {
        let help = command.get_after_help().map(|help| format!("{help}\n\n")).unwrap_or_default();
        command = command.after_help(format!("{help}Exit status: {statuses}"));
    }
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    for name in names {
        let Some(built) = built.find_subcommand(&name) else { continue };
        path.push(name.clone());
        command = command.mut_subcommand(name, |sub| complete(sub, built, path, common));
        path.pop();
    }
    command
}

/// A negative number behind an option is its value, whose error is of more help than an unknown option -1 is.
/// The words of another program stay as they are.
fn with_negative_numbers(arg: Arg) -> Arg {
    let is_value = arg.get_action().takes_values() && !arg.is_trailing_var_arg_set();
    if is_value { arg.allow_negative_numbers(true) } else { arg }
}

/// By option: the options that it cannot be combined with, whichever of the two declares it.
fn conflicts(built: &Command) -> BTreeMap<String, Vec<String>> {
    // The help of such an option names the option that it needs.
    let goes_with = |arg: &Arg| arg.get_help().is_some_and(|help| help.to_string().starts_with("With --"));
    let shown = |arg: &&Arg| !arg.is_hide_set() && arg.get_long().is_some() && !goes_with(arg);
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for arg in built.get_arguments().filter(|arg| !arg.is_global_set()).filter(shown) {
        for other in built.get_arg_conflicts_with(arg).into_iter().filter(shown) {
            for (of, with) in [(arg, other), (other, arg)] {
                let list = all.entry(of.get_id().to_string()).or_default();
                let name = format!("--{}", with.get_long().unwrap_or_default());
                if !list.contains(&name) {
                    list.push(name);
                }
            }
        }
    }
    all
}

/// Before the default, which comes last.
fn with_others(help: &str, others: &[String]) -> String {
    let at = help.find(" [default:").unwrap_or(help.len());
    format!("{} (not with {}){}", &help[..at], others.join(", "), &help[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command that these words name, as its help shows it.
    fn of(path: &[&str]) -> Command {
        let mut root = command();
        root.build();
        let found = path.iter().try_fold(&root, |command, word| command.find_subcommand(word));
        found.unwrap_or_else(|| panic!("no command {path:?}")).clone()
    }

    #[test]
    fn commands_with_a_verdict_say_which_exit_statuses_they_have() {
        let said = |path: &[&str]| {
            let help = of(path).render_long_help().to_string();
            let at = help.find("Exit status: ").unwrap_or_else(|| panic!("{path:?}: {help}"));
            help[at..].lines().collect::<Vec<_>>().join(" ")
        };
        for path in [["verify"], ["diag"], ["conntest"]] {
            let wanted = "0 passed, 1 a check failed, 2 wrong usage or configuration, 3 inconclusive, 4 could not run.";
            assert!(said(&path).contains(wanted), "{path:?}: {}", said(&path));
        }
        // These two have nothing that could be inconclusive.
        assert!(
            said(&["status"]).contains("0 passed, 1 a check failed, 2 wrong usage or configuration, 4 could")
        );
        assert!(said(&["up"]).contains("0 done, 2 wrong usage or configuration, 4 could not run."));
    }

    #[test]
    fn every_help_says_the_exit_status_once() {
        let of_each =
            |path: &[&str]| of(path).render_long_help().to_string().matches("Exit status: ").count();
        assert_eq!(of_each(&[]), 1);
        for (path, _) in all() {
            let names: Vec<&str> = path.iter().map(String::as_str).collect();
            for len in 1..=names.len() {
                assert_eq!(of_each(&names[..len]), 1, "{names:?}");
            }
        }
    }

    #[test]
    fn every_example_can_be_pasted() {
        let mut seen = 0;
        for (path, _) in all() {
            let names: Vec<&str> = path.iter().map(String::as_str).collect();
            for len in 0..=names.len() {
                let help = of(&names[..len]).get_after_help().map(ToString::to_string).unwrap_or_default();
                let examples = help.strip_prefix("Examples:\n").and_then(|rest| rest.split("\n\n").next());
                for line in examples.unwrap_or_default().lines() {
                    let comment = line.trim_start().split_once("   ").map(|(_, rest)| rest.trim_start());
                    assert!(comment.is_none_or(|comment| comment.starts_with("# ")), "{names:?}: {line}");
                    seen += usize::from(comment.is_some());
                }
            }
        }
        assert!(seen > 50, "only {seen} comments");
    }

    /// `TIELINE_NODE` of a shell says where its programs attach.
    #[test]
    fn options_that_the_environment_does_not_fill_in_say_why() {
        for path in [
            &["status"][..],
            &["cable"],
            &["diag"],
            &["conntest"],
            &["cluster", "init"],
            &["cluster", "join"],
        ] {
            let help = of(path).render_long_help().to_string().replace('\n', " ");
            let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(
                help.contains("not taken from TIELINE_NODE, which says where programs attach"),
                "{path:?}: {help}"
            );
        }
    }

    fn is_shown(command: &Command, id: &str) -> bool {
        command.get_arguments().any(|arg| arg.get_id() == id && !arg.is_hide_set())
    }

    /// All commands that do something, with what they need besides.
    fn all() -> Vec<(Vec<String>, Vec<String>)> {
        fn below(command: &Command, path: &[String], found: &mut Vec<(Vec<String>, Vec<String>)>) {
            for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
                let path = [path, &[sub.get_name().to_owned()]].concat();
                if sub.has_subcommands() {
                    below(sub, &path, found);
                    continue;
                }
                let fleet = path.len() > 1 && path[0] == "fleet";
                let fabric = path.len() > 1 && path[0] == "fabric";
                let words = match sub.get_name() {
                    "copy" if fleet => "a b",
                    "fetch" | "run" | "install" | "upgrade" if fleet => "a",
                    "serve" | "route" if fabric => "a.toml",
                    "drain" if fabric => "a.toml leaf",
                    "compare" | "diff" | "convert" | "draw" if fabric => "a.toml b.toml",
                    "generate" if fabric => "a.toml hypercube 5",
                    "degrade" => "4 8 --loss 1%",
                    "down" | "up" | "flap" | "swap" if path.len() > 1 => "4 8",
                    "compare" | "compare-builds" => "a.json b.json",
                    "run" if path.len() == 1 => "true",
                    "on" => "host1 true",
                    "init" => "--address 10.0.0.1",
                    "join" | "leave" => "10.0.0.1",
                    "revoke" => "8",
                    _ => "",
                };
                found.push((path, words.split_whitespace().map(str::to_owned).collect()));
            }
        }
        let mut root = command();
        root.build();
        let mut found = Vec::new();
        below(&root, &[], &mut found);
        found
    }

    #[test]
    fn what_a_command_refuses_is_not_in_its_help_and_all_else_is() {
        let commands = all();
        assert!(commands.len() > 25, "{commands:?}");
        for (path, words) in commands {
            let names: Vec<&str> = path.iter().map(String::as_str).collect();
            let command = of(&names);
            for (id, option, value) in [
                ("node", "--node", "4"),
                ("cluster", "--cluster", "x"),
                ("runtime_dir", "--runtime-dir", "/x"),
            ] {
                let given = [option, value].map(str::to_owned);
                // Before the words: behind those of `run` they would be a program's.
                let line = [&["tieline".to_owned()][..], &path, &given, &words].concat();
                let cli = crate::args::parse(line).unwrap_or_else(|error| panic!("{path:?}: {error}"));
                // What some words of a command make a use of is shown.
                let is_sometimes = names == ["bench", "pt2pt"] || names == ["verify"] && id == "cluster";
                let refused = crate::meaning::check(&cli).is_err() && !is_sometimes;
                assert_eq!(is_shown(&command, id), !refused, "{path:?} {option}");
            }
        }
    }

    #[test]
    fn every_conflict_stands_in_the_help_of_both() {
        for (path, option, words) in [
            (&["verify"][..], "quick", "(not with --thorough, --health, --thresholds, --baseline, --from)"),
            (&["verify"], "bundle", "(not with --from)"),
            (&["verify"], "nodes", "--running"),
            (&["cable"], "plan", "(not with --generate, --save)"),
            (&["cable"], "save", "(not with --plan, --generate)"),
            (&["bench", "jitter"], "client", "(not with --server)"),
            (&["diag"], "all", "(not with --node)"),
        ] {
            let command = of(path);
            let arg = command.get_arguments().find(|arg| arg.get_id() == option).unwrap();
            let help = arg.get_help().unwrap().to_string();
            assert!(help.contains("(not with ") && help.contains(words), "{path:?} --{option}: {help}");
        }
        assert_eq!(with_others("All [default: 1]", &["--x".into()]), "All (not with --x) [default: 1]");
    }

    /// Of a group of commands those options are left out that each of them refuses.
    #[test]
    fn what_all_commands_of_a_group_refuse_is_not_in_the_help_of_the_group() {
        let mut groups = 0;
        let mut root = command();
        root.build();
        for group in root.get_subcommands().filter(|command| command.has_subcommands()) {
            groups += 1;
            for id in ["node", "cluster", "runtime_dir"] {
                let any = group
                    .get_subcommands()
                    .filter(|sub| sub.get_name() != "help")
                    .any(|sub| is_shown(sub, id));
                assert_eq!(is_shown(group, id), any, "{} {id}", group.get_name());
            }
        }
        assert!(groups >= 4);
    }

    #[test]
    fn common_options_stand_under_a_heading_of_their_own() {
        for path in [&["up"][..], &["fabric", "observe"], &["node", "run"], &["run"]] {
            let help = of(path).render_long_help().to_string();
            let (own, common) =
                help.split_once("\nCommon options:\n").unwrap_or_else(|| panic!("{path:?}: {help}"));
            assert!(common.contains("--config") && common.contains("--json"), "{path:?}: {help}");
            assert!(!own.contains("--config <FILE>"), "{path:?}: {help}");
        }
    }

    /// `fleet verify` compares all hosts, and leaves none out.
    #[test]
    fn the_help_of_fleet_verify_names_no_option_that_it_refuses() {
        assert!(is_shown(&of(&["fleet", "run"]), "resume"));
        assert!(!is_shown(&of(&["fleet", "verify"]), "resume"));
    }

    /// A copy of a common option is given on as the option itself is.
    #[test]
    fn hidden_options_are_still_understood() {
        for line in [&["tieline", "up", "--node", "8"][..], &["tieline", "--node", "8", "up"]] {
            let cli = crate::args::parse(line.iter().copied()).unwrap();
            assert_eq!(cli.common.node.map(tieline::NodeId::get), Some(8), "{line:?}");
        }
    }
}
