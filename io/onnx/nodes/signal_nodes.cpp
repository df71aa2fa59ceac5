#include "binade/io/onnx/nodes/node.h"

/// Fourier transforms. Complex numbers are a last axis of extent 2, in ONNX and in Binade.
namespace binade::onnx {
namespace {

bool is_complex(const Variable& x) { return x.dim(-1) == 2; }

Variable transformed(const Node& n) {
  const Variable x = n[0];
  const int rank = rank_of(x);
  const std::int64_t given = n.has(2) ? n.whole(2) : n.integer("axis", -2);
  const int axis = from_start(given, rank);
  unsupported_if(axis == rank - 1, "a transform along the axis of complex parts");
  const bool inverse = n.integer("inverse", 0) != 0, onesided = n.integer("onesided", 0) != 0;
  const std::int64_t count = n.has(1) ? n.whole(1) : 0;
  unsupported_if(n.has(1) && count < 1, "a transform of no numbers");
  if (onesided && inverse) return unsqueeze(irfft(x, count, axis), -1);
  if (onesided) {
    unsupported_if(is_complex(x), "a one-sided transform of complex numbers");
    return rfft(squeeze(x, -1), count, axis);
  }
  const Variable z = is_complex(x) ? x : concat({x, zeros_like(x.value())}, -1);
  return inverse ? ifft(z, count, axis) : fft(z, count, axis);
}

Variable short_time(const Node& n) {
  unsupported_if(rank_of(n[0]) == 3 && is_complex(n[0]), "stft() is of real signals");
  const Variable x = rank_of(n[0]) == 3 ? squeeze(n[0], -1) : n[0];
  unsupported_if(!n.has(2) && !n.has(3), "neither a window nor a length of frames");
  const std::int64_t length = n.has(3) ? n.whole(3) : n[2].dim(0);
  const StftOptions options{.n_fft = length,
                            .hop_length = n.whole(1),
                            .win_length = n.has(2) ? n[2].dim(0) : length,
                            .center = false,
                            .onesided = n.integer("onesided", 1) != 0};
  return transpose(stft(x, options, n[2]), 1, 2);
}

}  // namespace

Table signal_nodes() {
  return {
      {"DFT", one(transformed)},
      {"STFT", one(short_time)},
  };
}

}  // namespace binade::onnx
