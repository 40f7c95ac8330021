//! The kernel's device for management datagrams, `/dev/infiniband/umadN` (its
//! `Documentation/infiniband/user_mad.rst` and `rdma/ib_user_mad.h` are the description).
//!
//! It is opened, told and read by calls of the C library, and not by raw ones, so that a library that is
//! preloaded into the process and stands for a device (`libumad2sim.so`) is met. That library knows only the
//! older header of 56 bytes, whatever it responds.
//!
//! This was tested on such a library, and not on hardware.

use std::ffi::CString;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use crate::header::{MAD_LEN, Mad, blank};
use crate::transport::{Address, MadTransport, Received, TransportError};
use crate::values::{Class, Lid};

/// Header without and with the index of a partition key.
const OLD_HEADER: usize = 56;
const HEADER: usize = 64;
/// How long the kernel waits for a response before it gives a datagram back: shorter than
/// [`windowed`](crate::windowed) waits, because the kernel refuses a repetition while it still waits.
const KERNEL_WAIT_MS: u32 = 200;
/// Classes that are registered: class, version.
const CLASSES: [(Class, u8); 4] =
    [(Class::SUBNET, 1), (Class::DIRECTED, 1), (Class::ADMINISTRATION, 2), (Class::PERFORMANCE, 1)];
const NEXT: &str = "check with ibstat that the port's driver is loaded and the port is up";

/// What to do about a device that cannot be opened.
fn next_of_open(error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound => {
            "load the driver (modprobe ib_umad) and check with ibstat that the port exists; for a simulator give --ibsim NAME"
        }
        ErrorKind::PermissionDenied => {
            "run as root, or ask for read and write permission on the driver's device"
        }
        _ => NEXT,
    }
}

/// `IB_USER_MAD_REGISTER_AGENT` and `IB_USER_MAD_ENABLE_PKEY`.
const REGISTER_AGENT: libc::c_ulong = 0xc01c_1b01;
const ENABLE_PARTITIONS: libc::c_ulong = 0x1b03;

/// `struct ib_user_mad_reg_req`.
#[repr(C)]
#[derive(Default)]
struct Registration {
    id: u32,
    methods: [u32; 4],
    queue_pair: u8,
    class: u8,
    version: u8,
    oui: [u8; 3],
    rmpp_version: u8,
}

/// A port of the machine, through the kernel's device.
#[derive(Debug)]
pub struct UmadTransport {
    device: Descriptor,
    header: usize,
    /// The kernel's number for each of [`CLASSES`].
    agents: [u32; CLASSES.len()],
    lid: Lid,
    sm_lid: Lid,
    started: Instant,
}

/// A descriptor, or what a preloaded library takes for one: such a number is no descriptor of the kernel's,
/// and no type of the standard library may hold it.
#[derive(Debug)]
struct Descriptor(libc::c_int);

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the number came from `open`, this is its only owner, and it is not used after this.
        unsafe { libc::close(self.0) };
    }
}

impl Descriptor {
    fn open(path: &str, flags: libc::c_int) -> Result<Self, std::io::Error> {
        let path = CString::new(path)?;
        // SAFETY: `path` is a string that ends with a zero and lives until the call returns; without O_CREAT
        // there is no third argument.
        let number = unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) };
        if number < 0 { Err(std::io::Error::last_os_error()) } else { Ok(Self(number)) }
    }

    fn register(&self, registration: &mut Registration) -> Result<(), std::io::Error> {
        // SAFETY: the request takes a pointer to this structure, whose layout is the kernel's, reads and
        // writes it until it returns.
        let done = unsafe { libc::ioctl(self.0, REGISTER_AGENT, std::ptr::from_mut(registration)) };
        if done < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    }

    fn enable_partitions(&self) -> bool {
        // SAFETY: the request has no argument; the null pointer is for those who take one off the stack.
        let done = unsafe { libc::ioctl(self.0, ENABLE_PARTITIONS, std::ptr::null_mut::<u8>()) };
        done == 0
    }

    fn read(&self, bytes: &mut [u8]) -> Option<usize> {
        // SAFETY: the pointer and the length are those of a slice that nobody else uses until the call
        // returns.
        let len = unsafe { libc::read(self.0, bytes.as_mut_ptr().cast(), bytes.len()) };
        usize::try_from(len).ok()
    }

    fn write(&self, bytes: &[u8]) -> Result<(), std::io::Error> {
        // SAFETY: the pointer and the length are those of a slice that is not changed until the call returns.
        let len = unsafe { libc::write(self.0, bytes.as_ptr().cast(), bytes.len()) };
        if len < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Is there something to read within so long?
    fn readable(&self, wait: Duration) -> bool {
        let mut poll = libc::pollfd { fd: self.0, events: libc::POLLIN, revents: 0 };
        // Rounded up: otherwise the last part of a millisecond would be spent asking over and over.
        let wait = i32::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
        // SAFETY: the pointer is to one structure, and one is said.
        unsafe { libc::poll(&raw mut poll, 1, wait) > 0 }
    }
}

/// What a file of the kernel says, as such a library may say it too.
fn said(path: &str) -> Option<String> {
    let file = Descriptor::open(path, libc::O_RDONLY).ok()?;
    let mut bytes = [0; 64];
    let len = file.read(&mut bytes)?;
    Some(String::from_utf8_lossy(bytes.get(..len)?).trim().to_owned())
}

