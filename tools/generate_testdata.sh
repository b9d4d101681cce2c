#!/bin/sh
# Writes a mock machine, proc and sys, with known values:   tools/generate_testdata.sh DIR [CPUS]
# `infprof snapshot --root DIR --json` then shows them. Nothing outside DIR is touched; DIR must be new or empty.
#
# Core i of CPUS (default 4) has, in centiseconds: user 1000 + i, nice 10, system 500 + i, idle 8000 + i, iowait 20, irq 5,
# softirq 6, steal 7, guest 3, guest_nice 1; clock 2000 MHz + i; the line of the sum adds them up. All else does not depend on CPUS.
set -eu

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
	echo "usage: tools/generate_testdata.sh DIR [CPUS]" >&2
	exit 2
fi
top=$1
cpus=${2:-4}
case $cpus in
'' | *[!0-9]* | 0*) echo "generate_testdata.sh: CPUS must be a number from 1 on, not '$cpus'" >&2; exit 2 ;;
esac
mkdir -p "$top"
if [ -n "$(ls -A "$top")" ]; then
	echo "generate_testdata.sh: $top is not empty; give a new directory" >&2
	exit 1
fi
cd "$top"

# put PATH: standard input into a file, directories made.
put() {
	mkdir -p "$(dirname "$1")"
	cat >"$1"
}

# ---- the machine ----

make_stat() {
	awk -v n="$cpus" 'BEGIN {
		s = n * (n - 1) / 2
		printf "cpu  %d %d %d %d %d %d %d %d %d %d\n", 1000*n + s, 10*n, 500*n + s, 8000*n + s, 20*n, 5*n, 6*n, 7*n, 3*n, n
		for (i = 0; i < n; i++)
			printf "cpu%d %d 10 %d %d 20 5 6 7 3 1\n", i, 1000 + i, 500 + i, 8000 + i
		print "intr 123456 17 0 0 5"
		print "ctxt 9876543"
		print "btime 1703462000"
		print "processes 4321"
		print "procs_running 3"
		print "procs_blocked 1"
		print "softirq 55555 1 2 3 4 5 6 7 8 9 10"
	}'
}

make_cpuinfo() {
	awk -v n="$cpus" 'BEGIN {
		for (i = 0; i < n; i++) {
			printf "processor\t: %d\nvendor_id\t: GenuineIntel\nmodel name\t: Mock CPU @ 2.00GHz\n", i
			printf "cpu MHz\t\t: 1999.000\nflags\t\t: fpu vme sse2 ht\n\n"
		}
	}'
}

make_stat | put proc/stat
make_cpuinfo | put proc/cpuinfo
echo "0.52 0.48 0.40 3/456 5005" | put proc/loadavg
echo "Linux version 6.1.0-mock (mock@build) (gcc 12.2.0) #1 SMP Mock" | put proc/version
echo mock | put proc/sys/kernel/hostname
echo Linux | put proc/sys/kernel/ostype
echo 6.1.0-mock | put proc/sys/kernel/osrelease
echo "#1 SMP Mock" | put proc/sys/kernel/version
echo x86_64 | put proc/sys/kernel/arch
echo 4194304 | put proc/sys/kernel/pid_max
echo 00000000-0000-4000-8000-00000000b007 | put proc/sys/kernel/random/boot_id
echo 60 | put proc/sys/vm/swappiness
echo 2000.00 7000.00 | put proc/uptime

put proc/meminfo <<END
MemTotal:       16000000 kB
MemFree:         4000000 kB
MemAvailable:   10000000 kB
Buffers:          500000 kB
Cached:          5000000 kB
SwapCached:            0 kB
SwapTotal:       2000000 kB
SwapFree:        1500000 kB
Dirty:               128 kB
Writeback:             0 kB
AnonPages:       3000000 kB
Mapped:           700000 kB
Shmem:            200000 kB
SReclaimable:     300000 kB
SUnreclaim:       100000 kB
KernelStack:        9000 kB
PageTables:        20000 kB
CommitLimit:    10000000 kB
Committed_AS:    8000000 kB
AnonHugePages:   1024000 kB
HugePages_Total:       8
HugePages_Free:        6
HugePages_Rsvd:        1
HugePages_Surp:        0
Hugepagesize:       2048 kB
Hugetlb:           16384 kB
END

put proc/vmstat <<END
nr_free_pages 1000000
pgpgin 700
pgpgout 800
pswpin 11
pswpout 12
pgfault 1000500
pgmajfault 500
pgscan_kswapd 21
pgscan_direct 22
pgsteal_kswapd 23
pgsteal_direct 24
oom_kill 2
thp_fault_alloc 31
thp_fault_fallback 32
END

# Sums: reads 1500, sectors read 30000, writes 2500, sectors written 50000. Partitions, dm and loop stay outside.
put proc/diskstats <<END
 259       0 nvme0n1 1000 10 20000 300 2000 20 40000 600 1 700 900 5 0 640 2 8 3
 259       1 nvme0n1p1 900 9 19000 290 1900 19 39000 590 0 690 880 5 0 640 2 8 3
   8       0 sda 500 5 10000 200 500 6 10000 100 2 250 300 0 0 0 0 1 1
   8       1 sda1 500 5 10000 200 500 6 10000 100 0 250 300 0 0 0 0 0 0
 253       0 dm-0 1500 0 30000 500 2500 0 50000 700 0 950 1200 0 0 0 0 0 0
   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
END

# Sums without lo: received 3000000 bytes, sent 1500000 bytes.
put proc/net/dev <<END
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 5000000   5000    0    0    0     0          0         0  5000000   5000    0    0    0     0       0          0
  eth0: 2000000   2000    1    2    0     0          0         4  1000000   1000    3    4    0     0       0          0
  eth1: 1000000   1000    0    1    0     0          0         0   500000    500    0    0    0     0       0          0
