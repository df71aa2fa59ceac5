#include "binade/autograd/derivatives/table.h"
#include "binade/core/ops/attention.h"

namespace binade::derivatives {
namespace {

constexpr Entry kEntries[] = {
    {&ops::Attention::info, nullptr,
     "use matmul, softmax and matmul in its place; nn::MultiHeadAttention does so with .composed = true"},
};

}  // namespace

std::span<const Entry> of_attention() { return kEntries; }

}  // namespace binade::derivatives
