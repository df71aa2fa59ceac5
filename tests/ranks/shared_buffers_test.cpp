#include "binade/nn/shared_buffers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "binade/amp/step/memory_forecast.h"
#include "tests/ranks/expect_error.h"
#include "tests/ranks/small_task.h"

namespace binade::ranks_test {
namespace {

constexpr ThreadRanksOptions kOptions{.deadline = std::chrono::seconds(60)};

/// Counts its forward passes and keeps the largest input, by rules that ranks know.
struct Meter : nn::Module, nn::SharesBuffers {
  nn::Buffer calls{Tensor::from({std::int64_t{5}})}, largest{Tensor::from({0.25f})};
  void visit(nn::Visitor& v) override {
    v("calls", calls);
    v("largest", largest);
  }
  std::vector<nn::SharedBuffer> shared_buffers() override {
    return {{&calls, nn::SharedRule::kIntegerSum}, {&largest, nn::SharedRule::kMaximum}};
  }
  Variable forward(const Variable& x) override {
    if (!training()) return x;
    calls.writable().mutable_data<std::int64_t>()[0] += 1;
    float& most = largest.writable().mutable_data<float>()[0];
    const Tensor values = x.value().to(DType::f32);
    for (std::int64_t i = 0; i < values.numel(); ++i) most = std::max(most, values.data<float>()[i]);
    return x;
  }
};

/// A network of modules with buffers: a count, a maximum, histories of fp8.
struct Buffered : nn::Module {
  Meter meter;
  nn::Linear first{{.in = 6, .out = 16}}, second{{.in = 16, .out = 2}};
  void visit(nn::Visitor& v) override {
    v("meter", meter);
    v("first", first);
    v("second", second);
  }
  Variable forward(const Variable& x) override { return second(gelu(first(meter(x)))); }
};

template <class Model>
std::vector<Bytes> train_buffered(int ranks, const std::string& policy, std::int64_t bad_sample = -1) {
  std::vector<Bytes> checkpoints(static_cast<std::size_t>(ranks));
  run_thread_ranks(
      ranks,
      [&](const std::shared_ptr<Communicator>& self) {
        Runtime runtime({.seed = 3, .threads = 1});
        Model net;
        optim::AdamW optimizer(net, {.lr = 0.01});
        amp::Trainer trainer(runtime, net, optimizer,
                             {.precision = amp::Policy::by_name(policy),
                              .accumulate = 6,
                              .ranks = self,
                              .leaves = 6,
                              .on_nan = amp::OnNan::kSkip});
        io::Loader<Batch> loader({.batch = 4, .seed = 9, .samples = 150, .prefetch = 0},
                                 [&](const auto& origin) { return make_batch(origin, bad_sample); });
        for (const auto& batch : trainer.batches(loader)) {
          trainer.step(batch, [&](const Batch& b) { return nn::mse(net(b.x), b.y); });
          if (trainer.has_committed(5)) break;
        }
        static std::mutex one_at_a_time;  // threads share the HDF5 library
        const std::lock_guard lock(one_at_a_time);
        const io::CheckpointImage image = io::encode_checkpoint(trainer.state(), "");
        checkpoints[static_cast<std::size_t>(self->rank())].assign(image.bytes().begin(), image.bytes().end());
      },
      kOptions);
  return checkpoints;
}

TEST(SharedBuffers, EveryNumberOfRanksHasTheBuffersOfOne) {
  for (const char* policy : {"fp32", "bf16", "fp8"}) {
    const Bytes one = train_buffered<Buffered>(1, policy).front();
    for (const int ranks : {2, 3, 4, 6})
      for (const Bytes& checkpoint : train_buffered<Buffered>(ranks, policy))
        EXPECT_EQ(checkpoint, one) << policy << " on " << ranks << " ranks";
  }
}

TEST(SharedBuffers, ARankWithoutAMicroBatchTakesTheBuffersOfTheOthers) {
  // The bad micro-batch is the only one of its rank, and is left out.
  io::Loader<Batch> loader({.batch = 4, .seed = 9, .samples = 150, .prefetch = 0},
                           [](const io::BatchOrigin& origin) { return make_batch(origin, -1); });
  const Runtime outer;
  for (int i = 0; i < 6 + 4; ++i) loader.next();
  const std::int64_t bad = loader.next().origin.samples[1];
  const Bytes one = train_buffered<Buffered>(1, "fp32", bad).front();
  for (const Bytes& checkpoint : train_buffered<Buffered>(6, "fp32", bad)) EXPECT_EQ(checkpoint, one);
}

/// Has buffers that one phase of a step changes, and buffers that each phase changes.
struct Critic : nn::Module {
  Meter meter;
  nn::BatchNorm1d of_data{{.channels = 6}}, norm{{.channels = 16}};
  nn::Linear in{{.in = 6, .out = 16}}, out{{.in = 16, .out = 2}};
  void visit(nn::Visitor& v) override {
    v("meter", meter);
    v("of_data", of_data);
    v("norm", norm);
    v("in", in);
    v("out", out);
  }
  Variable forward(const Variable& x) override { return out(gelu(norm(in(meter(x))))); }
};
struct Generator : nn::Module {
  nn::Linear layer{{.in = 6, .out = 6}};
  nn::BatchNorm1d norm{{.channels = 6}};
  void visit(nn::Visitor& v) override {
    v("layer", layer);
    v("norm", norm);
  }
  Variable forward(const Variable& x) override { return norm(layer(x)); }
};

/// Trains with three phases per step: of the critic, of the generator, of the critic again.
std::vector<Bytes> train_in_phases(int ranks, const std::string& policy) {
  std::vector<Bytes> checkpoints(static_cast<std::size_t>(ranks));
  run_thread_ranks(
      ranks,
      [&](const std::shared_ptr<Communicator>& self) {
        Runtime runtime({.seed = 3, .threads = 1});
        Critic critic;
        Generator generator;
        optim::AdamW of_critic(critic, {.lr = 0.01}), of_generator(generator, {.lr = 0.01});
        amp::Trainer trainer(runtime, {{"critic", critic}, {"generator", generator}},
                             {{.name = "critic", .optimizer = of_critic},
                              {.name = "generator", .optimizer = of_generator}},
                             {.precision = amp::Policy::by_name(policy), .accumulate = 6, .ranks = self, .leaves = 6});
        io::Loader<Batch> loader({.batch = 4, .seed = 9, .samples = 150, .prefetch = 0},
                                 [](const auto& origin) { return make_batch(origin, -1); });
        const auto judge = [&](const Batch& b) { return nn::mse(critic(critic.of_data(b.x)), b.y); };
        const auto deceive = [&](const Batch& b) { return nn::mse(critic(generator(b.x)), b.y); };
        const auto judge_again = [&](const Batch& b) { return nn::mse(critic(b.x), b.y); };
        for (const auto& batch : trainer.batches(loader)) {
          trainer.step(batch, amp::Phases(amp::phase(of_critic, judge), amp::phase(of_generator, deceive),
                                          amp::phase(of_critic, judge_again)));
          if (trainer.has_committed(3)) break;
        }
        static std::mutex one_at_a_time;  // threads share the HDF5 library
        const std::lock_guard lock(one_at_a_time);
        const io::CheckpointImage image = io::encode_checkpoint(trainer.state(), "");
        checkpoints[static_cast<std::size_t>(self->rank())].assign(image.bytes().begin(), image.bytes().end());
      },
      kOptions);
  return checkpoints;
}

TEST(SharedBuffers, APhaseGoesOnFromTheBuffersOfThePhaseBefore) {
  for (const char* policy : {"fp32", "fp8"}) {
    const Bytes one = train_in_phases(1, policy).front();
    for (const int ranks : {2, 3, 6})
      for (const Bytes& checkpoint : train_in_phases(ranks, policy))
        EXPECT_EQ(checkpoint, one) << policy << " on " << ranks << " ranks";
  }
}

/// Says that its buffer does not depend on the batch, although it does.
struct Liar : nn::Module, nn::SharesBuffers {
  nn::Buffer mean{Tensor::from({0.f})};
  nn::Linear layer{{.in = 6, .out = 2}};
  void visit(nn::Visitor& v) override {
    v("mean", mean);
    v("layer", layer);
  }
  std::vector<nn::SharedBuffer> shared_buffers() override { return {{&mean, nn::SharedRule::kOncePerStep}}; }
  Variable forward(const Variable& x) override {
    mean.writable().mutable_data<float>()[0] = x.value().data<float>()[0];
    return layer(x);
  }
};

TEST(SharedBuffers, ABufferThatDependsOnTheBatchAlthoughItsModuleDeniesItIsNamed) {
  test::expect_error<RankError>([] { train_buffered<Liar>(2, "fp32"); },
                                {"has written other bits", "changes once per step"});
}

/// Changes a buffer and names no rule.
struct Unnamed : nn::Module {
  nn::Buffer mean{Tensor::from({0.f})};
  nn::Linear layer{{.in = 6, .out = 2}};
  void visit(nn::Visitor& v) override {
    v("mean", mean);
    v("layer", layer);
  }
  Variable forward(const Variable& x) override {
    mean.writable().mutable_data<float>()[0] += 1;
    return layer(x);
  }
};

TEST(SharedBuffers, ABufferWithoutARuleIsRefused) {
  test::expect_error<ArgumentError>([] { train_buffered<Unnamed>(2, "fp32"); },
                                    {"has changed the buffer mean", "nn::SharesBuffers"});
}

/// Sums a buffer that is no integer.
struct WrongDType : Meter {
  nn::Buffer sum{Tensor::from({0.f})};
  nn::Linear layer{{.in = 6, .out = 2}};
  void visit(nn::Visitor& v) override {
    v("sum", sum);
    v("layer", layer);
  }
  std::vector<nn::SharedBuffer> shared_buffers() override { return {{&sum, nn::SharedRule::kIntegerSum}}; }
  Variable forward(const Variable& x) override { return layer(x); }
};

TEST(SharedBuffers, ARuleThatDoesNotFitTheDTypeIsRefused) {
  test::expect_error<ArgumentError>([] { train_buffered<WrongDType>(2, "fp32"); },
                                    {"has the dtype f32", "kIntegerSum"});
}

TEST(ReproBundle, OfSeveralRanksIsReplayedOnOneWithTheSameBits) {
  const std::int64_t bad = [] {
    const Runtime outer;
    io::Loader<Batch> loader({.batch = 4, .seed = 9, .samples = 150, .prefetch = 0},
                             [](const io::BatchOrigin& origin) { return make_batch(origin, -1); });
    for (int i = 0; i < 8 + 5; ++i) loader.next();
    return loader.next().origin.samples[2];
  }();
  for (const int ranks : {2, 3}) {
    StateDict bundle;
    std::atomic<int> bundles = 0;
    run_thread_ranks(
        ranks,
        [&](const std::shared_ptr<Communicator>& self) {
          Training training(self, {.on_nan = amp::OnNan::kSkip, .bad_sample = bad});
          if (self->rank() == 0)
            training.trainer.set_repro_sink([&](std::int64_t step, std::int64_t, StateDict taken) {
              EXPECT_EQ(step, 2);
              bundle = std::move(taken);
              ++bundles;
            });
          training.steps(2);
        },
        kOptions);
    ASSERT_EQ(bundles, 1);
    run_thread_ranks(
        1,
        [&](const std::shared_ptr<Communicator>& self) {
          Training elsewhere(self, {.on_nan = amp::OnNan::kSkip});
          const amp::ReproReplay replay = elsewhere.trainer.replay<Batch>(bundle, [&](const Batch& b) {
            return nn::mse(elsewhere.net(b.x), b.y);
          });
          EXPECT_TRUE(replay.same_bits) << ranks << " ranks";
          ASSERT_TRUE(replay.incident.diagnosis.first_bad);
          EXPECT_EQ(replay.incident.diagnosis.first_bad->micro_batch, 5);
        },
        kOptions);
  }
}

TEST(TreeMemory, CountsTheSumsThatARankHoldsAtOneTime) {
  const auto buffers = [](int leaves, int rank, int ranks) {
    return amp::tree_bytes(amp::TreeMemory{leaves, rank, ranks, 1}) / sizeof(float);
  };
  EXPECT_EQ(buffers(1, 0, 1), 0);
  // One rank, 8 leaves: when leaf 7 is added, there are the sums of 4, 2 and 1 leaves, and leaf 7.
  EXPECT_EQ(buffers(8, 0, 1), 4);
  // 2 ranks, 8 leaves: 3 sums while a rank adds its 4 leaves. In the exchange also 3: its sum, half of 2 sums, the
  // result.
  EXPECT_EQ(buffers(8, 0, 2), 3);
  // 8 ranks, 8 leaves: the own sum, an eighth of 8 sums, and the result.
  EXPECT_EQ(buffers(8, 5, 8), 3);
}

}  // namespace
}  // namespace binade::ranks_test
