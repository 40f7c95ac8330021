//! Parses the usual command line of `tieline run`.
//!
//! The whole command line's rules take longer to set up than the program to start. What is left to them:
//! help, options of all commands, mistakes.

use alloc::vec::Vec;

use crate::{Text, file_name};

/// The classic name of this command.
const CLASSIC: &[u8] = b"dis_ssocks_run";

/// What the command line says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Run {
    /// To say which library is loaded and where is counted.
    pub verbose: bool,
    /// To count in this file.
    pub stats: Option<Text>,
    /// The library enters no child.
    pub no_children: bool,
    /// Connections inside this machine may go through rings.
    pub rings: bool,
    /// To refuse a program that cannot be entered.
    pub strict: bool,
    /// The program and its arguments.
    pub program: Vec<Text>,
}

/// Understands a command line, with the name of the command first; `None` if there is anything unusual in it.
#[must_use]
pub fn usual(words: &[Text]) -> Option<Run> {
    let (called, mut rest) = words.split_first()?;
    if file_name(called) != CLASSIC {
        rest = rest.strip_prefix(&[b"run".to_vec()])?;
    }
    let mut run = Run::default();
    while let [word, more @ ..] = rest {
        rest = more;
        match &word[..] {
            b"--verbose" => run.verbose = true,
            b"--no-children" => run.no_children = true,
            b"--rings" => run.rings = true,
            b"--strict" => run.strict = true,
            b"--stats" => {
                let [file, more @ ..] = rest else { return None };
                // Twice is a mistake, and so is an option in the place of its file.
                if run.stats.is_some() || file.starts_with(b"-") {
                    return None;
                }
                run.stats = Some(file.clone());
                rest = more;
            }
            b"--" => {
                run.program = rest.to_vec();
                break;
            }
            [b'-', ..] => return None,
            _ => {
                run.program = [core::slice::from_ref(word), rest].concat();
                break;
            }
        }
    }
    (!run.program.is_empty()).then_some(run)
}
