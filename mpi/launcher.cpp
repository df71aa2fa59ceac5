#include "binade/core/launcher.h"

#include <dlfcn.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string_view>

#include "binade/core/code_file.h"
#include "binade/core/version.h"
#include "binade/mpi/api.h"

namespace binade {
namespace {

namespace fs = std::filesystem;

constexpr int kLostRank = 52;  // docs/exit-codes.md
constexpr const char* kFileName = "libbinade_mpi.so";

/// Returns the number in an environment variable; 0 if there is none.
int number_in(const char* variable) {
  const char* text = std::getenv(variable);
  int number = 0;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), number);
  return number;
}

/// Returns the number of processes on node `node`; 0 if Slurm's list does not contain it. "4(x2),3" lists 4 processes
/// on each of two nodes, then 3 on the next.
int processes_of_node(std::string_view list, int node) {
  for (const char *at = list.data(), *const end = at + list.size(); at < end; ++at) {  // `at` is after a comma
    int processes = 0, nodes = 1;
    at = std::from_chars(at, end, processes).ptr;
    if (std::string_view(at, end).starts_with("(x")) {
      at = std::from_chars(at + 2, end, nodes).ptr;
      if (at < end) ++at;  // the parenthesis
    }
    if (node < nodes) return processes;
    node -= nodes;
  }
  return 0;
}

/// Returns this process's number among the processes that srun has started on this machine, and how many there are.
LocalRank local_rank_of_slurm() {
  const char* const list = std::getenv("SLURM_STEP_TASKS_PER_NODE");
  if (list == nullptr) return {};
  const int rank = number_in("SLURM_LOCALID"), ranks = processes_of_node(list, number_in("SLURM_NODEID"));
  return rank < ranks ? LocalRank{rank, ranks} : LocalRank{};
}

std::string path_of_module() {
  if (const char* named = std::getenv("BINADE_MPI_MODULE"); named != nullptr && *named != '\0') return named;
  // Beside the library, or in the folder mpi/ there, where the build writes it (decision 0087).
  if (const fs::path folder = folder_of_library(); !folder.empty())
    for (const fs::path& path : {folder / kFileName, folder / "mpi" / kFileName})
      if (std::error_code ignored; fs::exists(path, ignored)) return path;
  throw ArgumentError(
      fmt::format("ranks: a launcher has started {} processes, and this build has no MPI engine ({}); install Open MPI "
                  "(libopenmpi-dev) and build again",
                  launched_ranks(), kFileName));
}

const mpi::Api& open_module() {
  const std::string path = path_of_module();
  const std::string why = why_not_executable(path);
  check<ArgumentError>(why.empty(), "ranks: the MPI engine is not loaded: {}", why);
  // Global, because some MPIs load plugins that look for the symbols of libmpi.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    throw ArgumentError(
        fmt::format("ranks: {} could not be opened: {}", path, reason != nullptr ? reason : "no reason given"));
  }
  const auto function = reinterpret_cast<mpi::ApiFunction>(dlsym(library, mpi::kApiSymbol));
  const mpi::Api* api = function != nullptr ? function() : nullptr;
  check<ArgumentError>(api != nullptr && api->size == sizeof(mpi::Api) && version() == std::string_view(api->version),
                       "ranks: {} was built of another version of Binade; build it again, of the same sources as the "
                       "library",
                       path);
  return *api;
}

class MpiRank final : public Communicator {
 public:
  /// The opened module, this process's rank, and the number of ranks.
  struct Opened {
    const mpi::Api& api;
    int rank = 0, size = 1;
    char library[64] = {};
  };
  static Opened open() {
    Opened opened{open_module()};
    check<RankError>(opened.api.open(&opened.rank, &opened.size, &opened.library), "ranks: MPI does not start: {}",
                     opened.api.last_error());
    return opened;
  }

  explicit MpiRank(const Opened& opened)
      : Communicator(opened.rank, opened.size), api_(opened.api), library_(opened.library) {}
  /// If only this rank had an error, the others may never close MPI. This process then exits without closing it, and
  /// the launcher ends the others.
  ~MpiRank() override {
    if (!failed_ && (std::uncaught_exceptions() == 0 || ends_together())) api_.close();
  }
  std::string engine() const override { return fmt::format("mpi ({})", library_); }
  void end_job(const std::string&) noexcept override {
    failed_ = true;
    api_.end_job(kLostRank);
  }

 protected:
  void do_exchange(std::span<const OutgoingPiece> outgoing, std::span<const IncomingPiece> incoming,
                   std::string_view what) override {
    std::vector<mpi::Piece> out, in;
    for (const OutgoingPiece& piece : outgoing)
      out.push_back({piece.to, const_cast<std::byte*>(piece.bytes.data()), piece.bytes.size()});
    for (const IncomingPiece& piece : incoming) in.push_back({piece.from, piece.bytes.data(), piece.bytes.size()});
    std::vector<int> missing(static_cast<std::size_t>(size()));
    std::size_t count = 0;
    const auto waits_longer = [](const void* self, const int* ranks, std::size_t number) {
      return static_cast<const MpiRank*>(self)->Communicator::waits_longer({ranks, number});
    };
    const mpi::Moved moved = api_.move(out.data(), out.size(), in.data(), in.size(), deadline().count(), waits_longer,
                                       this, missing.data(), &count);
    if (moved == mpi::Moved::kDone) return;
    failed_ = true;
    if (moved == mpi::Moved::kTimeout)
      throw RankError(timeout_text(rank(), deadline().count(), std::span(missing).first(count), what));
    throw RankError(fmt::format("ranks: rank {} in {}: {}", rank(), what, api_.last_error()));
  }

 private:
  const mpi::Api& api_;
  std::string library_;
  bool failed_ = false;
};

}  // namespace

int launched_ranks() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"})
    if (const int ranks = number_in(variable); ranks > 0) return ranks;
  const bool has_pmi = std::getenv("PMIX_RANK") != nullptr || std::getenv("PMI_RANK") != nullptr;
  return has_pmi ? std::max(1, number_in("SLURM_NTASKS")) : 1;
}

LocalRank local_rank() {
  if (launched_ranks() <= 1) return {};
  for (const auto& [rank, ranks] : {std::pair{"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                                    std::pair{"MPI_LOCALRANKID", "MPI_LOCALNRANKS"}})
    if (const int count = number_in(ranks); count > 0) return {number_in(rank), count};
  return local_rank_of_slurm();
}

std::shared_ptr<Communicator> ranks_from_launcher() {
  if (launched_ranks() <= 1) return alone();
  return std::make_shared<MpiRank>(MpiRank::open());
}

}  // namespace binade
