#!/usr/bin/env bash
# Trains binade-unet with the settings of bench/peers/train_unet.py (base 16, depth 3, crops of 256, batch 4, 300 steps,
# Adam 1e-3 to 1e-5 by cosine, BCE + Dice) and prints one JSON line per run: Dice on the held-out images.
#
#   bench/accuracy/images.sh FOLDER last|fourth [OUT] [SEEDS] [PRECISIONS] [FLAGS...]      2 to 4 minutes per run on two cores
#
# FOLDER holds images/ and masks/. `last` holds out the last fifth by name; `fourth` every fourth image (03, 07, …).
set -euo pipefail
usage="usage: bench/accuracy/images.sh FOLDER last|fourth [OUT] [SEEDS] [PRECISIONS] [FLAGS...]"
folder=$(readlink -f "${1:?$usage}")
split=${2:?$usage}
out=${3:-runs/accuracy-images}
program=${BINADE_BUILD:-build}/examples/unet/binade-unet
mkdir -p "$out"

held_out=(--val-fraction 0.2)
if [[ $split == fourth ]]; then
  parts=$out/parts
  rm -rf "$parts"
  mkdir -p "$parts"/{train,validation}/{images,masks}
  n=0
  for image in "$folder"/images/*.png; do
    part=train
    ((n % 4 == 3)) && part=validation
    name=$(basename "$image")
    ln -s "$image" "$parts/$part/images/$name"
    ln -s "$folder/masks/$name" "$parts/$part/masks/$name"
    n=$((n + 1))
  done
  folder=$parts/train
  held_out=(--val-data "$parts/validation")
fi

for seed in ${4:-1 2 3}; do
  for precision in ${5:-fp32 fp16 bf16}; do
    run=$out/$precision-$seed
    rm -rf "$run"
    "$program" train --data "$folder" "${held_out[@]}" --run "$run" --seed "$seed" --precision "$precision" \
      --base 16 --depth 3 --size 256 --batch 4 --steps 300 --optimizer adam --lr 1e-3 --min-lr 1e-5 --schedule cosine \
      --loss bce+dice --log-every 50 "${@:6}" 2> "$run.log" || { tail -1 "$run.log" >&2; exit 1; }
    echo "{\"precision\": \"$precision\", \"seed\": $seed, \"eval\": $("$program" eval --run "$run" --checkpoint newest 2> /dev/null | tail -1)}"
  done
done
