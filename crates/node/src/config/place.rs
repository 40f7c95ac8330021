//! The line and key of a mistake in a configuration file, for messages.

use std::path::Path;

use super::ConfigError;

/// The parser's error, with the line and the key.
pub(super) fn malformed(path: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
    let start = error.span().map_or(0, |span| span.start).min(text.len());
    let before = text.get(..start).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    ConfigError::Malformed {
        path: path.into(),
        line,
        key: key_at(text, line),
        message: error.message().to_owned(),
    }
}

/// The line on which a key (with its section) is given a value.
pub(super) fn line_of(text: &str, wanted: &str) -> Option<usize> {
    let mut section = String::new();
    for (line, number) in text.lines().zip(1..) {
        if let Some(name) = line.trim().strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            section = format!("{}.", name.trim());
        } else if let Some((key, _)) = line.split_once('=')
            && format!("{section}{}", key.trim()) == wanted
        {
            return Some(number);
        }
    }
    None
}

/// The key of a line, with the section that it is in.
fn key_at(text: &str, line: usize) -> Option<String> {
    let lines: Vec<_> = text.lines().take(line).collect();
    let (key, _) = lines.last()?.split_once('=')?;
    let section = lines.iter().rev().find_map(|line| line.trim().strip_prefix('[')?.split(']').next());
    let section = section.map(|name| format!("{}.", name.trim())).unwrap_or_default();
    Some(format!("{section}{}", key.trim()))
}
