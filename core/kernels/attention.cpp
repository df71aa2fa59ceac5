#include "binade/core/kernels/attention.h"

#include <algorithm>
#include <type_traits>

#include "binade/core/kernels/attention_rows.h"
#include "binade/core/kernels/image.h"
#include "binade/core/kernels/lane_types.h"
#include "binade/core/kernels/pack.h"
#include "binade/core/kernels/scratch.h"
#include "binade/core/parallel.h"

/// Attention over tiles of query rows. A tile's logits for all of its keys stay in cache, so memory grows with the
/// number of keys, not with its square; the tiles of a causal head stop at the diagonal. Backward recomputes the logits
/// from q, k and the saved log-sum-exp (Dao et al., "FlashAttention", NeurIPS 2022). The gradients of k and v are
/// summed over blocks of several tiles, as matrices (depth, keys), because the gradients of the logits are then the
/// right operand of the product without being rearranged. Logits, softmax and sums are f32 (f64 for f64). For half
/// inputs, probabilities and gradients of logits are rounded to the input's dtype before the next product, as a Tensor
/// Core would read them.
namespace binade::cpu::BINADE_ISA {

const AttentionKernels& attention_kernels();

namespace {

constexpr std::int64_t kEnoughTasks = 16;         ///< wanted number of tasks, so that all threads have work
constexpr std::int64_t kBlockBytes = 256 * 1024;  ///< size of a block's right operands, so that they stay in L2

std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

/// Computes attention and its gradients in dtype T, with lanes of type Lane.
template <class Lane, class T>
class Attention {
  using C = typename Lane::Accumulator;
  using Stored = typename Lane::Stored;
  using Panels = PackedB<Lane>;
  using Unit = TileUnit<Lane>;
  static constexpr int kN = kLanes<C>;
  static constexpr int kWide = kTileColumns<Lane>;
  static constexpr std::int64_t kRows = kTileRows<Lane>;                  ///< query rows of a tile
  static constexpr std::int64_t kFewestTiles = Lane::kGroup > 1 ? 2 : 4;  ///< fewest tiles of a block
  static constexpr bool kPairs = Lane::kDepth == 2;  ///< operands are pairs of T, otherwise single values of C
  static constexpr std::int64_t kBytes = sizeof(Stored);
  static_assert(kRows % Lane::kDepth == 0);

 public:
  explicit Attention(const AttentionArgs& args)
      : a_(args),
        rows_(args),
        pitch_(round_up(args.depth, kWide)),
        // A row consists of an odd number of panels: rows that are a power of two apart would map to few cache sets.
        logit_pitch_((ceil_div(args.keys, kWide) | 1) * kWide),
        tiles_(ceil_div(args.queries, kRows)),
        group_(args.heads / args.key_heads),
        scale_(static_cast<C>(args.scale)) {}

  void forward(const AttentionForward& f) const {
    // One task packs the keys and values of a head once for all of its rows, unless that would leave threads idle.
    const std::int64_t cuts = std::clamp<std::int64_t>(kEnoughTasks / (a_.batch * a_.heads), 1, tiles_);
    parallel_blocks(a_.batch * a_.heads * cuts, [&](std::int64_t task) {
      const std::int64_t cut = task % cuts, h = task / cuts % a_.heads, b = task / cuts / a_.heads;
      const Tokens k{a_.k, a_.keys, b, h / group_}, v{a_.v, a_.keys, b, h / group_}, q{a_.q, a_.queries, b, h};
      AmaxObserver results(kDTypeOf<T>);
      Unit unit;
      Arena arena(ScratchSlot::kImage, 2 * (panel_size() + kRows * pitch_) + (2 * kRows + 1) * logit_pitch_);
      const Panels keys = columns_of(k, arena), values = rows_of(v, 0, a_.keys, arena.take(panel_size()));
      const Rows<Stored> queries{arena.take(kRows * pitch_), pitch_};
      const Rows<C> y{arena.template take<C>(kRows * pitch_), pitch_};
      const Rows<C> p = logits(kRows, arena), factors = logits(a_.dropout > 0 ? 1 : 0, arena);
      const Rows<Stored> p_operand = left_operands(p, arena);
      for (std::int64_t tile = cut * tiles_ / cuts; tile < (cut + 1) * tiles_ / cuts; ++tile) {
        const std::int64_t first = tile_begin(tile), rows = tile_begin(tile + 1) - first;
        const std::int64_t visible = rows_.visible(first + rows - 1);
        multiply(left(q, first, rows, queries), rows, a_.depth, keys, visible, p, unit);
        C inverse[kRows];
        C* lse = f.lse == nullptr ? nullptr : static_cast<C*>(f.lse) + (b * a_.heads + h) * a_.queries + first;
        rows_.softmax({b, h, first, rows, round_up(visible, kWide)}, p, p_operand, factors.data, lse, inverse);
        multiply_visible(p_operand, first, rows, v, values, y, unit);
        T* const to = static_cast<T*>(f.y) + (b * a_.queries + first) * f.y_token + h * f.y_head;
        write(y, rows, inverse, to, f.y_token, results);
      }
    });
  }

