// A program as a user writes it: the ranks come from the launcher. mpi_test.py runs it alone and under mpirun.
//
//   mpi_program POLICY STEPS [WHAT]   prints "rank R of N: HASH CHECKPOINT" after the training
//
// WHAT: "nan" plants a NaN in a sample of step 3, and prints the incidents too. "die", "stop" and "throw" make rank 1
// end by a signal, stop, or throw in step 3. "gather" only exchanges bytes, of up to 40 MB.
#include <sys/types.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "binade/core/launcher.h"
#include "binade/core/sha256.h"
#include "tests/ranks/small_task.h"

namespace binade::ranks_test {
namespace {

/// True if an MPI library is loaded into this process.
bool has_mpi() {
  std::ifstream maps("/proc/self/maps");
  const std::string text(std::istreambuf_iterator<char>(maps), {});
  return text.find("libmpi") != std::string::npos || text.find("libbinade_mpi") != std::string::npos;
}

int exchange_bytes(Communicator& ranks) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{5000}, std::size_t{40} << 20}) {
    const auto bytes = [&](int rank) {
      Bytes all(size + static_cast<std::size_t>(rank));
      for (std::size_t i = 0; i < all.size(); i += 977)
        all[i] = static_cast<std::byte>(i + static_cast<std::size_t>(rank));
      return all;
    };
    const std::vector<Bytes> all = ranks.gather(bytes(ranks.rank()), "a test");
    for (int rank = 0; rank < ranks.size(); ++rank)
      if (all[static_cast<std::size_t>(rank)] != bytes(rank)) return 1;
    if (ranks.broadcast(bytes(ranks.rank()), ranks.size() - 1, "a test") != bytes(ranks.size() - 1)) return 1;
  }
  std::printf("rank %d of %d: %s\n", ranks.rank(), ranks.size(), ranks.engine().c_str());
  return 0;
}

int run(const std::string& policy, int steps, const std::string& what) {
  const std::shared_ptr<Communicator> ranks = ranks_from_launcher();
  ranks->set_deadline(std::chrono::seconds(60));
  if (what == "gather") return exchange_bytes(*ranks);
  Settings settings{.policy = policy, .steps = steps};
  if (what == "nan") {
    settings.on_nan = amp::OnNan::kSkip;
    io::Loader<Batch> loader({.batch = 4, .seed = 9, .samples = 150, .prefetch = 0},
                             [](const io::BatchOrigin& origin) { return make_batch(origin, -1); });
    for (int i = 0; i < 2 * 8 + 5; ++i) loader.next();
    settings.bad_sample = loader.next().origin.samples[2];
  }
  Training training(ranks, settings);
  training.steps(std::min(steps, 2));
  if (what == "stop") ranks->set_deadline(std::chrono::seconds(5));
  if (ranks->rank() == 1) {
    if (what == "die") ::kill(::getpid(), SIGKILL);
    if (what == "stop") ::kill(::getpid(), SIGSTOP);
    if (what == "throw") throw DataError("rank 1 has lost its data");
  }
  training.steps(steps);
  const Outcome outcome = training.finished();
  std::string text = fmt::format(
      "rank {} of {}: {} {} mpi={}\n", ranks->rank(), ranks->size(), outcome.state_hash,
      sha256_hex({reinterpret_cast<const char*>(outcome.checkpoint.data()), outcome.checkpoint.size()}), has_mpi());
  for (const amp::Incident& incident : outcome.incidents) text += incident.what + "; " + incident.remedy.what + "\n";
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace
}  // namespace binade::ranks_test

int main(int argc, char** argv) {
  if (argc < 3) return 20;
  try {
    return binade::ranks_test::run(argv[1], std::stoi(argv[2]), argc > 3 ? argv[3] : "");
  } catch (const binade::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
