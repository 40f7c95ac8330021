//! Commands in advice, for the cluster that the command line names: a printed command must act on the same
//! cluster. What the environment names is not repeated.

use std::borrow::Cow;
use std::sync::OnceLock;

use node_client::runtime_dir::{DEFAULT_CLUSTER, ENV_CLUSTER};

/// The cluster, if it is not the one that commands act on without a word.
static CLUSTER: OnceLock<String> = OnceLock::new();

/// Commands that belong to no cluster.
const OF_NONE: [&str; 7] = ["clusters", "fabric", "fleet", "run", "sockets", "tune", "help"];
/// And of `bench`.
const BENCH_OF_NONE: [&str; 5] = ["acceptance", "compare", "compare-builds", "limits", "thresholds"];
/// How a command begins in a text.
const BEGINS: &str = "`tieline ";

/// From here on advice is for the cluster of the command line.
pub(crate) fn is_for(cluster: Option<&str>) {
    let usual = std::env::var(ENV_CLUSTER).ok().filter(|name| !name.is_empty());
    let usual = usual.as_deref().unwrap_or(DEFAULT_CLUSTER);
    if let Some(cluster) = cluster.filter(|cluster| *cluster != usual) {
        // Only the first counts, and a command line is read once.
        let _ = CLUSTER.set(cluster.to_owned());
    }
}

/// The text with `--cluster` in each command that needs it.
pub(crate) fn complete(text: &str) -> Cow<'_, str> {
    match CLUSTER.get() {
        Some(cluster) => with_cluster(text, cluster),
        None => text.into(),
    }
}

fn with_cluster<'a>(text: &'a str, cluster: &str) -> Cow<'a, str> {
    if !text.contains(BEGINS) {
        return text.into();
    }
    let mut complete = String::with_capacity(text.len() + 64);
    let mut rest = text;
    while let Some(at) = rest.find(BEGINS) {
        let (before, behind) = rest.split_at(at + 1);
        complete.push_str(before);
        let end = behind.find('`').unwrap_or(behind.len());
        let commands = behind[..end].split("; ").map(|command| {
            if !needs_it(command) {
                return command.to_owned();
            }
            // What stands behind it are the words of another program.
            match command.split_once(" -- ") {
                Some((ours, others)) => format!("{ours} --cluster {cluster} -- {others}"),
                None => format!("{command} --cluster {cluster}"),
            }
        });
        complete.push_str(&commands.collect::<Vec<_>>().join("; "));
        rest = &behind[end..];
    }
    complete.push_str(rest);
    complete.into()
}

/// Whether a command acts on a cluster, and does not name it.
fn needs_it(command: &str) -> bool {
    let mut words = command.split_whitespace();
    if words.next() != Some("tieline") || command.contains("--cluster") || command.contains("--help") {
        return false;
    }
    match words.next() {
        Some("verify") => command.contains("--running") || command.contains("--health"),
        Some("cluster") => words.next() != Some("join"),
        Some("bench") => words.next().is_some_and(|word| !BENCH_OF_NONE.contains(&word)),
        Some(word) => !OF_NONE.contains(&word) && !word.starts_with('-'),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_in_a_text_name_the_cluster_once() {
        let of = |text: &str| with_cluster(text, "lab").into_owned();
        assert_eq!(
            of("bring it up with `tieline link up 4 8`"),
            "bring it up with `tieline link up 4 8 --cluster lab`"
        );
        let both = "`tieline up --nodes 9 --cluster lab; tieline verify --running --cluster lab`";
        assert_eq!(of("`tieline up --nodes 9; tieline verify --running`"), both);
        assert_eq!(of(both), both);
        for same in [
            "no command",
            "`tieline clusters` lists them",
            "`tieline verify`",
            "`tieline bench thresholds`",
            "`tieline up --help`",
            "`tieline",
            "`tieline `",
            "`make`; tieline status",
        ] {
            assert_eq!(of(same), same);
        }
        assert_eq!(
            of("see `tieline status`, `tieline bench scipp`"),
            "see `tieline status --cluster lab`, `tieline bench scipp --cluster lab`"
        );
        assert_eq!(of("`tieline on host1 -- ls -l`"), "`tieline on host1 --cluster lab -- ls -l`");
        assert_eq!(of("cut off: `tieline status"), "cut off: `tieline status --cluster lab");
    }
}
