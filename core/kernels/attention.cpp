#include "core/kernels/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/kernels/image.h"
#include "core/kernels/pack.h"
#include "core/kernels/scratch.h"
#include "core/kernels/vector_math.h"
#include "core/parallel.h"

/// Attention in blocks of query rows: a block's logits over all the keys it may see stay in cache, so memory grows with
/// the number of keys, not with its square; blocks of a causal row stop at the diagonal. Backward makes them again from
/// q, k and the saved log-sum-exp (Dao et al., "FlashAttention", NeurIPS 2022). Logits, softmax and sums are f32 (f64
/// for f64); with half inputs the probabilities and the gradients of the logits are rounded to the input's dtype before
/// they are multiplied on, as a Tensor Core would read them.
namespace binade::cpu::BINADE_ISA {

const AttentionKernels& attention_kernels();

namespace {

constexpr std::int64_t kQueryRows = 4 * kVectorTileRows;
constexpr std::int64_t kEnoughTasks = 16;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

/// Rows of `depth` values, `pitch` apart, in the computing type.
template <class C>
struct Rows {
  C* data = nullptr;
  std::int64_t pitch = 0;
  C* row(std::int64_t i) const { return data + i * pitch; }
};

template <class Lane, class T>
class Attention {
  using C = typename Lane::Accumulator;
  static constexpr int kWide = kTileColumns<Lane>;
  static constexpr std::int64_t kBytes = sizeof(C);
  static constexpr bool kHalf = !std::is_same_v<T, C>;

 public:
  explicit Attention(const AttentionArgs& args)
      : a_(args),
        pitch_(round_up(args.depth, kWide)),
        logit_pitch_(round_up(args.keys, kWide)),
        group_(args.heads / args.key_heads),
        scale_(static_cast<C>(args.scale)),
        keep_(1 / (1 - static_cast<C>(args.dropout))) {}

  void forward(const AttentionForward& f) const {
    const std::int64_t row_blocks = ceil_div(a_.queries, kQueryRows);
    // One task makes the key panels of a head once for all its rows, unless that leaves threads idle.
    const std::int64_t cuts = std::clamp<std::int64_t>(kEnoughTasks / (a_.batch * a_.heads), 1, row_blocks);
    parallel_blocks(a_.batch * a_.heads * cuts, [&](std::int64_t task) {
      const std::int64_t cut = task % cuts, h = task / cuts % a_.heads, b = task / cuts / a_.heads;
      Seen results(kDTypeOf<T>);
      Arena arena(ScratchSlot::kImage, 2 * logit_pitch_ * pitch_ + kQueryRows * (2 * pitch_ + logit_pitch_ + 1));
      const PackedB<Lane> keys{a_.keys, a_.depth, arena.take(logit_pitch_ * a_.depth)};
      pack(keys, a_.k, b, h / group_);
      const Rows<C> values{arena.take(a_.keys * pitch_), pitch_};
      widen(a_.v, a_.keys, b, h / group_, 0, a_.keys, values);
      const Rows<C> q{arena.take(kQueryRows * pitch_), pitch_}, y{arena.take(kQueryRows * pitch_), pitch_};
      const Rows<C> p{arena.take(kQueryRows * logit_pitch_), logit_pitch_};
      for (std::int64_t block = cut * row_blocks / cuts; block < (cut + 1) * row_blocks / cuts; ++block) {
        const std::int64_t first = block * a_.queries / row_blocks,
                           rows = (block + 1) * a_.queries / row_blocks - first;
        const std::int64_t seen = visible(first + rows - 1);
        widen(a_.q, a_.queries, b, h, first, rows, q);
        multiply_panels(q, rows, a_.depth, keys, seen, p);
        C inverse[kQueryRows];
        for (std::int64_t r = 0; r < rows; ++r) {
          const std::int64_t t = first + r;
          C lse = 0;
          inverse[r] = softmax_row(p.row(r), visible(t), mask_row(b, h, t), lse);
          std::fill(p.row(r) + visible(t), p.row(r) + seen, C(0));
          if (a_.dropout > 0) drop(p.row(r), visible(t), b, h, t);
          round_row(p.row(r), visible(t));
          if (f.lse != nullptr) static_cast<C*>(f.lse)[(b * a_.heads + h) * a_.queries + t] = lse;
        }
        multiply_seen(p, first, rows, values, y);
        for (std::int64_t r = 0; r < rows; ++r) {
          T* to = static_cast<T*>(f.y) + (b * a_.queries + first + r) * f.y_token + h * f.y_head;
          write(y.row(r), inverse[r], to, results);
        }
      }
    });
  }

