#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "binade.h"
#include "binade/core/backend.h"
#include "binade/core/captured_graph.h"
#include "binade/core/memory_plan.h"
#include "binade/core/observation.h"
#include "binade/cuda/gpu.h"
#include "examples/transformer/gpt.h"
#include "examples/unet/unet.h"
#include "tests/cuda/agree.h"
#include "tests/cuda/device.h"

// Captured graphs must give the results of eager execution, also if other work runs between their launches.
namespace binade {
namespace {

Backend& gpu() { return backend_of(test_device()); }
Stream stream() { return {test_device()}; }

Tensor on_device(const Shape& shape, std::uint64_t tag, DType dtype = DType::f32) {
  return random_values(shape, tag).to(dtype).to(test_device());
}

/// Runs `body` once to warm up and once to trace its memory, then captures it.
std::unique_ptr<CapturedGraph> record(const std::function<void()>& body) {
  body();
  const MemoryTrace trace = gpu().trace(body);
  return gpu().capture(body, trace);
}

std::string error_of(const std::function<void()>& body) {
  try {
    gpu().capture(body, {});
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "none";
}

void expect_usable() {
  Tensor x = on_device({33}, 5);
  std::vector<float> twice = x.to_vector<float>();
  for (float& v : twice) v += v;
  accumulate(x, x.clone());
  EXPECT_EQ(x.to_vector<float>(), twice);
}

// ---- a step of a model

/// A model whose step is forward, backward, and a simple update: weights += gradients.
template <class Model>
struct Training {
  Model model;
  Tensor x, target;
  Variable loss;
  std::function<Variable(Model&, const Tensor&, const Tensor&)> loss_of;

  void step() {
    for (auto& [name, parameter] : nn::named_parameters(model)) parameter->zero_grad();
    loss = loss_of(model, x, target);
    backward(loss, 1e-3);
    for (auto& [name, parameter] : nn::named_parameters(model))
      accumulate(parameter->mutable_value(), parameter->grad());
  }
};

template <class Model>
void expect_same_state(Training<Model>& got, Training<Model>& want) {
  ASSERT_EQ(got.loss.value().template to_vector<float>(), want.loss.value().template to_vector<float>());
  const auto parameters = nn::named_parameters(want.model);
  std::size_t i = 0;
  for (auto& [name, parameter] : nn::named_parameters(got.model)) {
    EXPECT_EQ(parameter->value().template to_vector<float>(), parameters[i].second->value().template to_vector<float>())
        << name;
    EXPECT_EQ(parameter->grad().template to_vector<float>(), parameters[i].second->grad().template to_vector<float>())
        << name;
    ++i;
  }
  const auto buffers = nn::named_buffers(want.model);
  i = 0;
  for (auto& [name, buffer] : nn::named_buffers(got.model))
    EXPECT_EQ(buffer->value().template to_vector<double>(), buffers[i++].second->value().template to_vector<double>())
        << name;
}

/// Runs two trainings on the same data, one eager and one captured, and compares them.
template <class Model>
void expect_recorded_is_eager(Training<Model>& eager, Training<Model>& recorded,
                              const std::function<void(Training<Model>&, std::uint64_t)>& fill) {
  const auto twice = [&](std::uint64_t step) {
    for (Training<Model>* t : {&eager, &recorded}) fill(*t, step);
  };
  twice(1);
  eager.step();
  recorded.step();  // warms up, so that gradients have their storage
  twice(2);
  eager.step();
  const MemoryTrace trace = gpu().trace([&] { recorded.step(); });
  expect_same_state(recorded, eager);
  const std::unique_ptr<CapturedGraph> graph = gpu().capture([&] { recorded.step(); }, trace);
  ASSERT_NE(graph, nullptr);
  std::printf("%zu blocks, arena %.3f MiB, %.4f of the bound\n", trace.blocks.size(),
              static_cast<double>(graph->arena_bytes()) / (1 << 20),
              static_cast<double>(graph->arena_bytes()) / static_cast<double>(graph->arena_bound()));
  EXPECT_LE(static_cast<double>(graph->arena_bytes()), 1.05 * static_cast<double>(graph->arena_bound()));
  for (std::uint64_t step = 3; step < 6; ++step) {
    twice(step);
    const std::uint64_t waits = cuda::waits();
    graph->run();
    EXPECT_EQ(cuda::waits(), waits);
    eager.step();
    expect_same_state(recorded, eager);
  }
}

Tensor tokens(std::int64_t count, std::uint64_t step) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>((i * 7 + step * 13) % 29);
  return Tensor::from(values, {2, count / 2});
}

TEST(CapturedGraph, ATransformerStepEqualsTheEagerOne) {
  for (const bool composed : {false, true}) {
    const examples::GptOptions options{
        .layers = 2, .heads = 2, .dim = 16, .context = 8, .vocabulary = 29, .table = 32, .composed = composed};
    const auto make = [&] {
      return Training<examples::Gpt>{.model = examples::Gpt(options),
                                     .x = tokens(16, 0).to(test_device()),
                                     .target = tokens(16, 1).to(test_device()),
                                     .loss = {},
                                     .loss_of = [](examples::Gpt& m, const Tensor& x, const Tensor& t) {
                                       return cross_entropy(m(x), t);
                                     }};
    };
    auto eager = make(), recorded = make();
    nn::load_state_dict(recorded.model, nn::state_dict(eager.model));
    expect_recorded_is_eager<examples::Gpt>(eager, recorded, [](auto& t, std::uint64_t step) {
      t.x.copy_from(tokens(16, step).to(test_device()));
      t.target.copy_from(tokens(16, step + 1).to(test_device()));
    });
  }
}

TEST(CapturedGraph, AUNetStepEqualsTheEagerOne) {
  const auto make = [] {
    return Training<examples::UNet>{.model = examples::UNet({.base = 4, .depth = 2}),
                                    .x = on_device({2, 8, 8, 1}, 1),
                                    .target = Tensor::zeros({2, 8, 8, 1}, DType::f32, test_device()),
                                    .loss = {},
                                    .loss_of = [](examples::UNet& m, const Tensor& x, const Tensor& t) {
                                      return bce_with_logits(m(x), t);
                                    }};
  };
  auto eager = make(), recorded = make();
  nn::load_state_dict(recorded.model, nn::state_dict(eager.model));
  expect_recorded_is_eager<examples::UNet>(eager, recorded, [](auto& t, std::uint64_t step) {
    t.x.copy_from(on_device({2, 8, 8, 1}, step));
    t.target.copy_from(on_device({2, 8, 8, 1}, step + 100));
  });
}

/// Before a fix, backward copied a list of positions from the host, which a capture refuses.
TEST(CapturedGraph, ContainsTheBackwardOfAnExtremumAlongAnAxis) {
  Variable x(on_device({5, 70}, 1), true);
  const std::unique_ptr<CapturedGraph> graph = record([&] {
    x.zero_grad();
    backward(sum(max(x, 1).values + min(x, 1).values));
  });
  ASSERT_NE(graph, nullptr);
  x.state()->value.copy_from(on_device({5, 70}, 2));
  graph->run();
  const std::vector<float> got = x.grad().to_vector<float>();
  x.zero_grad();
  backward(sum(max(x, 1).values + min(x, 1).values));
  EXPECT_EQ(got, x.grad().to_vector<float>());
}

/// Before a fix, integer operands of tensors, ranges and identity matrices were copied from the host, which a capture
/// refuses.
TEST(CapturedGraph, ContainsConstantsOfWholeNumbers) {
  constexpr std::int64_t kLarge = 0x0123456789abcdef;  // a double does not hold it
  const Tensor wholes = arange(std::int64_t{0}, std::int64_t{12}, std::int64_t{1}, DType::i64, test_device());
  const Tensor matrix = on_device({4, 5}, 1), images = on_device({1, 4, 6, 2}, 2);
  const auto compute = [&] {
    const Variable i(wholes), x(matrix), v(images, true);
    const Variable slope = grad(sum(square(max_pool2d(v))), v, {.create_graph = true});
    return std::vector<Tensor>{(i * 7 - 3).value(),
                               (i + kLarge).value(),
                               (kLarge - i * -kLarge).value(),
                               clamp(i, 2, HUGE_VAL).value(),
                               clamp(i, -HUGE_VAL, 5.5).value(),
                               (i < kLarge).value(),
                               arange(std::int64_t{5}, std::int64_t{-9}, std::int64_t{-3}, DType::f32, test_device()),
                               eye(3, 5, DType::f32, test_device()),
                               eye(5, 3, DType::i32, test_device()),
                               slice_scatter(x, narrow(x, 1, 0, 2) * 2, 1, 1, 5, 2).value(),
                               diagonal_scatter(x, narrow(select(x, 1, 0), 0, 0, 4), 1).value(),
                               gradient(x, 0.5, 1).value(),
                               grad(sum(square(slope)), v).value()};
  };
  std::vector<Tensor> results = compute();
  const std::unique_ptr<CapturedGraph> graph = record([&] {
    const std::vector<Tensor> computed = compute();
    for (std::size_t k = 0; k < results.size(); ++k) results[k].copy_from(computed[k]);
  });
  ASSERT_NE(graph, nullptr);
  Tensor(wholes).copy_from((Variable(wholes) * 2).value());
  Tensor(matrix).copy_from(on_device({4, 5}, 3));
  Tensor(images).copy_from(on_device({1, 4, 6, 2}, 4));
  graph->run();
  const std::vector<Tensor> eager = compute();
  for (std::size_t k = 0; k < results.size(); ++k) {
    const Tensor a = results[k].on_host(), b = eager[k].on_host();
    ASSERT_EQ(a.dtype(), b.dtype()) << k;
    EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.bytes()), 0) << k;
  }
  // The same on the host, where the constants are exact.
  const Tensor large = (Variable(wholes.on_host()) + kLarge).value();
  EXPECT_EQ(std::memcmp(results[1].on_host().raw(), large.raw(), large.bytes()), 0);
  EXPECT_EQ(results[6].to_vector<float>(), (std::vector<float>{5, 2, -1, -4, -7}));
  EXPECT_EQ(results[7].to_vector<float>(), eye(3, 5).to_vector<float>());
}

