#include "binade/io/data/image_folder.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

#include "binade/core/error.h"
#include "binade/io/data/jpeg.h"

namespace binade::io {
namespace {

namespace fs = std::filesystem;

std::string ending(const fs::path& path) {
  std::string ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending;
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

/// Returns the paths of the images below a folder, relative to `root`, with their sizes, ascending.
std::vector<std::pair<std::string, std::uint64_t>> images_below(const fs::path& folder, const fs::path& root) {
  static const std::set<std::string> kOthers{".tif", ".tiff", ".bmp",  ".gif", ".webp",
                                             ".ppm", ".pgm",  ".avif", ".heic"};
  std::vector<std::pair<std::string, std::uint64_t>> images;
  fs::recursive_directory_iterator it(folder, fs::directory_options::follow_directory_symlink);
  constexpr int kDeepest = 32;  // a link to a parent folder would never end
  for (; it != fs::recursive_directory_iterator(); ++it) {
    const fs::path& path = it->path();
    check<DataError>(it.depth() < kDeepest, "{}: more than {} folders deep; does a link lead back?", path.string(),
                     kDeepest);
    if (is_hidden(path)) {
      it.disable_recursion_pending();
      continue;
    }
    if (it->is_directory()) continue;
    const std::string kind = ending(path);
    check<DataError>(!kOthers.contains(kind), "{}: wanted PNG or JPEG images, got a {} file; convert it", path.string(),
                     kind);
    if (kind != ".png" && kind != ".jpg" && kind != ".jpeg") continue;
    check<DataError>(it->is_regular_file(), "{}: wanted an image, got something that is no file", path.string());
    images.emplace_back(path.lexically_relative(root).generic_string(), it->file_size());
  }
  std::ranges::sort(images);
  return images;
}

}  // namespace

ImageFolder::ImageFolder(const std::string& folder, const ImageFolderOptions& options)
    : folder_(folder), options_(options) {
  check<ArgumentError>(options.channels == 1 || options.channels == 3, "ImageFolder: wanted 1 or 3 channels, got {}",
                       options.channels);
  std::vector<std::string> entries;
  try {
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.is_directory() && !is_hidden(entry.path())) classes_.push_back(entry.path().filename().string());
    check<DataError>(!classes_.empty(), "{}: wanted a subfolder for each class, got none", folder);
    std::ranges::sort(classes_);
    for (std::size_t label = 0; label < classes_.size(); ++label) {
      const auto images = images_below(fs::path(folder) / classes_[label], folder);
      check<DataError>(!images.empty(), "{}/{}: wanted PNG or JPEG images of the class, got none", folder,
                       classes_[label]);
      for (const auto& [file, bytes] : images) {
        files_.push_back(file);
        labels_.push_back(static_cast<std::int64_t>(label));
        entries.push_back(file + " " + std::to_string(bytes));
      }
    }
  } catch (const fs::filesystem_error& error) {
    throw DataError(fmt::format("{}: {}", folder, error.code().message()));
  }
  content_ = detail::content_of_texts(entries);
}

LabeledImage ImageFolder::get(std::int64_t index) const {
  const fs::path path = fs::path(folder_) / file(index);
  return {to_pixels(read_image(path.string()), options_.channels), label(index)};
}

std::string ImageFolder::name() const { return "ImageFolder " + folder_; }

const std::string& ImageFolder::file(std::int64_t index) const {
  detail::check_index(name(), index, size());
  return files_[static_cast<std::size_t>(index)];
}

std::int64_t ImageFolder::label(std::int64_t index) const {
  detail::check_index(name(), index, size());
  return labels_[static_cast<std::size_t>(index)];
}

std::vector<std::string> ImageFolder::unreadable() const {
  std::vector<std::string> errors;
  for (std::int64_t i = 0; i < size(); ++i) {
    try {
      get(i);
    } catch (const DataError& error) {
      errors.emplace_back(error.what());
    }
  }
  return errors;
}

}  // namespace binade::io
