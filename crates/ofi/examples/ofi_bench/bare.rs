//! The rival: libfabric's calls and nothing else, with a progress thread that works and rests as tieline's does.

use std::ffi::CString;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fabric_sys::Library;
use fabric_sys::abi::*;
use fabric_sys::calls::*;
use fabric_sys::constants::*;
use libc::{c_int, c_void};

const TAG: u64 = 5;
/// Of the large blocks.
pub(crate) const LARGE_BYTES: usize = 1 << 20;
/// As tieline waits.
const SPIN: Duration = Duration::from_micros(50);
const THREAD_SPIN: Duration = Duration::from_micros(20);
const NAP: Duration = Duration::from_micros(100);

/// An end point; its memory is never given back.
pub(crate) struct Bare {
    fabric: *mut fid_fabric,
    cq: *mut fid_cq,
    ep: *mut fid_ep,
    av: *mut fid_av,
    fd: c_int,
    contexts: [*mut fi_context2; 3],
    buffers: [*mut u8; 3],
    memory: *mut u8,
    pub(crate) key: u64,
    received: AtomicU64,
    sent: AtomicU64,
    others_work: AtomicU64,
    has_sleeper: AtomicBool,
}

// SAFETY: opened as FI_THREAD_SAFE; buffers are used by the one thread that posts.
unsafe impl Send for Bare {}
// SAFETY: as above.
unsafe impl Sync for Bare {}

fn check(call: &str, failed: c_int) {
    assert!(failed == 0, "{call}: {failed}");
}

fn leaked(bytes: usize) -> *mut u8 {
    Box::leak(vec![0_u64; bytes / 8].into_boxed_slice()).as_mut_ptr().cast()
}

impl Bare {
    pub(crate) fn open(provider: &str, source: &str) -> Arc<Self> {
        let library = Library::load().expect("libfabric");
        let (provider, source) =
            (CString::new(provider).expect("name"), CString::new(source).expect("address"));
        // SAFETY: the calls are made in libfabric's order with live objects; nothing is closed before the process ends.
        let bare = unsafe {
            let hints = (library.fi_dupinfo)(null());
            (*hints).caps = FI_TAGGED | FI_RMA;
            (*hints).mode = FI_CONTEXT | FI_CONTEXT2;
            (*(*hints).ep_attr).r#type = FI_EP_RDM;
            (*(*hints).domain_attr).threading = FI_THREAD_SAFE;
            (*(*hints).fabric_attr).prov_name = libc::strdup(provider.as_ptr());
            let mut info = null_mut();
            let flags = FI_SOURCE | FI_NUMERICHOST;
            check(
                "fi_getinfo",
                (library.fi_getinfo)(API_VERSION, source.as_ptr(), null(), flags, hints, &raw mut info),
            );
            let (mut fabric, mut domain, mut av, mut cq, mut ep, mut mr) =
                (null_mut(), null_mut(), null_mut(), null_mut(), null_mut(), null_mut());
            check("fi_fabric", (library.fi_fabric)((*info).fabric_attr, &raw mut fabric, null_mut()));
            check("fi_domain", fi_domain(fabric, info, &raw mut domain, null_mut()));
            let mut av_attr = fi_av_attr::zeroed();
            check("fi_av_open", fi_av_open(domain, &raw mut av_attr, &raw mut av, null_mut()));
            let mut cq_attr = fi_cq_attr::zeroed();
            (cq_attr.size, cq_attr.format, cq_attr.wait_obj) = (256, FI_CQ_FORMAT_DATA, FI_WAIT_FD);
            check("fi_cq_open", fi_cq_open(domain, &raw mut cq_attr, &raw mut cq, null_mut()));
            check("fi_endpoint", fi_endpoint(domain, info, &raw mut ep, null_mut()));
            check("fi_ep_bind", fi_bind(ep.cast(), av.cast(), 0));
            check("fi_ep_bind", fi_bind(ep.cast(), cq.cast(), FI_SEND | FI_RECV));
            check("fi_enable", fi_control(ep.cast(), FI_ENABLE, null_mut()));
            let mut fd = -1;
            check("fi_control", fi_control(cq.cast(), FI_GETWAIT, (&raw mut fd).cast()));
            let memory = leaked(LARGE_BYTES);
            let access = FI_REMOTE_READ | FI_REMOTE_WRITE;
            check(
                "fi_mr_reg",
                fi_mr_reg(domain, memory.cast(), LARGE_BYTES, access, 0, 77, 0, &raw mut mr, null_mut()),
            );
            let context = || leaked(64).cast::<fi_context2>();
            Self {
                fabric,
                cq,
                ep,
                av,
                fd,
                contexts: [context(), context(), context()],
                buffers: [leaked(64), leaked(64), leaked(LARGE_BYTES)],
                memory,
                key: (*mr).key,
                received: AtomicU64::new(0),
                sent: AtomicU64::new(0),
                others_work: AtomicU64::new(0),
                has_sleeper: AtomicBool::new(false),
            }
        };
        let bare = Arc::new(bare);
        let its = Arc::clone(&bare);
        std::thread::spawn(move || its.progress_thread());
        bare
    }

