# Runs on a host, with an archive of packages as its input. Before it: to=install|upgrade dry=0|1 older=0|1
fail() { printf '%s\n' "$1" >&2; exit 1; }
command -v dpkg >/dev/null 2>&1 || fail 'it has no dpkg, and packages (.deb) are for Debian: install a tarball of `./run install` there'
if [ "$(id -u)" = 0 ]; then as=; elif sudo -n true >/dev/null 2>&1; then as='sudo -n'; else
    fail "$(id -un) is not root there, and sudo asks for a password or is not there: log in as root (root@HOST), or let sudo ask for none"
fi
d=$(mktemp -d "${TMPDIR:-/tmp}/tieline-install.XXXXXX") || fail 'it cannot make a temporary directory: make room there'
trap 'rm -rf -- "$d"' EXIT
tar -xf - -C "$d" || fail "the packages did not arrive whole in ${TMPDIR:-/tmp}: make room there, and try again"
cd "$d" || exit 1
set --
for f in ./*.deb; do
    n=$(dpkg-deb -f "$f" Package 2>/dev/null) && v=$(dpkg-deb -f "$f" Version) || fail "${f#./} is no package of Debian: build it again"
    old=$(dpkg-query -W -f '${db:Status-Status} ${Version}\n' "$n" 2>/dev/null | sed -n 's/^installed //p')
    if [ -z "$old" ] && [ "$to" = upgrade ]; then rm -f -- "$f"; continue; fi
    if [ -n "$old" ] && [ "$older" = 0 ] && dpkg --compare-versions "$old" gt "$v"; then
        fail "$n $old is newer than $v: add --downgrade to install the older one"
    fi
    set -- "$@" "$f"
    printf '%s %s %s\n' "$n" "$v" "${old:-none}" >>plan
done
[ $# -gt 0 ] || fail 'none of these packages is installed there: `tieline fleet install` installs them'
if command -v apt-get >/dev/null 2>&1; then
    run="apt-get -q -y --no-install-recommends --allow-downgrades -o Dpkg::Options::=--force-confold -o DPkg::Lock::Timeout=300 install"
    [ "$dry" = 0 ] || run="apt-get -q -y --no-install-recommends --allow-downgrades --simulate install"
else
    run='dpkg --force-confold --install'
    [ "$dry" = 0 ] || run='dpkg --dry-run --install'
fi
if ! $as env DEBIAN_FRONTEND=noninteractive LC_ALL=C $run "$@" >log 2>&1 </dev/null; then
    why=$(grep -E '^(E:|dpkg: error)|^ .* Depends: ' log | head -n 3 | tr '\n' ' ')
    [ -n "$why" ] || why=$(tail -n 1 log)
    fail "$why"
fi
while read -r n v old; do
    if [ "$dry" = 1 ]; then printf '%s %s would be installed (now: %s)\n' "$n" "$v" "$old"; continue; fi
    is=$(dpkg-query -W -f '${db:Status-Status} ${Version}\n' "$n" | sed -n 's/^installed //p')
    [ "$is" = "$v" ] || fail "$n $v was to be installed, and ${is:-none} is: run apt-get install there to see why"
    printf '%s %s (before: %s)\n' "$n" "$v" "$old"
done <plan
