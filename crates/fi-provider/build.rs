//! Gives the library the name under which it is installed, and keeps it loaded.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtieline-fi.so");
    // libfabric unloads its providers when the program ends. Threads of this library, and pages of a child of
    // `fork`, would then be left without code.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
