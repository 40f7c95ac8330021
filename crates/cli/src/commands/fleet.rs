//! `tieline fleet`.

mod install;
mod menu;
mod places;
mod setup;
mod shown;
mod verify;

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ::fleet::{Answer, FleetError, Kept, OnMany, Selection, Source, Ssh, State, command_of};

use crate::args::{FleetAction, FleetCopy, FleetFetch, FleetReport, FleetRun, FleetSelect};
use crate::exit::{FAIL, Failure, Outcome, PASS};
use crate::interrupt;
use crate::output::Output;
use shown::{Shown, Style};

/// Hosts at a time, if nothing else is said.
const PARALLEL: usize = 64;
/// Ping is a question that is answered soon.
const PING_LIMIT: Duration = Duration::from_secs(20);
/// Of a command that is run by itself, which none is here.
const COMMAND_LIMIT: Duration = Duration::from_secs(90);

pub(super) fn run(action: &FleetAction, output: Output) -> Outcome {
    match action {
        FleetAction::Run(arguments) => command(arguments, output),
        FleetAction::Ping(select) => ping(select, output),
        FleetAction::Copy(arguments) => copy(arguments, output),
        FleetAction::Fetch(arguments) => fetch(arguments, output),
        FleetAction::Report(arguments) => report(arguments, output),
        FleetAction::SetupSsh(arguments) => setup::run(arguments, output),
        FleetAction::Install(arguments) => install::install(arguments, false, output),
        FleetAction::Upgrade(arguments) => install::install(arguments, true, output),
        FleetAction::Reboot(arguments) => install::reboot(arguments, output),
        FleetAction::Menu(arguments) => menu::run(arguments, output),
        FleetAction::Verify(arguments) => verify::run(arguments, output),
        FleetAction::Close => {
            let closed = ::fleet::close("ssh")?;
            output.form(
                "tieline.fleet-close/1",
                || Ok(serde_json::json!({ "closed": closed })),
                || format!("{closed} connections closed\n"),
            )?;
            Ok(PASS)
        }
    }
}

/// The hosts, and how they are reached.
struct Reach {
    hosts: Vec<String>,
    ssh: Ssh,
    at_once: usize,
    limit: Option<Duration>,
}

impl Reach {
    fn new(select: &FleetSelect) -> Result<Self, Failure> {
        let selection = Selection {
            file: select.hosts.as_deref(),
            on: select.on.as_deref(),
            except: select.except.as_deref(),
        };
        let hosts = selection.hosts()?;
        places::may_punch(select)?;
        let kept = select.keep.map(Kept::new).transpose()?;
        let at_once = match select.parallel {
            Some(number) => usize::try_from(number).unwrap_or(usize::MAX),
            None => ::fleet::parallel_by_environment()?.unwrap_or(PARALLEL),
        };
        interrupt::end_with_what_there_is()?;
        let ssh =
            Ssh { connect: select.connect_timeout, kept, ..Ssh::new(COMMAND_LIMIT, interrupt::has_arrived) };
        Ok(Self { hosts, ssh, at_once, limit: select.timeout })
    }

    fn many(&self) -> OnMany<'_> {
        OnMany { ssh: &self.ssh, at_once: self.at_once, limit: self.limit }
    }
}

/// What each answer comes to, as the hosts give them.
type Each<'a> = &'a mut dyn FnMut(usize, Answer);

