#include "binade/io/text/json_reader.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "binade/core/error.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string refusal(std::string_view text, const JsonLimits& limits = {}) {
  return error_of<DataError>([&] { (void)parse_json<json>(text, "file.json", limits); });
}

std::string event_refusal(std::string_view text, const JsonLimits& limits = {}) {
  struct Nothing : JsonEvents {
    void null() override {}
    void boolean(bool) override {}
    void negative(std::int64_t) override {}
    void natural(std::uint64_t) override {}
    void fraction(double) override {}
    void text(const std::string&) override {}
    void key(const std::string&) override {}
    void begin_object() override {}
    void end_object() override {}
    void begin_array() override {}
    void end_array() override {}
  } nothing;
  return error_of<DataError>([&] { read_json_events(text, "file.json", nothing, limits); });
}

TEST(JsonReader, AcceptsJson) {
  EXPECT_EQ(parse_json<json>(R"( {"a": [1, -2, 0.5, null, true, "\u0041"], "b": {"a": 1}} )", "file.json").dump(),
            R"({"a":[1,-2,0.5,null,true,"A"],"b":{"a":1}})");
  EXPECT_EQ(parse_json<nlohmann::ordered_json>(R"({"b":1,"a":2})", "file.json").dump(), R"({"b":1,"a":2})");
  EXPECT_EQ(parse_json<json>(R"({"a":["[[[["]})", "file.json", {.depth = 2}).size(), 1u);
}

// nlohmann's parser stops at a zero byte and ignores the rest; the reader must refuse it.
TEST(JsonReader, NothingMayFollowTheValue) {
  using namespace std::string_view_literals;
  for (const std::string_view text : {"{}\0"sv, "{}\0{\"a\":1}"sv, "{}\0\0\0"sv, "\0{}"sv, "{\"a\0b\":1}"sv}) {
    EXPECT_THAT(refusal(text), HasSubstr("file.json: wanted JSON, got a zero byte at offset"));
    EXPECT_THAT(event_refusal(text), HasSubstr("file.json: wanted JSON, got a zero byte at offset"));
  }
  for (const std::string_view text : {"{}x"sv, "{}{}"sv, "{},"sv, "1 2"sv, ""sv, "{"sv, "{\"a\":1,}"sv, "// a\n1"sv}) {
    EXPECT_THAT(refusal(text), HasSubstr("file.json: wanted JSON, got a syntax error")) << text;
    EXPECT_THAT(event_refusal(text), HasSubstr("file.json: it is not JSON at byte")) << text;
  }
}

TEST(JsonReader, ARepeatedMemberIsRefused) {
  EXPECT_THAT(refusal(R"({"a":1,"b":{"a":2},"a":3})"), HasSubstr("got \"a\" twice in one object"));
  EXPECT_THAT(refusal(R"([{"a":1},{"a":2,"\u0061":3}])"), HasSubstr("got \"a\" twice in one object"));
}

TEST(JsonReader, SizeDepthEncodingMembersAndNumbersAreLimited) {
  EXPECT_THAT(refusal(std::string(1001, ' '), {.bytes = 1000}), HasSubstr("at most 1000 bytes, got 1001"));
  EXPECT_THAT(refusal(std::string(100, '[')), HasSubstr("nested at most 32 deep, got more at offset 32"));
  EXPECT_THAT(refusal("\"\xFF\""), HasSubstr("a bad byte at offset 1"));
  EXPECT_THAT(refusal(R"({"a":1,"b":2,"c":3})", {.members = 2}), HasSubstr("at most 2 members"));
  EXPECT_THAT(refusal("1e999"), HasSubstr("file.json: wanted JSON"));
  EXPECT_THAT(event_refusal(std::string(100, '['), {.depth = 4}), HasSubstr("nested at most 4 deep"));
}

}  // namespace
}  // namespace binade::io
