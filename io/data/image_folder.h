#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "binade/core/tensor.h"
#include "binade/io/data/dataset.h"

namespace binade::io {

/// An image and its class.
struct LabeledImage {
  Tensor image{};          ///< (H, W, C) f32
  std::int64_t label = 0;  ///< number of the class
  struct Batch {
    Tensor images{};  ///< (N, H, W, C) f32
    Tensor labels{};  ///< (N) i64
  };
};

/// Settings of an ImageFolder.
struct ImageFolderOptions {
  int channels = 3;  ///< 3: RGB; 1: grey
};

/// Images in one subfolder per class: `folder`/CLASS/NAME.png, .jpg or .jpeg; subfolders of classes are searched, too.
/// Classes are numbered in ascending order of name, samples in ascending order of class and path. Names that begin with
/// '.' and files with other endings are left out. Images are read by get(), with values in 0 … 1.
class ImageFolder {
 public:
  /// Throws DataError if the folder cannot be read or has no subfolder, for a class without images, and for an image in
  /// a format that is not read here.
  explicit ImageFolder(const std::string& folder, const ImageFolderOptions& options = {});

  std::int64_t size() const { return std::ssize(files_); }
  /// Throws DataError with the path if the image cannot be read.
  LabeledImage get(std::int64_t index) const;
  std::string name() const;
  /// Returns the hash of the names and sizes of all files. Their bytes are not read.
  std::string content() const { return content_; }

  const std::vector<std::string>& classes() const { return classes_; }
  /// Returns the path of a sample, below the folder.
  const std::string& file(std::int64_t index) const;
  std::int64_t label(std::int64_t index) const;
  /// Reads all images. Returns the errors of those that cannot be read, with their paths.
  std::vector<std::string> unreadable() const;

 private:
  std::string folder_;
  ImageFolderOptions options_;
  std::vector<std::string> classes_;
  std::vector<std::string> files_;  // "cat/1.png"
  std::vector<std::int64_t> labels_;
  std::string content_;
};

}  // namespace binade::io
