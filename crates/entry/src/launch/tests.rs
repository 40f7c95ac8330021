use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::prelude::rust_2024::*;

use super::*;

fn options() -> Options {
    Options { library: b"/l/libtieline-sockets.so".into(), ..Options::default() }
}

fn texts(list: &[&str]) -> Vec<Text> {
    list.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn bytes(path: &Path) -> Text {
    path.as_os_str().as_bytes().into()
}

/// A start that outlives what it was made of.
fn kept(start: &Start<'_>) -> Start<'static> {
    Start {
        path: start.path.clone(),
        arguments: start.arguments.to_vec().into(),
        environment: start.environment.to_vec().into(),
        barred: start.barred.clone(),
        likely: start.likely,
    }
}

/// What is tried, if the kernel says these one after another, and what comes of it.
fn tried(words: &[Text], options: &Options, says: &[Errno]) -> (Vec<Start<'static>>, LaunchError) {
    let environment = texts(&["NOEQUALS", "PATH=/nowhere:/bin"]);
    let (mut starts, mut says) = (Vec::new(), says.iter());
    let end = launch(words, &environment, options, |start| {
        starts.push(kept(start));
        Ok::<i32, ()>(says.next().unwrap().raw_os_error())
    });
    assert_eq!(says.next(), None, "{starts:?}");
    (starts, end.unwrap())
}

#[test]
fn each_place_is_tried_and_only_what_is_there_is_entered() {
    let (starts, end) = tried(&texts(&["sh", "-c"]), &options(), &[Errno::NOENT, Errno::NOMEM]);
    assert_eq!(starts[0].path, b"/nowhere/sh");
    assert!(!starts[0].likely && starts[0].environment.len() == 2);
    assert_eq!((&starts[1].path[..], starts[1].likely), (&b"/bin/sh"[..], true));
    assert!(starts[1].environment.len() == 4 && starts[1].barred.is_none());
    assert_eq!((&starts[1].environment[0][..], &starts[1].arguments[1][..]), (&b"NOEQUALS"[..], &b"-c"[..]));
    assert!(matches!(&end, LaunchError::Refused { path, .. } if path == b"/bin/sh"), "{end}");
    assert!(!end.is_not_found());
}

#[test]
fn what_the_kernel_does_not_know_is_the_shells_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "exit 3\n").unwrap();
    std::fs::set_permissions(&text, std::fs::Permissions::from_mode(0o755)).unwrap();
    let text = bytes(&text);
    let words = [text.clone(), b"a".into()];
    // It may be a format that was made known to the kernel.
    let (starts, _) = tried(&words, &options(), &[Errno::ACCESS]);
    assert_eq!((&starts[0].path, &starts[0].arguments[..], starts[0].likely), (&text, &words[..], false));
    let (starts, end) = tried(&words, &options(), &[Errno::NOEXEC, Errno::NOENT]);
    assert_eq!(starts[1].path, b"/bin/sh");
    assert_eq!(*starts[1].arguments, [b"/bin/sh".to_vec(), text, b"a".into()]);
    assert!(end.is_not_found());
}

#[test]
fn without_room_for_the_library_it_is_plain() {
    let (starts, _) = tried(&texts(&["/bin/sh"]), &options(), &[Errno::TOOBIG, Errno::TOOBIG]);
    assert_eq!(starts[1].barred, Some(Barred::TooLong));
    assert_eq!(starts[1].environment.len(), 2);
}

#[test]
fn errors_name_what_is_to_blame() {
    let (_, end) = tried(&texts(&["x"]), &options(), &[Errno::NOENT, Errno::NOENT]);
    assert_eq!(end.to_string(), "x: not found in PATH: install it, or give its path");
    assert_eq!(LaunchError::NotFound(b"./x".to_vec()).to_string(), "./x: no such file: correct the path");
    assert!(LaunchError::NotExecutable(b"/x".to_vec()).to_string().contains("`chmod +x`"));
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/nowhere/interpreter -x\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (_, end) = tried(&[bytes(&script)], &options(), &[Errno::NOENT]);
    assert!(
        end.to_string().contains("its interpreter \"/nowhere/interpreter\" is not there: install it")
            && end.is_not_found()
    );
    let (starts, end) = tried(&texts(&[""]), &options(), &[]);
    assert!(starts.is_empty() && end.is_not_found());
    assert_eq!(end.to_string(), "the program's name is empty: name a program");
    let (_, end) = tried(&[bytes(folder.path())], &options(), &[Errno::ACCESS]);
    assert!(end.to_string().ends_with(" is a directory: name a program") && !end.is_not_found(), "{end}");
}
