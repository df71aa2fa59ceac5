// Classifies sounds of six kinds (sine, square, sawtooth, rising, falling and trembling tones) in noise, by
// convolutions of the samples (1-D) or, with --spectrogram 1, of the logarithmic spectrogram (2-D). Prints the accuracy
// on new sounds.
#include <numbers>

#include "examples/models/common.h"

using namespace binade;

constexpr int64_t kKinds = 6;

struct Sounds {
  Variable samples, kinds;  // (B, L) and (B)
};

/// Draws sounds of random kind, pitch and phase.
Sounds draw(int64_t count, int64_t length) {
  const auto wave = [](const Variable& cycles) { return sin(2 * std::numbers::pi * cycles); };
  const Variable kinds = randint(0, kKinds, {count}), t = arange(length) / static_cast<double>(length);
  const Variable pitch = 20 + 60 * rand({count, 1}), p = pitch * t + rand({count, 1}), bend = 0.4 * pitch * square(t);
  const Variable all = stack(
      {wave(p), sign(wave(p)), 2 * frac(p) - 1, wave(p + bend), wave(p - bend), wave(p) * (1 + wave(6 * t))}, 1);
  return {index(all, {arange(count), kinds}) + 0.5 * randn({count, length}), kinds};
}

struct Classifier : nn::Module {  // samples (B, L) -> logits (B, 6)
  bool spectrogram;
  nn::Sequential layers;
  nn::Linear head;

  Classifier(int64_t width, bool flat) : spectrogram(flat), head({.in = 4 * width, .out = kKinds}) {
    for (int64_t in = 1, out = width; out <= 4 * width; in = out, out *= 2) {
      if (spectrogram) {
        layers.append(nn::Conv2d({.in = in, .out = out, .stride = 2, .padding = 1}));
        layers.append(nn::BatchNorm2d({.channels = out, .relu = true}));
      } else {
        layers.append(nn::Conv1d({.in = in, .out = out, .kernel = 9, .stride = 4, .padding = 4}));
        layers.append(nn::BatchNorm1d({.channels = out, .relu = true}));
      }
    }
  }
  void visit(nn::Visitor& v) override { v("layers", layers), v("head", head); }
  Variable forward(const Variable& x) override {
    const Variable seen = spectrogram ? log(complex_abs(stft(x, {.n_fft = 64}, hann_window(64))) + 0.1) : x;
    return head(mean(flatten(layers(unsqueeze(seen, -1)), 1, -2), 1));
  }
};

int main(int argc, char** argv) {
  const models::Arguments args(argc, argv,
                               {{"steps", 200}, {"batch", 32}, {"length", 1024}, {"width", 16}, {"spectrogram", 0}});
  Runtime runtime(args.runtime());
  Classifier model(args["width"], args["spectrogram"] != 0);
  optim::Adam optimizer(model, {.lr = 3e-3});
  amp::Trainer trainer(runtime, model, optimizer, {.precision = args.policy()});

  const auto loss = [&](const Sounds& b) { return cross_entropy(model(b.samples), b.kinds); };
  for (const int64_t step : args.steps())
    args.report(step, trainer.step(draw(args["batch"], args["length"]), loss).loss);

  const Sounds held_out = draw(512, args["length"]);
  const Variable found = trainer.evaluate([&] { return argmax(model(held_out.samples), 1); });
  models::metric("accuracy", mean(cast(found == held_out.kinds, DType::f32)).item());
}
