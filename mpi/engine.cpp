// The module libbinade_mpi: the only code that includes mpi.h. It moves bytes by MPI_Isend and MPI_Irecv, and watches
// the deadline itself: MPI would wait for ever for a process that is stopped or a machine that is cut off.
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "binade/mpi/api.h"

namespace binade::mpi {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLargest = std::size_t{1} << 30;  // most bytes of a message, because MPI counts in int
constexpr int kTag = 77;

MPI_Comm g_communicator = MPI_COMM_NULL;
std::string g_error;  // still exists at the last call, which is close()

const char* last_error() { return g_error.c_str(); }

bool failed(const char* call, int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  g_error = std::string(call) + ": " + text;
  return false;
}

bool open(int* rank, int* size, char (*library)[64]) {
  int is_open = 0, provided = 0;
  MPI_Initialized(&is_open);
  if (is_open == 0) {
    const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    if (code != MPI_SUCCESS) return failed("MPI_Init_thread", code);
  } else {
    MPI_Query_thread(&provided);
  }
  if (provided < MPI_THREAD_SERIALIZED) {
    g_error = "this MPI allows calls of the main thread only; use a build with MPI_THREAD_SERIALIZED";
    return false;
  }
  if (const int code = MPI_Comm_dup(MPI_COMM_WORLD, &g_communicator); code != MPI_SUCCESS)
    return failed("MPI_Comm_dup", code);
  MPI_Comm_set_errhandler(g_communicator, MPI_ERRORS_RETURN);
  MPI_Comm_rank(g_communicator, rank);
  MPI_Comm_size(g_communicator, size);
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string name(text, std::strcspn(text, ",\n"));  // "Open MPI v4.1.4"
  std::snprintf(*library, sizeof(*library), "%s", name.c_str());
  return true;
}

/// The rank, size and direction of one MPI request.
struct Request {
  int rank = 0;
  std::size_t bytes = 0;
  bool is_receive = false;
};

/// Waits until all requests are complete, or for `seconds`. At first yields the core between two tests, later sleeps a
/// little, because a rank may share its core with the rank that it waits for.
bool wait_for(std::vector<MPI_Request>& requests, std::vector<MPI_Status>& statuses, double seconds, int& code) {
  constexpr int kYields = 200, kLongestSleep = 500;  // microseconds
  const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                   std::chrono::duration<double>(std::min(seconds, 1e8)));
  for (int polls = 0, sleep = 20;; ++polls) {
    int done = 0;
    code = MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, statuses.data());
    if (done != 0 || code != MPI_SUCCESS) return true;
    if (Clock::now() >= end) return false;
    if (polls < kYields) {
      sched_yield();
      continue;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(sleep));
    polls = kYields;
    sleep = std::min(sleep + 1, kLongestSleep);
  }
}

/// Returns the ranks of requests that are not complete, in ascending order.
std::vector<int> ranks_missing(const std::vector<MPI_Request>& requests, const std::vector<Request>& kinds) {
  std::vector<int> missing;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    int done = 0;
    MPI_Request_get_status(requests[i], &done, MPI_STATUS_IGNORE);
    if (done == 0) missing.push_back(kinds[i].rank);
  }
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  return missing;
}

Moved move(const Piece* outgoing, std::size_t outgoing_count, const Piece* incoming, std::size_t incoming_count,
           double seconds, bool (*waits_longer)(const void* context, const int* missing, std::size_t count),
           const void* context, int* missing, std::size_t* missing_count) {
  *missing_count = 0;
  std::vector<MPI_Request> requests;
  std::vector<Request> kinds;
  int code = MPI_SUCCESS;
  const auto add = [&](const Piece& piece, bool is_receive) {
    // A piece of 0 bytes is one message too.
    for (std::size_t begin = 0; begin == 0 || begin < piece.bytes; begin += kLargest) {
      const std::size_t bytes = std::min(kLargest, piece.bytes - begin);
      auto* data = static_cast<char*>(piece.data) + begin;
      MPI_Request request = MPI_REQUEST_NULL;
      code = is_receive
                 ? MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, piece.rank, kTag, g_communicator, &request)
                 : MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, piece.rank, kTag, g_communicator, &request);
      if (code != MPI_SUCCESS) return failed(is_receive ? "MPI_Irecv" : "MPI_Isend", code);
      requests.push_back(request);
      kinds.push_back({piece.rank, bytes, is_receive});
    }
    return true;
  };
  for (std::size_t i = 0; i < incoming_count; ++i)
    if (!add(incoming[i], true)) return Moved::kFailed;
  for (std::size_t i = 0; i < outgoing_count; ++i)
    if (!add(outgoing[i], false)) return Moved::kFailed;
  std::vector<MPI_Status> statuses(requests.size());
  while (!wait_for(requests, statuses, seconds, code)) {
    const std::vector<int> ranks = ranks_missing(requests, kinds);
    if (ranks.empty() || waits_longer(context, ranks.data(), ranks.size())) continue;
    for (MPI_Request& request : requests) {
      int done = 0;
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (done != 0) continue;
      MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
    *missing_count = ranks.size();
    std::copy(ranks.begin(), ranks.end(), missing);
    return Moved::kTimeout;
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!kinds[i].is_receive) continue;
    int bytes = 0;
    const int error = code == MPI_ERR_IN_STATUS ? statuses[i].MPI_ERROR : MPI_SUCCESS;
    MPI_Get_count(&statuses[i], MPI_BYTE, &bytes);
    if (error == MPI_SUCCESS && static_cast<std::size_t>(bytes) == kinds[i].bytes) continue;
    g_error = "wanted " + std::to_string(kinds[i].bytes) + " bytes from rank " + std::to_string(kinds[i].rank) +
              (error == MPI_SUCCESS ? ", got " + std::to_string(bytes) : ", got more") +
              "; the ranks are not in the same step";
    return Moved::kFailed;
  }
  if (code == MPI_SUCCESS) return Moved::kDone;
  failed("MPI_Testall", code);
  return Moved::kFailed;
}

void end_job(int code) { MPI_Abort(MPI_COMM_WORLD, code); }

void close() {
  MPI_Comm_free(&g_communicator);
  MPI_Finalize();
}

}  // namespace
}  // namespace binade::mpi

extern "C" __attribute__((visibility("default"))) const binade::mpi::Api* binade_mpi_api() {
  using namespace binade::mpi;
  static const Api api{sizeof(Api), BINADE_VERSION_TEXT, last_error, open, move, end_job, close};
  return &api;
}
