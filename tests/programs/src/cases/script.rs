//! Programs of our own, in languages and with libraries of others: each tries a list of things and says what
//! came of it.

use anyhow::{Context, Result};

use crate::{
    case::{Case, Need, Over, Session},
    room::Room,
    running::Running,
};

/// Not the first in the path, which may be a shell script that chooses one.
const PYTHON_PATH: &str = "/usr/bin/python3";
pub(super) const PYTHON_NEEDED: Need = (PYTHON_PATH, "python3");

/// A program that is run with `check`, or with `load SECONDS`, and then says `rate N` in its last line.
pub(super) struct Script {
    room: Room,
    words: Vec<String>,
    variables: Vec<(&'static str, &'static str)>,
    unit: &'static str,
    server: Option<Running>,
}

impl Script {
    pub(super) fn new(room: Room, words: &[&str], unit: &'static str) -> Self {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        Self { room, words, variables: Vec::new(), unit, server: None }
    }

    /// A program in Python.
    pub(super) fn python(room: Room, name: &str, text: &str, unit: &'static str) -> Result<Self> {
        let path = room.file(name, text)?.display().to_string();
        Ok(Self::new(room, &[PYTHON_PATH, &path], unit))
    }

    /// A variable of its environment.
    pub(super) fn variable(mut self, name: &'static str, value: &'static str) -> Self {
        self.variables.push((name, value));
        self
    }

    /// With a server, whose port is its first argument.
    pub(super) fn with_server(mut self, server: Running, port: u16) -> Result<Box<dyn Session>> {
        self.words.push(port.to_string());
        self.server = Some(server);
        Ok(Box::new(self))
    }

    fn run(&self, more: &[&str]) -> Result<String> {
        let words: Vec<&str> = self.words.iter().map(String::as_str).chain(more.iter().copied()).collect();
        let [program, arguments @ ..] = words.as_slice() else { anyhow::bail!("no program") };
        self.room.run_with(program, arguments, &self.variables)?.good()
    }
}

impl Session for Script {
    fn check(&mut self) -> Result<Vec<String>> {
        let said: Vec<String> = self.run(&["check"])?.lines().map(str::to_owned).collect();
        anyhow::ensure!(
            said.last().is_some_and(|line| line == "done"),
            "it did not come to its end: {said:?}"
        );
        Ok(said)
    }

    fn load(&mut self, seconds: u32) -> Result<Option<f64>> {
        if self.unit.is_empty() {
            return Ok(None);
        }
        let said = self.run(&["load", &seconds.to_string()])?;
        let rate = said.lines().last().and_then(|line| line.strip_prefix("rate "));
        Ok(Some(rate.with_context(|| format!("no rate in {said:?}"))?.parse()?))
    }

    fn unit(&self) -> &'static str {
        self.unit
    }
}

pub(super) const PYTHON: Case = Case {
    name: "python",
    what: "Python: sockets, selectors, asyncio, multiprocessing, subprocess, passed descriptors",
    over: Over::Sockets,
    needs: &[PYTHON_NEEDED],
    open: |room| {
        let text = include_str!("../../files/sockets.py");
        Ok(Box::new(Script::python(room, "sockets.py", text, "round trips/s")?))
    },
};

pub(super) const NODE: Case = Case {
    name: "node",
    what: "Node.js: net, http, a child that is handed a connection",
    over: Over::Sockets,
    needs: &[("node", "nodejs")],
    open: |room| {
        let path = room.file("sockets.js", include_str!("../../files/sockets.js"))?.display().to_string();
        Ok(Box::new(Script::new(room, &["node", &path], "round trips/s")))
    },
};

pub(super) const JAVA: Case = Case {
    name: "java",
    what: "Java: NIO selectors, blocking channels, sockets and timeouts",
    over: Over::Sockets,
    needs: &[("java", "default-jre-headless"), ("javac", "default-jdk-headless")],
    open: |room| {
        let path = room.file("Sockets.java", include_str!("../../files/Sockets.java"))?.display().to_string();
        room.prepare("javac", &["-d", &room.text("."), &path])?;
        let folder = room.text(".");
        Ok(Box::new(Script::new(room, &["java", "-cp", &folder, "Sockets"], "round trips/s")))
    },
};

pub(super) const GO: Case = Case {
    name: "go",
    what: "Go, which asks the kernel itself: named by the launcher, and run plain",
    over: Over::Sockets,
    needs: &[("go", "golang-go")],
    open: |room| {
        let path = room.file("sockets.go", include_str!("../../files/sockets.go"))?.display().to_string();
        let program = room.text("sockets");
        // Compiled packages are kept with what else was built: both modes need them.
        let cache = std::env::current_exe()?.with_file_name("programs-go");
        room.prepare(
            "env",
            &[
                &format!("GOCACHE={}", cache.display()),
                "GO111MODULE=off",
                "go",
                "build",
                "-o",
                &program,
                &path,
            ],
        )?;
        Ok(Box::new(Script::new(room, &[&program], "round trips/s")))
    },
};
