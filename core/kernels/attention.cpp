#include "core/kernels/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/kernels/image.h"
#include "core/kernels/lane_types.h"
#include "core/kernels/lanes.h"
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

constexpr std::int64_t kEnoughTasks = 16;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

/// Rows of values, `pitch` apart.
template <class V>
struct Rows {
  V* data = nullptr;
  std::int64_t pitch = 0;
  V* row(std::int64_t i) const { return data + i * pitch; }
};

template <class Lane, class T>
class Attention {
  using C = typename Lane::Accumulator;
  using Stored = typename Lane::Stored;
  using Panels = PackedB<Lane>;
  using Unit = TileUnit<Lane>;
  static constexpr int kWide = kTileColumns<Lane>;
  static constexpr std::int64_t kQueryRows = (Lane::kGroup > 1 ? 2 : 4) * kTileRows<Lane>;
  static constexpr bool kPairs = Lane::kDepth == 2;  ///< operands are pairs of T; else single values of C
  static constexpr std::int64_t kBytes = sizeof(Stored);
  static constexpr std::int32_t kInfinityBits = 0x7f800000;
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
    // One task makes the panels of a head once for all its rows, unless that leaves threads idle.
    const std::int64_t cuts = std::clamp<std::int64_t>(kEnoughTasks / (a_.batch * a_.heads), 1, row_blocks);
    parallel_blocks(a_.batch * a_.heads * cuts, [&](std::int64_t task) {
      const std::int64_t cut = task % cuts, h = task / cuts % a_.heads, b = task / cuts / a_.heads;
      const Tokens k{a_.k, a_.keys, b, h / group_}, v{a_.v, a_.keys, b, h / group_}, q{a_.q, a_.queries, b, h};
      Seen results(kDTypeOf<T>);
      Unit unit;
      Arena arena(ScratchSlot::kImage, 2 * logit_pitch_ * pitch_ + kQueryRows * (2 * pitch_ + 2 * logit_pitch_ + 1));
      const Panels keys = columns_of(k, arena), values = rows_of(v, 0, a_.keys, arena.take(panel_size()));
      const Rows<Stored> queries{arena.take(kQueryRows * pitch_), pitch_};
      const Rows<C> y{arena.template take<C>(kQueryRows * pitch_), pitch_},
          p{arena.template take<C>(kQueryRows * logit_pitch_), logit_pitch_};
      const Rows<Stored> p_operand = operand_rows(p, arena);
      for (std::int64_t block = cut * row_blocks / cuts; block < (cut + 1) * row_blocks / cuts; ++block) {
        const std::int64_t first = block * a_.queries / row_blocks,
                           rows = (block + 1) * a_.queries / row_blocks - first;
        const std::int64_t seen = visible(first + rows - 1);
        copy(q, first, rows, queries);
        multiply(left(queries), rows, a_.depth, keys, seen, p, false, unit);
        C inverse[kQueryRows];
        for (std::int64_t r = 0; r < rows; ++r) {
          const std::int64_t t = first + r;
          C lse = 0;
          inverse[r] = softmax_row(p.row(r), p_operand.row(r), visible(t), mask_row(b, h, t), lse);
          if (a_.dropout > 0) drop(p.row(r), p_operand.row(r), b, h, t);
          clear_behind(p.row(r), p_operand.row(r), visible(t), seen);
          if (f.lse != nullptr) static_cast<C*>(f.lse)[(b * a_.heads + h) * a_.queries + t] = lse;
        }
        multiply_seen(p_operand, first, rows, v, values, y, unit);
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
      const Tokens k{a_.k, a_.keys, b, kh}, v{a_.v, a_.keys, b, kh};
      Seen results(kDTypeOf<T>);
      Unit unit;
      Arena arena(ScratchSlot::kImage,
                  3 * logit_pitch_ * pitch_ + (2 * a_.keys + 4 * kQueryRows) * pitch_ + 5 * kQueryRows * logit_pitch_);
      const Panels key_columns = columns_of(k, arena), value_columns = columns_of(v, arena);
      const Panels keys = rows_of(k, 0, a_.keys, arena.take(panel_size()));
      const Rows<C> gk{arena.template take<C>(a_.keys * pitch_), pitch_},
          gv{arena.template take<C>(a_.keys * pitch_), pitch_};
      for (const Rows<C>& sums : {gk, gv}) std::fill(sums.data, sums.data + a_.keys * pitch_, C(0));
      const Rows<Stored> operand{arena.take(kQueryRows * pitch_), pitch_};
      const Rows<C> gq{arena.template take<C>(kQueryRows * pitch_), pitch_},
          p{arena.template take<C>(kQueryRows * logit_pitch_), logit_pitch_},
          gp{arena.template take<C>(kQueryRows * logit_pitch_), logit_pitch_};
      const Rows<Stored> p_operand = operand_rows(p, arena), gp_operand = operand_rows(gp, arena);
      const Work work{arena.take(kQueryRows * pitch_), arena.take(kPairs ? kQueryRows * logit_pitch_ : 0)};
      for (std::int64_t h = kh * group_; h < (kh + 1) * group_ && row_blocks > 0; ++h) {
        const Tokens q{a_.q, a_.queries, b, h}, gy{g.gy, a_.queries, b, h}, y{g.y, a_.queries, b, h};
        for (std::int64_t block = 0; block < row_blocks; ++block) {
          const std::int64_t first = block * a_.queries / row_blocks,
                             rows = (block + 1) * a_.queries / row_blocks - first;
          const std::int64_t seen = visible(first + rows - 1);
          copy(q, first, rows, operand);
          multiply(left(operand), rows, a_.depth, key_columns, seen, p, false, unit);
          copy(gy, first, rows, operand);
          multiply(left(operand), rows, a_.depth, value_columns, seen, gp, false, unit);
          for (std::int64_t r = 0; r < rows; ++r) {
            const std::int64_t t = first + r;
            const C lse = static_cast<const C*>(g.lse)[(b * a_.heads + h) * a_.queries + t];
            logit_gradients(p.row(r), p_operand.row(r), gp.row(r), gp_operand.row(r), lse, dot(gy.at(t), y.at(t)), b, h,
                            t);
            clear_behind(p.row(r), p_operand.row(r), visible(t), seen);
            clear_behind(gp.row(r), gp_operand.row(r), visible(t), seen);
          }
          if (g.gv.data != nullptr) add_to_seen(p_operand, first, rows, gy, gv, work, unit);
          if (g.gk.data != nullptr) add_to_seen(gp_operand, first, rows, q, gk, work, unit);
          if (g.gq.data != nullptr) {
            multiply_seen(gp_operand, first, rows, k, keys, gq, unit);
            for (std::int64_t r = 0; r < rows; ++r)
              write(gq.row(r), scale_, token(g.gq, a_.queries, b, first + r, h), results);
          }
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
    template <class V = Stored>
    V* take(std::int64_t count) {
      static_assert(sizeof(V) == sizeof(C));
      void* piece = next_;
      next_ += round_up(count, kLine);
      return static_cast<V*>(piece);
    }

   private:
    static constexpr std::int64_t kLine = 64 / sizeof(C);
    C* next_;
  };

  /// The tokens of one head of one sample.
  struct Tokens {
    const AttentionArgs::Tokens& x;
    std::int64_t tokens, b, head;
    const T* at(std::int64_t t) const {
      return static_cast<const T*>(x.data) + (b * tokens + t) * x.token + head * x.head;
    }
  };

  /// Rows of the left operand of a product: lanes `step` bytes apart, rows `row`; packed tiles `tile` apart (0: none).
  struct Left {
    const char* data;
    std::int64_t row, step, tile;
  };

  /// Room of one task for the operands that add_to_seen() makes.
  struct Work {
    Stored* panels;
    Stored* transposed;
  };

  /// How many keys query t sees.
  std::int64_t visible(std::int64_t t) const {
    return a_.causal ? std::clamp<std::int64_t>(t + 1 + a_.keys - a_.queries, 0, a_.keys) : a_.keys;
  }
  const float* mask_row(std::int64_t b, std::int64_t h, std::int64_t t) const {
    return a_.mask == nullptr ? nullptr : a_.mask + b * a_.mask_batch + h * a_.mask_head + t * a_.mask_query;
  }
  static T* token(const AttentionBackward::Gradient& x, std::int64_t tokens, std::int64_t b, std::int64_t t,
                  std::int64_t h) {
    return static_cast<T*>(x.data) + (b * tokens + t) * x.token + h * x.head;
  }

  std::int64_t panel_size() const { return logit_pitch_ * pitch_; }

  /// Tokens as the columns of a right operand: (depth, keys).
  Panels columns_of(const Tokens& x, Arena& arena) const {
    const Panels panels{a_.keys, ceil_div(a_.depth, Lane::kDepth), arena.take(panel_size())};
    for (std::int64_t p = 0; p < panels.panels(); ++p) panels.pack(p, x.at(0), 1, x.x.token, a_.depth);
    return panels;
  }
  /// Tokens [first, first + count) as its rows: (count, depth).
  Panels rows_of(const Tokens& x, std::int64_t first, std::int64_t count, Stored* room) const {
    const Panels panels{a_.depth, ceil_div(count, Lane::kDepth), room};
    for (std::int64_t p = 0; p < panels.panels() && count > 0; ++p) panels.pack(p, x.at(first), x.x.token, 1, count);
    return panels;
  }
  /// Tokens as the rows of a left operand.
  void copy(const Tokens& x, std::int64_t first, std::int64_t count, const Rows<Stored>& to) const {
    for (std::int64_t i = 0; i < count; ++i) to_lanes<Lane>(x.at(first + i), a_.depth, to.row(i));
  }
  static Left left(const Rows<Stored>& x) {
    return {reinterpret_cast<const char*>(x.data), x.pitch * kBytes, kBytes, 0};
  }
  /// The first `count` columns of x (rows, …) as rows. `room` is for pairs, which have to be made anew.
  static Left transposed(const Rows<Stored>& x, std::int64_t rows, std::int64_t count, Stored* room) {
    if constexpr (!kPairs) {
      return {reinterpret_cast<const char*>(x.data), kBytes, x.pitch * kBytes, 0};
    } else {
      const std::int64_t size = round_up(ceil_div(rows, 2), Lane::kGroup) * kTileRows<Lane>;
      const EvenTiles<Lane> even(count);
      const T* values = reinterpret_cast<const T*>(x.data);
      for (std::int64_t i = 0; i < even.tiles; ++i)
        pack_rows<Lane>(values + even.begin(i), 1, 2 * x.pitch, even.begin(i + 1) - even.begin(i), rows,
                        room + i * size);
      return {reinterpret_cast<const char*>(room), Lane::kGroup * kBytes, kTileRows<Lane> * kBytes, size * kBytes};
    }
  }

  /// Where the operands of p's rows lie: in place, or apart as pairs.
  Rows<Stored> operand_rows(const Rows<C>& p, Arena& arena) const {
    if constexpr (kPairs)
      return {arena.take(kQueryRows * logit_pitch_ / 2), logit_pitch_ / 2};
    else
      return p;
  }
  /// Values of a row from key s on, as the next product reads them: rounded to T, in place or as pairs.
  template <class P>
  [[gnu::always_inline]] static void put_operand(C* row, [[maybe_unused]] Stored* operand, std::int64_t s,
                                                 const Vector<C>& x, P part) {
    if constexpr (kPairs) {
      put(reinterpret_cast<T*>(operand) + s, x, part);
    } else if constexpr (kHalf) {
      T rounded[kLanes<float>];
      store_from_float(rounded, x);
      put(row + s, load_as_float(rounded), part);
    } else {
      put(row + s, x, part);
    }
  }
  /// Zeros behind the first `count` values of a row, up to what `seen` keys need.
  static void clear_behind(C* row, [[maybe_unused]] Stored* operand, std::int64_t count, std::int64_t seen) {
    if constexpr (kPairs)
      std::memset(static_cast<void*>(reinterpret_cast<T*>(operand) + count), 0,
                  static_cast<std::size_t>(round_up(seen, 2) - count) * sizeof(T));
    else
      std::fill(row + count, row + seen, C(0));
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

  /// to (rows, columns) (+)= x (rows, k) panels (k, columns).
  static void multiply(const Left& x, std::int64_t rows, std::int64_t k, const Panels& panels, std::int64_t columns,
                       const Rows<C>& to, bool accumulate, Unit& unit) {
    TileArgs<Lane> tile;
    tile.a_row = x.row;
    tile.a_step = x.step;
    tile.depth = ceil_div(k, Lane::kDepth);
    tile.c_row = to.pitch;
    tile.accumulate = accumulate;
    const EvenTiles<Lane> even(rows);
    for (std::int64_t p = 0; p * kWide < columns; ++p) {
      tile.b = panels.panel(p);
      tile.b_step = panels.step_bytes(p);
      tile.columns = panels.width(p);
      for (std::int64_t i = 0; i < even.tiles; ++i) {
        tile.a = x.data + (x.tile != 0 ? i * x.tile : even.begin(i) * x.row);
        tile.c = to.data + even.begin(i) * to.pitch + p * kWide;
        unit.run(tile, static_cast<int>(even.begin(i + 1) - even.begin(i)));
      }
    }
  }

  /// Whether tokens [begin, end) hold numbers only.
  bool finite(const Tokens& x, std::int64_t begin, std::int64_t end) const {
    bool all = true;
    for (std::int64_t i = begin; i < end; ++i) {
      const T* values = x.at(i);
      std::int64_t d = 0;
      if constexpr (!std::is_same_v<T, double>) {
        VFloat largest{};
        for (; d + kLanes<float> <= a_.depth; d += kLanes<float>)
          largest = larger_magnitude(largest, load_as_float(values + d));
        const VInt beyond = (VInt)largest >= kInfinityBits;
        for (int lane = 0; lane < kLanes<float>; ++lane) all &= beyond[lane] == 0;
      }
      for (; d < a_.depth; ++d) all &= std::abs(load(values[d])) <= std::numeric_limits<C>::max();
    }
    return all;
  }

  /// to = x v for rows [first, first + rows) of the queries, x holding 0 for keys that a row does not see. Where a key
  /// that only some of the rows see is not finite, 0 times it would be NaN: there row by row.
  void multiply_seen(const Rows<Stored>& x, std::int64_t first, std::int64_t rows, const Tokens& v,
                     const Panels& values, const Rows<C>& to, Unit& unit) const {
    const std::int64_t seen = visible(first + rows - 1);
    if (finite(v, visible(first), std::min(a_.keys, round_up(seen, Lane::kDepth))))
      return multiply(left(x), rows, seen, values, a_.depth, to, false, unit);
    Stored* room = scratch_of<Stored>(ScratchSlot::kPackedB, static_cast<std::size_t>(panel_size()));
    for (std::int64_t r = 0; r < rows; ++r) {
      const Panels own = rows_of(v, 0, visible(first + r), room);
      multiply(left({x.row(r), x.pitch}), 1, visible(first + r), own, a_.depth, {to.row(r), to.pitch}, false, unit);
    }
  }

  /// to += transposed x times the rows of y, the same in the other direction: a row that is not finite reaches the keys
  /// it sees.
  void add_to_seen(const Rows<Stored>& x, std::int64_t first, std::int64_t rows, const Tokens& y, const Rows<C>& to,
                   const Work& work, Unit& unit) const {
    const auto add = [&](std::int64_t r, std::int64_t count, std::int64_t keys) {
      const Panels panels = rows_of(y, first + r, count, work.panels);
      multiply(transposed({x.row(r), x.pitch}, count, keys, work.transposed), keys, count, panels, a_.depth, to, true,
               unit);
    };
    const std::int64_t seen = visible(first + rows - 1);
    if (visible(first) == seen || finite(y, first, first + rows)) return add(0, rows, seen);
    for (std::int64_t r = 0; r < rows; ++r) add(r, 1, visible(first + r));
  }

  C dot(const T* x, const T* y) const {
    C sum = 0;
    std::int64_t d = 0;
    if constexpr (std::is_same_v<C, float>) {
      VFloat lanes{};
      for (; d + kLanes<float> <= a_.depth; d += kLanes<float>)
        lanes = multiply_add(load_as_float(x + d), load_as_float(y + d), lanes);
      sum = sum_lanes(lanes);
    }
    for (; d < a_.depth; ++d) sum += load(x[d]) * load(y[d]);
    return sum;
  }

  /// Products of one row, from key s on, scaled and masked.
  template <class P>
  [[gnu::always_inline]] Vector<C> logits(const C* row, const float* mask, std::int64_t s, P part) const {
    Vector<C> x = get(row + s, part) * scale_;
    if (mask == nullptr) return x;
    if constexpr (std::is_same_v<C, float>)
      return x + get(mask + s, part);
    else
      return x + widened(mask + s, part);
  }
  static Vector<double> widened(const float* from, Full) { return widened(from, Part{kLanes<double>}); }
  static Vector<double> widened(const float* from, Part part) {
    Vector<double> x{};
    for (int i = 0; i < part.count; ++i) x[i] = static_cast<double>(from[i]);
    return x;
  }

  [[gnu::always_inline]] static VFloat exponential(VFloat x) { return exp(x); }
  static Vector<double> exponential(Vector<double> x) {
    for (int i = 0; i < kLanes<double>; ++i) x[i] = std::exp(x[i]);
    return x;
  }

  /// The largest of the products, scaled and masked; a NaN is left out here and comes back through its exponential.
  C largest_logit(const C* row, std::int64_t count, const float* mask) const {
    constexpr C kLowest = -std::numeric_limits<C>::infinity();
    Vector<C> top = splat(kLowest);
    each_group<C>(
        count, [&](std::int64_t s, auto part) __attribute__((always_inline)) {
          const Vector<C> x = keep(logits(row, mask, s, part), part, -std::numeric_limits<float>::infinity());
          top = x > top ? x : top;
        });
    return fold_lanes(
        top, [](const auto& a, const auto& b) __attribute__((always_inline)) { return a > b ? a : b; });
  }

  static bool hides_all(const float* mask, std::int64_t count) {
    if (mask == nullptr) return count == 0;
    for (std::int64_t s = 0; s < count; ++s)
      if (mask[s] != -std::numeric_limits<float>::infinity()) return false;
    return true;
  }

  /// Products become exponentials, operands already unless they will be dropped; returns what makes them probabilities
  /// (0 for a row that sees nothing).
  C softmax_row(C* row, Stored* operand, std::int64_t count, const float* mask, C& lse) const {
    const C highest = largest_logit(row, count, mask);
    const bool nothing = highest == -std::numeric_limits<C>::infinity() && hides_all(mask, count);
    const C shift = nothing ? C(0) : highest;
    Vector<C> sums{};
    const auto exponentials = [&](auto&& keep_them) __attribute__((always_inline)) {
      each_group<C>(
          count, [&](std::int64_t s, auto part) __attribute__((always_inline)) {
            const Vector<C> p = exponential(logits(row, mask, s, part) - shift);
            sums += keep(p, part);
            keep_them(s, p, part);
          });
    };
    if (a_.dropout > 0)
      exponentials([&](std::int64_t s, const Vector<C>& p, auto part) { put(row + s, p, part); });
    else
      exponentials([&](std::int64_t s, const Vector<C>& p, auto part) { put_operand(row, operand, s, p, part); });
    const C sum = sum_lanes(sums);
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
  void drop(C* row, Stored* operand, std::int64_t b, std::int64_t h, std::int64_t t) const {
    for_factors(visible(t), b, h, t, [&](std::int64_t s, C factor) { row[s] *= factor; });
    each_group<C>(visible(t),
                  [&](std::int64_t s, auto part) { put_operand(row, operand, s, get(row + s, part), part); });
  }

  /// From products q.k and gy.v of one row: operands dropout(p) and p (gp - delta), the gradient of the logits.
  void logit_gradients(C* p, Stored* p_operand, C* gp, Stored* gp_operand, C lse, C delta, std::int64_t b,
                       std::int64_t h, std::int64_t t) const {
    const std::int64_t count = visible(t);
    const float* mask = mask_row(b, h, t);
    if (a_.dropout == 0) {
      each_group<C>(
          count, [&](std::int64_t s, auto part) __attribute__((always_inline)) {
            const Vector<C> x = exponential(logits(p, mask, s, part) - lse);
            put_operand(gp, gp_operand, s, x * (get(gp + s, part) - delta), part);
            put_operand(p, p_operand, s, x, part);
          });
      return;
    }
    each_group<C>(count,
                  [&](std::int64_t s, auto part) { put(p + s, exponential(logits(p, mask, s, part) - lse), part); });
    for_factors(count, b, h, t, [&](std::int64_t s, C factor) {
      gp[s] = p[s] * (gp[s] * factor - delta);
      p[s] *= factor;
    });
    each_group<C>(count, [&](std::int64_t s, auto part) {
      put_operand(gp, gp_operand, s, get(gp + s, part), part);
      put_operand(p, p_operand, s, get(p + s, part), part);
    });
  }

  const AttentionArgs& a_;
  std::int64_t pitch_, logit_pitch_, group_;
  C scale_, keep_;
};

void forward(const AttentionForward& f) {
  const AttentionArgs& a = f.args;
  if (a.batch * a.queries * a.heads * a.depth == 0) return;
  dispatch_lane(a.dtype, [&]<class Lane, class T>() { Attention<Lane, T>(a).forward(f); });
}

void backward(const AttentionBackward& g) {
  const AttentionArgs& a = g.args;
  if (a.batch * a.key_heads * a.depth == 0) return;
  dispatch_lane(a.dtype, [&]<class Lane, class T>() { Attention<Lane, T>(a).backward(g); });
}

}  // namespace

const AttentionKernels& attention_kernels() {
  static constexpr AttentionKernels kernels{&forward, &backward};
  return kernels;
}

}  // namespace binade::cpu::BINADE_ISA
