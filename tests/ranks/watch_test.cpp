#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "binade/amp/ranks/pace.h"
#include "binade/core/thread_ranks.h"
#include "binade/run/rank_watch.h"
#include "tests/io/scratch_folder.h"
#include "tests/ranks/expect_error.h"

namespace binade::amp {
namespace {

TEST(RankReport, SaysWhoWaitsWhereForWhomAndSinceWhen) {
  const std::string text = report_on_ranks({{0, "a", 10, {"the ballot of step 12", {1, 2}, 30}, 0, true},
                                            {1, "b", 11, {"micro-batch 5 of step 12", {}, 31}, 0.5, true},
                                            {2, "c", 12, {"the ballot of step 12", {0, 1}, 1}, 29, true},
                                            {3, "", 0, {}, 0, false}},
                                           10);
  for (const char* part :
       {"rank 0 (process 10 on a): waits for ranks 1, 2 in the ballot of step 12, for 30 s",
        "rank 1 (process 11 on b): micro-batch 5 of step 12, for 31.5 s",
        "rank 2 (process 12 on c): waits for ranks 0, 1 in the ballot of step 12, for 30 s; no sign of life for 29 s",
        "rank 3: has written nothing", "rank 3 did not open the run", "rank 2 gave no sign of life",
        "rank 1 did not get ready"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
}

TEST(RankReport, RanksThatAllWaitMakeDifferentCalls) {
  const std::string text = report_on_ranks({{0, "a", 10, {"the ballot of step 3", {1}, 30}, 0, true},
                                            {1, "a", 11, {"the telemetry of step 2", {0}, 30}, 0, true}},
                                           10);
  EXPECT_NE(text.find("all ranks wait: they do not make the same calls"), std::string::npos) << text;
}

/// Blocks threads until one of them opens it.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

TEST(RankWatch, ARankThatWaitsInVainReadsWhatTheOthersDo) {
  const io::ScratchFolder scratch;
  const std::string folder = scratch.path("run");
  std::filesystem::create_directories(folder);
  Gate gate;
  test::expect_error<RankError>(
      [&] {
        run_thread_ranks(3,
                         [&](const std::shared_ptr<Communicator>& self) {
                           RankWatch watch(*self, folder);
                           self->barrier("the beginning");
                           if (self->rank() == 1) {
                             self->begins("a long walk");
                             // The others read the file of this rank, which a thread writes each second.
                             for (bool written = false; !written;) {
                               const std::vector<RankStatus> all = watch.read();
                               written = all[1].known && all[1].activity.what == "a long walk";
                               if (!written) std::this_thread::sleep_for(std::chrono::milliseconds(20));
                             }
                             self->set_deadline(std::chrono::seconds(60));
                             gate.open();
                             Bytes one(1);  // rank 0 never sends it
                             const IncomingPiece from_zero{0, one};
                             self->exchange({}, std::span(&from_zero, 1), "the ballot of step 7");
                           } else {
                             gate.wait();
                             if (self->rank() == 2) {  // this rank has the longer deadline, so rank 0 gives up first
                               self->set_deadline(std::chrono::seconds(60));
                               Bytes one(1);
                               const IncomingPiece from_zero{0, one};
                               self->exchange({}, std::span(&from_zero, 1), "the ballot of step 7");
                             } else {
                               self->set_deadline(std::chrono::milliseconds(300));
                               Bytes one(1);
                               const IncomingPiece from_one{1, one};
                               self->exchange({}, std::span(&from_one, 1), "the gradients of step 7");
                             }
                           }
                         },
                         {.deadline = std::chrono::seconds(60)});
      },
      {"ranks: what each rank does", "rank 0 (process", "waits for rank 1 in the gradients of step 7", "a"});
  EXPECT_TRUE(std::filesystem::exists(folder + "/ranks/report-0.txt"));
}

/// Makes rank 1 work for a second longer than the deadline of rank 0, which waits for it.
void work_beyond_the_deadline(const std::string& folder, Wait wait, std::chrono::milliseconds deadline) {
  run_thread_ranks(2, [&](const std::shared_ptr<Communicator>& self) {
    const RankWatch watch(*self, folder);
    self->barrier("the beginning");
    if (self->rank() == 1) {
      self->begins("a long evaluation", wait);
      std::this_thread::sleep_for(deadline + std::chrono::seconds(1));
    } else {
      self->set_deadline(deadline);
    }
    const Bytes answer = self->broadcast(bytes_of(std::vector<std::int32_t>{7}), 1, "the message of rank 1");
    EXPECT_EQ(answer.front(), std::byte{7});
  });
}

TEST(RankWatch, ARankWaitsBeyondTheDeadlineForLongWorkOfALivingRank) {
  const io::ScratchFolder scratch;
  const std::string folder = scratch.path("run");
  std::filesystem::create_directories(folder);
  EXPECT_NO_THROW(work_beyond_the_deadline(folder, Wait::kWhileAlive, std::chrono::seconds(6)));
  EXPECT_FALSE(std::filesystem::exists(folder + "/ranks/report-0.txt"));
  test::expect_error<RankError>(
      [&] { work_beyond_the_deadline(folder, Wait::kUntilDeadline, std::chrono::milliseconds(1500)); },
      {"rank 0 waited 1.5 s for rank 1", "a long evaluation"});
}

TEST(RankWatch, AFileOfAnEarlierProcessSaysNothingAboutTheRankOfToday) {
  const io::ScratchFolder scratch;
  const std::string folder = scratch.path("run"), file = folder + "/ranks/rank-1.txt";
  std::filesystem::create_directories(folder + "/ranks");
  std::ofstream(file) << "rank 1 of 2\nhost old\nprocess 7\nseconds 1\nwaits_for\ndoes micro-batch 5 of step 812\n";
  std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  run_thread_ranks(2, [&](const std::shared_ptr<Communicator>& self) {
    if (self->rank() == 0) {
      const RankWatch watch(*self, folder);
      EXPECT_TRUE(watch.read()[0].known);
      EXPECT_FALSE(watch.read()[1].known);
    }
    self->barrier("the look at the files");
    const RankWatch watch(*self, folder);
    EXPECT_TRUE(watch.read()[static_cast<std::size_t>(self->rank())].known);
  });
}

TEST(RankPace, NamesARankThatIsSlowInMostSteps) {
  RankPace pace;
  for (int step = 0; step < RankPace::kSteps; ++step) {
    const double seconds[] = {0.1, 0.11, step % 20 == 0 ? 0.1 : 0.2, 0.09};
    const std::string text = pace.observe(seconds);
    if (step + 1 < RankPace::kSteps) {
      EXPECT_EQ(text, "");
      continue;
    }
    EXPECT_NE(text.find("rank 2 is slow"), std::string::npos) << text;
    EXPECT_EQ(text.find("rank 1 is slow"), std::string::npos) << text;
  }
}

TEST(RankPace, OfTwoRanksTheSlowOneIsNamed) {
  RankPace pace;
  std::string text;
  for (int step = 0; step < RankPace::kSteps; ++step) text = pace.observe(std::vector<double>{0.3, 0.1});
  EXPECT_NE(text.find("rank 0 is slow"), std::string::npos) << text;
}

TEST(RankPace, NoiseAndShortTimesAreNoReason) {
  RankPace pace;
  for (int step = 0; step < 4 * RankPace::kSteps; ++step) {
    const std::vector<double> seconds = step % 3 == 0 ? std::vector<double>{0.2, 0.1}
                                                      : std::vector<double>{0.1, 0.12};  // slow in a third of the steps
    EXPECT_EQ(pace.observe(seconds), "");
  }
  for (int step = 0; step < 4 * RankPace::kSteps; ++step)
    EXPECT_EQ(pace.observe(std::vector<double>{1e-4, 5e-4}), "");  // less than a millisecond
}

}  // namespace
}  // namespace binade::amp
