#include "binade/io/data/collate.h"

#include <cstring>

#include "binade/core/state_counts.h"
#include "binade/io/data/data_batch.h"

namespace binade::io {
namespace {

/// Checks that a row has the dtype of the first, is defined and on the CPU.
void check_row(const std::vector<Tensor>& rows, std::size_t i) {
  check<ArgumentError>(rows[i].defined() && rows[i].device() == Device::cpu(),
                       "collate: wanted tensors on the CPU, got {} for sample {} of the batch",
                       rows[i].defined() ? "one on another device" : "an undefined one", i);
  check<DTypeError>(rows[i].dtype() == rows[0].dtype(),
                    "collate: wanted tensors of one dtype, got {} for sample 0 of the batch and {} for sample {}",
                    name_of(rows[0].dtype()), name_of(rows[i].dtype()), i);
}

}  // namespace

Tensor stack_rows(const std::vector<Tensor>& rows) {
  check<ArgumentError>(!rows.empty(), "collate: wanted at least one tensor, got none");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    check_row(rows, i);
    check<ShapeError>(
        rows[i].shape() == rows[0].shape(),
        "collate: wanted tensors of one shape, got {} for sample 0 of the batch and {} for sample {}; bring "
        "the samples to one size, or use io::Sequence, which pads",
        rows[0].shape(), rows[i].shape(), i);
  }
  std::vector<std::int64_t> dims{std::ssize(rows)};
  dims.insert(dims.end(), rows[0].shape().dims().begin(), rows[0].shape().dims().end());
  Tensor all = Tensor::empty(Shape(dims), rows[0].dtype());
  auto* to = static_cast<std::byte*>(all.mutable_raw());
  for (const Tensor& row : rows) {
    if (row.bytes() == 0) continue;
    const Tensor dense = row.contiguous_copy();
    std::memcpy(to, dense.raw(), dense.bytes());
    to += dense.bytes();
  }
  return all;
}

PaddedSequences pad_rows(const std::vector<Tensor>& rows, double padding) {
  check<ArgumentError>(!rows.empty(), "collate: wanted at least one sequence, got none");
  std::int64_t longest = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    check_row(rows, i);
    check<ShapeError>(
        rows[i].rank() >= 1 && rows[i].shape().with_dim(0, 0) == rows[0].shape().with_dim(0, 0),
        "collate: wanted sequences (length, …) that agree in all other extents, got {} for sample 0 of the "
        "batch and {} for sample {}",
        rows[0].shape(), rows[i].shape(), i);
    longest = std::max(longest, rows[i].dim(0));
  }
  std::vector<std::int64_t> dims{std::ssize(rows), longest};
  const auto rest = rows[0].shape().dims().subspan(1);
  dims.insert(dims.end(), rest.begin(), rest.end());
  PaddedSequences all{Tensor::full(Shape(dims), padding, rows[0].dtype()),
                      Tensor::zeros({std::ssize(rows), longest}, DType::boolean),
                      Tensor::empty({std::ssize(rows)}, DType::i64)};
  bool* mask = all.mask.mutable_data<bool>();
  auto* lengths = all.lengths.mutable_data<std::int64_t>();
  auto* to = static_cast<std::byte*>(all.values.mutable_raw());
  const std::size_t stride = all.values.bytes() / rows.size();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int64_t length = rows[i].dim(0);
    lengths[i] = length;
    std::fill_n(mask + static_cast<std::int64_t>(i) * longest, length, true);
    const Tensor dense = rows[i].contiguous_copy();
    if (dense.bytes() > 0) std::memcpy(to + i * stride, dense.raw(), dense.bytes());
  }
  return all;
}

void detail::put_texts(StateDict& state, const std::string& name, const std::vector<std::string>& texts) {
  StateDict::Integers lengths;
  std::string all;
  for (const std::string& text : texts) {
    lengths.push_back(std::ssize(text));
    all += text;
  }
  state.put(name + "/lengths", lengths);
  state.put(name + "/texts", all);
}

std::vector<std::string> detail::texts_of(const StateDict& state, const std::string& name) {
  const std::string& all = state.text(name + "/texts");
  std::vector<std::string> texts;
  std::size_t at = 0;
  for (const std::int64_t length : read_counts(state, name + "/lengths")) {
    check<CheckpointError>(static_cast<std::uint64_t>(length) <= all.size() - at,
                           "batch: the texts of '{}' are shorter than their lengths say", name);
    texts.push_back(all.substr(at, static_cast<std::size_t>(length)));
    at += static_cast<std::size_t>(length);
  }
  return texts;
}

}  // namespace binade::io
