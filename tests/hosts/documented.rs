//! The commands of docs/hosts.md that make two hosts a cluster, as they stand there.

use std::io::Write;
use std::process::Stdio;

use tieline_tests::Watchdog;

use crate::lab::{Host, see_each_other, two_machines};

const TEXT: &str = include_str!("../../docs/hosts.md");
/// The first host's address there.
const ADDRESS: &str = "10.0.0.1";

/// The blocks of commands of a section.
fn blocks(section: &str) -> Vec<Vec<&'static str>> {
    let section = TEXT.split("\n## ").find_map(|text| text.strip_prefix(section)).unwrap();
    let blocks = section.split("\n```sh\n").skip(1);
    blocks.map(|text| text.split_once("\n```").unwrap().0.lines().collect()).collect()
}

/// A line as a shell of that host runs it, with this on standard input: what it prints.
fn types(host: &Host, line: &str, input: &str) -> String {
    let program = tieline_tests::cluster::tieline_binary().unwrap();
    let folder = program.parent().unwrap().to_str().unwrap();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let mut shell = host.command("sh");
    shell.args(["-c", line]).env("PATH", path);
    let mut shell =
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    shell.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = shell.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{line}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn the_commands_of_the_document_make_two_hosts_a_cluster() {
    let _watchdog = Watchdog::usual("the commands of docs/hosts.md");
    let blocks = blocks("Two hosts\n");
    let [on_first, on_second] = blocks.as_slice() else { panic!("{blocks:?}") };
    let ["tieline cluster token"] = on_first[2..] else { panic!("the token comes last: {on_first:?}") };
    let Some((first, second)) = two_machines() else { return };
    let said: Vec<_> =
        on_first.iter().map(|line| types(&first, &line.replace(ADDRESS, &first.address), "")).collect();
    let token = said.last().unwrap();
    let (status, others) = on_second.split_last().unwrap();
    assert!(others.iter().any(|line| line.ends_with("--token -")), "{others:?}");
    for line in others {
        let input = if line.ends_with("--token -") { token.as_str() } else { "" };
        types(&second, &line.replace(ADDRESS, &first.address), input);
    }
    // For a moment after a start there is no session yet, as the document says.
    see_each_other(&first, &second);
    assert_eq!(*status, "tieline status");
    let said = types(&second, status, "");
    assert!(said.contains("node 8: node 4 on ") && said.contains(": session valid, link ofi"), "{said}");
}
