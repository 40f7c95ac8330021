//! Lists of hosts, right and wrong.

use super::*;

/// Reads a list; `more` are other files beside it.
fn with(text: &str, more: &[(&str, &str)]) -> Result<Vec<Line>> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in more {
        std::fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let path = folder.path().join("hosts");
    std::fs::write(&path, text).unwrap();
    let mut reader = Reader::default();
    reader.file(&path)?;
    Ok(reader.finish())
}

fn names(text: &str, more: &[(&str, &str)]) -> Vec<String> {
    with(text, more).unwrap().into_iter().map(|line| line.destination).collect()
}

fn parse(text: &str) -> std::result::Result<Vec<Line>, (usize, String)> {
    with(text, &[]).map_err(|error| match error {
        FleetError::Line { line, why, .. } => (line, why),
        other => panic!("{other}"),
    })
}

#[test]
fn hosts_are_read_with_what_belongs_to_them() {
    let text =
        "# the lab\nalpha\n\n  me@beta  node=12 address=10.0.0.2:7500 # rack 2\n[fd00::3] address=fd00::3\n";
    let lines = parse(text).unwrap();
    let named: Vec<_> = lines.iter().map(|line| line.destination.as_str()).collect();
    assert_eq!(named, ["alpha", "me@beta", "[fd00::3]"]);
    assert_eq!((lines[0].node, &lines[0].address), (None, &None));
    assert_eq!(lines[1].node, NodeId::new(12).ok());
    assert_eq!(lines[1].address.as_deref(), Some("10.0.0.2:7500"));
}

#[test]
fn ranges_groups_and_exclusions_are_hosts() {
    let text = "group rack1 = node[01-03]\ngroup all = @rack1,gpu1\n@all\nlogin[1-2]\n!node02 login2\n";
    assert_eq!(names(text, &[]), ["node01", "node03", "gpu1", "login1"]);
    // An exclusion also holds for what comes after it.
    assert_eq!(names("!b\na,b,c\n", &[]), ["a", "c"]);
}

#[test]
fn included_files_count_from_the_folder_of_the_file() {
    let more = [("more/racks", "include deep/one\nnode2\n"), ("more/deep/one", "node1\n")];
    assert_eq!(names("include more/racks\nnode3\n", &more), ["node1", "node2", "node3"]);
}

#[test]
fn lines_of_etc_hosts_are_hosts_except_this_machine() {
    let text = "127.0.0.1 localhost\n127.0.1.1\tthis\n::1 ip6-localhost\nff02::1 ip6-allnodes\nfe00::0 ip6-localnet\n\
                10.0.0.1 alpha alpha.lan\n10.0.0.2\tbeta # two\nfd00::1 alpha\n10.0.0.9\n";
    assert_eq!(names(text, &[]), ["alpha", "beta", "10.0.0.9"]);
}

#[test]
fn files_that_include_each_other_are_named() {
    let more = [("b", "node1\ninclude c\n"), ("c", "include ./b\n")];
    let said = with("include b\n", &more).unwrap_err();
    assert!(said.is_usage(), "{said}");
    let said = said.to_string();
    assert!(
        said.contains("/c, line 1: files include each other without end (") && said.contains("/b -> "),
        "{said}"
    );
    assert!(!said.contains("hosts -> "), "the outermost file is no part of the cycle: {said}");
    let said = with("include hosts\n", &[]).unwrap_err().to_string();
    assert!(said.contains("hosts -> "), "{said}");
    let said = with("include gone\n", &[]).unwrap_err().to_string();
    assert!(
        said.contains("hosts, line 1: the included file ") && said.contains("/gone cannot be read"),
        "{said}"
    );
}

#[test]
fn a_line_that_is_none_is_named_with_what_to_do() {
    for (text, line, why) in [
        ("alpha\n-oProxyCommand=true", 2, "is no host"),
        ("node=4", 1, "is no host"),
        ("me@-oProxyCommand", 1, "is no host"),
        ("a$(touch)", 1, "is no host"),
        ("!-x", 1, "is no host"),
        ("alpha\n\nalpha", 3, "host `alpha` is listed twice (lines 1 and 3)"),
        ("n[1-3]\nn2", 2, "host `n2` is listed twice (lines 1 and 2)"),
        ("alpha node=4\nbeta node=4", 2, "node 4 is given twice (lines 1 and 2)"),
        ("alpha node=5000000000", 1, "a multiple of 4 from 4 to"),
        ("alpha node=5", 1, "node=5: 5 is not a node ID: use a multiple of 4"),
        ("alpha node=4 node=8", 1, "node= is given twice"),
        ("alpha address=::1 address=::2", 1, "address= is given twice"),
        ("alpha address=here", 1, "it is no IP address"),
        ("alpha address=127.0.0.1:99999", 1, "port 99999 is not possible"),
        ("alpha address=[::1]:0", 1, "port 0 is not possible"),
        ("n[1-2] node=4", 1, "belong to one host"),
        ("alpha beta", 1, "`beta` is not understood"),
        ("alpha rail=2", 1, "`rail=2` is not understood"),
        ("include a b", 1, "`include` takes one file"),
        ("@gone", 1, "there is no group `gone` (known: there is none)"),
        ("group a = x\n@b", 2, "there is no group `b` (known: a)"),
        ("group a = x\ngroup a = y", 2, "group `a` is given twice"),
        ("group a", 1, "a group needs hosts"),
        ("group a/b = c", 1, "is no name for a group"),
        ("!", 1, "no host follows `!`"),
        ("n[2-1]", 1, "ends before it begins"),
    ] {
        let (at, said) = parse(text).unwrap_err();
        assert!(at == line && said.contains(why), "{text:?}: line {at}: {said}");
    }
    assert!(parse("# nobody\n").unwrap().is_empty());
}

#[test]
fn a_file_that_is_missing_or_empty_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hosts");
    assert!(read(&path).unwrap_err().to_string().contains("cannot be read: No such file"));
    std::fs::write(&path, "\n# none\n").unwrap();
    let error = read(&path).unwrap_err();
    assert!(error.is_usage() && error.to_string().contains("names no host"), "{error}");
}
