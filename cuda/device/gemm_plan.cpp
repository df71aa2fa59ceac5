#include "binade/cuda/device/gemm_plan.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <span>
#include <sstream>

#include "binade/cuda/device/engine_choice.h"
#include "binade/cuda/device/failure.h"
#include "binade/cuda/rules.h"

namespace binade::cuda {

namespace {

constexpr std::string_view kInputNames[] = {"f32", "f16", "bf16", "e4m3", "e5m2"};  // by PlanInput
constexpr std::string_view kEpilogueNames[] = {"none", "gelu_aux", "dgelu"};        // by PlanEpilogue

PlanInput input_of(const GemmArgs& g) {
  switch (g.in) {
    case DType::u8: return g.a_format == Float8::e4m3 ? PlanInput::e4m3 : PlanInput::e5m2;
    case DType::f16: return PlanInput::f16;
    case DType::bf16: return PlanInput::bf16;
    default: return PlanInput::f32;
  }
}

cudaDataType_t library_type(PlanInput in) {
  switch (in) {
    case PlanInput::f16: return CUDA_R_16F;
    case PlanInput::bf16: return CUDA_R_16BF;
    case PlanInput::e4m3: return CUDA_R_8F_E4M3;
    case PlanInput::e5m2: return CUDA_R_8F_E5M2;
    case PlanInput::f32: break;
  }
  return CUDA_R_32F;
}
cudaDataType_t library_type(DType dtype) {
  switch (dtype) {
    case DType::f16: return CUDA_R_16F;
    case DType::bf16: return CUDA_R_16BF;
    default: return CUDA_R_32F;
  }
}

/// Returns the largest power of two, up to 16, that divides the address of each of the operand's columns.
int alignment_of(const void* data, std::int64_t leading, std::int64_t batch, DType dtype) {
  const auto bytes = static_cast<std::uint64_t>(size_of(dtype));
  const std::uint64_t all = reinterpret_cast<std::uintptr_t>(data) | static_cast<std::uint64_t>(leading) * bytes |
                            static_cast<std::uint64_t>(batch) * bytes | 16;
  return static_cast<int>(all & -all);
}

/// Returns the description of an operand with `lines` lines of k elements. The distance between lines is `line`,
/// between elements of a line `step`; one of the two must be 1. The result describes Binade's b in
/// cuBLASLt's terms: it is transposed if `step` is 1, and not transposed if `line` is 1.
std::optional<PlanOperand> operand_of(std::int64_t lines, std::int64_t k, std::int64_t line, std::int64_t step) {
  if (step == 1 || k == 1) {
    const std::int64_t leading = lines == 1 ? k : line;
    if (leading >= k) return PlanOperand{.transposed = true, .leading = leading};
  }
  if (line == 1 || lines == 1) {
    const std::int64_t leading = k == 1 ? lines : step;
    if (leading >= lines) return PlanOperand{.transposed = false, .leading = leading};
  }
  return std::nullopt;
}

LayoutOwner layout_of(cudaDataType_t type, std::int64_t rows, std::int64_t columns, const PlanOperand& x,
                      std::int64_t batch) {
  if (x.transposed) std::swap(rows, columns);
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns),
                                   x.leading),
        "layout");
  LayoutOwner owner(layout);
  const auto count = static_cast<std::int32_t>(batch);
  check(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), "layout");
  check(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &x.batch, sizeof x.batch),
        "layout");
  return owner;
}

template <class T>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value), "operation");
}
template <class T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value), "preference");
}

// ---- text: the word "gemm", then words "name=value"

constexpr std::string_view kWord = "gemm";
constexpr std::string_view kNone = "none";

std::string text_of(const PlanOperand& x) {
  return std::string(x.transposed ? "t" : "n") + ":" + std::to_string(x.leading) + ":" + std::to_string(x.batch) + ":" +
         std::to_string(x.alignment);
}

