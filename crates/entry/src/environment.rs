//! The environment of an entered program: a list of byte strings, as the kernel has them. Most are
//! `NAME=value`, but anything may be there, in any number, and what is not the library's stays
//! as it is.

use alloc::borrow::ToOwned;
use alloc::vec::Vec;

use rustix::io::Errno;

use crate::launch::Options;
use crate::program::{self, Program};
use crate::{ENV_CHILDREN, ENV_RINGS, ENV_STATISTICS, LIBRARY, RINGS_FORCED, Text, file_name};

const PRELOAD: &str = "LD_PRELOAD";
/// The name under which the library comes from the build.
pub(crate) const BUILT: &str = "libtieline_sockets.so";

/// Options of the address sanitizer, and the one by which its runtime does not insist on being first: nobody
/// puts it first where an entered program starts one that was built with it.
const SANITIZER: &str = "ASAN_OPTIONS";
const ANY_ORDER: &[u8] = b"verify_asan_link_order=0";
const SANITIZER_WORD: &[u8] = b"verify_asan_link_order";

/// Whether the dynamic linker takes a library's path as it is: nothing in it ends it, or stands for something
/// else.
#[must_use]
pub fn can_be_said(library: &[u8]) -> bool {
    !library.iter().any(|byte| matches!(byte, b' ' | b':' | b'$'))
}

/// The value of a variable, as getenv(3) has it: of the first of its name.
#[must_use]
pub fn value_of<'e>(environment: &'e [Text], name: &str) -> Option<&'e [u8]> {
    environment.iter().find_map(|variable| value(variable, name))
}

fn value<'v>(variable: &'v [u8], name: &str) -> Option<&'v [u8]> {
    variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

/// The environment with the library in it.
pub(crate) fn with_library(mut environment: Vec<Text>, program: &Program, options: &Options) -> Vec<Text> {
    // Of several the dynamic linker heeds the last.
    let last = environment.iter().rposition(|variable| value(variable, PRELOAD).is_some());
    let before = last.and_then(|at| value(&environment[at], PRELOAD)).unwrap_or_default().to_owned();
    let list = with_ours(&before, program, options);
    let text = variable(PRELOAD, &list);
    match last {
        Some(at) => environment[at] = text,
        None => environment.push(text),
    }
    for name in [ENV_STATISTICS, ENV_CHILDREN] {
        environment.retain(|variable| value(variable, name).is_none());
    }
    if options.no_children {
        environment.push(variable(ENV_CHILDREN, b"0"));
    } else {
        allow_any_order(&mut environment);
    }
    // Who has forced them already continues with that: it is for tests, of which this may be one.
    if options.rings && value_of(&environment, ENV_RINGS).is_none_or(|given| given != RINGS_FORCED.as_bytes())
    {
        environment.retain(|variable| value(variable, ENV_RINGS).is_none());
        environment.push(variable(ENV_RINGS, b"1"));
    }
    if let Some(file) = &options.statistics {
        environment.push(variable(ENV_STATISTICS, file));
    }
    environment
}

/// The list of libraries with ours in it. What else is loaded stays, in its order, behind it; but the runtime
/// of an address sanitizer comes first, as it insists. What is not there is left out if the dynamic linker
/// has said so already.
fn with_ours(before: &[u8], program: &Program, options: &Options) -> Text {
    let others = before.split(|byte| matches!(byte, b' ' | b':'));
    let is_told = |library: &[u8]| options.missing_are_told && is_missing(library);
    let others: Vec<&[u8]> = others.filter(|it| !it.is_empty() && !is_ours(it) && !is_told(it)).collect();
    let needed = program.sanitizer.as_deref();
    let needed = needed.filter(|needed| !others.iter().any(|other| file_name(other) == file_name(needed)));
    let first = others.iter().copied().filter(|it| program::is_sanitizer(it));
    let rest = others.iter().copied().filter(|it| !program::is_sanitizer(it));
    let list: Vec<&[u8]> =
        needed.into_iter().chain(first).chain([&options.library[..]]).chain(rest).collect();
    list.join(&b':')
}

fn is_ours(library: &[u8]) -> bool {
    // A link to it may have something before its name.
    [LIBRARY, BUILT].iter().any(|name| library.ends_with(name.as_bytes()))
}

/// Whether it is named by a path where nothing is. A process that cannot be asked about counts as there, and
/// so does a path in which the dynamic linker replaces something, and a name that it looks for in its
/// folders.
fn is_missing(library: &[u8]) -> bool {
    let plain = library.contains(&b'/') && !library.contains(&b'$');
    plain && matches!(rustix::fs::stat(library), Err(Errno::NOENT | Errno::NOTDIR))
}

fn allow_any_order(environment: &mut Vec<Text>) {
    let told = value_of(environment, SANITIZER).unwrap_or_default();
    if told.windows(SANITIZER_WORD.len()).any(|word| word == SANITIZER_WORD) {
        return;
    }
    let both: Vec<&[u8]> = [told, ANY_ORDER].into_iter().filter(|it| !it.is_empty()).collect();
    let text = variable(SANITIZER, &both.join(&b':'));
    match environment.iter_mut().find(|variable| value(variable, SANITIZER).is_some()) {
        Some(variable) => *variable = text,
        None => environment.push(text),
    }
}

