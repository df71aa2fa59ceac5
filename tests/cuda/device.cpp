#include "tests/cuda/device.h"

#include <gtest/gtest.h>

#include <memory>

#include "binade/core/gpus.h"
#include "binade/core/runtime.h"

namespace binade {
namespace {

class WithDevice : public testing::Environment {
 public:
  void SetUp() override {
    if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
    runtime_ = std::make_unique<Runtime>(RuntimeOptions{.device = test_device(), .seed = 1});
  }
  void TearDown() override { runtime_.reset(); }

 private:
  std::unique_ptr<Runtime> runtime_;
};
[[maybe_unused]] const testing::Environment* const environment = testing::AddGlobalTestEnvironment(new WithDevice);

}  // namespace

Device test_device() { return Device::cuda(0); }

}  // namespace binade