// ---- other work between launches

/// Ops that need workspace and constants of each kind: a sum over rows in chunks, a product of operands that are not
/// evenly spaced, products summed in chunks.
struct Busy {
  Tensor a, b, sums, product;
  void run() {
    sums = sum(Variable(a), {0}).value();
    product = matmul(Variable(b), Variable(b)).value();
  }
};

TEST(CapturedGraph, IsNotAffectedByEagerAllocations) {
  Busy busy{.a = on_device({3000, 5}, 1), .b = on_device({3, 20, 20}, 2), .sums = {}, .product = {}};
  const std::unique_ptr<CapturedGraph> graph = record([&] { busy.run(); });
  for (std::uint64_t turn = 0; turn < 3; ++turn) {
    busy.a.copy_from(on_device({3000, 5}, 10 + turn));
    busy.b.copy_from(on_device({3, 20, 20}, 20 + turn));
    Busy other{
        .a = on_device({std::int64_t{50000} << turn, 7}, 3), .b = on_device({2, 50, 50}, 4), .sums = {}, .product = {}};
    other.run();
    gpu().trim();
    graph->run();
    const std::vector<float> sums = busy.sums.to_vector<float>(), product = busy.product.to_vector<float>();
    Busy again{.a = busy.a.clone(), .b = busy.b.clone(), .sums = {}, .product = {}};
    again.run();
    EXPECT_EQ(sums, again.sums.to_vector<float>());
    EXPECT_EQ(product, again.product.to_vector<float>());
  }
}

