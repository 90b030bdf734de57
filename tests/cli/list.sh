# longline list: the table on a terminal and for programs.
t 0 "$longline" list
out "^  softmax .*T\^2"
out "^  permute2d .* image +Chen 2021$"
out "^  softmax  +( [*.cw]){10,}$"
t 0 "$longline" list --pairs
out "^kernel,position,causal,whole,stream,length,reason$"
out '^softmax,permute,0,0,no,any,"position.type = permute permutes features, and attention.kernel = softmax has none; '
out '^relu,permute,1,1,constant,any,""$'
out '^relu,permute2d,0,1,no,image,".*model.task = lm'
out '^softmax,learned,1,1,grows,table,""$'
# The program refuses what the table excludes, with the same words, and accepts the rest.
seq 3000 >text.txt
cp out table
printf '[model]\nlayers=1\nwidth=8\nheads=2\n[attention]\nnum-features=8\n[position]\nrealizations=4\n[train]\n' >tiny.ini
printf 'steps=1\nlength=16\nbatch=1\neval-batches=1\nreport=off\n[data]\ntrain=text.txt\n' >>tiny.ini
wrong=
while IFS=, read -r k p causal whole stream length reason; do
    [ "$k" = kernel ] && continue
    "$longline" train tiny.ini --set attention.kernel=$k --set position.type=$p -o run >out 2>err
    code=$?
    rm -rf run
    reason=${reason#\"} reason=${reason%\"}
    if [ $causal = 1 ]; then
        [ $code -eq 0 ] || wrong="$wrong $k+$p"
    else
        [ $code -eq 2 ] && grep -qF -- "$reason" err || wrong="$wrong $k+$p"
    fi
done <table
check "recipes are taken and refused as the table says:$wrong" test -z "$wrong"
t 0 "$longline" list --json
if command -v python3 >/dev/null; then
    check "the JSON is JSON" python3 -c 'import json; x = json.load(open("out")); \
        assert len(x["pairs"]) == len(x["kernels"]) * len(x["positions"])'
else skip "is it JSON: no python3 here"; fi
refused "not both" "$longline" list --json --pairs
refused "unexpected argument" "$longline" list softmax
