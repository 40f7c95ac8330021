//! Processes with a message queue each, which carry out orders together.

use std::{process::Command, sync::Arc, time::Duration};

use tieline::messages::VARIABLES;

use crate::{
    error::{BenchError, Result},
    patterns::{
        child_driver::{self, ChildDriver},
        programs::on_cpu,
    },
    progress::Waiter,
};

/// The program of each.
const PROGRAM: &str = "tieline-messages-measure";
/// Longest that an order may take.
const ORDER: Duration = Duration::from_secs(60);

/// The processes, in rank order.
pub struct Members {
    all: Vec<ChildDriver>,
    waiter: Arc<dyn Waiter>,
}

impl Members {
    /// Starts one on each of these processors, which may occur several times, and lets them meet. They have
    /// the default settings, whatever the environment says.
    ///
    /// # Errors
    /// The program is missing, or one of them ends.
    pub fn start(cpus: &[usize], waiter: &Arc<dyn Waiter>) -> Result<Self> {
        // An empty variable counts as unset.
        Self::start_with(cpus, &VARIABLES.map(|name| (name, String::new())), waiter)
    }

    /// The same with the environment of this process and these variables.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_with(
        cpus: &[usize],
        variables: &[(&str, String)],
        waiter: &Arc<dyn Waiter>,
    ) -> Result<Self> {
        let path = child_driver::find(PROGRAM, super::WHAT)?;
        let command = || {
            let mut command = Command::new(&path);
            command.envs(variables.iter().map(|(name, value)| (*name, value)));
            command
        };
        let start = |cpu: &usize| {
            on_cpu(*cpu, || Ok(ChildDriver::start(command(), PROGRAM, super::WHAT)))
                .map_err(BenchError::io(PROGRAM))?
        };
        let all = cpus.iter().map(start).collect::<Result<_>>()?;
        let mut members = Self { all, waiter: Arc::clone(waiter) };
        let names = members.answers()?.join(" ");
        members.all.iter_mut().try_for_each(|member| member.say(&names))?;
        match members.answers()?.iter().find(|line| *line != "ready") {
            None => Ok(members),
            Some(line) => Err(BenchError::OtherEnd {
                what: super::WHAT,
                reason: format!("`{line}` instead of `ready`"),
            }),
        }
    }

    /// What each says next.
    fn answers(&mut self) -> Result<Vec<String>> {
        let Self { all, waiter } = self;
        all.iter_mut().map(|member| member.line_within(ORDER, waiter)).collect()
    }

    /// What each says of its order: the orders are given in turn, to members by their rank.
    ///
    /// # Errors
    /// One of them fails, or takes too long.
    pub fn carry_out(&mut self, orders: &[String]) -> Result<Vec<String>> {
        for (member, order) in self.all.iter_mut().zip(orders.iter().cycle()) {
            member.say(order)?;
        }
        self.answers()
    }
}

/// The number that a member has said.
///
/// # Errors
/// It is none.
pub fn number(said: &str) -> Result<f64> {
    let not_a_time =
        || BenchError::OtherEnd { what: super::WHAT, reason: format!("`{said}` is not a number") };
    said.parse().map_err(|_| not_a_time())
}