TEST(CapturedGraph, MemoryThatItWritesIsNotReused) {
  const std::size_t before = gpu().bytes_in_use();
  {
    const Tensor x = on_device({4096}, 1);
    Tensor y;
    std::unique_ptr<CapturedGraph> graph = record([&] { y = x.clone(); });
    const void* const at = y.raw();
    y = Tensor();  // the graph still writes there
    for (int i = 0; i < 4; ++i) EXPECT_NE(on_device({4096}, 2).raw(), at);
    graph->run();
    graph.reset();
  }
  EXPECT_EQ(gpu().bytes_in_use(), before);
}

TEST(CapturedGraph, KeepingATensorThatTheTraceReleasesIsRefused) {
  const std::size_t before = gpu().bytes_in_use();
  {
    Tensor x = on_device({64}, 1), late;
    const auto body = [&](bool keep) {
      Tensor y = x.clone();
      if (keep) late = y;
    };
    const MemoryTrace trace = gpu().trace([&] { body(false); });
    EXPECT_THROW(gpu().capture([&] { body(true); }, trace), DeviceError) << "the trace gives it back";
    EXPECT_TRUE(late.defined());
    expect_usable();
  }
  EXPECT_EQ(gpu().bytes_in_use(), before);
}

// ---- the shared arena

