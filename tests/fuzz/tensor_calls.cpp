#include <memory>

#include "binade/core/make.h"
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
      {"Tensor::from_blob",
       [](A a) -> Out {
         const auto memory = std::make_shared<std::vector<float>>(65);
         const Shape wanted = shape(a);
         check<ArgumentError>(wanted.numel() <= 64, "the memory is too small");
         return {
             Tensor::from_blob(memory->data() + (a.flag() ? 0 : 1), wanted, DType::f32, Device::cpu(), memory).clone()};
       }},
      {"Tensor::[]", [](A a) -> Out { return {some(a)[a.number(0)]}; }},
      {"arange",
       [](A a) -> Out {
         if (a.flag()) return {arange(a.number(0), a.number(9), a.number(2), a.dtype())};
         return {arange(a.real(0), a.real(2), a.real(0.25), a.dtype())};
       }},
      {"linspace", [](A a) -> Out { return {linspace(a.real(0), a.real(1), a.number(5), a.dtype())}; }},
      {"logspace", [](A a) -> Out { return {logspace(a.real(0), a.real(1), a.number(5), a.real(10), a.dtype())}; }},
      {"tril_indices", [](A a) -> Out { return {tril_indices(a.number(3), a.number(4), a.number(1))}; }},
      {"triu_indices", [](A a) -> Out { return {triu_indices(a.number(3), a.number(4), a.number(1))}; }},
      {"ones",
       [](A a) -> Out {
         return {ones(shape(a), a.dtype()), zeros_like(empty_like(some(a)))};
       }},
      {"poisson", [](A a) -> Out { return {poisson(some(a))}; }},
      {"randint_like", [](A a) -> Out { return {randint_like(some(a), a.number(0), a.number(9))}; }},
      {"eye", [](A a) -> Out { return {eye(a.number(3), a.number(4), a.dtype())}; }},
      {"rand", [](A a) -> Out { return {rand(shape(a), a.dtype())}; }},
      {"randn", [](A a) -> Out { return {randn(shape(a), a.dtype())}; }},
      {"normal of numbers", [](A a) -> Out { return {normal(a.real(0), a.real(1), shape(a), a.dtype())}; }},
      {"randint", [](A a) -> Out { return {randint(a.number(0), a.number(9), shape(a), a.dtype())}; }},
      {"randperm", [](A a) -> Out { return {randperm(a.number(a.d))}; }},
      {"bernoulli", [](A a) -> Out { return {bernoulli(some(a))}; }},
      {"multinomial",
       [](A a) -> Out {
         return {multinomial(rand(Shape{a.t, a.d}), a.number(1), a.flag())};
       }},
      {"full_like",
       [](A a) -> Out {
         return {full_like(some(a), a.real(1)), zeros_like(some(a)), ones_like(some(a))};
       }},
      {"rand_like",
       [](A a) -> Out {
         return {rand_like(some(a)), randn_like(some(a))};
       }},
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