  void backward(const AttentionBackward& g) const {
    const std::int64_t row_bytes = 2 * logit_pitch_ * kBytes / Lane::kDepth;
    const std::int64_t block_tiles = std::max(kFewestTiles, kBlockBytes / (row_bytes * kRows));
    const std::int64_t blocks = ceil_div(tiles_, block_tiles);
    parallel_blocks(a_.batch * a_.key_heads, [&](std::int64_t task) {
      const std::int64_t kh = task % a_.key_heads, b = task / a_.key_heads;
      const Tokens k{a_.k, a_.keys, b, kh}, v{a_.v, a_.keys, b, kh};
      AmaxObserver results(kDTypeOf<T>);
      Unit unit;
      const Workspace work(*this, k, v, std::min(block_tiles, tiles_) * kRows);
      bool begun = false;
      for (std::int64_t h = kh * group_; h < (kh + 1) * group_ && blocks > 0; ++h) {
        const Tokens q{a_.q, a_.queries, b, h}, gy{g.gy, a_.queries, b, h};
        for (std::int64_t block = 0; block < blocks; ++block) {
          const std::int64_t first_tile = block * tiles_ / blocks, end_tile = (block + 1) * tiles_ / blocks;
          const std::int64_t begin = tile_begin(first_tile), end = tile_begin(end_tile);
          for (std::int64_t tile = first_tile; tile < end_tile; ++tile)
            logit_gradients(g, q, gy, k, tile, begin, work, unit, results);
          if (g.gv.data != nullptr) add_columns(gy, begin, end, work.p_right, work.gv, begun, work.columns, unit);
          if (g.gk.data != nullptr) add_columns(q, begin, end, work.gp_right, work.gk, begun, work.columns, unit);
          begun = true;
        }
      }
      if (!begun)
        for (const Rows<C>& sums : {work.gk, work.gv}) clear_columns(sums, 0);
      if (g.gk.data != nullptr) write_transposed(work.gk, scale_, g.gk, b, kh, results);
      if (g.gv.data != nullptr) write_transposed(work.gv, C(1), g.gv, b, kh, results);
    });
  }

 private:
  /// Allocates parts of one scratch slot, each on its own cache lines.
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

  /// The tokens (rows of q, k, v, y or gy) of one head of one sample.
  struct Tokens {
    const AttentionArgs::Tokens& x;
    std::int64_t tokens, b, head;
    const T* at(std::int64_t t) const {
      return static_cast<const T*>(x.data) + (b * tokens + t) * x.token + head * x.head;
    }
  };

  /// The left operand of a product. Its rows are `row` bytes apart, its lanes `step` bytes and its packed tiles `tile`
  /// bytes (0 if it is not packed).
  struct Left {
    const char* data;
    std::int64_t row, step, tile;
  };

  /// The operands that are packed from the keys and values of one head, and scratch for backward over blocks of
  /// `block_rows` queries.
  struct Workspace {
    Workspace(const Attention& x, const Tokens& k, const Tokens& v, std::int64_t block_rows)
        : arena(ScratchSlot::kImage,
                3 * x.panel_size() + x.transposed_size(block_rows) + 2 * kRows * x.pitch_ +
                    (2 * x.a_.depth + 2 * logit_rows(block_rows) + 2 * pair_rows(block_rows) + kRows + Lane::kDepth) *
                        x.logit_pitch_),
          key_columns(x.columns_of(k, arena)),
          value_columns(x.columns_of(v, arena)),
          keys(x.rows_of(k, 0, x.a_.keys, arena.take(x.panel_size()))),
          queries{arena.take(kRows * x.pitch_), x.pitch_},
          gq{arena.template take<C>(kRows * x.pitch_), x.pitch_},
          gk(x.logits(x.a_.depth, arena)),
          gv(x.logits(x.a_.depth, arena)),
          p(x.logits(logit_rows(block_rows), arena)),
          gp(x.logits(logit_rows(block_rows), arena)),
          factors(x.logits(x.a_.dropout > 0 ? Lane::kDepth : 0, arena)),
          p_right(x.right_operands(p, pair_rows(block_rows), arena)),
          gp_right(x.right_operands(gp, pair_rows(block_rows), arena)),
          gp_left(x.left_operands(gp, arena)),
          columns(arena.take(x.transposed_size(block_rows))) {}

