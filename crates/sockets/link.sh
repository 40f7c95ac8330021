#!/bin/sh
# Links libtieline-sockets.so from its rlib: link.sh RLIB OUTPUT.
#
# What cargo links by itself brings the language's runtime along: thread-local variables, a constructor, and a need for three other
# libraries, for panics that cannot happen. Here there is the crate's own code alone; `-z defs` fails if it needs anything else.
set -eu
folder=$(cd -- "$(dirname -- "$0")" && pwd)
exec "${CC:-cc}" -shared -nostdlib -nostartfiles -o "$2" \
    -Wl,--whole-archive "$1" -Wl,--no-whole-archive \
    -Wl,--version-script="$folder/exported.map" \
    -Wl,-soname,libtieline-sockets.so -Wl,--gc-sections -Wl,--eh-frame-hdr \
    -Wl,-z,defs -Wl,-z,now -Wl,-z,relro -Wl,-z,nodelete -Wl,-z,noexecstack -Wl,-z,shstk -Wl,--hash-style=gnu
