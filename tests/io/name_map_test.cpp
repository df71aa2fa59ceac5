#include "binade/io/exchange/name_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "binade/core/error.h"
#include "binade/io/exchange/name_pattern.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor counted(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  std::iota(values.begin(), values.end(), 0.0f);
  return Tensor::from(values, shape);
}

std::vector<float> values(const Tensor& t) { return t.to_vector<float>(); }

Layout layout(const char* step) { return {layout_step(step)}; }

TEST(Layouts, StepsMoveElementsAndAreUndone) {
  EXPECT_THAT(values(to_ours(counted({2, 3}), layout("transpose"))), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_EQ(to_ours(counted({2, 3, 4, 5}), layout("filter")).shape(), (Shape{2, 4, 5, 3}));
  EXPECT_THAT(values(to_ours(counted({1, 2, 3}), layout("filter"))), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_EQ(to_ours(counted({2, 3}), layout("filter")).shape(), (Shape{2, 3}));
  EXPECT_EQ(to_ours(counted({2, 3, 4}), layout("permute=2,0,1")).shape(), (Shape{4, 2, 3}));
  // Two channels of three positions: column c 3 + p becomes p 2 + c.
  EXPECT_THAT(values(to_ours(counted({1, 6}), layout("flattened=2"))), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(values(to_ours(counted({4}), layout("blocks=1,0,3,2"))), ElementsAre(1, 0, 3, 2));
  EXPECT_THAT(values(to_ours(counted({6}), layout("blocks=2,0,1"))), ElementsAre(4, 5, 0, 1, 2, 3));
  for (const char* step : {"transpose", "filter", "permute=1,0", "flattened=3", "blocks=1,2,0", "blocks=2,0,1"}) {
    const Tensor t = counted({6, 9});
    EXPECT_EQ(values(to_theirs(to_ours(t, layout(step)), layout(step))), values(t)) << step;
  }
  for (const char* step : {"filter", "permute=2,0,1,3", "flattened=5"}) {
    const Tensor t = counted({2, 3, 4, 5});
    const Tensor back = to_theirs(to_ours(t, layout(step)), layout(step));
    EXPECT_EQ(back.shape(), t.shape());
    EXPECT_EQ(values(back), values(t)) << step;
  }
  EXPECT_EQ(to_ours(Tensor::empty({0, 3, 2}), layout("filter")).shape(), (Shape{0, 2, 3}));
}

TEST(Layouts, StepsThatDoNotFitAreRefused) {
  EXPECT_THROW(to_ours(counted({2, 3, 4}), layout("transpose")), ShapeError);
  EXPECT_THROW(to_ours(counted({2, 3}), layout("permute=0,1,2")), ShapeError);
  EXPECT_THROW(to_ours(counted({2, 3}), layout("flattened=2")), ShapeError);
  EXPECT_THROW(to_ours(counted({3, 2}), layout("blocks=1,0")), ShapeError);
  for (const char* text :
       {"permute", "permute=", "permute=0,0", "permute=0,2", "flattened=0", "flattened=-1", "blocks=1", "transpose=1",
        "permute=0;1", "permute=0,1,", "turn", "permute=0,1,2,3,4,5,6,7,8"})
    EXPECT_THROW(layout_step(text), ArgumentError) << text;
}

TEST(NamePatterns, CapturesMatchPartsOfNames) {
  NamePattern::Captures c;
  EXPECT_TRUE(NamePattern("h.{1}.ln.{2}", false).match("h.12.ln.weight", c));
  EXPECT_EQ(c[1] + c[2], "12weight");
  EXPECT_FALSE(NamePattern("h.{1}", false).match("h.1.x", c));
  EXPECT_FALSE(NamePattern("h.{1}", false).match("h.", c));
  EXPECT_TRUE(NamePattern("{*}.weight", false).match("a.b.c.weight", c));
  EXPECT_EQ(c[0], "a.b.c");
  EXPECT_TRUE(NamePattern("{*}weight", false).match("weight", c));
  EXPECT_TRUE(NamePattern("layer{1}.{2}_{1}", false).match("layer3.conv_3", c));
  EXPECT_FALSE(NamePattern("layer{1}.{2}_{1}", false).match("layer3.conv_4", c));
  EXPECT_EQ(NamePattern("b{1}.{*}", false).fill({"rest", "7"}), "b7.rest");
  EXPECT_TRUE(NamePattern("a{1}", true).match("a{1}", c));
  for (const char* text : {"a{", "a}", "{0}", "{x}", "{12}", "{*}.{*}", "{}"})
    EXPECT_THROW(NamePattern(text, false), ArgumentError) << text;
}

TEST(NameMaps, ATextOfRulesConvertsBothWays) {
  const NameMap map = NameMap::parse(R"(
# a comment
prefix model.
emb.weight        -> tokens.weight   # another
h.{1}.ln.{2}      -> blocks.{1}.norm.{2} : optional
h.{1}.qkv         -> blocks.{1}.q + blocks.{1}.k : transpose sizes=2:1
h.{1}.mask        -> -
-                 -> extra
a + b             -> joined : axis=1 sizes=1:2
)",
                                     "rules");
  TensorMap theirs{{"model.emb.weight", counted({2, 2})},
                   {"h.0.ln.bias", counted({3})},
                   {"h.0.qkv", counted({2, 3})},
                   {"h.0.mask", counted({1})},
                   {"a", counted({2, 1})},
                   {"b", counted({2, 2})}};
  const MappedTensors ours = map.from_theirs(theirs);
  ours.check("test", "");
  EXPECT_EQ(ours.tensors.size(), 5u);
  EXPECT_THAT(values(ours.tensors.at("blocks.0.q")), ElementsAre(0, 3, 1, 4));
  EXPECT_THAT(values(ours.tensors.at("blocks.0.k")), ElementsAre(2, 5));
  EXPECT_THAT(values(ours.tensors.at("joined")), ElementsAre(0, 0, 1, 1, 2, 3));
  TensorMap given = ours.tensors;
  given.emplace("extra", counted({1}));
  MappedTensors back = map.to_theirs(given);
  back.check("test", "");
  EXPECT_THAT(values(back.tensors.at("b")), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(values(back.tensors.at("h.0.qkv")), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_TRUE(back.tensors.contains("emb.weight"));
  EXPECT_FALSE(back.tensors.contains("extra"));
}

TEST(NameMaps, EveryProblemIsListedAtOnce) {
  const NameMap map = NameMap::parse("a -> x\nb.{1}.w -> y.{1}.w\nb.{1}.v -> y.{1}.v : transpose\nq + r -> z\n",
                                     "rules");
  const MappedTensors got = map.from_theirs(
      {{"b.3.w", counted({2})}, {"b.4.v", counted({2})}, {"q", counted({1})}, {"c", counted({1})}});
  EXPECT_THAT(got.missing, ElementsAre("r (which belongs to q)", "a", "b.4.w", "b.3.v"));
  EXPECT_THAT(got.unexpected, ElementsAre("c"));
  EXPECT_THAT(got.different, ElementsAre(HasSubstr("b.4.v (transpose: wanted a matrix")));
  const std::string error = error_of<DataError>([&] { got.check("FILE", "do this"); });
  for (const char* word : {"FILE: missing: r", "unexpected: c", "different: b.4.v", "do this"})
    EXPECT_THAT(error, HasSubstr(word));
  EXPECT_THAT(error_of<DataError>([&] { got.check("FILE", "do this", false); }), Not(HasSubstr("missing")));
}

TEST(NameMaps, AModelSaysWhatIsMissingAndWhichShapesItWants) {
  NameMap map = NameMap::parse("a -> x\n- -> own\nw -> y : optional\n", "rules");
  map.set_layout("x", layout("filter"));
  const TensorMap wanted{{"x", Tensor::zeros({1, 3, 2})},
                         {"own", Tensor::zeros({1})},
                         {"y", Tensor::zeros({1})},
                         {"z", Tensor::zeros({1})}};
  MappedTensors got = map.from_theirs({{"a", counted({1, 2, 3}).to(DType::f64)}, {"other", counted({1})}}, &wanted);
  EXPECT_THAT(got.missing, ElementsAre("z"));
  EXPECT_THAT(got.unexpected, ElementsAre("other"));
  EXPECT_TRUE(got.different.empty());
  EXPECT_EQ(got.tensors.at("x").dtype(), DType::f32);
  EXPECT_THAT(values(got.tensors.at("x")), ElementsAre(0, 3, 1, 4, 2, 5));
  got = map.from_theirs({{"a", counted({1, 3, 2})}}, &wanted);
  EXPECT_THAT(got.different, ElementsAre("x (wanted f32 (1, 3, 2), got f32 (1, 2, 3))"));
  EXPECT_EQ(map.theirs_of("x"), "a");
  Tensor huge = Tensor::full({1, 2, 3}, 1e300, DType::f64);
  EXPECT_THAT(map.from_theirs({{"a", huge}}, &wanted).different, ElementsAre(HasSubstr("beyond the range of f32")));
}

TEST(NameMaps, TiedNamesAreComparedAndWrittenAgain) {
  const NameMap map = NameMap::parse("tokens -> t\nhead -> t : tied\n", "rules");
  MappedTensors both = map.from_theirs({{"tokens", counted({2})}, {"head", counted({2})}});
  both.check("test", "");
  EXPECT_EQ(both.tensors.size(), 1u);
  EXPECT_EQ(map.to_theirs(both.tensors).tensors.size(), 2u);
  EXPECT_THAT(map.from_theirs({{"tokens", counted({2})}, {"head", Tensor::zeros({2})}}).different,
              ElementsAre(HasSubstr("is the same tensor, and they differ")));
  const NameMap twice = NameMap::parse("a -> t : optional\nb -> t : optional\n", "rules");
  EXPECT_EQ(twice.from_theirs({{"a", counted({2})}, {"b", counted({2})}}).different.size(), 1u);
}

TEST(NameMaps, WithoutAModelFiltersAndAttentionsFollowFromNames) {
  TensorMap theirs{{"c.weight", counted({2, 3, 4, 5})},    {"pos", counted({1, 2, 3})},
                   {"a.in_proj_weight", counted({6, 2})},  {"a.in_proj_bias", counted({6})},
                   {"a.out_proj.weight", counted({2, 2})}, {"a.out_proj.bias", counted({2})},
                   {"b.out_proj.weight", counted({2, 2})}, {"m.q_proj_weight", counted({2, 2})},
                   {"m.k_proj_weight", counted({2, 3})},   {"m.v_proj_weight", counted({2, 4})},
                   {"m.in_proj_bias", counted({6})},       {"m.out_proj.weight", counted({2, 2})},
                   {"m.out_proj.bias", counted({2})}};
  const MappedTensors ours = names_without_model(theirs).from_theirs(theirs);
  ours.check("test", "");
  EXPECT_EQ(ours.tensors.at("c.weight").shape(), (Shape{2, 4, 5, 3}));
  EXPECT_EQ(ours.tensors.at("pos").shape(), (Shape{1, 2, 3}));
  EXPECT_THAT(values(ours.tensors.at("a.key.weight")), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(values(ours.tensors.at("m.value.bias")), ElementsAre(4, 5));
  EXPECT_EQ(ours.tensors.at("m.key.weight").shape(), (Shape{2, 3}));
  EXPECT_TRUE(ours.tensors.contains("b.out_proj.weight"));
  const MappedTensors back = names_without_model(ours.tensors).to_theirs(ours.tensors);
  back.check("test", "");
  ASSERT_EQ(back.tensors.size(), theirs.size());
  for (const auto& [name, tensor] : theirs) EXPECT_EQ(values(back.tensors.at(name)), values(tensor)) << name;
}

TEST(NameMaps, WrongRulesAreRefusedWithTheirLine) {
  const struct {
    const char* line;
    const char* wanted;
  } cases[] = {{"a b", "no \"->\""},
               {"a ->", "both sides"},
               {"-> a", "both sides"},
               {"- -> -", "one side"},
               {"a + b -> c + d", "one name on one of the two sides"},
               {"a.{1} -> b", "same captures"},
               {"a.{1} -> b.{2}", "same captures"},
               {"a b -> c", "+ between"},
               {"a + -> c", "+ between"},
               {"a -> b : turn", "turn: wanted transpose"},
               {"a -> b : axis=9", "axis=9"},
               {"a -> b + c : sizes=1", "wanted 2 sizes"},
               {"a -> b + c : sizes=1:0", "wanted numbers from 1"},
               {"a -> b : as-is filter", "exclude"},
               {"a.{x} -> b", "in braces"},
               {"prefix", "wanted one text"}};
  for (const auto& c : cases) {
    const std::string error = error_of<ArgumentError>(
        [&] { NameMap::parse(std::string("x -> y\n") + c.line, "names.txt"); });
    EXPECT_THAT(error, HasSubstr("names.txt: line 2: ")) << c.line;
    EXPECT_THAT(error, HasSubstr(c.wanted)) << c.line;
  }
  const ScratchFolder folder;
  EXPECT_THAT(error_of<DataError>([&] { NameMap::read(folder.path("none.txt")); }), HasSubstr("none.txt"));
}

}  // namespace
}  // namespace binade::io
