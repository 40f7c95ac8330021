//! `tieline fabric manage`.

use std::cell::RefCell;
use std::time::Duration;

use ::subnet::partitions::Partitions;
use ::subnet::protection::{Protection, read_key};
use ::subnet::qos::Qos;
use ::subnet::record::{Record, RecordError};
use ::subnet::set::Set;
use ::subnet::{Event, ManageError, Manager, Options};
use mad::MadTransport;
use mad::ibsim::IbsimTransport;
use mad::text::plain_lines;
use serde_json::json;
use topology::Graph;

use super::super::usage;
use super::shown::Shown;
use super::{connect, limits, what_if};
use crate::args::fabric::Manage;
use crate::exit::{FAIL, Failure, Outcome, PASS};
use crate::interrupt;

const SCHEMA: &str = "tieline.fabric.manage/1";
/// Text of Sets that is gathered before it is printed.
const GATHERED: usize = 64 << 10;

pub(super) fn run(arguments: &Manage, output: Shown) -> Outcome {
    let partitions =
        arguments.partitions.as_deref().map(Partitions::read).transpose().map_err(Failure::usage)?;
    for word in partitions.iter().flat_map(|partitions| &partitions.unknown) {
        output.note(word);
    }
    let qos = arguments.qos.as_deref().map(Qos::read).transpose().map_err(Failure::usage)?;
    for word in qos.iter().flat_map(|qos| &qos.unknown) {
        output.note(word);
    }
    let options = Options {
        limits: limits(&arguments.live),
        engine: what_if::engine(&arguments.engine)?,
        lmc: arguments.lmc,
        protection: protection(arguments)?,
        qos,
        record: arguments.state.clone(),
        partitions,
        priority: arguments.priority,
        key: arguments.sm_key,
        poll: Duration::from_millis(arguments.poll),
        patience: arguments.polls,
        quarantine: Duration::from_secs(arguments.quarantine.into()),
        light_sweep: Duration::from_secs(arguments.sweep.into()),
        ..Options::default()
    };
    let mut manager = Manager::new(options).map_err(failed)?;
    if let Some(path) = arguments.state.as_deref().filter(|_| !arguments.plan_only) {
        Record::may_write(path)?;
    }
    interrupt::end_with_what_there_is()?;
    if arguments.plan_only {
        let (mut transport, source) = connect(&arguments.live)?;
        return plan(&mut manager, &mut *transport, &source, output);
    }
    let Some(name) = &arguments.live.ibsim else {
        return Err(usage(
            "managing was tried on simulators only, and no simulator is named: give --ibsim NAME, or --plan-only to list what would be set through the umad device",
        ));
    };
    let mut transport = IbsimTransport::connect(name, arguments.live.at.as_deref().unwrap_or(""))?;
    transport.set_is_sm(true)?;
    let result = manage(&mut manager, &mut transport, arguments, output);
    // Whoever comes next is not to take this port for a manager's. A simulator that is gone needs no word.
    let _ = transport.set_is_sm(false);
    result
}

/// How ports are to be protected: not at all without a file with the key.
fn protection(arguments: &Manage) -> Result<Protection, Failure> {
    let Some(path) = &arguments.mkey_file else { return Ok(Protection::NONE) };
    let key = read_key(path).map_err(Failure::usage)?;
    Ok(Protection { key, level: arguments.mkey_protect, lease: arguments.mkey_lease })
}

/// Errors of the files and of the fabric have their own status.
fn failed(error: ManageError) -> Failure {
    match error {
        ManageError::Record(error @ RecordError::Write(..)) => error.into(),
        ManageError::Record(error) => Failure::usage(error),
        error => error.into(),
    }
}

fn plan(manager: &mut Manager, transport: &mut dyn MadTransport, source: &str, output: Shown) -> Outcome {
    let as_json = output.0.json;
    let gathered = RefCell::new(String::new());
    let mut broken = None;
    let mut each = |set: &Set, graph: &Graph| {
        if broken.is_some() {
            return;
        }
        if as_json {
            broken = output.line(|| Ok(set.json(graph)), String::new).err();
            return;
        }
        let mut text = gathered.borrow_mut();
        text.push_str(&set.text(graph));
        text.push('\n');
        if text.len() >= GATHERED {
            let text = std::mem::take(&mut *text);
            broken = output.line(|| Ok(json!(null)), || text).err();
        }
    };
    let mut tell = |text: &str| output.progress(text);
    let planned = manager.plan(transport, &mut tell, &mut each, &interrupt::has_arrived).map_err(failed)?;
    output.progress_done();
    if let Some(error) = broken {
        return Err(error.into());
    }
    let text = || {
        let sets = &planned.sets;
        let findings: String = planned.findings.iter().map(|line| format!("finding: {line}\n")).collect();
        format!(
            "{}fabric: {source}\nengine: {}: {}\n{findings}{} of PortInfo, {} of SwitchInfo, {} of LFT blocks would be sent: {} Sets; none was sent\n",
            gathered.take(),
            planned.engine,
            planned.why,
            sets.port_info,
            sets.switch_info,
            sets.lft_blocks,
            sets.total()
        )
    };
    if as_json {
        let mut value = serde_json::to_value(&planned)?;
        value["schema"] = SCHEMA.into();
        value["event"] = "planned".into();
        output.line(|| Ok(value), String::new)?;
    } else {
        output.line(|| Ok(json!(null)), text)?;
    }
    Ok(PASS)
}

fn manage(
    manager: &mut Manager,
    transport: &mut IbsimTransport,
    arguments: &Manage,
    output: Shown,
) -> Outcome {
    let mut is_good = true;
    let print = |event: &str, why: Option<&str>, value: serde_json::Value, text: String| {
        let mut value = value;
        value["schema"] = SCHEMA.into();
        value["event"] = event.into();
        if let Some(why) = why {
            value["cause"] = why.into();
        }
        output.line(|| Ok(value), || plain_lines(&text))
    };
    if arguments.once {
        let mut tell = |text: &str| output.progress(text);
        let up = manager.bring_up(transport, &mut tell, &interrupt::has_arrived).map_err(failed)?;
        output.progress_done();
        print("brought_up", None, serde_json::to_value(&up)?, up.text())?;
        return Ok(if up.is_good() { PASS } else { FAIL });
    }
    let mut broken = None;
    let mut event = |event: Event| {
        let printed = match &event {
            Event::Repaired(repaired) => {
                is_good = repaired.is_good();
                serde_json::to_value(repaired)
                    .map_err(Into::into)
                    .and_then(|value| print("repaired", None, value, repaired.text()))
            }
            Event::BroughtUp(why, up) => {
                is_good = up.is_good();
                let text = || format!("swept and brought up: {why}\n{}", up.text());
                serde_json::to_value(up)
                    .map_err(Into::into)
                    .and_then(|value| print("brought_up", Some(why), value, text()))
            }
            Event::Grouped(grouped) => serde_json::to_value(grouped)
                .map_err(Into::into)
                .and_then(|value| print("multicast", None, value, grouped.text())),
            Event::Role { state, why } => {
                let value = json!({ "state": state.to_string(), "why": why });
                print("role", None, value, format!("{state}: {why}\n"))
            }
        };
        broken = broken.take().or(printed.err());
    };
    manager.attend(transport, None, &mut event, &interrupt::has_arrived).map_err(failed)?;
    match broken {
        Some(error) => Err(error.into()),
        None => Ok(if is_good { PASS } else { FAIL }),
    }
}
