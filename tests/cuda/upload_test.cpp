#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string_view>

#include "binade/core/backend.h"
#include "binade/core/captured_graph.h"
#include "binade/core/memory_plan.h"
#include "binade/core/tensor.h"
#include "binade/cuda/gpu.h"
#include "tests/cuda/device.h"

// Uploads from ordinary host memory must arrive in the order of the calls, relative to kernels and copies that read and
// write their destinations, and must not make the host wait. BINADE_SIMT_STREAMS (tests/cuda/simt/stream.h) selects
// when the emulated device runs submitted work.
namespace binade {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kPart = 8 * kMiB;  // size of a staging buffer of cuda/device/staging.cu, which has four

Backend& gpu() { return backend_of(test_device()); }
Stream stream() { return {test_device()}; }

bool set_to(const char* name, std::string_view value) {
  const char* text = std::getenv(name);
  return text != nullptr && text == value;
}
bool room_beside() { return std::getenv("BINADE_SIMT_MEMORY") == nullptr; }

/// Device memory, and its expected content.
struct Place {
  Tensor there;
  std::vector<unsigned char> want;

  char* at(std::size_t offset) { return static_cast<char*>(there.mutable_raw()) + offset; }
  float* floats() { return reinterpret_cast<float*>(want.data()); }
};

/// Submits random work, and computes the expected content of each byte with a model.
class Events {
 public:
  Events() {
    for (Place& p : floats_) p = make(kFloats, DType::f32);
    for (std::size_t i = 0; i < bytes_.size(); ++i)
      bytes_[i] = make(i < 2 ? 41 * kMiB + 5 : 300 * 1024 + 1, DType::boolean);
    pinned_ = static_cast<float*>(gpu().allocate_pinned(kFloats * sizeof(float)));
    for (std::size_t i = 0; i < kFloats; ++i) pinned_[i] = static_cast<float>(i % 11);
    // Reads its batch from memory that is written between launches, as steps do.
    const auto body = [this] {
      accumulate(floats_[0].there, floats_[1].there);
      gpu().copy_later(floats_[1].at(0), pinned_, kFloats * sizeof(float), CopyKind::kHostToDevice, stream());
    };
    const MemoryTrace trace = gpu().trace(body);
    gpu().fill_zero(floats_[0].at(0), floats_[0].want.size(), stream());
    recording_ = gpu().capture(body, trace);
    std::memcpy(floats_[1].want.data(), pinned_, floats_[1].want.size());
  }
  ~Events() {
    gpu().synchronize(stream());
    gpu().release_pinned(pinned_);
  }
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  void draw(std::mt19937& random) {
    const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
    switch (below(8)) {
      case 0:
      case 1:
      case 2: {
        Place& to = any(below);
        const bool floats = to.there.dtype() == DType::f32;
        const std::size_t most = to.want.size(), unit = floats ? sizeof(float) : 1;
        const std::size_t bytes = std::min(size(below), most) / unit * unit;
        upload(to, below(most - bytes + 1) / unit * unit, bytes, random());
        break;
      }
      case 3: {
        Place &to = any(below), &from = any(below);
        if (&to == &from || to.there.dtype() != from.there.dtype()) break;
        const std::size_t bytes = std::min({to.want.size(), from.want.size(), 1 + below(2 * kMiB)}) / 4 * 4;
        const std::size_t a = below(to.want.size() - bytes + 1) / 4 * 4;
        const std::size_t b = below(from.want.size() - bytes + 1) / 4 * 4;
        if (bytes == 0) break;
        gpu().copy(to.at(a), from.at(b), bytes, CopyKind::kDeviceToDevice, stream());
        std::memcpy(to.want.data() + a, from.want.data() + b, bytes);
        break;
      }
      case 4: {
        Place &into = floats_[below(floats_.size())], &from = floats_[below(floats_.size())];
        accumulate(into.there, from.there);
        add(into, from);
        break;
      }
      case 5: {
        recording_->run();
        add(floats_[0], floats_[1]);
        std::memcpy(floats_[1].want.data(), pinned_, floats_[1].want.size());
        break;
      }
      case 6: {
        Place& to = any(below);
        const std::size_t bytes = 1 + below(std::min<std::size_t>(to.want.size() / 4, kMiB)) * 4;
        const std::size_t at = below(to.want.size() - bytes + 1) / 4 * 4;
        gpu().fill_zero(to.at(at), bytes, stream());
        std::memset(to.want.data() + at, 0, bytes);
        break;
      }
      default:
        if (below(8) != 0) break;
        gpu().wait_for(gpu().mark(stream()));
        break;
    }
  }

  void upload(Place& to, std::size_t at, std::size_t bytes, std::uint32_t tag) {
    source_.resize(bytes);
    if (to.there.dtype() == DType::f32) {  // integers, whose sums are exact for a while
      auto* values = reinterpret_cast<float*>(source_.data());
      for (std::size_t i = 0; i < bytes / sizeof(float); ++i) values[i] = static_cast<float>((i * 7 + tag) % 1021);
    } else {
      for (std::size_t i = 0; i < bytes; ++i) source_[i] = static_cast<unsigned char>((i * 2654435761u + tag) >> 13);
    }
    gpu().copy(to.at(at), source_.data(), bytes, CopyKind::kHostToDevice, stream());
    if (bytes > 0) std::memcpy(to.want.data() + at, source_.data(), bytes);
    std::fill(source_.begin(), source_.end(), static_cast<unsigned char>(0xA5));  // overwrites the source at once
  }

