//! Gives the library its name, has everything resolved before it runs, and keeps it loaded.

fn main() {
    for argument in [
        "-Wl,-soname,libtieline-sockets.so",
        // Resolving at the first call would need a stack and locks that the caller may not have.
        "-Wl,-z,now",
        // The program's calls lead here for as long as it lives.
        "-Wl,-z,nodelete",
        // It needs no other library; that it names none is tested.
        "-Wl,--as-needed",
    ] {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
