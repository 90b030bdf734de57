# Music is generated, trained on, continued and compared. midicsv checks the MIDI files, if it is installed.
t 0 "$longline" data make music --out songs --count 12 --size 12 --seed 3
out "^data.made=songs$"
set -- songs/*.mid
check "twelve files" test $# -eq 12
t 0 "$longline" data make music --out again --count 12 --size 12 --seed 3
check "the same seed, the same music" cmp songs/music-000011.mid again/music-000011.mid
t 0 "$longline" data list
out "^music$"
refused "1 to 4096 bars" "$longline" data make music --out w --count 1 --size 5000

# Reads a file with midicsv: as many note-offs as note-ons, the ticks, and a proper end.
sound() {
    midicsv "$1" >csv 2>csv.err || return 1
    [ ! -s csv.err ] || return 1
    awk -F', ' '$3 == "Header" {ok = $4 == 1 && $6 == 480} $3 == "Note_on_c" && $6 > 0 {on[$1 "," $4 "," $5]++; n++}
        $3 == "Note_off_c" {if (--on[$1 "," $4 "," $5] < 0) bad = 1} $3 == "End_track" {ends++} $3 == "Start_track" {tracks++}
        END {for (k in on) bad += on[k] != 0; exit !(ok && n && !bad && ends == tracks)}' csv
}
if command -v midicsv >/dev/null; then
    check "a generated file is valid" sound songs/music-000003.mid
    # Another program writes a file with events in another form. Its notes are read.
    cat >other.csv <<'END'
0, 0, Header, 1, 2, 96
1, 0, Start_track
1, 0, Tempo, 600000
1, 0, Time_signature, 3, 2, 24, 8
1, 96, Text_t, "a text"
1, 96, End_track
2, 0, Start_track
2, 0, Program_c, 1, 40
2, 0, Note_on_c, 1, 60, 64
2, 48, Note_on_c, 1, 64, 70
2, 96, Note_on_c, 1, 60, 0
2, 96, System_exclusive, 5, 126, 127, 9, 1, 247
2, 144, Note_off_c, 1, 64, 0
2, 288, Note_on_c, 9, 36, 127
2, 300, Note_off_c, 9, 36, 0
2, 300, End_track
0, 0, End_of_file
END
    csvmidi other.csv other.mid
else
    echo "no midicsv here: files are not checked by another program"
fi

tiny="--set model.layers=1 --set model.width=32 --set model.heads=2 --set model.ff=64 --set train.length=64
 --set train.batch=4 --set train.steps=20 --set train.warmup=2 --set train.eval-every=10 --set train.eval-batches=4
 --set attention.num-features=16 --set position.realizations=16 --set position.taps=4"
for recipe in "$root"/recipes/music/*.ini; do
    # shellcheck disable=SC2086
    t 0 "$longline" train "$recipe" --data songs $tiny --set data.test=songs/music-000001.mid \
        --out "run-$(basename "$recipe" .ini)"
    out "^train.valid_bits_per_event=[0-9.]+$"
done
# A model that has learned a little, so that it generates notes.
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/music/sine-spe.ini" --data songs $tiny --set data.test=songs/music-000001.mid \
    --set train.steps=150 --set train.learning-rate=0.01 --out little
model=little/best.safetensors
t 0 "$longline" eval $model
out "^eval.perplexity=[0-9.]+$"
gzip -k songs/music-000002.mid
t 0 "$longline" eval $model --data songs/music-000002.mid.gz --set train.length=128
out "^eval.bits_per_event=[0-9.]+$"

# Scores: a file is a piece, and the text of its events is the same piece.
t 0 "$longline" score $model songs/music-000002.mid songs/music-000002.mid.gz
err "tokens scored, [0-9.]+ bits an event, perplexity"
out "^id	tokens	logp	bits_per_event	perplexity$"
check "packed or not, the same" test "$(awk 'NR > 1 {print $3}' out | uniq | wc -l)" -eq 1
refused "are bytes, and .* data.format = midi, where they are events$" "$longline" eval $model --data words.txt \
    --set data.format=bytes
t 0 "$longline" score $model songs/music-000002.mid --per-token
out "^songs/music-000002.mid	0	0	nan$"
check "as many lines as events" test "$(wc -l <out)" -gt 200
t 0 "$longline" score $model songs/music-000002.mid --length 100 --whole
out "^songs/music-000002.mid	99	"
check "a damaged file is refused" sh -c "'$longline' score $model '$root/tests/fuzz/corpus/midi/meter-zero' >out 2>err; test \$? -eq 2"
err "meter-zero: byte 26: a time signature cannot have 0 beats"
printf 'Bar Pitch_60 Duration_4 Velocity_66\n' >words
t 0 "$longline" score $model words --before Piece
out "^words	4	-" # a file's text begins with no piece of its own
printf '{"text":"Piece Bar","id":"j"}\n' >lines.jsonl
t 0 "$longline" score $model lines.jsonl --format jsonl
out "^j	1	-"
t 0 "$longline" encode $model songs/music-000001.mid --json
out '"id":"songs/music-000001.mid","tokens":[0-9]+,"embedding"'

# Continuations: events on standard output, or a MIDI file.
t 0 "$longline" generate $model --tokens 40 --seed 5
check "forty events" test "$(wc -w <out)" -eq 40
err "40 events, "
t 0 "$longline" generate $model --prompt 'Piece Bar Meter_3/4 Pitch_60' --echo --tokens 3
check "the prompt comes first" test "$(tr -s ' \n' '  ' <out | cut -d ' ' -f 2-5)" = "Piece Bar Meter_3/4 Pitch_60"
if [ -e other.mid ]; then
    t 0 "$longline" generate $model --prompt-file other.mid --echo --tokens 1
    check "another program's file is read as it was written" test "$(tr -s ' \n' '  ' <out | cut -d ' ' -f 2-18)" = \
        "Piece Bar Meter_3/4 Position_1 Tempo_100 Program_40 Pitch_60 Duration_4 Velocity_66 Position_3 Pitch_64 Duration_4\
 Velocity_70 Bar Position_1 Drum_36 Velocity_126"
fi
refused "there is no folder absent/" "$longline" generate $model --tokens 9000000 --out absent/new.mid
cp songs/music-000002.mid prompt.mid
refused "prompt.mid.*overwrite" "$longline" generate $model --prompt-file prompt.mid --out prompt.mid
check "and the prompt is what it was" cmp prompt.mid songs/music-000002.mid
t 0 "$longline" generate $model --prompt-file songs/music-000002.mid --prompt-tokens 50 --tokens 300 --out new.mid
silent
t 0 "$longline" generate $model --prompt-file songs/music-000002.mid --prompt-tokens 50 --tokens 300 --echo --out both.midi
t 0 "$longline" generate $model --prompt-file songs/music-000002.mid --prompt-tokens 50 --tokens 300 --out twice.mid
refused "draft goes .*not with .*--out" "$longline" generate $model --draft $model --prompt-file songs/music-000002.mid --out w.mid
check "the same seed, the same file" cmp new.mid twice.mid
for pack in gzip xz; do
    command -v $pack >/dev/null || { skip "a file packed by $pack: it is not here"; continue; }
    $pack -c songs/music-000002.mid >packed.$pack
    t 0 "$longline" generate $model --prompt-file packed.$pack --prompt-tokens 50 --tokens 300 --out twice.mid
    check "the same from a file packed by $pack" cmp new.mid twice.mid
done
if command -v midicsv >/dev/null; then
    check "a continuation is a valid MIDI file" sound new.mid
    notes=$(grep -c Note_on csv)
    check "the prompt is included" sound both.midi
    check "it has the notes of both" test "$(grep -c Note_on csv)" -gt "$notes"
    check "the prompt comes first in it" grep -q "^1, 0, Tempo, $(midicsv songs/music-000002.mid |
        sed -n 's/^1, 0, Tempo, //p')\$" csv
else skip "files as midicsv reads them: it is not here"; fi
refused "--out and --save-state cannot both be w.mid" "$longline" generate $model --out w.mid --save-state ./w.mid
refused "must end in .mid or .midi " "$longline" generate $model --out song.wav
refused "--only-read" "$longline" generate $model --prompt Piece --only-read --save-state s --out song.mid
refused "number 2, \"Bass\"" "$longline" generate $model --prompt 'Bar Bass'
t 0 "$longline" generate $model --prompt-file songs/music-000002.mid --only-read --save-state state
t 0 "$longline" generate $model --load-state state --tokens 200 --out later.mid
check "a state generates music" test -s later.mid
small_text
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/text-bytes.ini" --data text.txt $small --set train.steps=2 --set train.warmup=1 --out text
refused "this model does not" "$longline" generate text/last.safetensors --out song.mid
t 0 "$longline" generate text/last.safetensors --prompt 'line 3' --prompt-tokens 4 --echo --tokens 1
out "^line.?$"

# Similarity of styles.
t 0 "$longline" data compare songs/music-000002.mid songs/music-000002.mid
out "^compare.time_pitch=1.000000$"
out "^compare.onset_duration=1.000000$"
t 0 "$longline" data compare songs both.midi
out "^compare.time_pitch=0[.][0-9]+$"
out "^compare.other_notes=[1-9][0-9]*$"
# Grids: generated music is on sixteenths. One file is there twice, once compressed.
t 0 "$longline" data grid songs
out "^grid.files=13$"
out "^grid.4.onsets_off=0.000000$"
out "^grid.12.moved=0.000000$"
refused "grid needs a file of music" "$longline" data grid
refused "missing.mid" "$longline" data grid missing.mid
# What is no music in a folder is named at once, not one file a try.
mkdir wrong
cp songs/music-000001.mid wrong
for name in 1.txt 2.txt Thumbs.db readme; do echo words >wrong/$name; done
wrong="wrong/1.txt is no MIDI file, .*; 3 more files cannot be read: 2.txt, Thumbs.db, readme$"
refused "$wrong" "$longline" data grid wrong
refused "$wrong" "$longline" data compare wrong songs
refused "data.train: $wrong" "$longline" train "$root/recipes/music/none.ini" --data wrong --out w

# Triplets: a model with the finer grid generates them, one with sixteenths does not.
# shellcheck disable=SC2086
t 0 "$longline" train "$root/recipes/music/none.ini" --data songs $tiny --set data.grid=12 --set train.steps=2 --set train.eval-every=2 \
    --out fine --set data.test=
printf 'Bar Position_2+1/3 Pitch_60 Duration_1+1/3 Velocity_66\n' >triplet
t 0 "$longline" score fine/best.safetensors triplet
out "^triplet	4	-"
t 2 "$longline" score $model triplet
err 'word number 2, "Position_2.1/3", lies between sixteenths; only music with data.grid=12'
t 0 "$longline" generate fine/best.safetensors --prompt-file triplet --echo --tokens 1
out "^Bar Position_2.1/3 Pitch_60 Duration_1.1/3"
t 0 "$longline" inspect fine/best.safetensors
t 2 "$longline" eval $model --data songs --set data.grid=12
if command -v csvmidi >/dev/null; then
    sed 's/^2, 48, Note_on_c, 1, 64/2, 32, Note_on_c, 1, 64/' other.csv | csvmidi >third.mid
    t 0 "$longline" generate fine/best.safetensors --prompt-file third.mid --echo --tokens 1
    out "Pitch_60 Duration_4 Velocity_66 Position_2.1/3 Pitch_64"
    t 0 "$longline" generate $model --prompt-file third.mid --echo --tokens 1
    out "Pitch_60 Duration_4 Velocity_66 Position_2 Pitch_64"
    t 0 "$longline" score fine/best.safetensors third.mid --per-token
    check "a score has the events of the grid" test "$(awk '$1 == "third.mid" && $3 > 627' out | wc -l)" -gt 0
fi

refused "compare needs two" "$longline" data compare songs
refused "missing.mid" "$longline" data compare songs missing.mid
refused "list takes no name" "$longline" data list songs other
check "text is no music" sh -c "'$longline' data compare songs text.txt >out 2>err; test \$? -eq 2"
err "text.txt is no MIDI file"

# Wrong files in a right folder.
mkdir mixed && cp songs/music-000001.mid mixed && head -c 100 songs/music-000002.mid >mixed/cut.mid
# shellcheck disable=SC2086
refused "mixed/cut.mid: .*truncated" "$longline" train "$root/recipes/music/none.ini" --data mixed $tiny --out w
check "no file is left" test ! -e w
