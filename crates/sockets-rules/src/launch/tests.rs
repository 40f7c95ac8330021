use std::os::unix::fs::PermissionsExt;

use super::*;

fn options() -> Options {
    Options { library: "/l/libtieline-sockets.so".into(), statistics: None, no_children: false, rings: false }
}

fn texts(list: &[&str]) -> Vec<OsString> {
    list.iter().map(OsString::from).collect()
}

/// What is tried, if the kernel says these one after another, and what comes of it.
fn tried(words: &[OsString], options: &Options, says: &[Errno]) -> (Vec<Start>, LaunchError) {
    let environment = texts(&["NOEQUALS", "PATH=/nowhere:/bin"]);
    let (mut starts, mut says) = (Vec::new(), says.iter());
    let end = launch(words, &environment, options, |start| {
        starts.push(start.clone());
        Ok::<i32, ()>(says.next().unwrap().raw_os_error())
    });
    assert_eq!(says.next(), None, "{starts:?}");
    (starts, end.unwrap())
}

#[test]
fn each_place_is_tried_and_only_what_is_there_is_entered() {
    let (starts, end) = tried(&texts(&["sh", "-c"]), &options(), &[Errno::NOENT, Errno::NOMEM]);
    assert_eq!(starts[0].path, Path::new("/nowhere/sh"));
    assert!(!starts[0].likely && starts[0].environment.len() == 2);
    assert_eq!((starts[1].path.as_path(), starts[1].likely), (Path::new("/bin/sh"), true));
    assert!(starts[1].environment.len() == 4 && starts[1].barred.is_none());
    assert_eq!(
        (starts[1].environment[0].as_os_str(), &starts[1].arguments[1]),
        (OsStr::new("NOEQUALS"), &"-c".into())
    );
    assert!(matches!(&end, LaunchError::Refused { path, .. } if path == Path::new("/bin/sh")), "{end}");
    assert!(!end.is_not_found());
}

#[test]
fn what_the_kernel_does_not_know_is_the_shells_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "exit 3\n").unwrap();
    std::fs::set_permissions(&text, std::fs::Permissions::from_mode(0o755)).unwrap();
    let words = [text.clone().into(), OsString::from("a")];
    // It may be a format that was made known to the kernel.
    let (starts, _) = tried(&words, &options(), &[Errno::ACCESS]);
    assert_eq!((&starts[0].path, &starts[0].arguments[..], starts[0].likely), (&text, &words[..], false));
    let (starts, end) = tried(&words, &options(), &[Errno::NOEXEC, Errno::NOENT]);
    assert_eq!(starts[1].path, Path::new("/bin/sh"));
    assert_eq!(starts[1].arguments, [OsString::from("/bin/sh"), text.into(), "a".into()]);
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
    assert_eq!(end.to_string(), "x: no such program");
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/nowhere/interpreter -x\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (_, end) = tried(&[script.into()], &options(), &[Errno::NOENT]);
    assert!(
        end.to_string().ends_with("its interpreter \"/nowhere/interpreter\" is not there")
            && end.is_not_found()
    );
    let (starts, end) = tried(&texts(&[""]), &options(), &[]);
    assert!(starts.is_empty() && end.is_not_found());
}

#[test]
fn a_library_in_a_folder_with_a_space_gets_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let (home, runtime) = (folder.path().join("a b"), folder.path().join("run"));
    std::fs::create_dir(&home).unwrap();
    let library = home.join(LIBRARY);
    std::fs::write(&library, "x").unwrap();
    let said = sayable(library.clone(), &runtime);
    assert!(can_be_said(&said) && said.starts_with(&runtime), "{said:?}");
    assert_eq!(std::fs::read_to_string(&said).unwrap(), "x");
    assert_eq!(sayable(library.clone(), &runtime), said);
    assert_eq!(std::fs::read_dir(&runtime).unwrap().count(), 1);
    // Somebody else's file in its place goes.
    std::fs::remove_file(&said).unwrap();
    std::fs::write(&said, "y").unwrap();
    assert_eq!(std::fs::read_to_string(sayable(library.clone(), &runtime)).unwrap(), "x");
    // Where others may write there is none, and the program runs plain.
    std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(0o777)).unwrap();
    for place in [&runtime, &folder.path().join("c:d"), Path::new("/proc/nowhere")] {
        let said = sayable(library.clone(), place);
        assert_eq!(said, library, "{place:?}");
        let (starts, _) =
            tried(&texts(&["/bin/sh"]), &Options { library: said, ..options() }, &[Errno::ACCESS]);
        assert_eq!(starts[0].barred, Some(Barred::NoPath(library.clone())));
        assert_eq!(starts[0].environment.len(), 2);
    }
}

#[test]
fn the_library_is_looked_for_beside_each_path_of_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let own = [PathBuf::from("/nowhere/bin/x"), folder.path().join("bin/x")];
    assert!(library(None, &own).unwrap_err().to_string().contains("/nowhere/bin/../lib64"));
    std::fs::create_dir_all(folder.path().join("lib64")).unwrap();
    std::fs::create_dir_all(folder.path().join("bin")).unwrap();
    let path = folder.path().join("lib64").join(LIBRARY);
    // What is no library is none, whatever it is called.
    std::fs::write(&path, "").unwrap();
    assert!(library(None, &own).is_err() && library(Some(path.as_os_str()), &own).is_err());
    let this = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    std::fs::write(&path, &this[..4096]).unwrap();
    assert_eq!(library(None, &own).unwrap(), std::fs::canonicalize(path).unwrap());
    assert!(matches!(library(Some(OsStr::new("/nowhere/l.so")), &own), Err(LaunchError::NoLibrary { .. })));
}
