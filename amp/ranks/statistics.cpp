#include "binade/amp/ranks/statistics.h"

#include <map>
#include <set>

#include "binade/amp/ranks/bytes.h"
#include "binade/nn/batch_norm.h"

namespace binade::amp {
namespace {

std::vector<nn::Buffer*> buffers_of(nn::BatchNorm& norm) {
  return {&norm.running_mean, &norm.running_var, &norm.num_batches_tracked};
}

void put_vector(ByteWriter& out, const Tensor& values) {
  const Tensor host = values.on_host();
  out.put(host.dtype()).put(static_cast<std::uint64_t>(host.bytes())).put_raw(host.raw(), host.bytes());
}

Tensor get_vector(ByteReader& in, Device device) {
  const auto dtype = in.get<DType>();
  const auto bytes = in.take(in.get<std::uint64_t>());
  const auto count = static_cast<std::int64_t>(bytes.size() / size_of(dtype));
  Tensor values = Tensor::empty(Shape{count}, dtype);
  if (count > 0) std::memcpy(values.mutable_raw(), bytes.data(), bytes.size());
  return values.to(device);
}

/// Gives a buffer the value that it had before the phase.
void restore(nn::Buffer& buffer, const StartValues& start) {
  const auto before = start.find(&buffer);
  if (before == start.end()) return buffer.rollback();
  Tensor& value = buffer.writable();
  value.copy_from(before->second.to(value.device()));
}

}  // namespace

Bytes encode_statistics(nn::Module& model, const StartValues& start, const nn::StatisticsLog& log) {
  std::map<const nn::Module*, std::uint32_t> numbers;
  for (const auto& [path, module] : nn::named_modules(model))
    numbers.emplace(module, static_cast<std::uint32_t>(numbers.size()));
  numbers.emplace(&model, static_cast<std::uint32_t>(numbers.size()));
  std::set<const nn::Buffer*> replayed;
  ByteWriter out;
  for (const nn::StatisticsLog::Entry& entry : log.entries()) {
    const auto number = numbers.find(entry.module);
    if (number == numbers.end()) continue;  // Registration reports a module that no visit() names
    for (const nn::Buffer* buffer : buffers_of(*entry.module)) replayed.insert(buffer);
    out.put(number->second).put(entry.count);
    put_vector(out, entry.mean);
    put_vector(out, entry.var);
  }
  const Bytes shared = encode_shared_buffers(model, start, replayed);
  for (const auto& [path, buffer] : nn::named_buffers(model))
    check<ArgumentError>(replayed.contains(buffer) || !has_changed(*buffer, start),
                         "trainer: forward has changed the buffer {}, whose rule ranks do not know; derive its module "
                         "from nn::SharesBuffers and name the rule, or train on one rank",
                         path);
  return ByteWriter().put(out.bytes()).put(shared).bytes();
}

void replay_statistics(nn::Module& model, const StartValues& start,
                       const std::vector<std::span<const std::byte>>& all) {
  std::vector<nn::Module*> modules;
  for (const auto& [path, module] : nn::named_modules(model)) modules.push_back(module);
  modules.push_back(&model);
  std::set<nn::Module*> begun;
  std::vector<Bytes> shared;
  for (const std::span<const std::byte> bytes : all) {
    ByteReader both(bytes);
    const Bytes of_norms = both.get<Bytes>();
    shared.push_back(both.get<Bytes>());
    ByteReader in(of_norms);
    while (!in.at_end()) {
      const auto number = in.get<std::uint32_t>();
      check<RankError>(number < modules.size(), "ranks: a rank has statistics of module {}, the model has {}", number,
                       modules.size());
      auto* norm = dynamic_cast<nn::BatchNorm*>(modules[number]);
      check<RankError>(norm != nullptr, "ranks: a rank has statistics of module {}, which is no batch norm", number);
      if (begun.insert(norm).second)
        for (nn::Buffer* buffer : buffers_of(*norm)) restore(*buffer, start);
      const Device device = norm->running_mean.committed().device();
      nn::StatisticsLog::Entry entry{.module = norm, .count = in.get<std::int64_t>()};
      entry.mean = get_vector(in, device);
      entry.var = get_vector(in, device);
      nn::StatisticsLog::replay(entry);
    }
  }
  combine_shared_buffers(model, start, {shared.begin(), shared.end()});
}

}  // namespace binade::amp
