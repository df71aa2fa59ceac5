// 1. Tensors: numbers with a shape, a dtype and a device.
#include <binade.h>

#include <cstdio>

using namespace binade;

int main() {
  Runtime runtime({.seed = 1});  // selects kernels, threads and seed; made once, before anything else

  // A tensor shares its storage with its copies; clone() copies the storage.
  Tensor x = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  Tensor same = x;
  Tensor other = x.clone();
  same.fill(7);
  std::printf("x      %s\nother  %s\n", x.to_string().c_str(), other.to_string().c_str());

  // 16-bit types round. 65504 is the largest f16; larger values become infinity, which is how trainings fail.
  const Tensor wide = Tensor::from(std::vector<float>{1.0f, 1.0f + 1.0f / 4096, 65504, 65536, 6e-8f, 2e-8f}, {6});
  std::printf("f32    %s\n", wide.to_string().c_str());
  std::printf("f16    %s\n", wide.to(DType::f16).to_string().c_str());
  std::printf("bf16   %s\n", wide.to(DType::bf16).to_string().c_str());

  // Images are (N, H, W, C). A slice of channels is a view of the image. Tensors have no other strided views.
  const Tensor image = Tensor::zeros({1, 2, 2, 4});
  Tensor skip = image.channel_slice(2, 2);
  skip.fill(1);
  std::printf("image  %s\n", image.to_string().c_str());

  // Error messages state the expected and the actual value, and a fix.
  try {
    skip.reshape({8});
  } catch (const ShapeError& error) {
    std::printf("%s\n", error.what());
  }
}
