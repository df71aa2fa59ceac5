#include "binade/cuda/device/attention_graph.h"

#include <algorithm>

namespace binade::cuda {
namespace {

using Raw = cudnnBackendDescriptor_t;

/// The extents and strides of a tensor, always listed in the order (batch, heads, tokens, depth); the strides tell the
/// order in memory.
struct Layout {
  Four extents, strides;

  /// Returns the layout with tokens and depth exchanged, for the right operand of a product.
  Layout transposed() const {
    Layout t = *this;
    std::swap(t.extents[2], t.extents[3]);
    std::swap(t.strides[2], t.strides[3]);
    return t;
  }
};

/// Returns the layout of a contiguous tensor with extents e.
Layout dense(const Four& e) { return {e, {e[1] * e[2] * e[3], e[2] * e[3], e[3], 1}}; }

/// Adds operations to a graph. Their results never reach memory unless they are created by in_memory().
class Composer {
 public:
  explicit Composer(const AttentionKey& key) : key_(key), io_(type_of(key.dtype)) {}

  Layout logits() const { return dense({key_.batch, key_.heads, key_.queries, key_.keys}); }
  Layout rows() const { return dense({key_.batch, key_.heads, key_.queries, 1}); }
  Layout queries(const AttentionKey::Steps& steps) const { return tokens(key_.heads, key_.queries, steps); }
  Layout keys(const AttentionKey::Steps& steps) const { return tokens(key_.key_heads, key_.keys, steps); }

  Raw in_memory(AttentionTensor id, cudnnDataType_t type, const Layout& at) {
    return graph_.keep(tensor({.id = id, .type = type, .extents = at.extents, .strides = at.strides}));
  }
  Raw half(AttentionTensor id, const Layout& at) { return in_memory(id, io_, at); }
  Raw scalar(AttentionTensor id, cudnnDataType_t type) {
    const Layout one = dense({1, 1, 1, 1});
    return graph_.keep(
        tensor({.id = id, .type = type, .extents = one.extents, .strides = one.strides, .is_by_value = true}));
  }
  Raw inner(const Layout& at, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return graph_.keep(
        tensor({.id = next_++, .type = type, .extents = at.extents, .strides = at.strides, .is_virtual = true}));
  }
  Raw inner_half(const Layout& at) { return inner(at, io_); }

  Raw multiply(Raw a, Raw b, Raw to) {
    Descriptor how(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    how.set_one(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT).finalize();
    Descriptor operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, graph_.keep(std::move(how)));
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a).set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    return add(std::move(operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, to)), to);
  }

  /// to = mode(x, b), computed in `type`. `chosen`: for a selection, the tensor of booleans that selects x or b.
  Raw pointwise(cudnnPointwiseMode_t mode, Raw x, Raw b, Raw to, cudnnDataType_t type = CUDNN_DATA_FLOAT,
                Raw chosen = nullptr) {
    Descriptor how = pointwise_mode(mode, type);
    return pointwise(std::move(how.finalize()), x, b, to, chosen);
  }
  Raw pointwise(cudnnPointwiseMode_t mode, Raw x, Raw b) { return pointwise(mode, x, b, inner(logits())); }

  /// Returns the coordinate of each logit along `axis` (2: its query, 3: its key).
  Raw index(Raw like, std::int64_t axis) {
    Descriptor how = pointwise_mode(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT);
    how.set(CUDNN_ATTR_POINTWISE_AXIS, {axis}).finalize();
    return pointwise(std::move(how), like, nullptr, inner(logits(), CUDNN_DATA_INT32), nullptr);
  }

  Raw reduce(cudnnReduceTensorOp_t mode, Raw x, Raw to) {
    Descriptor how(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    how.set_one(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    how.set_one(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, mode).finalize();
    Descriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, graph_.keep(std::move(how)));
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    return add(std::move(operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, to)), to);
  }

