//! `tieline fleet install`, `upgrade` and `reboot`.

use std::io::{BufRead, IsTerminal, Write};

use ::fleet::{Installing, Parcel, fold};

use super::{Reach, Style, over};
use crate::args::{FleetInstall, FleetReboot};
use crate::exit::{Failure, Outcome};
use crate::output::Output;

pub(super) fn install(arguments: &FleetInstall, upgrade: bool, output: Output) -> Outcome {
    let parcel = Parcel::new(&arguments.files)?;
    let reach = Reach::new(&arguments.select)?;
    let how = Installing { upgrade, dry_run: arguments.dry_run, downgrade: arguments.downgrade };
    let names: Vec<_> = arguments.files.iter().map(|path| path.to_string_lossy()).collect();
    let words = names.join(" ") + if how.dry_run { " (dry run)" } else { "" };
    let style = Style::of(if upgrade { "upgrade" } else { "install" }, &words);
    over(&arguments.select, &reach, style, output, |many, hosts, each, idle| {
        many.install(hosts, &parcel, how, each, idle);
    })
}

pub(super) fn reboot(arguments: &FleetReboot, output: Output) -> Outcome {
    let reach = Reach::new(&arguments.select)?;
    if !arguments.yes && !agreed(&reach.hosts)? {
        output.note("nothing was rebooted");
        return Ok(crate::exit::FAIL);
    }
    let style = Style { times: true, ..Style::of("reboot", "reboot") };
    over(&arguments.select, &reach, style, output, |many, hosts, each, idle| {
        many.reboot(hosts, arguments.within, each, idle);
    })
}

/// Asks at the terminal.
fn agreed(hosts: &[String]) -> Result<bool, Failure> {
    let names = fold(hosts.iter().map(String::as_str));
    if !std::io::stdin().is_terminal() {
        return Err(super::super::usage(format!(
            "{names} would be rebooted, and there is no terminal to ask at: add --yes"
        )));
    }
    let mut err = std::io::stderr();
    let asked = write!(err, "Reboot {names} ({} in all)? [y/N] ", hosts.len()).and_then(|()| err.flush());
    let mut line = String::new();
    asked.and_then(|()| std::io::stdin().lock().read_line(&mut line)).map_err(anyhow::Error::from)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
