//! Reads and changes the registers of a thread that a signal has stopped.

use iced_x86::Register;
use shm::sync::plain::{AtomicU32, Ordering};

/// Index in `gregs` of each general register, in the order in which instructions number them.
const GENERAL: [libc::c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// Numbers of registers that instructions use without naming them.
pub(super) const RAX: usize = 0;
pub(super) const RCX: usize = 1;
pub(super) const RSI: usize = 6;
pub(super) const RDI: usize = 7;

/// Bytes of the widest vector register.
pub(super) const VECTOR_BYTES: usize = 64;

/// Parts of the saved vector state: Intel SDM volume 1, 13.1; the first lies where FXSAVE puts it.
const SSE: usize = 1;
const UPPER_YMM: usize = 2;
const MASKS: usize = 5;
const UPPER_ZMM: usize = 6;
const HIGH_ZMM: usize = 7;
const XMM_OFFSET: usize = 160;
const STATE_BITS_OFFSET: usize = 512;
/// The value that Linux writes into the last bytes of the FXSAVE area if the extended state
/// follows.
const MAGIC_OFFSET: usize = 464;
const MAGIC: u32 = 0x4650_5853;
const FEATURES_OFFSET: usize = MAGIC_OFFSET + 8;

/// The offset of each part; 0: the processor does not have it.
static OFFSETS: [AtomicU32; 8] = [const { AtomicU32::new(0) }; 8];

/// Reads from the processor where the parts are. Called before the first signal.
pub(super) fn prepare() {
    if !std::arch::is_x86_feature_detected!("xsave") {
        return;
    }
    for part in [UPPER_YMM, MASKS, UPPER_ZMM, HIGH_ZMM] {
        let leaf = core::arch::x86_64::__cpuid_count(0xd, u32::try_from(part).unwrap_or(0));
        if let Some(offset) = OFFSETS.get(part) {
            offset.store(if leaf.eax == 0 { 0 } else { leaf.ebx }, Ordering::Relaxed);
        }
    }
}

/// A stopped thread.
#[derive(Debug)]
pub(super) struct Context {
    thread: *mut libc::ucontext_t,
}

impl Context {
    /// Wraps what the kernel passes to a handler.
    ///
    /// # Safety
    ///
    /// `raw` is the third argument of a signal handler that has not returned, and nothing else uses
    /// it.
    pub(super) unsafe fn new(raw: *mut libc::c_void) -> Self {
        Self { thread: raw.cast() }
    }

    fn machine(&self) -> &libc::mcontext_t {
        // SAFETY: `new` was promised a context that lives as long as the handler runs.
        unsafe { &(*self.thread).uc_mcontext }
    }

    fn raw(&self, index: libc::c_int) -> u64 {
        usize::try_from(index)
            .ok()
            .and_then(|index| self.machine().gregs.get(index))
            .map_or(0, |it| it.cast_unsigned())
    }

    fn set_raw(&mut self, index: libc::c_int, value: u64) {
        // SAFETY: as in `machine`; `self` is borrowed for writing.
        let registers = unsafe { &mut (*self.thread).uc_mcontext.gregs };
        if let Some(register) = usize::try_from(index).ok().and_then(|index| registers.get_mut(index)) {
            *register = value.cast_signed();
        }
    }

    pub(super) fn instruction(&self) -> usize {
        usize::try_from(self.raw(libc::REG_RIP)).unwrap_or(0)
    }

    pub(super) fn go_on_at(&mut self, address: usize) {
        self.set_raw(libc::REG_RIP, address as u64);
    }

    pub(super) fn flags(&self) -> u64 {
        self.raw(libc::REG_EFL)
    }

    pub(super) fn set_flags(&mut self, flags: u64) {
        self.set_raw(libc::REG_EFL, flags);
    }

    /// Whether a store faulted, rather than a load.
    pub(super) fn is_store(&self) -> bool {
        const WRITE: u64 = 2;
        self.raw(libc::REG_ERR) & WRITE != 0
    }

    /// Signals that wait, as the kernel keeps them: 64 bits.
    pub(super) fn blocked(&self) -> u64 {
        // SAFETY: as in `machine`; the kernel's set is the first 8 bytes of the C library's.
        unsafe { (&raw const (*self.thread).uc_sigmask).cast::<u64>().read() }
    }

    pub(super) fn set_blocked(&mut self, signals: u64) {
        // SAFETY: as in `blocked`.
        unsafe { (&raw mut (*self.thread).uc_sigmask).cast::<u64>().write(signals) };
    }

    /// A general register by its number, whole.
    pub(super) fn general(&self, number: usize) -> u64 {
        GENERAL.get(number).map_or(0, |&index| self.raw(index))
    }

    pub(super) fn set_general(&mut self, number: usize, value: u64) {
        if let Some(&index) = GENERAL.get(number) {
            self.set_raw(index, value);
        }
    }

    /// A general register as an instruction names it, with zeroes above. Nothing for other
    /// registers.
    pub(super) fn register(&self, register: Register) -> Option<u64> {
        let Place { number, bits, shift } = Place::of(register)?;
        Some(self.general(number) >> shift & ones(bits))
    }

    /// Writes one: 32 bits clear those above, fewer leave them.
    pub(super) fn set_register(&mut self, register: Register, value: u64) {
        let Some(Place { number, bits, shift }) = Place::of(register) else { return };
        let kept = if bits >= 32 { 0 } else { self.general(number) & !(ones(bits) << shift) };
        self.set_general(number, kept | (value & ones(bits)) << shift);
    }

    fn vectors(&self) -> *mut u8 {
        self.machine().fpregs.cast()
    }

    fn word<T: Copy>(&self, offset: usize) -> T {
        // SAFETY: only called for offsets in the first 576 bytes, after `extended` or `fpregs` has
        // checked that they exist.
        unsafe { self.vectors().add(offset).cast::<T>().read_unaligned() }
    }

    /// The address of a part of the extended state, if it is saved; and whether its registers have
    /// any value other than zero.
    fn part(&self, part: usize) -> Option<(*mut u8, bool)> {
        if self.vectors().is_null() {
            return None;
        }
        if part == SSE {
            let is_extended = self.word::<u32>(MAGIC_OFFSET) == MAGIC;
            let is_used = !is_extended || self.word::<u64>(STATE_BITS_OFFSET) >> SSE & 1 != 0;
            // SAFETY: the FXSAVE area, of 512 bytes, is always there.
            return Some((unsafe { self.vectors().add(XMM_OFFSET) }, is_used));
        }
        let offset = OFFSETS.get(part)?.load(Ordering::Relaxed) as usize;
        let is_saved = offset != 0
            && self.word::<u32>(MAGIC_OFFSET) == MAGIC
            && self.word::<u64>(FEATURES_OFFSET) >> part & 1 != 0;
        let is_used = is_saved && self.word::<u64>(STATE_BITS_OFFSET) >> part & 1 != 0;
        // SAFETY: by its header the kernel has saved this part, in the standard format, whose
        // offsets the processor reports.
        is_saved.then(|| (unsafe { self.vectors().add(offset) }, is_used))
    }

    /// Up to 64 bytes of vector register `number` (0 to 31), lowest first, in pieces as they are
    /// saved.
    fn pieces(number: usize) -> [Option<Piece>; 3] {
        let piece =
            |part, part_bytes, index, start, bytes| Some(Piece { part, part_bytes, index, start, bytes });
        if number >= 16 {
            return [piece(HIGH_ZMM, 1024, number - 16, 0, 64), None, None];
        }
        [
            piece(SSE, 256, number, 0, 16),
            piece(UPPER_YMM, 256, number, 16, 16),
            piece(UPPER_ZMM, 512, number, 32, 32),
        ]
    }

    /// A vector register; zeroes if the processor does not have it.
    pub(super) fn vector(&self, number: usize, into: &mut [u8; VECTOR_BYTES]) {
        into.fill(0);
        for piece in Self::pieces(number).into_iter().flatten() {
            let (Some((start, true)), Some(bytes)) = (self.part(piece.part), into.get_mut(piece.range()))
            else {
                continue;
            };
            // SAFETY: the part holds 16 registers of this many bytes each, and `index` is below 16.
            unsafe {
                start.add(piece.index * piece.bytes).copy_to_nonoverlapping(bytes.as_mut_ptr(), piece.bytes)
            };
        }
    }

    /// Writes a vector register. False, and nothing is changed, where a part that matters is not
    /// there.
    pub(super) fn set_vector(&mut self, number: usize, from: &[u8; VECTOR_BYTES]) -> bool {
        let pieces = || Self::pieces(number).into_iter().flatten();
        let lacks = |piece: &Piece| {
            self.part(piece.part).is_none()
                && from.get(piece.range()).is_none_or(|bytes| bytes.iter().any(|&it| it != 0))
        };
        if pieces().any(|piece| lacks(&piece)) {
            return false;
        }
        for piece in pieces() {
            let (Some((start, is_used)), Some(bytes)) = (self.part(piece.part), from.get(piece.range()))
            else {
                continue;
            };
            if !is_used {
                if bytes.iter().all(|&it| it == 0) {
                    continue;
                }
                self.use_part(start, &piece);
            }
            // SAFETY: as in `vector`.
            unsafe {
                bytes.as_ptr().copy_to_nonoverlapping(start.add(piece.index * piece.bytes), piece.bytes)
            };
        }
        true
    }

    /// Prepares a part whose registers were all zero for a value.
    fn use_part(&mut self, start: *mut u8, piece: &Piece) {
        let bits = self.word::<u64>(STATE_BITS_OFFSET) | 1 << piece.part;
        // SAFETY: the part exists with all its bytes, and so does the header, because the header
        // marks the part as unused.
        unsafe {
            start.write_bytes(0, piece.part_bytes);
            self.vectors().add(STATE_BITS_OFFSET).cast::<u64>().write_unaligned(bits);
        }
    }

    /// A mask register (0 to 7).
    pub(super) fn mask(&self, number: usize) -> u64 {
        match self.part(MASKS) {
            // SAFETY: the part holds 8 registers of 8 bytes.
            Some((start, true)) => unsafe { start.add((number & 7) * 8).cast::<u64>().read_unaligned() },
            _ => 0,
        }
    }
}

/// Part of a vector register.
struct Piece {
    part: usize,
    part_bytes: usize,
    index: usize,
    start: usize,
    bytes: usize,
}

impl Piece {
    fn range(&self) -> core::ops::Range<usize> {
        self.start..self.start + self.bytes
    }
}

/// The bits of a general register that a name means.
struct Place {
    number: usize,
    bits: u32,
    shift: u32,
}

impl Place {
    fn of(register: Register) -> Option<Self> {
        let at = register as usize;
        let place = |first: Register, bits| Some(Self { number: at - first as usize, bits, shift: 0 });
        match register {
            Register::AH | Register::CH | Register::DH | Register::BH => {
                Some(Self { number: at - Register::AH as usize, bits: 8, shift: 8 })
            }
            _ if at < Register::AL as usize => None,
            _ if at < Register::AH as usize => place(Register::AL, 8),
            // SPL is behind the four upper halves, and has number 4.
            _ if at < Register::AX as usize => {
                Some(Self { number: at - Register::SPL as usize + 4, bits: 8, shift: 0 })
            }
            _ if at < Register::EAX as usize => place(Register::AX, 16),
            _ if at < Register::RAX as usize => place(Register::EAX, 32),
            _ if at < Register::EIP as usize => place(Register::RAX, 64),
            _ => None,
        }
    }
}

/// A number with this many one bits.
pub(super) fn ones(bits: u32) -> u64 {
    u64::MAX.checked_shr(64_u32.saturating_sub(bits)).unwrap_or(0)
}
