#include "binade/amp/ranks/shared_buffers.h"

#include <algorithm>
#include <cstring>

#include "binade/amp/ranks/bytes.h"
#include "binade/nn/linear.h"
#include "binade/nn/shared_buffers.h"

namespace binade::amp {
namespace {

struct Named {
  std::string path{};  // of the module
  nn::SharedBuffer entry{};
};

/// Returns the buffers of the model whose rule is known, in the order of its modules, which is the same on all ranks.
std::vector<Named> shared_buffers_of(nn::Module& model) {
  std::vector<Named> found;
  const auto add = [&](const std::string& path, nn::Module* module) {
    if (auto* shares = dynamic_cast<nn::SharesBuffers*>(module))
      for (const nn::SharedBuffer& entry : shares->shared_buffers()) found.push_back({path, entry});
    auto* linear = dynamic_cast<nn::Linear*>(module);
    if (linear != nullptr && linear->fp8_amax.committed().defined())
      found.push_back({path, {&linear->fp8_amax, nn::SharedRule::kMaximum}});
  };
  for (const auto& [path, module] : nn::named_modules(model)) add(path, module);
  add("", &model);
  return found;
}

Tensor on_host(const Tensor& value) { return value.contiguous_copy().on_host(); }

/// Adds to `sum` the change that another rank has made, from `before` to `written`.
template <class T>
void add_change(Tensor& sum, const Tensor& written, const Tensor& before) {
  T* const into = sum.mutable_data<T>();
  for (std::int64_t i = 0; i < sum.numel(); ++i) into[i] += written.data<T>()[i] - before.data<T>()[i];
}

void combine(const Named& one, const StartValues& start, Tensor& into, const Tensor& other, int rank) {
  switch (one.entry.rule) {
    case nn::SharedRule::kOncePerStep:
      check<RankError>(std::memcmp(into.raw(), other.raw(), into.bytes()) == 0,
                       "ranks: rank {} has written other bits than the ranks before into a buffer of '{}' that changes "
                       "once per step; its rule must not depend on the batch (nn::SharedRule)",
                       rank, one.path);
      return;
    case nn::SharedRule::kMaximum:
      for (std::int64_t i = 0; i < into.numel(); ++i)
        into.mutable_data<float>()[i] = std::max(into.data<float>()[i], other.data<float>()[i]);
      return;
    case nn::SharedRule::kIntegerSum: {
      const auto written_before = start.find(one.entry.buffer);
      const Tensor before = written_before != start.end() ? written_before->second
                                                          : one.entry.buffer->committed().on_host();
      into.dtype() == DType::i64 ? add_change<std::int64_t>(into, other, before)
                                 : add_change<std::int32_t>(into, other, before);
      return;
    }
  }
}

void check_dtype(const Named& one) {
  const DType dtype = one.entry.buffer->committed().dtype();
  const bool fits = one.entry.rule == nn::SharedRule::kMaximum      ? dtype == DType::f32
                    : one.entry.rule == nn::SharedRule::kIntegerSum ? dtype == DType::i64 || dtype == DType::i32
                                                                    : true;
  check<ArgumentError>(fits,
                       "ranks: a buffer of '{}' has the dtype {}; wanted f32 for kMaximum, i64 or i32 for "
                       "kIntegerSum (nn::SharedRule)",
                       one.path, name_of(dtype));
}

}  // namespace

StartValues start_values(nn::Module& model) {
  StartValues start;
  for (const auto& [path, buffer] : nn::named_buffers(model))
    if (buffer->pending()) start.emplace(buffer, on_host(buffer->value()).clone());
  return start;
}

bool has_changed(const nn::Buffer& buffer, const StartValues& start) {
  if (!buffer.pending()) return false;
  const auto before = start.find(&buffer);
  if (before == start.end()) return true;
  const Tensor now = on_host(buffer.value());
  return now.bytes() != before->second.bytes() || std::memcmp(now.raw(), before->second.raw(), now.bytes()) != 0;
}

Bytes encode_shared_buffers(nn::Module& model, const StartValues& start, std::set<const nn::Buffer*>& known) {
  ByteWriter out;
  const std::vector<Named> buffers = shared_buffers_of(model);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const nn::Buffer& buffer = *buffers[i].entry.buffer;
    check_dtype(buffers[i]);
    if (!known.insert(&buffer).second || !has_changed(buffer, start)) continue;
    const Tensor host = on_host(buffer.value());
    out.put(static_cast<std::uint32_t>(i)).put(static_cast<std::uint64_t>(host.bytes()));
    out.put_raw(host.raw(), host.bytes());
  }
  return out.bytes();
}

void combine_shared_buffers(nn::Module& model, const StartValues& start,
                            const std::vector<std::span<const std::byte>>& all) {
  const std::vector<Named> buffers = shared_buffers_of(model);
  std::vector<Tensor> combined(buffers.size());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    ByteReader in(all[rank]);
    while (!in.at_end()) {
      const auto number = in.get<std::uint32_t>();
      const auto bytes = in.take(in.get<std::uint64_t>());
      check<RankError>(number < buffers.size(), "ranks: rank {} has written buffer {}, the model has {} of known rules",
                       rank, number, buffers.size());
      const Tensor& committed = buffers[number].entry.buffer->committed();
      Tensor written = Tensor::empty(committed.shape(), committed.dtype());
      check<RankError>(written.bytes() == bytes.size(),
                       "ranks: rank {} has sent {} bytes of a buffer of '{}', wanted {}", rank, bytes.size(),
                       buffers[number].path, written.bytes());
      if (!bytes.empty()) std::memcpy(written.mutable_raw(), bytes.data(), bytes.size());
      if (combined[number].defined())
        combine(buffers[number], start, combined[number], written, static_cast<int>(rank));
      else
        combined[number] = std::move(written);
    }
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (!combined[i].defined()) continue;
    Tensor& buffer = buffers[i].entry.buffer->writable();
    buffer.copy_from(combined[i].to(buffer.device()));
  }
}

}  // namespace binade::amp