template <class T>
bool parse(std::string_view text, T& value, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc() && end == text.data() + text.size();
}
bool parse(std::string_view text, DType& dtype) {
  for (const DType d : {DType::f32, DType::f16, DType::bf16})
    if (name_of(d) == text) {
      dtype = d;
      return true;
    }
  return false;
}
template <class E>
bool parse_name(std::string_view text, std::span<const std::string_view> names, E& value) {
  const auto found = std::ranges::find(names, text);
  value = static_cast<E>(found - names.begin());
  return found != names.end();
}
bool parse(std::string_view text, PlanInput& in) { return parse_name(text, kInputNames, in); }
bool parse(std::string_view text, PlanEpilogue& epilogue) { return parse_name(text, kEpilogueNames, epilogue); }
bool parse(std::string_view text, bool& value) {
  value = text == "1";
  return text == "1" || text == "0";
}
bool parse(std::string_view text, PlanOperand& x) {
  const std::size_t first = text.find(':'), second = text.find(':', first + 1), third = text.find(':', second + 1);
  if (first != 1 || second == text.npos || third == text.npos || (text[0] != 't' && text[0] != 'n')) return false;
  x.transposed = text[0] == 't';
  return parse(text.substr(first + 1, second - first - 1), x.leading) &&
         parse(text.substr(second + 1, third - second - 1), x.batch) && parse(text.substr(third + 1), x.alignment);
}
bool parse(std::string_view text, std::optional<cublasLtMatmulAlgo_t>& algorithm) {
  if (text == kNone) return true;
  algorithm.emplace();
  constexpr std::size_t kDigits = 16;
  if (text.size() != kDigits * std::size(algorithm->data)) return false;
  for (std::uint64_t& word : algorithm->data) {
    if (!parse(text.substr(0, kDigits), word, 16)) return false;
    text.remove_prefix(kDigits);
  }
  return true;
}

/// Calls f(name, member) for all members of a key.
template <class Key, class F>
void for_each_member(Key& key, F&& f) {
  f("in", key.in);
  f("out", key.out);
  f("m", key.m);
  f("n", key.n);
  f("k", key.k);
  f("batch", key.batch);
  f("a", key.a);
  f("b", key.b);
  f("c", key.c);
  f("bias", key.bias);
  f("tf32", key.tf32);
  f.optional("epilogue", key.epilogue, PlanEpilogue::none);
}

struct Writer {
  std::string line{kWord};
  void operator()(const char* name, PlanInput x) { add(name, std::string(kInputNames[static_cast<int>(x)])); }
  void operator()(const char* name, DType x) { add(name, std::string(name_of(x))); }
  void operator()(const char* name, std::int64_t x) { add(name, std::to_string(x)); }
  void operator()(const char* name, bool x) { add(name, x ? "1" : "0"); }
  void operator()(const char* name, const PlanOperand& x) { add(name, text_of(x)); }
  /// Omits the value `default_value`, because lines were written without this member before it existed.
  void optional(const char* name, PlanEpilogue x, PlanEpilogue default_value) {
    if (x != default_value) add(name, std::string(kEpilogueNames[static_cast<int>(x)]));
  }
  void add(const char* name, const std::string& value) { line += std::string(" ") + name + "=" + value; }
};

/// Reads the words of a line in the order in which the writer writes them.
struct Reader {
  std::istringstream words;
  bool good = true;

  template <class T>
  void operator()(const char* name, T& value) {
    std::string word;
    const std::string begin = std::string(name) + "=";
    good = good && words >> word && word.starts_with(begin) &&
           parse(std::string_view(word).substr(begin.size()), value);
  }
  template <class T>
  void optional(const char* name, T& value, T default_value) {
    const std::istringstream::pos_type here = words.tellg();
    std::string word;
    value = default_value;
    const bool found = words >> word && word.starts_with(std::string(name) + "=");
    words.clear();
    words.seekg(here);
    if (found) (*this)(name, value);
  }
};

}  // namespace

std::size_t PlanKeyHash::operator()(const PlanKey& key) const {
  const PlanOperand &a = key.a, &b = key.b, &c = key.c;
  return hash_of(numbers_of(key.in, key.out, key.m, key.n, key.k, key.batch, key.bias, key.tf32, key.epilogue,
                            a.transposed, a.leading, a.batch, a.alignment, b.transposed, b.leading, b.batch,
                            b.alignment, c.transposed, c.leading, c.batch, c.alignment));
}