    /// Number of rows of logits to keep. Pairs are packed from the logits of one tile, so one tile is enough; single
    /// values are used in place, so all rows of a block are kept.
    static std::int64_t logit_rows(std::int64_t block_rows) { return kPairs ? kRows : block_rows; }
    static std::int64_t pair_rows(std::int64_t block_rows) { return kPairs ? block_rows / 2 : 0; }

    Arena arena;
    Panels key_columns, value_columns, keys;
    Rows<Stored> queries;
    Rows<C> gq;      ///< gradients of one tile of queries
    Rows<C> gk, gv;  ///< gradients of keys and values (depth, keys)
    Rows<C> p, gp, factors;
    Rows<Stored> p_right, gp_right, gp_left;
    Stored* columns;
  };

  /// Processes one tile of queries, in the block that begins at query `begin`. Computes dropout(p) and the gradients of
  /// the logits, which add_columns() multiplies later, and stores the tile's rows of gq unless g.gq is null.
  void logit_gradients(const AttentionBackward& g, const Tokens& q, const Tokens& gy, const Tokens& k,
                       std::int64_t tile, std::int64_t begin, const Workspace& work, Unit& unit,
                       AmaxObserver& results) const {
    const std::int64_t first = tile_begin(tile), rows = tile_begin(tile + 1) - first, at = first - begin;
    const std::int64_t visible = rows_.visible(first + rows - 1);
    const auto tile_part = [&](const auto& logits) {
      return std::remove_cvref_t<decltype(logits)>{logits.row(kPairs ? 0 : at), logits.pitch};
    };
    const auto lanes = [&](const Rows<Stored>& right) {
      return Rows<Stored>{right.row(at / Lane::kDepth), right.pitch};
    };
    const Rows<C> p = tile_part(work.p), gp = tile_part(work.gp);
    const Rows<Stored> gp_left = tile_part(work.gp_left);
    multiply(left(q, first, rows, work.queries), rows, a_.depth, work.key_columns, visible, p, unit);
    multiply(left(gy, first, rows, work.queries), rows, a_.depth, work.value_columns, visible, gp, unit);
    C delta[kRows + kN];
    dots(gy, {g.y, a_.queries, q.b, q.head}, first, rows, delta);
    const C* lse = static_cast<const C*>(g.lse) + (q.b * a_.heads + q.head) * a_.queries + first;
    rows_.gradients({q.b, q.head, first, rows, round_up(visible, kWide)}, p, gp, lse, delta, work.factors,
                    {lanes(work.p_right), lanes(work.gp_right), gp_left});
    if (g.gq.data == nullptr) return;
    multiply_visible(gp_left, first, rows, k, work.keys, work.gq, unit);
    C scales[kRows];
    std::fill(scales, scales + kRows, scale_);
    write(work.gq, rows, scales, token(g.gq, a_.queries, q.b, first, q.head), g.gq.token, results);
  }

  /// Returns the first query of tile i. Tiles are as even as possible and begin at the first row of a lane.
  std::int64_t tile_begin(std::int64_t i) const {
    if constexpr (Lane::kGroup > 1) return std::min(i * kRows, a_.queries);
    return i == tiles_ ? a_.queries : i * ceil_div(a_.queries, Lane::kDepth) / tiles_ * Lane::kDepth;
  }
  static T* token(const AttentionBackward::Gradient& x, std::int64_t tokens, std::int64_t b, std::int64_t t,
                  std::int64_t h) {
    return static_cast<T*>(x.data) + (b * tokens + t) * x.token + h * x.head;
  }

  std::int64_t panel_size() const { return round_up(a_.keys, kWide) * pitch_ / Lane::kDepth; }
  /// Returns the number of elements of a left operand (depth, queries), packed in tiles.
  std::int64_t transposed_size(std::int64_t queries) const {
    return EvenTiles<Lane>(a_.depth).tiles * transposed_tile(queries);
  }
  static std::int64_t transposed_tile(std::int64_t queries) {
    return round_up(ceil_div(queries, Lane::kDepth), Lane::kGroup) * kRows;
  }

