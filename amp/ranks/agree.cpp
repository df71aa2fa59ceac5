#include "binade/amp/ranks/agree.h"

namespace binade::amp {

void exchange_failures(Communicator& ranks, const std::string& failure, std::string_view what) {
  const std::vector<Bytes> all = ranks.gather(std::as_bytes(std::span(failure)), what);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    check<RankError>(all[rank].empty() || static_cast<int>(rank) == ranks.rank(), "ranks: rank {} failed in {}: {}",
                     rank, what, std::string_view(reinterpret_cast<const char*>(all[rank].data()), all[rank].size()));
}

}  // namespace binade::amp
