#!/bin/sh
# Builds libtieline-sockets.so: build.sh OUTPUT.so [OPTION OF CARGO]...
#
# What cargo links by itself brings the language's runtime along: thread-local variables, a constructor, and a need for three other
# libraries, for panics that cannot happen. Here there is the crate's own code alone, as one object in which everything but the interposers is
# local; `-z defs` fails if it needs anything else.
set -eu
folder=$(cd -- "$(dirname -- "$0")" && pwd)
output=$(cd -- "$(dirname -- "$1")" && pwd)/$(basename -- "$1")
shift
object=${output%.so}.o
cargo rustc --locked --profile inside --manifest-path "$folder/Cargo.toml" "$@" -- "--emit=obj=$object"
exec "${CC:-cc}" -shared -nostdlib -nostartfiles -o "$output" "$object" \
    -Wl,--version-script="$folder/exported.map" \
    -Wl,-soname,libtieline-sockets.so -Wl,--gc-sections -Wl,--eh-frame-hdr \
    -Wl,-z,defs -Wl,-z,now -Wl,-z,relro -Wl,-z,nodelete -Wl,-z,noexecstack -Wl,-z,shstk -Wl,--hash-style=gnu
