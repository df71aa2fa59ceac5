#pragma once

#include "binade/core/ops/binary.h"
#include "binade/core/ops/element_losses.h"
#include "binade/core/ops/lists.h"
#include "binade/core/ops/unary.h"

/// The ops whose kernels are compiled from one formula for every device. Kernels include no other header of core/ops/.
