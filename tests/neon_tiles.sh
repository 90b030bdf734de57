# Times in an emulator mean nothing, so this counts instructions. In the compiled NEON products, the loops over K of a
# whole register tile (6 rows, 16 columns) have as few loads and multiplications as possible, and spill no sum: 24
# multiply-adds, 2 loads of two registers of B, and 6 of numbers of A.
for tier in neon neonbf16; do
    for name in product gemm_bf16; do
        case $tier$name in neongemm_bf16) continue ;; esac # two steps in place of an instruction
        aarch64-linux-gnu-objdump -d --no-show-raw-insn "$build/src/kernel/$tier.o" >code
        awk -v name="$name" '
            / <[a-z0-9_.]*>:$/ { inside = index($2, "<" name) == 1; n = 0 }
            inside && /^ *[0-9a-f]+:/ {
                at[++n] = substr($1, 1, length($1) - 1)
                op[n] = $2
                if ($2 !~ /^(b\.|cbn?z|tbn?z)/) next
                for (first = n; first > 1 && n - first < 60 && at[first] != $3; first--) ;
                if (at[first] != $3) next
                fma = loads = stores = 0
                for (i = first; i <= n; i++) {
                    fma += op[i] ~ /^(fmla|bfdot)$/
                    loads += op[i] ~ /^(ld|ldr|ldp|ldur|ld1|ld1r)$/
                    stores += op[i] ~ /^(st|str|stp|stur)$/
                }
                if (fma == 24) {
                    found++
                    if (loads > 9 || stores) bad = 1
                    printf " 24 multiply-adds, %d loads, %d stores, %d in all\n", loads, stores, n - first + 1
                }
            }
            END { exit bad || found < 2 }' code >counts
        code=$?
        check "$tier $name: loops of a whole tile:$(tr '\n' ',' <counts)" test $code -eq 0
    done
done
