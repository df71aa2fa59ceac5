#include "binade/core/version.h"

#include <gtest/gtest.h>

#include <regex>

namespace binade {
namespace {

TEST(Version, IsThreeNumbers) {
  EXPECT_TRUE(std::regex_match(std::string(version()), std::regex("[0-9]+\\.[0-9]+\\.[0-9]+"))) << version();
}

TEST(Version, BuildIdNamesVersionAndRevision) {
  EXPECT_NE(build_id().find(version()), std::string::npos) << build_id();
  EXPECT_NE(build_id().find(git_revision()), std::string::npos) << build_id();
}

TEST(Version, RevisionIsTwelveHexDigitsOrUnknown) {
  EXPECT_TRUE(std::regex_match(std::string(git_revision()), std::regex("[0-9a-f]{12}|unknown"))) << git_revision();
}

}  // namespace
}  // namespace binade
