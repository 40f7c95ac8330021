//! What hosts have answered, as text or JSON: groups of the same answers, and at the end who failed.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use ::fleet::{Answer, Group, Kind, Spool, difference, fold, grouped, place_of};
use serde_json::{Value, json};

use super::{places, unwritable};
use crate::output::{Output, print_foreign};

/// Answers are printed when for so long no further one has come: those that are the same are one group.
const CALM: Duration = Duration::from_millis(500);
/// So much of what a host printed is in JSON.
const JSON_BYTES: u64 = 1 << 20;

/// How answers are shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style<'a> {
    /// The command of `tieline fleet`.
    pub(super) name: &'static str,
    /// What hosts do.
    pub(super) command: &'a str,
    /// The host before each line.
    pub(super) prefix: bool,
    /// Differences alone.
    pub(super) diff: bool,
    /// The time of each host.
    pub(super) times: bool,
    /// What was printed is no text for a person.
    pub(super) silent: bool,
    /// Where what was printed is written, too.
    pub(super) folder: Option<&'a Path>,
}

impl<'a> Style<'a> {
    pub(super) fn of(name: &'static str, command: &'a str) -> Self {
        Self { name, command, prefix: false, diff: false, times: false, silent: false, folder: None }
    }
}

/// The answers so far.
pub(super) struct Shown<'a> {
    style: Style<'a>,
    output: Output,
    all: usize,
    /// With the number of the host; not printed yet.
    waiting: Vec<(usize, Answer)>,
    last: Instant,
    ended: usize,
    failed: Vec<(usize, String, Kind, String)>,
    json: Vec<(usize, Value)>,
}

impl<'a> Shown<'a> {
    pub(super) fn new(style: Style<'a>, hosts: &[String], output: Output) -> Self {
        let (waiting, failed, json) = (Vec::new(), Vec::new(), Vec::new());
        Self { style, output, all: hosts.len(), waiting, last: Instant::now(), ended: 0, failed, json }
    }

    pub(super) fn ended(&self) -> usize {
        self.ended
    }

    pub(super) fn add(&mut self, number: usize, mut answer: Answer) -> anyhow::Result<()> {
        self.ended += 1;
        self.last = Instant::now();
        if let Some(failure) = &answer.failure {
            self.failed.push((number, answer.host.clone(), failure.kind, failure.why.clone()));
        }
        if let Some(folder) = self.style.folder {
            store(folder, &mut answer)?;
        }
        if self.output.json {
            self.json.push((number, in_json(&mut answer, self.style.silent)?));
        } else if self.style.times {
            if answer.failure.is_none() {
                let took_ms = answer.took.as_secs_f64() * 1e3;
                print(self.output, &format!("{}: {took_ms:.0} ms\n", answer.host))?;
            }
        } else if self.style.prefix {
            prefixed(&mut answer)?;
        } else {
            self.waiting.push((number, answer));
        }
        Ok(())
    }

    /// What has come is shown, unless more is about to come.
    pub(super) fn idle(&mut self) -> anyhow::Result<()> {
        if self.style.diff || self.waiting.is_empty() || self.ended == self.all || self.last.elapsed() < CALM
        {
            return Ok(());
        }
        self.groups()
    }

    fn groups(&mut self) -> anyhow::Result<()> {
        self.output.progress_done();
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort_by_key(|(number, _)| *number);
        let mut groups = grouped(waiting.into_iter().map(|(_, answer)| answer).collect());
        let usual = if self.style.diff { self.usual(&mut groups) } else { None };
        for at in 0..groups.len() {
            let Some(group) = groups.get_mut(at) else { break };
            // Who failed without a word is in the list at the end.
            let is_empty = group.answer.out.bytes() == 0 && group.answer.err.bytes() == 0;
            if self.style.silent || is_empty {
                continue;
            }
            let failure = group.answer.failure.as_ref().map(|failure| format!(": {}", failure.why));
            let hosts = fold(group.hosts.iter().map(String::as_str));
            let many =
                if group.hosts.len() > 1 { format!(" ({} hosts)", group.hosts.len()) } else { String::new() };
            print(self.output, &format!("---- {hosts}{many}{} ----\n", failure.unwrap_or_default()))?;
            match usual.filter(|usual| *usual < at) {
                Some(usual) => {
                    let (before, behind) = groups.split_at_mut(at);
                    if let (Some(usual), Some(group)) = (before.get_mut(usual), behind.first_mut()) {
                        print_foreign(difference(usual, group)?.as_bytes())?;
                        to_end(&mut group.answer.err)?;
                    }
                }
                None => {
                    to_end(&mut group.answer.out)?;
                    to_end(&mut group.answer.err)?;
                }
            }
        }
        Ok(())
    }

    /// The group with which others are compared: the largest that did not fail, which is put first.
    fn usual(&self, groups: &mut [Group]) -> Option<usize> {
        let usual = groups.iter().position(|group| group.answer.failure.is_none())?;
        if let Some(part) = groups.get_mut(..=usual) {
            part.rotate_right(1);
        }
        Some(0)
    }

