#include "binade/io/exchange/safetensors.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>

#include "binade/core/error.h"
#include "binade/io/exchange/name_maps/hf_gpt2.h"
#include "binade/io/exchange/name_maps/pytorch_unet.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

Tensor noise(const Shape& shape, DType dtype, unsigned seed) {
  Tensor t = Tensor::empty(shape, dtype);
  std::mt19937 random(seed);
  auto* bytes = t.bytes() == 0 ? nullptr : static_cast<unsigned char*>(t.mutable_raw());
  for (std::size_t i = 0; i < t.bytes(); ++i)
    bytes[i] = static_cast<unsigned char>(dtype == DType::boolean ? random() & 1 : random());
  return t;
}

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
}

std::vector<std::byte> file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::vector<std::byte> file(8 + header.size() + data_bytes);
  std::memcpy(file.data(), &length, 8);
  std::memcpy(file.data() + 8, header.data(), header.size());
  return file;
}

TEST(SafetensorsTest, StoresEveryDtypeExactly) {
  Safetensors content;
  for (const DType d :
       {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i64, DType::i32, DType::u8, DType::boolean})
    content.tensors.emplace("a." + std::string(name_of(d)), noise({3, 5}, d, 7));
  content.tensors.emplace("empty", Tensor::empty({0, 3}));
  content.tensors.emplace("scalar", noise({}, DType::f32, 8));
  content.metadata = {{"format", "pt"}, {"note", "\"quoted\" ∞"}};
  const std::vector<std::byte> file = encode_safetensors(content);
  EXPECT_EQ(file, encode_safetensors(content));
  std::uint64_t header = 0;
  std::memcpy(&header, file.data(), 8);
  EXPECT_EQ((header + 8) % 64, 0u);
  const Safetensors back = decode_safetensors(file);
  EXPECT_EQ(back.metadata, content.metadata);
  ASSERT_EQ(back.tensors.size(), content.tensors.size());
  for (const auto& [name, tensor] : content.tensors) EXPECT_TRUE(same(back.tensors.at(name), tensor)) << name;
}

TEST(SafetensorsTest, FilesAreReadBackAndErrorsHaveTheirNames) {
  const ScratchFolder folder;
  Safetensors content;
  content.tensors.emplace("w", noise({4}, DType::f32, 1));
  write_safetensors(folder.path("a.safetensors"), content);
  write_safetensors(folder.path("a.safetensors"), content);
  EXPECT_TRUE(same(read_safetensors(folder.path("a.safetensors")).tensors.at("w"), content.tensors.at("w")));
  EXPECT_NE(error_of<DataError>([&] { read_safetensors(folder.path("b")); }).find("/b: "), std::string::npos);
  const std::string broken = folder.write("c", "short");
  EXPECT_NE(error_of<DataError>([&] { read_safetensors(broken); }).find("/c: "), std::string::npos);
  EXPECT_THROW(write_safetensors(folder.path("missing/x"), content), StorageError);
}

TEST(SafetensorsTest, AnInvalidHeaderIsRefusedBeforeTheFileIsRead) {
  const ScratchFolder folder;
  const std::string path = folder.write("large", "");
  std::filesystem::resize_file(path, std::uintmax_t{1} << 36);  // 64 GiB, sparse
  EXPECT_NE(error_of<DataError>([&] { read_safetensors(path); }).find("large: safetensors: the header"),
            std::string::npos);
}

