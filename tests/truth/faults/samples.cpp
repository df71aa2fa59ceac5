#include <cmath>
#include <limits>

#include "tests/truth/scenario.h"

/// Bad samples: NaN and infinities in inputs and targets, labels and tokens that are out of range.
namespace binade::truth {

namespace {

using FieldOf = std::string ModelEntry::*;

Scenario bad_number(const std::string& name, FieldOf field, std::vector<double> values, bool whole) {
  Scenario s{.family = "bad sample", .name = name};
  s.fits = [field](const ModelEntry& m) { return !(m.*field).empty(); };
  s.strike = [field, values, whole](Session& session, Batch& batch, Draw& draw) {
    Truth truth{.proof = Proof::kInput, .rows = some_rows(batch, draw), .classes = {"bad-input"}};
    const double value = draw.one_of(values), at = draw.unit();
    const std::string where = session.entry().*field;
    for (const std::int64_t row : truth.rows)
      session.damage_sample(batch, row, [=](Batch& b, std::int64_t r) {
        Field& f = b.fields.at(where);
        const auto all = elements_of(f, b.samples(), r);
        for (std::size_t i = 0; i < all.size(); ++i)
          if (whole || i == static_cast<std::size_t>(at * static_cast<double>(all.size())))
            set_element(f.value, all[i], value);
      });
    return truth;
  };
  return s;
}

Scenario bad_index(const std::string& name, FieldOf field, std::int64_t ModelEntry::*count) {
  Scenario s{.family = "bad sample", .name = name};
  s.fits = [field](const ModelEntry& m) { return !(m.*field).empty(); };
  s.strike = [field, count](Session& session, Batch& batch, Draw& draw) {
    Truth truth{.proof = Proof::kRefused, .rows = {draw.below(batch.samples())}, .classes = {"bad-input"}};
    const auto legal = static_cast<double>(session.entry().*count);
    const double value = draw.chance(0.5) ? legal + static_cast<double>(draw.below(3))
                                          : -1 - static_cast<double>(draw.below(3)),
                 at = draw.unit();
    const std::string where = session.entry().*field;
    session.damage_sample(batch, truth.rows[0], [=](Batch& b, std::int64_t r) {
      Field& f = b.fields.at(where);
      const auto all = elements_of(f, b.samples(), r);
      set_element(f.value, all[static_cast<std::size_t>(at * static_cast<double>(all.size()))], value);
    });
    return truth;
  };
  return s;
}

}  // namespace

std::vector<Scenario> sample_faults() {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  return {bad_number("one NaN in an input", &ModelEntry::input, {std::nan("")}, false),
          bad_number("one infinity in an input", &ModelEntry::input, {kInf, -kInf}, false),
          bad_number("an input that is all NaN", &ModelEntry::input, {std::nan("")}, true),
          bad_number("NaN in a target", &ModelEntry::target, {std::nan(""), kInf}, false),
          bad_index("label out of range", &ModelEntry::labels, &ModelEntry::classes),
          bad_index("token out of range", &ModelEntry::tokens, &ModelEntry::rows)};
}

}  // namespace binade::truth