  /// Packs tokens as the columns of a right operand: (depth, keys).
  Panels columns_of(const Tokens& x, Arena& arena) const {
    const Panels panels{a_.keys, ceil_div(a_.depth, Lane::kDepth), arena.take(panel_size())};
    for (std::int64_t p = 0; p < panels.panels(); ++p) panels.pack(p, x.at(0), 1, x.x.token, a_.depth);
    return panels;
  }
  /// Packs tokens [first, first + count) as the rows of a right operand: (count, depth).
  Panels rows_of(const Tokens& x, std::int64_t first, std::int64_t count, Stored* storage) const {
    const Panels panels{a_.depth, ceil_div(count, Lane::kDepth), storage};
    for (std::int64_t p = 0; p < panels.panels() && count > 0; ++p) panels.pack(p, x.at(first), x.x.token, 1, count);
    return panels;
  }
  /// Returns tokens as the rows of a left operand: in place if they are already stored as lanes, otherwise copied to
  /// `storage`.
  Left left(const Tokens& x, std::int64_t first, std::int64_t count, const Rows<Stored>& storage) const {
    if constexpr (Lane::kGroup == 1 && Lane::kDepth * sizeof(T) == sizeof(Stored))
      if (a_.depth % Lane::kDepth == 0)
        return {reinterpret_cast<const char*>(x.at(first)), x.x.token * static_cast<std::int64_t>(sizeof(T)), kBytes,
                0};
    for (std::int64_t i = 0; i < count; ++i) to_lanes<Lane>(x.at(first + i), a_.depth, storage.row(i));
    return left(storage);
  }
  static Left left(const Rows<Stored>& x) {
    return {reinterpret_cast<const char*>(x.data), x.pitch * kBytes, kBytes, 0};
  }
  /// Packs `count` tokens as the columns of a left operand: (depth, count).
  Left transposed(const T* x, std::int64_t pitch, std::int64_t count, Stored* storage) const {
    const std::int64_t size = transposed_tile(count);
    const EvenTiles<Lane> even(a_.depth);
    for (std::int64_t i = 0; i < even.tiles; ++i)
      pack_rows<Lane>(x + even.begin(i), 1, pitch, even.begin(i + 1) - even.begin(i), count, storage + i * size);
    return {reinterpret_cast<const char*>(storage), Lane::kGroup * kBytes, kRows * kBytes, size * kBytes};
  }

  Rows<C> logits(std::int64_t rows, Arena& arena) const {
    return {arena.template take<C>(rows * logit_pitch_), logit_pitch_};
  }
  /// Returns the memory for the left operand that is made from `logits`: the memory of `logits` itself or, for pairs, a
  /// separate buffer.
  Rows<Stored> left_operands(const Rows<C>& logits, Arena& arena) const {
    if constexpr (kPairs)
      return {arena.take(kRows * logit_pitch_ / 2), logit_pitch_ / 2};
    else
      return logits;
  }
  Rows<Stored> right_operands(const Rows<C>& logits, std::int64_t pair_rows, Arena& arena) const {
    if constexpr (kPairs)
      return {arena.take(pair_rows * logit_pitch_), logit_pitch_};
    else
      return logits;
  }

  /// Multiplies each row of `from` by its factor and stores it as one token of `to`, whose tokens are `token` elements
  /// apart.
  void write(const Rows<C>& from, std::int64_t rows, const C* factors, T* to, std::int64_t token,
             AmaxObserver& results) const {
    Vector<C> largest{};  // a local, so that it stays in a register
    for (std::int64_t r = 0; r < rows; ++r)
      each_group<C>(
          a_.depth, [&](std::int64_t d, auto part) __attribute__((always_inline)) {
            const Vector<C> x = keep(get(from.row(r) + d, part) * factors[r], part);
            if constexpr (!std::is_same_v<T, double>) largest = larger_magnitude(largest, x);
            put(to + r * token + d, x, part);
          });
    results.add(largest);
  }

