//! Runs what the documentation tells a reader to type, and compares what is printed.
//!
//! The format is described for writers in `docs/README.md`: a fenced block tagged `console`, lines that start
//! with `$ ` are commands, what follows up to the next command is what a terminal shows. `...` alone on a
//! line stands for any number of lines, `...` inside a line for any text. A command must exit with 0; to show
//! another status, the example prints it (`tieline diag 99; echo "exit status $?"`), as a reader would.

pub mod parse;
pub mod pattern;
pub mod run;
