#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/truth/scenario.h"

/// Faults in user code that reads an activation and one number per sample, the gate (a length, a distance, a
/// temperature). The code works for the gates of the data set, 0.5 to 2, and fails for another number.
namespace binade::truth {

/// h plus a ramp, so that it is not constant along the channels even if ReLUs made h 0.
inline Variable varied(const Variable& h) {
  std::vector<float> ramp(static_cast<std::size_t>(h.shape().cols()));
  for (std::size_t i = 0; i < ramp.size(); ++i) ramp[i] = 0.37f * static_cast<float>(i + 1);
  return h + Variable(Tensor::from(ramp, {h.shape().cols()}).to(h.dtype()));
}

struct TappedFault {
  std::string name{};
  Tap::Code code{};
  std::vector<double> bad{};       ///< gates for which the code fails; a scenario draws one
  std::vector<std::string> ops{};  ///< the op that fails
  std::vector<std::string> classes{};
  Proof proof = Proof::kSingular;
  std::vector<std::string> precisions{"fp32", "bf16", "fp16"};
  bool in_loss_too = true;  ///< the code can also be planted in the loss, on the prediction
  std::function<bool(const ModelEntry&)> fits = [](const ModelEntry&) { return true; };
};

/// Scenarios for every fault: inside the model and, if in_loss_too, in the loss.
inline std::vector<Scenario> tapped(const std::string& family, const std::vector<TappedFault>& faults) {
  std::vector<Scenario> list;
  for (const TappedFault& fault : faults)
    for (const bool in_loss : {false, true}) {
      if (in_loss && !fault.in_loss_too) continue;
      Scenario s{.family = family,
                 .name = fault.name + (in_loss ? " in the loss" : ""),
                 .precisions = fault.precisions,
                 .fits = fault.fits};
      s.prepare = [fault, in_loss](Session& session, Draw&) {
        (in_loss ? session.task().outer : session.task().inner).code = fault.code;
      };
      s.strike = [fault, in_loss](Session& session, Batch& batch, Draw& draw) {
        Truth truth{.proof = fault.proof, .ops = fault.ops, .rows = some_rows(batch, draw), .classes = fault.classes};
        if (in_loss) {
          truth.modules = {"", "loss"};
          if (truth.proof != Proof::kOverflow) truth.classes.push_back("loss-function-pole");
        } else {
          truth.modules = {session.task().inner_path};
        }
        set_gates(session, batch, truth.rows, draw.one_of(fault.bad));
        return truth;
      };
      list.push_back(std::move(s));
    }
  return list;
}

}  // namespace binade::truth