fn variable(name: &str, value: &[u8]) -> Text {
    [name.as_bytes(), b"=", value].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const ANY: &str = "ASAN_OPTIONS=verify_asan_link_order=0";
    const OURS: &str = "LD_PRELOAD=/l/libtieline-sockets.so";

    fn options() -> Options {
        Options { library: b"/l/libtieline-sockets.so".into(), missing_are_told: true, ..Options::default() }
    }

    fn texts(list: &[&str]) -> Vec<Text> {
        list.iter().map(|text| text.as_bytes().to_vec()).collect()
    }

    fn with(before: &[&str]) -> Vec<Text> {
        with_library(texts(before), &Program::default(), &options())
    }

    #[test]
    fn what_else_is_loaded_stays() {
        assert_eq!(with(&["A=1"]), texts(&["A=1", OURS, ANY]));
        let chain = ["LD_PRELOAD=libjemalloc.so.2 b.so::c.so", "A=1"];
        let want = texts(&["LD_PRELOAD=/l/libtieline-sockets.so:libjemalloc.so.2:b.so:c.so", "A=1", ANY]);
        assert_eq!(with(&chain), want);
        // Started by a program that has it already, once through a link.
        let again = [
            "LD_PRELOAD=/old/libtieline-sockets.so:/run/t/77-libtieline-sockets.so:b.so",
            "TIELINE_SOCKETS_CHILDREN=0",
        ];
        assert_eq!(with(&again), texts(&["LD_PRELOAD=/l/libtieline-sockets.so:b.so", ANY]));
    }

    #[test]
    fn a_library_that_is_not_there_is_not_named_again() {
        let list = ["LD_PRELOAD=/nowhere/x.so:/etc/passwd/x.so:/etc/passwd:$LIB/x.so:/x/$ORIGIN/x.so:x.so"];
        let want = "LD_PRELOAD=/l/libtieline-sockets.so:/etc/passwd:$LIB/x.so:/x/$ORIGIN/x.so:x.so";
        assert_eq!(with(&list), texts(&[want, ANY]));
        // Where no dynamic linker has complained, the program's own is to.
        let untold = Options { missing_are_told: false, ..options() };
        let all = with_library(texts(&["LD_PRELOAD=/nowhere/x.so"]), &Program::default(), &untold);
        assert_eq!(all, texts(&["LD_PRELOAD=/l/libtieline-sockets.so:/nowhere/x.so", ANY]));
    }

    #[test]
    fn odd_variables_stay_as_they_are() {
        let odd = ["NOEQUALS", "", "=weird", "A=1", "A=2", "LD_PRELOADED=1", "LD_PRELOAD"];
        let want = [&odd[..], &[OURS, ANY]].concat();
        assert_eq!(with(&odd), texts(&want));
        let twice = ["LD_PRELOAD=a.so", "B=1", "LD_PRELOAD=b.so"];
        let want = ["LD_PRELOAD=a.so", "B=1", "LD_PRELOAD=/l/libtieline-sockets.so:b.so", ANY];
        assert_eq!(with(&twice), texts(&want));
        let bytes = b"B\xff=\xfe".to_vec();
        assert_eq!(with_library(vec![bytes.clone()], &Program::default(), &options())[0], bytes);
    }

    #[test]
    fn a_sanitizer_comes_first() {
        let needs = Program { sanitizer: Some(b"libasan.so.8".into()), ..Program::default() };
        let with = |before: &[&str]| with_library(texts(before), &needs, &options());
        assert_eq!(with(&[]), texts(&["LD_PRELOAD=libasan.so.8:/l/libtieline-sockets.so", ANY]));
        let has = ["LD_PRELOAD=b.so:libasan.so.8", "ASAN_OPTIONS=detect_leaks=0"];
        let both = "ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0";
        let want = texts(&["LD_PRELOAD=libasan.so.8:/l/libtieline-sockets.so:b.so", both]);
        assert_eq!(with(&has), want);
    }

    #[test]
    fn the_library_is_told_what_was_asked_for() {
        let asked = Options { statistics: Some(b"/s".into()), no_children: true, ..options() };
        let told = with_library(
            texts(&["TIELINE_SOCKETS_STATISTICS=/old", "TIELINE_SOCKETS_STATISTICS=/older"]),
            &Program::default(),
            &asked,
        );
        assert_eq!(value_of(&told, ENV_STATISTICS), Some(&b"/s"[..]));
        assert_eq!(value_of(&told, ENV_CHILDREN), Some(&b"0"[..]));
        assert_eq!(told.len(), 3);
    }

    #[test]
    fn some_paths_cannot_be_said() {
        for (path, may) in
            [("/a/l.so", true), ("/a b/l.so", false), ("/a:b/l.so", false), ("/$LIB/l.so", false)]
        {
            assert_eq!(can_be_said(path.as_bytes()), may, "{path}");
        }
    }
}
