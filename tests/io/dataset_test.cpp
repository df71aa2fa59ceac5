#include "binade/io/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "binade/core/error.h"
#include "binade/io/data/make_loader.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Sample i is first + i; the number 13 cannot be read.
struct Numbers {
  std::int64_t count = 0;
  std::int64_t first = 0;
  std::int64_t size() const { return count; }
  std::int64_t get(std::int64_t i) const {
    if (i + first == 13) throw DataError("13.txt: cannot be read");
    return i + first;
  }
  std::string content() const { return "numbers " + std::to_string(first) + " " + std::to_string(count); }
};

template <class D>
std::vector<std::int64_t> all_of(const D& data) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < data.size(); ++i) all.push_back(get_sample(data, i, {}));
  return all;
}

TEST(Dataset, TensorsGiveRows) {
  const Tensor x = Tensor::from({{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}});
  const TensorDataset both(x, Tensor::from({7, 8, 9}));
  EXPECT_EQ(both.size(), 3);
  const auto [row, label] = both.get(1);
  EXPECT_THAT(row.to_vector<float>(), ElementsAre(3, 4));
  EXPECT_EQ(label.item(), 8);
  EXPECT_THAT(TensorDataset(x).get(2).to_vector<float>(), ElementsAre(5, 6));
  EXPECT_THROW(both.get(3), ArgumentError);
  EXPECT_THROW(TensorDataset(x, Tensor::zeros({2})), ShapeError);
  EXPECT_NE(both.content(), TensorDataset(x, Tensor::from({7, 8, 8})).content());
  EXPECT_EQ(both.content(), TensorDataset(x.clone(), Tensor::from({7, 8, 9})).content());
}

