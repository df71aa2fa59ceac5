#pragma once

#include <string>

#include "binade/amp/incident/incident.h"

namespace binade::amp {

/// Returns "'matmul' in blocks.2.attention (forward): output is inf at [5, 0, 17, 3], sample 5", or the part of this
/// text that is known.
std::string location_of(const Diagnosis& diagnosis);

/// Describes the remedy, its cost and whether a replay showed that it works.
std::string description_of(const Remedy& remedy);

/// Returns the incident as a JSON object with the fields of docs/incidents.md.
std::string report_json(const Incident& incident);
/// Returns the incident as a Markdown page: place, cause, proof, remedy, advice.
std::string report_markdown(const Incident& incident);

}  // namespace binade::amp
