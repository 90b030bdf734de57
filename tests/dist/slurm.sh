# packaging/slurm.sbatch under Slurm on this machine: munged, slurmctld and slurmd in a network namespace of their own.
# Takes some minutes, root, and the packages slurm-wlm and munge: make dist-faults.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
. "$root/tests/cli/nodes"
for program in munged slurmctld slurmd sbatch; do
    command -v $program >/dev/null || { skip "Slurm: no $program here"; return 0; }
done
nodes 1 || { skip "Slurm: no network namespaces here"; return 0; }
host=$(hostname)
slurm=$scratch/slurm
mkdir -p "$slurm/state" "$slurm/spool" "$slurm/munge"
chmod 755 "$scratch" "$slurm"
chmod 700 "$slurm/munge"
cat >"$slurm/slurm.conf" <<END
ClusterName=longline
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
AuthInfo=socket=$slurm/munge.socket
MpiDefault=pmix
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
StateSaveLocation=$slurm/state
SlurmdSpoolDir=$slurm/spool
SlurmctldPidFile=$slurm/slurmctld.pid
SlurmdPidFile=$slurm/slurmd.pid
SlurmctldLogFile=$slurm/slurmctld.log
SlurmdLogFile=$slurm/slurmd.log
ReturnToService=2
KillWait=5
NodeName=$host NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=main Nodes=$host Default=YES MaxTime=10 State=UP
END
export SLURM_CONF="$slurm/slurm.conf" PATH="$build:$PATH"
dd if=/dev/urandom of="$slurm/munge/key" bs=1 count=1024 2>/dev/null
chmod 400 "$slurm/munge/key"
on_node 0 munged --force --key-file="$slurm/munge/key" --socket="$slurm/munge.socket" --pid-file="$slurm/munge/pid" \
    --log-file="$slurm/munge/log" --seed-file="$slurm/munge/seed" 2>munged.err
on_node 0 slurmctld -c
# nsenter changes the network namespace alone. `ip netns exec` would hide the control groups, and slurmd needs them.
printf 'CgroupPlugin=autodetect\nConstrainCores=no\nConstrainRAMSpace=no\n' >"$slurm/cgroup.conf"
nsenter --net=/run/netns/"$name-0" slurmd -N "$host"

# wait_for SECONDS COMMAND...
wait_for() {
    i=$(($1 * 2))
    shift
    while ! "$@" && [ $i -gt 0 ]; do sleep 0.5; i=$((i - 1)); done
    [ $i -gt 0 ]
}
idle() { on_node 0 sinfo -h -o %T 2>/dev/null | grep -q idle; }
state() { on_node 0 squeue -h -j "$1" -o %T 2>/dev/null; }
is() { [ "$(state "$1")" = "$2" ]; }
is_over() { [ -z "$(state "$1")" ] || [ "$(state "$1")" = COMPLETED ]; }
last="Slurm starts"
check "a node of Slurm is there" wait_for 30 idle
idle || return 0

# ---- The two interfaces by which Slurm starts ranks ----
small_text
step="$small --set train.batch=6 --set train.eval-every=40 --set train.checkpoint-every=20 --set dist.shards=6
 --set train.schedule=constant --threads 1"
t 0 "$longline" train "$root/recipes/text-bytes.ini" --data text.txt $step -o one
for kind in "pmix openmpi" "pmi2 mpich"; do
    [ -e "$build/longline-mpi-${kind#* }.so" ] || continue
    t 0 timeout 120 ip netns exec "$name-0" srun --mpi="${kind% *}" -n 3 longline train "$root/recipes/text-bytes.ini" \
        --data text.txt $step -o "srun-${kind% *}"
    check "srun --mpi=${kind% *}: the bits of one process" cmp one/last.safetensors "srun-${kind% *}/last.safetensors"
done

# ---- A job whose time ends ----
# Slurm sends the signal one to two minutes before the end of the time.
sed 's/^steps = .*/steps = 100000000/' one/recipe.ini >job.ini
job=$(on_node 0 sbatch --parsable --ntasks=2 --cpus-per-task=2 --time=3 --signal=USR1@60 -o "$scratch/job.log" \
    "$root/packaging/slurm.sbatch" "$scratch/job.ini" "$scratch/run")
last="sbatch packaging/slurm.sbatch: job $job"
check "the job runs" wait_for 60 is "$job" RUNNING
check "it makes steps" wait_for 60 [ -e run/last.safetensors ]
check "before its time is over it is back in the queue" wait_for 240 is "$job" PENDING
cp job.log err
err 'stopped after step [0-9]+ and saved'
check "once: the run saved, and was not killed" [ "$(grep -c 'CANCELLED\|Killed' job.log)" -eq 0 ]
before=$(tail -n 1 run/metrics.csv | cut -d, -f1)
sed -i "s/^steps = .*/steps = $((before + 80))/" run/recipe.ini
on_node 0 scontrol update jobid="$job" StartTime=now
check "the job begins again" wait_for 200 is "$job" RUNNING
check "and ends" wait_for 100 is_over "$job"
check "with the last step, $((before + 80))" [ "$(tail -n 1 run/metrics.csv | cut -d, -f1)" = $((before + 80)) ]
cp job.log err
check "nothing is left in the queue" [ -z "$(on_node 0 squeue -h)" ]
