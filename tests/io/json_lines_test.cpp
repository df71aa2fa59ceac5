#include "binade/io/records/json_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "binade/core/error.h"
#include "binade/core/random.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

using ::testing::HasSubstr;

TEST(JsonNumber, IsTheShortestThatParsesToTheSameValue) {
  EXPECT_EQ(json_number(0.1f), "0.1");
  EXPECT_EQ(json_number(0.1), "0.1");
  EXPECT_EQ(json_number(65536.0f), "65536");
  EXPECT_EQ(json_number(-0.0), "-0");
  EXPECT_EQ(json_number(1e30), "1e+30");
  const RandomStream bits{.seed = 1};
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const float value = std::bit_cast<float>(bits.word(i));
    if (!std::isfinite(value)) continue;
    const std::string text = json_number(value);
    EXPECT_EQ(nlohmann::json::parse(text).get<float>(), value) << text;
  }
}

TEST(JsonNumber, NonFiniteNumbersAreStrings) {
  EXPECT_EQ(json_number(std::numeric_limits<float>::quiet_NaN()), "\"nan\"");
  EXPECT_EQ(json_number(-std::numeric_limits<double>::quiet_NaN()), "\"nan\"");
  EXPECT_EQ(json_number(std::numeric_limits<double>::infinity()), "\"inf\"");
  EXPECT_EQ(json_number(-std::numeric_limits<float>::infinity()), "\"-inf\"");
}

TEST(JsonString, AnyBytesBecomeValidJson) {
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  EXPECT_TRUE(nlohmann::json::accept(json_string(all)));
  EXPECT_EQ(nlohmann::json::parse(json_string("a\"\\\n\t\x01\u00e9")).get<std::string>(), "a\"\\\n\t\x01\u00e9");
}

TEST(JsonObject, KeepsTheOrderOfItsMembers) {
  JsonObject line;
  line.add("step", 12).add("loss", 1.5f).add("committed", true).add("note", "ok").add_raw("list", "[1,2]");
  EXPECT_EQ(line.text(), R"({"step":12,"loss":1.5,"committed":true,"note":"ok","list":[1,2]})");
}

TEST(JsonLines, OffsetIsTheFileSizeToWhichTruncateReturns) {
  const ScratchFolder folder;
  const std::string path = folder.path("metrics.jsonl");
  const FilesBelow files(folder.path());
  std::int64_t offset = 0;
  {
    JsonLines lines(files, "metrics.jsonl");
    lines.write(JsonObject().add("step", 1));
    offset = lines.offset();
    lines.write(JsonObject().add("step", 2));
    EXPECT_EQ(lines.offset(), static_cast<std::int64_t>(std::filesystem::file_size(path)));
  }
  JsonLines again(files, "metrics.jsonl");
  again.truncate(offset);
  again.write(JsonObject().add("step", 3));
  again.sync();
  EXPECT_EQ(folder.read("metrics.jsonl"), "{\"step\":1}\n{\"step\":3}\n");
  EXPECT_THROW(again.truncate(1000), StorageError);
}

TEST(JsonLines, AFailedWriteIsAStorageError) {
  const ScratchFolder folder;
  EXPECT_THAT(error_of<StorageError>([&] { JsonLines lines(FilesBelow(folder.path()), "no/such/folder.jsonl"); }),
              HasSubstr("folder.jsonl"));
  EXPECT_THROW(JsonLines lines(FilesBelow("/dev"), "full"), StorageError);
}

}  // namespace
}  // namespace binade::io
