#include "tests/onnx/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <exception>

namespace binade::onnx {
namespace {

template <class T>
std::string values_of(const Tensor& x, const char* format) {
  std::string text;
  for (const T value : x.to_vector<T>()) text += fmt::format(fmt::runtime(format), value);
  return text;
}

std::string line_of(const std::string& role, const Variable& x) {
  const DType dtype = x.dtype();
  const std::string dims = rank_of(x) == 0 ? "-" : fmt::format("{}", fmt::join(dims_of(x), ","));
  const std::string values = dtype == DType::f64  ? values_of<double>(x.value(), " {:.17g}")
                             : is_floating(dtype) ? values_of<float>(x.value(), " {:.9g}")
                                                  : values_of<std::int64_t>(x.value(), " {}");
  return fmt::format("tensor {} {} {} :{}\n", role, name_of(dtype), dims, values);
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

}  // namespace

std::string answer(const golden::Case& source) {
  std::string text = "case " + source.name + "\n";
  try {
    const Outputs outputs = run(node_of(source));
    std::string lines = "said\n";
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i].defined()) lines += line_of(fmt::format("out.{}", i), outputs[i]);
    text += lines;
  } catch (const UnsupportedNode& e) {
    text += "cannot " + one_line(e.what()) + "\n";
  } catch (const std::exception& e) {
    text += "error " + one_line(e.what()) + "\n";
  }
  return text + "end\n";
}

}  // namespace binade::onnx