/// Returns true if cuBLASLt can multiply codes of this key: both operands must be K-major, and all addresses multiples
/// of 16 bytes. k and n must be multiples of 16 too, since rows of k codes and of n results begin at such addresses.
static bool has_form_of_codes(const PlanKey& key) {
  constexpr std::int64_t kMultiple = 16;
  const bool k_major = key.b.transposed && !key.a.transposed;
  const bool aligned = key.a.alignment == 16 && key.b.alignment == 16 && key.c.alignment == 16;
  return k_major && aligned && key.k % kMultiple == 0 && key.n % kMultiple == 0;
}

/// Returns the GELU that cuBLASLt fuses into the product (or none), or std::nullopt if the product needs an activation
/// that cuBLASLt lacks or computes in another way.
static std::optional<PlanEpilogue> epilogue_of(const GemmArgs& g) {
  const bool sums = g.activation == Activation::kNone && g.pre_activation == nullptr;
  if (g.derivative_of != Activation::kNone)
    return sums && g.derivative_of == Activation::kGeluTanh && g.bias == nullptr ? std::optional(PlanEpilogue::dgelu)
                                                                                 : std::nullopt;
  if (sums) return PlanEpilogue::none;
  if (g.activation == Activation::kGeluTanh && g.pre_activation != nullptr) return PlanEpilogue::gelu_aux;
  return std::nullopt;
}

/// Returns true if cuBLASLt can add the bias: it must have the result's dtype, begin at a multiple of 16 bytes (the
/// heuristics assume this), and not belong to f32 results of codes.
static bool library_adds_bias(const GemmArgs& g) {
  const bool fits = g.out == DType::f32 ? !g.low_bias && g.in != DType::u8 : g.low_bias;
  return fits && reinterpret_cast<std::uintptr_t>(g.bias) % 16 == 0;
}

std::optional<PlanKey> plan_key(const GemmArgs& g) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 31;  // sizes that cuBLASLt counts in 32 bits
  const std::optional<PlanEpilogue> epilogue = epilogue_of(g);
  if (g.in == DType::f64 || !epilogue) return std::nullopt;
  if (g.k == 0 || g.m >= kLimit || g.n >= kLimit || g.k >= kLimit || g.batch >= kLimit) return std::nullopt;
  const bool codes = g.in == DType::u8;
  if (codes && g.b_format == Float8::e5m2) return std::nullopt;
  if (g.bias != nullptr && (g.accumulate || !library_adds_bias(g))) return std::nullopt;
  if (g.out != DType::f32 && g.out != (codes ? DType::bf16 : g.in)) return std::nullopt;
  const std::optional<PlanOperand> a = operand_of(g.m, g.k, g.a_row, g.a_col);
  const std::optional<PlanOperand> b = operand_of(g.n, g.k, g.b_col, g.b_row);
  if (!a || !b || (g.m > 1 && g.c_row < g.n)) return std::nullopt;
  PlanKey key{
      .in = input_of(g), .out = g.out, .m = g.m, .n = g.n, .k = g.k, .batch = g.batch, .a = *a, .b = *b, .c = {}};
  key.c.leading = g.m > 1 ? g.c_row : g.n;
  if (!evenly_spaced(g.a_offsets, g.batch, key.a.batch) || !evenly_spaced(g.b_offsets, g.batch, key.b.batch) ||
      !evenly_spaced(g.c_offsets, g.batch, key.c.batch))
    return std::nullopt;
  if (g.batch > 1 && key.c.batch == 0)
    return std::nullopt;  // the order in which several products are added to one result is not defined
  key.a.alignment = alignment_of(g.a, key.a.leading, key.a.batch, g.in);
  key.b.alignment = alignment_of(g.b, key.b.leading, key.b.batch, g.in);
  key.c.alignment = alignment_of(g.c, key.c.leading, key.c.batch, g.out);
  // cuBLASLt's second operand, Binade's a, is (k, m) in cuBLASLt's order, so it is not transposed if k is contiguous.
  key.a.transposed = !key.a.transposed;
  key.bias = g.bias != nullptr;
  key.tf32 = g.tf32 && g.in == DType::f32;
  key.epilogue = *epilogue;
  if (key.epilogue != PlanEpilogue::none) {
    const void* const of = key.epilogue == PlanEpilogue::dgelu ? g.derivative_at : g.pre_activation;
    const bool fits = g.batch == 1 && !g.accumulate && is_half(g.out) && key.c.leading % 8 == 0;
    if (!fits || alignment_of(of, 0, 0, g.out) != 16) return std::nullopt;
  }
  if (codes && !has_form_of_codes(key)) return std::nullopt;
  return key;
}

