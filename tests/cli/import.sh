# Models of other programs are imported, compared with references in NumPy, and exported to the same bytes. Others are
# refused by name.
python=/usr/bin/python3
if ! $python -c 'import numpy' 2>/dev/null; then
    skip "imported models: no python3-numpy here (make deps installs it)"
    exit 0
fi
# With LL_LARGE=1: only a model of the size of GPT-2 small, in a minute and 3 GB.
t 0 $python "$root/tests/python/write_models.py" models ${LL_LARGE:+large}
for folder in models/*/; do
    name=$(basename "$folder")
    t 0 "$longline" import "models/$name" -o "$name.safetensors"
    out "^import.model=$name.safetensors"
    # shellcheck disable=SC2046
    t 0 "$build/examples/log_probabilities" "$name.safetensors" $(cat "models/$name.tokens")
    cp out got
    t 0 $python "$root/tests/python/compare.py" "models/$name.logp" got
    t 0 "$longline" export "$name.safetensors" "again/$name" --to hf
    out "^export.folder=again/$name"
    check "$name comes back byte for byte" diff -r "models/$name" "again/$name"
done
# A picture goes in as a file; its class is the most likely one of the reference.
for picture in models/*.png; do
    name=$(basename "$picture" .png)
    t 0 "$longline" classify "$name.safetensors" "$picture" --top 1
    $python - "models/$name" out <<'END'
import json, math, sys
model, out = sys.argv[1:]
logp = [float(word) for word in open(model + ".logp").read().split()]
best = max(range(len(logp)), key=logp.__getitem__)
name = json.load(open(model + "/config.json"))["id2label"][str(best)].replace("LABEL_", "").replace(",", ";")
_, label, p = open(out).read().splitlines()[1].split("\t")
sys.exit(label != name or abs(float(p) - math.exp(logp[best])) > 1e-3)
END
    check "$picture has the reference's likeliest class" test $? -eq 0
done
[ -z "${LL_LARGE:-}" ] || exit 0
t 0 "$longline" classify vit.safetensors models/vit.png models/vit-gray.png --top 5
out "^models/vit.png	dog; hound	0.44"
out "^models/vit-gray.png	" # of 14 x 14 gray pixels
t 0 "$longline" inspect vit-deit.safetensors
out "0.485,0.456,0.406"
cp -r models/vit one-mean
sed -i 's/"image_mean": [^]]*]/"image_mean": 0.3/' one-mean/preprocessor_config.json
t 0 "$longline" import one-mean -o one-mean.safetensors
t 0 "$longline" inspect one-mean.safetensors
out "^pixel-mean = 0.3$"

# Newer folders have no vocab.txt. Then token types change after the [SEP] of tokenizer.json.
cp -r models/bert-pairs newer
$python -c "
import json
words = open('newer/vocab.txt').read().split()
json.dump({'model': {'type': 'WordPiece', 'vocab': {w: i for i, w in enumerate(words)}}}, open('newer/tokenizer.json', 'w'))"
rm newer/vocab.txt
t 0 "$longline" import newer -o newer.safetensors --without-tokenizer
# shellcheck disable=SC2046
t 0 "$build/examples/log_probabilities" newer.safetensors $(cat models/bert-pairs.tokens)
cp out got
t 0 $python "$root/tests/python/compare.py" models/bert-pairs.logp got
# Windows of Mistral, that of a config.json without the key among them, and of Qwen2.
window() { # the window, 0 for none; how config.json comes about; of another model than mistral
    rm -rf windowed
    cp -r "models/${3:-mistral}" windowed
    $python -c "
import json
config = json.load(open('windowed/config.json'))
$2
json.dump(config, open('windowed/config.json', 'w'))"
    t 0 "$longline" import windowed -o windowed.safetensors
    t 0 "$longline" inspect windowed.safetensors
    if [ "$1" = 0 ]; then out "^kernel = softmax"; else out "^kernel = local" && out "^window = $1"; fi
}
window 4096 "del config['sliding_window']"
window 0 "config['sliding_window'] = None"
window 4 "config['sliding_window'] = 4"
window 0 "config['sliding_window'] = 4" qwen2
window 4 "config.update(sliding_window=4, use_sliding_window=True, max_window_layers=0)" qwen2
window 0 "config.update(sliding_window=4, use_sliding_window=True, max_window_layers=2)" qwen2
listed="config.update(use_sliding_window=True, sliding_window=4"
window 4 "$listed, max_window_layers=28, layer_types=['sliding_attention'] * 2)" qwen2
window 0 "$listed, max_window_layers=0, layer_types=['full_attention'] * 2)" qwen2
window 4 "$listed, max_window_layers=0, layer_types=None)" qwen2
window 4 "config.update(sliding_window=4, layer_types=['full_attention'] * 2)" # which Mistral does not read
# It is never left out for a tokenizer that cannot be read.
cp -r models/bert-pairs unread
echo '{' >unread/tokenizer_config.json
refused "unread/tokenizer_config.json: not JSON at byte 2: " \
    "$longline" import unread -o unread.safetensors --without-tokenizer
# Numbers that are not read may have any size.
cp -r models/gpt2 unlimited
sed -i '1s/{/{"max_length": 1000000000000000019884624838656,/' unlimited/config.json
t 0 "$longline" import unlimited -o unlimited.safetensors

# Tensors and settings that do not belong to the family are refused by name.
damage() { # what has to be said, how it comes about
    rm -rf bad
    cp -r models/gpt2 bad
    (cd bad && $python -c "
import json, sys
sys.path.insert(0, '$root/tests/python/reference'), sys.path.insert(0, '$root/tests/python')
import families, safetensors_file
config, tensors, _ = families.gpt2()
$2
json.dump(config, open('config.json', 'w')), safetensors_file.write('model.safetensors', tensors)")
    refused "$1" "$longline" import bad -o bad.safetensors
    check "nothing is written" test ! -e bad.safetensors
}
damage "bad: tensor transformer.h.1.ln_2.bias is missing" "del tensors['transformer.h.1.ln_2.bias']"
damage "bad: tensor score.weight is left over: a GPT-2 " "tensors['score.weight'] = tensors['transformer.ln_f.weight']"
damage "tensor transformer.h.0.mlp.c_fc.weight has 2 axes and 1008 elements; config.json asks for \(16, 64\)" \
    "x = 'transformer.h.0.mlp.c_fc.weight'; tensors[x] = tensors[x][:, :63]"
damage "tensor transformer.ln_f.bias is not finite at element 3" "tensors['transformer.ln_f.bias'][3] = float('nan')"
damage "lm_head.weight differs from the one that it is tied to at element 5" \
    "x = tensors['transformer.wte.weight'].copy(); x[0, 5] += 1; tensors['lm_head.weight'] = x"
# No memory is asked for before the shapes are known.
damage "transformer.wte.weight has 2 axes and 464 elements; config.json asks for \(999999, 65536\)" \
    "config.update(vocab_size=999999, n_embd=65536)"
damage "config.json: n_layer is missing" "del config['n_layer']"
damage "config.json: n_head is not a whole number" "config['n_head'] = 'two'"
damage "config.json: model.layers = 0 is out of range" "config['n_layer'] = 0"
damage "model.heads = 3 does not divide model.width = 16" "config['n_head'] = 3"
damage "activation \"sine\" is not supported" "config['activation_function'] = 'sine'"
damage "scale_attn_by_inverse_layer_idx = true is not supported" "config['scale_attn_by_inverse_layer_idx'] = True"
cp -r models/gpt2 own
refused "own/model.safetensors: it would overwrite a file of own" "$longline" import own -o own/model.safetensors
cd own || exit 1
refused "model.safetensors: it would overwrite a file of ." "$longline" import .
cd ..
# Beside shards it would be read in their place.
cp -r models/gpt2-untied pieces
cd pieces || exit 1
refused "give --out another name: model.safetensors would be read instead of the weights of \." "$longline" import .
t 0 "$longline" import . -o mine.safetensors
cd ..
refused "give --out another name" "$longline" import pieces -o pieces/model.safetensors
cp pieces/mine.safetensors pieces/model.safetensors
refused "pieces/model.safetensors is a model of longline" "$longline" import pieces -o again.safetensors
damage "model_type = \"t5\" is not a family that can be imported: gpt2, gpt_neox, llama" "config['model_type'] = 't5'"
damage "config.json: model_type is missing" "del config['model_type']"
llama="config, tensors, _ = families.llama()"
damage "rope_scaling of type \(none\) is not supported; default, linear and llama3 are" \
    "$llama; config['rope_scaling'] = {'factor': 8}"
damage "rope_scaling of type yarn .* give other results" "$llama; config['rope_scaling'] = {'rope_type': 'yarn'}"
damage "rope_scaling.factor is missing" "$llama; config['rope_scaling'] = {'rope_type': 'llama3'}"
damage "rope_scaling.low_freq_factor is not a number" "$llama; config['rope_scaling'] = {'rope_type': 'llama3', \
    'factor': 8, 'original_max_position_embeddings': 16, 'low_freq_factor': '1'}"
damage "position.scaling = 0.5 is out of range" "$llama; config['rope_scaling'] = {'type': 'linear', 'factor': 0.5}"
damage "position.scaling-low = 4 must be below" "$llama; config['rope_parameters'] = {'rope_type': 'llama3', 'factor': 8, \
    'original_max_position_embeddings': 16, 'low_freq_factor': 4, 'high_freq_factor': 4}"
damage "rope_parameters of type dynamic .*the same model up to max_position_embeddings" \
    "$llama; config['rope_parameters'] = {'rope_type': 'dynamic'}"
damage "sliding_window of 1 of 2 layers .*use_sliding_window.: false it is the same model .* up to 64 tokens" \
    "$llama; config.update(model_type='qwen2', use_sliding_window=True, sliding_window=64, max_window_layers=1)"
damage "rope_parameters.rope_theta is not a number" "$llama; config['rope_parameters'] = {'rope_theta': '10000'}"
for value in "'linear'" "{'full_attention': {'rope_type': 'linear', 'factor': 4.0, 'rope_theta': 10000.0}}"; do
    damage "rope_parameters of type \(none\) is not supported" "$llama; config['rope_parameters'] = $value"
done
listed="$llama; config.update(model_type='qwen2', use_sliding_window=True, sliding_window=64, max_window_layers=0"
damage "sliding_window of 1 of 2 layers is not" "$listed, layer_types=['sliding_attention', 'full_attention'])"
for types in "['sliding_attention']" "['sliding_attention', 'full']" "'sliding_attention'"; do
    damage "layer_types is not a sliding_attention or full_attention for each layer" "$listed, layer_types=$types)"
done
damage "hidden_act = relu is not supported; only gelu is" \
    "config, tensors, _ = families.bert('roberta'); config['hidden_act'] = 'relu'"
damage "the head of BertForSequenceClassification is not supported" \
    "config, tensors, _ = families.bert(); config['architectures'] = ['BertForSequenceClassification']"

# Models of images.
image() { # what has to be said, how it comes about
    rm -rf bad
    cp -r models/vit bad
    (cd bad && $python -c "
import json, sys
sys.path.insert(0, '$root/tests/python/reference')
import vision, safetensors_file
config, tensors, _ = vision.vit()
processor = vision.processor()
$2
json.dump(config, open('config.json', 'w')), safetensors_file.write('model.safetensors', tensors)
json.dump(processor, open('preprocessor_config.json', 'w'))")
    refused "$1" "$longline" import bad -o bad.safetensors
}
image "projection.weight has 2 axes and 1152 elements; config.json asks for \(24, 3, 4, 4\)" \
    "x = 'vit.embeddings.patch_embeddings.projection.weight'; tensors[x] = tensors[x].reshape(24, 48)"
image "cls_token has 2 axes and 24 elements; config.json asks for \(1, 1, 24\)" \
    "tensors['vit.embeddings.cls_token'] = tensors['vit.embeddings.cls_token'][0]"
image "position_embeddings has 3 axes and 240 elements; config.json asks for \(1, 17, 24\)" "config['image_size'] = 16"
image "model.patch = 5 does not divide images of 12 x 12" "config['patch_size'] = 5"
image "model.channels = 1073741824 is out of range" "config.update(image_size=1 << 30, num_channels=1 << 30)"
image "qkv_bias = false is not supported" "config['qkv_bias'] = False"
image "the head of ViTForMaskedImageModeling is not supported; image classifiers are" \
    "config['architectures'] = ['ViTForMaskedImageModeling']"
image "model_type = .deit. has a distillation token .* import a DeiT without that token, whose model_type is .vit." \
    "config.update(model_type='deit', architectures=['DeiTForImageClassificationWithTeacher'])
tensors = {k.replace('vit.', 'deit.'): x for k, x in tensors.items() if 'classifier' not in k}
tensors['deit.embeddings.distillation_token'] = tensors['deit.embeddings.cls_token']"
image "preprocessor_config.json: crop_size is 10, and the model reads images of 12 pixels" \
    "processor.update(do_center_crop=True, crop_size=10)"
image "preprocessor_config.json: size is not a height and a width that are equal" \
    "processor.update(do_center_crop=True, crop_size=12, size={'shortest_edge': 14})"
image "preprocessor_config.json: it crops, and says no size" "processor.update(do_center_crop=True, crop_size=12, size=0)"
image "preprocessor_config.json: resample = 1 is not supported; only 2 or 3 is" "processor['resample'] = 1"
for factor in 0 -1 1e-320; do
    image "bad/preprocessor_config.json: rescale_factor is not above 0, or too small" "processor['rescale_factor'] = $factor"
done
image "bad/config.json: id2label of class 1 has a control character" "config['id2label'] = {'0': 'a', '1': 'b\\tc'}"
image "model.pixel-std = .0.5,0,0.5. divides pixels" "processor['image_std'] = [0.5, 0, 0.5]"
for list in "[0.5, '0.5', 0.5]" "[0.5, 0.5, 0.5, 0.5]" "[]"; do
    image "bad/preprocessor_config.json: image_mean is not a list of a number for each channel" "processor['image_mean'] = $list"
done
image "image_std is not a number" "processor['image_std'] = '0.5'"
for labels in "{'0': 'cat', '1': 1, '2': 'owl', '3': 'fox', '4': 'bee'}" "{'0': 'cat', '2': 'owl'}"; do
    image "config.json: id2label has no text for class 1 of " "config['id2label'] = $labels"
done
image "model.classes = 1 |classifier needs at least 2" "config['id2label'] = {'0': 'all'}"

# DeiT's processor resizes to a larger square with another filter, and takes its middle.
cp -r models/vit deit
$python -c "
import json, sys
sys.path.insert(0, '$root/tests/python/reference')
import numpy as np, vision
sides = {'size': {'height': 16, 'width': 16}, 'crop_size': {'height': 12, 'width': 12}}
processor = vision.processor() | sides | {'do_center_crop': True, 'resample': 3}
json.dump(processor, open('deit/preprocessor_config.json', 'w'))
image = vision.picture(16)
vision.write_png('large.png', image)
vision.write_png('middle.png', np.ascontiguousarray(image[2:14, 2:14]))"
t 0 "$longline" import deit -o deit.safetensors
t 0 "$longline" classify deit.safetensors large.png
sed 1d out | cut -f 2- >got
t 0 "$longline" import models/vit -o whole.safetensors
t 0 "$longline" classify whole.safetensors middle.png
sed 1d out | cut -f 2- >vector
check "the middle of the picture is classified" cmp got vector
t 0 "$longline" export deit.safetensors back --to hf
check "the processor comes back" cmp deit/preprocessor_config.json back/preprocessor_config.json
# Names of classes may have quotes, and be there twice.
$python -c "
import json
config = json.load(open('deit/config.json'))
config['id2label'] = dict(zip('01234', ('\"red\" fox', 'crane', 'crane', '', 'crane (2), a bird')))
json.dump(config, open('deit/config.json', 'w'))"
t 0 "$longline" import deit -o named.safetensors
t 0 "$longline" classify named.safetensors middle.png --top 5
sed 1d out | cut -f 2,4,6,8,10 | tr '\t' '\n' | LC_ALL=C sort | tr '\n' '|' >got
check "each class has its name: $(cat got)" \
    test "$(cat got)" = '"red" fox|LABEL_3|crane|crane (2)|crane (2); a bird|'
# Half a million classes of one name take a moment, and each has another number.
$python -c "
import json
config = json.load(open('deit/config.json'))
config['id2label'] = {str(i): 'crane' for i in range(500000)}
json.dump(config, open('deit/config.json', 'w'))"
last="import deit, in half a minute"
timeout 30 "$longline" import deit -o cranes.safetensors >out 2>err
check "the classes do not fit the weights" test $? -eq 2
err "classifier.weight has 2 axes and 120 elements; config.json asks for .500000, 24."

# A folder of PNG files for each class trains a new model.
$python -c "
import os, sys
sys.path.insert(0, '$root/tests/python/reference')
import numpy as np, vision
random = np.random.default_rng(7)
for name, low in (('dark', 0), ('light', 128), ('other', 60)):
    os.makedirs(f'pictures/{name}')
    for i in range(20 if name != 'other' else 1):
        shape = (random.integers(8, 20), random.integers(8, 20), 3)
        vision.write_png(f'pictures/{name}/{i}.png', random.integers(low, low + 128, shape, dtype=np.uint8))"
pictures() { # keys for training from the folder
    set -- "$longline" train "$root/recipes/fashion-mnist-vit.ini" --out pictures-run --set data.format=png \
        --set data.train=pictures --set data.test= --set data.valid-fraction=0.3 --set model.channels=3 \
        --set model.width=16 --set model.layers=1 --set model.ff=16 --set model.heads=2 --set train.length=192 \
        --set position.max-length=5 --set train.steps=40 --set train.batch=8 --set train.warmup=5 --set train.report=off \
        --set train.eval-every=40 --set train.checkpoint-every=40 --set train.learning-rate=0.01 "$@"
    "$@"
}
two='--set data.classes=dark,light --set model.classes=2'
refused "set data.resize, which makes all as large" pictures $two
refused "model.classes is 2, and pictures has 3 classes" pictures --set data.classes= --set model.classes=2
refused "no files in subfolders that name their class, of data.classes=cats,dogs" \
    pictures --set data.classes=cats,dogs --set model.classes=2
refused "is not a folder with a folder of PNG files" pictures $two --set data.train=picture.png
t 0 pictures $two --set data.resize=8
out "^train.valid_accuracy=1.0000$"
t 0 "$longline" classify pictures-run/best.safetensors pictures/dark/3.png pictures/light/3.png
out "^pictures/dark/3.png	dark	"
out "^pictures/light/3.png	light	"
# Without data.resize a larger square is not made, in training as in classify.
for class in dark light; do
    mkdir -p equal/$class
    for i in 1 2 3 4; do cp middle.png equal/$class/$i.png; done
done
for side in 0 16; do
    t 0 pictures $two --set data.train=equal --set data.resize-side=$side --set train.length=432 --set train.steps=2 \
        --set train.eval-every=2 --set train.checkpoint-every=2 --set train.warmup=1 --set position.max-length=10 \
        --out equal-$side
    cp err equal-$side.notes
    t 0 "$longline" classify equal-$side/last.safetensors large.png
    cp out equal-$side.classes
done
check "it is said" grep -q "data.resize-side has no effect: it needs data.resize" equal-16.notes
check "once" sh -c '! grep -q "no effect" equal-0.notes'
check "classify has the pictures of training" cmp equal-0.classes equal-16.classes
printf 'no picture' >pictures/dark/x.png
refused "pictures/dark/x.png" pictures $two --set data.resize=8 --out pictures-again

# A model without a head is encoded with, or trained; its new head is drawn.
$python -c "
import json, sys
sys.path.insert(0, '$root/tests/python'), sys.path.insert(0, '$root/tests/python/reference')
import numpy as np, vision, write_models
config, tensors, vector = vision.vit(bare=True)
write_models.save('headless', config, tensors, 'F32', 1)
vision.write_png('picture.png', vision.picture())
np.savetxt('vector', vector(vision.picture()))"
t 0 "$longline" import headless -o headless.safetensors
t 0 "$longline" encode headless.safetensors picture.png --pool first
sed -n 2p out | cut -d , -f 2- | tr , ' ' >got
t 0 $python "$root/tests/python/compare.py" vector got
t 0 "$longline" encode headless.safetensors picture.png picture.png --pool all
$python -c "
import numpy as np
rows = [line.split(',') for line in open('out').read().split()[1:]]
half = np.array([[float(x) for x in row[-24:]] for row in rows]).reshape(2, 9, 24)
assert np.array_equal(half[0], half[1])
np.savetxt('vector', half[0].mean(0)[None])"
t 0 "$longline" encode headless.safetensors picture.png --pool mean
sed -n 2p out | cut -d , -f 2- | tr , ' ' >got
t 0 $python "$root/tests/python/compare.py" vector got
t 0 "$longline" export headless.safetensors headless-again --to hf
check "a model without a head is exported byte for byte" diff -r headless headless-again

rm -rf bad && mkdir bad
refused "models/gpt2 has no model: .*longline import .models/gpt2.. makes one" "$longline" score models/gpt2 config.json
refused "not a longline model .*longline import FOLDER" "$longline" score models/gpt2/model.safetensors config.json
refused "bad has no config.json" "$longline" import bad
refused "there is no folder|is not a folder" "$longline" import nothing
cp models/gpt2/config.json bad
refused "bad has neither model.safetensors nor model.safetensors.index.json" "$longline" import bad
: >bad/pytorch_model.bin
refused "bad has its weights in pytorch_model.bin, which is not read .* safe_serialization=True" "$longline" import bad
echo '{' >bad/config.json && cp models/gpt2/model.safetensors bad
refused "config.json: not JSON at byte" "$longline" import bad
cp models/gpt2/config.json bad && head -c 1000 models/gpt2/model.safetensors >bad/model.safetensors
refused "model.safetensors is truncated" "$longline" import bad
# A model.safetensors that was saved beside older shards is the model, as for transformers.
cp -r models/llama saved-again
$python -c "
import sys
sys.path.insert(0, '$root/tests/python'), sys.path.insert(0, '$root/tests/python/reference')
import families, write_models
write_models.save('later', *families.llama(seed=30)[:2], 'F32', 1)"
cp later/model.safetensors saved-again
t 0 "$longline" import later -o later.safetensors
t 0 "$longline" import saved-again -o saved-again.safetensors
for name in later saved-again; do
    # shellcheck disable=SC2046
    t 0 "$build/examples/log_probabilities" $name.safetensors $(cat models/llama.tokens)
    cp out $name.logp
done
check "older shards are not read" cmp later.logp saved-again.logp
cp -r models/llama shards && sed -i 's/"model-00001-of/"..\/model-00001-of/' shards/model.safetensors.index.json
refused "is not a name in this folder" "$longline" import shards
# An export knows files of weights by their names.
rm -r shards && cp -r models/llama shards
sed -i 's/model-00001-of-[0-9]*.safetensors/part1.st/g' shards/model.safetensors.index.json
mv shards/model-00001-of-*.safetensors shards/part1.st
refused "index.json: the file of tensor .*, part1.st, is not called NAME.safetensors" "$longline" import shards
refused "FOLDER" "$longline" import