  void expect_as_wanted() {
    const auto expect = [](Place& p) {
      std::vector<unsigned char> got(p.want.size());
      gpu().copy(got.data(), p.there.raw(), got.size(), CopyKind::kDeviceToHost, stream());
      const auto [want, at] = std::ranges::mismatch(p.want, got);
      ASSERT_TRUE(at == got.end()) << "byte " << at - got.begin() << " of " << got.size();
    };
    for (Place& p : floats_) expect(p);
    for (Place& p : bytes_) expect(p);
  }

 private:
  static constexpr std::size_t kFloats = 40'003;

  static Place make(std::size_t count, DType dtype) {
    Place p{.there = Tensor::zeros({static_cast<std::int64_t>(count)}, dtype, test_device()), .want = {}};
    p.want.assign(count * (dtype == DType::f32 ? sizeof(float) : 1), 0);
    return p;
  }
  static void add(Place& into, Place& from) {
    for (std::size_t i = 0; i < kFloats; ++i) into.floats()[i] += from.floats()[i];
  }

  template <class Below>
  Place& any(const Below& below) {
    const std::size_t i = below(floats_.size() + bytes_.size());
    return i < floats_.size() ? floats_[i] : bytes_[i - floats_.size()];
  }
  /// Returns a size around the limits of the module: one staging buffer, all of them, or a small upload.
  template <class Below>
  static std::size_t size(const Below& below) {
    constexpr std::size_t kSmall = 64 * 1024;
    switch (below(16)) {
      case 0: return 0;
      case 1: return 1;
      case 2: return 1 + 2 * below(500);
      case 3: return kSmall - 1 + below(3);
      case 4: return kPart - 1 + below(3);
      case 5: return 4 * kPart - kMiB + below(10 * kMiB);
      case 6:
      case 7: return below(kPart);
      default: return below(4 * kSmall);
    }
  }

  std::array<Place, 3> floats_;
  std::array<Place, 4> bytes_;
  float* pinned_ = nullptr;
  std::unique_ptr<CapturedGraph> recording_;
  std::vector<unsigned char> source_;
};

TEST(Uploads, ArriveInOrderAmongOtherWork) {
  Events events;
  for (std::uint32_t round = 0; round < 6; ++round) {
    std::mt19937 random(round);
    for (int i = 0; i < 120; ++i) events.draw(random);
    events.expect_as_wanted();
    if (testing::Test::HasFatalFailure()) return;
  }
}

/// The batch of the next step is transferred while this step runs.
TEST(Uploads, DoNotWaitForEarlierKernels) {
  Tensor x = Tensor::full({5000}, 1, DType::f32, test_device());
  Tensor batch = Tensor::zeros({static_cast<std::int64_t>(3 * kPart)}, DType::boolean, test_device());
  const std::vector<unsigned char> values(kPart, 3);
  const auto send = [&](std::size_t part) {
    gpu().copy(static_cast<char*>(batch.mutable_raw()) + part % 3 * kPart, values.data(), kPart,
               CopyKind::kHostToDevice, stream());
  };
  send(0);  // so that everything that the first upload allocates exists
  gpu().synchronize(stream());
  for (int i = 0; i < 10; ++i) accumulate(x, x);
  const std::uint64_t waits = cuda::waits();
  for (std::size_t part = 0; part < 3; ++part) send(part);
  EXPECT_EQ(cuda::waits(), waits);
  if (set_to("BINADE_SIMT_STREAMS", "late")) {
    // Work after the kernels does not run: four buffers are full on the device, four more on the host. Without staging
    // buffers, the remaining part also waits behind the kernels.
    std::size_t parts = 3;
    while (parts < 12 && cuda::waits() == waits) send(parts++);
    EXPECT_EQ(parts, room_beside() ? 9u : 4u) << "the last of them waited";
    EXPECT_EQ(cuda::waits(), waits + 1);
  }
  std::vector<unsigned char> got(3 * kPart);
  gpu().copy(got.data(), batch.raw(), got.size(), CopyKind::kDeviceToHost, stream());
  EXPECT_EQ(got, std::vector<unsigned char>(3 * kPart, 3));
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(5000, 1024.0f));
}

/// If a query answers "not yet reached" (cudaErrorNotReady), the CUDA runtime stores this as the last error.
TEST(Uploads, QueryingAMarkDoesNotMakeTheNextLaunchFail) {
  Tensor x = Tensor::full({5000}, 1, DType::f32, test_device());
  gpu().synchronize(stream());
  for (int i = 0; i < 10; ++i) {
    accumulate(x, x);
    const std::uint64_t mark = gpu().mark(stream());
    gpu().reached(mark);
    accumulate(x, x);
    while (!gpu().reached(mark)) {
    }
  }
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(5000, 1048576.0f));
}

}  // namespace
}  // namespace binade
