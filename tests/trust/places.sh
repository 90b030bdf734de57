# Where a run may find itself: a home that cannot be written to, no /tmp, names that go stale as on NFS, a clock that is set
# back, an old kernel, half a processor, a file of a big-endian machine. Each time it ends with the bits of one that met no
# trouble.
. "$root/tests/trust/lib"
make_run
make_expected
same() { # WHAT CODE [EXPECTED]
    if [ "$2" -eq 0 ] && cmp -s here/run/last.safetensors "${3:-expected}"; then pass "$1: the same bits"; else fail "$1: exit $2"; fi
}
# Nobody, root included, can write below /proc. The report looks for fonts and their cache there, too.
fresh
last="a home that cannot be written to"
env HOME=/proc XDG_CACHE_HOME=/proc XDG_CONFIG_HOME=/proc TMPDIR=/proc sh -c "$resume && '$longline' report here/run $one &&
    '$longline' generate '$model' --tokens 3 $one" >out 2>err </dev/null
same "$last" $?
check "its report was drawn" test -s here/run/report.html

# /tmp is a full, read-only file system; the run lies elsewhere.
here=$PWD
case $root in /tmp/*) in_tmp=1 ;; *) in_tmp= ;; esac
if [ -z "$in_tmp" ] && unshare -m true 2>/dev/null; then
    last="no /tmp"
    fresh
    unshare -m sh -c "mount --bind '$here' /mnt && mount -t tmpfs -o ro none /tmp && cd /mnt && ! touch /tmp/x 2>/dev/null &&
        $resume" >out 2>err </dev/null
    same "no /tmp" $?
else skip "no /tmp: this user may not mount, or the project lies there"; fi

# Each rename and open of a name fails once with ESTALE: an error in words, and the next start goes on.
for kind in rename open; do
    fresh
    "$trouble" $kind 0 EIO -c count $resume >out 2>err </dev/null
    for n in $(numbers "$(cat count)" 4); do
        fresh
        limited "$trouble" $kind "$n" ESTALE $resume
        code=$?
        trials=$((trials + 1))
        [ $code -le 2 ] && { [ $code -eq 0 ] || [ -s err ]; } || wrong "$kind $n, ESTALE: exit code $code"
        is_whole || wrong "$kind $n, ESTALE: $why"
        go_on "$kind $n, ESTALE"
    done
done
verdict "names that go stale"

# An hour back after the first time somebody asks; the monotonic clock is the kernel's. Only ranks have to wait.
if [ -e "$build/longline-mpi-mpich.so" ] && command -v mpirun.mpich >/dev/null; then
    last="a clock that is set back"
    fresh
    $resume --set dist.shards=2 >out 2>err </dev/null
    cp here/run/last.safetensors by-ranks
    fresh
    timeout 60 mpirun.mpich -n 2 env LL_CLOCK=-3600 LD_PRELOAD="$shim" $resume --set dist.shards=2 >out 2>err </dev/null
    same "a clock that is set back" $? by-ranks
else skip "a clock that is set back: no MPICH here, whose ranks would wait for each other"; fi

# Without the system calls that Linux has since 4.0.
fresh
last="an old kernel"
"$build/tests/trust/old_kernel" sh -c "$resume && '$longline' report here/run $one &&
    '$longline' generate '$model' --tokens 3 $one" >out 2>err </dev/null
same "an old kernel" $?
check "the report was drawn there" test -s here/run/report.html

# Half a processor. The default number of threads follows it.
group=/sys/fs/cgroup/cpu/longline-$$
half() {
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
        group=/sys/fs/cgroup/longline-$$
        mkdir $group && echo 50000 100000 >$group/cpu.max
    else
        mkdir $group && echo 50000 >$group/cpu.cfs_quota_us && echo 100000 >$group/cpu.cfs_period_us
    fi
}
if half 2>/dev/null; then
    fresh
    last="half a processor"
    sh -c "echo \$\$ >$group/cgroup.procs && exec ${resume% $one}" >out 2>err </dev/null
    same "half a processor" $?
    i=0
    while ! rmdir $group 2>/dev/null && [ $i -lt 20 ]; do sleep 0.1; i=$((i + 1)); done
else rmdir "$group" 2>/dev/null; skip "half a processor: no control group may be made here"; fi

# A model whose numbers are big-endian begins with a length of the header that no file has.
{ printf '\0\0\0\0\0\0\0\2{}'; head -c 64 /dev/zero; } >big.safetensors
refused "big.safetensors" "$longline" inspect big.safetensors
check "a big-endian machine is refused when the library is built" sh -c "! ${CC:-cc} -std=c17 -D_GNU_SOURCE -w \
    -I'$root/include' -I'$root/src' -U__BYTE_ORDER__ -D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__ -fsyntax-only \
    '$root/src/base/safetensors.c' 2>err && grep -q 'files are little-endian' err"
