//! Facts that deviate from rules and from those of other hosts.

use super::rules::parse;
use super::*;

fn facts(pairs: &[(&str, &str)]) -> Facts {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn found(hosts: &[&[(&str, &str)]], rules: &str) -> Vec<(String, String, String, Expected)> {
    let all: Vec<(String, Facts)> =
        hosts.iter().enumerate().map(|(number, pairs)| (format!("n{number}"), facts(pairs))).collect();
    let all: Vec<(&str, &Facts)> = all.iter().map(|(host, facts)| (host.as_str(), facts)).collect();
    let found = deviations(&all, &parse(rules).unwrap());
    found.into_iter().map(|one| (one.hosts.join(" "), one.fact, one.value, one.expected)).collect()
}

fn most(value: &str, have: usize, of: usize) -> Expected {
    Expected::Majority { value: value.into(), have, of }
}

#[test]
fn who_deviates_from_the_majority_is_named() {
    let usual: &[(&str, &str)] = &[("kernel", "6.1"), ("nic.eth0.speed_mbit", "100000")];
    let slow = &[("kernel", "6.1"), ("nic.eth0.speed_mbit", "10000")];
    assert_eq!(found(&[usual, usual, usual], ""), []);
    assert_eq!(
        found(&[usual, slow, usual, &[("kernel", "5.9")], usual], ""),
        [
            ("n3".into(), "kernel".into(), "5.9".into(), most("6.1", 4, 5)),
            ("n1".into(), "nic.eth0.speed_mbit".into(), "10000".into(), most("100000", 3, 5)),
            ("n3".into(), "nic.eth0.speed_mbit".into(), "none".into(), most("100000", 3, 5)),
        ]
    );
    let two = found(&[&[("os", "a")], &[("os", "b")]], "");
    assert!(two.len() == 2 && two.iter().all(|one| one.3 == Expected::NoMajority), "{two:?}");
    let late: &[(&str, &str)] = &[("clock", "7 s behind")];
    assert_eq!(
        found(&[late, late], ""),
        [("n0 n1".into(), "clock".into(), "7 s behind".into(), most("as here", 0, 2))]
    );
}

#[test]
fn rules_decide_where_there_are_some() {
    let one: &[(&str, &str)] = &[
        ("memory.gib", "251"),
        ("limit.locked_memory", "unlimited"),
        ("nic.a.pcie_speed", "16.0 GT/s PCIe"),
    ];
    let two: &[(&str, &str)] =
        &[("memory.gib", "125"), ("limit.locked_memory", "8192"), ("nic.b.pcie_speed", "8.0 GT/s PCIe")];
    let rules = "memory.gib >= 250 # GiB\nlimit.locked_memory >= 65536\nnic.*.pcie_speed >= 16\n";
    let named = |all: Vec<(String, String, String, Expected)>| {
        all.into_iter().map(|(hosts, fact, value, _)| format!("{hosts} {fact} {value}")).collect::<Vec<_>>()
    };
    assert_eq!(
        named(found(&[one, two], rules)),
        ["n1 memory.gib 125", "n1 limit.locked_memory 8192", "n1 nic.b.pcie_speed 8.0 GT/s PCIe"]
    );
    assert_eq!(named(found(&[one, one], "ib.*.state = 4: ACTIVE")), ["n0 n1 ib.*.state none"]);
    assert_eq!(named(found(&[one, two], "ignore *")), [""; 0]);
    for (text, line, why) in [
        ("memory.gib>=250", 1, "write it as in"),
        ("\nmemory.gib > 250", 2, "compare with"),
        ("memory.gib >= much", 1, "give a number"),
    ] {
        let (at, said) = parse(text).unwrap_err();
        assert!(at == line && said.contains(why), "{text}: {at}: {said}");
    }
}

#[test]
fn a_clock_is_right_within_the_time_of_the_connection() {
    let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
    let clock = |theirs: &str| compared(theirs, at(1000), at(1010), Duration::from_secs(3));
    assert_eq!(
        ["1006", "1011", "1005", "1012", "x"].map(clock),
        ["as here", "as here", "2 s behind", "2 s ahead", "x"]
    );
}
