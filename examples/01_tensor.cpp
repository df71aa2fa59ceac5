// 1. Tensors: numbers with a shape, a dtype and a device.
#include <binade.h>

#include <cstdio>

using namespace binade;

int main() {
  Runtime runtime({.seed = 1});  // fills the kernel table, sets the threads, owns the seed: made first, once

  // A tensor is a value with shared storage: copies alias, clone() copies.
  Tensor x = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  Tensor same = x;
  Tensor other = x.clone();
  same.fill(7);
  std::printf("x      %s\nother  %s\n", x.to_string().c_str(), other.to_string().c_str());

  // Halves hold bits. 65504 is the largest f16, and what does not fit becomes infinity: this is how runs die.
  const Tensor wide = Tensor::from(std::vector<float>{1.0f, 1.0f + 1.0f / 4096, 65504, 65536, 6e-8f, 2e-8f}, {6});
  std::printf("f32    %s\n", wide.to_string().c_str());
  std::printf("f16    %s\n", wide.to(DType::f16).to_string().c_str());
  std::printf("bf16   %s\n", wide.to(DType::bf16).to_string().c_str());

  // Images are (N, H, W, C). The one stride there is: a slice of channels, without a copy.
  const Tensor image = Tensor::zeros({1, 2, 2, 4});
  Tensor skip = image.channel_slice(2, 2);
  skip.fill(1);
  std::printf("image  %s\n", image.to_string().c_str());

  // Errors say what was wanted, what came and what to do.
  try {
    skip.reshape({8});
  } catch (const ShapeError& error) {
    std::printf("%s\n", error.what());
  }
}
