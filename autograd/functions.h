/// Every function of variables. Includes only: one header a family under autograd/functions/.
#pragma once

#include "binade/autograd/functions/attention.h"
#include "binade/autograd/functions/conv.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/embedding.h"
#include "binade/autograd/functions/losses.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/norm.h"
#include "binade/autograd/functions/pool.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
