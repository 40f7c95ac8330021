//! The table at the end.

use std::{io::Write, path::Path};

use anyhow::Result;

use crate::{
    case::{Case, NO_PACKAGE, Need},
    judge::{Outcome, Verdict},
};

/// A line on standard output. A process that closed it does not want to know.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// A line about how things go.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// What a case needs and is not here.
pub(crate) fn missing(case: &Case) -> Vec<Need> {
    case.needs.iter().copied().filter(|(program, _)| !is_there(program)).collect()
}

/// Programs of a system administrator are not in everybody's path; a file is named by its whole path.
fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders =
        std::env::split_paths(&path).chain(["/usr/sbin", "/sbin", "/usr/local/sbin"].map(Into::into));
    if program.starts_with('/') {
        return Path::new(program).exists();
    }
    folders.into_iter().any(|folder| folder.join(program).is_file())
}

/// Debian packages that are missing for these cases.
pub(crate) fn packages(cases: &[&Case]) -> Vec<&'static str> {
    let mut packages: Vec<_> = cases
        .iter()
        .flat_map(|case| missing(case))
        .map(|(_, package)| package)
        .filter(|package| *package != NO_PACKAGE)
        .collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

pub(crate) fn print(results: &[Outcome], json: bool) -> Result<()> {
    if json {
        let document = serde_json::json!({ "schema": "tieline.programs/1", "programs": results });
        say(&serde_json::to_string_pretty(&document)?);
        return Ok(());
    }
    for result in results {
        say(&format!("{:<14} {}", result.name, result.line()));
    }
    let count = |verdict| results.iter().filter(|result| result.verdict == verdict).count();
    let (passed, failed, rest) = (count(Verdict::Pass), count(Verdict::Fail), count(Verdict::NotTried));
    say(&format!("{passed} programs the same, {failed} not, {rest} not tried"));
    Ok(())
}

/// The exit status that belongs to the results.
pub(crate) fn status(results: &[Outcome]) -> u8 {
    if results.iter().any(|result| result.verdict == Verdict::Fail) {
        1
    } else if results.iter().any(|result| result.verdict == Verdict::NotTried) {
        3
    } else {
        0
    }
}