  void backward(const AttentionBackward& g) const {
    const std::int64_t row_blocks = ceil_div(a_.queries, kQueryRows);
    parallel_blocks(a_.batch * a_.key_heads, [&](std::int64_t task) {
      const std::int64_t kh = task % a_.key_heads, b = task / a_.key_heads;
      Seen results(kDTypeOf<T>);
      Arena arena(ScratchSlot::kImage, 2 * logit_pitch_ * a_.depth + (3 * a_.keys + 4 * kQueryRows) * pitch_ +
                                           2 * kQueryRows * logit_pitch_);
      const PackedB<Lane> key_panels{a_.keys, a_.depth, arena.take(logit_pitch_ * a_.depth)};
      const PackedB<Lane> value_panels{a_.keys, a_.depth, arena.take(logit_pitch_ * a_.depth)};
      pack(key_panels, a_.k, b, kh);
      pack(value_panels, a_.v, b, kh);
      const Rows<C> k{arena.take(a_.keys * pitch_), pitch_};
      widen(a_.k, a_.keys, b, kh, 0, a_.keys, k);
      const Rows<C> gk{arena.take(a_.keys * pitch_), pitch_}, gv{arena.take(a_.keys * pitch_), pitch_};
      for (const Rows<C>& sums : {gk, gv}) std::fill(sums.data, sums.data + a_.keys * pitch_, C(0));
      const Rows<C> q{arena.take(kQueryRows * pitch_), pitch_}, gq{arena.take(kQueryRows * pitch_), pitch_};
      const Rows<C> gy{arena.take(kQueryRows * pitch_), pitch_}, y{arena.take(kQueryRows * pitch_), pitch_};
      const Rows<C> p{arena.take(kQueryRows * logit_pitch_), logit_pitch_},
          gp{arena.take(kQueryRows * logit_pitch_), logit_pitch_};
      for (std::int64_t h = kh * group_; h < (kh + 1) * group_ && row_blocks > 0; ++h)
        for (std::int64_t block = 0; block < row_blocks; ++block) {
          const std::int64_t first = block * a_.queries / row_blocks,
                             rows = (block + 1) * a_.queries / row_blocks - first;
          const std::int64_t seen = visible(first + rows - 1);
          widen(a_.q, a_.queries, b, h, first, rows, q);
          widen(g.gy, a_.queries, b, h, first, rows, gy);
          widen(g.y, a_.queries, b, h, first, rows, y);
          multiply_panels(q, rows, a_.depth, key_panels, seen, p);
          multiply_panels(gy, rows, a_.depth, value_panels, seen, gp);
          for (std::int64_t r = 0; r < rows; ++r) {
            const C lse = static_cast<const C*>(g.lse)[(b * a_.heads + h) * a_.queries + first + r];
            logit_gradients(p.row(r), gp.row(r), seen, lse, dot(gy.row(r), y.row(r)), b, h, first + r);
          }
          if (g.gv.data != nullptr) add_to_seen(p, first, rows, gy, gv);
          if (g.gk.data != nullptr) add_to_seen(gp, first, rows, q, gk);
          if (g.gq.data != nullptr) {
            multiply_seen(gp, first, rows, k, gq);
            for (std::int64_t r = 0; r < rows; ++r)
              write(gq.row(r), scale_, token(g.gq, a_.queries, b, first + r, h), results);
          }
        }
      for (std::int64_t s = 0; s < a_.keys; ++s) {
        if (g.gk.data != nullptr) write(gk.row(s), scale_, token(g.gk, a_.keys, b, s, kh), results);
        if (g.gv.data != nullptr) write(gv.row(s), C(1), token(g.gv, a_.keys, b, s, kh), results);
      }
    });
  }

 private:
  /// Pieces of one scratch slot, each on a cache line.
  class Arena {
   public:
    Arena(ScratchSlot slot, std::int64_t count)
        : next_(scratch_of<C>(slot, static_cast<std::size_t>(count + 16 * kLine))) {}
    C* take(std::int64_t count) {
      C* piece = next_;
      next_ += round_up(count, kLine);
      return piece;
    }

   private:
    static constexpr std::int64_t kLine = 64 / kBytes;
    C* next_;
  };

