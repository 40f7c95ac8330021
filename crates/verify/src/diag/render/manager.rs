//! Prints a node manager's objects and counters.

use std::fmt::{self, Formatter};

use super::{BEFORE_SECTION, Shown, banner, fact, level};

impl Shown<'_> {
    pub(super) fn manager(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.node.info.is_none() {
            return Ok(());
        }
        if self.shows(level::PROGRAMS) {
            self.programs(f)?;
        }
        if self.shows(level::SEGMENTS) {
            self.segments(f)?;
        }
        if self.shows(level::COUNTERS) { self.counters(f) } else { Ok(()) }
    }

    fn programs(&self, f: &mut Formatter<'_>) -> fmt::Result {
        banner(f, BEFORE_SECTION, &format!("PROGRAMS OF NODE {}", self.node.node))?;
        fact(f, "Programs attached", self.node.programs.len())?;
        self.node.programs.iter().try_for_each(|program| {
            let owns = format_args!(
                "pid {}, uid {}, {} segment(s), {} interrupt(s), {} import(s)",
                program.pid, program.uid, program.segments, program.interrupts, program.imports
            );
            fact(f, &program.name, owns)
        })
    }

    fn segments(&self, f: &mut Formatter<'_>) -> fmt::Result {
        banner(f, BEFORE_SECTION, &format!("SEGMENTS OF NODE {}", self.node.node))?;
        fact(f, "Segments", self.node.segments.len())?;
        self.node.segments.iter().try_for_each(|segment| {
            let open = if segment.available { "available" } else { "not available" };
            let shared = if segment.shared {
                format!(", shared with programs of the node ({} attached)", segment.attached)
            } else {
                String::new()
            };
            let how = format_args!(
                "{} bytes, {open}, {} connection(s), pid {}{shared}",
                segment.size_bytes, segment.connections, segment.owner_pid
            );
            fact(f, &segment.what, how)
        })
    }

    fn counters(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(counters) = &self.node.counters else { return Ok(()) };
        banner(f, BEFORE_SECTION, &format!("COUNTERS OF THE MANAGER OF NODE {}", self.node.node))?;
        for (name, value) in [
            ("requests", counters.requests),
            ("requests refused", counters.refusals),
            ("connections given out", counters.connections),
            ("programs that attached", counters.attaches),
            ("programs that died", counters.program_deaths),
            ("malformed messages", counters.protocol_errors),
            ("sessions lost", counters.sessions_lost),
        ] {
            fact(f, name, value)?;
        }
        Ok(())
    }
}
