#include "binade/autograd/observer.h"

#include <utility>
#include <vector>

#include "binade/core/per_thread.h"

namespace binade {
namespace {

constinit thread_local PerThread<std::vector<TapeObserver*>> t_observers;

}  // namespace

ObserverScope::ObserverScope(TapeObserver& observer) { t_observers.get().push_back(&observer); }
ObserverScope::~ObserverScope() { t_observers.get().pop_back(); }

NoObserverScope::NoObserverScope() : hidden_(std::exchange(t_observers.get(), {})) {}
NoObserverScope::~NoObserverScope() { t_observers.get() = std::move(hidden_); }

std::span<TapeObserver* const> detail::tape_observers() { return t_observers.get(); }

}  // namespace binade
