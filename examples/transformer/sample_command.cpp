#include "binade/io/terminal/console.h"
#include "binade/io/text/utf8.h"
#include "examples/common/model_file.h"
#include "examples/transformer/gpt_settings.h"
#include "examples/transformer/sampling.h"

namespace binade::examples {
namespace {

struct SampleSettings {
  ModelChoice model;
  std::string prompt = "\n";
  std::int64_t tokens = 200, top_k = 0, seed = 1;
  double temperature = 0.8;
  bool cache = true;
};

int sample_text(Settings& table, SampleSettings& s) {
  table.apply_flags();
  check<ArgumentError>(!s.prompt.empty(), "--prompt: wanted some text, got none");
  Runtime runtime(runtime_options(s.model));
  const StateDict checkpoint = read_checkpoint(s.model, "binade-gpt", kGptWeightFlags);
  const auto tokenizer = io::restore_tokenizer(checkpoint.section("progress/tokenizer"));
  const std::vector<std::int32_t> prompt = tokenizer->encode(s.prompt, io::TextOrigin::kPrompt);
  const nn::init::SkipScope skip;
  Gpt model(read_gpt_architecture(checkpoint));
  load_weights(model, checkpoint);
  model.eval();
  const PolicyScope policy(policy_of(checkpoint));
  std::string text = s.prompt;
  const auto show = [&text](std::size_t bytes) {
    io::print(text.substr(0, bytes));
    text.erase(0, bytes);
  };
  show(text.size());
  sample(model, prompt,
         {.tokens = s.tokens,
          .temperature = s.temperature,
          .top_k = s.top_k,
          .seed = static_cast<std::uint64_t>(s.seed),
          .cache = s.cache},
         [&](std::int32_t token) {
           text += tokenizer->decode(std::span(&token, 1));
           show(io::whole_utf8(text));  // leaves out the bytes of a character that the next token completes
         });
  text += '\n';
  show(text.size());
  return 0;
}

void add_sample_settings(Settings& table, SampleSettings& s) {
  add_model_settings(table, s.model);
  table.add("prompt", &s.prompt, "text to continue");
  table.add("tokens", &s.tokens, "number of tokens to add", {.low = 0, .high = 1e9});
  table.add("temperature", &s.temperature, "0: always the most likely token", {.low = 0, .high = 1000});
  table.add("top-k", &s.top_k, "draw from the k most likely tokens (0: all)", {.low = 0, .high = 1e9});
  table.add("seed", &s.seed, "seed of the draws", {.low = 0, .high = 1e15});
  table.add("cache", &s.cache, "keep keys and values between tokens (on|off)");
}

}  // namespace

Command add_sample(CLI::App& program) {
  return add_command<SampleSettings>(program, "sample", "Continues a prompt", add_sample_settings, sample_text);
}

}  // namespace binade::examples
