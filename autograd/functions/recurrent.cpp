#include "binade/autograd/functions/recurrent.h"

#include "binade/autograd/apply.h"
#include "binade/core/error.h"
#include "binade/core/ops/recurrent.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

void check_has_no_c(const char* op, const RecurrentState& start) {
  check<ArgumentError>(!start.c.defined(), "{}: has no c; give the state h only", where(op));
}
void check_no_relu(const char* op, const SequenceOptions& options) {
  check<ArgumentError>(!options.relu, "{}: `relu` is an option of rnn() only", where(op));
}

}  // namespace

RecurrentResult rnn(const Variable& x, const RecurrentWeights& w, const RecurrentState& start,
                    const SequenceOptions& o) {
  check_has_no_c("rnn", start);
  const std::vector<Variable> out = apply<ops::Rnn>(
      {.relu = o.relu, .reverse = o.reverse}, {x, w.input, w.hidden, w.input_bias, w.hidden_bias, start.h, o.lengths});
  return {out[0], {.h = out[1]}};
}

RecurrentResult lstm(const Variable& x, const RecurrentWeights& w, const RecurrentState& start,
                     const SequenceOptions& o) {
  check_no_relu("lstm", o);
  const std::vector<Variable> out = apply<ops::Lstm>(
      {.reverse = o.reverse}, {x, w.input, w.hidden, w.input_bias, w.hidden_bias, start.h, start.c, o.lengths});
  return {out[0], {.h = out[1], .c = out[2]}};
}

RecurrentResult gru(const Variable& x, const RecurrentWeights& w, const RecurrentState& start,
                    const SequenceOptions& o) {
  check_has_no_c("gru", start);
  check_no_relu("gru", o);
  const std::vector<Variable> out = apply<ops::Gru>({.reverse = o.reverse}, {x, w.input, w.hidden, w.input_bias,
                                                                             w.hidden_bias, start.h, o.lengths});
  return {out[0], {.h = out[1]}};
}

}  // namespace binade
