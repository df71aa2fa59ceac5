#pragma once

#include <cstdint>
#include <string>

#include "binade/amp/incident/first_bad.h"
#include "binade/nn/module.h"

namespace binade::amp {

/// The report on an evaluation whose result `what` is not finite; `search` watched it run again. `averaged`: it ran on
/// averaged weights.
Incident diagnose_evaluation(std::int64_t step, const std::string& what, const FirstBadSearch& search,
                             nn::Module& model, bool averaged);

}  // namespace binade::amp
