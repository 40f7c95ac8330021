//! What is understood, and what is refused with file, line and key.

use super::document::{apply, gid_of};
use super::*;

fn read(text: &str) -> Result<Settings, String> {
    let mut settings = Settings::default();
    apply(&mut settings, Path::new("t.toml"), text).map_err(|error| error.to_string())?;
    Ok(settings)
}

#[test]
fn nothing_configured_is_the_default() {
    assert_eq!(read("").unwrap(), Settings::default());
    assert_eq!(Settings::default().sharing(), Sharing::default());
}

#[test]
fn later_files_override_key_by_key() {
    let mut settings = Settings::default();
    let first = "[node]\nid = 8\nname = \"a\"\n[manager]\nheartbeat_interval_ms = 100\nmax_segments = 7\nagents = false\nrelay = true\n";
    apply(&mut settings, Path::new("1"), first).unwrap();
    let second = "[node]\nname = \"b\"\n[access]\ngroup = 5\nuids = [1, 2]\n";
    apply(&mut settings, Path::new("2"), second).unwrap();
    assert_eq!(settings.id, NodeId::new(8).ok());
    assert_eq!(settings.name.as_deref(), Some("b"));
    assert_eq!(settings.heartbeat_interval, Duration::from_millis(100));
    assert_eq!(settings.limits.segments, Some(7));
    assert!(!settings.agents && Settings::default().agents);
    assert!(settings.relay && !Settings::default().relay);
    assert_eq!(settings.attach, Access { uids: vec![1, 2], gid: Some(5) });
    assert_eq!(settings.sharing(), Sharing { gid: Some(5), uids: settings.attach.uids.clone() });
}

#[test]
fn errors_name_file_line_key_and_what_is_wrong() {
    for (text, expected) in [
        (
            "[node]\n\nnmae = \"x\"\n",
            "t.toml, line 3, node.nmae: unknown field `nmae`, expected one of `id`, `name`, `rails`: \
             correct it, or name another configuration with --config",
        ),
        (
            "[manager]\nheartbeat_limit_ms = \"5s\"\n",
            "t.toml, line 2, manager.heartbeat_limit_ms: \"5s\" is not a whole number: \
             correct it, or name another configuration with --config",
        ),
        (
            "[node]\nid = -4\n",
            "t.toml, line 2, node.id: -4 is not possible: give a number from 0 to 4294967295: \
             correct it, or name another configuration with --config",
        ),
        (
            "[faults]\nenabled = 1\n",
            "t.toml, line 2, faults.enabled: 1 is neither true nor false: \
             correct it, or name another configuration with --config",
        ),
        (
            "[node]\nname = 5\n",
            "t.toml, line 2, node.name: 5 is not a text in quotes: \
             correct it, or name another configuration with --config",
        ),
        (
            "[node]\nrails = \"10.0.0.1\"\n",
            "t.toml, line 2, node.rails: \"10.0.0.1\" is not a list in brackets: \
             correct it, or name another configuration with --config",
        ),
        (
            "[node]\nid = 6\n",
            "t.toml, line 2, node.id: 6 is not a node ID: use a multiple of 4 from 4 to 16384, except 252 \
             (the broadcast group): correct it, or name another configuration with --config",
        ),
        (
            "[access]\ngroup = [1]\n",
            "t.toml, line 2, access.group: a group's name or number is needed: \
             correct it, or name another configuration with --config",
        ),
        (
            "[mangler]\n",
            "t.toml, line 1: unknown field `mangler`, expected one of `node`, `manager`, `faults`, `access`: \
             correct it, or name another configuration with --config",
        ),
        (
            "[manager]\nheartbeat_interval_ms = 400\nheartbeat_limit_ms = 500\n",
            "t.toml, line 3, manager.heartbeat_limit_ms: 500 ms is less than twice the heartbeat interval (400 ms), so that \
             one late heartbeat would lose a session: correct it, or name another configuration with --config",
        ),
        (
            "[manager]\nmax_programs = 0\n",
            "t.toml, line 2, manager.max_programs: must be at least 1: correct it, or name another configuration with --config",
        ),
        (
            "[access]\ngroup = \"no-such-group\"\n",
            "t.toml, line 2, access.group: `no-such-group` is not in /etc/group (a group's number is possible, too): \
             correct it, or name another configuration with --config",
        ),
        (
            "[node]\nname = \"\"\n",
            "t.toml, line 2, node.name: 0 bytes, but 1 to 64 are possible: correct it, or name another configuration with --config",
        ),
        (
            "# a name\n[node]\n\nname = \"a\\u001bb\"\n",
            "t.toml, line 4, node.name: the character U+001B is possible in no name: it would confuse terminals: \
             correct it, or name another configuration with --config",
        ),
        (
            "[manager]\nheartbeat_interval_ms = 9\n",
            "t.toml, line 2, manager.heartbeat_interval_ms: must be at least 10: correct it, or name another configuration with --config",
        ),
        (
            "manager.max_programs = 0\n",
            "t.toml, line 1, manager.max_programs: must be at least 1: correct it, or name another configuration with --config",
        ),
    ] {
        assert_eq!(read(text).unwrap_err(), expected);
    }
    let broken = read("[node\n").unwrap_err();
    assert!(broken.starts_with("t.toml, line 1"), "{broken}");
}

