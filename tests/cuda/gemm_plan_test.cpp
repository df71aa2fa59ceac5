#include "binade/cuda/device/gemm_plan.h"

#include <gtest/gtest.h>

#include <vector>

#include "binade/cuda/device/failure.h"

// Requests to cuBLASLt. Making descriptors and reading them back needs no GPU.
namespace binade::cuda {
namespace {

alignas(16) const float place[64] = {};

/// Returns the forward product of a linear layer: y (m, n) = x (m, k) times w (n, k) transposed.
GemmArgs linear(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype) {
  GemmArgs g{.m = m, .n = n, .k = k, .in = dtype, .out = dtype};
  g.a = g.b = place;
  g.c = const_cast<float*>(place);
  g.a_row = k;
  g.b_row = 1;
  g.b_col = k;
  g.c_row = n;
  return g;
}

template <class T>
T attribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t which) {
  T value{};
  EXPECT_EQ(cublasLtMatrixLayoutGetAttribute(layout, which, &value, sizeof value, nullptr), CUBLAS_STATUS_SUCCESS);
  return value;
}
template <class T>
T attribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t which) {
  T value{};
  EXPECT_EQ(cublasLtMatmulDescGetAttribute(operation, which, &value, sizeof value, nullptr), CUBLAS_STATUS_SUCCESS);
  return value;
}
template <class T>
T attribute(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t which) {
  T value{};
  EXPECT_EQ(cublasLtMatmulPreferenceGetAttribute(preference, which, &value, sizeof value, nullptr),
            CUBLAS_STATUS_SUCCESS);
  return value;
}

