#include "binade/core/kernels/gemm.h"

#include <algorithm>

#include "binade/core/kernels/lane_types.h"
#include "binade/core/kernels/product.h"
#include "binade/core/parallel.h"

/// Products after Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (TOMS 2008): B is packed
/// once into panels that all tasks share, each task packs A for its rows, and the sums of a tile stay in registers.
/// Block sizes depend on the shape alone. The terms of each sum over k are added one after the other, or in fixed
/// chunks if k is long and the result has few elements.
namespace binade::cpu::BINADE_ISA {

const GemmKernels& gemm_kernels();

namespace {

constexpr std::int64_t kPackedLimit = 6 << 20;  // largest number of bytes of packed B per pass over the columns
constexpr std::int64_t kRowTiles = 16;          // row tiles of a task, few enough that its packed A stays in L2
constexpr std::int64_t kEnoughTasks = 16;       ///< wanted number of tasks, so that all threads have work
constexpr std::size_t kReadPastEnd = 256;       // bytes behind a packed B that tiles may read, as in scratch memory
constexpr std::int64_t kStripLanes = 32;        // lanes of B packed at a time if its rows are contiguous

/// Computes the products of a batch, with lanes of type Lane, from operands of type T.
template <class Lane, class T>
class Product {
  using Accumulator = typename Lane::Accumulator;
  using Stored = typename Lane::Stored;
  static constexpr int kDepth = Lane::kDepth;

 public:
  Product(const GemmArgs& args, std::int64_t k) : g_(args), k_(k) {}

  const T* b(std::int64_t i) const { return static_cast<const T*>(g_.b) + (g_.b_offsets ? g_.b_offsets[i] : 0); }

  /// Computes one small product on one thread.
  template <class Out>
  void on_one_thread(std::int64_t index) const {
    over_columns([&](std::int64_t first, std::int64_t columns) {
      const PackedB<Lane> packed = operand(first, columns, ScratchSlot::kPackedB);
      for (std::int64_t p = 0; p < packed.panels() && g_.packed_b == nullptr; ++p)
        packed.pack(p, b(index) + first * g_.b_col, g_.b_row, g_.b_col, k_);
      const std::int64_t row_tasks = ceil_div(g_.m, kRowTiles * kTileRows<Lane>);
      for (std::int64_t r = 0; r < row_tasks; ++r)
        multiply<Out>({index, first_row(r, row_tasks), first_row(r + 1, row_tasks), 0, packed.panels(), first}, packed);
    });
  }

  /// Computes one large product on all threads.
  template <class Out>
  void on_all_threads(std::int64_t index) const {
    over_columns([&](std::int64_t first, std::int64_t columns) {
      const PackedB<Lane> packed = operand(first, columns, ScratchSlot::kShared);
      const std::int64_t panels = packed.panels();
      if (g_.packed_b == nullptr) pack_all(b(index) + first * g_.b_col, packed);
      // Splits rows first, and columns too if few rows would leave threads idle. A packed B is usually larger than A,
      // so that it is better read only once.
      const std::int64_t tiles = ceil_div(g_.m, kTileRows<Lane>);
      const std::int64_t in_cache = ceil_div(g_.m, kRowTiles * kTileRows<Lane>);
      const std::int64_t wanted = g_.packed_b != nullptr ? 1 : std::min<std::int64_t>(tiles / 2, kEnoughTasks);
      const std::int64_t row_tasks = std::min(tiles, std::max(in_cache, wanted));
      const std::int64_t row_parts = std::max<std::int64_t>(1, row_tasks);
      const std::int64_t column_parts = std::clamp<std::int64_t>(ceil_div(kEnoughTasks, row_parts), 1,
                                                                 ceil_div(panels, 4));
      parallel_blocks(row_parts * column_parts, [&](std::int64_t task) {
        const std::int64_t r = task / column_parts;
        const std::int64_t q = task % column_parts;
        multiply<Out>({index, first_row(r, row_parts), first_row(r + 1, row_parts), q * panels / column_parts,
                       (q + 1) * panels / column_parts, first},
                      packed);
      });
    });
  }

  /// Packs the whole of B, for later products with GemmArgs::packed_b.
  void pack(void* to) const { pack_all(b(0), {g_.n, lanes(), static_cast<Stored*>(to)}); }

 private:
  std::int64_t lanes() const { return ceil_div(k_, kDepth); }