#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    let dir = std::env::temp_dir().join(format!("tieline-config-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let refused = |path: &Path| load(Some(path)).unwrap_err().to_string();
    assert!(refused(&dir).contains("holds no file named *.toml"), "{}", refused(&dir));
    assert!(refused(Path::new("/dev/zero")).contains("not a regular file"));
    let pipe = dir.join("pipe.toml");
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, 0o600.into(), 0).unwrap();
    // Both by its own name and in a directory of files.
    for path in [&pipe, &dir] {
        assert!(refused(path).contains("pipe.toml cannot be read: it is not a regular file"));
    }
    std::fs::remove_file(&pipe).unwrap();
    std::fs::create_dir(dir.join("x.toml")).unwrap();
    assert!(refused(&dir).contains("x.toml cannot be read: it is not a regular file"));
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn group_names_are_looked_up() {
    assert_eq!(gid_of("lab", "root:x:0:\nlab:x:77:a,b\n"), Some(77));
    assert_eq!(gid_of("la", "root:x:0:\nlab:x:77:a,b\n"), None);
}

#[test]
fn default_limits_fit_the_descriptors() {
    for descriptors in [64, 1024, 20_000, 1 << 20] {
        let limits = limits(&LimitSettings::default(), descriptors);
        let worst = limits.programs * 2 + limits.segments + limits.interrupts * 3;
        assert!(worst <= descriptors * 3 / 4 + 32, "{descriptors}: {worst}");
    }
}

#[test]
fn rails_are_up_to_four_addresses_each_once() {
    let rails = |text: &str| read(&format!("[node]\nrails = {text}\n")).map(|settings| settings.rails);
    let two: [IpAddr; 2] = [[10, 77, 0, 1].into(), "fd00::1".parse().unwrap()];
    assert_eq!(rails("[\"10.77.0.1\", \"fd00::1\"]").unwrap(), two);
    for (wrong, why) in [
        ("[]", "0 addresses, but 1 to 4 are possible"),
        ("[\"10.0.0.1\", \"10.0.0.2\", \"10.0.0.3\", \"10.0.0.4\", \"10.0.0.5\"]", "5 addresses"),
        ("[\"10.0.0.1\", \"10.0.0.1\"]", "10.0.0.1 is named twice"),
        ("[\"0.0.0.0\"]", "0.0.0.0 is not an address of an interface"),
        ("[\"eth0\"]", "line 2, node.rails: `eth0` is not an IP address: correct it"),
    ] {
        let error = rails(wrong).unwrap_err();
        assert!(error.contains(why), "{wrong}: {error}");
    }
}
