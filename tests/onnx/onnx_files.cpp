// Writes and reads ONNX files for run_models.py:
//
//   onnx_files list                         prints the names of the models
//   onnx_files export NAME FILE DATA        exports a model; DATA (safetensors) has inputs and outputs: in.0, out.0, …
//   onnx_files import FILE DATA RESULT      runs an imported model on in.0, in.1, …; RESULT has its outputs
#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <iostream>

#include "binade/autograd/inference_mode.h"
#include "binade/core/error.h"
#include "binade/core/runtime.h"
#include "binade/io/exchange/safetensors.h"
#include "binade/io/onnx/import.h"
#include "tests/onnx/models.h"

namespace {

using namespace binade;

void export_one(const std::string& name, const std::string& file, const std::string& data) {
  for (onnx::Sample& s : onnx::samples()) {
    if (s.name != name) continue;
    onnx::export_model(file, *s.model, s.forward, s.inputs, {.dynamic_batch = s.batched});
    s.model->eval();
    const InferenceMode inference;
    io::Safetensors tensors;
    for (std::size_t i = 0; i < s.inputs.size(); ++i) tensors.tensors[fmt::format("in.{}", i)] = s.inputs[i].value();
    const std::vector<Variable> outputs = s.forward(s.inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) tensors.tensors[fmt::format("out.{}", i)] = outputs[i].value();
    io::write_safetensors(data, tensors);
    return;
  }
  throw ArgumentError("no model " + name);
}

void import_one(const std::string& file, const std::string& data, const std::string& result) {
  onnx::Model model = onnx::import_model(file);
  const io::Safetensors given = io::read_safetensors(data);
  std::vector<Variable> inputs;
  for (std::size_t i = 0; i < model.inputs().size(); ++i) inputs.push_back(given.tensors.at(fmt::format("in.{}", i)));
  const InferenceMode inference;
  const std::vector<Variable> outputs = model.run(inputs);
  io::Safetensors tensors;
  for (std::size_t i = 0; i < outputs.size(); ++i) tensors.tensors[fmt::format("out.{}", i)] = outputs[i].value();
  io::write_safetensors(result, tensors);
}

}  // namespace

int main(int argc, char** argv) try {
  const Runtime runtime({.seed = 1, .threads = 1});
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 1 && words[0] == "list") {
    for (const onnx::Sample& s : onnx::samples()) std::cout << s.name << "\n";
  } else if (words.size() == 4 && words[0] == "export") {
    export_one(words[1], words[2], words[3]);
  } else if (words.size() == 4 && words[0] == "import") {
    import_one(words[1], words[2], words[3]);
  } else {
    std::cerr << "onnx_files: wanted list, export NAME FILE DATA or import FILE DATA RESULT\n";
    return 2;
  }
  return 0;
} catch (const std::exception& e) {
  std::cerr << "onnx_files: " << e.what() << "\n";
  return 1;
}
