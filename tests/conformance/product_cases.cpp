#include <array>
#include <cmath>

#include "binade/autograd/functions/attention.h"
#include "binade/autograd/functions/matmul.h"
#include "tests/conformance/registry.h"

namespace binade::conformance {
namespace {

/// Sums the terms of one result, their magnitudes and their number.
struct Accumulator {
  double sum = 0, magnitude = 0, terms = 0;
  void add(double a, double b) {
    sum += a * b;
    magnitude += std::abs(a * b);
    terms += 1;
  }
  void push(Expected& y) const {
    y.values.push_back(sum);
    y.magnitude.push_back(magnitude);
    y.terms.push_back(terms + 1);
  }
};

/// a (batch, m, k) times b (batch, k, n). A batch of 1 is broadcast.
Expected matmul_reference(const Array& a, const Array& b, bool transpose_a, bool transpose_b) {
  const std::int64_t m = a.shape.dim(transpose_a ? -1 : -2), k = a.shape.dim(transpose_a ? -2 : -1),
                     n = b.shape.dim(transpose_b ? -2 : -1);
  const std::int64_t batch_a = a.shape.rank() == 3 ? a.shape.dim(0) : 1,
                     batch_b = b.shape.rank() == 3 ? b.shape.dim(0) : 1;
  Expected y;
  for (std::int64_t s = 0; s < std::max(batch_a, batch_b); ++s)
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        Accumulator sum;
        const std::int64_t first_a = batch_a == 1 ? 0 : s * m * k, first_b = batch_b == 1 ? 0 : s * k * n;
        for (std::int64_t l = 0; l < k; ++l)
          sum.add(a[first_a + (transpose_a ? l * m + i : i * k + l)],
                  b[first_b + (transpose_b ? j * k + l : l * n + j)]);
        sum.push(y);
      }
  return y;
}

double activated(Activation activation, double z) {
  switch (activation) {
    case Activation::kNone: return z;
    case Activation::kRelu: return z > 0 || z != z ? z : 0;
    case Activation::kGelu: return z * 0.5 * std::erfc(-z / std::sqrt(2.0));
    case Activation::kGeluTanh: return z / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (z + 0.044715 * z * z * z)));
  }
  return z;
}

/// Returns channels [begin, begin + count) of x.
Array channels(const Array& x, std::int64_t begin, std::int64_t count) {
  Array part{x.shape.with_dim(-1, count), {}};
  for (std::int64_t i = 0; i < part.shape.numel(); ++i)
    part.values.push_back(x[i / count * x.shape.cols() + begin + i % count]);
  return part;
}

struct AttentionSizes {
  const char* name;
  std::int64_t batch, queries, keys, heads, key_heads, width;
  bool causal = false;
};

Expected attention_reference(const AttentionSizes& s, const Array& q, const Array& k, const Array& v) {
  Expected y;
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t t = 0; t < s.queries; ++t)
      for (std::int64_t h = 0; h < s.heads; ++h) {
        const std::int64_t g = h / (s.heads / s.key_heads);
        const std::int64_t visible = s.causal ? t + 1 + s.keys - s.queries : s.keys;
        std::vector<double> p;
        double max = -INFINITY, sum = 0, largest = 0;
        for (std::int64_t j = 0; j < visible; ++j) {
          double logit = 0, size = 0;
          for (std::int64_t d = 0; d < s.width; ++d) {
            const double product = q[((b * s.queries + t) * s.heads + h) * s.width + d] *
                                   k[((b * s.keys + j) * s.key_heads + g) * s.width + d];
            logit += product;
            size += std::abs(product);
          }
          p.push_back(logit / std::sqrt(static_cast<double>(s.width)));
          max = p.back() > max || p.back() != p.back() ? p.back() : max;
          if (std::isfinite(size)) largest = std::max(largest, size);
        }
        for (double& e : p) sum += e = std::exp(e - max);
        for (std::int64_t d = 0; d < s.width; ++d) {
          Accumulator total;
          for (std::int64_t j = 0; j < visible; ++j)
            total.add(p[static_cast<std::size_t>(j)] / sum, v[((b * s.keys + j) * s.key_heads + g) * s.width + d]);
          total.terms += 8 + 2 * static_cast<double>(s.width + 4) *
                                 (1 + largest);  // an error of a logit changes p by p times this error
          total.push(y);
        }
      }
  return y;
}

}  // namespace

