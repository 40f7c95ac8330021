//! Where results of `tieline fleet` are written: checked before anything runs on a host.

use std::path::Path;

use ::fleet::Kind as Failed;
use verify::writer::{self, Kind, WriteError};

use crate::args::FleetSelect;

/// What hosts print, as files.
static OUTPUTS: Kind = Kind {
    what: "output of the hosts",
    option: "--output-dir",
    size_bytes: 0,
    mode: 0o666,
    may_replace: |_| true,
};

static FETCHED: Kind = Kind { what: "files of the hosts", option: "--to", ..OUTPUTS };

static REPORTS: Kind = Kind { what: "reports of the hosts", option: "--to", ..OUTPUTS };

static PUNCH_LIST: Kind =
    Kind { what: "punch list", option: "--punch-list", may_replace: is_punch_list, ..OUTPUTS };

/// The kind of a deviation, in punch lists of `fleet verify`.
pub(super) const DEVIATES: &str = "deviates";

/// The directory of `--output-dir`.
pub(super) fn outputs(dir: &Path) -> Result<(), WriteError> {
    writer::prepare_directory(&OUTPUTS, dir)
}

/// The directory of `fleet fetch`.
pub(super) fn fetched(dir: &Path) -> Result<(), WriteError> {
    writer::prepare_directory(&FETCHED, dir)
}

/// The directory of `fleet report`.
pub(super) fn reports(dir: &Path) -> Result<(), WriteError> {
    writer::prepare_directory(&REPORTS, dir)
}

/// The punch list, if there is to be one.
pub(super) fn may_punch(select: &FleetSelect) -> Result<(), WriteError> {
    select.punch_list.as_deref().map_or(Ok(()), |path| writer::may_write(&PUNCH_LIST, path))
}

/// Writes the punch list: these hosts, each with the kind and the reason of its failure.
pub(super) fn punch<'f>(
    path: &Path,
    failed: impl Iterator<Item = (&'f str, &'f str, &'f str)>,
) -> Result<(), WriteError> {
    let text: String = failed.map(|(host, kind, why)| line_of(host, kind, why)).collect();
    writer::write_now(&PUNCH_LIST, path, text.as_bytes())
}

/// One line each, of three fields: `host;kind;reason`.
fn line_of(host: &str, kind: &str, why: &str) -> String {
    format!("{host};{kind};{}\n", why.replace(';', ",").replace('\n', " "))
}

/// Whether a file that begins so is a punch list of this program: each line names a host and a kind of
/// failure. The last one may be cut off here.
fn is_punch_list(beginning: &[u8]) -> bool {
    let text = String::from_utf8_lossy(beginning);
    let mut lines: Vec<&str> = text.split('\n').collect();
    lines.pop();
    !lines.is_empty() && lines.into_iter().all(is_line)
}

fn is_line(line: &str) -> bool {
    let mut fields = line.splitn(3, ';');
    let (Some(host), Some(kind), Some(_)) = (fields.next(), fields.next(), fields.next()) else {
        return false;
    };
    !host.is_empty() && (kind == DEVIATES || Failed::NAMES.contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_punch_list_is_known_by_each_of_its_lines() {
        let written = line_of("n1", "no-login", "it asks; for\na password") + &line_of("n2", DEVIATES, "x");
        assert_eq!(written, "n1;no-login;it asks, for a password\nn2;deviates;x\n");
        assert!(is_punch_list(written.as_bytes()));
        // The beginning of a long one.
        assert!(is_punch_list(format!("{written}n3;no-lo").as_bytes()));
        for other in [
            "n1\nn2\n",
            "n1;no-login\n",
            "n1;broken;FastFabric's\n",
            "n1;no-login;x\nprecious\n",
            ";no-login;x\n",
            "n1;no-login;a line without an end",
        ] {
            assert!(!is_punch_list(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn another_file_is_no_place_for_a_punch_list() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts");
        std::fs::write(&path, "n1\nn2\n").unwrap();
        let said = writer::may_write(&PUNCH_LIST, &path).unwrap_err().to_string();
        assert!(
            said.ends_with(
                "hosts exists and is not a punch list that tieline wrote, so it is not replaced: name another file with \
                 --punch-list, or remove it"
            ),
            "{said}"
        );
        assert!(punch(&path, std::iter::empty()).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "n1\nn2\n");
        let path = folder.path().join("new");
        punch(&path, [("n1", "refused", "no server")].into_iter()).unwrap();
        punch(&path, [("n2", "refused", "no server")].into_iter()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "n2;refused;no server\n");
    }
}
