#!/usr/bin/env bash
# Trains binade-gpt in nanoGPT's CPU setting (4 layers, 4 heads, 128 wide, context 64, batch 12, 2000 steps) on a text file
# over three seeds and three precisions, and prints one JSON line per run: the loss on all of the last 10 % of the text.
#
#   bench/accuracy/text.sh TEXT [OUT] [SEEDS] [PRECISIONS] [FLAGS...]        about 2 minutes per run on two cores
set -euo pipefail
text=${1:?usage: bench/accuracy/text.sh TEXT [OUT] [SEEDS] [PRECISIONS] [FLAGS...]}
out=${2:-runs/accuracy-text}
program=${BINADE_BUILD:-build}/examples/transformer/binade-gpt
for seed in ${3:-1 2 3}; do
  for precision in ${4:-fp32 fp16 bf16}; do
    run=$out/$precision-$seed
    rm -rf "$run"
    mkdir -p "$out"
    "$program" train --data "$text" --tokenizer char --run "$run" --seed "$seed" --precision "$precision" \
      --preset tiny --batch 12 --steps 2000 --dropout 0 --bias off --optimizer adamw --lr 1e-3 --warmup 100 \
      --schedule cosine --min-lr 1e-4 --beta1 0.9 --beta2 0.99 --weight-decay 0.1 --clip 1 --log-every 500 "${@:5}" \
      2> "$run.log" || { tail -1 "$run.log" >&2; exit 1; }
    echo "{\"precision\": \"$precision\", \"seed\": $seed, \"eval\": $("$program" eval --run "$run" --checkpoint newest 2>/dev/null | tail -1)}"
  done
done
