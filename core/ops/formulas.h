#pragma once

#include "binade/core/ops/activations.h"
#include "binade/core/ops/binary.h"
#include "binade/core/ops/element_losses.h"
#include "binade/core/ops/exact.h"
#include "binade/core/ops/lists.h"
#include "binade/core/ops/math_functions.h"
#include "binade/core/ops/rare_binary.h"
#include "binade/core/ops/rounding.h"
#include "binade/core/ops/unary.h"

/// Includes the ops whose struct defines a formula, from which the kernels of every device are compiled. It is the only
/// header of core/ops/ that kernels include.
