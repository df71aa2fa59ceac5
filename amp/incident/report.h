#pragma once

#include <string>

#include "binade/amp/incident/incident.h"

namespace binade::amp {

/// "'matmul' in blocks.2.attention (forward): output is inf at [5, 0, 17, 3], sample 5"; what is known where no op is
/// to blame.
std::string place_of(const Diagnosis& diagnosis);

/// What was done, what it costs and whether a replay showed that it works.
std::string done_of(const Remedy& remedy);

/// The incident as one JSON object, fields as docs/incidents.md lists them.
std::string report_json(const Incident& incident);
/// The same for people: where, why, the proof, what was done, what to change.
std::string report_markdown(const Incident& incident);

}  // namespace binade::amp
