//! The library itself: found and bound at run time, by the versions of its functions that this crate was
//! written for.
//!
//! Without it a program starts all the same, and [`Library::load`] says which package brings it.

use std::ffi::{CStr, CString};
use std::sync::{Mutex, OnceLock, PoisonError};

use libc::{c_char, c_int, c_void};

use crate::abi::{fi_fabric_attr, fi_info, fid_fabric};
use crate::dispositions::Kept;

/// The soname of libfabric 1.x and 2.x.
pub const SONAME: &str = "libfabric.so.1";
/// Held while a library is loaded.
pub(crate) static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
/// Debian's package of it.
pub const PACKAGE: &str = "libfabric1";

/// libfabric cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// It is not there, or the dynamic linker refuses it.
    #[error("libfabric cannot be loaded ({reason}): install the package {PACKAGE} (named as in Debian)")]
    Absent {
        /// In the dynamic linker's words.
        reason: String,
    },
    /// It is there and lacks a function of the version that is needed.
    #[error(
        "{SONAME} has no {function} of version {version}: it is older than libfabric 1.17; install a newer package {PACKAGE}"
    )]
    TooOld {
        /// The function.
        function: &'static str,
        /// Its version.
        version: &'static str,
    },
}

/// libfabric's exported functions. What each needs is in its manual page.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct Library {
    pub fi_version: unsafe extern "C" fn() -> u32,
    pub fi_getinfo: unsafe extern "C" fn(
        version: u32,
        node: *const c_char,
        service: *const c_char,
        flags: u64,
        hints: *const fi_info,
        info: *mut *mut fi_info,
    ) -> c_int,
    pub fi_freeinfo: unsafe extern "C" fn(info: *mut fi_info),
    pub fi_dupinfo: unsafe extern "C" fn(info: *const fi_info) -> *mut fi_info,
    pub fi_fabric: unsafe extern "C" fn(
        attr: *mut fi_fabric_attr,
        fabric: *mut *mut fid_fabric,
        context: *mut c_void,
    ) -> c_int,
    pub fi_strerror: unsafe extern "C" fn(errnum: c_int) -> *const c_char,
}

impl Library {
    /// Loads it, once per process: a later call answers what the first one found.
    pub fn load() -> Result<&'static Self, LoadError> {
        static LOADED: OnceLock<Result<Library, LoadError>> = OnceLock::new();
        LOADED.get_or_init(|| Self::load_from(SONAME)).as_ref().map_err(Clone::clone)
    }

    /// Loads a file, or a name that the dynamic linker looks for. It stays loaded until the process ends:
    /// threads of providers may still run in it.
    pub fn load_from(name: &str) -> Result<Self, LoadError> {
        let absent = |reason: String| LoadError::Absent { reason };
        let name = CString::new(name).map_err(|_| absent("its name has a zero byte".to_owned()))?;
        // What another thread's library has changed is not what this process had.
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = Kept::now();
        // SAFETY: a C string, and flags that `dlopen` knows. The library's constructors run; they are
        // libfabric's.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        drop(kept);
        drop(alone);
        if handle.is_null() {
            return Err(absent(last_error()));
        }
        // SAFETY: of each, the name and version stand for a function of the type of the field, in libfabric
        // 1.17 and, since versions are kept, in every later one.
        Ok(unsafe {
            Self {
                fi_version: find(handle, c"fi_version", c"FABRIC_1.0")?,
                fi_getinfo: find(handle, c"fi_getinfo", c"FABRIC_1.3")?,
                fi_freeinfo: find(handle, c"fi_freeinfo", c"FABRIC_1.3")?,
                fi_dupinfo: find(handle, c"fi_dupinfo", c"FABRIC_1.3")?,
                fi_fabric: find(handle, c"fi_fabric", c"FABRIC_1.1")?,
                fi_strerror: find(handle, c"fi_strerror", c"FABRIC_1.0")?,
            }
        })
    }

    /// Its version, as `2.3`.
    pub fn version(&self) -> String {
        // SAFETY: it needs nothing.
        let version = unsafe { (self.fi_version)() };
        format!("{}.{}", version >> 16, version & 0xffff)
    }

    /// What an error number means, in libfabric's words.
    pub fn explain(&self, errno: c_int) -> String {
        // SAFETY: any number is answered with a string that is never freed or changed.
        unsafe { text(((self.fi_strerror)(errno.abs())).cast()) }
    }
}

/// A function of exactly that version: a plain look-up would take the newest, whose structures may be longer.
///
/// # Safety
/// `F` is the type of that function's pointer; `handle` comes from `dlopen`.
unsafe fn find<F: Copy>(
    handle: *mut c_void,
    function: &'static CStr,
    version: &'static CStr,
) -> Result<F, LoadError> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: a handle from `dlopen` and two C strings.
    let found = unsafe { libc::dlvsym(handle, function.as_ptr(), version.as_ptr()) };
    if found.is_null() {
        let name = |text: &'static CStr| text.to_str().unwrap_or("?");
        return Err(LoadError::TooOld { function: name(function), version: name(version) });
    }
    // SAFETY: of the same size, as asserted, and by the caller's word a pointer to a function of this type.
    Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&found) })
}

fn last_error() -> String {
    // SAFETY: it needs nothing.
    let said = unsafe { libc::dlerror() };
    if said.is_null() {
        return "the dynamic linker does not say why".to_owned();
    }
    // SAFETY: not null, so a C string that lives until the next call for this thread's errors.
    unsafe { text(said) }
}

/// # Safety
/// `string` is null or a C string that lives through this call.
unsafe fn text(string: *const c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: by the caller's word, and not null.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_said_with_the_package_that_brings_it() {
        let error = Library::load_from("libfabric-that-is-not-there.so.1").unwrap_err();
        assert!(matches!(error, LoadError::Absent { .. }));
        let said = error.to_string();
        assert!(said.contains("install the package libfabric1"), "{said}");
        assert!(!said.contains('\n'), "{said}");
    }

    #[test]
    fn a_library_without_the_versions_is_too_old() {
        // The C library has none of these functions.
        let error = Library::load_from("libc.so.6").unwrap_err();
        assert_eq!(error, LoadError::TooOld { function: "fi_version", version: "FABRIC_1.0" });
    }

    #[test]
    fn a_library_that_is_there_tells_its_version() {
        match Library::load() {
            Ok(library) => {
                assert!(library.version().contains('.'));
                assert!(!library.explain(crate::constants::FI_ENOKEY).is_empty());
            }
            Err(error) => println!("skipped: {error}"),
        }
    }
}
