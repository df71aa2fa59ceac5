/// Includes every function of variables. The functions are in autograd/functions/, with one header for each family.
#pragma once

#include "binade/autograd/functions/attention.h"
#include "binade/autograd/functions/comparison.h"
#include "binade/autograd/functions/conv.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/embedding.h"
#include "binade/autograd/functions/losses.h"
#include "binade/autograd/functions/make.h"
#include "binade/autograd/functions/math.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/norm.h"
#include "binade/autograd/functions/pool.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
