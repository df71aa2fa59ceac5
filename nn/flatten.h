#pragma once

#include <vector>

#include "binade/autograd/functions/losses.h"
#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/error.h"
#include "binade/nn/module.h"

namespace binade::nn {

/// Options of Flatten.
struct FlattenOptions {
  int first = 1, last = -1;  ///< first and last merged dimension; -1: the last one
};

/// Merges dimensions [first, last] into one: (N, H, W, C) -> (N, H W C).
struct Flatten : OptionsModule<FlattenOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "Flatten"; }
  Variable forward(const Variable& x) override { return flatten(x, options().first, options().last); }
};

/// Options of Unflatten.
struct UnflattenOptions {
  int axis = 1;
  std::vector<std::int64_t> sizes{};  ///< extents whose product is that of the axis; one may be -1
};

/// Splits a dimension into several: with {.sizes = {4, 4, 8}}, (N, 128) -> (N, 4, 4, 8).
struct Unflatten : OptionsModule<UnflattenOptions> {
  explicit Unflatten(const UnflattenOptions& o) : OptionsModule(o) {
    check<ArgumentError>(!o.sizes.empty(), "Unflatten: wanted at least one size, got none");
  }
  std::string kind() const override { return "Unflatten"; }
  Variable forward(const Variable& x) override { return unflatten(x, options().axis, options().sizes); }
};

/// Returns x unchanged. Takes the place of a layer that is left out.
struct Identity : StatelessModule {
  std::string kind() const override { return "Identity"; }
  Variable forward(const Variable& x) override {
    check<ArgumentError>(x.defined(), "{}: x is undefined", where(kind()));
    return x;
  }
};

/// Options of CosineSimilarity.
struct CosineSimilarityOptions {
  int axis = 1;
  double eps = 1e-8;  ///< smallest length that a vector is divided by
};

/// The cosine of the angle between the vectors of a and b along an axis: `similarity(a, b)`; see cosine_similarity().
struct CosineSimilarity : OptionsModule<CosineSimilarityOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "CosineSimilarity"; }
  Variable operator()(const Variable& a, const Variable& b) {
    const ModuleScope scope(*this);
    return cosine_similarity(a, b, options().axis, options().eps);
  }
};

/// Options of PairwiseDistance.
struct PairwiseDistanceOptions {
  double p = 2;       ///< of the norm
  double eps = 1e-6;  ///< added to each difference
  bool keepdim = false;
};

/// The p-norm of a - b + eps over the last axis: `distance(a, b)`; see pairwise_distance().
struct PairwiseDistance : OptionsModule<PairwiseDistanceOptions> {
  using OptionsModule::OptionsModule;
  std::string kind() const override { return "PairwiseDistance"; }
  Variable operator()(const Variable& a, const Variable& b) {
    const ModuleScope scope(*this);
    return pairwise_distance(a, b, options().p, options().eps, options().keepdim);
  }
};

}  // namespace binade::nn