  /// Returns the same elements in another layout.
  Raw reshape(Raw x, Raw to) {
    Descriptor operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    return add(std::move(operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, to)), to);
  }

  /// Returns the logits, with -inf where `causal` hides a key: query t attends to keys s <= t + keys - queries.
  Raw masked(Raw logit) {
    if (!key_.causal) return logit;
    Raw last = index(logit, 2), key = index(logit, 3);
    if (key_.keys != key_.queries) {
      const auto shifted = [&](cudnnPointwiseMode_t mode, AttentionTensor by) {
        return pointwise(mode, last, scalar(by, CUDNN_DATA_INT32), inner(logits(), CUDNN_DATA_INT32), CUDNN_DATA_INT32);
      };
      last = shifted(CUDNN_POINTWISE_ADD, kAttentionKeyCount);
      last = shifted(CUDNN_POINTWISE_SUB, kAttentionQueryCount);
    }
    const Raw sees = pointwise(CUDNN_POINTWISE_CMP_GE, last, key, inner(logits(), CUDNN_DATA_BOOLEAN),
                               CUDNN_DATA_BOOLEAN);
    return pointwise(CUDNN_POINTWISE_BINARY_SELECT, logit, scalar(kAttentionHidden, CUDNN_DATA_FLOAT), inner(logits()),
                     CUDNN_DATA_FLOAT, sees);
  }

  /// Returns x (batch, heads, queries, keys), transposed, as the left operand of a product that sums over queries.
  Raw by_keys(Raw x) {
    const Layout at = dense({key_.batch, key_.heads, key_.queries, key_.keys}).transposed();
    return reshape(x, inner_half(at));
  }

  /// Computes x y, the gradient of keys or values, and adds the gradients of query heads that share a key head.
  void gradient_of_keys(Raw x, Raw y, AttentionTensor id, const AttentionKey::Steps& steps) {
    const Raw to = half(id, keys(steps));
    if (key_.heads == key_.key_heads) {
      multiply(x, y, to);
      return;
    }
    const Raw each = inner_half(dense({key_.batch, key_.heads, key_.keys, key_.depth}));
    reduce(CUDNN_REDUCE_TENSOR_ADD, multiply(x, y, each), to);
  }

  OperationGraph finish(cudnnHandle_t handle) {
    graph_.finalize(operations_, handle);
    return std::move(graph_);
  }

 private:
  Layout tokens(std::int64_t heads, std::int64_t count, const AttentionKey::Steps& steps) const {
    return {{key_.batch, heads, count, key_.depth}, {count * steps.token, steps.head, steps.token, 1}};
  }

  static Descriptor pointwise_mode(cudnnPointwiseMode_t mode, cudnnDataType_t type) {
    Descriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    how.set_one(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
    how.set_one(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, type);
    return how;
  }
  Raw pointwise(Descriptor&& how, Raw x, Raw b, Raw to, Raw chosen) {
    Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, graph_.keep(std::move(how)));
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    if (chosen != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, chosen);
    return add(std::move(operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to)), to);
  }
  Raw add(Descriptor&& operation, Raw to) {
    operation.finalize();
    operations_.push_back(graph_.keep(std::move(operation)));
    return to;
  }

  const AttentionKey& key_;
  cudnnDataType_t io_;
  std::int64_t next_ = kAttentionInner;
  OperationGraph graph_;
  std::vector<Raw> operations_;
};

OperationGraph forward(const AttentionKey& key, cudnnHandle_t handle) {
  Composer c(key);
  const Raw q = c.half(kAttentionQ, c.queries(key.q)), k = c.half(kAttentionK, c.keys(key.k).transposed());
  const Raw v = c.half(kAttentionV, c.keys(key.v)), y = c.half(kAttentionY, c.queries(key.y));
  const Raw lse = c.in_memory(kAttentionLse, CUDNN_DATA_FLOAT, c.rows());

  Raw x = c.multiply(q, k, c.inner(c.logits()));
  x = c.masked(c.pointwise(CUDNN_POINTWISE_MUL, x, c.scalar(kAttentionScale, CUDNN_DATA_FLOAT)));
  const Raw largest = c.reduce(CUDNN_REDUCE_TENSOR_MAX, x, c.inner(c.rows()));
  x = c.pointwise(CUDNN_POINTWISE_EXP, c.pointwise(CUDNN_POINTWISE_SUB, x, largest), nullptr);
  const Raw sum = c.reduce(CUDNN_REDUCE_TENSOR_ADD, x, c.inner(c.rows()));
  c.pointwise(CUDNN_POINTWISE_ADD, largest, c.pointwise(CUDNN_POINTWISE_LOG, sum, nullptr, c.inner(c.rows())), lse);
  x = c.pointwise(CUDNN_POINTWISE_DIV, x, sum, c.inner_half(c.logits()));
  c.multiply(x, v, y);
  return c.finish(handle);
}

