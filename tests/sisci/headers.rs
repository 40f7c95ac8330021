//! The headers alone, with every compiler that is there, as strictly as any program may ask.

use std::process::Command;

use crate::c;

const HEADERS: [&str; 6] =
    ["sisci_api.h", "sisci_error.h", "sisci_types.h", "dis_types.h", "sisci_demolib.h", "testlib.h"];
const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Wconversion", "-Werror"];

/// Compiles a source that includes the headers, each alone first, without and with threads.
fn compile(compiler: &str, language: &str, standard: &[&str]) {
    if !c::is_there(compiler) {
        return;
    }
    for header in HEADERS.iter().map(|header| vec![*header]).chain([[HEADERS.as_slice(), &HEADERS].concat()])
    {
        let includes: String = header.iter().map(|header| format!("#include <{header}>\n")).collect();
        let source = c::made().join(format!("{compiler}{}.{language}", standard.join("")));
        std::fs::write(&source, format!("{includes}int main(void) {{ return 0; }}\n")).unwrap();
        for threads in [None, Some("-D_REENTRANT")] {
            c::must(
                Command::new(compiler)
                    .args(standard)
                    .args(WARNINGS)
                    .args(threads)
                    .arg("-I")
                    .arg(c::top().join("include/sisci"))
                    .args(["-fsyntax-only"])
                    .arg(&source),
            );
        }
    }
}

#[test]
fn they_are_clean_c() {
    for compiler in ["gcc", "clang"] {
        compile(compiler, "c", &["-std=c99", "-pedantic"]);
        compile(compiler, "c", &["-std=gnu99"]);
        compile(compiler, "c", &["-std=c17", "-pedantic"]);
    }
}

#[test]
fn they_are_clean_cpp() {
    for compiler in ["g++", "clang++"] {
        compile(compiler, "cc", &["-std=c++11", "-pedantic"]);
        compile(compiler, "cc", &["-std=c++17"]);
    }
}

#[test]
fn what_programs_define_themselves_is_left_to_them() {
    let source = c::made().join("own_names.c");
    let own = ["NO_FLAGS", "NO_CALLBACK", "NO_ARG", "NO_ARGS", "NO_OFFSET", "ADAPTER_NO", "SEOE"];
    let checks: String =
        own.iter().map(|name| format!("#ifdef {name}\n#error {name} is the program's\n#endif\n")).collect();
    let needed =
        "void f(void IN *a, void OUT *b, void IN_OUT *c);\n#ifndef SCI_FLAG_BROADCAST\n#error flag\n#endif\n";
    std::fs::write(&source, format!("#include <sisci_api.h>\n{checks}{needed}")).unwrap();
    let include = c::top().join("include/sisci");
    c::must(Command::new("cc").args(["-fsyntax-only", "-I"]).arg(include).arg(&source));
}

#[test]
fn programs_may_tell_all_codes_and_reasons_apart() {
    let header = std::fs::read_to_string(c::top().join("include/sisci/sisci_error.h")).unwrap();
    // The two that stand for others; numbers as programs write them.
    let codes = header.lines().filter_map(|line| line.trim().split_once(" = 0")?.0.strip_prefix("SCI_ERR_"));
    let cases: String = codes
        .filter(|code| !["OK", "NO_SUCH_SEGMENT", "REMOTE_BUSY"].contains(code))
        .map(|code| format!("case SCI_ERR_{code}: "))
        .collect();
    assert!(cases.contains("SCI_ERR_DMA_DISABLED") && !cases.contains("INTNO"), "{cases}");
    let source = c::made().join("switches.c");
    let body = format!(
        "#include <sisci_api.h>\n\
         int f(sci_error_t e);\n\
         int g(sci_segment_cb_reason_t r);\n\
         int f(sci_error_t e) {{ switch ((int)e) {{ {cases} case (0x90C | SISCI_ERR_MASK): \
         case (0xB00 | SISCI_ERR_MASK): return 1; default: return 0; }} }}\n\
         int g(sci_segment_cb_reason_t r) {{ switch (r) {{ case SCI_CB_CONNECT: case SCI_CB_DISCONNECT: \
         case SCI_CB_NOT_OPERATIONAL: case SCI_CB_OPERATIONAL: case SCI_CB_LOST: return 1; }} return 0; }}\n"
    );
    std::fs::write(&source, body).unwrap();
    let include = c::top().join("include/sisci");
    c::must(
        Command::new("cc").args(WARNINGS).args(["-std=c99", "-fsyntax-only", "-I"]).arg(include).arg(&source),
    );
}

#[test]
fn cpp_programs_link() {
    if !c::is_there("g++") {
        return;
    }
    let source = c::made().join("links.cc");
    let body = "#include <sisci_api.h>\nint main() { sci_error_t e; SCIInitialize(0, &e); SCITerminate(); return e; }\n";
    std::fs::write(&source, body).unwrap();
    let program = c::made().join("links");
    let library = c::library();
    c::must(
        Command::new("g++")
            .args(["-std=c++11", "-I"])
            .arg(c::top().join("include/sisci"))
            .args([&source, &library])
            .arg("-o")
            .arg(&program),
    );
    c::must(Command::new(program).env("LD_LIBRARY_PATH", library.parent().unwrap()));
}

/// Argument lists of older releases beside the present ones.
#[test]
fn older_argument_lists_of_devices_compile() {
    let body = "#include <sisci_api.h>\n\
        void f(sci_desc_t sd, sci_local_segment_t l, sci_remote_segment_t r, sci_device_t d, sci_ioaddr_t *a, unsigned int n);\n\
        void f(sci_desc_t sd, sci_local_segment_t l, sci_remote_segment_t r, sci_device_t d, sci_ioaddr_t *a, unsigned int n)\n\
        { sci_error_t e; sci_remote_segment_t s;\n\
        SCIMapLocalSegmentForDevice(l, n, d, a, 0, 64, 0, &e); SCIMapLocalSegmentForDevice(l, n, d, a, 0, 0, &e);\n\
        SCIMapRemoteSegmentForDevice(r, d, a, 0, 64, 0, &e); SCIMapRemoteSegmentForDevice(r, d, a, 0, 0, &e);\n\
        SCIConnectDeviceMemory(sd, &s, n, d, 0, 0, 0, &e); SCIConnectDeviceMemory(sd, &s, d, n, 0, 0, 0, &e); }\n";
    for (compiler, language, standards) in [
        ("gcc", "c", ["-std=c99", "-std=gnu99", "-std=c17"]),
        ("g++", "cc", ["-std=c++11", "-std=c++17", "-std=c++20"]),
    ] {
        if !c::is_there(compiler) {
            continue;
        }
        let source = c::made().join(format!("older.{language}"));
        std::fs::write(&source, body).unwrap();
        for standard in standards {
            c::must(
                Command::new(compiler)
                    .args([standard, "-pedantic", "-fsyntax-only"])
                    .args(WARNINGS)
                    .arg("-I")
                    .arg(c::top().join("include/sisci"))
                    .arg(&source),
            );
        }
    }
}
