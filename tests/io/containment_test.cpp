#include "binade/io/files/containment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "binade/core/error.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

using ::testing::HasSubstr;

/// The text of the DataError when `work` ends before it sends a byte.
std::string end_of(const std::function<void(const Containment::Send&)>& work, const ContainmentLimits& limits = {}) {
  return error_of<DataError>([&] {
    Containment child("a.h5", limits, work);
    char byte = 0;
    child.take(&byte, 1);
  });
}

TEST(Containment, ReceivesTheBytesThatTheWorkSends) {
  std::vector<int> sent(300'000), got(sent.size());  // more than a pipe holds
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<int>(i * i);
  Containment child("a.h5", {}, [&](const Containment::Send& send) { send(sent.data(), sent.size() * sizeof(int)); });
  child.take(got.data(), 4);
  child.take(got.data() + 1, (got.size() - 1) * sizeof(int));
  EXPECT_EQ(got, sent);
}

TEST(Containment, ADataErrorOfTheWorkIsThrownInTheParent) {
  EXPECT_EQ(end_of([](const Containment::Send&) { throw DataError("a.h5: no masks"); }), "a.h5: no masks");
}

TEST(Containment, ACrashOfTheLibraryIsADataError) {
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE})
    EXPECT_THAT(end_of([&](const Containment::Send&) { std::raise(signal); }), HasSubstr("a.h5: the library"))
        << signal;
}

TEST(Containment, WorkThatComputesForeverIsKilled) {
  const auto forever = [](const Containment::Send&) {
    volatile unsigned i = 0;  // unsigned, so that overflow is defined
    while (true) i = i + 1;
  };
  EXPECT_THAT(end_of(forever, {.seconds = 1}), HasSubstr("did not end in time"));
}

TEST(Containment, WorkThatWaitsForeverIsKilled) {
  const auto asleep = [](const Containment::Send&) {
    while (true) ::pause();
  };
  EXPECT_THAT(end_of(asleep, {.wall_seconds = 1}),
              HasSubstr("a.h5: reading it was stopped after 1 s without progress"));
}

TEST(Containment, SendingTooFewBytesIsADataError) {
  EXPECT_THAT(end_of([](const Containment::Send&) {}), HasSubstr("it is shorter than its header says"));
}

TEST(Containment, TheRestOfTheBytesNeedNotBeTaken) {
  Containment child("a.h5", {}, [](const Containment::Send& send) {
    const std::vector<char> much(1 << 20);
    for (;;) send(much.data(), much.size());
  });
  char byte = 1;
  child.take(&byte, 1);
  EXPECT_EQ(byte, 0);
}

}  // namespace
}  // namespace binade::io