OperationGraph backward(const AttentionKey& key, cudnnHandle_t handle) {
  Composer c(key);
  const Raw q = c.half(kAttentionQ, c.queries(key.q)), k = c.half(kAttentionK, c.keys(key.k).transposed());
  const Raw v = c.half(kAttentionV, c.keys(key.v).transposed()), y = c.half(kAttentionY, c.queries(key.y));
  const Raw gy = c.half(kAttentionGy, c.queries(key.gy)), gq = c.half(kAttentionGq, c.queries(key.gq));
  const Raw lse = c.in_memory(kAttentionLse, CUDNN_DATA_FLOAT, c.rows());
  const Raw scale = c.scalar(kAttentionScale, CUDNN_DATA_FLOAT);

  // Delta, the sums of gy y, is stored in memory. The pattern that cuDNN recognizes multiplies it by a factor for
  // dropout, which is 1 here.
  const Layout products = dense({key.batch, key.heads, key.queries, key.depth});
  Raw x = c.pointwise(CUDNN_POINTWISE_MUL, gy, y, c.inner(products));
  x = c.reduce(CUDNN_REDUCE_TENSOR_ADD, x, c.inner(c.rows()));
  const Raw delta = c.pointwise(CUDNN_POINTWISE_MUL, x, c.scalar(kAttentionOne, CUDNN_DATA_FLOAT),
                                c.in_memory(kAttentionDelta, CUDNN_DATA_FLOAT, c.rows()));

  x = c.pointwise(CUDNN_POINTWISE_MUL, c.multiply(q, k, c.inner(c.logits())), scale);
  x = c.masked(c.pointwise(CUDNN_POINTWISE_SUB, x, lse));
  const Raw p = c.pointwise(CUDNN_POINTWISE_EXP, x, nullptr);
  c.gradient_of_keys(c.by_keys(p), gy, kAttentionGv, key.gv);

  x = c.pointwise(CUDNN_POINTWISE_SUB, c.multiply(gy, v, c.inner(c.logits())), delta);
  const Raw gp = c.pointwise(CUDNN_POINTWISE_MUL, c.pointwise(CUDNN_POINTWISE_MUL, x, p), scale);
  c.gradient_of_keys(c.by_keys(gp), q, kAttentionGk, key.gk);
  c.multiply(gp, c.reshape(k, c.inner_half(c.keys(key.k))), gq);
  return c.finish(handle);
}

}  // namespace

bool has_tensor(const AttentionKey& key, AttentionTensor id) {
  const bool backward = key.pass == AttentionPass::kBackward, shifted = key.causal && key.keys != key.queries;
  if (id <= kAttentionLse || id == kAttentionScale) return true;
  if (id <= kAttentionDelta || id == kAttentionOne) return backward;
  if (id == kAttentionHidden) return key.causal;
  return (id == kAttentionKeyCount || id == kAttentionQueryCount) && shifted;
}

OperationGraph attention_graph(const AttentionKey& key, cudnnHandle_t handle) {
  return key.pass == AttentionPass::kForward ? forward(key, handle) : backward(key, handle);
}

namespace {
EngineRequirements requirements_of(const AttentionKey& key) {
  return {.tensor_cores = is_half(key.dtype) ? TensorCores::kAllowed : TensorCores::kNone};
}
}  // namespace

std::vector<EngineChoice> propose_attention_engines(const AttentionKey& key, const EngineTarget& target) {
  return proposed_engines(attention_graph(key, target.handle), kComposed, requirements_of(key), target);
}

std::optional<EnginePlan> restore_attention_plan(const AttentionKey& key, const EngineChoice& choice,
                                                 const EngineTarget& target) {
  if (choice.form != kComposed) return {};
  return restore_engine(attention_graph(key, target.handle), choice, requirements_of(key), target);
}

}  // namespace binade::cuda
