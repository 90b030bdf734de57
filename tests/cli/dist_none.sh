# A build without MPI. The program runs where there is none, and names the missing plug-in if a launcher starts it.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
t 0 make -n -s -C "$root" B="$scratch/none" MPI= all
out "liblongline.so"
check "make MPI= calls no compiler of MPI" [ "$(cat out err | grep -c 'mpicc\|longline-mpi')" -eq 0 ]
check "with one, it does" [ "$(make -n -s -C "$root" B="$scratch/one" MPI=any all 2>&1 | grep -c mpicc.any)" -ge 1 ]
t 0 ldd "$longline"
out "libc\.so"
check "the program is linked with no MPI" [ "$(grep -ci 'mpi\|pmix' out)" -eq 0 ]

t 0 "$longline" list
mv out listed
mkdir alone
cp "$longline" alone/longline
# A process that a launcher started alone, or in a shell, is no rank.
for alone in OMPI_COMM_WORLD_SIZE=1 "PMIX_RANK=0 SLURM_STEP_NUM_TASKS=1" "PMI_RANK=0 PMI_SIZE=1"; do
    # shellcheck disable=SC2086
    t 2 env $alone alone/longline train "$root/recipes/text-bytes.ini" --data absent.txt -o none
    err 'cannot open absent.txt'
done
t 1 env PMIX_RANK=0 SLURM_STEP_NUM_TASKS=2 alone/longline train "$root/recipes/text-bytes.ini" --data absent.txt -o none
err "the plug-in longline-mpi-openmpi.so cannot be opened"
for library in openmpi mpich; do
    command -v mpirun.$library >/dev/null || { skip "$library: it is not here"; continue; }
    more=
    [ $library = openmpi ] && more="--oversubscribe"
    t 1 timeout 60 mpirun.$library $more -n 3 alone/longline train "$root/recipes/text-bytes.ini" --data absent.txt -o none
    err "the plug-in longline-mpi-$library.so cannot be opened; build longline where the compiler of this MPI is"
    check "$library: there is one message" [ "$(grep -c '^longline' err)" -eq 1 ]
    printf '#!/bin/sh\nsleep 1\nexec alone/longline "$@"\n' >late
    chmod +x late
    t 2 timeout 60 mpirun.$library $more -n 1 ./late trian : -n 2 alone/longline trian
    check "$library: the others wait for the message of a slow first rank" [ "$(grep -c "mean 'train'" err)" -eq 1 ]
    t 0 timeout 60 mpirun.$library $more -n 3 alone/longline list
    check "$library: what needs no ranks is done by one" cmp -s out listed
done