std::string plan_line(const PlanKey& key, const std::optional<cublasLtMatmulAlgo_t>& algorithm) {
  Writer writer;
  for_each_member(key, writer);
  std::string words;
  if (algorithm)
    for (const std::uint64_t word : algorithm->data)
      for (int shift = 60; shift >= 0; shift -= 4) words += "0123456789abcdef"[word >> shift & 15];
  writer.add("algorithm", algorithm ? words : std::string(kNone));
  return writer.line;
}

std::optional<PlanLine> parse_plan_line(std::string_view line) {
  Reader reader{std::istringstream(std::string(line))};
  std::string word;
  if (!(reader.words >> word) || word != kWord) return std::nullopt;
  PlanLine plan;
  for_each_member(plan.key, reader);
  reader("algorithm", plan.algorithm);
  if (!reader.good || reader.words >> word) return std::nullopt;
  return plan;
}

static std::uint32_t library_epilogue(const PlanKey& key) {
  switch (key.epilogue) {
    case PlanEpilogue::gelu_aux: return key.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case PlanEpilogue::dgelu: return CUBLASLT_EPILOGUE_DGELU;
    case PlanEpilogue::none: break;
  }
  return key.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

PlanDescriptors plan_descriptors(const PlanKey& key) {
  PlanDescriptors plan;
  cublasLtMatmulDesc_t operation = nullptr;
  const cublasComputeType_t compute = key.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check(cublasLtMatmulDescCreate(&operation, compute, CUDA_R_32F), "operation");
  plan.operation.reset(operation);
  const auto form = [](const PlanOperand& x) -> std::int32_t { return x.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, form(key.b));
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, form(key.a));
  // The heuristics need to know whether there are a bias, the input of a GELU and scales, and how they are aligned.
  // Their real addresses are set for each product.
  alignas(32) static constexpr float kSomewhere[8] = {};
  const void* const somewhere = kSomewhere + 4;  // a multiple of 16 bytes, but not of 32
  set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, library_epilogue(key));
  if (key.bias) set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, somewhere);
  if (key.epilogue != PlanEpilogue::none) {
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, somewhere);
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, key.c.leading);
  }
  if (are_codes(key.in)) {
    set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, somewhere);
    set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, somewhere);
    set(operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{0});
  }
  const cudaDataType_t second = library_type(key.in);
  const cudaDataType_t first = are_codes(key.in) ? CUDA_R_8F_E4M3 : second;
  plan.first = layout_of(first, key.n, key.k, key.b, key.batch);
  plan.second = layout_of(second, key.k, key.m, key.a, key.batch);
  plan.result = layout_of(library_type(key.out), key.n, key.m, key.c, key.batch);
  return plan;
}

PreferenceOwner plan_preference(const PlanKey& key, std::size_t workspace) {
  cublasLtMatmulPreference_t preference = nullptr;
  check(cublasLtMatmulPreferenceCreate(&preference), "preference");
  PreferenceOwner owner(preference);
  const auto alignment = [](const PlanOperand& x) { return static_cast<std::uint32_t>(x.alignment); };
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{workspace});
  // Partial sums are added in f32, never in the result's dtype, and the sums that an epilogue reads are not rounded.
  const bool rounded_first = is_half(key.out) && library_epilogue(key) != CUBLASLT_EPILOGUE_DEFAULT;
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      std::uint32_t{rounded_first ? CUBLASLT_REDUCTION_SCHEME_NONE : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(key.b));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(key.a));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(key.c));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(key.c));
  return owner;
}

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const Status kind = status == CUBLAS_STATUS_ALLOC_FAILED       ? Status::kNoMemory
                      : status == CUBLAS_STATUS_NOT_SUPPORTED    ? Status::kUnsupported
                      : status == CUBLAS_STATUS_ARCH_MISMATCH    ? Status::kUnsupported
                      : status == CUBLAS_STATUS_EXECUTION_FAILED ? Status::kLost
                                                                 : Status::kFailed;
  throw Failure(kind, std::string("cuBLASLt, ") + what + ": status " + std::to_string(static_cast<int>(status)));
}

}  // namespace binade::cuda
