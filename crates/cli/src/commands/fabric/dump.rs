//! `tieline fabric route --dump`: the tables as files for programs of others.

use std::io::{self, Write};
use std::path::Path;

use topology::routing::{Tables, referee};
use topology::{Graph, counted};
use verify::writer::{Folder, Kind};

use super::shown::Shown;
use crate::exit::Failure;
use crate::interrupt;

/// What is in the folder: the first five for `ibdmchk`, the last for OpenSM's routing engine `file`.
const FILES: [&str; 6] =
    ["opensm-subnet.lst", "opensm.fdbs", "opensm.mcfdbs", "opensm.psl", "opensm.slvl", "opensm-lfts.dump"];

/// The list of their sums, by which the next run knows them.
const SUMS: &str = "tieline.sha256";

static TABLES: Kind =
    Kind { what: "dump of tables", option: "--dump", size_bytes: 0, mode: 0o666, may_replace: |_| false };

/// Makes sure, before the work begins, that the files can be written.
pub(super) fn prepare(dir: &Path) -> Result<Folder, Failure> {
    Ok(Folder::prepare(&TABLES, dir, &FILES, SUMS)?)
}

/// Writes them, all or none. `vls` are the VLs that the tables need.
pub(super) fn write(
    graph: &Graph,
    tables: &Tables,
    vls: u8,
    folder: &Folder,
    output: Shown,
) -> Result<(), Failure> {
    interrupt::end_with_what_there_is()?;
    let file = |name: &str, mut out: &mut dyn Write| -> io::Result<()> {
        match name {
            "opensm-subnet.lst" => referee::write_subnet(graph, tables, &mut out),
            "opensm.fdbs" => referee::write_fdbs(graph, tables, &mut out),
            "opensm.psl" => referee::write_levels(graph, tables, &mut out),
            "opensm.slvl" => referee::write_vls(graph, tables, &mut out),
            "opensm-lfts.dump" => referee::write_lfts(graph, tables, vls, &mut out),
            // There are no groups, and ibdmchk wants the file.
            _ => Ok(()),
        }
    };
    let is_written = folder.write(file, &interrupt::has_arrived)?;
    if !is_written {
        output.note("interrupted: no file of the dump was written");
    } else if vls > 1 {
        output.note(&format!(
            "the tables need {}, and OpenSM's routing engine `file` knows no SLs: loaded from opensm-lfts.dump they can \
             deadlock: for OpenSM, route with --engine updown",
            counted(vls, "VL")
        ));
    }
    Ok(())
}
