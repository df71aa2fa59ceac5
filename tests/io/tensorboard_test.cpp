#include "binade/io/records/tensorboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "binade/core/error.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

using ::testing::HasSubstr;

/// The result of a script run by the Python with the packages of tests/readers.txt.
struct PythonRun {
  int status = -1;
  std::string output;
};

std::string reader_python() {
  const char* named = std::getenv("BINADE_PYTHON");
  return named != nullptr ? named : ".venv/bin/python";
}

PythonRun run_python(const ScratchFolder& folder, const std::string& script, const std::string& argument) {
  const std::string path = folder.write("script.py", script);
  PythonRun run;
  const std::string command = "'" + reader_python() + "' '" + path + "' '" + argument + "' > '" + folder.path("out") +
                              "' 2> '" + folder.path("err") + "'";
  run.status = std::system(command.c_str());
  run.output = folder.read("out");
  if (run.status != 0) run.output += folder.read("err");
  return run;
}

TEST(TensorBoard, TensorBoardReadsEverythingBack) {
  const ScratchFolder folder;
  ASSERT_EQ(run_python(folder, "import tensorboard", "").status, 0)
      << reader_python() << " (BINADE_PYTHON) cannot import tensorboard; run ./dev setup";
  std::filesystem::create_directory(folder.path("run"));
  {
    TensorBoardWriter first(FilesBelow(folder.path("run")));
    for (int step = 1; step <= 5; ++step) first.scalar("loss", step, 1.0f / static_cast<float>(step));
    first.scalar("loss", 6, 99);  // replaced by the resume below
    first.scalar("bad", 1, std::numeric_limits<float>::quiet_NaN());
  }
  {
    TensorBoardWriter second(FilesBelow(folder.path("run")), 6);
    second.scalar("loss", 6, 0.125f);
    second.image("mask", 6, {2, 1, 3, 8, {255, 0, 0, 1, 2, 3}});
    second.text("sample", 6, "To be\nor not");
  }
  const PythonRun run = run_python(folder, R"(
import sys, json, glob, os
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing import event_file_loader
events = EventAccumulator(sys.argv[1], size_guidance={'images': 0, 'scalars': 0, 'tensors': 0})
events.Reload()
loss = [(s.step, s.value) for s in events.Scalars('loss')]
image = events.Images('mask')[0]
text = events.Tensors('sample')[0].tensor_proto.string_val[0].decode()
raw = sum(1 for f in glob.glob(os.path.join(sys.argv[1], 'events*')) for _ in event_file_loader.EventFileLoader(f).Load())
print(json.dumps(dict(loss=loss, bad=repr(events.Scalars('bad')[0].value), width=image.width, height=image.height,
    png=image.encoded_image_string.hex(), step=image.step, text=text, raw=raw)))
)",
                                   folder.path("run"));
  ASSERT_EQ(run.status, 0) << run.output;
  const auto read = nlohmann::json::parse(run.output);
  ASSERT_EQ(read["loss"].size(), 6u);
  for (int step = 1; step <= 5; ++step) {
    EXPECT_EQ(read["loss"][step - 1][0], step);
    EXPECT_EQ(read["loss"][step - 1][1].get<float>(), 1.0f / static_cast<float>(step));
  }
  EXPECT_EQ(read["loss"][5][1].get<float>(), 0.125f);  // the resumed value, not 99
  EXPECT_EQ(read["bad"], "nan");
  EXPECT_EQ(read["width"], 2);
  EXPECT_EQ(read["height"], 1);
  EXPECT_EQ(read["step"], 6);
  EXPECT_EQ(read["text"], "To be\nor not");
  EXPECT_EQ(read["raw"], 13);  // 2 versions, 1 session start, 7 + 3 values
  std::string png;
  const std::string hex = read["png"];
  for (std::size_t i = 0; i < hex.size(); i += 2)
    png.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  EXPECT_EQ(decode_png(png, "mask").values, (std::vector<std::uint16_t>{255, 0, 0, 1, 2, 3}));
}

TEST(TensorBoard, FramesOneRecordAsTfRecordPrescribes) {
  // The bytes of the first record: length 24 (a double and "brain.Event:2") and the masked CRC-32C of the length, as at
  // the start of every event file of TensorFlow.
  const ScratchFolder folder;
  std::string path;
  {
    const TensorBoardWriter writer((FilesBelow(folder.path())));
    path = writer.path();
  }
  const std::string bytes = folder.read(std::filesystem::path(path).filename().string());
  ASSERT_EQ(bytes.size(), 8u + 4 + 24 + 4);
  EXPECT_EQ(bytes.substr(0, 12), std::string("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12));
  EXPECT_EQ(bytes[12], '\x09');  // field 1, eight bytes: wall_time
  EXPECT_EQ(bytes.substr(21, 15),
            "\x1a\x0d"
            "brain.Event:2");
}

TEST(TensorBoard, AnUnwritableFolderIsAStorageError) {
  EXPECT_THAT(error_of<StorageError>([] { TensorBoardWriter writer(FilesBelow("/no/such/folder")); }),
              HasSubstr("/no/such/folder"));
}

}  // namespace
}  // namespace binade::io