std::vector<Case> matmul_cases() {
  struct Sizes {
    const char* name;
    std::int64_t batch_a, batch_b, m, k, n;
  };
  std::vector<Case> cases;
  for (const Sizes& s :
       {Sizes{"one_element", 0, 0, 1, 1, 1}, Sizes{"row_by_column", 0, 0, 1, 7, 1}, Sizes{"outer", 0, 0, 5, 1, 4},
        Sizes{"empty_rows", 0, 0, 0, 3, 4}, Sizes{"empty_sum", 0, 0, 3, 0, 4}, Sizes{"odd_tiles", 0, 0, 15, 33, 17},
        Sizes{"past_tiles", 0, 0, 29, 65, 67}, Sizes{"batched", 3, 3, 5, 6, 7}, Sizes{"batch_repeats_b", 3, 0, 5, 6, 7},
        Sizes{"batch_repeats_a", 1, 4, 5, 6, 7}, Sizes{"long_sum", 0, 0, 3, 2051, 5},
        Sizes{"large", 0, 0, 70, 70, 130}})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        const auto shape = [](std::int64_t batch, std::int64_t rows, std::int64_t cols) {
          return batch == 0 ? Shape{rows, cols} : Shape{batch, rows, cols};
        };
        cases.push_back(
            {.info = &ops::Matmul::info,
             .name = std::string(s.name) + (ta ? "_t" : "_n") + (tb ? "t" : "n"),
             .inputs = {random(ta ? shape(s.batch_a, s.k, s.m) : shape(s.batch_a, s.m, s.k), 1),
                        random(tb ? shape(s.batch_b, s.n, s.k) : shape(s.batch_b, s.k, s.n), 2)},
             .run =
                 [ta, tb](const std::vector<Variable>& x) {
                   return matmul(x[0], x[1], {.transpose_a = ta, .transpose_b = tb});
                 },
             .reference = [ta, tb](const std::vector<Array>& in) { return matmul_reference(in[0], in[1], ta, tb); },
             .nan_must_show = s.m > 0});
      }
  cases.push_back(
      {.info = &ops::Matmul::info,
       .name = "channel_slices",
       .inputs = {random_slice({9, 13}, 1), random_slice({13, 6}, 2)},
       .run = [](const std::vector<Variable>& x) { return matmul(x[0], x[1]); },
       .reference = [](const std::vector<Array>& in) { return matmul_reference(in[0], in[1], false, false); }});
  return cases;
}

namespace {

/// Two consecutive layers, w2 activation(x w1^T + b1). The second layer may multiply its data gradient by the
/// derivative of the activation as it stores it (decision 0034).
std::vector<Case> linear_behind_linear_cases() {
  struct Sizes {
    const char* name;
    Shape x;
    std::int64_t hidden, out;
  };
  std::vector<Case> cases;
  for (const Sizes& s : {Sizes{"odd", {3, 5, 7}, 9, 3}, Sizes{"even", {37, 24}, 40, 16}})
    for (const Activation activation : {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh}) {
      const auto reference = [activation, s](const std::vector<Array>& in) {
        const std::int64_t width = s.x.cols();
        Expected y;
        for (std::int64_t r = 0; r < s.x.rows(); ++r)
          for (std::int64_t o = 0; o < s.out; ++o) {
            Accumulator sum;
            double inner = 0;  // magnitude of the terms of a hidden value
            for (std::int64_t h = 0; h < s.hidden; ++h) {
              Accumulator z;
              for (std::int64_t i = 0; i < width; ++i) z.add(in[0][r * width + i], in[1][h * width + i]);
              z.add(1, in[2][h]);
              sum.add(activated(activation, z.sum), in[3][o * s.hidden + h]);
              inner += 1.13 * z.magnitude * std::abs(in[3][o * s.hidden + h]);
            }
            sum.magnitude += inner;
            sum.terms += static_cast<double>(width) + 260;
            sum.push(y);
          }
        return y;
      };
      // The second weight has few bits, so that every dtype represents it exactly and the reference needs no rounding.
      cases.push_back({.info = &ops::Linear::info,
                       .name = std::string("behind_linear_") + s.name + "_activation" +
                               std::to_string(static_cast<int>(activation)),
                       .inputs = {random(s.x, 1), random({s.hidden, s.x.cols()}, 2, -1, 1), random(Shape{s.hidden}, 3),
                                  in_dtype(in_dtype(random({s.out, s.hidden}, 4, -1, 1), DType::bf16), DType::f64)},
                       .run =
                           [activation](const std::vector<Variable>& x) {
                             return linear(linear(x[0], x[1], x[2], {.activation = activation}), x[3]);
                           },
                       .reference = reference,
                       .poison = false,
                       .half_roundings = 2});  // one more for the sum before a GELU
    }
  return cases;
}

}  // namespace

