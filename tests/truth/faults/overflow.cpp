#include "tests/truth/faults/tapped.h"

/// Results beyond the range of the dtype: products, sums, exponentials, attention logits, unscaled samples.
namespace binade::truth {

namespace {

Variable gate_in_dtype_of(const Variable& g, const Variable& h) { return cast(g, h.dtype()); }
bool attends(const ModelEntry& m) { return m.name == "encoder-decoder"; }
bool not_attending(const ModelEntry& m) { return m.name != "encoder-decoder"; }

}  // namespace

std::vector<Scenario> overflow_faults() {
  const std::vector<std::string> half{"activation-overflow"}, sums{"activation-overflow", "reduction-overflow"};
  const std::vector<std::string> wide{"activation-overflow", "reduction-overflow", "bad-input", "overflow"};
  std::vector<Scenario> list = tapped(
      "overflow", {
                      {"square in fp16",
                       [](const Variable& h, const Variable& g) {
                         const Variable x = (h + 1.0) * gate_in_dtype_of(g, h);
                         return h * (0.1 * log(1.0 + mean(x * x, {-1}, true)));
                       },
                       {3e3, 1e4, 3e4},
                       {"mul"},
                       half,
                       Proof::kOverflow,
                       {"fp16"}},
                      {"sum by a product with ones",
                       [](const Variable& h, const Variable& g) {
                         const Variable x = (clamp(abs(h), 0, 1) + 1.0) * gate_in_dtype_of(g, h);
                         const Variable ones(Tensor::full({h.shape().cols(), 1}, 1.0, h.dtype()));
                         return h * (0.1 * log(1.0 + matmul(x, ones)));
                       },
                       {2.5e4, 3e4},
                       {"matmul"},
                       sums,
                       Proof::kOverflow,
                       {"fp16"},
                       false,
                       not_attending},
                      {"exponential stored in fp16",
                       [](const Variable& h, const Variable& g) {
                         return h * (0.1 * log(1.0 + cast(exp((mean(abs(tanh(h)), {-1}, true) + 1.0) * g), h.dtype())));
                       },
                       {12, 20},
                       {"cast"},
                       half,
                       Proof::kOverflow,
                       {"fp16"}},
                      {"a constant factor in fp16",
                       [](const Variable& h, const Variable& g) {
                         return h * (0.1 * log(1.0 + abs(gate_in_dtype_of(g, h) * 500.0)));
                       },
                       {200, 3e3},
                       {"mul_scalar"},
                       half,
                       Proof::kOverflow,
                       {"fp16"}},
                      {"quotient beyond fp16",
                       [](const Variable& h, const Variable& g) {
                         return h *
                                (0.1 * log(1.0 + 1.0 / gate_in_dtype_of(g, h) * 3.0 / (gate_in_dtype_of(g, h) + 0.01)));
                       },
                       {1e-3},
                       {"div", "div_scalar", "mul_scalar"},
                       half,
                       Proof::kOverflow,
                       {"fp16"}},
                      {"exponential beyond f32",
                       [](const Variable& h, const Variable& g) {
                         return h * (0.1 * log(1.0 + exp((mean(abs(tanh(h)), {-1}, true) + 1.0) * g)));
                       },
                       {95, 300},
                       {"exp"},
                       wide,
                       Proof::kOverflow},
                      {"fourth power beyond f32",
                       [](const Variable& h, const Variable& g) { return h * (0.1 * log(1.0 + pow(g, 4))); },
                       {1e11, 1e15},
                       {"pow"},
                       wide,
                       Proof::kOverflow},
                      {"attention logits in fp16",
                       [](const Variable& h, const Variable& g) { return h * gate_in_dtype_of(g, h); },
                       {2e4, 3e4},
                       {"matmul"},
                       {"attention-logit-overflow"},
                       Proof::kOverflow,
                       {"fp16"},
                       false,
                       attends},
                  });

  Scenario raw{.family = "overflow", .name = "a sample that was not normalized", .precisions = {"fp16"}};
  raw.fits = [](const ModelEntry& m) { return !m.input.empty(); };
  raw.strike = [](Session& session, Batch& batch, Draw& draw) {
    Truth truth{.proof = Proof::kOverflow,
                .rows = {draw.below(batch.samples())},
                .classes = {"activation-overflow", "bad-input", "attention-logit-overflow", "reduction-overflow"}};
    const double factor = draw.magnitude(3e5, 3e6);
    const std::string field = session.entry().input;
    session.damage_sample(batch, truth.rows[0], [=](Batch& b, std::int64_t r) { scale_sample(b, field, r, factor); });
    return truth;
  };
  list.push_back(std::move(raw));

  Scenario outlier{.family = "overflow", .name = "an outlier of 1e25"};
  outlier.fits = [](const ModelEntry& m) { return !m.target.empty(); };
  outlier.strike = [wide](Session& session, Batch& batch, Draw& draw) {
    Truth truth{.proof = Proof::kOverflow, .rows = {draw.below(batch.samples())}, .classes = wide};
    truth.classes.push_back("gradient-explosion");
    const double value = draw.magnitude(1e24, 1e30);
    const std::string field = session.entry().target;
    session.damage_sample(batch, truth.rows[0], [=](Batch& b, std::int64_t r) { set_sample(b, field, r, value); });
    return truth;
  };
  list.push_back(std::move(outlier));
  return list;
}

}  // namespace binade::truth
