#include "binade/io/exchange/layout.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <numeric>

#include "binade/core/error.h"

namespace binade::io {

namespace {

using Kind = LayoutStep::Kind;
using Numbers = std::vector<std::int64_t>;

struct StepName {
  std::string_view name;
  Kind kind;
  std::size_t least, most;  // how many numbers it takes
};
constexpr StepName kSteps[] = {{"transpose", Kind::kTranspose, 0, 0},
                               {"filter", Kind::kFilter, 0, 0},
                               {"permute", Kind::kPermute, 1, Shape::kMaxRank},
                               {"flattened", Kind::kFlattened, 1, 1},
                               {"blocks", Kind::kBlocks, 1, 64}};

const StepName* named(std::string_view text) {
  const auto* found = std::ranges::find(kSteps, text.substr(0, text.find('=')), &StepName::name);
  return found == std::end(kSteps) ? nullptr : found;
}

bool is_permutation_of_indices(const Numbers& order) {
  Numbers sorted = order, indices(order.size());
  std::ranges::sort(sorted);
  std::iota(indices.begin(), indices.end(), 0);
  return sorted == indices;
}

Numbers inverse(const Numbers& order) {
  Numbers result(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    result[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return result;
}

/// The order of axes in which axis 1 becomes the last.
Numbers filter_order(int rank) {
  Numbers order(static_cast<std::size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return order;
}

Tensor reshaped(const Tensor& t, const Numbers& extents) { return t.on_host().reshape(Shape(extents)); }

/// Swaps the two parts (first, rest) of the last axis.
Tensor swapped_last(const Tensor& t, std::int64_t first) {
  const std::int64_t columns = t.shape().cols();
  check<ShapeError>(t.rank() >= 1 && first > 0 && columns % first == 0,
                    "flattened={}: wanted a last axis that this number divides, got {}", first, t.shape());
  const std::int64_t rest = columns / first, rows = columns == 0 ? 0 : t.numel() / columns;
  return permuted(reshaped(t, {rows, first, rest}), {0, 2, 1}).reshape(t.shape());
}

Tensor with_blocks(const Tensor& t, const Numbers& order) {
  const auto count = static_cast<std::int64_t>(order.size());
  check<ShapeError>(t.rank() >= 1 && t.dim(0) % count == 0, "blocks: wanted an axis 0 of {} equal blocks, got {}",
                    count, t.shape());
  Tensor result = Tensor::empty(t.shape(), t.dtype());
  const Tensor from = t.on_host();
  const std::size_t bytes = t.bytes() / static_cast<std::size_t>(count);
  for (std::size_t i = 0; i < order.size() && bytes > 0; ++i)
    std::memcpy(static_cast<std::byte*>(result.mutable_raw()) + i * bytes,
                static_cast<const std::byte*>(from.raw()) + static_cast<std::size_t>(order[i]) * bytes, bytes);
  return result;
}

Tensor apply(const Tensor& t, const LayoutStep& step, bool undo) {
  switch (step.kind) {
    case Kind::kTranspose:
      check<ShapeError>(t.rank() == 2, "transpose: wanted a matrix, got {}", t.shape());
      return permuted(t, {1, 0});
    case Kind::kFilter: {
      if (t.rank() < 3) return t.on_host();
      const Numbers order = filter_order(t.rank());
      return permuted(t, undo ? inverse(order) : order);
    }
    case Kind::kPermute:
      check<ShapeError>(t.rank() == static_cast<int>(step.numbers.size()), "permute: wanted {} axes, got {}",
                        step.numbers.size(), t.shape());
      return permuted(t, undo ? inverse(step.numbers) : step.numbers);
    case Kind::kFlattened: {
      const std::int64_t channels = step.numbers.front(), columns = t.shape().cols();
      check<ShapeError>(columns % channels == 0, "flattened={}: wanted a last axis that this number divides, got {}",
                        channels, t.shape());
      return columns == 0 ? t.on_host() : swapped_last(t, undo ? columns / channels : channels);
    }
    case Kind::kBlocks: return with_blocks(t, undo ? inverse(step.numbers) : step.numbers);
  }
  throw ArgumentError("layout: unknown step");
}

/// Views a tensor as (outer, extent of the axis, inner), in bytes.
struct AxisView {
  AxisView(const Shape& shape, int axis, std::size_t element) : inner(element) {
    for (int i = 0; i < axis; ++i) outer *= static_cast<std::size_t>(shape.dim(i));
    for (int i = axis + 1; i < shape.rank(); ++i) inner *= static_cast<std::size_t>(shape.dim(i));
  }
  std::size_t outer = 1, inner;
};

}  // namespace

bool is_layout_step(std::string_view text) { return named(text) != nullptr; }

LayoutStep layout_step(std::string_view text) {
  const StepName* name = named(text);
  check<ArgumentError>(name != nullptr, "{}: wanted transpose, filter, permute=…, flattened=… or blocks=…", text);
  LayoutStep step{name->kind, {}};
  for (std::size_t at = name->name.size(); at < text.size();) {  // at "=" or ","
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data() + at + 1, text.data() + text.size(), number);
    at = static_cast<std::size_t>(end - text.data());
    check<ArgumentError>(error == std::errc() && number >= 0 && (at == text.size() || text[at] == ','),
                         "{}: wanted numbers with commas between them after \"=\"", text);
    step.numbers.push_back(number);
  }
  check<ArgumentError>(step.numbers.size() >= name->least && step.numbers.size() <= name->most,
                       "{}: wanted {}, got {} numbers", text,
                       name->most == 0 ? "no number" : (name->most == 1 ? "one number" : "1 number or more"),
                       step.numbers.size());
  const bool ordered = step.kind == Kind::kPermute || step.kind == Kind::kBlocks;
  check<ArgumentError>(!ordered || is_permutation_of_indices(step.numbers), "{}: wanted each number from 0 to {} once",
                       text, step.numbers.size() - 1);
  check<ArgumentError>(step.kind != Kind::kFlattened || step.numbers.front() > 0, "{}: wanted a number above 0", text);
  return step;
}

Tensor to_ours(const Tensor& theirs, const Layout& layout) {
  Tensor t = theirs.on_host();
  for (const LayoutStep& step : layout) t = apply(t, step, false);
  return t;
}

Tensor to_theirs(const Tensor& ours, const Layout& layout) {
  Tensor t = ours.on_host();
  for (auto step = layout.rbegin(); step != layout.rend(); ++step) t = apply(t, *step, true);
  return t;
}

Tensor permuted(const Tensor& t, const Numbers& order) {
  const Tensor source = t.on_host();
  const std::size_t rank = order.size(), size = size_of(source.dtype());
  Numbers extents(rank), stride(rank, 1), step(rank), position(rank, 0);
  for (std::size_t i = rank; i-- > 1;) stride[i - 1] = stride[i] * source.dim(static_cast<int>(i));
  for (std::size_t i = 0; i < rank; ++i) {
    extents[i] = source.dim(static_cast<int>(order[i]));
    step[i] = stride[static_cast<std::size_t>(order[i])];
  }
  Tensor result = Tensor::empty(Shape(extents), source.dtype());
  const auto* from = static_cast<const std::byte*>(source.raw());
  auto* to = static_cast<std::byte*>(result.mutable_raw());
  std::int64_t at = 0;
  for (std::int64_t n = source.numel(); n > 0; --n, to += size) {
    std::memcpy(to, from + static_cast<std::size_t>(at) * size, size);
    for (std::size_t i = rank; i-- > 0;) {  // the next position, row-major
      at += step[i];
      if (++position[i] < extents[i]) break;
      at -= step[i] * extents[i];
      position[i] = 0;
    }
  }
  return result;
}

Tensor joined(const std::vector<Tensor>& parts, int axis) {
  const Tensor& first = parts.front();
  if (parts.size() == 1) return first.on_host();
  check<ShapeError>(axis < first.rank(), "axis={}: wanted a tensor with this axis, got {}", axis, first.shape());
  std::int64_t extent = 0;
  for (const Tensor& part : parts) {
    check<DTypeError>(part.dtype() == first.dtype(), "the parts differ in dtype: {} and {}", name_of(first.dtype()),
                      name_of(part.dtype()));
    const bool fits = part.rank() == first.rank() && part.shape().with_dim(axis, 0) == first.shape().with_dim(axis, 0);
    check<ShapeError>(fits, "the parts differ in shape: {} and {}", first.shape(), part.shape());
    extent += part.dim(axis);
  }
  Tensor whole = Tensor::empty(first.shape().with_dim(axis, extent), first.dtype());
  const AxisView view(whole.shape(), axis, size_of(whole.dtype()));
  auto* to = static_cast<std::byte*>(whole.mutable_raw());
  const std::size_t row = static_cast<std::size_t>(extent) * view.inner;
  for (const Tensor& part : parts) {
    const Tensor host = part.on_host();
    const std::size_t bytes = static_cast<std::size_t>(part.dim(axis)) * view.inner;
    for (std::size_t i = 0; i < view.outer && bytes > 0; ++i)
      std::memcpy(to + i * row, static_cast<const std::byte*>(host.raw()) + i * bytes, bytes);
    to += bytes;
  }
  return whole;
}

std::vector<Tensor> split(const Tensor& t, int axis, const Numbers& sizes) {
  if (sizes.size() == 1) return {t.on_host()};
  check<ShapeError>(axis < t.rank(), "axis={}: wanted a tensor with this axis, got {}", axis, t.shape());
  const std::int64_t all = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}), extent = t.dim(axis);
  check<ShapeError>(extent % all == 0, "wanted {} parts side by side, got {}: {} is no multiple of {}", sizes.size(),
                    t.shape(), extent, all);
  const Tensor host = t.on_host();
  const AxisView view(t.shape(), axis, size_of(t.dtype()));
  const std::size_t row = static_cast<std::size_t>(extent) * view.inner;
  std::size_t begin = 0;
  std::vector<Tensor> parts;
  for (const std::int64_t size : sizes) {
    Tensor part = Tensor::empty(t.shape().with_dim(axis, extent / all * size), t.dtype());
    const std::size_t bytes = static_cast<std::size_t>(part.dim(axis)) * view.inner;
    for (std::size_t i = 0; i < view.outer && bytes > 0; ++i)
      std::memcpy(static_cast<std::byte*>(part.mutable_raw()) + i * bytes,
                  static_cast<const std::byte*>(host.raw()) + i * row + begin, bytes);
    begin += bytes;
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace binade::io