std::vector<Case> linear_cases() {
  std::vector<Case> cases = linear_behind_linear_cases();
  for (const ShapeClass& shape : shape_classes())
    for (const Activation activation :
         {Activation::kNone, Activation::kRelu, Activation::kGelu, Activation::kGeluTanh}) {
      if (shape.shape.rank() == 0) continue;
      const std::int64_t in_width = shape.shape.cols(), out = in_width > 100 ? 3 : shape.shape.rank() == 2 ? 16 : 5;
      const bool bias = activation != Activation::kRelu;
      Case c{.info = &ops::Linear::info,
             .name = std::string(shape.name) + "_activation" + std::to_string(static_cast<int>(activation)),
             .inputs = {random(shape, 1), random(Shape{out, in_width}, 2, -1, 1)},
             .run =
                 [activation](const std::vector<Variable>& x) {
                   return linear(x[0], x[1], x.size() > 2 ? x[2] : Variable{}, {.activation = activation});
                 },
             .reference =
                 [activation, in_width, out](const std::vector<Array>& in) {
                   Expected y;
                   for (std::int64_t r = 0; r < in[0].shape.with_dim(-1, 1).numel(); ++r)
                     for (std::int64_t o = 0; o < out; ++o) {
                       Accumulator z;
                       for (std::int64_t i = 0; i < in_width; ++i)
                         z.add(in[0][r * in_width + i], in[1][o * in_width + i]);
                       if (in.size() > 2) z.add(1, in[2][o]);
                       z.sum = activated(activation, z.sum);
                       z.terms = 1.13 * z.terms + 260;  // 1.13: GELU's largest derivative; 260: ulps of the activation
                       z.push(y);
                     }
                   return y;
                 },
             .nan_must_show = in_width > 0 && shape.shape.numel() > 0};
      if (bias) c.inputs.push_back(random(Shape{out}, 3));
      // A GELU reads the rounded sum; its derivative is at most 1.13.
      if (activation == Activation::kGelu || activation == Activation::kGeluTanh) c.half_roundings = 1.13;
      cases.push_back(std::move(c));
    }
  return cases;
}

std::vector<Case> projections_cases() {
  std::vector<Case> cases;
  struct Widths {
    const char* name;
    std::array<std::int64_t, 3> out;
    bool bias;
  };
  for (const ShapeClass& shape : shape_classes())
    for (const Widths& widths : {Widths{"alike", {4, 4, 4}, true}, Widths{"grouped", {6, 2, 2}, false},
                                 Widths{"an_empty_part", {3, 0, 1}, true}}) {
      if (shape.shape.rank() == 0) continue;
      const std::int64_t in_width = shape.shape.cols();
      Case c{.info = &ops::Projections::info,
             .name = std::string(shape.name) + "_" + widths.name,
             .inputs = {random(shape, 1)},
             .run =
                 [](const std::vector<Variable>& x) {
                   if (x.size() == 4) return projections(x[0], {x[1], x[2], x[3]});
                   return projections(x[0], {x[1], x[2], x[3]}, {x[4], x[5], x[6]});
                 },
             .reference =
                 [in_width, widths](const std::vector<Array>& in) {
                   Expected y;
                   for (std::int64_t r = 0; r < in[0].shape.with_dim(-1, 1).numel(); ++r)
                     for (std::size_t part = 0; part < 3; ++part)
                       for (std::int64_t o = 0; o < widths.out[part]; ++o) {
                         Accumulator z;
                         for (std::int64_t i = 0; i < in_width; ++i)
                           z.add(in[0][r * in_width + i], in[1 + part][o * in_width + i]);
                         if (in.size() > 4) z.add(1, in[4 + part][o]);
                         z.push(y);
                       }
                   return y;
                 },
             .nan_must_show = in_width > 0 && shape.shape.numel() > 0};
      for (std::size_t part = 0; part < 3; ++part)
        c.inputs.push_back(random(Shape{widths.out[part], in_width}, 2 + part, -1, 1));
      for (std::size_t part = 0; part < 3 && widths.bias; ++part)
        c.inputs.push_back(random(Shape{widths.out[part]}, 5 + part));
      cases.push_back(std::move(c));
    }
  return cases;
}

