# Prints an archive (tar, gzip) of what a problem report needs of this host. What is not there, or not allowed,
# is left out; the file `errors` says why. No command lines and no environments: they may hold secrets.
d=$(mktemp -d) || exit 1
trap 'rm -rf "$d"' EXIT
mkdir "$d/report" && cd "$d/report" || exit 1
s() { n=$1; shift; command -v "$1" >/dev/null 2>&1 && timeout 20 "$@" >"$n" 2>>errors </dev/null; }
printf '%s\n' "$facts" | sh >facts 2>>errors
s uname uname -a
s uptime uptime
s dmesg dmesg -T
s journal-kernel journalctl -k -b --no-pager -n 5000
s journal-warnings journalctl -b --no-pager -p warning -n 2000
s units systemctl --no-pager --plain list-units
s processes ps -eo pid,ppid,stat,pcpu,pmem,rss,comm
s addresses ip -s address
s routes ip route show table all
s pci lspci -vv
s numa numactl --hardware
s cpu lscpu
s modules lsmod
s disks df -hP
s infiniband ibstat
s verbs ibv_devinfo -v
s tieline-status tieline status --json
s tieline-cluster tieline cluster show --json
for f in meminfo interrupts cpuinfo cmdline mounts sys/kernel/tainted; do
    cat "/proc/$f" >"proc-$(printf %s "$f" | tr / -)" 2>>errors
done
sysctl -a 2>/dev/null | grep -E '^(net\.core|net\.ipv4\.tcp|vm|kernel\.(numa|sched|yama))' >sysctl
cd "$d" && tar -czf - report
