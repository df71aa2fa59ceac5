#pragma once

#include "binade/core/ops/binary.h"
#include "binade/core/ops/element_losses.h"
#include "binade/core/ops/lists.h"
#include "binade/core/ops/unary.h"

/// The ops whose value and derivative are one formula for every device: kernels of all of them are compiled from these
/// structs. The one header of core/ops/ that kernels include.
