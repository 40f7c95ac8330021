//! `tieline run`: executes the program, with the sockets library in its environment.
//!
//! Usually the small program `tieline` (crate `launcher`) does this, by the same rules. It executes this
//! program if anything has to be printed, checked or created.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use node_client::runtime_dir::runtime_root;
use sockets_rules::launch::{self, LaunchError, Options, Start, Text};
use sockets_rules::{ENV_LIBRARY, statistics};

use crate::args::{Common, Run};
use crate::exit::{CANNOT, Failure, Outcome};
use crate::output::Output;

/// As a shell and env(1) say it: there is no such program; or it cannot be executed.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// Becomes the program.
pub(super) fn run(common: &Common, run: &Run, output: Output) -> Outcome {
    let runtime_dir = common.runtime_dir.as_deref();
    let library = launch::library(std::env::var_os(ENV_LIBRARY).as_deref(), &own_paths())?;
    let library = launch::sayable(library, &runtime_root(runtime_dir).path);
    let counting = counting(run, runtime_dir, output)?;
    let options = Options {
        library: library.into_os_string().into_vec(),
        statistics: counting.map(|file| file.into_os_string().into_vec()),
        no_children: run.no_children,
        rings: run.rings,
        missing_are_told: true,
    };
    let environment: Vec<Text> =
        shm::process::environment().map(|variable| variable.to_bytes().to_vec()).collect();
    let program = launch::texts(run.program.iter().cloned());
    let mut told = false;
    let end = launch::launch(&program, &environment, &options, |start| {
        if start.likely {
            tell(run, start, &options, output, &mut told)?;
        }
        execute(start)
    })?;
    Err(of_launch(end))
}

/// Where this program may lie: what the kernel says, which it can't where /proc is not mounted, and which is
/// the dynamic linker where that was started by hand; and the name by which it was started.
fn own_paths() -> Vec<PathBuf> {
    let called = Path::new(OsStr::from_bytes(rustix::param::linux_execfn().to_bytes()));
    let called = std::fs::canonicalize(called).unwrap_or_else(|_| called.to_owned());
    let mut all: Vec<PathBuf> = std::env::current_exe().into_iter().collect();
    if !all.contains(&called) {
        all.push(called);
    }
    all
}

/// Says what is to be said about a program that will probably start, or refuses it.
fn tell(
    run: &Run,
    start: &Start<'_>,
    options: &Options,
    output: Output,
    told: &mut bool,
) -> Result<(), Failure> {
    let name = run.program.first().map(OsString::as_os_str).unwrap_or_default().to_string_lossy();
    if let Some(why) = &start.barred {
        if run.strict {
            return Err(Failure {
                status: CANNOT,
                error: anyhow!(
                    "{name} is not run: {why}; without --strict it runs without the sockets library"
                ),
            });
        }
        if !output.quiet {
            output.note(&format!("{name} runs without the sockets library: {why}"));
        }
    } else if run.verbose && !*told {
        *told = true;
        let counted = options.statistics.as_deref().map(String::from_utf8_lossy);
        let counted = counted.map_or("no statistics".into(), |file| format!("statistics in {file}"));
        let library = String::from_utf8_lossy(&options.library);
        output.note(&format!("{name} runs with {library}, {counted}"));
    }
    Ok(())
}

/// Where to count. What was asked for must be there; otherwise it does without.
fn counting(run: &Run, runtime_dir: Option<&Path>, output: Output) -> Result<Option<PathBuf>, Failure> {
    if let Some(file) = &run.stats {
        let file = std::path::absolute(file).with_context(|| format!("the file {}", file.display()))?;
        statistics::create(&file, true)?;
        return Ok(Some(file));
    }
    let file = default_file(runtime_dir);
    match statistics::create_private(&file) {
        Ok(()) => Ok(Some(file)),
        Err(error) => {
            if run.verbose {
                output.note(&format!("nothing is counted: {error}"));
            }
            Ok(None)
        }
    }
}

/// Where is counted if nothing else was asked for.
pub(super) fn default_file(runtime_dir: Option<&Path>) -> PathBuf {
    statistics::default_file(&runtime_root(runtime_dir).path)
}

fn of_launch(error: LaunchError) -> Failure {
    let status = match error {
        LaunchError::NoLibrary { .. } => CANNOT,
        _ if error.is_not_found() => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    };
    Failure { status, error: error.into() }
}

/// Becomes the program. Comes back only if that fails, with the kernel's error number.
fn execute(start: &Start<'_>) -> Result<i32, Failure> {
    let texts = |list: &[Text]| list.iter().map(|it| CString::new(&it[..])).collect::<Result<Vec<_>, _>>();
    let (Ok(path), Ok(arguments), Ok(environment)) =
        (CString::new(&start.path[..]), texts(&start.arguments), texts(&start.environment))
    else {
        return Err(Failure { status: CANNOT, error: anyhow!("an argument contains a byte 0") });
    };
    let arguments: Vec<&CStr> = arguments.iter().map(CString::as_c_str).collect();
    let environment: Vec<&CStr> = environment.iter().map(CString::as_c_str).collect();
    let mut room = vec![std::ptr::null(); arguments.len() + environment.len() + 2];
    Ok(shm::process::execute(&path, &arguments, &environment, &mut room))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Command, parse};

    use entry::words::usual;

    fn words(text: &str) -> Vec<Text> {
        text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn what_the_small_program_understands_is_what_the_parser_understands() {
        for line in [
            "tieline run ls",
            "tieline run -- ls -l",
            "tieline run ls --verbose -- x",
            "tieline run --verbose --strict --no-children --rings ls",
            "tieline run --stats f -- ls --stats g",
        ] {
            let Command::Run(parsed) = parse(line.split(' ')).unwrap().command else { panic!("{line}") };
            let parsed = entry::words::Run {
                verbose: parsed.verbose,
                stats: parsed.stats.map(|file| file.into_os_string().into_vec()),
                no_children: parsed.no_children,
                rings: parsed.rings,
                strict: parsed.strict,
                program: launch::texts(parsed.program),
            };
            assert_eq!(usual(&words(line)), Some(parsed), "{line}");
        }
        let classic = usual(&words("/opt/DIS/bin/dis_ssocks_run --strict ls -a")).unwrap();
        assert!(classic.strict && classic.program == words("ls -a"));
    }

    #[test]
    fn the_rest_is_left_to_the_parser() {
        for line in [
            "tieline status",
            "tieline run",
            "tieline run --",
            "tieline run --help",
            "tieline run --json ls",
            "tieline run --stats",
            "tieline run --stats --strict ls",
            "tieline run --stats a --stats b ls",
            "tieline --quiet run ls",
            "dis_ssocks_run --help",
        ] {
            assert_eq!(usual(&words(line)), None, "{line}");
        }
    }
}