/// Has all hosts that have not done it do something, shows what they say, and ends with the punch list.
fn over(
    select: &FleetSelect,
    reach: &Reach,
    style: Style<'_>,
    output: Output,
    work: impl FnOnce(&OnMany<'_>, &[String], Each<'_>, &mut dyn FnMut()),
) -> Outcome {
    let what = format!("{} {}", style.name, style.command);
    let mut state = select.resume.as_ref().map(|path| State::open(path, &what)).transpose()?;
    let mut hosts = reach.hosts.clone();
    hosts.retain(|host| state.as_ref().is_none_or(|state| !state.has(host)));
    let all = hosts.len();
    let began = Instant::now();
    let shown = RefCell::new(Shown::new(style, &hosts, output));
    let failed: RefCell<Option<anyhow::Error>> = RefCell::new(None);
    let fails = |error: anyhow::Error| {
        // The first one says most.
        failed.borrow_mut().get_or_insert(error);
    };
    let mut each = |number: usize, answer: Answer| {
        if answer.failure.is_none()
            && let Some(state) = &mut state
        {
            state.add(&answer.host).unwrap_or_else(|error| fails(error.into()));
        }
        shown.borrow_mut().add(number, answer).unwrap_or_else(&fails);
    };
    let mut idle = || {
        let mut shown = shown.borrow_mut();
        output.passing(&format!("{} of {all} hosts done", shown.ended()));
        shown.idle().unwrap_or_else(&fails);
    };
    work(&reach.many(), &hosts, &mut each, &mut idle);
    output.progress_done();
    let outcome =
        shown.into_inner().finish(select.punch_list.as_deref(), reach.hosts.len() - all, began.elapsed());
    if let Some(error) = failed.into_inner() {
        return Err(error.into());
    }
    if !outcome? {
        return Ok(FAIL);
    }
    state.map(State::finish).transpose()?;
    Ok(PASS)
}

fn command(arguments: &FleetRun, output: Output) -> Outcome {
    let reach = Reach::new(&arguments.select)?;
    arguments.output_dir.as_deref().map(places::outputs).transpose()?;
    let command = command_of(&arguments.command);
    let style = Style {
        prefix: arguments.prefix,
        diff: arguments.diff,
        folder: arguments.output_dir.as_deref(),
        ..Style::of("run", &command)
    };
    over(&arguments.select, &reach, style, output, |many, hosts, each, idle| {
        many.run(hosts, &command, each, idle)
    })
}

fn ping(select: &FleetSelect, output: Output) -> Outcome {
    let reach = Reach { limit: select.timeout.or(Some(PING_LIMIT)), ..Reach::new(select)? };
    let style = Style { times: true, ..Style::of("ping", "true") };
    over(select, &reach, style, output, |many, hosts, each, idle| many.run(hosts, "true", each, idle))
}

fn copy(arguments: &FleetCopy, output: Output) -> Outcome {
    let reach = Reach::new(&arguments.select)?;
    let (to, files) = match arguments.paths.split_last() {
        Some((to, files)) if !files.is_empty() => (to, files),
        _ => {
            return Err(super::usage(
                "<TO> is missing: behind the files name the file or directory on the hosts: see `tieline fleet copy --help`",
            ));
        }
    };
    let Some(to) = to.to_str() else {
        return Err(super::usage(format!("`{}` is no UTF-8: give the hosts a name that is", to.display())));
    };
    let source = Source::new(files, to)?;
    let names: Vec<_> = arguments.paths.iter().map(|path| path.to_string_lossy()).collect();
    let words = names.join(" ");
    let style = Style::of("copy", &words);
    over(&arguments.select, &reach, style, output, |many, hosts, each, idle| {
        many.copy(hosts, &source, each, idle)
    })
}

fn fetch(arguments: &FleetFetch, output: Output) -> Outcome {
    let reach = Reach::new(&arguments.select)?;
    let into = arguments.to.clone().or_else(::fleet::uploads_by_environment);
    let into = into.unwrap_or_else(|| PathBuf::from("uploads"));
    let file = &arguments.file;
    if file.is_empty() || file.ends_with('/') || file == ".." || file.ends_with("/..") {
        return Err(super::usage(format!("`{file}` is no file: name one, such as /var/log/dmesg")));
    }
    places::fetched(&into)?;
    let style = Style { silent: true, ..Style::of("fetch", file) };
    over(&arguments.select, &reach, style, output, |many, hosts, each, idle| {
        many.fetch(hosts, file, &into, each, idle);
    })
}

fn report(arguments: &FleetReport, output: Output) -> Outcome {
    let reach = Reach::new(&arguments.select)?;
    places::reports(&arguments.to)?;
    let style = Style { silent: true, ..Style::of("report", "report.tar.gz") };
    over(&arguments.select, &reach, style, output, |many, hosts, each, idle| {
        many.report(hosts, &arguments.to, each, idle);
    })
}

/// An error of a file that is written beside the result.
fn unwritable(path: &std::path::Path, source: std::io::Error) -> anyhow::Error {
    FleetError::Local { path: path.into(), what: "written", source }.into()
}