TEST(RecordingArenas, AreSharedAndLentBetweenLaunches) {
  gpu().trim();
  const std::size_t before = gpu().bytes_reserved();
  {
    const Tensor a = on_device({3000}, 1), b = on_device({1000}, 2);
    Tensor sum_a = a.clone(), sum_b = b.clone();
    const auto larger = record([&] { accumulate(sum_a, (Variable(a) * 2.0 * 3.0).value()); });
    gpu().trim();
    const std::size_t reserved = gpu().bytes_reserved();
    const auto smaller = record([&] { accumulate(sum_b, (Variable(b) * 5.0 * 7.0).value()); });
    gpu().trim();
    EXPECT_EQ(gpu().bytes_reserved(), reserved);
    sum_a.fill(0);
    sum_b.fill(0);
    std::vector<float> want_a(3000, 0.0f), want_b(1000, 0.0f);
    const std::vector<float> values_a = a.to_vector<float>(), values_b = b.to_vector<float>();
    for (int turn = 0; turn < 3; ++turn) {
      larger->run();
      smaller->run();
      for (std::size_t i = 0; i < want_a.size(); ++i) want_a[i] += values_a[i] * 2 * 3;
      for (std::size_t i = 0; i < want_b.size(); ++i) want_b[i] += values_b[i] * 5 * 7;
      const ArenaLoan lending(gpu());
      const Variable lent = Variable(b) * 11.0;
      EXPECT_GT(gpu().bytes_lent(), 0u);
      EXPECT_THROW(larger->run(), DeviceError);
      EXPECT_THROW(smaller->run(), DeviceError);
      const std::vector<float> eleven = lent.value().to_vector<float>();
      for (std::size_t i = 0; i < values_b.size(); ++i) ASSERT_EQ(eleven[i], values_b[i] * 11);
    }
    EXPECT_EQ(gpu().bytes_lent(), 0u);
    EXPECT_EQ(sum_a.to_vector<float>(), want_a);
    EXPECT_EQ(sum_b.to_vector<float>(), want_b);
  }
  gpu().trim();
  EXPECT_EQ(gpu().bytes_reserved(), before);
}

// ---- what cannot be captured --------------------------------------------------------------------

TEST(CapturedGraph, ErrorsNameCallsThatCannotBeCaptured) {
  const Tensor x = on_device({16}, 1);
  const std::vector<float> values(16, 1.0f);
  const Tensor here = Tensor::from(values, {16});
  Tensor there = x.clone();
  const std::pair<const char*, std::function<void()>> cases[] = {
      {"waiting for the device", [&] { gpu().synchronize(stream()); }},
      {"a copy to ordinary host memory", [&] { x.to_vector<float>(); }},
      {"a copy from ordinary host memory",
       [&] { gpu().copy(there.mutable_raw(), here.raw(), 64, CopyKind::kHostToDevice, stream()); }},
      {"a mark", [&] { gpu().mark(stream()); }},
      {"are allocated after the 0 blocks of the trace", [&] { Tensor::empty({16}, DType::f32, test_device()); }},
      {"another graph is being captured", [&] { gpu().capture([] {}, {}); }},
  };
  for (const auto& [what, body] : cases) {
    EXPECT_NE(error_of(body).find(what), std::string::npos) << error_of(body);
    expect_usable();
    if (std::string_view(what) == "another graph is being captured") continue;
    const auto swallowed = [&body = body] {
      try {
        body();
      } catch (const DeviceError&) {
      }
    };
    EXPECT_NE(error_of(swallowed).find(what), std::string::npos) << error_of(swallowed);
    expect_usable();
  }
  EXPECT_THROW(gpu().capture([] { throw DataError("no batch"); }, {}), DataError);
  expect_usable();
  EXPECT_NE(gpu().capture([] {}, {}), nullptr) << "the next one is recorded";
}

TEST(CapturedGraph, ABodyWithOtherAllocationsThanTheTraceIsRefused) {
  const MemoryTrace trace = gpu().trace([] { Tensor::empty({100}, DType::f32, test_device()); });
  try {
    gpu().capture([] { Tensor::empty({101}, DType::f32, test_device()); }, trace);
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("404 bytes are allocated, but block 0 of the trace has 400 bytes"),
              std::string::npos)
        << error.what();
  }
  // Two blocks are alive at the same time. In the trace, one was freed before the other was allocated.
  const MemoryTrace one_by_one = gpu().trace([] {
    for (int i = 0; i < 2; ++i) Tensor::empty({100}, DType::f32, test_device());
  });
  EXPECT_THROW(gpu().capture(
                   [] {
                     const Tensor a = Tensor::empty({100}, DType::f32, test_device());
                     const Tensor b = Tensor::empty({100}, DType::f32, test_device());
                   },
                   one_by_one),
               DeviceError);
  expect_usable();
}

