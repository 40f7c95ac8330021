# Prints facts of a host, one on a line: a name, a tab, a value. What a host does not have, it does not print.
f() { [ -n "$2" ] && printf '%s\t%s\n' "$1" "$2"; }
r() { [ -r "$2" ] && f "$1" "$(head -n 1 "$2" 2>/dev/null)"; }
f clock "$(date +%s)"
f kernel "$(uname -r)"
f machine "$(uname -m)"
f os "$(. /etc/os-release 2>/dev/null; printf %s "$PRETTY_NAME")"
f cpu.model "$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)"
f cpu.count "$(grep -c '^processor' /proc/cpuinfo)"
r cpu.online /sys/devices/system/cpu/online
r cpu.governor /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor
f cpu.microcode "$(sed -n 's/^microcode[^:]*: *//p' /proc/cpuinfo | head -n 1)"
f memory.gib "$(awk '/^MemTotal:/ { printf "%.0f", $2 / 1048576 }' /proc/meminfo)"
f hugepages.total "$(awk '/^HugePages_Total:/ { print $2 }' /proc/meminfo)"
f hugepages.size_kib "$(awk '/^Hugepagesize:/ { print $2 }' /proc/meminfo)"
f hugepages.transparent "$(sed -n 's/.*\[\(.*\)\].*/\1/p' /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null)"
f limit.locked_memory "$(ulimit -l)"
f limit.open_files "$(ulimit -n)"
r ptrace_scope /proc/sys/kernel/yama/ptrace_scope
r firmware.product /sys/class/dmi/id/product_name
r firmware.bios /sys/class/dmi/id/bios_version
for n in /sys/class/net/*; do
    [ -e "$n/device" ] || continue
    i=${n##*/}
    r "nic.$i.state" "$n/operstate"
    r "nic.$i.speed_mbit" "$n/speed"
    r "nic.$i.mtu" "$n/mtu"
    r "nic.$i.pcie_speed" "$n/device/current_link_speed"
    r "nic.$i.pcie_width" "$n/device/current_link_width"
    r "nic.$i.pcie_width_most" "$n/device/max_link_width"
done
for d in /sys/class/infiniband/*; do
    [ -e "$d/ports" ] || continue
    i=${d##*/}
    r "ib.$i.firmware" "$d/fw_ver"
    r "ib.$i.board" "$d/board_id"
    r "ib.$i.pcie_speed" "$d/device/current_link_speed"
    r "ib.$i.pcie_width" "$d/device/current_link_width"
    for p in "$d"/ports/*; do
        r "ib.$i.${p##*/}.state" "$p/state"
        r "ib.$i.${p##*/}.rate" "$p/rate"
    done
done
if [ -d /run/systemd/system ]; then
    f services.failed "$(systemctl list-units --failed --plain --no-legend 2>/dev/null | awk '{ printf "%s%s", s, $1; s = "," } END { if (!s) print "none" }')"
    for s in $services; do f "service.$s" "$(systemctl is-active "$s" 2>/dev/null)"; done
fi
f tieline.version "$(tieline --version 2>/dev/null || echo none)"
exit 0
