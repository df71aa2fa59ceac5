#include "binade/amp/ranks/state_bytes.h"

#include "binade/amp/ranks/bytes.h"

namespace binade::amp {
namespace {

void put_tensor(ByteWriter& out, const Tensor& tensor) {
  const Tensor host = tensor.on_host();
  std::vector<std::int64_t> extents;
  for (int i = 0; i < host.rank(); ++i) extents.push_back(host.dim(i));
  out.put(host.dtype()).put(extents).put(static_cast<std::uint64_t>(host.bytes())).put_raw(host.raw(), host.bytes());
}

Tensor get_tensor(ByteReader& in) {
  const auto dtype = in.get<DType>();
  const auto extents = in.get<std::vector<std::int64_t>>();
  const auto bytes = in.take(in.get<std::uint64_t>());
  Tensor tensor = Tensor::empty(Shape(extents), dtype);
  check<RankError>(tensor.bytes() == bytes.size(), "ranks: a message has {} bytes of a tensor of {}", bytes.size(),
                   tensor.bytes());
  if (!bytes.empty()) std::memcpy(tensor.mutable_raw(), bytes.data(), bytes.size());
  return tensor;
}

template <std::size_t Index = 0>
StateDict::Value get_value(ByteReader& in, std::size_t index) {
  if constexpr (Index == std::variant_size_v<StateDict::Value>) {
    throw RankError("ranks: a message has a value of an unknown type");
  } else {
    if (index != Index) return get_value<Index + 1>(in, index);
    using T = std::variant_alternative_t<Index, StateDict::Value>;
    if constexpr (std::is_same_v<T, Tensor>)
      return get_tensor(in);
    else
      return in.get<T>();
  }
}

}  // namespace

Bytes encode_state(const StateDict& state) {
  ByteWriter out;
  for (const auto& [name, value] : state.values()) {
    out.put(name).put(static_cast<std::uint64_t>(value.index()));
    std::visit(
        [&](const auto& one) {
          if constexpr (std::is_same_v<std::decay_t<decltype(one)>, Tensor>)
            put_tensor(out, one);
          else
            out.put(one);
        },
        value);
  }
  return out.bytes();
}

StateDict decode_state(std::span<const std::byte> bytes) {
  StateDict state;
  for (ByteReader in(bytes); !in.at_end();) {
    const auto name = in.get<std::string>();
    const auto type = in.get<std::uint64_t>();
    state.put(name, get_value(in, type));
  }
  return state;
}

StateDict collect_states(Communicator& ranks, const StateDict& mine, int to, std::string_view what) {
  const Bytes own = encode_state(mine);
  const std::vector<std::uint64_t> size = {own.size()};
  const std::vector<Bytes> sizes = ranks.gather(bytes_of(size), what);
  if (ranks.rank() != to) {
    const OutgoingPiece piece{to, own};
    ranks.exchange(std::span(&piece, 1), {}, what);
    return {};
  }
  std::vector<Bytes> all(sizes.size());
  std::vector<IncomingPiece> incoming;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    if (rank == to) continue;
    all[at].resize(ByteReader(sizes[at]).get<std::uint64_t>());
    incoming.push_back({rank, all[at]});
  }
  ranks.exchange({}, incoming, what);
  StateDict state = mine;
  for (const Bytes& bytes : all) {
    const StateDict other = decode_state(bytes);
    for (const auto& [name, value] : other.values()) state.put(name, value);
  }
  return state;
}

}  // namespace binade::amp