  /// How many keys query t sees.
  std::int64_t visible(std::int64_t t) const {
    return a_.causal ? std::clamp<std::int64_t>(t + 1 + a_.keys - a_.queries, 0, a_.keys) : a_.keys;
  }
  const float* mask_row(std::int64_t b, std::int64_t h, std::int64_t t) const {
    return a_.mask == nullptr ? nullptr : a_.mask + b * a_.mask_batch + h * a_.mask_head + t * a_.mask_query;
  }
  static const T* token(const AttentionArgs::Tokens& x, std::int64_t tokens, std::int64_t b, std::int64_t t,
                        std::int64_t h) {
    return static_cast<const T*>(x.data) + (b * tokens + t) * x.token + h * x.head;
  }
  static T* token(const AttentionBackward::Gradient& x, std::int64_t tokens, std::int64_t b, std::int64_t t,
                  std::int64_t h) {
    return static_cast<T*>(x.data) + (b * tokens + t) * x.token + h * x.head;
  }

  void pack(const PackedB<Lane>& panels, const AttentionArgs::Tokens& x, std::int64_t b, std::int64_t head) const {
    for (std::int64_t p = 0; p < panels.panels(); ++p)
      panels.pack(p, token(x, a_.keys, b, 0, head), 1, x.token, a_.depth);
  }
  void widen(const AttentionArgs::Tokens& x, std::int64_t tokens, std::int64_t b, std::int64_t head, std::int64_t first,
             std::int64_t count, const Rows<C>& to) const {
    for (std::int64_t i = 0; i < count; ++i) to_lanes<Lane>(token(x, tokens, b, first + i, head), a_.depth, to.row(i));
  }
  void write(const C* from, C factor, T* to, Seen& results) const {
    std::int64_t d = 0;
    if constexpr (!std::is_same_v<T, double>)
      for (; d + kLanes<float> <= a_.depth; d += kLanes<float>) {
        const VFloat x = load_vector<float>(from + d) * factor;
        results.add(x);
        store_from_float(to + d, x);
      }
    for (; d < a_.depth; ++d) {
      results.add(from[d] * factor);
      to[d] = store<T>(from[d] * factor);
    }
  }

  static void tiles(TileArgs<Lane>& tile, const C* a, std::int64_t rows, C* c) {
    const EvenTiles<Lane> even(rows);
    for (std::int64_t i = 0; i < even.tiles; ++i) {
      tile.a = reinterpret_cast<const char*>(a) + even.begin(i) * tile.a_row;
      tile.c = c + even.begin(i) * tile.c_row;
      run_tile(tile, static_cast<int>(even.begin(i + 1) - even.begin(i)));
    }
  }

  /// to (rows, columns) = x (rows, depth) panels (depth, columns).
  static void multiply_panels(const Rows<C>& x, std::int64_t rows, std::int64_t depth, const PackedB<Lane>& panels,
                              std::int64_t columns, const Rows<C>& to) {
    TileArgs<Lane> tile;
    tile.a_row = x.pitch * kBytes;
    tile.a_step = kBytes;
    tile.depth = depth;
    tile.c_row = to.pitch;
    for (std::int64_t p = 0; p * kWide < columns; ++p) {
      tile.b = panels.panel(p);
      tile.b_step = panels.step_bytes(p);
      tile.columns = panels.width(p);
      tiles(tile, x.data, rows, to.data + p * kWide);
    }
  }

  /// to (rows, depth) (+)= x (rows, k) y (k, depth); element (i, k) of x lies at x[i * x_row + k * x_step].
  void multiply(const C* x, std::int64_t x_row, std::int64_t x_step, std::int64_t rows, std::int64_t k,
                const Rows<C>& y, const Rows<C>& to, bool accumulate) const {
    TileArgs<Lane> tile;
    tile.a_row = x_row * kBytes;
    tile.a_step = x_step * kBytes;
    tile.depth = k;
    tile.b_step = y.pitch * kBytes;
    tile.c_row = to.pitch;
    tile.accumulate = accumulate;
    for (std::int64_t d = 0; d < a_.depth; d += kWide) {
      tile.b = reinterpret_cast<const char*>(y.data + d);
      tile.columns = static_cast<int>(std::min<std::int64_t>(kWide, a_.depth - d));
      tiles(tile, x, rows, to.data + d);
    }
  }

  /// Whether rows [begin, end) hold numbers only.
  bool finite(const Rows<C>& x, std::int64_t begin, std::int64_t end) const {
    bool all = true;
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t d = 0; d < a_.depth; ++d) all &= std::abs(x.row(i)[d]) <= std::numeric_limits<C>::max();
    return all;
  }