  /// Stores `from` (depth, keys) times `factor` in the gradient `to`, transposed: one row per key.
  void write_transposed(const Rows<C>& from, C factor, const AttentionBackward::Gradient& to, std::int64_t b,
                        std::int64_t kh, AmaxObserver& results) const {
    if constexpr (std::is_same_v<C, double>) {
      for (std::int64_t s = 0; s < a_.keys; ++s)
        for (std::int64_t d = 0; d < a_.depth; ++d) token(to, a_.keys, b, s, kh)[d] = from.row(d)[s] * factor;
    } else {
      for (std::int64_t s = 0; s < a_.keys; s += kN)
        for (std::int64_t d = 0; d < a_.depth; d += kN) {
          VFloat x[kN];
          VFloat largest{};
          const std::int64_t rows = std::min<std::int64_t>(kN, a_.depth - d);
#pragma GCC unroll 16
          for (int i = 0; i < kN; ++i) x[i] = i < rows ? load_vector<float>(from.row(d + i) + s) * factor : VFloat{};
          pack_detail::transpose(x);
          for (std::int64_t i = 0; i < std::min<std::int64_t>(kN, a_.keys - s); ++i) {
            T* const row = token(to, a_.keys, b, s + i, kh) + d;
            largest = larger_magnitude(largest, x[i]);
            if (rows == kN)
              put(row, x[i], Full{});
            else
              put(row, x[i], Part{static_cast<int>(rows)});
          }
          results.add(largest);
        }
    }
  }

  /// Computes the matrix product to = x panels for one tile of rows. Shapes: (rows, columns) = (rows, k) (k, columns).
  static void multiply(const Left& x, std::int64_t rows, std::int64_t k, const Panels& panels, std::int64_t columns,
                       const Rows<C>& to, Unit& unit) {
    TileArgs<Lane> tile;
    tile.a = x.data;
    tile.a_row = x.row;
    tile.a_step = x.step;
    tile.depth = ceil_div(k, Lane::kDepth);
    tile.c_row = to.pitch;
    for (std::int64_t p = 0; p * kWide < columns; ++p) {
      tile.b = panels.panel(p);
      tile.b_step = panels.step_bytes(p);
      tile.columns = static_cast<int>(std::min<std::int64_t>(kWide, columns - p * kWide));
      tile.c = to.data + p * kWide;
      unit.run(tile, static_cast<int>(rows));
    }
  }

  /// Returns true if all values of tokens [begin, end) are finite. Otherwise they must not be multiplied by 0, which
  /// gives NaN.
  bool finite(const Tokens& x, std::int64_t begin, std::int64_t end) const {
    Vector<C> zeros{};
    for (std::int64_t i = begin; i < end; ++i) {
      const T* values = x.at(i);
      each_group<T>(
          a_.depth, [&](std::int64_t d, auto part) __attribute__((always_inline)) {
            zeros = multiply_add(get(values + d, part), Vector<C>{}, zeros);
          });
    }
    return sum_lanes(zeros) == C(0);
  }

  /// Computes to = x v for the queries [first, first + rows). x is 0 for keys that a row may not attend to. If a value
  /// of such a key is not finite, each row is computed separately, because 0 times that value would be NaN.
  void multiply_visible(const Rows<Stored>& x, std::int64_t first, std::int64_t rows, const Tokens& v,
                        const Panels& values, const Rows<C>& to, Unit& unit) const {
    const std::int64_t visible = rows_.visible(first + rows - 1);
    if (finite(v, rows_.visible(first), std::min(a_.keys, round_up(visible, Lane::kDepth))))
      return multiply(left(x), rows, visible, values, a_.depth, to, unit);
    Stored* storage = scratch_of<Stored>(ScratchSlot::kPackedB, static_cast<std::size_t>(panel_size()));
    for (std::int64_t r = 0; r < rows; ++r) {
      const Panels own = rows_of(v, 0, rows_.visible(first + r), storage);
      multiply(left({x.row(r), x.pitch}), 1, rows_.visible(first + r), own, a_.depth, {to.row(r), to.pitch}, unit);
    }
  }

  void clear_columns(const Rows<C>& sums, std::int64_t first) const {
    for (std::int64_t d = 0; d < a_.depth; ++d) std::fill(sums.row(d) + first, sums.row(d) + a_.keys, C(0));
  }

