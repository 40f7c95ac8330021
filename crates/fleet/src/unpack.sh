# Runs on a host, with a tarball of an installation as its input. Before it: to=install|upgrade dry=0|1 prefix=… compressed=-z or nothing
fail() { printf '%s\n' "$1" >&2; exit 1; }
if [ "$(id -u)" = 0 ]; then as=; elif sudo -n true >/dev/null 2>&1; then as='sudo -n'; else
    fail "$(id -un) is not root there, and sudo asks for a password or is not there: log in as root (root@HOST), or let sudo ask for none"
fi
version() { LC_ALL=C "$prefix/bin/tieline" --version 2>/dev/null | sed 's/^tieline //' || :; }
list=$prefix/share/doc/tieline/installed-files
old=$(version)
if [ ! -f "$list" ] && [ "$to" = upgrade ]; then
    fail "no tarball is installed under $prefix there: \`tieline fleet install\` installs this one"
fi
if [ "$dry" = 1 ]; then
    n=$(tar -t $compressed -f - | grep -vc '/$') || fail 'the tarball did not arrive whole: try again'
    printf '%s files would be installed under %s (now: %s)\n' "$n" "$prefix" "${old:-none}"
    exit 0
fi
before=
if [ -f "$list" ]; then before=$(cat "$list"); fi
$as tar -x $compressed -f - -C / --no-same-owner --no-overwrite-dir --keep-directory-symlink ||
    fail "the tarball was not unpacked whole: make room there, and try again"
# What the earlier version had and this one does not.
printf '%s\n' "$before" | while read -r file; do
    case $file in *..* | '') continue ;; "$prefix"/*) ;; *) continue ;; esac
    grep -qxF -- "$file" "$list" || $as rm -f -- "$file"
done
if command -v ldconfig >/dev/null 2>&1; then $as ldconfig >/dev/null 2>&1 || :; fi
new=$(version)
[ -n "$new" ] || fail "it was unpacked under $prefix, and $prefix/bin/tieline does not run: is the host of the same kind (x86-64, glibc)?"
printf 'tieline %s under %s (before: %s)\n' "$new" "$prefix" "${old:-none}"