  /// Returns columns [first, first + columns) of B: as the caller has packed them, or scratch to pack them into.
  PackedB<Lane> operand(std::int64_t first, std::int64_t columns, ScratchSlot slot) const {
    if (g_.packed_b == nullptr) return {columns, lanes(), scratch_of<Stored>(slot, PackedB<Lane>::size(columns, k_))};
    return {columns, lanes(), const_cast<Stored*>(static_cast<const Stored*>(g_.packed_b)) + first * lanes()};
  }

  /// Returns the first row of part r of `parts`: with AMX tile registers always the first row of a tile.
  std::int64_t first_row(std::int64_t r, std::int64_t parts) const {
    if constexpr (Lane::kGroup == 1) return r * g_.m / parts;
    return std::min(g_.m, r * ceil_div(g_.m, kTileRows<Lane>) / parts * kTileRows<Lane>);
  }

  template <class Out>
  void multiply(const Patch& patch, const PackedB<Lane>& packed) const {
    PatchProduct<Lane, T, Out>(g_, k_, patch, packed).run();
  }

  /// Packs B on all threads: panel by panel or, if its rows are contiguous, in strips of rows through all panels, so
  /// that neighboring memory is read together.
  void pack_all(const T* b, const PackedB<Lane>& packed) const {
    const bool in_strips = g_.b_col == 1;
    const std::int64_t panels = packed.panels(), strip = in_strips ? kStripLanes : packed.lanes;
    const std::int64_t pieces = in_strips ? ceil_div(packed.lanes, strip) : panels;
    const std::int64_t size = std::max<std::int64_t>(1, (in_strips ? panels : 1) * PackedB<Lane>::kWide * strip);
    parallel_for(pieces, std::max<std::int64_t>(1, (1 << 13) / size), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t lane = in_strips ? i * strip : 0, count = std::min(k_ - lane * kDepth, strip * kDepth);
        for (std::int64_t p = in_strips ? 0 : i, last = in_strips ? panels : i + 1; p < last; ++p)
          packed.pack(p, b, g_.b_row, g_.b_col, count, lane);
      }
    });
  }

  template <class F>
  void over_columns(F&& f) const {
    const std::int64_t bytes_per_column = std::max<std::int64_t>(1, lanes()) *
                                          static_cast<std::int64_t>(sizeof(Stored));
    const std::int64_t limit = std::max<std::int64_t>(kPackedLimit / bytes_per_column, 8 * PackedB<Lane>::kWide);
    const std::int64_t passes = std::max<std::int64_t>(1, ceil_div(g_.n, limit));
    const std::int64_t step = ceil_div(ceil_div(g_.n, passes), PackedB<Lane>::kWide) * PackedB<Lane>::kWide;
    for (std::int64_t first = 0; first < g_.n; first += step) f(first, std::min(step, g_.n - first));
  }

  const GemmArgs& g_;
  std::int64_t k_;
};

constexpr double kSmallWork = 1 << 18;  // multiplications below which waking threads costs more than it gains

template <class Lane, class T, class Out>
void run(const GemmArgs& g) {
  const double work = static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
  const Product<Lane, T> product(g, g.k);
  if (g.batch >= 8 || work * static_cast<double>(g.batch) < kSmallWork) {
    const std::int64_t grain = std::max<std::int64_t>(1, static_cast<std::int64_t>(kSmallWork / std::max(work, 1.0)));
    parallel_for(g.batch, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) product.template on_one_thread<Out>(i);
    });
    return;
  }
  for (std::int64_t i = 0; i < g.batch; ++i) product.template on_all_threads<Out>(i);
}

/// From this k on, a product with few outputs is cut into chunks of k, by shape alone. The product of each chunk goes
/// to scratch, and these partial sums are added in the order of the chunks.
constexpr std::int64_t kLongDepth = 4096;
constexpr std::int64_t kChunkDepth = 1024;
constexpr std::int64_t kMaxChunks = 16;

