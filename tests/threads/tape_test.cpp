// Several threads use one tape or one tensor.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tests/threads/crowd.h"
#include "tests/threads/small_training.h"

namespace binade {
namespace {

/// Each thread numbers the nodes that it records, so a new thread's numbers are below those of an old one.
TEST(Tapes, StartedOnOneThreadContinueOnAnother) {
  const auto deep = [](Variable x) {
    for (int i = 0; i < 30; ++i) x = x * 1.01;
    return x;
  };
  Variable x(test::image(1, 4), true);
  backward(mean(square(deep(deep(x)))));
  const Tensor expected = x.grad().clone();
  x.zero_grad();
  Variable loss;
  const Variable first = deep(x);
  std::thread([&] { loss = mean(square(deep(first))); }).join();
  std::thread([&] { backward(loss); }).join();
  EXPECT_TRUE(test::same_bits(x.grad(), expected));
}

/// A recording forward pass only reads the model; each thread's backward writes the gradients of its own inputs.
TEST(Tapes, OfManyThreadsGoThroughOneModelToTheirOwnInputs) {
  Runtime runtime({.seed = 1});
  test::MixedModel model;
  model.eval();
  for (auto& [name, parameter] : nn::named_parameters(model)) parameter->state()->requires_grad = false;
  const auto gradient = [&](int i) {
    const PolicyScope policy(amp::Policy::by_name(i % 2 == 0 ? "bf16" : "fp16"));
    const Variable x(test::image(i, 3), true);
    backward(mean(square(model(x))));
    return x.grad();
  };
  test::Crowd crowd(8);
  std::vector<Tensor> got(8);
  crowd.run([&](int i) { got[static_cast<std::size_t>(i)] = gradient(i); });
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(test::same_bits(got[static_cast<std::size_t>(i)], gradient(i))) << i;
}

/// y = x; its backward sets `begun` and waits for `may_end`.
struct Waiting {
  struct Params {
    std::atomic<bool>*begun = nullptr, *may_end = nullptr;
  };
  static constexpr OpInfo info{.name = "waiting"};
  static Tensors forward(OpContext&, std::span<const Tensor> in, const Params&) { return {in[0]}; }
  static void backward(const OpContext&, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
    *p.begun = true;
    while (!*p.may_end) std::this_thread::yield();
    if (gx.needs(0)) gx.set(0, gy[0]);
  }
};

/// Without the error, both threads would add to the same gradient at the same time.
TEST(Tapes, OfTwoThreadsThatReachOneLeafAreAnError) {
  Variable w(test::image(1, 4), true);
  w.state()->name = "w";
  std::atomic<bool> begun = false, may_end = false;
  const Variable slow = mean(apply_one<Waiting>({&begun, &may_end}, {w * 2.0}));
  const Variable quick = mean(w * 3.0);
  std::thread thread([&] { backward(slow); });
  while (!begun) std::this_thread::yield();
  std::string words;
  try {
    backward(quick);
  } catch (const AutogradError& error) {
    words = error.what();
  }
  may_end = true;
  thread.join();
  EXPECT_EQ(words,
            "backward: another thread's backward is writing the gradient of w; let the threads take turns, or give "
            "each its own model");
  backward(quick);
  EXPECT_NEAR(w.grad().at(0) * static_cast<double>(w.value().numel()), 5, 1e-4);
}

/// Threads count the parameters of a model and take its state while others compute with it.
TEST(Models, CanBeReadWhileThreadsUseThem) {
  Runtime runtime({.seed = 1});
  test::MixedModel model;
  model.eval();
  const std::int64_t count = nn::count_parameters(model);
  test::Crowd crowd(8);
  crowd.run([&](int i) {
    const PolicyScope policy(amp::Policy::bf16());
    const InferenceMode mode;
    for (int k = 0; k < 5; ++k) {
      if (i % 2 == 0) {
        model(test::image(i, 3));
      } else {
        EXPECT_EQ(nn::count_parameters(model), count);
        EXPECT_EQ(nn::state_dict(model).tensor("head.weight").dim(0), 8);
      }
    }
  });
}

/// Every parameter gets its own init stream; which one depends on the order of the threads.
TEST(Models, CanBeMadeOnManyThreadsOfOneRuntime) {
  Runtime runtime({.seed = 1});
  test::Crowd crowd(8);
  std::vector<std::unique_ptr<nn::Linear>> layers(8);
  crowd.run([&](int i) {
    layers[static_cast<std::size_t>(i)] = std::make_unique<nn::Linear>(
        nn::LinearOptions{.in = 4, .out = 4, .bias = false});
  });
  for (std::size_t a = 0; a < layers.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      EXPECT_FALSE(test::same_bits(layers[a]->weight.value(), layers[b]->weight.value()));
  EXPECT_EQ(runtime.next_init_stream().index, 8u);
}

/// The threads share the model; each has its own cache of keys and values.
TEST(Models, SampleOnManyThreadsWithSeparateCaches) {
  Runtime runtime({.seed = 1});
  nn::MultiHeadAttention attention({.dim = 8, .heads = 2, .causal = true, .composed = true});
  attention.eval();
  const auto sample = [&](int i) {
    const InferenceMode mode;
    nn::AttentionCache cache;
    Tensor y;
    for (int token = 0; token < 6; ++token) y = attention(test::image(i + token, 4).reshape({1, 3, 8}), cache).value();
    return y;
  };
  test::Crowd crowd(8);
  std::vector<Tensor> got(8);
  crowd.run([&](int i) { got[static_cast<std::size_t>(i)] = sample(i); });
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(test::same_bits(got[static_cast<std::size_t>(i)], sample(i)));
}

TEST(CpuThreadCount, MayChangeWhileThreadsCompute) {
  Runtime runtime({.threads = 2});
  test::Crowd crowd(4);
  const Tensor a = test::image(1, 600).reshape({60, 60});
  const Tensor expected = matmul(a, a).value();
  crowd.run([&](int i) {
    for (int k = 0; k < 20; ++k) {
      if (i == 0) set_num_threads(1 + k % 4);
      EXPECT_TRUE(test::same_bits(matmul(a, a).value(), expected));
    }
  });
}

}  // namespace
}  // namespace binade
