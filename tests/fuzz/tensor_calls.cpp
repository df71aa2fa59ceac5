#include "tests/fuzz/calls.h"

namespace binade::fuzz {
namespace {

using A = Arguments&;
using Out = std::vector<Variable>;

Tensor some(A a) {
  const Variable x = a.tensor({a.b, a.t, a.d});
  return x.defined() ? x.value() : Tensor();
}

Shape shape(A a) { return Shape{a.number(a.b), a.number(a.t), a.number(a.d)}; }

}  // namespace

const std::vector<Call>& tensor_calls() {
  static const std::vector<Call> all{
      {"Tensor::zeros", [](A a) -> Out { return {Tensor::zeros(shape(a), a.dtype())}; }},
      {"Tensor::full", [](A a) -> Out { return {Tensor::full(shape(a), a.real(1), a.dtype())}; }},
      {"Tensor::from", [](A a) -> Out { return {Tensor::from(std::vector<float>(6), shape(a))}; }},
      {"Tensor::scalar", [](A a) -> Out { return {Tensor::scalar(a.real(1), a.dtype())}; }},
      {"Tensor::reshape", [](A a) -> Out { return {some(a).reshape(shape(a))}; }},
      {"Tensor::channel_slice", [](A a) -> Out { return {some(a).channel_slice(a.number(0), a.number(1))}; }},
      {"Tensor::narrow", [](A a) -> Out { return {some(a).narrow(a.number(0), a.number(1))}; }},
      {"Tensor::view_at", [](A a) -> Out { return {some(a).view_at(a.number(0), shape(a))}; }},
      {"Tensor::clone", [](A a) -> Out { return {some(a).clone()}; }},
      {"Tensor::contiguous_copy", [](A a) -> Out { return {some(a).contiguous_copy()}; }},
      {"Tensor::to", [](A a) -> Out { return {some(a).to(a.dtype())}; }},
      {"Tensor::copy_from",
       [](A a) -> Out {
         Tensor t = some(a).clone();
         t.copy_from(some(a));
         return {t};
       }},
      {"Tensor::fill",
       [](A a) -> Out {
         Tensor t = some(a).to(a.dtype()).clone();
         t.fill(a.real(1));
         return {t};
       }},
      {"Tensor::at", [](A a) -> Out { return {Tensor::scalar(some(a).at(a.number(0)), DType::f64)}; }},
      {"Tensor::item", [](A a) -> Out { return {Tensor::scalar(some(a).item(), DType::f64)}; }},
      {"Tensor::to_vector",
       [](A a) -> Out { return {Tensor::from(some(a).to_vector<float>(), Shape{some(a).numel()})}; }},
      {"Tensor::to_string",
       [](A a) -> Out {
         (void)some(a).to_string(a.number(3));
         return {};
       }},
      {"Shape::dim", [](A a) -> Out { return {Tensor::scalar(static_cast<double>(shape(a).dim(a.axis(3))))}; }},
      {"Shape::with_dim", [](A a) -> Out { return {Tensor::zeros(shape(a).with_dim(a.axis(3), a.number(2)))}; }},
  };
  return all;
}

}  // namespace binade::fuzz