std::vector<Case> attention_cases() {
  std::vector<Case> cases;
  for (const AttentionSizes& s :
       {AttentionSizes{"one_element", 1, 1, 1, 1, 1, 1}, AttentionSizes{"one_key", 2, 3, 1, 1, 1, 4},
        AttentionSizes{"one_query", 1, 1, 9, 2, 2, 8}, AttentionSizes{"square", 2, 5, 5, 2, 2, 4},
        AttentionSizes{"causal", 2, 7, 7, 2, 2, 4, true}, AttentionSizes{"grouped", 1, 6, 6, 4, 2, 8},
        AttentionSizes{"one_key_head", 1, 6, 6, 4, 1, 8, true}, AttentionSizes{"cached_keys", 1, 3, 8, 1, 1, 16, true},
        AttentionSizes{"odd_width", 1, 5, 6, 3, 3, 7}, AttentionSizes{"wide", 1, 4, 4, 1, 1, 65},
        AttentionSizes{"long", 1, 70, 70, 1, 1, 16}, AttentionSizes{"long_causal", 1, 129, 129, 1, 1, 8, true}})
    cases.push_back(
        {.info = &ops::Attention::info,
         .name = s.name,
         .inputs = {random({s.batch, s.queries, s.heads, s.width}, 1),
                    random({s.batch, s.keys, s.key_heads, s.width}, 2),
                    random({s.batch, s.keys, s.key_heads, s.width}, 3)},
         .run = [s](const std::vector<Variable>& x) { return attention(x[0], x[1], x[2], {.causal = s.causal}); },
         .reference = [s](const std::vector<Array>& in) { return attention_reference(s, in[0], in[1], in[2]); },
         .half_roundings = 2});
  // Queries, keys and values are channels of one input.
  for (const AttentionSizes& s :
       {AttentionSizes{"packed_one_element", 1, 1, 1, 1, 1, 1}, AttentionSizes{"packed", 2, 7, 7, 2, 2, 4},
        AttentionSizes{"packed_causal", 1, 70, 70, 2, 2, 8, true},
        AttentionSizes{"packed_grouped", 2, 6, 6, 4, 2, 8, true}, AttentionSizes{"packed_empty", 0, 5, 5, 2, 2, 4}})
    for (const bool slice : {false, true}) {
      const Shape shape{s.batch, s.queries, (s.heads + 2 * s.key_heads) * s.width};
      cases.push_back({.info = &ops::Attention::info,
                       .name = std::string(s.name) + (slice ? "_slice" : ""),
                       .inputs = {slice ? random_slice(shape, 1) : random(shape, 1)},
                       .run =
                           [s](const std::vector<Variable>& x) {
                             return attention(x[0], {}, {},
                                              {.causal = s.causal, .heads = s.heads, .key_heads = s.key_heads});
                           },
                       .reference =
                           [s](const std::vector<Array>& in) {
                             const std::int64_t queries = s.heads * s.width, keys = s.key_heads * s.width;
                             return attention_reference(s, channels(in[0], 0, queries), channels(in[0], queries, keys),
                                                        channels(in[0], queries + keys, keys));
                           },
                       .half_roundings = 2});
    }
  return cases;
}

}  // namespace binade::conformance