fn lid_of(path: &str) -> Lid {
    let hex = said(path).unwrap_or_default();
    Lid(u16::from_str_radix(hex.trim_start_matches("0x"), 16).unwrap_or(0))
}

impl UmadTransport {
    /// Opens the device of this number: `/dev/infiniband/umad0` is 0.
    ///
    /// # Errors
    /// No such device, or no leave to open it.
    pub fn open(number: u32) -> Result<Self, TransportError> {
        let path = format!("/dev/infiniband/umad{number}");
        let about = format!("/sys/class/infiniband_mad/umad{number}");
        let name = said(&format!("{about}/ibdev")).unwrap_or_default();
        let port = said(&format!("{about}/port")).unwrap_or_default();
        let device = Descriptor::open(&path, libc::O_RDWR | libc::O_NONBLOCK).map_err(|error| {
            let next = next_of_open(&error);
            TransportError::io(format!("open {path}"), error, next)
        })?;
        // The stand-in says yes to the new header, and then does not have it.
        let stand_in = name.starts_with("ibsim");
        let header = if !stand_in && device.enable_partitions() { HEADER } else { OLD_HEADER };
        let mut agents = [0; CLASSES.len()];
        for (agent, (class, version)) in agents.iter_mut().zip(CLASSES) {
            let management = matches!(class, Class::SUBNET | Class::DIRECTED);
            let mut registration = Registration {
                queue_pair: u8::from(!management),
                class: class.0,
                version,
                ..Registration::default()
            };
            device.register(&mut registration).map_err(|error| {
                TransportError::io(format!("register for {class} MADs at {path}"), error, NEXT)
            })?;
            *agent = registration.id;
        }
        let ports = format!("/sys/class/infiniband/{name}/ports/{port}");
        Ok(Self {
            device,
            header,
            agents,
            lid: lid_of(&format!("{ports}/lid")),
            sm_lid: lid_of(&format!("{ports}/sm_lid")),
            started: Instant::now(),
        })
    }
}

impl MadTransport for UmadTransport {
    fn send(&mut self, to: &Address, mad: &Mad) -> Result<bool, TransportError> {
        let class = mad.header().class();
        let Some(agent) = CLASSES.iter().position(|(known, _)| *known == class) else {
            return Err(TransportError::Protocol {
                what: format!("no MADs of class {class} can be sent"),
                next: "use the classes subnet management, subnet administration or performance",
            });
        };
        let mut bytes = [0; HEADER + MAD_LEN];
        let wait = if mad.header().method().is_response() { 0 } else { KERNEL_WAIT_MS };
        for (at, word) in [(0, self.agents[agent]), (8, wait), (12, 0)] {
            bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        bytes[20..24].copy_from_slice(&to.queue_pair.to_be_bytes());
        bytes[24..28].copy_from_slice(&to.queue_key.to_be_bytes());
        bytes[28..30].copy_from_slice(&to.lid.0.to_be_bytes());
        bytes[30] = to.service_level;
        bytes[self.header..self.header + MAD_LEN].copy_from_slice(&mad.0);
        match self.device.write(&bytes[..self.header + MAD_LEN]) {
            Ok(()) => Ok(true),
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN | libc::ENOMEM | libc::ENOSPC | libc::EINTR) => Ok(false),
                // The kernel still waits for the response to the same one.
                Some(libc::EINVAL) => Ok(true),
                _ => Err(TransportError::io("send a MAD through the umad device", error, NEXT)),
            },
        }
    }

    fn receive(&mut self, wait: Duration) -> Result<Option<Received>, TransportError> {
        if !self.device.readable(wait) {
            return Ok(None);
        }
        // Longer than a datagram: what does not fit would stay forever.
        let mut bytes = [0; HEADER + 16 * MAD_LEN];
        let Some(_) = self.device.read(&mut bytes).filter(|len| *len >= self.header) else { return Ok(None) };
        let word = |at: usize| -> [u8; 4] { bytes[at..at + 4].first_chunk().copied().unwrap_or_default() };
        let mut mad = blank();
        mad.0.copy_from_slice(&bytes[self.header..self.header + MAD_LEN]);
        Ok(Some(Received {
            from: Address {
                lid: Lid(u16::from_be_bytes([bytes[28], bytes[29]])),
                queue_pair: u32::from_be_bytes(word(20)),
                queue_key: u32::from_be_bytes(word(24)),
                service_level: bytes[30],
            },
            mad,
            undelivered: word(4) != [0; 4],
        }))
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn lid(&self) -> Lid {
        self.lid
    }

    fn sm_lid(&self) -> Lid {
        self.sm_lid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registration_is_the_kernels() {
        assert_eq!(size_of::<Registration>(), 28);
        assert_eq!(REGISTER_AGENT >> 16 & 0x3fff, 28);
    }

    #[test]
    fn each_reason_not_to_open_has_its_own_next_step() {
        let next = |code| next_of_open(&std::io::Error::from_raw_os_error(code));
        assert!(next(libc::ENOENT).contains("modprobe ib_umad"));
        assert!(next(libc::EACCES).contains("root"));
        assert_eq!(next(libc::EIO), NEXT);
    }

    #[test]
    fn a_device_that_is_not_there_is_an_error_that_names_it() {
        let error = UmadTransport::open(4711).unwrap_err().to_string();
        assert!(error.contains("/dev/infiniband/umad4711") && error.contains("driver"), "{error}");
    }
}
