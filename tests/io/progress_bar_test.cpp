#include "binade/io/terminal/progress_bar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <sstream>

#include "binade/io/text/utf8.h"

namespace binade::io {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

/// The lines that a terminal would show, after carriage returns and "erase to the end of the line".
std::vector<std::string> screen_of(const std::string& output) {
  std::vector<std::string> lines{""};
  std::size_t column = 0;
  for (std::size_t i = 0; i < output.size(); ++i) {
    if (output[i] == '\r') {
      column = 0;
    } else if (output[i] == '\n') {
      lines.emplace_back();
      column = 0;
    } else if (output.compare(i, 3, "\x1b[K") == 0) {
      lines.back().resize(column);
      i += 2;
    } else {
      lines.back().resize(std::max(lines.back().size(), column + 1), ' ');
      lines.back()[column++] = output[i];
    }
  }
  return lines;
}

struct Shown {
  std::ostringstream out;
  double now = 100;
  ProgressBar bar;
  Shown(ProgressOptions options, Console console) : bar(std::move(options), out, console, [this] { return now; }) {}
};

TEST(ProgressBar, WithoutATerminalPrintsALineEveryNSteps) {
  Shown shown({.total = 25, .every = 10, .unit = "tokens/s"}, {});
  for (int step = 1; step <= 25; ++step) {
    shown.now += 2;
    shown.bar.update({.step = step, .loss = 1.5, .scale = 65536, .rate = 12345});
  }
  EXPECT_EQ(shown.out.str(),
            "step 10/25  loss 1.5000  scale 2^16  12.3k tokens/s  0:30 left\n"
            "step 20/25  loss 1.5000  scale 2^16  12.3k tokens/s  0:10 left\n"
            "step 25/25  loss 1.5000  scale 2^16  12.3k tokens/s  0:00 left\n");
}

TEST(ProgressBar, ShowsTheFirstMetrics) {
  Shown shown({.total = 1, .unit = "tokens/s"}, {});
  std::vector<std::pair<std::string, double>> metrics;
  for (int i = 0; i < 8; ++i) metrics.emplace_back(std::string(1, static_cast<char>('a' + i)), 0.5 * i);
  shown.bar.update({.step = 1, .loss = 1.5, .metrics = metrics, .rate = 1});
  EXPECT_NE(shown.out.str().find("  a 0  b 0.5  c 1  d 1.5  e 2  f 2.5  +2 metrics  "), std::string::npos)
      << shown.out.str();
}

TEST(ProgressBar, OnATerminalRedrawsOneLineThatNeverWraps) {
  for (const int width : {20, 40, 60, 80, 200}) {
    Shown shown({.total = 2000}, {.terminal = true, .width = width});
    for (int step = 1; step <= 2000; ++step) {
      shown.now += 0.01;
      shown.bar.update({.step = step, .loss = 2.5, .scale = 1, .rate = 100});
    }
    shown.bar.finish();
    const auto screen = screen_of(shown.out.str());
    ASSERT_EQ(screen.size(), 2u);
    EXPECT_LT(screen[0].size() + 2, static_cast<std::size_t>(width)) << "^C must not make it wrap";
    EXPECT_THAT(screen[0], HasSubstr("2000/2000"));
    const std::string output = shown.out.str();
    EXPECT_LE(std::count(output.begin(), output.end(), '\r'), 2000 / 10 + 3);  // at most ten updates per second
  }
}

TEST(ProgressBar, MessagesAreOnSeparateLines) {
  Shown shown({.total = 10}, {.terminal = true, .width = 100});
  shown.bar.update({.step = 3, .loss = 1});
  shown.bar.message("incident: first\nwhy: second");
  shown.bar.update({.step = 10, .loss = 1});
  shown.bar.finish();
  shown.bar.message("done\n");
  const auto screen = screen_of(shown.out.str());
  ASSERT_EQ(screen.size(), 5u);
  EXPECT_EQ(screen[0], "incident: first");
  EXPECT_EQ(screen[1], "why: second");
  EXPECT_THAT(screen[2], HasSubstr("10/10 [==="));
  EXPECT_EQ(screen[3], "done");
  EXPECT_EQ(screen[4], "");
}

TEST(ProgressBar, ANonFiniteLossIsShown) {
  Shown shown({.total = 1}, {});
  shown.bar.update({.step = 1, .loss = std::numeric_limits<double>::quiet_NaN(), .rate = 1});
  EXPECT_THAT(shown.out.str(), HasSubstr("loss nan"));
}

TEST(ProgressBar, TimeLeftOfAResumedRunCountsItsOwnStepsOnly) {
  Shown shown({.first = 100, .total = 120, .every = 1}, {});
  shown.now += 10;
  shown.bar.update({.step = 110, .loss = 1, .rate = 1});
  EXPECT_THAT(shown.out.str(), EndsWith("0:10 left\n"));
}

TEST(ProgressBar, DurationsAndRatesAreFormatted) {
  EXPECT_EQ(format_duration(3723), "1:02:03");
  EXPECT_EQ(format_duration(59.6), "1:00");
  EXPECT_EQ(format_duration(-1), "-");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::quiet_NaN()), "-");
  EXPECT_EQ(format_rate(1.234), "1.23");
  EXPECT_EQ(format_rate(950), "950");
  EXPECT_EQ(format_rate(12345), "12.3k");
  EXPECT_EQ(format_rate(4.56e6), "4.56M");
  EXPECT_EQ(format_rate(999.9), "1.00k");
  EXPECT_EQ(format_rate(std::numeric_limits<double>::infinity()), "-");
}

TEST(Console, ColorsOnlyATerminalAndNotWithNoColor) {
  EXPECT_EQ((Console{.terminal = true, .color = true}.paint("x", Color::kRed)), "\x1b[31mx\x1b[0m");
  EXPECT_EQ((Console{.terminal = true, .color = false}.paint("x", Color::kRed)), "x");
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(Console::of(2).color);
  ::unsetenv("NO_COLOR");
}

TEST(ProgressBar, ControlCharactersOfAMessageAreEscaped) {
  Shown shown({.total = 25}, {});
  shown.bar.message("loaded \x1b]0;owned\x07");
  EXPECT_EQ(shown.out.str(), "loaded \\u001b]0;owned\\u0007\n");
}

TEST(Console, AnIncompleteCharacterIsHeldBack) {
  EXPECT_EQ(whole_utf8("ab"), 2u);
  EXPECT_EQ(whole_utf8("a\xc3"), 1u);
  EXPECT_EQ(whole_utf8("a\xc3\xa9"), 3u);
  EXPECT_EQ(whole_utf8("\xf0\x9f\x98"), 0u);
  EXPECT_EQ(whole_utf8("\xf0\x9f\x98\x80"), 4u);
  EXPECT_EQ(whole_utf8("a\x80\x80\x80\x80"), 5u);  // four continuation bytes are no incomplete character
  EXPECT_EQ(whole_utf8(""), 0u);
}

TEST(Console, ControlCharactersOfForeignTextAreEscaped) {
  EXPECT_EQ(printable("a\x1b[2Jb\tc\nd\r\x7f"), "a\\u001b[2Jb\tc\nd\\u000d\\u007f");
  EXPECT_EQ(printable("a\u009b2Jb\xff"), "a\\u009b2Jb\\xff");
  EXPECT_EQ(printable("a\u202etxt.exe\r\n"), "a\\u202etxt.exe\r\n");
  EXPECT_EQ(printable("d\u00e9j\u00e0"), "d\u00e9j\u00e0");
}

}  // namespace
}  // namespace binade::io
