#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace binade::io::detail {

/// Converts to the type of any member, in expressions that are never evaluated.
struct AnyMember {
  template <class T>
  operator T() const;  // NOLINT(google-explicit-constructor)
};

template <class T, std::size_t... I>
constexpr bool can_brace(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), AnyMember{})...}; };
}

inline constexpr std::size_t kMostMembers = 12;

/// Returns the number of members of an aggregate: the most values that can initialize it. 0 if above kMostMembers.
template <class T, std::size_t N = kMostMembers + 1>
constexpr std::size_t count_members() {
  if constexpr (N == 0)
    return 0;
  else if constexpr (can_brace<T>(std::make_index_sequence<N>{}))
    return N > kMostMembers ? 0 : N;
  else
    return count_members<T, N - 1>();
}

template <class T>
constexpr bool kIsTuple = false;
template <class... T>
constexpr bool kIsTuple<std::tuple<T...>> = true;
template <class A, class B>
constexpr bool kIsTuple<std::pair<A, B>> = true;

/// True for a struct without constructors, base classes and private members, of 1 to 12 members.
template <class T>
constexpr bool kHasMembers = [] {
  if constexpr (std::is_class_v<T> && std::is_aggregate_v<T> && !kIsTuple<T>)
    return count_members<T>() > 0;
  else
    return false;
}();

/// Returns references to the members of an aggregate, or to the elements of a tuple or pair, as a tuple.
template <class T>
constexpr auto members_of(T& value) {
  using Plain = std::remove_const_t<T>;
  if constexpr (kIsTuple<Plain>) {
    return std::apply([](auto&... all) { return std::tie(all...); }, value);
  } else {
    constexpr std::size_t n = count_members<Plain>();
    static_assert(n > 0, "data: wanted a struct of 1 to 12 members, without constructors and base classes");
    if constexpr (n == 1) {
      auto& [a] = value;
      return std::tie(a);
    } else if constexpr (n == 2) {
      auto& [a, b] = value;
      return std::tie(a, b);
    } else if constexpr (n == 3) {
      auto& [a, b, c] = value;
      return std::tie(a, b, c);
    } else if constexpr (n == 4) {
      auto& [a, b, c, d] = value;
      return std::tie(a, b, c, d);
    } else if constexpr (n == 5) {
      auto& [a, b, c, d, e] = value;
      return std::tie(a, b, c, d, e);
    } else if constexpr (n == 6) {
      auto& [a, b, c, d, e, f] = value;
      return std::tie(a, b, c, d, e, f);
    } else if constexpr (n == 7) {
      auto& [a, b, c, d, e, f, g] = value;
      return std::tie(a, b, c, d, e, f, g);
    } else if constexpr (n == 8) {
      auto& [a, b, c, d, e, f, g, h] = value;
      return std::tie(a, b, c, d, e, f, g, h);
    } else if constexpr (n == 9) {
      auto& [a, b, c, d, e, f, g, h, i] = value;
      return std::tie(a, b, c, d, e, f, g, h, i);
    } else if constexpr (n == 10) {
      auto& [a, b, c, d, e, f, g, h, i, j] = value;
      return std::tie(a, b, c, d, e, f, g, h, i, j);
    } else if constexpr (n == 11) {
      auto& [a, b, c, d, e, f, g, h, i, j, k] = value;
      return std::tie(a, b, c, d, e, f, g, h, i, j, k);
    } else {
      auto& [a, b, c, d, e, f, g, h, i, j, k, l] = value;
      return std::tie(a, b, c, d, e, f, g, h, i, j, k, l);
    }
  }
}

template <class T>
using MembersOf = decltype(members_of(std::declval<T&>()));

/// Calls f(number, member) for each member of an aggregate or tuple, in order.
template <class T, class F>
constexpr void for_each_member(T& value, F&& f) {
  std::apply(
      [&](auto&... member) {
        std::size_t i = 0;
        (f(i++, member), ...);
      },
      members_of(value));
}

}  // namespace binade::io::detail