template <class Lane, class T, class Out>
void run_chunks(const GemmArgs& g) {
  using Accumulator = typename Lane::Accumulator;
  const std::int64_t chunks = std::min(kMaxChunks, g.k / kChunkDepth);
  const std::int64_t depth = ceil_div(ceil_div(g.k, chunks), 2) * 2;
  const std::int64_t size = g.m * g.n;
  Accumulator* partial = scratch_of<Accumulator>(ScratchSlot::kShared, static_cast<std::size_t>(size * chunks));
  for (std::int64_t i = 0; i < g.batch; ++i) {
    parallel_blocks(chunks, [&](std::int64_t chunk) {
      GemmArgs part = g;
      const std::int64_t first = std::min(chunk * depth, g.k);
      part.k = std::min(depth, g.k - first);
      part.a = static_cast<const T*>(g.a) + (g.a_offsets ? g.a_offsets[i] : 0) + first * g.a_col;
      part.b = static_cast<const T*>(g.b) + (g.b_offsets ? g.b_offsets[i] : 0) + first * g.b_row;
      part.c = partial + chunk * size;
      part.c_row = g.n;
      part.a_offsets = part.b_offsets = part.c_offsets = nullptr;
      part.packed_b = nullptr;
      part.accumulate = false;
      part.partial = true;
      part.bias = nullptr;
      part.pre_activation = nullptr;
      part.activation = part.derivative_of = Activation::kNone;
      Product<Lane, T>(part, part.k).template on_one_thread<Accumulator>(0);
    });
    Out* c = static_cast<Out*>(g.c) + (g.c_offsets ? g.c_offsets[i] : 0);
    Out* z = static_cast<Out*>(g.pre_activation);
    if (z != nullptr && g.c_offsets) z += g.c_offsets[i];
    const Epilogue<Out> epilogue{static_cast<const Accumulator*>(g.bias), g.activation, g.derivative_of};
    parallel_for(g.m, std::max<std::int64_t>(1, (1 << 14) / g.n), [&](std::int64_t begin, std::int64_t end) {
      AmaxObserver amax(kDTypeOf<Out>);
      for (std::int64_t r = begin; r < end; ++r) {
        Accumulator* sums = partial + r * g.n;
        for (std::int64_t chunk = 1; chunk < chunks; ++chunk)
          for (std::int64_t j = 0; j < g.n; ++j) sums[j] += sums[chunk * size + j];
        const std::int64_t at = r * g.c_row;
        if constexpr (std::is_same_v<Out, Accumulator>)
          if (g.accumulate) add_rows(c + at, 0, 1, g.n, sums, 0);
        epilogue.run({.sums = sums,
                      .rows = 1,
                      .columns = g.n,
                      .y = c + at,
                      .z = z == nullptr ? nullptr : z + at,
                      .derivative_at = static_cast<const Out*>(g.derivative_at) + at},
                     amax);
      }
    });
  }
}

template <class Lane, class T, class Out>
void run_by_shape(const GemmArgs& g) {
  if (g.batch < 8 && g.k >= kLongDepth && ceil_div(g.m, kTileRows<Lane>) * ceil_div(g.n, 32) < 64)
    run_chunks<Lane, T, Out>(g);
  else
    run<Lane, T, Out>(g);
}

void gemm(const GemmArgs& g) {
  if (g.m <= 0 || g.n <= 0 || g.batch <= 0) return;
  dispatch_lanes(g.in, g.out, [&]<class Lane, class T, class Out>() { run_by_shape<Lane, T, Out>(g); });
}

std::size_t packed_bytes(const GemmArgs& g) {
  std::size_t bytes = 0;
  dispatch_lane(g.in, [&]<class Lane, class T>() {
    bytes = PackedB<Lane>::size(g.n, g.k) * sizeof(typename Lane::Stored) + kReadPastEnd;
  });
  return bytes;
}

void pack_operand(const PackOperandArgs& a) {
  if (a.product.n <= 0) return;
  dispatch_lane(a.product.in, [&]<class Lane, class T>() { Product<Lane, T>(a.product, a.product.k).pack(a.to); });
}

// ---- other kernels of a linear layer ------------------------------------------------------------

constexpr std::int64_t kSumRows = 256;
constexpr std::int64_t kMaxSumBlocks = 64;

/// Adds row[j] to to[j] for all j.
template <class T>
void add_row(const T* row, std::int64_t n, Compute<T>* to) {
  std::int64_t j = 0;
  if constexpr (!std::is_same_v<T, double>)
    for (; j + kLanes<float> <= n; j += kLanes<float>)
      store_vector<float>(to + j, load_vector<float>(to + j) + load_as_float(row + j));
  for (; j < n; ++j) to[j] += load(row[j]);
}

/// Sums the columns of m rows into sums (n), in fixed blocks of rows and strips of `width` columns: add(column, count,
/// begin, end, to) adds `count` columns of rows begin ... end to `to`, which starts at 0. Block sums are added in
/// order, so the width changes no bits.
template <class Sum, class Add>
void sum_in_blocks(std::int64_t m, std::int64_t n, std::int64_t width, Sum* sums, Add&& add) {
  const std::int64_t blocks = std::clamp<std::int64_t>(ceil_div(m, kSumRows), 1, kMaxSumBlocks);
  const std::int64_t strips = ceil_div(n, width);
  Sum* partial = scratch_of<Sum>(ScratchSlot::kShared, static_cast<std::size_t>(blocks * n));
  parallel_blocks(blocks * strips, [&](std::int64_t piece) {
    const std::int64_t block = piece / strips, column = piece % strips * width;
    const std::int64_t count = std::min(width, n - column);
    Sum* to = partial + block * n + column;
    std::fill(to, to + count, Sum(0));
    add(column, count, block * m / blocks, (block + 1) * m / blocks, to);
  });
  for (std::int64_t j = 0; j < n; ++j) {
    Sum sum = 0;
    for (std::int64_t block = 0; block < blocks; ++block) sum += partial[block * n + j];
    sums[j] = sum;
  }
}

