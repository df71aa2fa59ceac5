#include "examples/common/train_program.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "binade/amp/incident/fault_injection.h"
#include "binade/amp/incident/report.h"
#include "binade/core/gpus.h"
#include "binade/core/kernels/dispatch.h"
#include "binade/core/launcher.h"
#include "binade/core/rank_tree.h"
#include "binade/io/checkpoint/file.h"
#include "binade/io/files/read_file.h"
#include "binade/io/files/run_folder.h"
#include "binade/io/records/json_lines.h"
#include "binade/io/terminal/console.h"
#include "binade/io/terminal/signals.h"
#include "binade/io/text/json_reader.h"
#include "binade/run/launch.h"
#include "examples/common/model_file.h"
#include "examples/common/optimizers.h"

namespace binade::examples {
namespace {

void apply_config_file(Settings& table, const std::string& path) {
  try {
    table.apply_json(io::read_file(path, io::JsonLimits().bytes), path);
  } catch (const DataError& error) {  // a file named on the command line is an argument, not training data
    throw ArgumentError(fmt::format("--config: {}", error.what()));
  }
}

/// Throws DataError if a checkpoint was trained on other data, CheckpointError if it holds another model.
void check_run_constants(const StateDict& checkpoint, const StateDict& run) {
  check<DataError>(checkpoint.text("progress/data") == run.text("progress/data"),
                   "--data: not what the run was trained on: its content has the hash {}, the checkpoint's {}",
                   run.text("progress/data"), checkpoint.text("progress/data"));
  const std::string& stored = checkpoint.text("progress/architecture");
  check<CheckpointError>(stored == run.text("progress/architecture"),
                         "checkpoint: it holds the model {}, this run has {}", stored,
                         run.text("progress/architecture"));
}

/// Throws ArgumentError for settings that the training would ignore.
void check_unused_settings(const Settings& table, const TrainSettings& s) {
  check<ArgumentError>(s.schedule != "plateau" || s.eval_every > 0,
                       "--schedule plateau: wanted --eval-every N with it: evaluations alone lower its learning rate, "
                       "and there is none before the end");
  const bool by_policy = !s.precision.empty() && amp::Policy::by_name(s.precision).dynamic_loss_scale;
  check<ArgumentError>(!table.given("init-scale") || s.loss_scale == "dynamic" || (s.loss_scale == "auto" && by_policy),
                       "--init-scale: wanted --loss-scale dynamic with it, got --loss-scale {} and {}: no scale begins "
                       "there",
                       s.loss_scale, s.precision.empty() ? "no --precision" : "--precision " + s.precision);
  const auto changed = [&](const std::string& name) {
    return std::ranges::any_of(s.changes, [&](const std::string& change) { return change.starts_with(name + " "); });
  };
  check<ArgumentError>(!changed("init-scale") || changed("loss-scale") || changed("precision"),
                       "--init-scale: the loss scale of a run's first step; a resumed run goes on at the scale that it "
                       "has, so leave the flag out");
}

amp::OnNan on_nan_of(const std::string& name) {
  if (name == "skip") return amp::OnNan::kSkip;
  return name == "stop" ? amp::OnNan::kStop : amp::OnNan::kRemedy;
}

DType dtype_of(const std::string& precision) {
  if (precision == "fp16") return DType::f16;
  if (precision == "bf16") return DType::bf16;
  return DType::f32;
}

}  // namespace

void resolve_settings(Settings& table, TrainSettings& s, const std::function<void()>& complete) {
  table.apply_flags();  // sets --run, --resume and --config, which decide the rest, and checks all ranges
  const bool may_begin = s.resume == "auto";
  check<ArgumentError>(s.resume.empty() || !s.run.empty(),
                       "--resume: wanted --run DIR with it, the folder of the run to go on with");
  check<ArgumentError>(s.resume != "must" || s.config.empty(),
                       "--config: a resumed run takes its settings from its own config.json; leave it out");
  s.loads_checkpoint = s.resume == "must" || (may_begin && io::RunFolder::holds_checkpoints(s.run));
  // A run that was stopped before its first checkpoint also resumes with its own settings, if config.json exists.
  if (s.loads_checkpoint || (may_begin && io::RunFolder::holds_config(s.run))) {
    if (!s.config.empty())
      io::say(fmt::format("--config: not read; the run goes on with the settings of {}/config.json", s.run));
    table.apply_json(io::read_run_config(s.run), s.run + "/config.json");
    s.changes = table.apply_flags_to_resumed();
  } else if (!s.config.empty()) {
    apply_config_file(table, s.config);
    table.apply_flags();
  }
  complete();
  check_unused_settings(table, s);
}

int run_training(Settings& table, TrainSettings& s, const std::string& name, bool may_have_ranks,
                 const std::function<int()>& train) {
  table.apply_flags();
  const int launched = launched_ranks();
  check<ArgumentError>(may_have_ranks || (launched == 1 && s.ranks == 1),
                       "--ranks: wanted 1, got {}; only `train` runs in several processes",
                       std::max<std::int64_t>(launched, s.ranks));
  check<ArgumentError>(launched == 1 || s.ranks == 1 || s.ranks == launched,
                       "--ranks {}: a launcher has started {} processes; leave the flag out", s.ranks, launched);
  if (std::getenv(io::StopSignals::kLauncher) != nullptr) return train();  // launch_ranks() has started this rank
  check<ArgumentError>(
      launched == 1 || !s.supervise,
      "--supervise: mpirun or srun has started this process, which cannot restart the other ranks; start "
      "one process with --supervise --ranks N instead, on one machine");
  check<ArgumentError>(s.min_ranks <= s.ranks && (s.min_ranks == 0 || s.supervise),
                       "--min-ranks: wanted --supervise and at most --ranks {}, got {}", s.ranks, s.min_ranks);
  for (const std::string& spec : s.inject)
    check<ArgumentError>(amp::parse_fault(spec).rank < std::max<std::int64_t>(launched, s.ranks),
                         "--inject {}: wanted a rank below {}, the number of ranks", spec,
                         std::max<std::int64_t>(launched, s.ranks));
  if (launched > 1) return train();
  if (!s.supervise) {
    if (s.ranks > 1) return amp::launch_ranks(static_cast<int>(s.ranks));
    return train();
  }
  if (s.run.empty()) s.run = io::RunFolder::next_free("runs", name);
  amp::SupervisorOptions options{.folder = s.run};
  const auto all_ranks = static_cast<int>(s.ranks);
  const auto least = s.min_ranks > 0 ? static_cast<int>(s.min_ranks) : all_ranks;
  int ranks = all_ranks;
  options.before_start = [&](int deaths) {
    const int now = std::max(least, all_ranks - deaths / 2);
    if (now != ranks) io::say(fmt::format("supervisor: goes on with {} ranks", now));
    ranks = now;
  };
  return amp::supervise(options, [&](int life) {
    if (life > 0 && s.resume.empty()) s.resume = "auto";
    if (all_ranks == 1) return train();
    std::vector<std::string> more = {"--run", s.run};
    if (!s.resume.empty()) more.push_back("--resume=" + s.resume);
    if (ranks != all_ranks) {
      more.insert(more.end(), {"--ranks", std::to_string(ranks)});
      // A checkpoint stores the number of leaves; without one, a single rank would add in another order.
      if (s.leaves == 0 && !io::RunFolder::holds_checkpoints(s.run))
        more.insert(more.end(), {"--leaves", std::to_string(s.accumulate)});
    }
    return amp::launch_ranks(ranks, more);
  });
}

std::shared_ptr<Communicator> open_ranks(double deadline) {
  std::shared_ptr<Communicator> ranks = ranks_from_launcher();
  if (deadline > 0) ranks->set_deadline(std::chrono::duration<double>(deadline));
  if (ranks->rank() > 0) io::mute(fmt::format("rank {}", ranks->rank()));
  if (!ranks->alone()) io::say(fmt::format("{} ranks, connected by {}", ranks->size(), ranks->engine()));
  return ranks;
}

amp::RunOptions run_options(const std::string& program, const std::string& name, const Settings& table,
                            const TrainSettings& s, const Runtime& runtime, const StateDict& constants) {
  return {.folder = s.run.empty() ? io::RunFolder::next_free("runs", name) : s.run,
          .steps = s.steps,
          .checkpoint_every = s.checkpoint_every,
          .checkpoint_minutes = s.checkpoint_minutes,
          .save_failure = s.save_failure == "stop" ? amp::SaveFailure::kStop : amp::SaveFailure::kContinue,
          .eval_every = s.eval_every,
          .log_every = s.log_every,
          .keep = static_cast<int>(s.keep),
          .config = config_text(program, table, runtime),
          .changes = s.changes,
          .forecast_memory = s.forecast_memory,
          .constants = constants,
          .check_constants = [constants](const StateDict& state) { check_run_constants(state, constants); }};
}

amp::TrainerOptions trainer_options(const TrainSettings& s, const amp::Policy& policy,
                                    std::shared_ptr<Communicator> ranks) {
  amp::TrainerOptions o{.precision = policy,
                        .loss_scale = loss_scale_options(s, policy),
                        .schedule = make_schedule(s),
                        .accumulate = s.accumulate,
                        .ranks = std::move(ranks),
                        .leaves = s.leaves,
                        .steps = s.steps,
                        .state_hash = s.state_hash,
                        .verify_every = s.verify_every,
                        .on_nan = on_nan_of(s.on_nan),
                        .inject = s.inject,
                        .record = s.record,
                        .ahead = kStepsAhead};
  if (s.clip_mode == "norm") o.clip_norm = s.clip;
  if (s.clip_mode == "value") o.clip_value = s.clip;
  if (s.clip_mode == "adaptive") o.clip_adaptive = s.clip;
  if (s.ema > 0) o.ema = optim::EmaOptions{.decay = s.ema};
  return o;
}

StateDict run_constants(const std::string& content, const std::string& architecture) {
  StateDict constants;
  constants.put("progress/data", content);
  constants.put("progress/architecture", architecture);
  return constants;
}

void report_preflight(const amp::PreflightReport& report) {
  std::ostringstream text;
  for (const amp::PreflightFinding& finding : report.findings) text << "preflight: " << finding << '\n';
  if (!report.findings.empty()) io::say(text.str());
}

int print_preflight_json(const amp::PreflightReport& report) {
  if (report.findings.empty()) io::say(fmt::format("preflight: nothing found in {:.2f} s", report.seconds));
  io::print(amp::preflight_json(report) + "\n");
  return 0;
}

int write_first_weights(nn::Module& model, const TrainSettings& s, const std::string& path) {
  check<ArgumentError>(
      s.run.empty() && s.resume.empty() && !s.supervise,
      "init: wanted neither --run nor --resume nor --supervise: no run is made, and the weights of one "
      "are written by binade-doctor export");
  save_weights(model, path);
  io::print(fmt::format("{} parameters in {}\n", nn::count_parameters(model), path));
  return 0;
}

int report_end(const TrainSettings& s, const std::string& folder, amp::RunEnd end) {
  const bool done = end == amp::RunEnd::kDone;
  io::say("run folder " + folder);
  io::say(fmt::format("go on with: {} train --run {} --resume {}", program_invocation_name, folder,
                      done ? fmt::format("--steps {}", 2 * s.steps) : "auto"));
  return done ? 0 : 10;
}

StateDict open_repro_bundle(const std::string& path, Settings& table) {
  StateDict bundle = io::load_checkpoint(path).state;
  check<CheckpointError>(bundle.contains("capsule/config"),
                         "replay: {} is not a repro bundle; an incident's folder holds one, capsule.h5", path);
  check<ArgumentError>(!bundle.text("capsule/config").empty(),
                       "replay: {} was written by a program without settings; Trainer::replay runs it again", path);
  table.apply_json(bundle.text("capsule/config"), path);
  return bundle;
}

int report_replay(const amp::ReproReplay& replay) {
  io::say(fmt::format("{}\n{}", replay.same_bits ? "the same bits came out" : "other bits came out",
                      amp::report_markdown(replay.incident)));
  io::print(io::JsonObject()
                .add("step", replay.incident.step)
                .add("same_bits", replay.same_bits)
                .add_raw("report", amp::report_json(replay.incident))
                .text() +
            "\n");
  return 0;
}

std::string config_text(const std::string& program, const Settings& table, const Runtime& runtime) {
  io::JsonObject environment;
  environment.add("binade", version())
      .add("build", build_id())
      .add("revision", git_revision())
      .add("device", runtime.device().to_string())
      .add("instruction_set", cpu::level().isa)
      .add("threads", num_threads());
  for (const auto& [name, found] : gpus::versions()) environment.add(name, found);
  return fmt::format("{{\n  \"program\": {},\n{},\n  \"environment\": {}\n}}\n", io::json_string(program),
                     table.json_members(), environment.text());
}

amp::Policy choose_policy(TrainSettings& s) {
  if (s.precision.empty()) {
    const bool on_gpu = Runtime::current_device() != Device::cpu();
    s.precision = on_gpu || cpu::level().multiplies_bf16 ? "bf16" : "fp32";
    const std::string what = on_gpu ? "GPU" : "processor";
    io::say(fmt::format("precision {}: {}", s.precision,
                        s.precision == "bf16" ? fmt::format("this {} multiplies bf16 in hardware", what)
                                              : "products of bf16 are no faster on this processor"));
  }
  amp::Policy policy = amp::Policy::by_name(s.precision);
  for (const std::string& o : s.overrides) {
    const std::size_t equals = o.rfind('=');
    policy = policy.with(o.substr(0, equals), dtype_of(o.substr(equals + 1)));
  }
  return policy;
}

amp::LossScaleOptions loss_scale_options(const TrainSettings& s, const amp::Policy& policy) {
  const std::string scale = s.loss_scale != "auto" ? s.loss_scale : policy.dynamic_loss_scale ? "dynamic" : "off";
  if (scale == "dynamic" && s.init_scale == "auto") return amp::LossScaleOptions::measured();
  return amp::LossScaleOptions::parse(scale, s.init_scale == "auto" ? 65536 : std::stod(s.init_scale));
}

optim::Schedule make_schedule(const TrainSettings& s) {
  return optim::Schedule({.kind = optim::schedule_kind(s.schedule),
                          .lr = s.lr,
                          .min_lr = s.min_lr,
                          .warmup = is_schedule_free(s) ? 0 : s.warmup,
                          .steps = s.schedule_steps});
}

namespace {

/// Returns the number of threads for this rank: its share of the machine's cores, or 0 (all) without other ranks.
int threads_of_rank() {
  const LocalRank local = local_rank();
  if (local.ranks == 1) return 0;
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, share_of(cores, local.rank, local.ranks).size());
}

}  // namespace

RuntimeOptions runtime_options(const TrainSettings& s) {
  return {.device = choose_device(s.device),
          .seed = static_cast<std::uint64_t>(s.seed),
          .threads = s.threads > 0 ? static_cast<int>(s.threads) : threads_of_rank(),
          .deterministic = s.deterministic,
          .timed_plans = s.plans == "timed"};
}

Device choose_device(const std::string& name) {
  Device device = Device::parse(name);
  const LocalRank local = local_rank();
  if (local.ranks > 1 && device != Device::cpu() && name.find(':') == name.npos)
    device = Device::parse(fmt::format("cuda:{}", local.rank % gpus::count()));
  if (name == "auto" && device == Device::cpu()) io::say("device cpu: " + gpus::why_none());
  return device;
}

}  // namespace binade::examples
