//! Gives the library the name under which programs ask for it, and keeps it loaded.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libsisci.so");
    // A program that loads it by name may unload it, and threads and a signal handler of it would be left
    // without code.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
