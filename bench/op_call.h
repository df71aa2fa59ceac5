#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "binade/core/ops/op.h"
#include "binade/core/random.h"
#include "binade/core/runtime.h"
#include "binade/core/tensor.h"

/// Inputs and calls of single ops for benchmarks, forward and backward, without a tape.
namespace binade::bench {

/// Returns `rows` x `columns` values, normally distributed with standard deviation `scale`. At most about a million are
/// drawn, and then repeated on the device. Another `tag` gives other values.
inline Tensor values(std::int64_t rows, std::int64_t columns, DType dtype, std::uint32_t tag, double scale = 1) {
  const std::int64_t some = std::min(rows, std::max<std::int64_t>(1, (1 << 20) / columns));
  const RandomStream numbers{.seed = 1, .purpose = RngPurpose::kData, .index = tag};
  std::vector<float> host(static_cast<std::size_t>(some * columns));
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<float>(scale * numbers.normal(i));
  const Device device = Runtime::current_device();
  const Tensor part = Tensor::from(host, {some, columns}).to(dtype).to(device);
  if (some == rows) return part;
  Tensor all = Tensor::empty({rows, columns}, dtype, device);
  for (std::int64_t row = 0; row < rows; row += some) {
    const std::int64_t count = std::min(some, rows - row);
    all.narrow(row, count).copy_from(part.narrow(0, count));
  }
  return all;
}

/// Returns the number of bytes of the tensor's elements.
inline double bytes_of(const Tensor& t) {
  return static_cast<double>(t.numel()) * static_cast<double>(size_of(t.dtype()));
}

/// Returns class ids for `rows` rows. They are uniformly distributed or, if `text` is true, distributed like the words
/// of a text: the most frequent id makes up about 5 %.
inline Tensor labels(std::int64_t rows, std::int64_t classes, bool text = false) {
  const RandomStream numbers{.seed = 1, .purpose = RngPurpose::kData, .index = 9};
  std::vector<std::int32_t> host(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < host.size(); ++i) {
    const auto any = static_cast<std::int32_t>(numbers.below(i, static_cast<std::uint64_t>(classes)));
    const double rank = std::pow(static_cast<double>(classes), numbers.uniform(i)) - 1;
    host[i] = text ? static_cast<std::int32_t>(rank) : any;
  }
  return Tensor::from(host, {rows}).to(Runtime::current_device());
}

/// Receives and discards the gradients of one op. It asks the op to multiply the gradient of input 0 by `derivative`.
class Gradients : public GradSink {
 public:
  Gradients(const OpContext& context, const ActivationDerivative& derivative)
      : context_(context), derivative_(derivative) {}
  ActivationDerivative activation_derivative(int i) const override {
    return i == 0 ? derivative_ : ActivationDerivative{};
  }
  bool needs(int i) const override { return input(i).needs_grad; }
  Tensor destination(int i) override { return Tensor::empty(input(i).shape, input(i).grad_dtype, input(i).device); }
  void set(int, Tensor) override {}

 private:
  const OpContext::Input& input(int i) const { return context_.inputs[static_cast<std::size_t>(i)]; }
  const OpContext& context_;
  ActivationDerivative derivative_;
};

/// One call of an op, for timing it without a tape.
template <class Op>
struct Call {
  Tensors in{};
  std::uint32_t parameters = 0;  // bit i: input i has an f32 gradient
  DType store = DType::bf16;     // store dtype of the result
  typename Op::Params params{};
  bool tf32 = false;

  OpContext context(std::uint32_t wanted) const {
    OpContext c;
    c.store_dtype = store;
    c.tf32 = tf32;
    c.grad_enabled = wanted != 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
      const bool there = in[i].defined();
      c.inputs.push_back({.shape = there ? in[i].shape() : Shape{},
                          .dtype = there ? in[i].dtype() : DType::f32,
                          .needs_grad = there && (wanted >> i & 1) != 0,
                          .grad_dtype = !there || (parameters >> i & 1) != 0 ? DType::f32 : in[i].dtype(),
                          .device = Runtime::current_device()});
    }
    return c;
  }
  std::function<void()> forward(std::uint32_t wanted = 0) const {
    return [*this, wanted] {
      OpContext c = context(wanted);
      Op::forward(c, in, params);
    };
  }
  /// Returns a function that computes the gradients of the inputs in `wanted` (bit i: input i). `gys` are the gradients
  /// of the outputs.
  std::function<void()> backward(std::uint32_t wanted, const Tensors& gys,
                                 const GradSink::ActivationDerivative& derivative = {}) const {
    auto kept = std::make_shared<OpContext>(context(wanted));
    Op::forward(*kept, in, params);
    return [*this, kept, gys, derivative] {
      Gradients sink(*kept, derivative);
      Op::backward(*kept, gys, sink, params);
    };
  }
  std::function<void()> backward(std::uint32_t wanted, const Tensor& gy,
                                 const GradSink::ActivationDerivative& derivative = {}) const {
    return backward(wanted, Tensors{gy}, derivative);
  }
};

}  // namespace binade::bench