TEST(SafetensorsTest, MalformedFilesAreRefusedByName) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_NO_THROW(decode_safetensors(file_of(good, 8)));
  EXPECT_NO_THROW(decode_safetensors(file_of(good + "   ", 8)));
  EXPECT_NO_THROW(decode_safetensors(file_of("{}", 0)));
  const struct {
    const char* header;
    std::size_t data;
    const char* wanted;
  } cases[] = {
      {"", 0, "does not begin"},
      {"[]", 0, "does not begin"},
      {"{", 0, "not JSON"},
      {"{}x", 0, "not JSON"},
      {"{}", 1, "after the last"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7, "bytes 0 to 8 of 7"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 9, "after the last"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}})", 9, "wanted 0"},
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8, "need 12"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8, "bytes 8 to 0"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0, "multiply"},
      {R"({"a":{"dtype":"F32","shape":[9223372036854775807],"data_offsets":[0,0]}})", 0, "multiply"},
      {R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4, "longer list"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,8]}})", 8, "longer list"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", 8, "wanted dtype"},
      {R"({"a":{"dtype":"F32","shape":[2]}})", 8, "wanted dtype"},
      {R"({"a":{"shape":[2],"data_offsets":[0,8]}})", 8, "wanted dtype"},
      {R"({"a":{"dtype":"Q4","shape":[2],"data_offsets":[0,8]}})", 8, "dtype Q4"},
      {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8, "negative"},
      {R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", 8, "fraction"},
      {R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", 8, "list"},
      {R"({"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})", 8, "number"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":{}}})", 8, "object"},
      {R"({"a":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}})", 8, "list"},
      {R"({"a":5})", 0, "number"},
      {R"({"a":null})", 0, "null"},
      {R"({"__metadata__":{"a":{}}})", 0, "object"},
      {R"({"__metadata__":{"a":"x","a":"y"}})", 0, "twice"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       8, "twice"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
       12, "overlap"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[12,20]}})",
       20, "holes"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[0],"data_offsets":[4,4]}})",
       8, "overlap"},
      {R"({"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", 2, ""},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.header);
    if (*c.wanted == '\0') {
      EXPECT_NO_THROW(decode_safetensors(file_of(c.header, c.data)));
      continue;
    }
    const std::string error = error_of<DataError>([&] { decode_safetensors(file_of(c.header, c.data)); });
    EXPECT_NE(error.find(c.wanted), std::string::npos) << error;
  }
  std::vector<std::byte> boolean = file_of(R"({"a":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})", 1);
  boolean.back() = std::byte{2};
  EXPECT_THROW(decode_safetensors(boolean), DataError);
  std::vector<std::byte> long_header = file_of("{}", 0);
  std::memset(long_header.data(), 0xff, 8);
  EXPECT_THROW(decode_safetensors(long_header), DataError);
  EXPECT_THROW(decode_safetensors(file_of("{\"\xff\":1}", 0)), DataError);
  EXPECT_THROW(decode_safetensors(file_of(std::string(1'000'000, '['), 0)), DataError);
  EXPECT_THROW(decode_safetensors(file_of("{\"a\":" + std::string(1'000'000, '['), 0)), DataError);
}

