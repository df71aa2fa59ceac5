// The changes that advice suggests, as C++ statements and as flags. The statements are compiled here and must be equal
// to the text of the advice; the flags are parsed by binade-gpt's settings. Both must have the promised effect.
#include "binade/amp/suggestions.h"

#include <binade.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <sstream>

#include "binade/core/program_flags.h"
#include "binade/io/files/read_file.h"
#include "examples/transformer/gpt_settings.h"

namespace {

using namespace binade;

/// Removes the program flags that a test registered.
struct NoFlags {
  NoFlags() { clear_program_flags(); }
  ~NoFlags() { clear_program_flags(); }
};

struct Net : nn::Module {
  nn::Linear head{{.in = 4, .out = 2}};
  void visit(nn::Visitor& v) override { v("head", head); }
  Variable forward(const Variable& x) override { return exp(head(x)); }
};

/// The text of this file with single spaces. A suggested statement in one of its lambdas is known to compile.
std::string source() {
  const std::string text = io::read_file(std::string(std::getenv("BINADE_SOURCE_DIR")) +
                                         "/tests/programs/suggestions_test.cpp");
  std::istringstream words(text);
  std::string joined;
  for (std::string word; words >> word;) joined += (joined.empty() ? "" : " ") + word;
  return joined;
}

bool compiles(const std::string& statement) { return source().find("[&] { " + statement + "; }") != std::string::npos; }

TEST(Suggestions, CppStatementsCompileAndHaveThePromisedEffect) {
  const NoFlags none;
  Runtime runtime({.seed = 1});
  Net model;
  optim::AdamW optimizer(model, {.lr = 0.25});
  amp::TrainerOptions options{.precision = amp::Policy::fp16()};
  const auto block = [&](const Variable& in) { return model(in); };
  Variable x(Tensor::full({3, 4}, 1)), q(Tensor::full({1, 3, 2, 4}, 1)), k = q, v = q, y;

  struct Case {
    std::string suggested;
    std::function<void()> statement;
    std::function<bool()> holds;
  };
  const std::vector<Case> cases = {
      {amp::suggest_dtype("head/linear", DType::f32),
       [&] { options.precision = options.precision.with("head/linear", DType::f32); },
       [&] { return options.precision.override_for("head", "linear") == DType::f32; }},
      {amp::suggest_dtype("exp", DType::bf16), [&] { options.precision = options.precision.with("exp", DType::bf16); },
       [&] { return options.precision.override_for("anywhere", "exp") == DType::bf16; }},
      {amp::suggest_f32(), [&] { options.precision = amp::Policy::fp32(); },
       [&] { return options.precision.low == DType::f32; }},
      {amp::suggest_masters(), [&] { options.precision = amp::Policy::bf16(); },
       [&] { return options.precision.master_weights && options.precision.low == DType::bf16; }},
      {amp::suggest_dynamic_loss_scale(), [&] { options.loss_scale = amp::LossScaleOptions::dynamic(); },
       [&] { return options.loss_scale->mode == amp::LossScaleMode::kDynamic; }},
      {amp::suggest_loss_scale(65536), [&] { options.loss_scale = amp::LossScaleOptions::fixed(65536); },
       [&] {
         return options.loss_scale->mode == amp::LossScaleMode::kStatic && options.loss_scale->init_scale == 65536;
       }},
      {amp::suggest_clipping(), [&] { options.clip_norm = 1; }, [&] { return options.clip_norm == 1; }},
      {amp::suggest_warmup(), [&] { options.schedule = optim::Schedule::constant(optimizer.lr(), 1000); },
       [&] { return options.schedule->lr(500) == 0.125 && options.schedule->lr(2000) == 0.25; }},
      {amp::suggest_micro_batches(4, 2), [&] { options.accumulate = 2; }, [&] { return options.accumulate == 2; }},
      {amp::suggest_recompute(), [&] { x = recompute(block, x); },
       [&] {
         return x.shape() == Shape({3, 2});
       }},
      {amp::suggest_fused_attention(), [&] { y = attention(q, k, v); }, [&] { return y.shape() == q.shape(); }},
  };
  for (const Case& c : cases) {
    const std::string statement = c.suggested.substr(c.suggested.starts_with("batches of ") ? 25 : 0);
    EXPECT_TRUE(compiles(statement)) << statement;
    c.statement();
    EXPECT_TRUE(c.holds()) << statement;
  }
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words = CLI::detail::split_up(text);
  for (std::string& word : words) CLI::detail::remove_quotes(word);
  return words;
}

TEST(Suggestions, FlagsAreParsedByTheProgram) {
  const NoFlags none;
  struct Case {
    std::function<std::string()> suggest;
    std::string text;
    std::function<bool(const examples::GptSettings&)> holds;
  };
  using S = examples::GptSettings;
  const std::vector<Case> cases = {
      {[] { return amp::suggest_dtype("head/linear", DType::f32); }, "--override 'head/linear=fp32'",
       [](const S& s) { return s.train.overrides == std::vector<std::string>{"head/linear=fp32"}; }},
      {amp::suggest_f32, "--precision fp32", [](const S& s) { return s.train.precision == "fp32"; }},
      {amp::suggest_masters, "--precision bf16", [](const S& s) { return s.train.precision == "bf16"; }},
      {amp::suggest_dynamic_loss_scale, "--loss-scale dynamic",
       [](const S& s) { return s.train.loss_scale == "dynamic"; }},
      {[] { return amp::suggest_loss_scale(65536); }, "--loss-scale 65536",
       [](const S& s) { return s.train.loss_scale == "65536"; }},
      {amp::suggest_clipping, "--clip 1", [](const S& s) { return s.train.clip == 1; }},
      {amp::suggest_warmup, "--warmup 1000", [](const S& s) { return s.train.warmup == 1000; }},
      {amp::suggest_recompute, "--recompute", [](const S& s) { return s.recompute; }},
      {amp::suggest_fused_attention, "--attention fused", [](const S& s) { return s.attention == "fused"; }},
  };
  for (const Case& c : cases) {
    EXPECT_NE(c.suggest(), c.text) << "before the program has declared its flags";
    examples::GptSettings settings;
    examples::Settings table;
    examples::add_gpt_settings(table, settings);
    settings.train.clip = 0;
    settings.attention = "composed";
    CLI::App app;
    table.declare(app);
    EXPECT_EQ(c.suggest(), c.text);
    std::vector<std::string> words = words_of(c.suggest());
    std::ranges::reverse(words);
    app.parse(words);
    table.apply_flags();
    examples::complete_gpt_settings(settings);
    EXPECT_TRUE(c.holds(settings)) << c.text;
    clear_program_flags();
  }
}

/// A model whose output layer overflows in f16.
struct Overflowing {
  Runtime runtime{{.seed = 1}};
  Net model;
  optim::Sgd optimizer{model, {.lr = 1e-6}};

