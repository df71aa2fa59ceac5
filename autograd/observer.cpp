#include "autograd/observer.h"

#include <vector>

namespace binade {
namespace {

thread_local std::vector<TapeObserver*> t_observers;

}  // namespace

ObserverScope::ObserverScope(TapeObserver& observer) { t_observers.push_back(&observer); }
ObserverScope::~ObserverScope() { t_observers.pop_back(); }

std::span<TapeObserver* const> detail::tape_observers() { return t_observers; }

}  // namespace binade
