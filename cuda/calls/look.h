#pragma once

#include "binade/core/look_kernels.h"

/// LookKernels (core/look_kernels.h) as calls are PoleLook, ZeroLook, SoftmaxLook and AttentionLook themselves.
