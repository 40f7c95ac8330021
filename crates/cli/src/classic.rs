//! Classic names: links to the binary, and options with a single dash.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// What a link to the binary stands for.
const NAMES: [(&str, &[&str]); 4] = [
    ("dis_diag", &["diag"]),
    ("disinfo", &["query"]),
    ("query", &["query"]),
    ("scipp", &["bench", "scipp", "--classic"]),
];

/// Options that the classic programs take with one dash.
const SINGLE_DASH: [&str; 6] = ["-server", "-client", "-rn", "-size", "-json", "-help"];

/// Turns a call by a classic name into a call of `tieline`.
pub(crate) fn translate(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let name = arguments.first().map(Path::new).and_then(Path::file_name).unwrap_or_default().to_owned();
    let Some((_, command)) = NAMES.iter().find(|(classic, _)| name == *classic) else { return arguments };
    let rest = arguments.split_off(1);
    let mut translated = vec![OsString::from("tieline")];
    translated.extend(command.iter().map(OsString::from));
    translated.extend(rest.into_iter().map(|argument| doubled(&argument)));
    translated
}

fn doubled(argument: &OsStr) -> OsString {
    match argument.to_str() {
        Some(text) if SINGLE_DASH.contains(&text) => format!("-{text}").into(),
        _ => argument.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_classic_name_becomes_its_command() {
        let translated = translate(words("/opt/DIS/bin/scipp -server -rn 8"));
        assert_eq!(translated, words("tieline bench scipp --classic --server --rn 8"));
        assert_eq!(translate(words("dis_diag -V 9")), words("tieline diag -V 9"));
    }

    #[test]
    fn tieline_itself_is_left_alone() {
        let plain = words("target/debug/tieline status -json");
        assert_eq!(translate(plain.clone()), plain);
    }
}
