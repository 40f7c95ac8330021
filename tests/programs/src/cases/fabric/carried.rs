//! What the provider says at the end of each process: how often it was called, and how messages went.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

/// What it writes on standard error, before the number of the process.
const LINE: &str = "tieline-fi: process ";
const MESSAGES: [&str; 2] =
    ["(messages through the ring)=", "(messages offered to be copied by the receiver)="];
const ACCESSES: [&str; 3] = [" fi_read=", " fi_write=", " fi_atomic="];

/// The counts of all processes that have ended.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Carried {
    processes: u64,
    messages: u64,
    accesses: u64,
}

impl Carried {
    /// Adds what programs have said of themselves. Each of `processes` must have used
    /// the provider, and at least one must have sent something.
    pub(super) fn add(&mut self, said: &str, processes: usize) -> Result<()> {
        // One that closes several end points says so each time, and counts on.
        let mut of_process = BTreeMap::new();
        for line in said.lines() {
            if let Some(rest) = line.split_once(LINE).map(|(_, rest)| rest)
                && let Some((process, counts)) = rest.split_once(':')
            {
                of_process.insert(process, counts);
            }
        }
        ensure!(
            of_process.len() >= processes,
            "{} of {processes} processes used the provider: {}",
            of_process.len(),
            said.lines().last().unwrap_or("nothing was said")
        );
        let before = self.messages + self.accesses;
        for counts in of_process.values() {
            let sum = |names: &[&str]| names.iter().filter_map(|name| number(counts, name)).sum::<u64>();
            self.processes += 1;
            self.messages += sum(&MESSAGES);
            self.accesses += sum(&ACCESSES);
        }
        ensure!(self.messages + self.accesses > before, "nothing was sent through the provider: {said}");
        Ok(())
    }

    /// In words; `None` if nothing was counted.
    pub(super) fn words(&self) -> Option<String> {
        let Self { processes, messages, accesses } = self;
        let of_memory =
            if *accesses > 0 { format!(", {accesses} accesses to memory") } else { String::new() };
        (*processes > 0).then(|| format!("{messages} messages{of_memory} of {processes} processes"))
    }
}

fn number(line: &str, name: &str) -> Option<u64> {
    let rest = line.split_once(name)?.1;
    rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(process: u32, sends: u32) -> String {
        format!(
            "[host:1] tieline-fi: process {process}: fi_cq_read=900 fi_tsend=5 fi_read=2 \
             (messages through the ring)={sends} (messages offered to be copied by the receiver)=1\n"
        )
    }

    #[test]
    fn counts_are_read_and_a_process_without_messages_is_noticed() {
        let mut carried = Carried::default();
        carried.add(&[said(7, 1), "Warning: x\n".to_owned(), said(8, 4), said(7, 4)].concat(), 2).unwrap();
        assert_eq!(carried, Carried { processes: 2, messages: 10, accesses: 4 });
        assert_eq!(carried.words().unwrap(), "10 messages, 4 accesses to memory of 2 processes");
        let too_few = carried.add(&said(7, 3), 2).unwrap_err().to_string();
        assert!(too_few.starts_with("1 of 2 processes used the provider"), "{too_few}");
        let idle = carried.add("tieline-fi: process 7: fi_getinfo=1 fi_cq_read=9\n", 1).unwrap_err();
        assert!(idle.to_string().starts_with("nothing was sent through the provider"), "{idle}");
        assert_eq!(Carried::default().words(), None);
    }
}
