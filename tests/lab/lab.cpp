#include "tests/lab/lab.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "binade/core/error.h"

namespace binade::lab {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kTold = 5;

}  // namespace

Scratch::Scratch()
    : path_((fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path().string()) + "/binade-lab-XXXXXX") {
  check<StorageError>(::mkdtemp(path_.data()) != nullptr, "no scratch folder at {}", path_);
}

Scratch::~Scratch() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string Scratch::fresh(const std::string& name) const {
  fs::remove_all(*this / name);
  return *this / name;
}

void Findings::violation(const std::string& what) {
  if (printed_.size() < kTold) printed_.push_back(what);
  ++violations_;
}

bool Findings::report(const std::string& experiment, const Assignment& assignment, double seconds) const {
  bool passed = violations_ == 0;
  std::printf("%s, seed %llu, %.1f s\n", experiment.c_str(), static_cast<unsigned long long>(assignment.seed), seconds);
  for (const Count& count : counts_) {
    std::printf("  %12lld  %s", static_cast<long long>(count.n), count.what.c_str());
    if (count.n < count.floor) {
      std::printf("  TOO FEW: wanted %lld", static_cast<long long>(count.floor));
      passed = false;
    }
    std::printf("\n");
  }
  std::printf("  %12lld  violations\n", static_cast<long long>(violations_));
  for (const std::string& one : printed_) std::printf("VIOLATION %s\n", one.c_str());
  return passed;
}

}  // namespace binade::lab
