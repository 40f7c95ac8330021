#!/bin/sh
# Builds the small program `tieline`: build.sh OUTPUT [OPTION OF CARGO]...
#
# What cargo links by itself brings the libraries of the language and of C along, whose start costs more than all that this program
# does. Here there is none: no dynamic linker, nothing that is set up before its first instruction.
set -eu
folder=$(cd -- "$(dirname -- "$0")" && pwd)
output=$(cd -- "$(dirname -- "$1")" && pwd)/$(basename -- "$1")
shift
# Under another name until it is whole, and never into a file that cargo has linked there.
trap 'rm -f -- "$output.new"' EXIT
cargo rustc --locked --profile launcher --manifest-path "$folder/Cargo.toml" --no-default-features --bin tieline "$@" -- \
    "--emit=link=$output.new" -C target-feature=+crt-static -C relocation-model=pic -C force-unwind-tables=no \
    -C link-arg=-nostdlib -C link-arg=-nostartfiles -C link-arg=-Wl,-z,defs -C link-arg=-Wl,-z,relro -C link-arg=-Wl,-z,now \
    -C link-arg=-Wl,-z,noexecstack -C link-arg=-Wl,--build-id=none -C link-arg=-Wl,--no-eh-frame-hdr
mv -f -- "$output.new" "$output"