TEST(CapturedGraph, OutOfMemoryForAnArenaIsAnError) {
  const std::size_t before = gpu().bytes_in_use();
  MemoryTrace trace;
  trace.blocks.push_back({.bytes = std::size_t{1} << 42, .allocated = 0, .released = 1});
  EXPECT_THROW(gpu().capture([] {}, trace), OutOfMemoryError);
  EXPECT_EQ(gpu().bytes_in_use(), before);
  expect_usable();
}

TEST(RecordingPlans, ALibraryChoosesNoPlanDuringACapture) {
  if (std::getenv("BINADE_SIMT_LIBRARY") == nullptr)
    GTEST_SKIP() << "no library is there; on the emulated device, BINADE_SIMT_LIBRARY=1 has one";
  const Variable a(on_device({37, 41}, 1)), b(on_device({41, 43}, 2));
  Variable y;
  MemoryTrace trace;
  trace.blocks.push_back({.bytes = 37 * 43 * sizeof(float)});
  try {
    gpu().capture([&] { y = matmul(a, b); }, trace);
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("a product of new sizes"), std::string::npos) << error.what();
  }
  y = Variable();
  expect_usable();
  EXPECT_NE(record([&] { y = matmul(a, b); }), nullptr);
}

TEST(RecordingDecompositions, AreRecordedByOwnKernelsAndRefusedInWordsOtherwise) {
  const Variable a(on_device({2, 6, 4}, 1));
  Variable r, s;
  const auto graph = record([&] { r = qr(a).r; });  // qr() cannot fail, so it does not wait for the device
  const std::vector<float> eager = qr(a).r.value().to_vector<float>();
  graph->run();
  EXPECT_EQ(r.value().to_vector<float>(), eager);
  // These ops throw if a matrix has no result. So they must wait for the device, which a capture forbids.
  const auto refused = [](const std::function<void()>& body) {
    body();
    const MemoryTrace trace = gpu().trace(body);
    try {
      gpu().capture(body, trace);
    } catch (const DeviceError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_NE(refused([&] { s = svdvals(a); }).find("a copy to ordinary host memory"), std::string::npos);
  expect_usable();
  if (std::getenv("BINADE_SIMT_LIBRARY") == nullptr) return;
  const Variable large(on_device({140, 3}, 2));
  const std::string text = refused([&] { r = qr(large).r; });
  EXPECT_NE(text.find("a decomposition by cuSOLVER"), std::string::npos) << text;
  expect_usable();
}

// ---- observed maxima and data errors

TEST(CapturedGraph, ObservesEachLaunchSeparately) {
  Tensor x = on_device({64}, 1);
  std::vector<std::int64_t> numbers;
  Variable y;
  const auto body = [&] {
    numbers.clear();
    for (const double factor : {2.0, 3.0}) {
      ObservationScope scope;
      y = Variable(x) * factor;
      numbers.push_back(scope.take().pending);
    }
  };
  const std::unique_ptr<CapturedGraph> graph = record(body);
  ASSERT_EQ(graph->observation_count(), 2);
  EXPECT_EQ(numbers, (std::vector<std::int64_t>{kCapturedObservations, kCapturedObservations + 1}));
  EXPECT_THROW(Observation{.pending = numbers[0]}.synchronized(), DeviceError);
  for (const float largest : {5.0f, 0.25f}) {
    x.copy_from(Tensor::full({64}, largest, DType::f32, test_device()));
    graph->run();
    std::uint32_t words[4];
    gpu().copy(words, graph->observations(), sizeof words, CopyKind::kDeviceToHost, stream());
    EXPECT_EQ(std::bit_cast<float>(words[1]), 2 * largest);
    EXPECT_EQ(std::bit_cast<float>(words[3]), 3 * largest);
  }
  ObservationScope scope;
  const Variable eager = Variable(x) * 8.0;
  EXPECT_EQ(std::bit_cast<float>(scope.take().synchronized().wide), 2.0f) << "the ring goes on";
}

TEST(CapturedGraph, BadDataInALaunchHasTheErrorTextOfItsCall) {
  const Variable logits(on_device({4, 5}, 1));
  Tensor targets = Tensor::zeros({4}, DType::i64, test_device());
  Variable loss;
  const std::unique_ptr<CapturedGraph> graph = record([&] { loss = cross_entropy(logits, targets); });
  for (int i = 0; i < 1100; ++i) const Variable eager = cross_entropy(logits, targets);
  gpu().synchronize(stream());
  targets.copy_from(Tensor::from(std::vector<std::int64_t>{0, 1, 77, 2}, {4}).to(test_device()));
  graph->run();
  try {
    gpu().wait_for(gpu().mark(stream()));
    FAIL();
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("77"), std::string::npos) << error.what();
  }
  expect_usable();
}

TEST(RecordingLost, AFaultInALaunchIsALostDevice) {
  const char* failing = std::getenv("BINADE_SIMT_FAIL");
  if (failing == nullptr || std::string_view(failing) != "graph")
    GTEST_SKIP() << "no device is told to fail; the emulated one is by BINADE_SIMT_FAIL=graph";
  Tensor x = on_device({16}, 1);
  const std::unique_ptr<CapturedGraph> graph = record([&] { accumulate(x, x); });
  const auto until_told = [&] {
    graph->run();
    gpu().wait_for(gpu().mark(stream()));
  };
  for (int i = 0; i < 2; ++i) {  // the device stays lost
    try {
      until_told();
      FAIL();
    } catch (const DeviceLostError& error) {
      EXPECT_EQ(error.exit_code(), 51);
    }
  }
  EXPECT_THROW(gpu().capture([&] { accumulate(x, x); }, {}), DeviceLostError);
}

// ---- asynchronous copies

TEST(PinnedMemory, IsCopiedWithoutAWaitAndReadByCapturedWork) {
  constexpr std::size_t kCount = 1000, kBytes = kCount * sizeof(float);
  auto* in = static_cast<float*>(gpu().allocate_pinned(kBytes));
  auto* out = static_cast<float*>(gpu().allocate_pinned(kBytes));
  Tensor x = Tensor::zeros({kCount}, DType::f32, test_device());
  const auto body = [&] {
    gpu().copy_later(x.mutable_raw(), in, kBytes, CopyKind::kHostToDevice, stream());
    accumulate(x, x);
    gpu().copy_later(out, x.raw(), kBytes, CopyKind::kDeviceToHost, stream());
  };
  for (std::size_t i = 0; i < kCount; ++i) in[i] = 1;
  const std::unique_ptr<CapturedGraph> graph = record(body);
  const std::uint64_t waits = cuda::waits();
  for (int turn = 2; turn < 5; ++turn) {
    for (std::size_t i = 0; i < kCount; ++i) in[i] = static_cast<float>(turn) + static_cast<float>(i);
    graph->run();
    const std::uint64_t mark = gpu().mark(stream());
    gpu().wait_for(mark);
    EXPECT_TRUE(gpu().reached(mark));
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(out[i], 2 * (static_cast<float>(turn) + static_cast<float>(i)));
  }
  EXPECT_EQ(cuda::waits(), waits);
  std::vector<float> ordinary(kCount);
  EXPECT_THROW(gpu().copy_later(ordinary.data(), x.raw(), kBytes, CopyKind::kDeviceToHost, stream()), ArgumentError);
  gpu().release_pinned(in);
  gpu().release_pinned(out);
}

TEST(PinnedMemory, MarksAreReachedInOrder) {
  const std::uint64_t first = gpu().mark(stream());
  std::uint64_t last = first;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t next = gpu().mark(stream());
    EXPECT_GT(next, last);
    last = next;
  }
  gpu().wait_for(last);
  EXPECT_TRUE(gpu().reached(first));
  EXPECT_TRUE(gpu().reached(last));
  EXPECT_THROW(gpu().reached(last + 5), DeviceError);
}

TEST(PinnedMemory, CopiesFromOrdinaryMemoryDoNotWait) {
  const std::uint64_t waits = cuda::waits();
  std::vector<Tensor> there;
  std::vector<float> values(3000);
  for (int i = 0; i < 20; ++i) {
    values.assign(values.size(), static_cast<float>(i));  // overwrites the source at once
    there.push_back(Tensor::from(values, {3000}).to(test_device()));
  }
  EXPECT_EQ(cuda::waits(), waits);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(there[static_cast<std::size_t>(i)].to_vector<float>(), std::vector<float>(3000, static_cast<float>(i)));
  // More than the page-locked memory holds.
  std::vector<std::int64_t> many((std::size_t{40} << 20) / sizeof(std::int64_t) + 3);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = static_cast<std::int64_t>(i * 2654435761u);
  EXPECT_EQ(Tensor::from(many, {static_cast<std::int64_t>(many.size())}).to(test_device()).to_vector<std::int64_t>(),
            many);
}

}  // namespace
}  // namespace binade
