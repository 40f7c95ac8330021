//! `tieline fabric route --dump`: the tables as files for `ibdmchk`.

use std::io::{self, Write};
use std::path::Path;

use topology::routing::{Tables, referee};
use topology::Graph;
use verify::writer::{Folder, Kind};

use super::shown::Shown;
use crate::exit::Failure;
use crate::interrupt;

/// What is in the folder: the files that `ibdmchk` takes.
const FILES: [&str; 5] =
    ["opensm-subnet.lst", "opensm.fdbs", "opensm.mcfdbs", "opensm.psl", "opensm.slvl"];

/// The list of their sums, by which the next run knows them.
const SUMS: &str = "tieline.sha256";

static TABLES: Kind =
    Kind { what: "dump of tables", option: "--dump", size_bytes: 0, mode: 0o666, may_replace: |_| false };

/// Makes sure, before the work begins, that the files can be written.
pub(super) fn prepare(dir: &Path) -> Result<Folder, Failure> {
    Ok(Folder::prepare(&TABLES, dir, &FILES, SUMS)?)
}

/// Writes them, all or none.
pub(super) fn write(
    graph: &Graph,
    tables: &Tables,
    folder: &Folder,
    output: Shown,
) -> Result<(), Failure> {
    interrupt::end_with_what_there_is()?;
    let file = |name: &str, mut out: &mut dyn Write| -> io::Result<()> {
        match name {
            "opensm-subnet.lst" => referee::write_subnet(graph, tables, &mut out),
            "opensm.fdbs" => referee::write_fdbs(graph, tables, &mut out),
            "opensm.psl" => referee::write_levels(graph, tables, &mut out),
            "opensm.slvl" => referee::write_lanes(graph, tables, &mut out),
            // There are no groups, and ibdmchk wants the file.
            _ => Ok(()),
        }
    };
    let is_written = folder.write(file, &interrupt::has_arrived)?;
    if !is_written {
        output.note("interrupted: no file of the dump was written");
    }
    Ok(())
}