struct Layout {
  cudaDataType_t type;
  std::uint64_t rows, columns;
  std::int64_t leading;
  std::int32_t batch;
  std::int64_t offset;
  bool operator==(const Layout&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Layout& x) {
  return out << "type " << x.type << ", " << x.rows << " x " << x.columns << ", leading " << x.leading << ", "
             << x.batch << " at " << x.offset;
}
Layout read(const LayoutOwner& owner) {
  cublasLtMatrixLayout_t x = owner.get();
  return {static_cast<cudaDataType_t>(attribute<std::uint32_t>(x, CUBLASLT_MATRIX_LAYOUT_TYPE)),
          attribute<std::uint64_t>(x, CUBLASLT_MATRIX_LAYOUT_ROWS),
          attribute<std::uint64_t>(x, CUBLASLT_MATRIX_LAYOUT_COLS),
          attribute<std::int64_t>(x, CUBLASLT_MATRIX_LAYOUT_LD),
          attribute<std::int32_t>(x, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT),
          attribute<std::int64_t>(x, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)};
}
std::int32_t form(const PlanDescriptors& plan, cublasLtMatmulDescAttributes_t which) {
  return attribute<std::int32_t>(plan.operation.get(), which);
}

TEST(GemmPlan, ALinearLayerIsATransposedProductInColumnMajorOrder) {
  const std::optional<PlanKey> key = plan_key(linear(96, 40, 24, DType::bf16));
  ASSERT_TRUE(key);
  const PlanDescriptors plan = plan_descriptors(*key);
  // By columns: y' (40, 96) = w (40, 24) x' (24, 96), with w stored as (24, 40).
  EXPECT_EQ(form(plan, CUBLASLT_MATMUL_DESC_TRANSA), CUBLAS_OP_T);
  EXPECT_EQ(form(plan, CUBLASLT_MATMUL_DESC_TRANSB), CUBLAS_OP_N);
  EXPECT_EQ(read(plan.first), (Layout{CUDA_R_16BF, 24, 40, 24, 1, 0}));
  EXPECT_EQ(read(plan.second), (Layout{CUDA_R_16BF, 24, 96, 24, 1, 0}));
  EXPECT_EQ(read(plan.result), (Layout{CUDA_R_16BF, 40, 96, 40, 1, 0}));
  EXPECT_EQ(attribute<std::int32_t>(plan.operation.get(), CUBLASLT_MATMUL_DESC_COMPUTE_TYPE), CUBLAS_COMPUTE_32F);
  EXPECT_EQ(attribute<std::int32_t>(plan.operation.get(), CUBLASLT_MATMUL_DESC_SCALE_TYPE), CUDA_R_32F);
}

TEST(GemmPlan, AWeightGradientSumsOverRows) {
  // gw (n, k) = gy (m, n) transposed times x (m, k).
  GemmArgs g{.m = 40, .n = 24, .k = 96, .in = DType::f16, .out = DType::f32};
  g.a = g.b = place;
  g.c = const_cast<float*>(place);
  g.a_row = 1;
  g.a_col = 48;  // gy is a slice of 48 channels
  g.b_row = 24;
  g.c_row = 24;
  g.accumulate = true;
  const std::optional<PlanKey> key = plan_key(g);
  ASSERT_TRUE(key);
  GemmArgs stored = g;
  stored.accumulate = false;
  EXPECT_TRUE(*key == *plan_key(stored)) << "one algorithm, so that sums in place have the bits of sums beside it";
  const PlanDescriptors plan = plan_descriptors(*key);
  EXPECT_EQ(form(plan, CUBLASLT_MATMUL_DESC_TRANSA), CUBLAS_OP_N);
  EXPECT_EQ(form(plan, CUBLASLT_MATMUL_DESC_TRANSB), CUBLAS_OP_T);
  EXPECT_EQ(read(plan.first), (Layout{CUDA_R_16F, 24, 96, 24, 1, 0}));
  EXPECT_EQ(read(plan.second), (Layout{CUDA_R_16F, 40, 96, 48, 1, 0}));
  EXPECT_EQ(read(plan.result), (Layout{CUDA_R_32F, 24, 40, 24, 1, 0}));
}

TEST(GemmPlan, EvenlySpacedBatchesHaveStridesAndOthersNoPlan) {
  GemmArgs g = linear(8, 16, 32, DType::f32);
  g.batch = 3;
  const std::vector<std::int64_t> even{0, 256, 512}, results{0, 128, 256}, odd{0, 256, 256};
  g.a_offsets = even.data();
  g.c_offsets = results.data();
  const std::optional<PlanKey> key = plan_key(g);
  ASSERT_TRUE(key);
  const PlanDescriptors plan = plan_descriptors(*key);
  EXPECT_EQ(read(plan.first), (Layout{CUDA_R_32F, 32, 16, 32, 3, 0}));  // all products share w
  EXPECT_EQ(read(plan.second), (Layout{CUDA_R_32F, 32, 8, 32, 3, 256}));
  EXPECT_EQ(read(plan.result), (Layout{CUDA_R_32F, 16, 8, 16, 3, 128}));
  g.a_offsets = odd.data();
  EXPECT_FALSE(plan_key(g));
  g.a_offsets = even.data();
  g.c_offsets = nullptr;
  EXPECT_FALSE(plan_key(g)) << "three products in one place";
}

TEST(GemmPlan, UnsupportedProductsHaveNoPlan) {
  EXPECT_FALSE(plan_key(linear(8, 8, 8, DType::f64)));
  EXPECT_FALSE(plan_key(linear(8, 8, 0, DType::f32))) << "an empty sum";
  GemmArgs g = linear(8, 8, 8, DType::bf16);
  for (const Activation other : {Activation::kRelu, Activation::kGelu}) {
    g.activation = other;
    EXPECT_FALSE(plan_key(g)) << "its ReLU is another one, and it has no exact GELU";
  }
  g = linear(8, 8, 8, DType::bf16);
  g.bias = place;
  EXPECT_FALSE(plan_key(g)) << "a bias of f32 on a half";
  g = linear(8, 8, 8, DType::f32);
  g.a_row = 0;
  EXPECT_FALSE(plan_key(g)) << "one row, seen eight times";
  g = linear(8, 8, 8, DType::f32);
  g.a_row = 16;
  g.a_col = 2;
  EXPECT_FALSE(plan_key(g)) << "every other element";
}

std::uint32_t epilogue_of(const GemmArgs& g) {
  return attribute<std::uint32_t>(plan_descriptors(*plan_key(g)).operation.get(), CUBLASLT_MATMUL_DESC_EPILOGUE);
}
/// Expects the pointer that tells the heuristics an alignment of exactly 16 bytes.
void expect_on_16_bytes(const PlanDescriptors& plan, cublasLtMatmulDescAttributes_t which) {
  const auto address = reinterpret_cast<std::uintptr_t>(attribute<const void*>(plan.operation.get(), which));
  EXPECT_EQ(address % 32, 16u);
}

TEST(GemmPlan, ABiasHasTheDtypeOfTheResult) {
  GemmArgs g = linear(8, 8, 8, DType::bf16);
  EXPECT_EQ(epilogue_of(g), std::uint32_t{CUBLASLT_EPILOGUE_DEFAULT});
  EXPECT_EQ(attribute<const void*>(plan_descriptors(*plan_key(g)).operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER),
            nullptr);
  g.bias = place;
  g.low_bias = true;
  ASSERT_TRUE(plan_key(g));
  EXPECT_EQ(epilogue_of(g), std::uint32_t{CUBLASLT_EPILOGUE_BIAS});
  expect_on_16_bytes(plan_descriptors(*plan_key(g)), CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  g.bias = reinterpret_cast<const char*>(place) + 8;
  EXPECT_FALSE(plan_key(g)) << "heuristics were told that it begins on 16 bytes";
  g = linear(8, 8, 8, DType::bf16);
  g.out = DType::f32;
  g.bias = place;
  ASSERT_TRUE(plan_key(g));
  EXPECT_EQ(epilogue_of(g), std::uint32_t{CUBLASLT_EPILOGUE_BIAS});
  g.accumulate = true;
  EXPECT_FALSE(plan_key(g));
}

TEST(GemmPlan, AGeluStoresItsInputToo) {
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const bool bias : {false, true}) {
      GemmArgs g = linear(96, 40, 24, dtype);
      const PlanKey plain = *plan_key(g);
      g.activation = Activation::kGeluTanh;
      EXPECT_FALSE(plan_key(g)) << "one form for both passes";
      g.pre_activation = const_cast<float*>(place);
      g.bias = bias ? place : nullptr;
      g.low_bias = bias;
      const std::optional<PlanKey> key = plan_key(g);
      ASSERT_TRUE(key);
      EXPECT_FALSE(*key == plain);
      EXPECT_EQ(epilogue_of(g),
                static_cast<std::uint32_t>(bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX));
      const PlanDescriptors plan = plan_descriptors(*key);
      expect_on_16_bytes(plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
      EXPECT_EQ(attribute<std::int64_t>(plan.operation.get(), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD), 40);
      // "Not set" means the dtype of the result.
      EXPECT_EQ(attribute<std::int32_t>(plan.operation.get(), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE), -1);

      GemmArgs other = g;
      other.c_row = 44;
      EXPECT_FALSE(plan_key(other)) << "rows of what is kept begin on 8 elements";
      other.c_row = 48;
      EXPECT_EQ(attribute<std::int64_t>(plan_descriptors(*plan_key(other)).operation.get(),
                                        CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD),
                48);
      other = g;
      other.pre_activation = reinterpret_cast<char*>(const_cast<float*>(place)) + 8;
      EXPECT_FALSE(plan_key(other));
      other = g;
      other.out = DType::f32;
      other.low_bias = false;
      EXPECT_FALSE(plan_key(other)) << "of f32 it is ours";
    }
}

TEST(GemmPlan, ADerivativeReadsThePreActivation) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    GemmArgs g = linear(96, 40, 24, dtype);
    const PlanKey plain = *plan_key(g);
    g.derivative_of = Activation::kGeluTanh;
    g.derivative_at = place;
    const std::optional<PlanKey> key = plan_key(g);
    ASSERT_TRUE(key);
    EXPECT_FALSE(*key == plain);
    EXPECT_EQ(epilogue_of(g), std::uint32_t{CUBLASLT_EPILOGUE_DGELU});
    const PlanDescriptors plan = plan_descriptors(*key);
    expect_on_16_bytes(plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
    EXPECT_EQ(attribute<std::int64_t>(plan.operation.get(), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD), 40);
    EXPECT_EQ(attribute<std::int32_t>(plan.operation.get(), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE), -1);
    EXPECT_EQ(attribute<const void*>(plan.operation.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER), nullptr)
        << "sums of columns are ours";

    for (const Activation other : {Activation::kRelu, Activation::kGelu}) {
      GemmArgs of = g;
      of.derivative_of = other;
      EXPECT_FALSE(plan_key(of)) << "its ReLU reads bits, and it has no exact GELU";
    }
    GemmArgs other = g;
    other.c_row = 44;
    EXPECT_FALSE(plan_key(other)) << "rows of what is read begin on 8 elements";
    other = g;
    other.derivative_at = reinterpret_cast<const char*>(place) + 8;
    EXPECT_FALSE(plan_key(other));
    other = g;
    other.out = DType::f32;
    EXPECT_FALSE(plan_key(other)) << "of f32 it is ours";
    other = g;
    other.bias = place;
    other.low_bias = true;
    EXPECT_FALSE(plan_key(other)) << "a gradient has no bias";
    other = g;
    other.activation = Activation::kGeluTanh;
    other.pre_activation = const_cast<float*>(place);
    EXPECT_FALSE(plan_key(other)) << "one or the other";
  }
}

TEST(GemmPlan, SingleRowsAndColumnsAreDenseInBothOrders) {
  for (const auto& [m, n, k] : std::vector<std::tuple<int, int, int>>{{1, 5, 7}, {5, 1, 7}, {5, 7, 1}, {1, 1, 1}}) {
    const std::optional<PlanKey> key = plan_key(linear(m, n, k, DType::f32));
    ASSERT_TRUE(key) << m << " " << n << " " << k;
    EXPECT_NO_THROW(plan_descriptors(*key));
  }
}

TEST(GemmPlan, AlignmentIsTheLeastOfAllColumns) {
  GemmArgs g = linear(8, 16, 24, DType::bf16);
  EXPECT_EQ(plan_key(g)->a.alignment, 16);
  g.a_row = 26;  // 52 bytes
  EXPECT_EQ(plan_key(g)->a.alignment, 4);
  g.b = reinterpret_cast<const char*>(place) + 2;
  EXPECT_EQ(plan_key(g)->b.alignment, 2);
  const PreferenceOwner preference = plan_preference(*plan_key(g), 1 << 20);
  EXPECT_EQ(attribute<std::uint32_t>(preference.get(), CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES), 2u);
  EXPECT_EQ(attribute<std::uint32_t>(preference.get(), CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES), 4u);
  EXPECT_EQ(attribute<std::uint32_t>(preference.get(), CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES), 16u);
  EXPECT_EQ(attribute<std::uint64_t>(preference.get(), CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES), 1u << 20);
  EXPECT_EQ(attribute<std::uint32_t>(preference.get(), CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK),
            std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
}

TEST(GemmPlan, ASplitSumIsNotUsedWithAnEpilogueIn16Bits) {
  const auto scheme = [](const GemmArgs& g) {
    const PreferenceOwner preference = plan_preference(*plan_key(g), 1 << 20);
    return attribute<std::uint32_t>(preference.get(), CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
  };
  GemmArgs g = linear(24, 5, 3, DType::bf16);
  EXPECT_EQ(scheme(g), std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  g.bias = place;
  g.low_bias = true;
  EXPECT_EQ(scheme(g), std::uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE});
  g.low_bias = false;
  g.out = DType::f32;
  EXPECT_EQ(scheme(g), std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}) << "f32 is not rounded in between";
}

TEST(GemmPlan, Tf32AppliesToF32IfAllowed) {
  const auto compute_type = [](const PlanKey& key) {
    return attribute<std::int32_t>(plan_descriptors(key).operation.get(), CUBLASLT_MATMUL_DESC_COMPUTE_TYPE);
  };
  const PlanKey strict = *plan_key(linear(8, 16, 24, DType::f32));
  EXPECT_EQ(compute_type(strict), CUBLAS_COMPUTE_32F);
  GemmArgs g = linear(8, 16, 24, DType::f32);
  g.tf32 = true;
  const PlanKey rounded = *plan_key(g);
  EXPECT_EQ(compute_type(rounded), CUBLAS_COMPUTE_32F_FAST_TF32);
  EXPECT_EQ(attribute<std::int32_t>(plan_descriptors(rounded).operation.get(), CUBLASLT_MATMUL_DESC_SCALE_TYPE),
            CUDA_R_32F);
  EXPECT_FALSE(rounded == strict) << "an algorithm of its own";
  EXPECT_NE(plan_line(rounded, {}), plan_line(strict, {}));
  EXPECT_EQ(parse_plan_line(plan_line(rounded, {}))->key, rounded);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    g = linear(8, 16, 24, dtype);
    const PlanKey half = *plan_key(g);
    g.tf32 = true;
    EXPECT_EQ(*plan_key(g), half) << "halves are not rounded again";
  }
  g = linear(8, 16, 24, DType::f64);
  g.tf32 = true;
  EXPECT_FALSE(plan_key(g));
}

/// Returns a product of codes whose first operand is a gradient (e5m2), as in the backward of a layer.
GemmArgs codes(std::int64_t m, std::int64_t n, std::int64_t k, DType out = DType::bf16) {
  GemmArgs g = linear(m, n, k, DType::u8);
  g.out = out;
  g.a_format = Float8::e5m2;
  g.a_scale = g.b_scale = place;
  return g;
}

TEST(GemmPlan, CodesAreMultipliedWithScalesAndFullAccumulation) {
  for (const DType out : {DType::bf16, DType::f32})
    for (const Float8 format : {Float8::e4m3, Float8::e5m2}) {
      GemmArgs g = codes(96, 48, 32, out);
      g.a_format = format;
      const std::optional<PlanKey> key = plan_key(g);
      ASSERT_TRUE(key);
      const PlanDescriptors plan = plan_descriptors(*key);
      // The only form that cuBLASLt has on Hopper: the first operand is transposed, the second one is not.
      EXPECT_EQ(form(plan, CUBLASLT_MATMUL_DESC_TRANSA), CUBLAS_OP_T);
      EXPECT_EQ(form(plan, CUBLASLT_MATMUL_DESC_TRANSB), CUBLAS_OP_N);
      EXPECT_EQ(read(plan.first), (Layout{CUDA_R_8F_E4M3, 32, 48, 32, 1, 0}));
      EXPECT_EQ(read(plan.second),
                (Layout{format == Float8::e4m3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2, 32, 96, 32, 1, 0}));
      EXPECT_EQ(read(plan.result), (Layout{out == DType::f32 ? CUDA_R_32F : CUDA_R_16BF, 48, 96, 48, 1, 0}));
      const cublasLtMatmulDesc_t operation = plan.operation.get();
      EXPECT_EQ(attribute<std::int32_t>(operation, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE), CUBLAS_COMPUTE_32F);
      EXPECT_EQ(attribute<std::int32_t>(operation, CUBLASLT_MATMUL_DESC_SCALE_TYPE), CUDA_R_32F);
      EXPECT_EQ(attribute<std::int8_t>(operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM), 0);
      for (const auto scale : {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER})
        EXPECT_NE(attribute<const void*>(operation, scale), nullptr);
      for (const auto mode : {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_MODE})
        EXPECT_EQ(attribute<std::int32_t>(operation, mode), CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F);
      EXPECT_EQ(attribute<std::uint32_t>(operation, CUBLASLT_MATMUL_DESC_EPILOGUE),
                std::uint32_t{CUBLASLT_EPILOGUE_DEFAULT});
    }
  const PlanDescriptors of_halves = plan_descriptors(*plan_key(linear(96, 48, 32, DType::bf16)));
  EXPECT_EQ(attribute<const void*>(of_halves.operation.get(), CUBLASLT_MATMUL_DESC_A_SCALE_POINTER), nullptr);
}

TEST(GemmPlan, CodesThatDoNotFitHaveNoPlan) {
  ASSERT_TRUE(plan_key(codes(16, 16, 16)));
  EXPECT_TRUE(plan_key(codes(7, 16, 16))) << "a panel of any number of rows";
  EXPECT_FALSE(plan_key(codes(16, 24, 16)));
  EXPECT_FALSE(plan_key(codes(16, 16, 24)));
  EXPECT_FALSE(plan_key(codes(16, 16, 16, DType::f16))) << "bf16 is what they stand for";
  GemmArgs g = codes(16, 16, 16, DType::f32);
  g.bias = place;
  EXPECT_FALSE(plan_key(g)) << "its bias is of bf16";
  g = codes(16, 16, 16);
  g.bias = place;
  EXPECT_FALSE(plan_key(g)) << "its bias is of bf16";
  g.low_bias = true;
  ASSERT_TRUE(plan_key(g));
  EXPECT_EQ(epilogue_of(g), std::uint32_t{CUBLASLT_EPILOGUE_BIAS});
  g = codes(16, 16, 16);
  g.b_format = Float8::e5m2;
  EXPECT_FALSE(plan_key(g)) << "no product of two e5m2";
  g = codes(16, 16, 16);
  g.a_row = 1;
  g.a_col = 16;
  EXPECT_FALSE(plan_key(g)) << "not K-major";
  g = codes(16, 16, 16);
  g.b_row = 16;
  g.b_col = 1;
  EXPECT_FALSE(plan_key(g)) << "not K-major";
  for (const int operand : {0, 1, 2}) {
    g = codes(16, 16, 16);
    const void* const odd = reinterpret_cast<const char*>(place) + 8;
    if (operand == 0) g.a = odd;
    if (operand == 1) g.b = odd;
    if (operand == 2) g.c = const_cast<void*>(odd);
    EXPECT_FALSE(plan_key(g)) << "8 bytes off, operand " << operand;
  }
}

TEST(GemmPlan, PlanLinesOfCodesContainTheFormatOfTheFirstOperand) {
  const PlanKey key = *plan_key(codes(96, 48, 32));
  const std::string line = plan_line(key, {});
  EXPECT_EQ(line,
            "gemm in=e5m2 out=bf16 m=96 n=48 k=32 batch=1 a=n:32:0:16 b=t:32:0:16 c=n:48:0:16 bias=0 "
            "tf32=0 algorithm=none");
  ASSERT_TRUE(parse_plan_line(line));
  EXPECT_EQ(parse_plan_line(line)->key, key);
  GemmArgs g = codes(96, 48, 32);
  g.a_format = Float8::e4m3;
  EXPECT_EQ(parse_plan_line(plan_line(*plan_key(g), {}))->key, *plan_key(g));
  EXPECT_FALSE(*plan_key(g) == key) << "an algorithm of its own";
  EXPECT_NE(PlanKeyHash{}(*plan_key(g)), PlanKeyHash{}(key));
  EXPECT_FALSE(parse_plan_line("gemm in=u8" + line.substr(line.find(" out"))));
}

TEST(GemmPlan, APlanLineRoundTrips) {
  GemmArgs g = linear(8, 16, 24, DType::bf16);
  g.out = DType::f32;
  g.bias = place;
  const PlanKey key = *plan_key(g);
  cublasLtMatmulAlgo_t algorithm;
  for (std::size_t i = 0; i < std::size(algorithm.data); ++i) algorithm.data[i] = 0xfedcba9876543210u + i;
  const std::string line = plan_line(key, algorithm);
  EXPECT_EQ(line,
            "gemm in=bf16 out=f32 m=8 n=16 k=24 batch=1 a=n:24:0:16 b=t:24:0:16 c=n:16:0:16 bias=1 tf32=0 "
            "algorithm=fedcba9876543210fedcba9876543211fedcba9876543212fedcba9876543213fedcba9876543214"
            "fedcba9876543215fedcba9876543216fedcba9876543217");
  const std::optional<PlanLine> plan = parse_plan_line(line);
  ASSERT_TRUE(plan && plan->algorithm);
  EXPECT_EQ(plan->key, key);
  EXPECT_EQ(PlanKeyHash{}(plan->key), PlanKeyHash{}(key));
  EXPECT_EQ(plan_line(plan->key, plan->algorithm), line);
  const std::optional<PlanLine> none = parse_plan_line(plan_line(key, {}));
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->algorithm);
}

