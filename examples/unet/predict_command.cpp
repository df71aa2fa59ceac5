#include <filesystem>

#include "binade/io/data/image_data.h"
#include "binade/io/files/read_file.h"
#include "binade/io/terminal/console.h"
#include "examples/common/model_file.h"
#include "examples/unet/prediction.h"
#include "examples/unet/unet_settings.h"

namespace binade::examples {
namespace {

namespace fs = std::filesystem;

struct PredictSettings {
  ModelChoice model;
  std::string input, output;
};

struct Job {
  fs::path from, to;
};

/// Returns the pairs of input and output file: one pair, or one per PNG of an input folder (or of its images/), with
/// the same name in the output folder.
std::vector<Job> jobs_of(const PredictSettings& s) {
  check<ArgumentError>(!s.input.empty() && !s.output.empty(), "predict: wanted --input FILE|DIR and --output PATH");
  std::error_code error;
  if (!fs::is_directory(s.input, error)) return {{s.input, s.output}};
  const fs::path folder = fs::is_directory(fs::path(s.input) / "images", error) ? fs::path(s.input) / "images"
                                                                                : fs::path(s.input);
  std::vector<Job> jobs;
  for (const std::string& name : io::list_files(folder.string()))
    if (name.ends_with(".png")) jobs.push_back({folder / name, fs::path(s.output) / name});
  check<DataError>(!jobs.empty(), "predict: no .png files in {}", folder.string());
  fs::create_directories(s.output, error);
  check<StorageError>(!error, "predict: cannot make the folder {}: {}", s.output, error.message());
  return jobs;
}

/// Returns a mask as an image: binary masks as 0 and 255, class ids unchanged.
io::Image mask_image(const Tensor& ids, std::int64_t classes) {
  io::Image image{.width = ids.dim(2), .height = ids.dim(1), .channels = 1, .depth = 8, .values = {}};
  for (const std::uint8_t id : ids.to_vector<std::uint8_t>())
    image.values.push_back(classes == 1 ? (id ? 255 : 0) : id);
  return image;
}

int predict(Settings& table, PredictSettings& s) {
  table.apply_flags();
  const std::vector<Job> jobs = jobs_of(s);
  Runtime runtime(runtime_options(s.model));
  const StateDict checkpoint = read_checkpoint(s.model, "binade-unet", kUNetWeightFlags);
  const nn::init::SkipScope skip;
  UNet model(read_unet_architecture(checkpoint));
  load_weights(model, checkpoint);
  model.eval();
  const PolicyScope policy(policy_of(checkpoint));
  const int channels = static_cast<int>(model.options().in);
  for (const Job& job : jobs) {
    const Tensor image = io::to_tensor(io::read_png(job.from.string()), channels, true);
    const Tensor logits = predict_logits(model, image.reshape({1, image.dim(0), image.dim(1), channels}));
    io::write_png(job.to.string(), mask_image(classes_of(logits), model.options().classes));
    io::print(job.to.string() + "\n");
  }
  return 0;
}

void add_predict_settings(Settings& table, PredictSettings& s) {
  add_model_settings(table, s.model);
  table.add("input", &s.input, "a PNG file, or a folder of PNG files");
  table.add("output", &s.output, "file of the mask, or folder of the masks");
}

}  // namespace

Command add_predict(CLI::App& program) {
  return add_command<PredictSettings>(program, "predict", "Writes a mask for each image", add_predict_settings,
                                      predict);
}

}  // namespace binade::examples