void column_sums(const ColumnSumsArgs& a) {
  if (a.columns <= 0) return;
  dispatch_float(a.dtype, "column_sums", [&]<class T>(TypeTag<T>) {
    using C = Compute<T>;
    const auto add = [&](std::int64_t, std::int64_t count, std::int64_t begin, std::int64_t end, C* to) {
      for (std::int64_t r = begin; r < end; ++r) add_row(static_cast<const T*>(a.x) + r * a.pitch, count, to);
    };
    sum_in_blocks(a.rows, a.columns, a.columns, static_cast<C*>(a.sums), add);
  });
}

/// Computes gz = gy * activation'(z) for `count` contiguous elements.
template <class T>
void derivative_run(Activation activation, const T* z, const T* gy, T* gz, std::int64_t count, AmaxObserver& amax) {
  if constexpr (std::is_same_v<T, double>) {
    for (std::int64_t i = 0; i < count; ++i) gz[i] = gy[i] * activation_derivative(activation, z[i]);
  } else {
    with_activation<ActivationDerivative, T>(activation, [&](auto derivative) {
      each_group<T>(count, [&](std::int64_t i, auto part) {
        put(gz + i, get(gy + i, part) * derivative(get(z + i, part)), part, amax);
      });
    });
  }
}

/// Computes gz (m, n) like derivative_run(), and the sums of its columns: in strips of columns through blocks of rows,
/// so that each part of a row is added while it is in cache.
template <class T>
void derivative_and_sums(Activation activation, const T* z, const T* gy, T* gz, std::int64_t m, std::int64_t n,
                         Compute<T>* sums) {
  constexpr std::int64_t kStrip = 1024;
  sum_in_blocks(m, n, kStrip, sums,
                [&](std::int64_t column, std::int64_t count, std::int64_t begin, std::int64_t end, Compute<T>* to) {
                  AmaxObserver amax(kDTypeOf<T>);
                  for (std::int64_t r = begin; r < end; ++r) {
                    const std::int64_t at = r * n + column;
                    derivative_run(activation, z + at, gy + at, gz + at, count, amax);
                    add_row(gz + at, count, to);
                  }
                });
}

void activation_backward(const ActivationBackwardArgs& a) {
  if (a.sums != nullptr && a.columns <= 0) return;
  dispatch_float(a.dtype, "activation_backward", [&]<class T>(TypeTag<T>) {
    const auto *z = static_cast<const T*>(a.z), *gy = static_cast<const T*>(a.gy);
    auto* gz = static_cast<T*>(a.gz);
    if (a.sums != nullptr)
      return derivative_and_sums(a.activation, z, gy, gz, a.rows, a.columns, static_cast<Compute<T>*>(a.sums));
    parallel_for(a.rows * a.columns, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
      AmaxObserver amax(kDTypeOf<T>);
      derivative_run(a.activation, z + begin, gy + begin, gz + begin, end - begin, amax);
    });
  });
}

template <class T>
void activate_run(Activation activation, const T* z, T* y, std::int64_t count) {
  if constexpr (std::is_same_v<T, double>) {
    for (std::int64_t i = 0; i < count; ++i) y[i] = activate(activation, z[i]);
  } else {
    with_activation<Activated, T>(activation, [&](auto activated) {
      each_group<T>(count, [&](std::int64_t i, auto part) { put(y + i, activated(get(z + i, part)), part); });
    });
  }
}

void activate_all(const ActivateArgs& a) {
  dispatch_float(a.dtype, "activate", [&]<class T>(TypeTag<T>) {
    parallel_for(a.count, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
      activate_run(a.activation, static_cast<const T*>(a.z) + begin, static_cast<T*>(a.y) + begin, end - begin);
    });
  });
}

}  // namespace

const GemmKernels& gemm_kernels() {
  static constexpr GemmKernels kernels{&gemm,         &column_sums,  &activation_backward,
                                       &activate_all, &packed_bytes, &pack_operand};
  return kernels;
}

}  // namespace binade::cpu::BINADE_ISA
