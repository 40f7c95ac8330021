#![allow(clippy::unwrap_used)]

use super::*;
use crate::region::{RegionOptions, Reserve};
use crate::sync::{AtomicBool, AtomicU64, Ordering};

const PAGE: usize = 4096;
const PAGES: usize = 8;

/// Private memory of this process.
struct Private(usize);

impl Private {
    fn new(access: ProtFlags, flags: MapFlags) -> Self {
        // SAFETY: a new mapping, where the kernel finds room.
        let start = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), PAGES * PAGE, access, flags) };
        Self(start.unwrap().expose_provenance())
    }

    fn usual() -> Self {
        Self::new(ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        // SAFETY: the tests use words within the mapping, which lives as long as `self`.
        unsafe { &*ptr::with_exposed_provenance::<AtomicU64>(self.0 + index * 8) }
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `new`; whatever lies there now is ours.
        let _ = unsafe { rustix::mm::munmap(ptr::with_exposed_provenance_mut(self.0), PAGES * PAGE) };
    }
}

fn region(pages: usize) -> Region {
    let options = RegionOptions { reserve: Reserve::Lazy, ..RegionOptions::new("adopt-test", pages * PAGE) };
    Region::create(&options).unwrap()
}

fn adopt(region: &Region, address: usize) -> Result<Adopted> {
    // SAFETY: the tests give ranges that nothing in this process uses, or that are refused.
    unsafe { region.adopt(address) }
}

#[test]
fn memory_is_the_regions_until_it_is_released_and_keeps_its_content() {
    let (memory, region) = (Private::usual(), region(PAGES));
    memory.word(3).store(33, Ordering::Relaxed);
    let adopted = adopt(&region, memory.0).unwrap();
    assert_eq!(memory.word(3).load(Ordering::Relaxed), 33);
    assert_eq!(region.window().load_u64(24), Ok(33));
    region.window().store_u64(PAGE, 44).unwrap();
    assert_eq!(memory.word(PAGE / 8).load(Ordering::Relaxed), 44);
    adopted.release().unwrap();
    assert_eq!(
        (memory.word(3).load(Ordering::Relaxed), memory.word(PAGE / 8).load(Ordering::Relaxed)),
        (33, 44)
    );
    memory.word(3).store(55, Ordering::Relaxed);
    assert_eq!(region.window().load_u64(24), Ok(33), "private again");
}

#[test]
fn what_is_not_private_memory_is_refused_and_left_as_it_is() {
    let region = region(PAGES);
    let why = |memory: &Private| adopt(&region, memory.0).unwrap_err().to_string();
    let read_write = ProtFlags::READ | ProtFlags::WRITE;
    assert!(why(&Private::new(ProtFlags::READ, MapFlags::PRIVATE)).contains("cannot be read and written"));
    assert!(why(&Private::new(read_write, MapFlags::SHARED)).contains("shared memory"));
    let hole = Private::usual();
    // SAFETY: the page is the test's own.
    unsafe { rustix::mm::munmap(ptr::with_exposed_provenance_mut(hole.0 + 2 * PAGE), PAGE) }.unwrap();
    assert!(why(&hole).contains("nothing is mapped"), "{}", why(&hole));
    hole.word(0).store(1, Ordering::Relaxed);
    let twice = Private::usual();
    let adopted = adopt(&region, twice.0).unwrap();
    assert!(why(&twice).contains("shared memory"));
    adopted.release().unwrap();
    for address in [0, 8, usize::MAX - PAGE + 1] {
        assert!(adopt(&region, address).is_err(), "{address:#x}");
    }
}

#[test]
fn memory_that_the_program_has_replaced_meanwhile_is_left_alone() {
    let (memory, region) = (Private::usual(), region(PAGES));
    let adopted = adopt(&region, memory.0).unwrap();
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED);
    // SAFETY: the page is the test's own.
    unsafe {
        rustix::mm::mmap_anonymous(ptr::with_exposed_provenance_mut(memory.0 + PAGE), PAGE, access, flags)
    }
    .unwrap();
    memory.word(PAGE / 8).store(9, Ordering::Relaxed);
    adopted.release().unwrap();
    assert_eq!(memory.word(PAGE / 8).load(Ordering::Relaxed), 9);
    memory.word(0).store(7, Ordering::Relaxed);
    assert_eq!(region.window().load_u64(0), Ok(7), "still the region's");
}

#[test]
fn no_store_is_lost_while_threads_store_all_the_time() {
    let (memory, stop) = (Private::usual(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3_usize)
            .map(|number| {
                let (memory, stop) = (&memory, &stop);
                scope.spawn(move || {
                    let mut count = 0_u64;
                    while !stop.load(Ordering::Relaxed) {
                        count += 1;
                        // Plain stores, each page its own word, read back at once: a store that went nowhere
                        // is seen.
                        for page in 0..PAGES {
                            let word = memory.word(page * PAGE / 8 + number);
                            assert_eq!(word.load(Ordering::Relaxed), count - 1);
                            word.store(count, Ordering::Relaxed);
                        }
                    }
                    count
                })
            })
            .collect();
        let region = region(PAGES);
        for _ in 0..1000 {
            adopt(&region, memory.0).unwrap().release().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        for (number, writer) in writers.into_iter().enumerate() {
            let count = writer.join().unwrap();
            for page in 0..PAGES {
                assert_eq!(memory.word(page * PAGE / 8 + number).load(Ordering::Relaxed), count);
            }
        }
    });
}

#[test]
fn a_child_that_is_forked_in_the_middle_can_store() {
    let (memory, stop) = (Private::usual(), AtomicBool::new(false));
    let region = region(PAGES);
    std::thread::scope(|scope| {
        let replacing = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                adopt(&region, memory.0).unwrap().release().unwrap();
            }
        });
        for _ in 0..300 {
            // SAFETY: the child only stores to memory of its own and ends at once.
            let child = unsafe { libc::fork() };
            if child == 0 {
                for page in 0..PAGES {
                    memory.word(page * PAGE / 8).store(5, Ordering::Relaxed);
                }
                // SAFETY: it ends the child without any handler.
                unsafe { libc::_exit(0) };
            }
            assert!(child > 0);
            let mut status = 0;
            // SAFETY: the status is the test's own.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0, "the child's end");
        }
        stop.store(true, Ordering::Relaxed);
        replacing.join().unwrap();
    });
}

#[test]
fn faults_of_the_program_still_end_it() {
    use std::os::unix::process::ExitStatusExt;
    const CHILD: &str = "SHM_ADOPT_FAULTS";
    if std::env::var_os(CHILD).is_some() {
        let (memory, region) = (Private::usual(), region(PAGES));
        let _adopted = adopt(&region, memory.0).unwrap();
        // SAFETY: the page is the test's own.
        unsafe {
            let page = ptr::with_exposed_provenance_mut(memory.0);
            rustix::mm::mprotect(page, PAGE, MprotectFlags::READ).unwrap();
        }
        memory.word(0).store(1, Ordering::Relaxed);
        return;
    }
    let name = "adopt::tests::faults_of_the_program_still_end_it";
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.signal(), Some(libc::SIGSEGV), "{status}");
}
