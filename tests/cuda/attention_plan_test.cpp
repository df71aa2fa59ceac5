#include "binade/cuda/device/attention_plan.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <set>

#include "binade/cuda/device/attention_graph.h"
#include "binade/cuda/device/failure.h"
#include "tests/cuda/described_device.h"

// Requests to cuDNN for attention. Without a GPU, the graph and its descriptors are built and finalized, which shows
// that cuDNN knows the operations. With the toolkit's link-time libcuda.so, AttentionEngines also asks cuDNN's
// heuristics for engines, for the description of an H100. cuDNN proposes only engines that can compute the graph. Only
// compiling and running an engine needs a GPU.
namespace binade::cuda {
namespace {

constexpr std::size_t kVersion = 91900;
constexpr int kHopper = 9;

struct Sizes {
  const char* name;
  std::int64_t batch, queries, keys, heads, key_heads, depth;
  bool causal = false;
  bool meets_a_fault = false;  ///< true: a size at which cuDNN's backward pass can give NaN
};
const Sizes kSizes[] = {
    {"gpt", 8, 1024, 1024, 12, 12, 64, true},         {"open", 2, 256, 256, 4, 4, 128},
    {"grouped", 2, 200, 200, 8, 2, 72, true},         {"shared_by_all", 2, 64, 64, 6, 1, 64, false, true},
    {"cached", 2, 100, 200, 4, 4, 64, true},          {"odd_lengths", 3, 77, 131, 3, 3, 40, false, true},
    {"few_queries", 2, 1, 100, 4, 4, 64, true, true}, {"more_queries", 2, 300, 100, 4, 4, 32},
    {"small", 1, 5, 7, 1, 1, 8, false, true},
};

/// Returns the key of an attention whose queries, keys and values are slices of one tensor.
AttentionKey key_of(const Sizes& s, AttentionPass pass, DType dtype = DType::bf16) {
  const std::int64_t row = (s.heads + 2 * s.key_heads) * s.depth;
  AttentionKey key{.pass = pass,
                   .dtype = dtype,
                   .batch = s.batch,
                   .queries = s.queries,
                   .keys = s.keys,
                   .heads = s.heads,
                   .key_heads = s.key_heads,
                   .depth = s.depth,
                   .causal = s.causal,
                   .q = {row, s.depth},
                   .k = {row, s.depth},
                   .v = {row, s.depth},
                   .y = {s.heads * s.depth, s.depth}};
  if (pass == AttentionPass::kBackward) {
    key.gy = key.y;
    key.gq = key.gk = key.gv = key.q;
  }
  return key;
}

constexpr AttentionPass kPasses[] = {AttentionPass::kForward, AttentionPass::kBackward};
const Sizes kGpt = kSizes[0];

using Change = std::function<void(AttentionKey&)>;

TEST(AttentionKey, ContainsEverythingThatTheChoiceDependsOn) {
  alignas(16) char memory[64];
  AttentionForward call;
  AttentionArgs& a = call.args;
  a.batch = 2;
  a.queries = 3;
  a.keys = 5;
  a.heads = 4;
  a.key_heads = 2;
  a.depth = 8;
  a.causal = true;
  a.dtype = DType::f16;
  a.q = {memory, 96, 8};
  a.k = {memory + 16, 96, 16};
  a.v = {memory + 32, 104, 8};
  call.y = memory;
  call.y_token = 32;
  call.y_head = 8;
  const AttentionKey key = attention_key(call);
  EXPECT_EQ(
      key.text(),
      "attention forward f16 batch 2 queries 3 keys 5 heads 4 2 depth 8 causal 1 q 96 8 k 96 16 v 104 8 y 32 8 gy "
      "0 0 gq 0 0 gk 0 0 gv 0 0 mask 0 dropout 0 aligned 1");
  call.lse = memory + 4;
  EXPECT_FALSE(attention_key(call).aligned);
  const float mask = 0;
  a.mask = &mask;
  a.dropout = 0.5f;
  EXPECT_TRUE(attention_key(call).mask && attention_key(call).dropout);

  AttentionBackward back{.args = a, .y = {memory, 32, 8}, .gy = {memory + 16, 40, 8}, .lse = memory};
  EXPECT_EQ(attention_key(back).gy, (AttentionKey::Steps{40, 8}));
  EXPECT_EQ(attention_key(back).pass, AttentionPass::kBackward);
  EXPECT_TRUE(attention_key(back).aligned) << "gradients that nobody wants lie nowhere";
  EXPECT_EQ(attention_key(back).gk, (AttentionKey::Steps{16, 8})) << "written where nothing else is";
  back.gq = {memory, 96, 8};
  EXPECT_EQ(attention_key(back).gq, (AttentionKey::Steps{96, 8}));
  back.gk = {memory + 8, 16, 8};
  EXPECT_FALSE(attention_key(back).aligned);
}

TEST(AttentionKey, DifferentCallsHaveDifferentKeys) {
  const Change changes[] = {
      [](AttentionKey& k) { k.pass = AttentionPass::kBackward; },
      [](AttentionKey& k) { k.dtype = DType::f16; },
      [](AttentionKey& k) { k.batch = 9; },
      [](AttentionKey& k) { k.queries = 9; },
      [](AttentionKey& k) { k.keys = 9; },
      [](AttentionKey& k) { k.heads = 24; },
      [](AttentionKey& k) { k.key_heads = 6; },
      [](AttentionKey& k) { k.depth = 72; },
      [](AttentionKey& k) { k.causal = false; },
      [](AttentionKey& k) { k.q.token = 8; },
      [](AttentionKey& k) { k.q.head = 8; },
      [](AttentionKey& k) { k.k.token = 8; },
      [](AttentionKey& k) { k.k.head = 8; },
      [](AttentionKey& k) { k.v.token = 8; },
      [](AttentionKey& k) { k.v.head = 8; },
      [](AttentionKey& k) { k.y.token = 8; },
      [](AttentionKey& k) { k.y.head = 8; },
      [](AttentionKey& k) { k.gy.token = 8; },
      [](AttentionKey& k) { k.gy.head = 8; },
      [](AttentionKey& k) { k.gq.token = 8; },
      [](AttentionKey& k) { k.gq.head = 8; },
      [](AttentionKey& k) { k.gk.token = 8; },
      [](AttentionKey& k) { k.gk.head = 8; },
      [](AttentionKey& k) { k.gv.token = 8; },
      [](AttentionKey& k) { k.gv.head = 8; },
      [](AttentionKey& k) { k.mask = true; },
      [](AttentionKey& k) { k.dropout = true; },
      [](AttentionKey& k) { k.aligned = false; },
  };
  const AttentionKey first = key_of(kGpt, AttentionPass::kForward);
  std::set<std::string> texts{first.text()};
  for (const Change& change : changes) {
    AttentionKey key = first;
    change(key);
    EXPECT_FALSE(key == first) << key.text();
    EXPECT_TRUE(texts.insert(key.text()).second) << key.text();
  }
  EXPECT_EQ(std::size(changes), static_cast<std::size_t>(AttentionKey::kNumbers));
}

TEST(AttentionKey, SomeCallsAreNotRequestedFromALibrary) {
  for (const AttentionPass pass : kPasses) {
    for (const Sizes& s : kSizes)
      EXPECT_EQ(no_library_for(key_of(s, pass), kVersion, kHopper).empty(),
                pass == AttentionPass::kForward || !s.meets_a_fault)
          << s.name;
    EXPECT_EQ(no_library_for(key_of(kGpt, pass, DType::f16), kVersion, kHopper), "");
    const Change changes[] = {
        [](AttentionKey& k) { k.dtype = DType::f32; }, [](AttentionKey& k) { k.dtype = DType::f64; },
        [](AttentionKey& k) { k.mask = true; },        [](AttentionKey& k) { k.dropout = true; },
        [](AttentionKey& k) { k.depth = 60; },         [](AttentionKey& k) { k.depth = 136; },
        [](AttentionKey& k) { k.keys = 0; },           [](AttentionKey& k) { k.queries = 0; },
        [](AttentionKey& k) { k.keys = 1023; },        [](AttentionKey& k) { k.aligned = false; },
        [](AttentionKey& k) { k.q.token += 4; },       [](AttentionKey& k) { k.v.head += 1; },
    };
    for (const Change& change : changes) {
      AttentionKey key = key_of(kGpt, pass);
      change(key);
      EXPECT_NE(no_library_for(key, kVersion, kHopper), "") << key.text();
    }
  }
}

TEST(AttentionKey, OnlySupportedVersionsAreUsed) {
  const AttentionKey key = key_of(kGpt, AttentionPass::kForward);
  for (const std::size_t version : {90100u, 91400u, 91500u, 92100u, 92600u, 100000u})
    EXPECT_NE(no_library_for(key, version, kHopper), "") << version;
  for (const std::size_t version : {91501u, 91600u, 91900u, 92000u, 92099u})
    EXPECT_EQ(no_library_for(key, version, kHopper), "") << version;
  for (const int architecture : {7, 8, 10, 12}) EXPECT_NE(no_library_for(key, kVersion, architecture), "");
}

TEST(AttentionKey, ABatchIsSplitIfItsLogitsExceedTheLimit) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  AttentionKey key = key_of(kGpt, AttentionPass::kForward);
  key.batch = 64;
  EXPECT_EQ(at_once(key, kMost), key) << "a forward pass keeps none";
  key.pass = AttentionPass::kBackward;
  EXPECT_EQ(at_once(key, kMost).batch, 32) << "a sample takes 24 MiB";
  key.batch = 42;
  EXPECT_EQ(at_once(key, kMost).batch, 42);
  key.batch = 43;
  EXPECT_EQ(at_once(key, kMost).batch, 1);
  key.key_heads = 4;
  key.batch = 64;
  EXPECT_EQ(at_once(key, kMost).batch, 32);
  key.queries = key.keys = 65536;
  EXPECT_EQ(at_once(key, kMost).batch, 1) << "the plan will say that it does not fit";
  key.heads = key.key_heads = 1;
  key.queries = 16001;
  key.keys = 16000;
  EXPECT_EQ(at_once(key, kMost).batch, 64) << "parts of which the second would not lie on 16 bytes";
  key.queries = 0;
  EXPECT_EQ(at_once(key, kMost), key);
}

TEST(AttentionPlanText, RoundTrips) {
  const std::string key = key_of(kGpt, AttentionPass::kBackward).text();
  const EngineChoice choices[] = {
      {},
      {.library = true, .form = kComposed, .engine = 6, .knobs = {{24, 26}}},
      {.library = true, .form = kComposed, .engine = 0, .knobs = {}},
  };
  for (const EngineChoice& choice : choices) {
    const std::string line = engine_line(key, choice);
    const auto plan = parse_engine_line(line, kAttentionFamily, kAttentionForms);
    ASSERT_TRUE(plan) << line;
    EXPECT_EQ(plan->key, key);
    EXPECT_EQ(plan->choice, choice) << line;
    EXPECT_FALSE(parse_engine_line(line, "conv", 2)) << "a line of another family";
  }
  for (const char* bad :
       {"", "attention", "attention forward", "attention forward = ", "attentions a = own", "attentionforward = own",
        "conv forward = own", "attention a = form 1 engine 1 knobs", "attention a = form -1 engine 1 knobs",
        "attention a = form 0 engine x knobs", "attention a = form 0 engine 1", "attention a = form 0 engine 1 knobs 3",
        "attention a = form 0 engine 1 knobs 3:x", "attention a = form 0 engine 1 knobs :",
        "attention a = form 0 engine 99999999999999999999 knobs", "attention a = OWN", "attention a=own"})
    EXPECT_FALSE(parse_engine_line(bad, kAttentionFamily, kAttentionForms)) << bad;
}

std::vector<std::int64_t> four(const Descriptor& d, cudnnBackendAttributeName_t name) { return d.integers(name, 4); }

/// Returns the tensor of a graph with this id, or null.
const Descriptor* find(const OperationGraph& g, std::int64_t id) {
  for (const Descriptor& part : g.parts) {
    std::int64_t has = 0, count = 0;
    if (cudnnBackendGetAttribute(part.raw(), CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &count, &has) ==
            CUDNN_STATUS_SUCCESS &&
        has == id)
      return &part;
  }
  return nullptr;
}

TEST(AttentionGraph, SlicesBecomeStrides) {
  using V = std::vector<std::int64_t>;
  AttentionKey key = key_of({"", 2, 9, 11, 4, 2, 16, true}, AttentionPass::kBackward);
  key.gy = {80, 20};
  key.gv = {96, 24};
  const OperationGraph g = attention_graph(key);
  const auto at = [&](std::int64_t id) -> const Descriptor& { return *find(g, id); };
  EXPECT_EQ(four(at(kAttentionQ), CUDNN_ATTR_TENSOR_DIMENSIONS), (V{2, 4, 9, 16}));
  EXPECT_EQ(four(at(kAttentionQ), CUDNN_ATTR_TENSOR_STRIDES), (V{9 * 128, 16, 128, 1}));
  EXPECT_EQ(four(at(kAttentionK), CUDNN_ATTR_TENSOR_DIMENSIONS), (V{2, 2, 16, 11}));
  EXPECT_EQ(four(at(kAttentionK), CUDNN_ATTR_TENSOR_STRIDES), (V{11 * 128, 16, 1, 128}));
  EXPECT_EQ(four(at(kAttentionV), CUDNN_ATTR_TENSOR_STRIDES), (V{11 * 128, 16, 1, 128}));
  EXPECT_EQ(four(at(kAttentionGy), CUDNN_ATTR_TENSOR_STRIDES), (V{9 * 80, 20, 80, 1}));
  EXPECT_EQ(four(at(kAttentionGq), CUDNN_ATTR_TENSOR_STRIDES), (V{9 * 128, 16, 128, 1}));
  EXPECT_EQ(four(at(kAttentionGk), CUDNN_ATTR_TENSOR_STRIDES), (V{11 * 128, 16, 128, 1}));
  EXPECT_EQ(four(at(kAttentionGv), CUDNN_ATTR_TENSOR_STRIDES), (V{11 * 96, 24, 96, 1}));
  EXPECT_EQ(four(at(kAttentionLse), CUDNN_ATTR_TENSOR_STRIDES), (V{4 * 9, 9, 1, 1}));
  const OperationGraph forward = attention_graph(key_of(kGpt, AttentionPass::kForward));
  EXPECT_EQ(four(*find(forward, kAttentionV), CUDNN_ATTR_TENSOR_DIMENSIONS), (V{8, 12, 1024, 64}));
}

TEST(AttentionGraph, IsKnownToCudnn) {
  for (const Sizes& s : kSizes)
    for (const AttentionPass pass : kPasses)
      for (const DType dtype : {DType::f16, DType::bf16}) {
        const AttentionKey key = key_of(s, pass, dtype);
        const OperationGraph g = attention_graph(key);
        EXPECT_GT(g.graph.integer(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT), 0) << key.text();
        for (std::int64_t id = kAttentionQ; id < kAttentionInner; ++id)
          EXPECT_EQ(find(g, id) != nullptr, has_tensor(key, static_cast<AttentionTensor>(id)))
              << "tensor " << id << " of " << key.text();
      }
}

TEST(AttentionGraph, AnInvalidKeyThrows) {
  AttentionKey key = key_of(kGpt, AttentionPass::kForward);
  key.batch = -1;
  EXPECT_THROW(attention_graph(key), Failure);
}

/// Engines query the driver. BINADE_EMPTY_DRIVER is the path of the toolkit's link-time libcuda.so, which has the
/// symbols but does nothing; with it cuDNN proposes engines on a machine without a GPU.
class AttentionEngines : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (const char* path = std::getenv("BINADE_EMPTY_DRIVER")) driver_ = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  }
  void SetUp() override {
    if (driver_ == nullptr) GTEST_SKIP() << "BINADE_EMPTY_DRIVER names no driver";
    if (cudnnGetVersion() < 91501 || cudnnGetVersion() >= 92100) GTEST_SKIP() << "a cuDNN that is not asked";
    ASSERT_NE(described_device(), nullptr) << "this cuDNN takes no description of a device";
  }
  static std::vector<EngineChoice> proposed(const AttentionKey& key) {
    return propose_attention_engines(key, {.device = described_device()});
  }
  static inline void* driver_ = nullptr;
};