TEST(SafetensorsTest, TruncatedFilesAreRefusedAndChangedBytesDoNotCrash) {
  Safetensors content;
  content.tensors.emplace("a", noise({2, 3}, DType::f32, 1));
  content.tensors.emplace("b", noise({5}, DType::u8, 2));
  const std::vector<std::byte> file = encode_safetensors(content);
  for (std::size_t n = 0; n < file.size(); ++n)
    EXPECT_THROW(decode_safetensors(std::span(file).first(n)), DataError) << n;
  std::mt19937 random(3);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::byte> changed = file;
    changed[random() % (file.size() - 29)] = std::byte{static_cast<unsigned char>(random())};
    try {
      decode_safetensors(changed);
    } catch (const DataError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(NameMapsTest, UNetFiltersChangeLayoutInBothDirections) {
  TensorMap theirs;
  theirs.emplace("head.weight", Tensor::from<float>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {1, 3, 2, 2}));
  theirs.emplace("head.bias", noise({1}, DType::f32, 1));
  theirs.emplace("middle.norm1.running_var", noise({4}, DType::f32, 2));
  theirs.emplace("middle.norm1.num_batches_tracked", Tensor::zeros({}, DType::i64));
  const TensorMap ours = unet_from_pytorch(theirs);
  EXPECT_EQ(ours.size(), 4u);
  EXPECT_EQ(ours.at("head.weight").shape(), (Shape{1, 2, 2, 3}));
  EXPECT_EQ(ours.at("head.weight").to_vector<float>(), (std::vector<float>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
  const TensorMap back = unet_to_pytorch(ours);
  for (const auto& [name, tensor] : back) EXPECT_TRUE(same(tensor, theirs.at(name))) << name;
}

TensorMap small_gpt2(const std::string& prefix) {
  TensorMap m;
  unsigned seed = 0;
  const auto put = [&](const std::string& name, const Shape& shape) {
    m.emplace(prefix + name, noise(shape, DType::f32, ++seed));
  };
  put("wte.weight", {10, 4});
  put("wpe.weight", {6, 4});
  for (const std::string h : {"h.0.", "h.1."}) {
    for (const std::string norm : {"ln_1", "ln_2"})
      for (const std::string part : {".weight", ".bias"}) put(h + norm + part, {4});
    put(h + "attn.c_attn.weight", {4, 12});
    put(h + "attn.c_attn.bias", {12});
    put(h + "attn.c_proj.weight", {4, 4});
    put(h + "attn.c_proj.bias", {4});
    put(h + "mlp.c_fc.weight", {4, 16});
    put(h + "mlp.c_fc.bias", {16});
    put(h + "mlp.c_proj.weight", {16, 4});
    put(h + "mlp.c_proj.bias", {4});
  }
  put("ln_f.weight", {4});
  put("ln_f.bias", {4});
  return m;
}

TEST(NameMapsTest, Gpt2SplitsTheFusedProjectionAndRestoresIt) {
  const TensorMap theirs = small_gpt2("");
  const TensorMap ours = gpt2_from_hugging_face(theirs);
  const Tensor& fused = theirs.at("h.1.attn.c_attn.weight");
  for (int in = 0; in < 4; ++in)
    for (int out = 0; out < 4; ++out) {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(ours.at("blocks.1.attention.query.weight").data<float>()[out * 4 + in]),
                std::bit_cast<std::uint32_t>(fused.data<float>()[in * 12 + out]));
      EXPECT_EQ(std::bit_cast<std::uint32_t>(ours.at("blocks.1.attention.value.weight").data<float>()[out * 4 + in]),
                std::bit_cast<std::uint32_t>(fused.data<float>()[in * 12 + 8 + out]));
    }
  EXPECT_EQ(ours.at("blocks.0.mlp.up.weight").shape(), (Shape{16, 4}));
  const TensorMap back = gpt2_to_hugging_face(ours);
  ASSERT_EQ(back.size(), theirs.size());
  for (const auto& [name, tensor] : theirs) EXPECT_TRUE(same(back.at(name), tensor)) << name;
  EXPECT_EQ(gpt2_to_hugging_face(ours, 7).at("wte.weight").dim(0), 7);
}

TEST(NameMapsTest, Gpt2AcceptsPrefixMaskAndTiedHead) {
  TensorMap theirs = small_gpt2("transformer.");
  theirs.emplace("lm_head.weight", theirs.at("transformer.wte.weight").clone());
  theirs.emplace("transformer.h.0.attn.bias", Tensor::zeros({1, 1, 6, 6}));
  theirs.emplace("transformer.h.0.attn.masked_bias", Tensor::zeros({}));
  EXPECT_EQ(gpt2_from_hugging_face(theirs).size(), gpt2_from_hugging_face(small_gpt2("")).size());
  theirs.at("lm_head.weight").fill(3);
  EXPECT_TRUE(gpt2_from_hugging_face(theirs).contains("head.weight"));
}

TEST(NameMapsTest, MissingAndUnknownTensorsAreListed) {
  TensorMap theirs = small_gpt2("");
  theirs.erase("ln_f.weight");
  theirs.emplace("extra", Tensor::zeros({1}));
  const std::string error = error_of<DataError>([&] { gpt2_from_hugging_face(theirs); });
  EXPECT_NE(error.find("missing: ln_f.weight"), std::string::npos) << error;
  EXPECT_NE(error.find("unexpected: extra"), std::string::npos) << error;
}

/// Decodes a file of tests/golden/data, which are base64 text.
TensorMap fixture(const std::string& name) {
  const char* given = std::getenv("BINADE_GOLDEN_DIR");
  std::ifstream text(std::string(given != nullptr ? given : "tests/golden/data") + "/" + name + ".safetensors.b64");
  EXPECT_TRUE(text.good()) << name;
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<std::byte> bytes;
  unsigned bits = 0;
  int held = 0;
  for (char c = 0; text.get(c);) {
    const std::size_t digit = digits.find(c);
    if (digit == std::string::npos) continue;  // line ends and padding
    bits = (bits << 6) | static_cast<unsigned>(digit);
    held += 6;
    if (held >= 8) bytes.push_back(std::byte{static_cast<unsigned char>(bits >> (held -= 8))});
  }
  return decode_safetensors(bytes).tensors;
}

TEST(NameMapsTest, FixturesOfOtherProgramsAreRead) {
  const TensorMap gpt2 = gpt2_from_hugging_face(fixture("gpt2_lm"));
  EXPECT_EQ(gpt2.at("tokens.weight").shape(), (Shape{50, 32}));
  EXPECT_EQ(gpt2.at("blocks.1.attention.key.weight").shape(), (Shape{32, 32}));
  const TensorMap hub = gpt2_from_hugging_face(fixture("gpt2_hub"));
  EXPECT_EQ(hub.at("blocks.0.mlp.down.weight").shape(), (Shape{12, 48}));
  const TensorMap unet = unet_from_pytorch(fixture("unet_torch"));
  EXPECT_EQ(unet.at("decoder.0.up.weight").shape(), (Shape{8, 2, 2, 4}));
}

}  // namespace
}  // namespace binade::io
