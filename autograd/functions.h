/// Every function of variables. Includes only: one header a family under autograd/functions/.
#pragma once

#include "autograd/functions/attention.h"
#include "autograd/functions/conv.h"
#include "autograd/functions/elementwise.h"
#include "autograd/functions/embedding.h"
#include "autograd/functions/losses.h"
#include "autograd/functions/matmul.h"
#include "autograd/functions/norm.h"
#include "autograd/functions/pool.h"
#include "autograd/functions/reduce.h"
#include "autograd/functions/shape.h"