TEST(Dataset, SubsetConcatAndSplit) {
  EXPECT_THAT(all_of(Subset(Numbers{10}, {4, 2, 2})), ElementsAre(4, 2, 2));
  EXPECT_THROW(Subset(Numbers{10}, {10}), ArgumentError);
  const auto both = concat_datasets(Numbers{2}, Subset(Numbers{9}, {8}), Numbers{3, 20});
  EXPECT_THAT(all_of(both), ElementsAre(0, 1, 8, 20, 21, 22));
  EXPECT_FALSE(both.content().empty());
  EXPECT_NE(both.content(), concat_datasets(Numbers{2}, Subset(Numbers{9}, {7}), Numbers{3, 20}).content());

  const auto parts = random_split(Numbers{10}, {5, 3, 2}, 4);
  std::vector<std::int64_t> all;
  for (const auto& part : parts)
    for (const std::int64_t i : all_of(part)) all.push_back(i);
  EXPECT_EQ(parts[1].size(), 3);
  EXPECT_FALSE(std::ranges::is_sorted(all));
  std::ranges::sort(all);
  EXPECT_THAT(all, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_EQ(all_of(random_split(Numbers{10}, {5, 5}, 4)[0]), all_of(random_split(Numbers{10}, {5, 5}, 4)[0]));
  EXPECT_NE(all_of(random_split(Numbers{10}, {5, 5}, 4)[0]), all_of(random_split(Numbers{10}, {5, 5}, 5)[0]));
  EXPECT_EQ(random_split(Numbers{10}, 0.2, 1).second.size(), 2);
  EXPECT_THROW(random_split(Numbers{10}, {5, 6}, 1), ArgumentError);
  EXPECT_THROW(random_split(Numbers{10}, {-1, 11}, 1), ArgumentError);
}

TEST(Dataset, TransformsSeeTheSlot) {
  const auto noisy = transform(Numbers{5}, [](std::int64_t i, const SampleContext& c) {
    return static_cast<double>(i) + c.random().uniform(0);
  });
  const auto twice = transform(noisy,
                               [](double x, const SampleContext& c) { return std::pair(x, c.random().uniform(0)); });
  const SampleContext here{.seed = 3, .slot = 17};
  EXPECT_EQ(get_sample(twice, 2, here), get_sample(twice, 2, here));
  EXPECT_NE(get_sample(twice, 2, here), get_sample(twice, 2, SampleContext{.seed = 3, .slot = 18}));
  EXPECT_NE(get_sample(twice, 2, here), get_sample(twice, 2, SampleContext{.seed = 4, .slot = 17}));
  const auto [x, y] = get_sample(twice, 2, here);
  EXPECT_NE(x - 2, y) << "the transforms have random numbers of their own";
}

TEST(Dataset, ACacheReadsEachSampleOnce) {
  std::atomic<int> reads = 0;
  const CachedDataset kept(transform(Numbers{3}, [&](std::int64_t i) { return ++reads, i; }));
  const CachedDataset copy = kept;
  EXPECT_THAT(all_of(kept), ElementsAre(0, 1, 2));
  EXPECT_THAT(all_of(copy), ElementsAre(0, 1, 2));
  EXPECT_EQ(reads, 3);
}

TEST(Dataset, AMixtureIsReadByItsWeights) {
  const MixedDataset<std::int64_t> mixed({{Numbers{4}, 3}, {Numbers{3, 100}, 1}}, {.epoch = 8, .seed = 2});
  auto loader = make_loader(mixed, {.batch = 8});
  EXPECT_EQ(loader.batches_per_epoch(), 1);
  const std::vector<std::int64_t> first = loader.next().data.to_vector<std::int64_t>();
  EXPECT_EQ(std::ranges::count_if(first, [](std::int64_t i) { return i >= 100; }), 2);
  EXPECT_THAT(mixed.passes(2), ElementsAre(3, 4.0 / 3));
}

/// Samples 0 and 1 have the same content, as do samples 2 and 3, and so on.
struct Twins : Numbers {
  std::vector<std::int64_t> same_content(std::int64_t i) const { return {i / 2 * 2, i / 2 * 2 + 1}; }
};

TEST(Dataset, DataSetsOfDataSetsKeepTheSamplerAndTheCopies) {
  const MixedDataset<std::int64_t> mixed({{Numbers{4}, 3}, {Numbers{3, 100}, 1}}, {.epoch = 8, .seed = 2});
  EXPECT_EQ(AnyDataset<std::int64_t>(mixed).sampler(), mixed.sampler());
  EXPECT_EQ(AnyDataset<std::int64_t>(Numbers{4}).sampler(), nullptr);
  EXPECT_THAT(AnyDataset<std::int64_t>(Twins{{6}}).same_content(3), ElementsAre(2, 3));
  EXPECT_THAT(AnyDataset<std::int64_t>(Numbers{6}).same_content(3), ElementsAre(3));
  EXPECT_THAT(Subset(Twins{{6}}, {5, 2, 4, 5}).same_content(0), ElementsAre(0, 2, 3));
  EXPECT_THAT(Subset(Twins{{6}}, {5, 2, 4, 5}).same_content(1), ElementsAre(1));
  EXPECT_THAT(concat_datasets(Numbers{3}, Twins{{4}}).same_content(5), ElementsAre(5, 6));
  EXPECT_THAT(MixedDataset<std::int64_t>({{Numbers{3}, 1}, {Twins{{4}}, 1}}).same_content(4), ElementsAre(3, 4));
}

/// PyTorch would read the first four samples only.
TEST(Dataset, WeightsOfClassesInsteadOfSamplesAreRefused) {
  const auto four = std::make_shared<WeightedSampler>(WeightedSamplerOptions{.weights = {1, 1, 1, 0.2}});
  EXPECT_THAT(error_of<ArgumentError>([&] { make_loader(Numbers{1200}, {.batch = 30, .sampler = four}); }),
              HasSubstr("weights for 4 samples, but the data set has 1200"));
  EXPECT_NO_THROW(make_loader(Numbers{4}, {.batch = 2, .sampler = four}));
}

TEST(Dataset, ASamplerThatWouldHaveNoEffectIsRefused) {
  const MixedDataset<std::int64_t> mixed({{Numbers{4}, 3}, {Numbers{3, 100}, 1}}, {.seed = 2});
  EXPECT_THAT(error_of<ArgumentError>([&] {
                Subset(mixed, {0, 1});
              }),
              HasSubstr("Subset: MixedDataset has a sampler of its own"));
  EXPECT_THAT(error_of<ArgumentError>([&] { concat_datasets(Numbers{2}, mixed); }),
              HasSubstr("ConcatDataset: MixedDataset has a sampler of its own"));
}

TEST(Dataset, ACacheKeepsTheSamplerAndTheCopiesOfItsData) {
  const MixedDataset<std::int64_t> mixed({{Numbers{4}, 3}, {Numbers{3, 100}, 1}}, {.epoch = 8, .seed = 2});
  auto loader = make_loader(CachedDataset(mixed), {.batch = 8});
  EXPECT_EQ(loader.next().data.to_vector<std::int64_t>(),
            make_loader(mixed, {.batch = 8}).next().data.to_vector<std::int64_t>());
  auto twins = make_loader(CachedDataset(Twins{{6}}), {.batch = 4, .order = SampleOrder::kSequential});
  twins.quarantine(1);
  EXPECT_THAT(twins.next().data.to_vector<std::int64_t>(), ElementsAre(2, 3, 4, 5));
}

// 6 samples in batches of 4: the second batch has two samples of epoch 0 and two of epoch 1.
TEST(Dataset, ASampleIsToldItsOwnEpoch) {
  const auto epochs = transform(Numbers{6}, [](std::int64_t, const SampleContext& c) { return c.epoch; });
  auto loader = make_loader(epochs, {.batch = 4});
  EXPECT_THAT(loader.next().data.to_vector<std::int64_t>(), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(loader.next().data.to_vector<std::int64_t>(), ElementsAre(0, 0, 1, 1));
  auto half = make_loader(epochs, {.batch = 2, .sampler = std::make_shared<SequentialSampler>(3)});
  half.next();
  EXPECT_THAT(half.next().data.to_vector<std::int64_t>(), ElementsAre(0, 1));
}

TEST(Dataset, AnErrorNamesDataSetSampleAndSlot) {
  for (const int workers : {1, 3}) {
    auto loader = make_loader(concat_datasets(Numbers{10}, Numbers{10, 10}),
                              {.batch = 2, .order = SampleOrder::kSequential, .workers = workers});
    for (int i = 0; i < 6; ++i) loader.next();
    EXPECT_EQ(error_of<DataError>([&] { loader.next(); }),
              "ConcatDataset, sample 13 (slot 13, epoch 0): Numbers, sample 3: 13.txt: cannot be read");
  }
}

TEST(Dataset, ForeignExceptionsAreNested) {
  auto loader = make_loader(transform(Numbers{3},
                                      [](std::int64_t i) -> std::int64_t {
                                        if (i == 1) throw std::out_of_range("of mine");
                                        return i;
                                      }),
                            {.batch = 3, .order = SampleOrder::kSequential});
  try {
    loader.next();
    FAIL();
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "Numbers, sample 1 (slot 1, epoch 0): of mine");
    EXPECT_THROW(std::rethrow_if_nested(error), std::out_of_range);
  }
}

// ---- collation
// -------------------------------------------------------------------------------------------------------

struct Pair {
  Tensor a{}, b{};
};
struct Photo {
  Tensor pixels{};
  std::int64_t label = 0;
  std::string file{};
  Sequence words{};
  struct Batch {
    Tensor pixels{}, labels{};
    std::vector<std::string> files{};
    PaddedSequences words{};
  };
};

TEST(Collate, StacksTensorsNumbersTextsAndTuples) {
  const Tensor x = collate(std::vector{Tensor::from({1.f, 2.f}), Tensor::from({3.f, 4.f})});
  EXPECT_EQ(x.shape(), (Shape{2, 2}));
  EXPECT_THAT(x.to_vector<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(collate(std::vector{1.5, 2.5}).dtype(), DType::f64);
  EXPECT_EQ(collate(std::vector{true, false}).dtype(), DType::boolean);
  EXPECT_EQ(collate(std::vector<std::int64_t>{1, 2}).dtype(), DType::i64);
  EXPECT_EQ(collate(std::vector<std::int8_t>{-1, 2}).at(0), -1);
  EXPECT_EQ(collate(std::vector<std::uint32_t>{4000000000u}).at(0), 4e9);
  const auto [a, b,
              c] = collate(std::vector{std::tuple(1.0f, std::string("p"), 3), std::tuple(2.0f, std::string(), 4)});
  EXPECT_THAT(a.to_vector<float>(), ElementsAre(1, 2));
  EXPECT_THAT(b, ElementsAre("p", ""));
  EXPECT_EQ(c.dtype(), DType::i32);
  const Pair both = collate(
      std::vector{Pair{Tensor::scalar(1), Tensor::zeros({0})}, Pair{Tensor::scalar(2), Tensor::zeros({0})}});
  EXPECT_EQ(both.a.shape(), Shape{2});
  EXPECT_EQ(both.b.shape(), (Shape{2, 0}));
}

TEST(Collate, PadsSequences) {
  const auto padded = collate(std::vector{Sequence{Tensor::from({1, 2, 3}), -1},
                                          Sequence{Tensor::zeros({0}, DType::i32)}, Sequence{Tensor::from({4})}});
  EXPECT_THAT(padded.values.to_vector<std::int32_t>(), ElementsAre(1, 2, 3, -1, -1, -1, 4, -1, -1));
  EXPECT_THAT(padded.mask.to_vector<std::int32_t>(), ElementsAre(1, 1, 1, 0, 0, 0, 1, 0, 0));
  EXPECT_THAT(padded.lengths.to_vector<std::int64_t>(), ElementsAre(3, 0, 1));
  const auto rows = pad_rows({Tensor::from({{1.f, 2.f}}), Tensor::from({{3.f, 4.f}, {5.f, 6.f}})});
  EXPECT_EQ(rows.values.shape(), (Shape{2, 2, 2}));
  EXPECT_THAT(rows.values.to_vector<float>(), ElementsAre(1, 2, 0, 0, 3, 4, 5, 6));
}

TEST(Collate, NamesTheSampleThatDoesNotFit) {
  EXPECT_THAT(error_of<ShapeError>([] {
                collate(std::vector{Tensor::zeros({2}), Tensor::zeros({2}), Tensor::zeros({3})});
              }),
              HasSubstr("got (2) for sample 0 of the batch and (3) for sample 2"));
  EXPECT_THROW(collate(std::vector{Tensor::zeros({2}), Tensor::zeros({2}, DType::i32)}), DTypeError);
  EXPECT_THROW(collate(std::vector{Tensor::zeros({2}), Tensor()}), ArgumentError);
  EXPECT_THROW(pad_rows({Tensor::zeros({2, 3}), Tensor::zeros({2, 4})}), ShapeError);
  EXPECT_THROW(pad_rows({Tensor::scalar(1)}), ShapeError);
  EXPECT_THROW(collate(std::vector<Tensor>{}), ArgumentError);
}

DataBatch<Photo::Batch> photos() {
  std::vector<Photo> all;
  for (int i = 0; i < 4; ++i)
    all.push_back({Tensor::full({2, 2}, i), 10 * i, std::to_string(i) + ".png", {Tensor::full({i}, i, DType::i32)}});
  return {collate(all), {.begin = 8, .end = 12, .epoch = 1, .samples = {3, 2, 1, 0}, .slots = {8, 9, 10, 11}}};
}

TEST(DataBatch, RowsCanBeTakenAndLeftOut) {
  const auto batch = photos();
  EXPECT_EQ(batch.size(), 4);
  const std::int64_t rows[] = {0, 2};
  const auto rest = batch.without(rows);
  EXPECT_THAT(rest->labels.to_vector<std::int64_t>(), ElementsAre(10, 30));
  EXPECT_THAT(rest->files, ElementsAre("1.png", "3.png"));
  EXPECT_THAT(rest->words.lengths.to_vector<std::int64_t>(), ElementsAre(1, 3));
  EXPECT_THAT(rest.origin.samples, ElementsAre(2, 0));
  const auto part = batch.rows(1, 2);
  EXPECT_THAT(part->files, ElementsAre("1.png", "2.png"));
  EXPECT_THAT(part.origin.slots, ElementsAre(9, 10));
  EXPECT_THROW(batch.rows(3, 2), ArgumentError);
}

TEST(DataBatch, ABatchTypeOfOnesOwnMayHaveAMemberData) {
  struct Own {
    Tensor data{};
    BatchOrigin origin{};
  };
  auto loader = make_loader(Numbers{3}, {.batch = 3, .order = SampleOrder::kSequential},
                            [](std::vector<std::int64_t> samples) {
                              return Own{collate(std::move(samples)), {}};
                            });
  const Own batch = loader.next();
  EXPECT_THAT(batch.data.to_vector<std::int64_t>(), ElementsAre(0, 1, 2));
  EXPECT_THAT(batch.origin.samples, ElementsAre(0, 1, 2));
}

TEST(DataBatch, IsStoredAndRead) {
  const auto batch = photos();
  const auto again = DataBatch<Photo::Batch>::from_state(batch.state());
  EXPECT_EQ(again->files, batch->files);
  EXPECT_EQ(again->words.mask.to_vector<std::int32_t>(), batch->words.mask.to_vector<std::int32_t>());
  EXPECT_EQ(again.origin.samples, batch.origin.samples);
  // Untrusted states: a missing entry, too few rows, texts shorter than their lengths.
  const StateDict whole = batch.state();
  const auto with = [&](const std::string& name, const StateDict::Value* value) {
    StateDict other;
    for (const auto& [key, kept] : whole.values())
      if (key != name) other.put(key, kept);
    if (value) other.put(name, *value);
    return error_of<CheckpointError>([&] { DataBatch<Photo::Batch>::from_state(other); });
  };
  EXPECT_THAT(with("data/1", nullptr), HasSubstr("data/1"));
  const StateDict::Value three = Tensor::zeros({3}), scalar = Tensor::scalar(1),
                         lengths = StateDict::Integers{5, 5, 5, 500};
  EXPECT_THAT(with("data/1", &three), HasSubstr("wanted 4 rows in 'data/1'"));
  EXPECT_THAT(with("data/1", &scalar), HasSubstr("wanted 4 rows in 'data/1'"));
  EXPECT_THAT(with("data/2/lengths", &lengths), HasSubstr("shorter"));
}

}  // namespace
}  // namespace binade::io
