//! The small program `tieline`: starts programs for `tieline run`, and executes `tieline-commands`
//! for everything else.
//!
//! What it is for: `tieline run -- PROGRAM`, whose cost is added to each start of a program, in its usual
//! form. It does what the command `run` does, by the same rules; where there is anything to say, to make or
//! to ask, it becomes `tieline-commands`, the program that has all of tieline in it, with the same arguments,
//! which begins from the beginning.
//!
//! What it must never do: print a result or an error that the commands have words for; touch what the program
//! is to find as it was.
//!
//! Where to start reading: [`begin`].
#![no_main]
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

#[cfg(not(feature = "std"))]
mod bare;
mod process;

use alloc::vec::Vec;

use entry::launch::{self, Options, Start};
use entry::words::{self, Run};
use entry::{ENV_LIBRARY, Text, counting, environment};
use rustix::io::Errno;

use process::Process;

/// The program that has all commands, beside this one or where an installation puts it.
const COMMANDS: [&[u8]; 2] = [b"tieline-commands", b"../libexec/tieline/tieline-commands"];
/// Could not run, as of all commands.
const CANNOT: i32 = 4;
/// Links that are followed to this program's file.
const LINKS: usize = 40;

/// Becomes the program or the commands. Comes back with the exit status if neither can be.
fn begin(process: &Process) -> i32 {
    let own = rustix::fs::readlink("/proc/self/exe", Vec::new()).map(|path| path.into_bytes()).ok();
    if let Some(run) = words::usual(&process.words()) {
        // Why not is said by the commands, which come to the same end.
        let _ = start(&run, own.as_ref(), &process.environment());
    }
    hand_over(process, own)
}

/// Becomes the program, with the library in it. `None` if it does not, or if there is anything to say before.
fn start(run: &Run, own: Option<&Text>, all: &[Text]) -> Option<()> {
    let named = environment::value_of(all, ENV_LIBRARY).filter(|named| !named.is_empty());
    let library = launch::library(named, own.map(core::slice::from_ref)?).ok()?;
    if run.verbose || !is_full(&library) {
        return None;
    }
    let statistics = match &run.stats {
        Some(file) => {
            counting::create(Some(file).filter(|file| is_full(file))?, true).ok()?;
            Some(file.clone())
        }
        None => {
            let file = counting::file_in(&counting::runtime_dir(all));
            // Without one it does without.
            counting::create_private(Some(&file).filter(|file| is_full(file))?).ok().map(|()| file)
        }
    };
    let options = Options {
        library,
        statistics,
        no_children: run.no_children,
        rings: run.rings,
        // Only then there was a dynamic linker, which has complained.
        missing_are_told: cfg!(feature = "std"),
    };
    let execute = |start: &Start<'_>| {
        if start.likely && start.barred.is_some() {
            return Err(());
        }
        Ok(process::execute(&start.path, &start.arguments, &start.environment).raw_os_error())
    };
    launch::launch(&run.program, all, &options, execute).ok().map(drop)
}

/// Whether a path leads from the root, step by step: the commands make such a path of any other.
fn is_full(path: &[u8]) -> bool {
    let mut steps = path.split(|byte| *byte == b'/');
    steps.next().is_some_and(<[u8]>::is_empty) && steps.all(|step| !matches!(step, b"" | b"." | b".."))
}

/// Becomes the commands. Comes back with the exit status if they are not there.
fn hand_over(process: &Process, own: Option<Text>) -> i32 {
    // What the kernel says, which it can't where /proc is not mounted, and which is the dynamic linker where
    // that was started by hand; and the name by which this program was started.
    let called = process.called().map(followed);
    let mut why = Errno::NOENT;
    for own in own.into_iter().chain(called) {
        for name in COMMANDS {
            let folder = own.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
            let path = [own.get(..folder).unwrap_or_default(), name].concat();
            match process.become_other(&path) {
                Errno::NOENT => {}
                errno => why = errno,
            }
        }
    }
    let why = match why {
        Errno::NOENT => "is not there",
        Errno::ACCESS => "may not be executed by this user",
        _ => "cannot be executed",
    };
    process::say(
        alloc::format!(
            "tieline: the program tieline-commands, which belongs beside tieline or in ../libexec/tieline, {why}: \
             install tieline again (`./run install` in its source tree)\n"
        )
        .as_bytes(),
    );
    CANNOT
}

/// The path of the file itself, if this one is a link.
fn followed(mut path: Text) -> Text {
    for _ in 0..LINKS {
        let Ok(target) = rustix::fs::readlink(&path[..], Vec::new()) else { break };
        let target = target.into_bytes();
        let folder = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        // A target that leads from the root leads there from anywhere.
        path.truncate(if target.starts_with(b"/") { 0 } else { folder });
        path.extend(target);
    }
    path
}
