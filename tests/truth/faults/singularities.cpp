#include "tests/truth/faults/tapped.h"

/// A log, root, quotient or power in user code that reaches its singularity for one sample.
namespace binade::truth {

namespace {

Variable spread_of(const Variable& h) { return h - mean(h, {-1}, true); }
/// The energy of each row; 0 only if the gate is 0.
Variable energy(const Variable& h, const Variable& g) { return sum(square((abs(h) + 0.1) * g), {-1}, true); }

}  // namespace

std::vector<Scenario> singularity_faults() {
  const std::vector<std::string> pole{"arithmetic-pole"};
  std::vector<Scenario> list = tapped(
      "singularity",
      {
          {"divided by a length of 0", [](const Variable& h, const Variable& g) { return h / g; }, {0}, {"div"}, pole},
          {"times 1 / a distance of 0",
           [](const Variable& h, const Variable& g) { return h * (1.0 / g); },
           {0},
           {"scalar_div"},
           pole},
          {"log of a count of 0",
           [](const Variable& h, const Variable& g) { return h + log(g) * 0.1; },
           {0},
           {"log"},
           pole},
          {"log of a negative number",
           [](const Variable& h, const Variable& g) { return h * log(g + 0.5); },
           {-1, -3},
           {"log"},
           pole},
          {"root of a negative number",
           [](const Variable& h, const Variable& g) { return h * sqrt(g); },
           {-1, -0.01},
           {"sqrt"},
           pole},
          {"power 1.5 of a negative number",
           [](const Variable& h, const Variable& g) { return h * pow(g, 1.5); },
           {-2, -0.1},
           {"pow"},
           pole},
          {"inverse square root of 0",
           [](const Variable& h, const Variable& g) { return h * pow(energy(h, g) * 0.2, -0.5); },
           {0},
           {"pow"},
           pole,
           Proof::kSingular,
           {"fp32", "bf16", "fp16"},
           false},
          {"derivative of a norm at 0",
           [](const Variable& h, const Variable& g) { return h / (1.0 + sqrt(energy(h, g))); },
           {0},
           {"sqrt"},
           pole},
          {"derivative of pow 0.5 at 0",
           [](const Variable& h, const Variable& g) { return h / (1.0 + pow(energy(h, g), 0.5)); },
           {0},
           {"pow"},
           pole},
          {"unit vector of a zero vector",
           [](const Variable& h, const Variable& g) {
             const Variable x = (abs(h) + 0.1) * g;
             return h + x / sqrt(sum(square(x), {-1}, true));
           },
           {0},
           {"div", "sqrt"},
           pole,
           Proof::kSingular,
           {"fp32", "bf16", "fp16"},
           false},
          {"p log p at 0",
           [](const Variable& h, const Variable& g) { return h + g * log(g) * 0.1; },
           {0},
           {"log"},
           pole},
          {"relative error with a target of 0",
           [](const Variable& h, const Variable& g) { return (h - g) / g; },
           {0},
           {"div"},
           pole},
          {"geometric mean with a factor of 0",
           [](const Variable& h, const Variable& g) { return h * exp(mean(log((abs(h) + 0.1) * g), {-1}, true)); },
           {0},
           {"log"},
           pole},
          {"harmonic mean with a 0",
           [](const Variable& h, const Variable& g) { return h * (1.0 / (1.0 / ((abs(h) + 0.1) * g) + 1.0)); },
           {0},
           {"scalar_div"},
           pole},
          {"standard score without eps",
           [](const Variable& h, const Variable& g) {
             const Variable d = spread_of(varied(h) * g);
             return h + d / sqrt(mean(square(d), {-1}, true));
           },
           {0},
           {"div", "sqrt"},
           pole,
           Proof::kSingular,
           {"fp32", "bf16", "fp16"},
           false},
          {"logit of 1",
           [](const Variable& h, const Variable& g) {
             const Variable p = g * 0.25;
             return h + log(p / (1.0 - p)) * 0.1;
           },
           {4},
           {"div"},
           pole},
          {"log of 1 - p",
           [](const Variable& h, const Variable& g) { return h + log(1.0 - g * 0.25) * 0.1; },
           {4},
           {"log"},
           pole},
          {"entropy of a one-hot softmax",
           [](const Variable& h, const Variable& g) {
             const Variable p = softmax(spread_of(varied(h)) * g);
             return h + sum(p * log(p), {-1}, true) * 0.1;
           },
           {1e6, 3e7},
           {"log"},
           pole,
           Proof::kSingular,
           {"fp32", "bf16", "fp16"},
           false},
      });
  // A graph whose node has no neighbor: its row of the adjacency sums to 0.
  Scenario lonely{.family = "singularity", .name = "node without neighbors"};
  lonely.fits = [](const ModelEntry& m) { return m.name == "graph"; };
  lonely.strike = [pole](Session& session, Batch& batch, Draw& draw) {
    const std::int64_t node = draw.below(6);
    Truth truth{.ops = {"div"}, .modules = {"conv1"}, .rows = some_rows(batch, draw), .classes = pole};
    for (const std::int64_t row : truth.rows)
      session.damage_sample(batch, row, [node](Batch& b, std::int64_t r) {
        Field& edges = b.fields.at("edges");
        const auto all = elements_of(edges, b.samples(), r);
        for (std::int64_t i = 0; i < 6; ++i) set_element(edges.value, all[static_cast<std::size_t>(node * 6 + i)], 0);
      });
    return truth;
  };
  list.push_back(std::move(lonely));
  return list;
}

}  // namespace binade::truth