END

# ---- sys ----

cpu_dir=sys/devices/system/cpu
mkdir -p "$cpu_dir"
last=$((cpus - 1))
for file in online possible present; do
	if [ "$last" -eq 0 ]; then echo 0; else echo "0-$last"; fi >"$cpu_dir/$file"
done
i=0
while [ "$i" -lt "$cpus" ]; do
	mkdir -p "$cpu_dir/cpu$i/cpufreq" "$cpu_dir/cpu$i/cache/index0" "$cpu_dir/cpu$i/cache/index1"
	echo $(((2000 + i) * 1000)) >"$cpu_dir/cpu$i/cpufreq/scaling_cur_freq"
	# A data cache of its own, 32 KiB, and a third level that all share, 8 MiB.
	echo 1 >"$cpu_dir/cpu$i/cache/index0/level"
	echo Data >"$cpu_dir/cpu$i/cache/index0/type"
	echo 32K >"$cpu_dir/cpu$i/cache/index0/size"
	echo "$i" >"$cpu_dir/cpu$i/cache/index0/shared_cpu_list"
	echo 3 >"$cpu_dir/cpu$i/cache/index1/level"
	echo Unified >"$cpu_dir/cpu$i/cache/index1/type"
	echo 8192K >"$cpu_dir/cpu$i/cache/index1/size"
	echo "0-$last" >"$cpu_dir/cpu$i/cache/index1/shared_cpu_list"
	i=$((i + 1))
done
echo tsc | put sys/devices/system/clocksource/clocksource0/current_clocksource
echo 0 | put sys/devices/system/node/online
echo "always [madvise] never" | put sys/kernel/mm/transparent_hugepage/enabled
echo MockBoard | put sys/class/dmi/id/product_name
echo 00000000-0000-4000-8000-0000000000d1 | put sys/class/dmi/id/product_uuid

# ---- energy: a socket, its cores, its memory; the counters stand 1 J before their ranges' ends ----

# zone DIRECTORY NAME ENERGY_UJ RANGE_UJ
zone() {
	mkdir -p "sys/class/powercap/$1"
	echo "$2" >"sys/class/powercap/$1/name"
	echo "$3" >"sys/class/powercap/$1/energy_uj"
	echo "$4" >"sys/class/powercap/$1/max_energy_range_uj"
}
zone intel-rapl:0 package-0 262142328850 262143328850
zone intel-rapl:0:0 core 262142328850 262143328850
zone intel-rapl:0:1 dram 65711999613 65712999613

# ---- a container (cgroup v2): 2 CPUs, 4 GiB ----

box=sys/fs/cgroup/system.slice/docker-c0ffee1234560000000000000000000000000000000000000000000000000000.scope
echo "cpu io memory pids" | put sys/fs/cgroup/cgroup.controllers
echo "200000 100000" | put $box/cpu.max
echo 4294967296 | put $box/memory.max
echo 1073741824 | put $box/memory.current
echo 2147483648 | put $box/memory.peak
printf 'usage_usec 5000000\nuser_usec 4000000\nsystem_usec 1000000\n' | put $box/cpu.stat
echo "8:0 rbytes=1048576 wbytes=2097152 rios=16 wios=32 dbytes=0 dios=0" | put $box/io.stat
printf '100\n101\n' | put $box/cgroup.procs
echo "0::/" | put proc/self/cgroup
printf 'Name:\tinfprof\nCpus_allowed_list:\t0-%d\n' "$last" | put proc/self/status

# ---- processes ----

# process PID PPID NAME THREADS UTIME STIME RSS_PAGES VSIZE START CGROUP ARGUMENT...
process() {
	pid=$1 ppid=$2 name=$3 threads=$4 utime=$5 stime=$6 rss=$7 vsize=$8 start=$9
	shift 9
	dir=proc/$pid
	group=$1
	shift
	mkdir -p "$dir"
	echo "$pid ($name) S $ppid $pid $pid 0 -1 4194560 1000 0 10 0 $utime $stime 5 6 20 0 $threads 0 $start $vsize $rss" \
		"18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0" >"$dir/stat"
	echo "$((vsize / 4096)) $rss 100 1 0 200 0" >"$dir/statm"
	echo "$name" >"$dir/comm"
	printf 'Name:\t%s\nState:\tS (sleeping)\nPid:\t%d\nPPid:\t%d\nVmSwap:\t0 kB\nThreads:\t%d\nvoluntary_ctxt_switches:\t%d\nnonvoluntary_ctxt_switches:\t%d\n' \
		"$name" "$pid" "$ppid" "$threads" $((pid * 10)) "$pid" >"$dir/status"
	printf 'rchar: 1000\nwchar: 2000\nsyscr: 10\nsyscw: 20\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 0\n' >"$dir/io"
	echo "$((utime * 10000000)) 0 $((pid * 100))" >"$dir/schedstat"
	echo "0::$group" >"$dir/cgroup"
	if [ $# -gt 0 ]; then printf '%s\0' "$@"; fi >"$dir/cmdline"
}

process 1 0 systemd 1 100 200 3000 170000000 10 /init.scope /sbin/init
process 2 0 kthreadd 1 0 3 0 0 10 /
process 100 1 python3 8 4321 765 250000 8000000000 50000 "${box#sys/fs/cgroup}" python3 serve.py --model mock --port 8000
process 101 100 "worker (1) x" 2 1234 56 50000 4000000000 50100 "${box#sys/fs/cgroup}" python3 worker.py
