#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "binade/autograd/variable.h"
#include "binade/core/error.h"
#include "binade/core/runtime.h"
#include "binade/core/state_dict.h"
#include "binade/io/data/batch_order.h"

namespace binade::amp {

/// The closure and the micro-batches of one step, whatever their types are. Both must outlive it, or be kept().
struct StepFeed {
  /// The loss of a micro-batch without some of its rows.
  std::function<Variable(int part, std::span<const std::int64_t> without)> loss;
  std::vector<const io::BatchOrigin*> origins;  ///< of each micro-batch; null where its type does not say
  bool can_lose_rows = false;                   ///< the type has without(rows) and an origin
  std::function<StateDict(int part)> contents;  ///< missing where the type has no state()
  /// The loss of a micro-batch made of these contents; missing where the type has no from_state() and to().
  std::function<Variable(int part, const StateDict& contents)> loss_of;
  std::string maths;  ///< names the closure, where there is loss_of
  /// The same of copies, which it keeps for as long as it lives; missing where one has no copy.
  std::function<StepFeed()> kept;
  std::shared_ptr<const void> keeps;
};

namespace detail {

template <class Batch>
concept CanLoseRows = requires(const Batch& b, std::span<const std::int64_t> rows) {
  b.without(rows);
  static_cast<const io::BatchOrigin&>(b.origin);
};

/// `batch` on the runtime's device. One out of a capsule lies on the host.
template <class Batch>
decltype(auto) there(const Batch& batch) {
  if constexpr (requires {
                  { batch.to(Device{}) } -> std::same_as<Batch>;
                })
    return batch.to(Runtime::current_device());
  else
    return (batch);
}

template <class Batch, class Maths>
Variable loss_without(const Batch& batch, std::span<const std::int64_t> without, Maths&& closure) {
  if constexpr (CanLoseRows<Batch>)
    if (!without.empty()) return closure(there(batch.without(without)));
  return closure(there(batch));
}

template <class Batch, class Maths>
struct Copies {
  Copies(std::vector<Batch> batches, const Maths& maths) : parts(std::move(batches)), closure(maths) {}
  std::vector<Batch> parts;
  Maths closure;
};

template <class Maths>
std::string name_of(const Maths& closure) {
  if constexpr (requires { closure.target_type(); })
    return closure.target_type().name();
  else if constexpr (std::is_pointer_v<std::decay_t<Maths>>)
    return fmt::format("{}", reinterpret_cast<std::uintptr_t>(closure));
  else
    return typeid(Maths).name();
}

template <class Batch>
const io::BatchOrigin* origin_of(const Batch& batch) {
  if constexpr (requires { static_cast<const io::BatchOrigin&>(batch.origin); })
    return &batch.origin;
  else
    return nullptr;
}

}  // namespace detail

template <class Batch, class Maths>
StepFeed feed_of(std::span<const Batch> parts, Maths& closure) {
  StepFeed feed;
  feed.loss = [parts, &closure](int i, std::span<const std::int64_t> without) {
    return detail::loss_without(parts[static_cast<std::size_t>(i)], without, closure);
  };
  for (const Batch& part : parts) feed.origins.push_back(detail::origin_of(part));
  feed.can_lose_rows = detail::CanLoseRows<Batch>;
  if constexpr (requires(const Batch& b) { b.state(); })
    feed.contents = [parts](int i) { return parts[static_cast<std::size_t>(i)].state(); };
  if constexpr (requires(const StateDict& s) {
                  { Batch::from_state(s).to(Device{}) } -> std::same_as<Batch>;
                }) {
    feed.loss_of = [&closure](int, const StateDict& contents) -> Variable {
      return closure(detail::there(Batch::from_state(contents)));
    };
    feed.maths = detail::name_of(closure);
  }
  if constexpr (std::copy_constructible<Batch> && std::copy_constructible<std::decay_t<Maths>>)
    feed.kept = [parts, &closure] {
      const auto copies = std::make_shared<detail::Copies<Batch, std::decay_t<Maths>>>(
          std::vector<Batch>(parts.begin(), parts.end()), closure);
      StepFeed kept = feed_of(std::span<const Batch>(copies->parts), copies->closure);
      kept.keeps = copies;
      return kept;
    };
  return feed;
}

}  // namespace binade::amp
