// binade-moons trains a small network that tells two interleaved half circles apart.
#include <cmath>

#include "examples/common/architecture.h"
#include "examples/common/task_program.h"

namespace binade::examples {

struct MoonSettings {
  TrainSettings train{.steps = 200, .batch = 32, .checkpoint_minutes = 0};
  std::int64_t hidden = 32;
};

struct MoonOptions {
  std::int64_t hidden = 32;
};

struct MoonNet : nn::Module {  // maps points (B, 2) to logits (B, 2)
  explicit MoonNet(const MoonOptions& o)
      : options_(o),
        up({.in = 2, .out = o.hidden, .activation = Activation::kGelu}),
        down({.in = o.hidden, .out = 2}) {}
  void visit(nn::Visitor& v) override {
    v("up", up);
    v("down", down);
  }
  Variable forward(const Variable& x) override { return down(up(x)); }
  const MoonOptions& options() const { return options_; }

  MoonOptions options_;
  nn::Linear up, down;
};

struct Points {
  Tensor x{}, side{};  // coordinates (B, 2) f32; half circle of each point (B) i32, 0 or 1
  io::BatchOrigin origin{};

  std::int64_t size() const { return x.dim(0); }
  Points to(Device device) const { return {x.to(device), side.to(device), origin}; }
  Points without(std::span<const std::int64_t> rows) const {
    return {io::without_rows(x, rows), io::without_rows(side, rows), origin.without(rows)};
  }
  StateDict state() const {
    StateDict state;
    state.put("x", x);
    state.put("side", side);
    state.merge("origin", origin.state());
    return state;
  }
  static Points from_state(const StateDict& s) {
    return {s.tensor("x"), s.tensor("side"), io::BatchOrigin::from_state(s.section("origin"))};
  }
};

/// Returns the points with these numbers; point i is on the half circle i % 2, with noise.
Points points_of(std::span<const std::int64_t> samples) {
  std::vector<float> x;
  std::vector<std::int32_t> side;
  for (const std::int64_t i : samples) {
    const RandomStream draws{1, RngPurpose::kData, static_cast<std::uint64_t>(i)};
    const auto half = static_cast<std::int32_t>(i % 2);
    const double angle = 3.14159 * draws.uniform(0);
    x.push_back(static_cast<float>((half ? 1 - std::cos(angle) : std::cos(angle)) + 0.1 * draws.normal(1)));
    x.push_back(static_cast<float>((half ? 0.5 - std::sin(angle) : std::sin(angle)) + 0.1 * draws.normal(2)));
    side.push_back(half);
  }
  const std::int64_t count = std::ssize(samples);
  return {Tensor::from(x, {count, 2}), Tensor::from(side, {count}), {}};
}

struct MoonData {
  std::int64_t train = 2000, held_out = 500;
  std::string content = "moons of 2000 and 500 points";
};

std::string architecture_json(const MoonOptions& o) {
  return io::JsonObject().add("model", "moons").add("hidden", o.hidden).text();
}

struct MoonTask {
  using Setup = MoonSettings;
  using EvalSetup = EvalSettings;
  using Model = MoonNet;
  using Batch = Points;
  using Data = MoonData;
  static constexpr TaskTexts texts{.program = "binade-moons",
                                   .run = "moons",
                                   .about = "Tells two interleaved half circles apart.",
                                   .train = "Trains on points drawn anew",
                                   .eval = "Judges 500 held-out points; prints one JSON object",
                                   .bench = "Times training steps",
                                   .weights = "--hidden N",
                                   .unit = "points",
                                   .score = "val_loss"};
  static constexpr InputCount inputs{.name = "inputs", .help = "numbers of a point", .usual = 2, .most = 2};

  static void add_setup(Settings& table, MoonSettings& s) {
    add_train_settings(table, s.train);
    table.add("hidden", &s.hidden, "hidden units", {.on_resume = OnResume::kIncompatible, .low = 1, .high = 1e6});
  }
  static void complete(MoonSettings& s) { complete_train_settings(s.train); }
  static void add_eval_setup(Settings& table, EvalSettings& s) { add_eval_settings(table, s); }
  static MoonData read_data(const MoonSettings&) { return {}; }
  static std::int64_t count_inputs(const MoonData&) { return 2; }
  static MoonOptions model_options(const MoonSettings& s, std::int64_t) { return {.hidden = s.hidden}; }
  static MoonOptions model_options(const StateDict& checkpoint) {
    const Architecture a(checkpoint, "moons");
    const MoonOptions o{.hidden = a.integer("hidden", 1, 1000000)};
    a.expect("up.weight", {o.hidden, 2});
    a.expect("down.weight", {2, o.hidden});
    return o;
  }
  static void start(MoonNet&, const MoonSettings&, const MoonData&) {}
  static Variable probe(const MoonSettings& s, MoonNet& model) {
    const std::int64_t first[] = {0};
    return loss(s, model, points_of(first).to(Runtime::current_device()));
  }
  static io::Loader<Points> loader(const MoonSettings& s, const MoonData& data) {
    return {{.batch = s.train.batch,
             .seed = static_cast<std::uint64_t>(s.train.seed),
             .samples = data.train,
             .content = data.content},
            [](const io::BatchOrigin& origin) { return points_of(origin.samples); }};
  }
  static Variable loss(const MoonSettings&, MoonNet& model, const Points& b) {
    return nn::cross_entropy(model(b.x), b.side);
  }
  static std::int64_t units_per_sample(const MoonSettings&) { return 1; }
  static void add_constants(StateDict&, const MoonSettings&, const MoonData&) {}
  static double held_out_loss(MoonNet& model, const MoonData& data) {
    const InferenceMode inference;
    std::vector<std::int64_t> samples;
    for (std::int64_t i = 0; i < data.held_out; ++i) samples.push_back(data.train + i);
    const Points b = points_of(samples).to(Runtime::current_device());
    return nn::cross_entropy(model(b.x), b.side).item();
  }
  static amp::Evaluation evaluate(const MoonSettings&, MoonNet& model, const MoonData& data) {
    return {.numbers = {{"val_loss", held_out_loss(model, data)}}};
  }
  static void evaluate_checkpoint(io::JsonObject& result, MoonNet& model, const StateDict&, const EvalSettings&) {
    result.add("val_loss", held_out_loss(model, MoonData()));
  }
  static std::vector<std::string> workloads() { return {"moons"}; }
  static BenchWorkload<MoonTask> workload(const std::string&, std::int64_t batch) {
    std::vector<std::int64_t> samples;
    for (std::int64_t i = 0; i < (batch > 0 ? batch : 256); ++i) samples.push_back(i);
    return {.batch = points_of(samples),
            .loss = [](MoonNet& model, const Points& b) { return nn::cross_entropy(model(b.x), b.side); }};
  }
  static void tune(TrainSettings&) {}
};

}  // namespace binade::examples

int main(int argc, char** argv) { return binade::examples::run_task<binade::examples::MoonTask>(argc, argv); }
