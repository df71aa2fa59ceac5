#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>

#include "binade/amp/step/participants.h"
#include "binade/autograd/variable.h"
#include "binade/core/state_dict.h"
#include "binade/io/data/batch_order.h"

namespace binade::amp::detail {

template <class Closure>
constexpr bool kHasPhases = false;
template <class... Closures>
constexpr bool kHasPhases<Phases<Closures...>> = true;

/// Checks a batch type that a program passes to Trainer::step. All members are optional, but a member with one of these
/// names must have this form, because the Trainer uses it:
///
///     io::BatchOrigin origin;                                     // which samples the batch has
///     Batch without(std::span<const std::int64_t> rows) const;    // needs `origin`; leaves bad samples out
///     StateDict state() const;                                    // for repro bundles and captured steps
///     static Batch from_state(const StateDict&);                  // needs state()
///     Batch to(Device) const;                                     // moves it to the device of the step
///
/// A Variable may be a batch too. Its state() has another meaning and is not used.
template <class B>
struct BatchType {
  static constexpr bool kOrigin = !requires(const B& b) { b.origin; }
  || requires(const B& b) { static_cast<const io::BatchOrigin&>(b.origin); };
  static constexpr bool kHasWithout = requires { &B::without; }
  || requires(const B& b, std::span<const std::int64_t> rows) { b.without(rows); };
  static constexpr bool kWithout = !kHasWithout || requires(const B& b, std::span<const std::int64_t> rows) {
    { b.without(rows) } -> std::convertible_to<B>;
  };
  static constexpr bool kNamesSamples = !kHasWithout || requires(const B& b) { b.origin; };
  static constexpr bool kState = std::same_as<B, Variable> || !requires { &B::state; }
  || requires(const B& b) {
    { b.state() } -> std::convertible_to<StateDict>;
  };
  static constexpr bool kFromState = !requires { &B::from_state; }
  || requires(const B& b, const StateDict& s) {
    { B::from_state(s) } -> std::convertible_to<B>;
    b.state();
  };
  static constexpr bool kTo = !requires { &B::to; }
  || requires(const B& b, Device d) {
    { b.to(d) } -> std::same_as<B>;
  };
  static constexpr bool kFits = kOrigin && kWithout && kNamesSamples && kState && kFromState && kTo;

  static_assert(kOrigin,
                "batch type: its member `origin` must be an io::BatchOrigin; rename it if it is something else");
  static_assert(kWithout,
                "batch type: its member `without` must be `Batch without(std::span<const std::int64_t> rows) "
                "const`; rename it if it is something else");
  static_assert(kNamesSamples,
                "batch type: `without(rows)` wants a member `io::BatchOrigin origin`, which names the "
                "samples of the batch");
  static_assert(kState,
                "batch type: its member `state` must be `StateDict state() const`; rename it if it is something "
                "else");
  static_assert(kFromState,
                "batch type: its member `from_state` must be `static Batch from_state(const StateDict&)`, "
                "beside `StateDict state() const`");
  static_assert(kTo,
                "batch type: its member `to` must be `Batch to(Device device) const`; rename it if it is something "
                "else");
};

/// Checks that a closure computes a loss from such a batch.
template <class B, class Closure>
struct ClosureType {
  static constexpr bool kTakesBatch = std::is_invocable_v<Closure&, const B&>;
  static constexpr bool kReturnsLoss = [] {
    if constexpr (kTakesBatch) return std::is_convertible_v<std::invoke_result_t<Closure&, const B&>, Variable>;
    return true;
  }();
  static constexpr bool kFits = kTakesBatch && kReturnsLoss;

  static_assert(kTakesBatch,
                "Trainer::step: the closure must take the batch: `[&](const Batch& batch) { return loss; "
                "}`, with the type of the batch that is passed, by const reference or value");
  static_assert(kReturnsLoss, "Trainer::step: the closure must return the loss, a Variable of one element");
};
template <class B, class... Closures>
struct ClosureType<B, Phases<Closures...>> {
  static constexpr bool kFits = (ClosureType<B, Closures>::kFits && ...);
};

/// True if Trainer::step() accepts a batch and a closure of these types; otherwise a static_assert above fails.
template <class B, class Closure>
constexpr bool kFitsStep = BatchType<B>::kFits&& ClosureType<B, Closure>::kFits;

/// Checks a loader for Trainer::batches() and Trainer::attach(): it has the members of io::Loader that they use.
template <class Loader>
struct LoaderType {
  static constexpr bool kHasState = requires(Loader & loader, const StateDict& state, const io::BatchOrigin& origin) {
    { loader.state() } -> std::convertible_to<StateDict>;
    loader.load_state(state);
    loader.commit(origin);
  };
  static constexpr bool kFits = kHasState;
  static_assert(kHasState,
                "loader: it must have `StateDict state() const`, `void load_state(const StateDict&)` and "
                "`void commit(const io::BatchOrigin&)`, so that a step can commit the position in the data "
                "(io::Loader has them); pass batches of other sources to step() without a loader");
};

}  // namespace binade::amp::detail
