//! Saves finished figures in a file during a run, so that an interrupted run can be continued.
//!
//! The file has the form of a partial result (`tieline.figures/1`). A file whose figures are of
//! another machine, build or choice of processors is refused.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    env::Env,
    error::{BenchError, Result},
    figure::{Figure, Figures, SCHEMA},
};

/// Larger files are not read.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// A file with the figures of a run so far.
#[derive(Debug)]
pub(super) struct Kept {
    path: PathBuf,
    all: Figures,
}

impl Kept {
    /// Opens a file of a run that is to be continued, or begins one. `env` is of now. Writes it, so
    /// that a place that cannot be written is noticed before hours of measuring.
    pub(super) fn open(path: &Path, env: &Env) -> Result<Self> {
        let mut kept = match user_files::read_regular(path, FILE_BYTES_MAX) {
            Ok(text) => Self { path: path.to_owned(), all: read(path, &text, env)? },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let all = Figures {
                    schema: SCHEMA.to_owned(),
                    env: env.clone(),
                    figures: Vec::new(),
                    missing: Vec::new(),
                    partial: true,
                };
                Self { path: path.to_owned(), all }
            }
            Err(error) => return Err(unusable(path, &error.to_string())),
        };
        kept.all.partial = true;
        // Figures that could not be measured are tried again.
        kept.all.missing.clear();
        kept.write()?;
        Ok(kept)
    }

    /// The figures that were finished before this run, each with a note that says so.
    pub(super) fn figures(&self) -> Vec<Figure> {
        let begun = self.all.env.started_unix_s;
        let note = format!("taken over by --resume from a run that was begun {begun} s after 1970");
        let taken = |figure: &Figure| {
            let mut figure = figure.clone();
            if !figure.notes.contains(&note) {
                figure.notes.push(note.clone());
            }
            figure
        };
        self.all.figures.iter().map(taken).collect()
    }

    /// Adds a finished figure and writes the file.
    pub(super) fn add(&mut self, figure: &Figure) -> Result<()> {
        self.all.figures.push(figure.clone());
        self.write()
    }

    /// A new file replaces the old one at once: a run that is interrupted leaves one or the other.
    fn write(&self) -> Result<()> {
        let failed = |error: io::Error| {
            let source = io::Error::new(error.kind(), format!("{error}: name another file with --resume"));
            BenchError::Io { what: format!("the figures cannot be saved in {}", self.path.display()), source }
        };
        let text = serde_json::to_vec_pretty(&self.all).map_err(|error| failed(error.into()))?;
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let new = self.path.with_file_name(name);
        fs::write(&new, text).and_then(|()| fs::rename(&new, &self.path)).map_err(failed)
    }
}

fn read(path: &Path, text: &str, now: &Env) -> Result<Figures> {
    let all: Figures = serde_json::from_str(text).map_err(|error| {
        let (line, reason) = (error.line(), crate::results::reason_of(&error));
        unusable(path, &format!("it is not JSON that --resume wrote (line {line}: {reason})"))
    })?;
    if all.schema != SCHEMA {
        return Err(unusable(path, &format!("its schema is {}, not {SCHEMA}", all.schema)));
    }
    let of = |env: &Env| {
        [
            ("the processor", env.cpu_model.clone()),
            ("the kernel", env.kernel.clone()),
            ("the processors that may be used", env.cpus_allowed.clone()),
            ("the program", env.program.clone()),
        ]
    };
    for ((what, before), (_, here)) in of(&all.env).into_iter().zip(of(now)) {
        if before != here {
            return Err(unusable(path, &format!("{what} was `{before}` and is `{here}`")));
        }
    }
    Ok(all)
}

fn unusable(path: &Path, why: &str) -> BenchError {
    BenchError::Usage(format!(
        "{} cannot be continued: {why}: name a file that does not exist, to begin a new run",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        figure::{
            Stat,
            tests::{blocks, spec},
        },
        verdict::Goal,
    };

    fn env() -> Env {
        Env { cpu_model: "made up".into(), program: "one".into(), started_unix_s: 7, ..Env::default() }
    }

    fn figure() -> Figure {
        Figure::of(spec(Stat::P50, Goal::at_most(1.1)), 9, blocks(30, 42.0, 40.0), vec![], 1).unwrap()
    }

    fn file(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("tieline-resume-{}-{name}.json", std::process::id()))
    }

    #[test]
    fn what_was_finished_is_there_when_the_run_goes_on() {
        let path = file("goes-on");
        let mut kept = Kept::open(&path, &env()).unwrap();
        assert!(kept.figures().is_empty());
        kept.add(&figure()).unwrap();
        // Later, and once more: the note stays one.
        for _ in 0..2 {
            let again = Kept::open(&path, &Env { started_unix_s: 99, ..env() }).unwrap();
            let figures = again.figures();
            assert_eq!((figures.len(), figures[0].blocks.len()), (1, 30));
            let notes: Vec<_> = figures[0].notes.iter().filter(|note| note.contains("begun 7 s")).collect();
            assert_eq!(notes.len(), 1);
        }
        let all: Figures = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert!(all.partial);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn figures_of_another_machine_or_build_are_refused() {
        let path = file("refused");
        Kept::open(&path, &env()).unwrap().add(&figure()).unwrap();
        for (other, says) in [
            (Env { cpu_model: "another".into(), ..env() }, "the processor was `made up`"),
            (Env { program: "two".into(), ..env() }, "the program was `one` and is `two`"),
        ] {
            let error = Kept::open(&path, &other).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains("refused.json"), "{error}");
        }
        for wrong in ["", "{}", "no JSON"] {
            fs::write(&path, wrong).unwrap();
            assert!(Kept::open(&path, &env()).is_err(), "{wrong}");
        }
        fs::remove_file(path).unwrap();
        let error = Kept::open(Path::new("/nonexistent/run.json"), &env()).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/run.json"), "{error}");
    }
}