  /// to = x y for rows [first, first + rows) of the queries, x holding 0 for keys that a row does not see. Where a key
  /// that only some of the rows see is not finite, 0 times it would be NaN: there row by row.
  void multiply_seen(const Rows<C>& x, std::int64_t first, std::int64_t rows, const Rows<C>& y,
                     const Rows<C>& to) const {
    const std::int64_t seen = visible(first + rows - 1);
    if (finite(y, visible(first), seen)) return multiply(x.data, logit_pitch_, 1, rows, seen, y, to, false);
    for (std::int64_t r = 0; r < rows; ++r)
      multiply(x.row(r), logit_pitch_, 1, 1, visible(first + r), y, {to.row(r), to.pitch}, false);
  }

  /// to += transposed x times y, the same in the other direction: a row that is not finite reaches the keys it sees.
  void add_to_seen(const Rows<C>& x, std::int64_t first, std::int64_t rows, const Rows<C>& y, const Rows<C>& to) const {
    const std::int64_t seen = visible(first + rows - 1);
    if (visible(first) == seen || finite(y, 0, rows)) return multiply(x.data, 1, logit_pitch_, seen, rows, y, to, true);
    for (std::int64_t r = 0; r < rows; ++r)
      multiply(x.row(r), 1, logit_pitch_, visible(first + r), 1, {y.row(r), y.pitch}, to, true);
  }

  C dot(const C* x, const C* y) const {
    C sum = 0;
    std::int64_t d = 0;
    if constexpr (std::is_same_v<C, float>) {
      VFloat lanes{};
      for (; d + kLanes<float> <= a_.depth; d += kLanes<float>)
        lanes = multiply_add(load_vector<float>(x + d), load_vector<float>(y + d), lanes);
      sum = sum_lanes(lanes);
    }
    for (; d < a_.depth; ++d) sum += x[d] * y[d];
    return sum;
  }

  void round_row(C* row, std::int64_t count) const {
    if constexpr (kHalf) {
      std::int64_t s = 0;
      for (; s + kLanes<float> <= count; s += kLanes<float>) {
        T rounded[kLanes<float>];
        store_from_float(rounded, load_vector<float>(row + s));
        store_vector<float>(row + s, load_as_float(rounded));
      }
      for (; s < count; ++s) row[s] = load(store<T>(row[s]));
    }
  }

  /// Scales and masks `count` products in place: logits.
  void logits(float* row, std::int64_t count, const float* mask) const {
    std::int64_t s = 0;
    for (; s + kLanes<float> <= count; s += kLanes<float>) {
      VFloat x = load_vector<float>(row + s) * scale_;
      if (mask != nullptr) x += load_vector<float>(mask + s);
      store_vector<float>(row + s, x);
    }
    for (; s < count; ++s) row[s] = row[s] * scale_ + (mask != nullptr ? mask[s] : 0.0f);
  }
  void logits(double* row, std::int64_t count, const float* mask) const {
    for (std::int64_t s = 0; s < count; ++s)
      row[s] = row[s] * scale_ + (mask != nullptr ? static_cast<double>(mask[s]) : 0.0);
  }

  /// row = exp(row - shift), the sum of which is returned.
  static float exponentials(float* row, std::int64_t count, float shift) {
    VFloat sums{};
    std::int64_t s = 0;
    for (; s + kLanes<float> <= count; s += kLanes<float>) {
      const VFloat p = exp(load_vector<float>(row + s) - shift);
      store_vector<float>(row + s, p);
      sums += p;
    }
    float sum = sum_lanes(sums);
    if (s < count) {
      const int left = static_cast<int>(count - s);
      const VFloat p = exp(load_part(row + s, left) - shift);
      store_part(row + s, p, left);
      for (int i = 0; i < left; ++i) sum += p[i];
    }
    return sum;
  }
  static double exponentials(double* row, std::int64_t count, double shift) {
    double sum = 0;
    for (std::int64_t s = 0; s < count; ++s) sum += row[s] = std::exp(row[s] - shift);
    return sum;
  }

