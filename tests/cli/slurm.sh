# packaging/slurm.sbatch with stand-ins for srun and scontrol: what it asks of Slurm, and how it goes on with a run.
# tests/dist/slurm.sh runs it under Slurm.
small_text
"$longline" train "$root/recipes/text-bytes.ini" --data text.txt $small -o made >/dev/null 2>&1
sed -e 's/^steps = .*/steps = 4/' -e 's/^checkpoint-every = .*/checkpoint-every = 4/' made/recipe.ini >job.ini
mkdir bin
cat >bin/srun <<'END'
#!/bin/sh
echo "$*" >>srun.log
while [ "$1" != longline ]; do shift; done
shift
exec "$LONGLINE" "$@"
END
cat >bin/scontrol <<'END'
#!/bin/sh
echo "$*" >>scontrol.log
END
chmod +x bin/srun bin/scontrol
job() {
    t 0 env PATH="$PWD/bin:$PATH" LONGLINE="$longline" SLURM_JOB_ID=7 SLURM_CPUS_PER_TASK=2 \
        sh "$root/packaging/slurm.sbatch" job.ini run
}
job
# Since Slurm 22.05 srun does not take it from the job.
check "srun gets the CPUs of a rank" grep -q '^--cpus-per-task=2 longline train job.ini -o run' srun.log
check "and a rank as many threads" grep -q -- '--threads 2$' srun.log
check "a run that is done is not requeued" [ ! -e scontrol.log ]
sed -i 's/^steps = .*/steps = 8/' run/recipe.ini
job
check "the same job goes on with the run" grep -q '^--cpus-per-task=2 longline train --resume run' srun.log
check "up to its last step" [ "$(tail -n 1 run/metrics.csv | cut -d, -f1)" = 8 ]