    /// The rest, and who failed: whether nobody did.
    pub(super) fn finish(
        mut self,
        punch_list: Option<&Path>,
        left_out: usize,
        took: Duration,
    ) -> anyhow::Result<bool> {
        if !self.output.json {
            self.groups()?;
        }
        self.failed.sort_by_key(|(number, ..)| *number);
        if let Some(path) = punch_list {
            let failed = self.failed.iter();
            places::punch(
                path,
                failed.map(|(_, host, kind, why)| (host.as_str(), kind.name(), why.as_str())),
            )?;
        }
        let is_complete = self.failed.is_empty();
        if self.output.json {
            self.json.sort_by_key(|(number, _)| *number);
            let hosts: Vec<Value> = self.json.into_iter().map(|(_, value)| value).collect();
            let value = json!({
                "command": self.style.name, "of": self.style.command, "complete": is_complete, "hosts": hosts,
                "done_before": left_out, "took_s": took.as_secs_f64(),
            });
            self.output.form("tieline.fleet/1", || Ok(value), String::new)?;
            return Ok(is_complete);
        }
        print(self.output, &self.last_words(left_out))?;
        Ok(is_complete)
    }

    fn last_words(&self, left_out: usize) -> String {
        let mut text = String::new();
        let all = self.all;
        let before = if left_out > 0 { format!(", {left_out} had done it before") } else { String::new() };
        if self.failed.is_empty() {
            // Output that goes to a file is that of the hosts; a command without any says that it is done.
            if self.style.name != "run" || left_out > 0 {
                let _ = writeln!(text, "{}: all {all} hosts done{before}", self.style.name);
            }
            return text;
        }
        let _ = writeln!(text, "{} of {all} hosts failed{before}:", self.failed.len());
        // The same reason of several hosts is one line.
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for (_, host, _, why) in &self.failed {
            match reasons.iter_mut().find(|(of, _)| of == why) {
                Some((_, hosts)) => hosts.push(host),
                None => reasons.push((why, vec![host])),
            }
        }
        for (why, hosts) in reasons {
            let _ = writeln!(text, "  {}: {why}", fold(hosts));
        }
        text
    }
}

/// A text of this command.
fn print(output: Output, text: &str) -> anyhow::Result<()> {
    output.progress_done();
    if text.is_empty() { Ok(()) } else { Ok(print_foreign(text.as_bytes())?) }
}

/// All of a stream, with an end of its last line.
fn to_end(stream: &mut Spool) -> anyhow::Result<()> {
    let mut last = b'\n';
    stream.each_piece(|piece| {
        last = piece.last().copied().unwrap_or(last);
        print_foreign(piece)
    })?;
    if last != b'\n' {
        print_foreign(b"\n")?;
    }
    Ok(())
}

/// Each line behind the name of its host.
fn prefixed(answer: &mut Answer) -> anyhow::Result<()> {
    let Answer { host, out, err, .. } = answer;
    for stream in [out, err] {
        let mut text = Vec::new();
        let mut begins = true;
        stream.each_piece(|piece| {
            text.clear();
            for line in piece.split_inclusive(|byte| *byte == b'\n') {
                if begins {
                    text.extend_from_slice(host.as_bytes());
                    text.extend_from_slice(b": ");
                }
                text.extend_from_slice(line);
                begins = line.ends_with(b"\n");
            }
            print_foreign(&text)
        })?;
        if !begins {
            print_foreign(b"\n")?;
        }
    }
    Ok(())
}

fn store(folder: &Path, answer: &mut Answer) -> anyhow::Result<()> {
    fs::create_dir_all(folder).map_err(|error| unwritable(folder, error))?;
    let place = place_of(folder, &answer.host);
    for (end, stream) in [("out", &mut answer.out), ("err", &mut answer.err)] {
        let mut name = place.clone().into_os_string();
        name.push(format!(".{end}"));
        let path = Path::new(&name);
        let written = fs::File::create(path)
            .and_then(|mut file| stream.each_piece(|piece| std::io::Write::write_all(&mut file, piece)));
        written.map_err(|error| unwritable(path, error))?;
    }
    Ok(())
}

fn in_json(answer: &mut Answer, is_silent: bool) -> std::io::Result<Value> {
    let failure = answer.failure.as_ref();
    let status = match failure.map(|failure| failure.kind) {
        None => Some(0),
        Some(Kind::Status(status)) => Some(status),
        Some(_) => None,
    };
    let mut value = json!({
        "host": answer.host, "done": failure.is_none(), "status": status, "took_s": answer.took.as_secs_f64(),
        "kind": failure.map(|failure| failure.kind.name()), "error": failure.map(|failure| failure.why.as_str()),
    });
    let streams = [("stdout", &mut answer.out), ("stderr", &mut answer.err)];
    for (name, stream) in streams.into_iter().filter(|_| !is_silent) {
        let bytes = stream.first(JSON_BYTES)?;
        value[name] = String::from_utf8_lossy(&bytes).into();
        value[format!("{name}_bytes")] = stream.bytes().into();
    }
    Ok(value)
}