void expect_word(const GemmArgs& g, const std::string& word) {
  const PlanKey plain = *plan_key(linear(8, 16, 24, DType::bf16)), key = *plan_key(g);
  const std::string line = plan_line(key, {});
  const std::size_t at = line.find(word);
  ASSERT_NE(at, line.npos);
  EXPECT_EQ(parse_plan_line(line)->key, key);
  EXPECT_NE(PlanKeyHash{}(key), PlanKeyHash{}(plain));
  // A line without an epilogue has no such word, as in older versions.
  EXPECT_EQ(plan_line(plain, {}), line.substr(0, at) + line.substr(at + word.size()));
  EXPECT_EQ(parse_plan_line(plan_line(plain, {}))->key, plain);
  EXPECT_FALSE(parse_plan_line(line.substr(0, at) + " epilogue=other" + line.substr(at + word.size())));
  for (std::size_t cut = 0; cut < line.size(); ++cut) EXPECT_FALSE(parse_plan_line(line.substr(0, cut))) << cut;
}

TEST(GemmPlan, AnEpilogueIsAnOptionalWord) {
  GemmArgs forward = linear(8, 16, 24, DType::bf16), backward = forward;
  forward.activation = Activation::kGeluTanh;
  forward.pre_activation = const_cast<float*>(place);
  expect_word(forward, " epilogue=gelu_aux");
  backward.derivative_of = Activation::kGeluTanh;
  backward.derivative_at = place;
  expect_word(backward, " epilogue=dgelu");
  EXPECT_FALSE(*plan_key(forward) == *plan_key(backward));
  EXPECT_NE(PlanKeyHash{}(*plan_key(forward)), PlanKeyHash{}(*plan_key(backward)));
}

TEST(GemmPlan, InvalidLinesAreRefused) {
  const std::string line = plan_line(*plan_key(linear(8, 16, 24, DType::f32)), {});
  ASSERT_TRUE(parse_plan_line(line));
  for (std::size_t cut = 0; cut < line.size(); ++cut) EXPECT_FALSE(parse_plan_line(line.substr(0, cut))) << cut;
  for (const char* other : {"", "gemm", "cublaslt 130100 sm_90 multiprocessors 132"})
    EXPECT_FALSE(parse_plan_line(other));
  EXPECT_FALSE(parse_plan_line(line + " more=1"));
  EXPECT_FALSE(parse_plan_line(line + "0"));
}

}  // namespace
}  // namespace binade::cuda
