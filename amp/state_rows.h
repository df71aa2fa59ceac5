#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "binade/amp/text.h"
#include "binade/core/error.h"
#include "binade/core/state_counts.h"
#include "binade/core/state_dict.h"

/// Functions that save a vector of structs (rows) in a StateDict, as one list per member (column).
namespace binade::amp {

/// A column of counts: its name in the state, and the member of Row that it saves.
template <class Row>
struct CountColumn {
  const char* name;
  std::int64_t Row::*member;
};
/// A column of texts of one line each: its name in the state, and the member of Row that it saves.
template <class Row>
struct TextColumn {
  const char* name;
  std::string Row::*member;
};

/// Saves the members `counts`, and `text` if given, of all rows.
template <class Row>
void put_rows(StateDict& state, const std::vector<Row>& rows, std::initializer_list<CountColumn<Row>> counts) {
  for (const CountColumn<Row>& column : counts) {
    StateDict::Integers values;
    for (const Row& row : rows) values.push_back(row.*column.member);
    state.put(column.name, values);
  }
}
template <class Row>
void put_rows(StateDict& state, const std::vector<Row>& rows, TextColumn<Row> text,
              std::initializer_list<CountColumn<Row>> counts) {
  std::string lines;
  for (const Row& row : rows) add_line(lines, row.*text.member);
  state.put(text.name, lines);
  put_rows(state, rows, counts);
}

/// Reads the rows that put_rows() saved. Returns no rows if `state` is empty. Throws CheckpointError, whose text begins
/// with `what`, for lists of different lengths and for negative counts.
template <class Row>
std::vector<Row> read_rows(const StateDict& state, std::string_view what,
                           std::initializer_list<CountColumn<Row>> counts) {
  std::vector<Row> rows;
  for (const CountColumn<Row>& column : counts) {
    if (state.empty()) break;
    const StateDict::Integers& values = read_counts(state, column.name);
    if (column.name == counts.begin()->name) rows.resize(values.size());
    check<CheckpointError>(values.size() == rows.size(), "{}: wanted {} {}, the checkpoint holds {}", what, rows.size(),
                           column.name, values.size());
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].*column.member = values[i];
  }
  return rows;
}
template <class Row>
std::vector<Row> read_rows(const StateDict& state, std::string_view what, TextColumn<Row> text,
                           std::initializer_list<CountColumn<Row>> counts) {
  std::vector<Row> rows = read_rows(state, what, counts);
  if (state.empty()) return rows;
  const std::vector<std::string> lines = split_lines(state.text(text.name));
  check<CheckpointError>(lines.size() == rows.size(), "{}: wanted {} {}, the checkpoint holds {}", what, rows.size(),
                         text.name, lines.size());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].*text.member = lines[i];
  return rows;
}

}  // namespace binade::amp
