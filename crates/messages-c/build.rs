//! Gives the library the name under which programs ask for it, and keeps it loaded.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtieline_mq.so");
    // A program that loads it by name may unload it, and its threads would be left without code.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rerun-if-changed=build.rs");
}
