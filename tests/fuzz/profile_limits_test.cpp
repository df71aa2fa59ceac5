// Tests every limit of the checkpoint validator, set to a low value, and structures that random inputs rarely have.
#include <gtest/gtest.h>

#include <span>

#include "binade/core/error.h"
#include "binade/io/checkpoint/file.h"
#include "binade/io/checkpoint/hdf5_profile.h"
#include "tests/fuzz/profile_image.h"
#include "tests/io/scratch_folder.h"

namespace binade::fuzz {
namespace {

ObjectHeader group_of(const std::vector<Message>& links) {
  ObjectHeader object{.messages = message::group_frame()};
  object.messages.insert(object.messages.end(), links.begin(), links.end());
  return object;
}

/// A root group with one group for each letter of `names`.
ProfileImage flat(const std::string& names) {
  ProfileImage image;
  std::vector<Message> links;
  for (const char name : names)
    links.push_back(message::link(std::string(1, name), static_cast<int>(links.size()) + 1));
  image.objects.push_back(group_of(links));
  for (std::size_t i = 0; i < names.size(); ++i) image.objects.push_back(group_of({}));
  return image;
}

std::string refusal(const ProfileImage& image, const io::ProfileLimits& limits = {}) {
  const std::string bytes = image.lay_out().bytes;
  return io::error_of<NoCheckpointError>(
      [&] { io::read_profile(std::as_bytes(std::span(bytes)), io::kUserBlockBytes, limits); });
}

bool is_read(const ProfileImage& image, const io::ProfileLimits& limits) {
  const std::string bytes = image.lay_out().bytes;
  return !io::read_profile(std::as_bytes(std::span(bytes)), io::kUserBlockBytes, limits).groups.empty();
}

TEST(ProfileLimits, ObjectsAndLinksAreLimited) {
  EXPECT_TRUE(is_read(flat("ab"), {.objects = 3}));
  EXPECT_NE(refusal(flat("abc"), {.objects = 3}).find("more than 3 objects"), std::string::npos);
  EXPECT_NE(refusal(flat("abcd"), {.objects = 3}).find("too many links"), std::string::npos);
  ProfileImage image = flat("abc");
  image.objects[1] = group_of({message::link("d", 4)});
  image.objects.push_back(group_of({}));
  EXPECT_NE(refusal(image, {.objects = 3}).find("more than 3 links"), std::string::npos);
}

TEST(ProfileLimits, TheSumOfObjectHeadersIsLimited) {
  const ProfileImage image = flat("ab");
  EXPECT_TRUE(is_read(image, {.header_bytes = 400}));
  EXPECT_NE(refusal(image, {.header_bytes = 70}).find("more object headers than the budget"), std::string::npos);
  EXPECT_NE(refusal(image, {.header_bytes = 10}).find("an object header of too many bytes"), std::string::npos);
}

TEST(ProfileLimits, NestingOfGroupsIsLimited) {
  ProfileImage image;
  for (int level = 1; level < 4; ++level) image.objects.push_back(group_of({message::link("g", level)}));
  image.objects.push_back(group_of({}));
  EXPECT_TRUE(is_read(image, {.depth = 4}));
  EXPECT_NE(refusal(image, {.depth = 3}).find("nested deeper than 3"), std::string::npos);
}

TEST(ProfileLimits, AGroupWithADatasetMessageIsRefused) {
  const Message parts[] = {{.type = 1, .body = message::space({})},
                           {.type = 3, .body = message::integer_type(1, false)},
                           message::layout(-1, 0)};
  for (const Message& part : parts) {
    ProfileImage image = flat("a");
    image.objects[1].messages.push_back(part);
    EXPECT_NE(refusal(image).find("both group and dataset"), std::string::npos) << part.type;
  }
}

TEST(ProfileLimits, AFileShorterThanItsUserBlockIsRefused) {
  const std::string bytes(511, '\0');
  EXPECT_NE(io::error_of<NoCheckpointError>([&] {
              io::read_profile(std::as_bytes(std::span(bytes)), io::kUserBlockBytes);
            }).find("shorter than its user block"),
            std::string::npos);
}

}  // namespace
}  // namespace binade::fuzz