  static C largest(const C* row, std::int64_t count) {
    constexpr C kLowest = -std::numeric_limits<C>::infinity();
    C best = kLowest;
    std::int64_t s = 0;
    if constexpr (std::is_same_v<C, float>) {
      VFloat lanes = splat(kLowest);
      for (; s + kLanes<float> <= count; s += kLanes<float>) {
        const VFloat x = load_vector<float>(row + s);
        lanes = x > lanes ? x : lanes;  // a NaN is left out here and comes back through its exponential
      }
      for (int i = 0; i < kLanes<float>; ++i) best = std::max(best, lanes[i]);
    }
    for (; s < count; ++s) best = row[s] > best ? row[s] : best;
    return best;
  }

  static bool hides_all(const float* mask, std::int64_t count) {
    if (mask == nullptr) return count == 0;
    for (std::int64_t s = 0; s < count; ++s)
      if (mask[s] != -std::numeric_limits<float>::infinity()) return false;
    return true;
  }

  /// Products become exponentials; returns what makes them probabilities (0 for a row that sees nothing).
  C softmax_row(C* row, std::int64_t count, const float* mask, C& lse) const {
    logits(row, count, mask);
    const C highest = largest(row, count);
    const bool nothing = highest == -std::numeric_limits<C>::infinity() && hides_all(mask, count);
    const C shift = nothing ? C(0) : highest;
    const C sum = exponentials(row, count, shift);
    lse = sum == C(0) ? std::numeric_limits<C>::infinity() : shift + std::log(sum);
    return sum == C(0) ? C(0) : C(1) / sum;
  }

  /// The dropout factor of count keys of row (b, h, t): calls body(s, factor).
  template <class F>
  void for_factors(std::int64_t count, std::int64_t b, std::int64_t h, std::int64_t t, F&& body) const {
    const std::uint64_t base = static_cast<std::uint64_t>(((b * a_.heads + h) * a_.queries + t) * a_.keys);
    std::array<std::uint32_t, 4> words{};
    for (std::int64_t s = 0; s < count; ++s) {
      const std::uint64_t i = base + static_cast<std::uint64_t>(s);
      if (s == 0 || i % 4 == 0) words = a_.rng.block(i / 4);
      const float uniform = static_cast<float>(words[i % 4] >> 8) * 0x1p-24f;
      body(s, uniform >= a_.dropout ? keep_ : C(0));
    }
  }
  void drop(C* row, std::int64_t count, std::int64_t b, std::int64_t h, std::int64_t t) const {
    for_factors(count, b, h, t, [&](std::int64_t s, C factor) { row[s] *= factor; });
  }

  /// From products q.k and gy.v of one row: p becomes dropout(p) and gp the gradient of the logits p (gp - delta);
  /// both 0 from the last visible key to `seen`.
  void logit_gradients(C* p, C* gp, std::int64_t seen, C lse, C delta, std::int64_t b, std::int64_t h,
                       std::int64_t t) const {
    const std::int64_t count = visible(t);
    logits(p, count, mask_row(b, h, t));
    exponentials(p, count, lse);
    if (a_.dropout > 0) {
      for_factors(count, b, h, t, [&](std::int64_t s, C factor) {
        gp[s] = p[s] * (gp[s] * factor - delta);
        p[s] *= factor;
      });
    } else {
      for (std::int64_t s = 0; s < count; ++s) gp[s] = p[s] * (gp[s] - delta);
    }
    round_row(p, count);
    round_row(gp, count);
    std::fill(p + count, p + seen, C(0));
    std::fill(gp + count, gp + seen, C(0));
  }

  const AttentionArgs& a_;
  std::int64_t pitch_, logit_pitch_, group_;
  C scale_, keep_;
};

template <class F>
void dispatch(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64: return f.template operator()<DoubleLane, double>();
    case DType::f16: return f.template operator()<FloatLane, float16>();
    case DType::bf16: return f.template operator()<FloatLane, bfloat16>();
    default: return f.template operator()<FloatLane, float>();
  }
}

void forward(const AttentionForward& f) {
  const AttentionArgs& a = f.args;
  if (a.batch * a.queries * a.heads * a.depth == 0) return;
  dispatch(a.dtype, [&]<class Lane, class T>() { Attention<Lane, T>(a).forward(f); });
}

void backward(const AttentionBackward& g) {
  const AttentionArgs& a = g.args;
  if (a.batch * a.key_heads * a.depth == 0) return;
  dispatch(a.dtype, [&]<class Lane, class T>() { Attention<Lane, T>(a).backward(g); });
}

}  // namespace

const AttentionKernels& attention_kernels() {
  static constexpr AttentionKernels kernels{&forward, &backward};
  return kernels;
}

}  // namespace binade::cpu::BINADE_ISA
