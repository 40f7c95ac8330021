//! A program: which actor makes which call in which order, and its text form.

pub mod call;
pub mod word;

use std::fmt::Write as _;

use anyhow::{Context as _, Result, bail};

pub use call::Call;
pub use word::{Actor, Choice, Name, Set, Slot, Word};

/// First line of the text form.
const HEAD: &str = "tieline-differential 1";
/// So many actors a program may have.
pub const ACTORS: usize = 6;
/// So many slots a process has.
pub const SLOTS: usize = 48;
/// So many addresses are kept.
pub const NAMES: usize = 16;
/// So many steps a program may have.
pub const STEPS: usize = 160;

/// One call of one actor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Who.
    pub actor: Actor,
    /// The call ends by itself after a while (a timeout): the next step waits for that.
    pub wait: bool,
    /// What.
    pub call: Call,
}

/// Circumstances of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Setting {
    /// All processors may be used, not one.
    pub spread: bool,
    /// Descriptors 0 to 2 are closed at the start.
    pub bare: bool,
}

/// A program whose steps are totally ordered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Program {
    /// Circumstances.
    pub setting: Setting,
    /// What is done, in order.
    pub steps: Vec<Step>,
}

impl Program {
    /// The text form.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = format!("{HEAD}\n");
        if self.setting.spread {
            out.push_str("spread\n");
        }
        if self.setting.bare {
            out.push_str("bare\n");
        }
        for step in &self.steps {
            out.push_str(&step.text());
            out.push('\n');
        }
        out
    }

    /// Reads the text form. Empty lines and what stands behind `#` do not count.
    ///
    /// # Errors
    ///
    /// Names the line that is not understood, and why.
    pub fn parse(text: &str) -> Result<Self> {
        let mut program = Self::default();
        let mut lines = text
            .lines()
            .enumerate()
            .map(|(at, line)| (at + 1, line.split('#').next().unwrap_or("").trim()))
            .filter(|(_, line)| !line.is_empty());
        match lines.next() {
            Some((_, HEAD)) => {}
            _ => bail!("this is no program: its first line is not `{HEAD}`"),
        }
        for (number, line) in lines {
            match line {
                "spread" => program.setting.spread = true,
                "bare" => program.setting.bare = true,
                _ => program.steps.push(Step::parse(line).with_context(|| format!("line {number}"))?),
            }
        }
        if program.steps.len() > STEPS {
            bail!("{} steps are too many: at most {STEPS}", program.steps.len());
        }
        Ok(program)
    }
}

impl Step {
    /// Its line.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.actor.write(&mut out);
        out.push(' ');
        if self.wait {
            out.push_str("wait! ");
        }
        self.call.write(&mut out);
        out
    }

    fn parse(line: &str) -> Result<Self> {
        let mut words = line.split_whitespace();
        let actor = words.next().and_then(Actor::read).context("a step starts with an actor, as in `a0`")?;
        let mut name = words.next().context("the call is missing")?;
        let wait = name == "wait!";
        if wait {
            name = words.next().context("the call is missing")?;
        }
        let mut arguments = Vec::new();
        for word in words {
            let pair = word.split_once('=');
            arguments.push(pair.with_context(|| format!("`{word}` is no argument, as in `fd=s1`"))?);
        }
        let call = Call::read(name, &arguments).map_err(anyhow::Error::msg)?;
        let step = Self { actor, wait, call };
        step.check()?;
        Ok(step)
    }

    /// Numbers that lead out of the tables of the executor.
    fn check(&self) -> Result<()> {
        let mut text = String::new();
        self.call.write(&mut text);
        let words = text.split([' ', '=', ',', ':']);
        for word in words.chain([self.text().split(' ').next().unwrap_or("")]) {
            let beyond = Slot::read(word).is_some_and(|slot| slot.index() >= SLOTS)
                || Actor::read(word).is_some_and(|actor| actor.index() >= ACTORS)
                || Name::read(word).is_some_and(|name| name.index() >= NAMES);
            if beyond {
                bail!("`{word}` is too large: there are {SLOTS} slots, {ACTORS} actors and {NAMES} names");
            }
        }
        Ok(())
    }
}

/// The line of a step, with its number, as people are told of it.
#[must_use]
pub fn described(program: &Program, at: usize) -> String {
    let mut out = String::new();
    if let Some(step) = program.steps.get(at) {
        // Writing to a string cannot fail.
        let _ = write!(out, "{:>3} {}", at + 1, step.text());
    }
    out
}
