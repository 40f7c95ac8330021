#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

/// Does something on a thread of its own, and fails if that hangs.
fn within<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = mpsc::channel();
    thread::spawn(move || drop(done.send(what())));
    ended.recv_timeout(Duration::from_secs(60)).unwrap()
}

fn fifo(folder: &tempfile::TempDir) -> PathBuf {
    let path = folder.path().join("fifo");
    mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    path
}

/// Opened as [`read`] does it.
fn pipe_of(path: &Path, most_bytes: u64, patience_ms: u64) -> Result<Vec<u8>> {
    pipe(open(path)?, most_bytes, Duration::from_millis(patience_ms))
}

#[test]
fn a_file_is_read_whole_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, "12345678").unwrap();
    assert_eq!(read(&path, 8).unwrap(), b"12345678");
    assert_eq!(read_regular(&path, 8).unwrap(), "12345678");
    for error in [read(&path, 7).unwrap_err(), read_regular(&path, 7).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::FileTooLarge, "{error}");
        assert!(error.to_string().contains("more than 7 bytes"), "{error}");
    }
    std::fs::write(&path, b"abc\xff").unwrap();
    assert!(read_regular(&path, 8).unwrap_err().to_string().contains("byte 3"));
    std::fs::write(&path, "").unwrap();
    assert_eq!(read(&path, 0).unwrap(), b"");
    assert_eq!(read(&folder.path().join("none"), 8).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn what_says_no_length_is_still_bounded() {
    let stat = Path::new("/proc/self/stat");
    assert_eq!(std::fs::metadata(stat).unwrap().len(), 0);
    assert!(!read(stat, 1 << 16).unwrap().is_empty());
    assert_eq!(read(stat, 4).unwrap_err().kind(), ErrorKind::FileTooLarge);
}

#[test]
fn directories_and_devices_are_refused_at_once() {
    for (path, says) in [("/dev/zero", "neither"), ("/dev/null", "neither"), ("/tmp", "directory")] {
        let error = within(move || read(Path::new(path), u64::MAX).unwrap_err()).to_string();
        assert!(error.contains(says), "{path}: {error}");
        let error = within(move || read_regular(Path::new(path), u64::MAX).unwrap_err()).to_string();
        assert_eq!(error, "it is not a regular file", "{path}");
    }
}

#[test]
fn a_pipe_without_a_writer_is_not_waited_for_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let path = fifo(&folder);
    let there = path.clone();
    let error = within(move || pipe_of(&there, 8, 50).unwrap_err());
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert!(error.to_string().contains("open for writing"), "{error}");
    let error = within(move || read_regular(&path, 8).unwrap_err());
    assert!(error.to_string().contains("not a regular file"), "{error}");
}

#[test]
fn a_pipe_is_read_to_its_end_however_slow_its_writer_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = fifo(&folder);
    let there = path.clone();
    let reader = thread::spawn(move || pipe_of(&there, 1 << 20, 50_000));
    // Opening waits until the reader has it open; it is silent for longer than a reader without patience
    // would wait.
    let mut writer = OpenOptions::new().write(true).open(&path).unwrap();
    for piece in 0..3_u8 {
        thread::sleep(Duration::from_millis(20));
        writer.write_all(&[piece; 100_000]).unwrap();
    }
    drop(writer);
    let got = within(move || reader.join().unwrap().unwrap());
    let wanted: Vec<u8> = (0..3_u8).flat_map(|piece| [piece; 100_000]).collect();
    assert!(got == wanted, "{} bytes", got.len());
}

#[test]
fn a_silent_writer_is_no_missing_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = fifo(&folder);
    // Both ends, as the reader must not be opened first.
    let mut writer = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let there = path.clone();
    let reader = thread::spawn(move || pipe_of(&there, 8, 1));
    thread::sleep(Duration::from_millis(50));
    writer.write_all(b"late").unwrap();
    drop(writer);
    assert_eq!(within(move || reader.join().unwrap().unwrap()), b"late");
}

#[test]
fn a_pipe_that_does_not_end_is_refused_when_it_is_too_long() {
    let folder = tempfile::tempdir().unwrap();
    let path = fifo(&folder);
    let there = path.clone();
    let writer = thread::spawn(move || {
        let mut pipe = OpenOptions::new().write(true).open(&there).unwrap();
        // Until the reader has gone; this process ignores the signal, as Rust programs do.
        while pipe.write_all(&[1; 4096]).is_ok() {}
    });
    let error = within(move || pipe_of(&path, 100_000, 50_000).unwrap_err());
    assert_eq!(error.kind(), ErrorKind::FileTooLarge, "{error}");
    within(move || writer.join().unwrap());
}

#[test]
fn a_writer_that_came_and_said_nothing_is_an_empty_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = fifo(&folder);
    let there = path.clone();
    let reader = thread::spawn(move || pipe_of(&there, 8, 50_000));
    drop(OpenOptions::new().write(true).open(&path).unwrap());
    assert_eq!(within(move || reader.join().unwrap().unwrap()), b"");
}
