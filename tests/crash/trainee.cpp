#include "tests/crash/trainee.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <new>
#include <utility>
#include <vector>

#include "binade/core/error.h"
#include "binade/io/checkpoint/manifest.h"
#include "binade/io/data/loader.h"
#include "binade/io/files/forwarding_file_ops.h"
#include "binade/run/training_run.h"
#include "tests/amp/toy.h"

namespace binade::crash {

namespace {

namespace toy = amp::toy;

/// The real disk. Acknowledges commits, and can kill the process before or after a call.
class WatchedDisk final : public io::ForwardingFileOps {
 public:
  explicit WatchedDisk(const Training& training) : ForwardingFileOps(io::FileOps::real()), training_(training) {}

  int create_folder(const std::string& path) override {
    return counted([&] { return ForwardingFileOps::create_folder(path); });
  }
  int create_exclusive(int folder, const std::string& name, int& file) override {
    if (const auto step = step_being_saved(name); step && training_.bug == SeededBug::kAcknowledgesTooEarly)
      acknowledge(*step);
    return counted([&] { return ForwardingFileOps::create_exclusive(folder, name, file); });
  }
  int write(int file, std::span<const std::byte> bytes, std::size_t& written) override {
    return counted([&] { return ForwardingFileOps::write(file, bytes, written); });
  }
  int sync(int file) override {
    const int error = counted([&] { return ForwardingFileOps::sync(file); });
    if (error == 0 && renamed_.contains(file)) acknowledge(renamed_[file]), renamed_.erase(file);
    return error;
  }
  int rename_no_replace(int folder, const std::string& from, const std::string& to) override {
    const int error = counted([&] { return ForwardingFileOps::rename_no_replace(folder, from, to); });
    if (const auto step = io::step_of_file_name(to); error == 0 && step) renamed_[folder] = *step;
    return error;
  }
  int rename_over(int folder, const std::string& from, const std::string& to) override {
    return counted([&] { return ForwardingFileOps::rename_over(folder, from, to); });
  }
  int unlink(int folder, const std::string& name) override {
    return counted([&] { return ForwardingFileOps::unlink(folder, name); });
  }

 private:
  /// Returns the step of a temporary file: 500 for ".ckpt-000000000500.h5.saving".
  static std::optional<std::int64_t> step_being_saved(const std::string& name) {
    const std::size_t end = name.rfind(".saving");
    return end == std::string::npos ? std::nullopt : io::step_of_file_name(std::string_view(name).substr(1, end - 1));
  }
  template <class F>
  int counted(F&& call) {
    const int number = calls_++;
    if (number == training_.kill_before) ::raise(SIGKILL);
    const int error = call();
    if (number == training_.kill_after) ::raise(SIGKILL);
    return error;
  }
  void acknowledge(std::int64_t step) const {
    if (training_.acknowledge >= 0 && ::write(training_.acknowledge, &step, sizeof(step)) != sizeof(step)) ::_exit(99);
  }

  const Training& training_;
  int calls_ = 0;
  std::map<int, std::int64_t>
      renamed_;  // folder -> step of a checkpoint that is committed by the next sync of the folder
};

void forget_the_newest(const std::string& folder) {
  const std::string checkpoints = folder + "/checkpoints";
  if (!std::filesystem::exists(checkpoints)) return;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoints))
    if (io::step_of_file_name(entry.path().filename().string())) files.push_back(entry.path());
  if (files.size() >= 2) std::filesystem::remove(*std::ranges::max_element(files));
}

void run(const Training& training) {
  if (training.bug == SeededBug::kForgetsTheNewest) forget_the_newest(training.folder);
  bool swaps = false;
  toy::Training net({.precision = amp::Policy::fp16(),
                     .schedule = optim::Schedule::cosine(0.02, training.steps, 0.001, 3),
                     .accumulate = 2});
  io::Loader<toy::Batch> loader({.batch = 2, .seed = 3, .samples = 10, .content = "toy"},
                                [&](const io::BatchOrigin& origin) {
                                  const auto sample = static_cast<std::uint32_t>(origin.samples[0]);
                                  return toy::batch(std::exchange(swaps, false) ? sample + 1 : sample);
                                });
  WatchedDisk disk(training);
  amp::RunOptions options{.folder = training.folder, .steps = training.steps};
  options.checkpoint_every = training.checkpoint_every;
  options.checkpoint_minutes = 0;  // so that the number of checkpoints does not depend on time
  options.eval_every = 7;
  options.log_every = 1'000'000;
  options.keep = 2;
  options.disk = &disk;
  options.score = "val_loss";
  options.evaluate = [&]() -> amp::Evaluation {
    return {.numbers = {{"val_loss", toy::loss(net.net, toy::batch(77)).value().item()}}};
  };
  amp::TrainingRun run(net.trainer, options);
  const bool resumed = run.resume_if_possible();
  swaps = resumed && training.bug == SeededBug::kSwapsABatch;
  if (training.started >= 0 && ::write(training.started, "s", 1) != 1) ::_exit(99);
  for (const auto& batch : run.batches(loader))
    run.step(batch, [&](const toy::Batch& b) { return toy::loss(net.net, b); });
  if (run.end() == amp::RunEnd::kPreempted) ::_exit(10);
}

}  // namespace

int train(const Training& training) {
  try {
    std::optional<ScarceMemory> scarce;
    if (training.shortage) scarce.emplace(*training.shortage);
    run(training);
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    return OutOfMemoryError("").exit_code();  // as amp::run_command_line does
  }
}

int start_training(const Training& training) {
  const int child = ::fork();
  if (child != 0) return child;
  const int nowhere = ::open("/dev/null", O_WRONLY);
  ::dup2(nowhere, STDOUT_FILENO);
  if (::getenv("BINADE_CRASH_TALK") == nullptr) ::dup2(nowhere, STDERR_FILENO);
  ::_exit(train(training));
}

}  // namespace binade::crash