  struct Batch {
    Tensor x{};
    io::BatchOrigin origin{};
  };
  amp::StepResult step(const amp::TrainerOptions& options) {
    model.head.weight.mutable_value().fill(300);
    amp::Trainer trainer(runtime, model, optimizer, options);
    return trainer.step(Batch{Tensor::full({3, 4}, 60)}, [&](const Batch& b) { return mean(model.head(b.x)); });
  }
};

TEST(Suggestions, AdviceInAnIncidentIsCppAndItsStatementFixesTheRun) {
  const NoFlags none;
  Overflowing run;
  amp::TrainerOptions options{.precision = amp::Policy::fp16()};
  const amp::StepResult mended = run.step(options);
  ASSERT_FALSE(mended.incidents().empty());
  const std::string& advice = mended.incidents().front()->diagnosis.advice;
  EXPECT_EQ(advice.find("--"), std::string::npos) << advice;
  const std::size_t begin = advice.find("options."), end = advice.find("),", begin);
  ASSERT_LT(begin, end) << advice;
  EXPECT_TRUE(compiles(advice.substr(begin, end - begin))) << advice;
  const auto as_advised = [&] { options.precision = options.precision.with("head/linear", DType::f32); };
  as_advised();
  EXPECT_TRUE(run.step(options).incidents().empty());

  add_program_flag("override");
  const std::string flags = run.step({.precision = amp::Policy::fp16()}).incidents().front()->diagnosis.advice;
  EXPECT_NE(flags.find("(--override 'head/linear=fp32')"), std::string::npos) << flags;
}

}  // namespace