  /// Adds the product x^T lanes, summed over the queries [begin, end), to `to` (depth, keys). Overwrites `to` if not
  /// `begun`. For each panel of keys, the sum starts at the first query that attends to a key of the panel. If a row of
  /// x is not finite, the rows are added one at a time, so that each row affects only the keys that its query attends
  /// to.
  void add_columns(const Tokens& x, std::int64_t begin, std::int64_t end, const Rows<Stored>& lanes, const Rows<C>& to,
                   bool begun, Stored* storage, Unit& unit) const {
    const std::int64_t visible = rows_.visible(end - 1);
    if (rows_.visible(begin) == visible || finite(x, begin, end)) {
      if (!begun) clear_columns(to, visible);
      const Left columns = transposed(x.at(begin), x.x.token, end - begin, storage);
      for (std::int64_t s = 0; s < visible; s += kWide) {
        const std::int64_t hidden = a_.causal ? std::max<std::int64_t>(s - a_.keys + a_.queries - begin, 0) : 0;
        const std::int64_t lane = hidden / Lane::kDepth / Lane::kGroup * Lane::kGroup;
        add_panel(columns, lane, ceil_div(end - begin, Lane::kDepth) - lane, lanes, s, visible, to, begun, unit);
      }
      return;
    }
    if (!begun) clear_columns(to, 0);
    T* const one = scratch_of<T>(ScratchSlot::kPackedB, static_cast<std::size_t>(Lane::kDepth * a_.depth));
    for (std::int64_t t = begin; t < end; ++t) {
      // The other row of a pair is set to 0: its query may attend to fewer keys, and is added on its own.
      std::fill(one, one + Lane::kDepth * a_.depth, T{});
      std::copy_n(x.at(t), a_.depth, one + (t - begin) % Lane::kDepth * a_.depth);
      const Left columns = transposed(one, a_.depth, Lane::kDepth, storage);
      const Rows<Stored> lane{lanes.row((t - begin) / Lane::kDepth), lanes.pitch};
      for (std::int64_t s = 0; s < rows_.visible(t); s += kWide)
        add_panel(columns, 0, 1, lane, s, rows_.visible(t), to, true, unit);
    }
  }
  /// Multiplies `columns` by lanes [first, first + depth) for the panel of keys that begins at key s and ends before
  /// `end`. Stores the products in `to` (depth, keys), or adds them to `to` if `accumulate`.
  void add_panel(const Left& columns, std::int64_t first, std::int64_t depth, const Rows<Stored>& lanes, std::int64_t s,
                 std::int64_t end, const Rows<C>& to, bool accumulate, Unit& unit) const {
    TileArgs<Lane> tile;
    tile.a_row = columns.row;
    tile.a_step = columns.step;
    tile.b = reinterpret_cast<const char*>(lanes.row(first) + s);
    tile.b_step = lanes.pitch * kBytes;
    tile.depth = depth;
    tile.c_row = to.pitch;
    tile.columns = static_cast<int>(std::min<std::int64_t>(kWide, end - s));
    tile.accumulate = accumulate;
    const EvenTiles<Lane> even(a_.depth);
    for (std::int64_t i = 0; i < even.tiles; ++i) {
      tile.a = columns.data + i * columns.tile + first * columns.step;
      tile.c = to.row(even.begin(i)) + s;
      unit.run(tile, static_cast<int>(even.begin(i + 1) - even.begin(i)));
    }
  }

  /// Stores in to[r] the dot product of x and y at token first + r. In f64 its terms are added in the same order as in
  /// a matrix product, so that equal sums cancel exactly.
  void dots(const Tokens& x, const Tokens& y, std::int64_t first, std::int64_t count, C* to) const {
    if constexpr (std::is_same_v<C, double>) {
      for (std::int64_t r = 0; r < count; ++r) {
        const T *a = x.at(first + r), *b = y.at(first + r);
        to[r] = 0;
        for (std::int64_t d = 0; d < a_.depth; ++d) to[r] += a[d] * b[d];
      }
      return;
    }
    for (std::int64_t r = 0; r < count; r += kN) {
      Vector<C> sums[kN];
#pragma GCC unroll 16
      for (int i = 0; i < kN; ++i) {
        sums[i] = Vector<C>{};
        if (r + i >= count) continue;
        const T *a = x.at(first + r + i), *b = y.at(first + r + i);
        each_group<T>(
            a_.depth, [&](std::int64_t d, auto part) __attribute__((always_inline)) {
              sums[i] = multiply_add(get(a + d, part), get(b + d, part), sums[i]);
            });
      }
      store_vector<C>(to + r, sum_rows(sums));
    }
  }

  const AttentionArgs& a_;
  AttentionRows<Lane, T> rows_;
  std::int64_t pitch_, logit_pitch_, tiles_, group_;
  C scale_;
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
