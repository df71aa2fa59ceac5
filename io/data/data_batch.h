#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "binade/core/device.h"
#include "binade/core/error.h"
#include "binade/core/state_counts.h"
#include "binade/core/state_dict.h"
#include "binade/io/data/batch_order.h"
#include "binade/io/data/collate.h"
#include "binade/io/data/members.h"

namespace binade::io {

namespace detail {

/// True for data with rows that can be selected or removed: a tensor, a vector, and tuples and structs of these.
template <class T>
constexpr bool kHasRows = [] {
  if constexpr (std::is_same_v<T, Tensor> || IsVector<T>::value)
    return true;
  else if constexpr (kHasMembers<T> || kIsTuple<T>)
    return []<class... M>(std::type_identity<std::tuple<M&...>>) {
      return (kHasRows<M> && ...);
    }(std::type_identity<MembersOf<T>>{});
  else
    return false;
}();

/// True for data that state() can store: as kHasRows, but the elements of vectors must be texts.
template <class T>
constexpr bool kHasState = [] {
  if constexpr (std::is_same_v<T, Tensor> || std::is_same_v<T, std::vector<std::string>>)
    return true;
  else if constexpr (kHasMembers<T> || kIsTuple<T>)
    return []<class... M>(std::type_identity<std::tuple<M&...>>) {
      return (kHasState<M> && ...);
    }(std::type_identity<MembersOf<T>>{});
  else
    return false;
}();

/// Returns a copy of the data in which f(v) replaces every tensor and every vector v.
template <class T, class F>
T with_each(const T& data, const F& f) {
  if constexpr (std::is_same_v<T, Tensor> || IsVector<T>::value) {
    return f(data);
  } else {
    T result = data;
    for_each_member(result, [&](std::size_t, auto& member) { member = with_each(std::as_const(member), f); });
    return result;
  }
}

template <class T>
std::int64_t rows_of(const T& data) {
  if constexpr (std::is_same_v<T, Tensor>)
    return data.dim(0);
  else if constexpr (IsVector<T>::value)
    return std::ssize(data);
  else
    return rows_of(std::get<0>(members_of(data)));
}

void put_texts(StateDict& state, const std::string& name, const std::vector<std::string>& texts);
std::vector<std::string> texts_of(const StateDict& state, const std::string& name);

template <class T>
void put_data(StateDict& state, const std::string& name, const T& data) {
  if constexpr (std::is_same_v<T, Tensor>)
    state.put(name, data);
  else if constexpr (IsVector<T>::value)
    put_texts(state, name, data);
  else
    for_each_member(data, [&](std::size_t i, const auto& member) {
      put_data(state, name + "/" + std::to_string(i), member);
    });
}

template <class T>
T get_data(const StateDict& state, const std::string& name, std::int64_t rows) {
  if constexpr (std::is_same_v<T, Tensor> || IsVector<T>::value) {
    T data = [&] {
      if constexpr (IsVector<T>::value)
        return texts_of(state, name);
      else
        return state.tensor(name);
    }();
    bool fits = true;
    if constexpr (std::is_same_v<T, Tensor>) fits = data.rank() >= 1;
    check<CheckpointError>(fits && (rows == 0 || rows_of(data) == rows),
                           "batch: wanted {} rows in '{}', as there are samples, got {}", rows, name,
                           fits ? rows_of(data) : 0);
    return data;
  } else {
    T data;
    for_each_member(data, [&](std::size_t i, auto& member) {
      member = get_data<std::remove_reference_t<decltype(member)>>(state, name + "/" + std::to_string(i), rows);
    });
    return data;
  }
}

}  // namespace detail

/// A batch of a data set: the result of collate() or of the user's function, and the origin of its samples. The members
/// that a Trainer requires (docs/data.md) are derived from the members of `Data`, whose tensors and vectors have one
/// row per sample:
///
///     for (const auto& batch : run.batches(loader))
///       run.step(batch, [&](const auto& b) { return nn::cross_entropy(model(b->pixels), b->labels); });
///
/// If Data has members of other types, no sample can be removed, and no incident stores the batch.
template <class Data>
struct DataBatch {
  Data data{};
  BatchOrigin origin{};

  const Data* operator->() const { return &data; }
  Data* operator->() { return &data; }

  std::int64_t size() const requires detail::kHasRows<Data> { return detail::rows_of(data); }
  /// Returns `count` rows from row `begin` on. Tensors share the storage.
  DataBatch rows(std::int64_t begin, std::int64_t count) const requires detail::kHasRows<Data> {
    const auto part = [&]<class T>(const T& all) {
      if constexpr (std::is_same_v<T, Tensor>)
        return all.narrow(begin, count);
      else
        return T(all.begin() + begin, all.begin() + begin + count);
    };
    BatchOrigin of_part = origin.rows(begin, count);  // checks the range
    return {detail::with_each(data, part), std::move(of_part)};
  }
  /// Returns the batch without some rows; `rows` must be ascending.
  DataBatch without(std::span<const std::int64_t> rows) const requires detail::kHasRows<Data> {
    const auto rest = [&]<class T>(const T& all) {
      if constexpr (std::is_same_v<T, Tensor>) {
        return without_rows(all, rows);
      } else {
        T kept;
        for (std::size_t row = 0; row < all.size(); ++row)
          if (!std::ranges::binary_search(rows, static_cast<std::int64_t>(row))) kept.push_back(all[row]);
        return kept;
      }
    };
    return {detail::with_each(data, rest), origin.without(rows)};
  }
  DataBatch to(Device device) const requires detail::kHasRows<Data> {
    const auto moved = [&]<class T>(const T& all) {
      if constexpr (std::is_same_v<T, Tensor>)
        return all.to(device);
      else
        return all;
    };
    return {detail::with_each(data, moved), origin};
  }
  /// Returns the whole batch as a state, for a repro bundle.
  StateDict state() const requires detail::kHasState<Data> {
    StateDict state = origin.state();
    detail::put_data(state, "data", data);
    return state;
  }
  /// Returns the batch that state() stored. Throws CheckpointError.
  static DataBatch from_state(const StateDict& state) requires detail::kHasState<Data> {
    BatchOrigin from = BatchOrigin::from_state(state);
    return {detail::get_data<Data>(state, "data", std::ssize(from.samples)), std::move(from)};
  }
};

}  // namespace binade::io
