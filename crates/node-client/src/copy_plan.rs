//! The plan of copies that this program follows: of its node manager, or of `TIELINE_COPY_PLAN`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Once;

use link::page::PageReader;
use shm::copy::{CLASSES, KernelId, Plan, class_end_bytes, kernels};
use shm::cpu::{CacheSizes, Features};

/// Names the plan of copies.
pub const ENV_COPY_PLAN: &str = "TIELINE_COPY_PLAN";

/// First line of a plan's file.
const HEADER: &str = "tieline copy plan 1";
/// Begins the line that identifies the measured machine.
const MACHINE: &str = "machine ";

/// Where a plan comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// `libc`: the C library's `memcpy` for all sizes.
    Libc,
    /// `table`: what is known of processors of this kind, without measuring.
    Table,
    /// A file that `tieline tune` has written.
    File(PathBuf),
}

impl Source {
    /// What [`ENV_COPY_PLAN`] names, if it is set.
    pub fn of_environment() -> Option<Self> {
        std::env::var_os(ENV_COPY_PLAN).filter(|value| !value.is_empty()).map(|value| Self::of(&value))
    }

    fn of(value: &OsStr) -> Self {
        match value.to_str() {
            Some("libc") => Self::Libc,
            Some("table") => Self::Table,
            _ => Self::File(value.into()),
        }
    }

    /// The plan.
    ///
    /// # Errors
    /// The file cannot be read, or is none.
    pub fn plan(&self) -> Result<Plan, PlanError> {
        match self {
            Self::Libc => Ok(Plan::LIBC),
            Self::Table => Ok(Plan::for_cpu(Features::get(), CacheSizes::get())),
            Self::File(path) => PlanFile::read(path).map(|file| file.plan),
        }
    }
}

/// A plan cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Its file cannot be read.
    #[error(
        "{ENV_COPY_PLAN}: the copy plan {path} cannot be read: {source}: name an existing file, `libc` or `table`, or unset it and run \
         `tieline tune`"
    )]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// It is another file.
    #[error(
        "{ENV_COPY_PLAN}: {path}, line {line}: {what}: name another file, `libc` or `table`, or unset it and run `tieline tune`"
    )]
    Malformed {
        /// The path of the file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
}

/// A plan with the machine that it was measured on, as a file holds it.
///
/// The file's lines: a header; `machine …`; `BYTES KERNEL`, for each class of sizes the longest copy and the
/// kernel's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanFile {
    /// Processor, microcode, caches and kernel, and whether it is a virtual machine.
    pub machine: String,
    /// What was chosen there.
    pub plan: Plan,
}

impl PlanFile {
    /// Reads one.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        let unreadable = |source| PlanError::Unreadable { path: path.into(), source };
        let text = user_files::read_regular(path, 64 << 10).map_err(unreadable)?;
        Self::parse(&text).map_err(|(line, what)| PlanError::Malformed { path: path.into(), line, what })
    }

    /// As the file's text.
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEADER}\n{MACHINE}{}\n", self.machine);
        for (class, id) in self.plan.by_class().iter().enumerate() {
            text.push_str(&format!("{} {}\n", class_end_bytes(class), word(*id)));
        }
        text
    }

    fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut lines = (1..).zip(text.lines());
        match lines.next() {
            Some((_, HEADER)) => {}
            _ => return Err((1, "it is not a copy plan of this version".into())),
        }
        let machine = lines.next().and_then(|(_, line)| line.strip_prefix(MACHINE));
        let machine = machine.ok_or((2, "the machine is missing".to_owned()))?.to_owned();
        let mut chosen = [KernelId::Libc; CLASSES];
        for (class, kernel) in chosen.iter_mut().enumerate() {
            let (number, line) = lines.next().ok_or((class + 3, "sizes are missing".to_owned()))?;
            let wrong = |what: String| (number, what);
            let (bytes, name) =
                line.split_once(' ').ok_or_else(|| wrong(format!("`{line}` is not a size and a kernel")))?;
            if bytes.parse() != Ok(class_end_bytes(class)) {
                return Err(wrong(format!("the size is {bytes}, not {}", class_end_bytes(class))));
            }
            let known = kernels().into_iter().find(|kernel| word(kernel.id) == name);
            let known = known.ok_or_else(|| wrong(format!("`{name}` is not a copy kernel")))?;
            if !known.available {
                return Err(wrong(format!("this processor cannot run the copy kernel `{name}`")));
            }
            *kernel = known.id;
        }
        match lines.next() {
            None => Ok(Self { machine, plan: Plan::of_classes(chosen) }),
            Some((number, _)) => Err((number, "there are lines behind the last size".into())),
        }
    }
}

/// The name of a kernel in a file: one word.
fn word(id: KernelId) -> String {
    id.name().replace(' ', "-")
}

/// Follows the plan that the environment names, else that of the node manager, from the first attachment of
/// this process on.
pub(crate) fn follow(page: &PageReader) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // A wrong value must not keep a program from running: `tieline tune` reports what is wrong with it.
        let named = Source::of_environment().and_then(|source| source.plan().ok());
        if let Some(plan) = named.or_else(|| page.copy_plan()) {
            // It names kernels of this processor: both sources were checked.
            let _ = plan.install();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> PlanFile {
        PlanFile {
            machine: "made up, 2 processors".into(),
            plan: Plan::for_cpu(Features::get(), CacheSizes::get()),
        }
    }

    #[test]
    fn a_plan_survives_its_file() {
        assert_eq!(PlanFile::parse(&some().to_text()), Ok(some()));
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said_with_its_line() {
        let text = some().to_text();
        let cut = &text[..text.len() - 20];
        for (wrong, line, what) in [
            (String::new(), 1, "not a copy plan"),
            (text.replacen("machine", "m", 1), 2, "the machine is missing"),
            (text.replacen("\n192 ", "\n193 ", 1), 3, "the size is 193, not 192"),
            (text.replacen("\n192 ", "\n192 fast-", 1), 3, "not a copy kernel"),
            (cut.to_owned(), CLASSES + 1, ""),
            (format!("{text}x\n"), CLASSES + 3, "behind the last"),
        ] {
            let (at, said) = PlanFile::parse(&wrong).unwrap_err();
            assert!(said.contains(what), "{said}");
            assert!(at == line || what.is_empty(), "{at}: {said}");
        }
        let error = PlanFile::read(Path::new("/nonexistent/plan")).unwrap_err().to_string();
        // While the variable stands, `tieline tune` fails by the same error: it has to be unset first.
        assert!(
            error.contains("/nonexistent/plan") && error.contains("unset it and run `tieline tune`"),
            "{error}"
        );
    }

    #[test]
    fn the_environment_names_a_source() {
        for (value, source) in [
            ("libc", Source::Libc),
            ("table", Source::Table),
            ("/run/plan", Source::File("/run/plan".into())),
        ] {
            assert_eq!(Source::of(OsStr::new(value)), source);
        }
        assert_eq!(Source::Libc.plan().unwrap(), Plan::LIBC);
    }
}
