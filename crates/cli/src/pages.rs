//! Man pages and completions of shells, written from the command line's own declarations: for packages, by
//! `tieline-commands write-pages DIR`.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

use crate::{args, exit, output};

/// A folder follows, and nothing else. It is in no help: who makes packages needs it, and nobody else.
const ASKED: &str = "write-pages";

/// Writes them if these words ask for it.
pub(crate) fn asked(words: &[OsString]) -> Option<ExitCode> {
    let [_, option, folder] = words else { return None };
    if option != ASKED {
        return None;
    }
    let folder = Path::new(folder);
    Some(match write(folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(source) => {
            let why = format!(
                "man pages cannot be written to {}: {source}: name a folder that you may write to",
                folder.display()
            );
            let failure = exit::Failure { status: exit::CANNOT, error: anyhow::Error::msg(why) };
            output::Output { json: false, quiet: true }.failure(&failure);
            ExitCode::from(exit::CANNOT)
        }
    })
}

fn write(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut command = args::command();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut command, "tieline", folder)?;
    }
    // The subcommand `help` would get a page for each command once more.
    clap_mangen::generate_to(without_help(args::command()), folder)
}

fn without_help(command: Command) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    names.into_iter().fold(command.disable_help_subcommand(true), |command, name| {
        command.mut_subcommand(name, without_help)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page_and_each_shell_its_completions() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let page = read("tieline-bench-scipp.1");
        assert!(page.contains(".TH") && page.contains("Exit status: 0 done"), "{page}");
        assert!(read("tieline.1").contains("verify"));
        for (name, wanted) in [
            ("tieline.bash", "complete -F"),
            ("_tieline", "#compdef tieline"),
            ("tieline.fish", "complete -c tieline"),
        ] {
            assert!(read(name).contains(wanted), "{name}");
        }
        let pages = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let pages: Vec<_> = pages.filter_map(|name| name.into_string().ok()).collect();
        assert!(pages.len() > 50 && !pages.iter().any(|name| name.contains("help")), "{pages:?}");
        assert!(asked(&["tieline".into(), "verify".into(), "x".into()]).is_none());
    }
}
