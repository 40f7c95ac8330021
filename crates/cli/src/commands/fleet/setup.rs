//! `tieline fleet setup-ssh`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use ::fleet::{FleetError, Installed, Kind, fold, install_key};

use super::{Reach, Style, over};
use crate::args::FleetSetup;
use crate::exit::Outcome;
use crate::interrupt;
use crate::output::Output;

/// As of `fleet ping`.
const LIMIT: Duration = Duration::from_secs(20);

/// A key that is not there is named before any host is reached. `ssh-copy-id` takes the private key's name,
/// too, and adds `.pub` to it.
fn readable(key: &Path) -> Result<(), FleetError> {
    let mut public = key.as_os_str().to_owned();
    if key.extension().is_none_or(|end| end != "pub") {
        public.push(".pub");
    }
    File::open(&public).map(drop).map_err(|source| FleetError::Input { path: public.into(), source })
}

/// Installs the key where it is missing, one host after the other, since each asks at the same terminal; then
/// logs in to all.
pub(super) fn run(arguments: &FleetSetup, output: Output) -> Outcome {
    let select = &arguments.select;
    if let Some(key) = &arguments.key {
        readable(key)?;
    }
    let reach = Reach { limit: select.timeout.or(Some(LIMIT)), ..Reach::new(select)? };
    let mut needy = BTreeSet::new();
    reach.many().run(
        &reach.hosts,
        "true",
        |number, answer| {
            let kind = answer.failure.map(|failure| failure.kind);
            if matches!(kind, Some(Kind::NoLogin | Kind::HostKeyUnknown)) {
                needy.insert(number);
            }
        },
        || output.passing("looking which hosts need a key"),
    );
    output.progress_done();
    let needy: Vec<&String> = needy.into_iter().filter_map(|number| reach.hosts.get(number)).collect();
    if !needy.is_empty() && !std::io::stdin().is_terminal() {
        let hosts = fold(needy.iter().map(|host| host.as_str()));
        return Err(anyhow::anyhow!(
            "{hosts} would ask for a password or a host key, and there is no terminal: run the command in one"
        )
        .into());
    }
    for (index, host) in needy.iter().enumerate() {
        if interrupt::has_arrived() {
            break;
        }
        output.finished(&format!("{host} ({} of {})", index + 1, needy.len()));
        if install_key(host, arguments.key.as_deref())? == Installed::Failed {
            output.note(&format!("{host}: ssh-copy-id did not install the key"));
        }
    }
    let style = Style { times: true, ..Style::of("setup-ssh", "true") };
    over(select, &reach, style, output, |many, hosts, each, idle| many.run(hosts, "true", each, idle))
}
