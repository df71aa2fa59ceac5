#include <limits>

#include "tests/truth/scenario.h"

/// Attention masks that hide every key of a row.
namespace binade::truth {

std::vector<Scenario> mask_faults() {
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  Scenario empty{.family = "mask", .name = "a sample that is all padding"};
  empty.fits = [](const ModelEntry& m) { return !m.mask.empty(); };
  empty.strike = [](Session& session, Batch& batch, Draw& draw) {
    Truth truth{
        .proof = Proof::kMask, .ops = {"softmax"}, .rows = some_rows(batch, draw), .classes = {"fully-masked-row"}};
    const std::string field = session.entry().mask;
    for (const std::int64_t row : truth.rows)
      session.damage_sample(batch, row, [=](Batch& b, std::int64_t r) { set_sample(b, field, r, kHidden); });
    return truth;
  };

  Scenario row{.family = "mask", .name = "one query that sees no key"};
  row.fits = [](const ModelEntry& m) { return m.name == "gpt"; };
  row.strike = [](Session& session, Batch& batch, Draw& draw) {
    Truth truth{
        .proof = Proof::kMask, .ops = {"softmax"}, .rows = some_rows(batch, draw), .classes = {"fully-masked-row"}};
    const std::int64_t keys = batch["mask"].dim(-1), query = draw.below(keys);
    for (const std::int64_t one : truth.rows)
      session.damage_sample(batch, one, [=](Batch& b, std::int64_t r) {
        Field& mask = b.fields.at("mask");
        const auto all = elements_of(mask, b.samples(), r);
        for (std::int64_t k = 0; k < keys; ++k)
          set_element(mask.value, all[static_cast<std::size_t>(query * keys + k)], kHidden);
      });
    return truth;
  };

  // Pooling with a mask per sample: the weights exp(x + mask) are all 0 in a sample that is masked completely.
  Scenario pool{.family = "mask", .name = "attention pooling over nothing"};
  pool.prepare = [](Session& session, Draw&) {
    session.task().inner.code = [](const Variable& h, const Variable& g) {
      return h + h * softmax(h + log(minimum(g, Variable(Tensor::full({1}, 1.0)))));
    };
  };
  pool.strike = [](Session& session, Batch& batch, Draw& draw) {
    Truth truth{.proof = Proof::kMask,
                .ops = {"softmax", "log"},
                .modules = {session.task().inner_path},
                .rows = some_rows(batch, draw),
                .classes = {"fully-masked-row", "arithmetic-pole"}};
    set_gates(session, batch, truth.rows, 0);
    return truth;
  };
  return {empty, row, pool};
}

}  // namespace binade::truth
