//! Gives the library the name under which programs ask for it.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libsisci.so");
    println!("cargo::rerun-if-changed=build.rs");
}
