use std::ffi::OsStr;

use super::*;

#[test]
fn a_program_that_is_not_installed_is_named_with_its_package() {
    let missing = find(("no-such-program-of-tieline", "its-package")).unwrap_err().to_string();
    assert!(
        missing.contains("no-such-program-of-tieline") && missing.contains("package its-package"),
        "{missing}"
    );
    assert!(find(("sh", "dash")).unwrap().is_file());
}

#[test]
fn a_server_is_tied_with_its_own_variables() {
    let mut command = Command::new("/bin/true");
    command.args(["a", "b"]).env("LD_PRELOAD", "/l.so");
    let tied = tied(command);
    if tied.get_program() == "/bin/true" {
        println!("skipped: needs setpriv of util-linux");
        return;
    }
    let words: Vec<&OsStr> = tied.get_args().collect();
    assert_eq!(words, ["--pdeathsig", "KILL", "--", "env", "LD_PRELOAD=/l.so", "/bin/true", "a", "b"]);
    // Not in the environment of the process that starts it.
    assert_eq!(tied.get_envs().count(), 0);
}

#[test]
fn the_plain_side_is_plain() {
    let room = Room::new().unwrap();
    let line = Line { program: ("sh", "dash"), arguments: vec!["-c".to_owned(), "true".to_owned()] };
    let plain = command(&line, None, "client", &room).unwrap();
    let preload = plain.get_envs().find(|(name, _)| *name == "LD_PRELOAD");
    assert_eq!(preload, Some((OsStr::new("LD_PRELOAD"), None)));
}

#[test]
fn the_entered_side_is_entered_with_rings_and_counted_anew() {
    let room = Room::new().unwrap();
    let line = Line { program: ("sh", "dash"), arguments: Vec::new() };
    let entered =
        command(&line, Some(Path::new("/somewhere/libtieline-sockets.so")), "client", &room).unwrap();
    let value = |wanted: &str| {
        let found = entered.get_envs().find(|(name, _)| *name == wanted);
        found.and_then(|(_, value)| value).map(|value| value.to_string_lossy().into_owned())
    };
    assert_eq!(value("LD_PRELOAD").unwrap(), "/somewhere/libtieline-sockets.so");
    assert_eq!(value(sockets_rules::ENV_RINGS).unwrap(), "1");
    let counted = statistics_path(&room, "client");
    assert_eq!(value(sockets_rules::ENV_STATISTICS).unwrap(), counted.display().to_string());
    let mut share = Share::default();
    share.add(&counted).unwrap();
    assert_eq!(share, Share::default());
}
