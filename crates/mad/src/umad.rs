//! The kernel's device.