TEST_F(AttentionEngines, AreProposedForEveryCall) {
  for (const Sizes& s : kSizes)
    for (const AttentionPass pass : kPasses)
      for (const DType dtype : {DType::f16, DType::bf16}) {
        const AttentionKey key = key_of(s, pass, dtype);
        const std::vector<EngineChoice> engines = proposed(key);
        EXPECT_FALSE(engines.empty()) << key.text();
        for (const EngineChoice& choice : engines) {
          const auto line = parse_engine_line(engine_line(key.text(), choice), kAttentionFamily, kAttentionForms);
          ASSERT_TRUE(line);
          EXPECT_EQ(line->choice, choice);
        }
        EXPECT_EQ(proposed(key), engines) << "the same twice";
      }
}

TEST_F(AttentionEngines, AreNotProposedForUnsupportedCalls) {
  AttentionKey key = key_of(kGpt, AttentionPass::kForward);
  key.depth = 60;
  EXPECT_TRUE(proposed(key).empty());
  key = key_of(kGpt, AttentionPass::kForward);
  key.dtype = DType::f32;
  EXPECT_TRUE(proposed(key).empty());
}

TEST_F(AttentionEngines, AStoredChoiceIsValidated) {
  const AttentionKey key = key_of(kGpt, AttentionPass::kForward);
  const EngineTarget target{.device = described_device()};
  EngineChoice wrong = proposed(key).at(0);
  wrong.engine = 100000;
  EXPECT_FALSE(restore_attention_plan(key, wrong, target));
  wrong = proposed(key).at(0);
  wrong.knobs = {{100000, 1}};
  EXPECT_FALSE(restore_attention_plan(key, wrong, target));
  wrong = proposed(key).at(0);
  wrong.form = 1;
  EXPECT_FALSE(restore_attention_plan(key, wrong, target));
}

}  // namespace
}  // namespace binade::cuda
