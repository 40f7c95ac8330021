//! `tieline sockets`.

use anyhow::anyhow;
use rustix::io::Errno;
use sockets_rules::statistics::StatisticsError;
use sockets_rules::status::{Report, report};

use super::run::default_file;
use crate::args::{Common, SocketsAction};
use crate::exit::{CANNOT, Failure, Outcome, PASS};
use crate::output::Output;

pub(super) fn run(common: &Common, action: &SocketsAction, output: Output) -> Outcome {
    let file = default_file(common.runtime_dir.as_deref());
    match action {
        SocketsAction::Status => {
            let all = or_none(report(&file, false))?;
            output.form("tieline.sockets.status/2", || serde_json::to_value(&all), || all.summary())?;
        }
        SocketsAction::Stat { from, pid } => {
            let all = match from {
                // One that is named and can't be read, or is none, is a mistake on the command line.
                Some(file) => report(file, true).map_err(Failure::usage)?,
                None => or_none(report(&file, false))?,
            };
            let all = pid.map_or(all.clone(), |pid| all.of(pid));
            if let Some(pid) = pid.filter(|_| all.processes.is_empty()) {
                return Err(Failure {
                    status: CANNOT,
                    error: anyhow!(
                        "process {pid} is not in the statistics: it has ended, was not started by `tieline run`, or has used no \
                         connection: `tieline sockets status` lists running ones; to see ended ones, start with \
                         `tieline run --stats FILE` and read with `tieline sockets stat --from FILE`"
                    ),
                });
            }
            let text = || match from.as_deref().filter(|_| all.processes.is_empty()) {
                Some(file) => format!("no process that counts in {} has used a connection\n", file.display()),
                None => all.details(),
            };
            output.form("tieline.sockets.stat/2", || serde_json::to_value(&all), text)?;
        }
    }
    Ok(PASS)
}

/// Where nothing was ever counted there is no file, and nobody who counts.
fn or_none(read: Result<Report, StatisticsError>) -> Result<Report, StatisticsError> {
    match read {
        Err(StatisticsError::System { errno: Errno::NOENT, .. }) => Ok(Report::default()),
        other => other,
    }
}
