#include "tests/mistakes/mistakes.h"

namespace binade::mistakes {

Subject shapes() {
  return {
      "Shapes",
      {
          {"a linear layer gets rows with another number of features",
           {"linear [head]", "8", "5"},
           [] {
             const Runtime runtime({.threads = 1});
             Net net;
             nn::assign_paths(net);
             net.head(normal({2, 5}));
           }},
          {"an image is passed to a linear layer without `flatten`",
           {"linear [0]", "(2, 4, 4, 3)", "48"},
           [] {
             const Runtime runtime({.threads = 1});
             nn::Sequential net(nn::Linear({.in = 48, .out = 10}));
             net(normal({2, 4, 4, 3}));
           }},
          {"tensors are added that do not broadcast",
           {"add", "(2, 3)", "(2, 4)"},
           [] {
             Variable(normal({2, 3})) + Variable(normal({2, 4}));
           }},
          {"a matrix is multiplied from the wrong side",
           {"matmul", "(2, 3)", "(4, 3)"},
           [] {
             matmul(normal({2, 3}), normal({4, 3}));
           }},
          {"a vector is passed to matmul",
           {"matmul", "(3)"},
           [] {
             matmul(normal({3}), normal({3, 2}));
           }},
          {"values do not fill the shape",
           {"tensor: 3 values", "shape (2, 2)"},
           [] {
             Tensor::from(std::vector<float>{1, 2, 3}, Shape{2, 2});
           }},
          {"reshape to another number of elements",
           {"reshape", "6", "(4, 2)"},
           [] {
             reshape(normal({2, 3}), {4, 2});
           }},
          {"reshape with two extents of -1",
           {"reshape", "-1"},
           [] {
             reshape(normal({2, 3}), {-1, -1});
           }},
          {"a channel slice is reshaped",
           {"reshape", "channel slice", "contiguous_copy()"},
           [] {
             normal({4, 6}).channel_slice(0, 3).reshape(Shape{12});
           }},
          {"permute names an axis twice",
           {"permute", "0", "2"},
           [] {
             permute(normal({2, 3}), {0, 0});
           }},
          {"transpose of an axis that does not exist",
           {"permute", "axis", "3"},
           [] {
             transpose(normal({2, 3}), 0, 3);
           }},
          {"concat of tensors with other extents",
           {"concat", "(2, 3)", "(3, 3)"},
           [] {
             concat({normal({2, 3}), normal({3, 3})}, 1);
           }},
          {"concat of nothing", {"concat", "wanted at least one input"}, [] { concat(std::span<const Variable>{}); }},
          {"slice beyond the end",
           {"slice", "(2, 3)", "1 to 9"},
           [] {
             slice(normal({2, 3}), 1, 1, 9);
           }},
          {"narrow of more rows than there are",
           {"narrow", "rows inside (4, 2)", "5 from row 0"},
           [] {
             normal({4, 2}).narrow(0, 5);
           }},
          {"sum over an axis that does not exist",
           {"sum", "axis", "2"},
           [] {
             sum(normal({2, 3}), {2});
           }},
          {"softmax over an axis that does not exist",
           {"softmax", "axis", "5"},
           [] {
             softmax(normal({2, 3}), 5);
           }},
          {"layer norm of another width",
           {"layer_norm", "4", "6"},
           [] {
             nn::LayerNorm norm({.dim = 4});
             norm(normal({2, 6}));
           }},
          {"group norm whose groups do not divide the channels",
           {"GroupNorm", "3", "8"},
           [] { nn::GroupNorm({.groups = 3, .channels = 8}); }},
          {"attention whose heads do not divide its width",
           {"MultiHeadAttention", "heads", "10"},
           [] { nn::MultiHeadAttention({.dim = 10, .heads = 3}); }},
          {"attention of another width",
           {"projections", "(2, 5, 8)", "(16, 16)"},
           [] {
             const Runtime runtime({.threads = 1});
             nn::MultiHeadAttention a({.dim = 16, .heads = 2});
             a(normal({2, 5, 8}));
           }},
          {"an attention mask of another length",
           {"attention", "mask", "S 5", "7, 7)"},
           [] {
             const Runtime runtime({.threads = 1});
             nn::MultiHeadAttention a({.dim = 8, .heads = 2});
             a(normal({2, 5, 8}), Variable(normal({7, 7})));
           }},
          {"an embedding gets a float",
           {"embedding", "f32", "i32"},
           [] {
             const Runtime runtime({.threads = 1});
             nn::Embedding e({.count = 5, .dim = 2});
             e(normal({3}));
           }},
          {"item() of a tensor with several elements",
           {"item: wanted one element", "(2, 3)"},
           [] {
             normal({2, 3}).item();
           }},
          {"at() beyond the end",
           {"at: wanted an element of (2, 3)", "number 6"},
           [] {
             normal({2, 3}).at(6);
           }},
          {"copy_from of another shape",
           {"copy_from", "(2, 3)", "(3, 2)"},
           [] {
             normal({2, 3}).copy_from(normal({3, 2}));
           }},
          {"a negative extent",
           {"shape", "-1"},
           [] {
             Tensor::zeros({2, -1});
           }},
          {"an undefined tensor is read",
           {"tensor: read as f32", "undefined", "assign"},
           [] { Tensor().data<float>(); }},
          {"a layer with 0 features", {"Linear", "in", "0"}, [] { nn::Linear({.out = 3}); }},
          {"the arguments of a layer are exchanged in a Sequential",
           {"linear [1]", "4", "8"},
           [] {
             const Runtime runtime({.threads = 1});
             nn::Sequential net(nn::Linear({.in = 2, .out = 8}), nn::Linear({.in = 4, .out = 8}));
             net(normal({3, 2}));
           }},
      },
  };
}

Subject images() {
  return {
      "Images",
      {
          {"images in PyTorch's order (N, C, H, W)",
           {"conv2d", "(2, 3, 16, 16)", "channels are the last dimension"},
           [] {
             const Runtime runtime({.threads = 1});
             nn::Conv2d conv({.in = 3, .out = 8});
             conv(normal({2, 3, 16, 16}));
           }},
          {"an image without its batch dimension",
           {"conv2d", "(16, 16, 3)"},
           [] {
             const Runtime runtime({.threads = 1});
             nn::Conv2d conv({.in = 3, .out = 8});
             conv(normal({16, 16, 3}));
           }},
          {"grayscale images for a layer with 3 channels",
           {"conv2d", "C = 3", "(2, 16, 16, 1)"},
           [] {
             const Runtime runtime({.threads = 1});
             nn::Conv2d conv({.in = 3, .out = 8});
             conv(normal({2, 16, 16, 1}));
           }},
          {"a kernel larger than the image",
           {"conv2d", "7", "larger than the image"},
           [] {
             const Runtime runtime({.threads = 1});
             nn::Conv2d conv({.in = 3, .out = 8, .kernel = 7});
             conv(normal({1, 4, 4, 3}));
           }},
          {"groups that do not divide the channels",
           {"Conv2d", "groups", "2"},
           [] { nn::Conv2d({.in = 3, .out = 8, .groups = 2}); }},
          {"a stride of 0",
           {"stride", "0"},
           [] {
             const Runtime runtime({.threads = 1});
             nn::Conv2d conv({.in = 3, .out = 8, .stride = 0});
             conv(normal({1, 8, 8, 3}));
           }},
          {"pooling of a tensor that is no image",
           {"max_pool2d", "(8, 8)"},
           [] {
             max_pool2d(normal({8, 8}));
           }},
          {"pooling with more padding than half of the kernel",
           {"max_pool2d", "padding"},
           [] {
             max_pool2d(normal({1, 8, 8, 3}), {.kernel = 2, .padding = 2});
           }},
          {"upsampling by 0",
           {"upsample", "factor", "0"},
           [] {
             upsample(normal({1, 4, 4, 3}), 0);
           }},
          {"upsampling of a tensor that is no image",
           {"upsample", "(N, H, W, C)", "(4, 4)"},
           [] {
             upsample(normal({4, 4}), 2);
           }},
          {"batch norm of another number of channels",
           {"BatchNorm2d", "4 channels", "(2, 5, 5, 6)"},
           [] {
             nn::BatchNorm2d norm({.channels = 4});
             norm(normal({2, 5, 5, 6}));
           }},
          {"skip connections of a U-Net with an odd size",
           {"concat", "(1, 4, 4, 3)", "(1, 5, 5, 3)"},
           [] {
             concat({upsample(normal({1, 2, 2, 3}), 2), normal({1, 5, 5, 3})});
           }},
          {"a transposed convolution with more output padding than stride",
           {"output_padding", "2"},
           [] {
             const Runtime runtime({.threads = 1});
             nn::ConvTranspose2d up({.in = 3, .out = 3, .output_padding = 2});
             up(normal({1, 4, 4, 3}));
           }},
      },
  };
}

Subject dtypes() {
  return {
      "Element types and devices",
      {
          {"an f32 tensor is read as i32",
           {"tensor: read as i32", "it is f32"},
           [] { normal({2}).data<std::int32_t>(); }},
          {"integers are passed to a layer",
           {"linear", "i32"},
           [] {
             const Runtime runtime({.threads = 1});
             nn::Linear layer({.in = 3, .out = 2});
             layer(labels({2, 3}, 3));
           }},
          {"a gradient of integers is wanted",
           {"a gradient wants a floating dtype", "i32"},
           [] { Variable(labels({3}, 3), true); }},
          {"an optimizer of f64 parameters",
           {"wanted parameter 'w' in f32", "got f64", "precision policy"},
           [] { optim::Adam optimizer({{.name = "w", .variable = Variable(normal({3}).to(DType::f64), true)}}); }},
          {"a model is converted to f16 by hand",
           {"in f32", "f16", "precision policy"},
           [] {
             const Runtime runtime({.threads = 1});
             Net net;
             net.head.weight.mutable_value() = net.head.weight.value().to(DType::f16);
             optim::Adam optimizer(net);
           }},
          {"integers as class probabilities",
           {"softmax", "i32"},
           [] {
             softmax(labels({2, 3}, 3));
           }},
          {"a condition that is a float",
           {"where", "condition", "f32"},
           [] { where(normal({3}), normal({3}), normal({3})); }},
          {"a device that this machine does not have",
           {"cuda", "device"},
           [] { Runtime runtime({.device = Device::cuda(7)}); },
           "device cuda:7: no NVIDIA driver (libcuda.so.1) was found; use Device::cpu()"},
          {"a device name with a typo", {"device", "gpu"}, [] { Device::parse("gpu"); }},
      },
  };
}

}  // namespace binade::mistakes