    pub(crate) fn address(&self) -> Vec<u8> {
        let (mut bytes, mut len) = (vec![0_u8; 512], 512);
        // SAFETY: a live end point and a place of that length.
        check("fi_getname", unsafe { fi_getname(self.ep, bytes.as_mut_ptr().cast(), &raw mut len) });
        bytes.truncate(len);
        bytes
    }

    pub(crate) fn insert(&self, address: &[u8]) -> u64 {
        let mut inserted = 0;
        // SAFETY: a live address vector and an address of this provider.
        let count =
            unsafe { fi_av_insert(self.av, address.as_ptr().cast(), 1, &raw mut inserted, 0, null_mut()) };
        assert_eq!(count, 1);
        inserted
    }

    fn progress(&self) -> usize {
        let mut entries = [fi_cq_data_entry::zeroed(); 16];
        // SAFETY: a live queue of this format.
        let count = unsafe { fi_cq_read(self.cq, entries.as_mut_ptr().cast(), 16) };
        let count = usize::try_from(count).unwrap_or_else(|_| {
            assert!(count == -(FI_EAGAIN as isize), "a completion failed: {count}");
            0
        });
        for entry in &entries[..count] {
            let is_receive = entry.op_context == self.contexts[0].cast::<c_void>();
            let counter = if is_receive { &self.received } else { &self.sent };
            counter.fetch_add(1, Ordering::Release);
        }
        if count > 0 && self.has_sleeper.load(Ordering::SeqCst) {
            self.has_sleeper.store(false, Ordering::SeqCst);
        }
        count
    }

    fn progress_thread(&self) {
        let (mut seen, mut idle_since) = (0, None);
        loop {
            if self.progress() > 0 {
                idle_since = None;
                continue;
            }
            let now = self.others_work.load(Ordering::Relaxed);
            let is_left_to_others = now != seen && !self.has_sleeper.load(Ordering::SeqCst);
            seen = now;
            if is_left_to_others {
                std::thread::sleep(NAP);
                continue;
            }
            if idle_since.get_or_insert_with(Instant::now).elapsed() < THREAD_SPIN {
                std::hint::spin_loop();
                continue;
            }
            let mut objects = [self.cq.cast::<fid>()];
            // SAFETY: live objects; a descriptor that lives as long.
            unsafe {
                if fi_trywait(self.fabric, objects.as_mut_ptr(), 1) == 0 {
                    let mut polled = libc::pollfd { fd: self.fd, events: libc::POLLIN, revents: 0 };
                    libc::poll(&raw mut polled, 1, 50);
                }
            }
        }
    }

    fn wait(&self, counter: &AtomicU64, wanted: u64) {
        let mut started = None;
        while counter.load(Ordering::Acquire) < wanted {
            self.others_work.fetch_add(1, Ordering::Relaxed);
            if self.progress() > 0 {
                continue;
            }
            if started.get_or_insert_with(Instant::now).elapsed() > SPIN {
                self.has_sleeper.store(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_micros(1));
            }
            std::hint::spin_loop();
        }
        self.has_sleeper.store(false, Ordering::Relaxed);
    }

    fn posted(&self, post: impl Fn() -> isize) {
        loop {
            match post() {
                0 => return,
                again if again == -(FI_EAGAIN as isize) => self.progress(),
                failed => panic!("a post failed: {failed}"),
            };
        }
    }

    pub(crate) fn post_receive(&self) {
        let (buffer, context) = (self.buffers[0].cast(), self.contexts[0].cast());
        // SAFETY: buffer and context live forever; one receive at a time.
        self.posted(|| unsafe { fi_trecv(self.ep, buffer, 64, null_mut(), FI_ADDR_UNSPEC, TAG, 0, context) });
    }

    /// The nth message that comes in, counted from 1.
    pub(crate) fn await_message(&self, nth: u64) {
        self.wait(&self.received, nth);
    }

    /// Sends 8 bytes and waits for the completion; `nth` counts sends and writes.
    pub(crate) fn send(&self, to: u64, nth: u64) {
        self.wait(&self.sent, nth - 1);
        let (buffer, context) = (self.buffers[1].cast(), self.contexts[1].cast());
        // SAFETY: as above; the one before has completed.
        self.posted(|| unsafe { fi_tsend(self.ep, buffer, 8, null_mut(), to, TAG, context) });
    }

    /// Writes a block, and waits until they are there.
    pub(crate) fn write(&self, len: usize, to: u64, key: u64, nth: u64) {
        self.wait(&self.sent, nth - 1);
        let source = libc::iovec { iov_base: self.buffers[2].cast(), iov_len: len };
        let target = fi_rma_iov { addr: 0, len, key };
        let mut descriptor = null_mut();
        let message = fi_msg_rma {
            msg_iov: &raw const source,
            desc: &raw mut descriptor,
            iov_count: 1,
            addr: to,
            rma_iov: &raw const target,
            rma_iov_count: 1,
            context: self.contexts[2].cast(),
            data: 0,
        };
        // SAFETY: as above.
        self.posted(|| unsafe {
            fi_writemsg(self.ep, &raw const message, FI_COMPLETION | FI_DELIVERY_COMPLETE)
        });
        self.wait(&self.sent, nth);
    }

    pub(crate) fn first_byte(&self) -> u8 {
        // SAFETY: memory of this end point; a peer may write it, which a volatile read tolerates.
        unsafe { self.memory.read_volatile() }
    }
}
