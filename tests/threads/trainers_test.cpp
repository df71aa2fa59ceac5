// Trainings and evaluations of different models in different threads of one process.

#include <gtest/gtest.h>

#include <memory>

#include "tests/threads/crowd.h"
#include "tests/threads/small_training.h"

namespace binade {
namespace {

using test::SmallTraining;

constexpr int kSteps = 8;

/// Two trainings that share a Runtime. The models are made one after the other, because both draw their weights from
/// the Runtime's init streams.
struct Two {
  Runtime runtime{{.seed = 3, .threads = 2}};
  SmallTraining first{runtime, "bf16"}, second{runtime, "fp16"};
};

TEST(Trainers, InTwoThreadsTrainAsOneAfterTheOther) {
  std::string alone[2];
  {
    Two two;
    two.first.steps(kSteps);
    two.second.steps(kSteps);
    alone[0] = two.first.trainer.state_hash();
    alone[1] = two.second.trainer.state_hash();
  }
  Two two;
  test::Crowd crowd(2);
  crowd.run([&](int i) { (i == 0 ? two.first : two.second).steps(kSteps); });
  EXPECT_EQ(two.first.trainer.state_hash(), alone[0]);
  EXPECT_EQ(two.second.trainer.state_hash(), alone[1]);
}

TEST(Trainers, EvaluateOneModelWhileAnotherIsTrained) {
  std::string hash;
  double score = 0;
  {
    Two two;
    two.second.steps(kSteps);
    score = two.second.evaluate();
    two.first.steps(kSteps);
    hash = two.first.trainer.state_hash();
  }
  Two two;
  two.second.steps(kSteps);
  const std::string before = two.second.trainer.state_hash();
  test::Crowd crowd(2);
  crowd.run([&](int i) {
    if (i == 0) return two.first.steps(kSteps);
    for (int k = 0; k < kSteps; ++k) EXPECT_EQ(two.second.evaluate(), score);
  });
  EXPECT_EQ(two.first.trainer.state_hash(), hash);
  EXPECT_EQ(two.second.trainer.state_hash(), before);
}

/// A model that is not being trained may be used by any number of threads, also during the training of another.
TEST(Trainers, TrainWhileManyThreadsUseAnotherModel) {
  Two two;
  two.second.net.eval();
  const auto predict = [&] {
    const PolicyScope policy(amp::Policy::bf16());
    const InferenceMode mode;
    return two.second.net(test::image(5, 4)).value();
  };
  const Tensor expected = predict().clone();
  test::Crowd crowd(6);
  crowd.run([&](int i) {
    if (i == 0) return two.first.steps(kSteps);
    for (int k = 0; k < 10; ++k) EXPECT_TRUE(test::same_bits(predict(), expected));
  });
}

}  // namespace
}  // namespace binade
