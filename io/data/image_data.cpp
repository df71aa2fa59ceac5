#include "binade/io/data/image_data.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "binade/core/error.h"
#include "binade/core/sha256.h"
#include "binade/io/files/read_file.h"

namespace binade::io {
namespace {

namespace fs = std::filesystem;

std::string lower_extension(const std::string& name) {
  std::string extension = fs::path(name).extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return extension;
}

/// Returns the names of the PNG files in a folder. Throws DataError for an image in another format; ignores other
/// files.
std::vector<std::string> list_pngs(const std::string& folder) {
  static const std::set<std::string> kUnsupported{".jpg", ".jpeg", ".tif", ".tiff", ".bmp",
                                                  ".gif", ".webp", ".pgm", ".ppm"};
  std::vector<std::string> names;
  for (const std::string& name : list_files(folder)) {
    const std::string extension = lower_extension(name);
    check<DataError>(!kUnsupported.contains(extension), "{}/{}: wanted PNG images, got a {} file; convert it", folder,
                     name, extension);
    if (extension == ".png") names.push_back(name);
  }
  return names;
}

void hash_tensor(Sha256& hash, const Tensor& tensor) {
  const std::string shape = tensor.shape().to_string();
  hash.update(shape.data(), shape.size());
  hash.update(tensor.raw(), tensor.bytes());
}

bool is_colored(const Image& image) { return image.channels >= 3; }

/// Returns the grey value of a pixel; for a color its luma (ITU-R BT.601).
float grey(const std::uint16_t* pixel, int channels) {
  if (channels < 3 || (pixel[0] == pixel[1] && pixel[1] == pixel[2])) return pixel[0];
  return 0.299f * pixel[0] + 0.587f * pixel[1] + 0.114f * pixel[2];
}

/// Stacks images of one size and their masks into a batch.
ImageBatch stack(const std::vector<ImagePair>& pairs) {
  const auto count = static_cast<std::int64_t>(pairs.size());
  const std::int64_t height = pairs[0].image.dim(0);
  const std::int64_t width = pairs[0].image.dim(1);
  const std::int64_t channels = pairs[0].image.dim(2);
  ImageBatch batch;
  batch.images = Tensor::empty({count, height, width, channels});
  batch.masks = Tensor::empty({count, height, width}, DType::u8);
  for (std::int64_t n = 0; n < count; ++n) {
    const ImagePair& pair = pairs[static_cast<std::size_t>(n)];
    std::copy_n(pair.image.data<float>(), pair.image.numel(),
                batch.images.mutable_data<float>() + n * pair.image.numel());
    std::copy_n(pair.mask.data<std::uint8_t>(), pair.mask.numel(),
                batch.masks.mutable_data<std::uint8_t>() + n * pair.mask.numel());
  }
  return batch;
}

}  // namespace

void normalize(Tensor& image) {
  float* values = image.mutable_data<float>();
  const std::int64_t count = image.numel();
  double mean = 0;
  for (std::int64_t i = 0; i < count; ++i) mean += values[i];
  mean /= static_cast<double>(count);
  double variance = 0;
  for (std::int64_t i = 0; i < count; ++i) variance += (values[i] - mean) * (values[i] - mean);
  const double deviation = std::sqrt(variance / static_cast<double>(count));
  const bool constant = !(deviation > 1e-12 * std::max(1.0, std::abs(mean)));
  for (std::int64_t i = 0; i < count; ++i)
    values[i] = constant ? 0.0f : static_cast<float>((values[i] - mean) / deviation);
}

Tensor to_tensor(const Image& image, int channels, bool normalized) {
  check<ArgumentError>(channels == 1 || channels == 3, "image: wanted 1 or 3 channels, got {}", channels);
  Tensor tensor = Tensor::empty({image.height, image.width, channels});
  float* to = tensor.mutable_data<float>();
  const auto scale = static_cast<float>(image.max_value());
  for (std::int64_t i = 0; i < image.height * image.width; ++i) {
    const std::uint16_t* pixel = image.values.data() + i * image.channels;
    if (channels == 1)
      to[i] = grey(pixel, image.channels) / scale;
    else
      for (int c = 0; c < 3; ++c) to[3 * i + c] = static_cast<float>(pixel[is_colored(image) ? c : 0]) / scale;
  }
  if (normalized) normalize(tensor);
  return tensor;
}

std::string content_of(const ImagePair& pair) {
  Sha256 hash;
  hash.update(pair.image.raw(), pair.image.bytes());
  hash.update(pair.mask.raw(), pair.mask.bytes());
  return to_hex(hash.digest());
}

Image read_mask_png(const std::string& path, int classes) {
  const std::string bytes = read_png_bytes(path);
  const Image indexed = decode_png(bytes, path, {.palette_as_index = true});
  // The label of a binary mask is the color in the palette (black or white) or, in a 1-bit file, the bit itself.
  return classes > 1 || indexed.depth == 1 ? indexed : decode_png(bytes, path);
}

Tensor to_mask(const Image& image, int classes, const std::string& name) {
  Tensor mask = Tensor::empty({image.height, image.width}, DType::u8);
  auto* to = mask.mutable_data<std::uint8_t>();
  for (std::int64_t i = 0; i < image.height * image.width; ++i) {
    const std::uint16_t* pixel = image.values.data() + i * image.channels;
    if (classes == 1) {
      to[i] = grey(pixel, image.channels) * 255 / static_cast<float>(image.max_value()) > 127;
      continue;
    }
    check<DataError>(!is_colored(image) || (pixel[0] == pixel[1] && pixel[1] == pixel[2]),
                     "{}: wanted class ids as grey or palette pixels, got a color at row {}, column {}", name,
                     i / image.width, i % image.width);
    check<DataError>(pixel[0] < classes, "{}: wanted class ids 0 to {}, got {} at row {}, column {}", name, classes - 1,
                     pixel[0], i / image.width, i % image.width);
    to[i] = static_cast<std::uint8_t>(pixel[0]);
  }
  return mask;
}

ImageSet read_image_folder(const std::string& folder, const ImageReadOptions& options) {
  const std::string images = (fs::path(folder) / "images").string();
  const std::string masks = (fs::path(folder) / "masks").string();
  std::error_code error;
  for (const std::string& part : {images, masks})
    check<DataError>(fs::is_directory(part, error),
                     "{}: wanted a folder with images/ and masks/, got none of that name", part);
  const std::vector<std::string> names = list_pngs(images);
  check<DataError>(!names.empty(), "{}: wanted PNG images, got none", images);
  const std::vector<std::string> mask_names = list_pngs(masks);
  for (const std::string& name : names)
    check<DataError>(std::binary_search(mask_names.begin(), mask_names.end(), name),
                     "{}/{}: the image has no mask {}/{}", images, name, masks, name);
  for (const std::string& name : mask_names)
    check<DataError>(std::binary_search(names.begin(), names.end(), name), "{}/{}: the mask has no image {}/{}", masks,
                     name, images, name);

  // All pixels are read first, because one image in color makes the whole set RGB.
  std::vector<Image> pixels;
  for (const std::string& name : names) pixels.push_back(read_png(images + "/" + name));
  ImageSet set;
  set.classes = options.classes;
  set.channels = options.channels > 0                                    ? options.channels
                 : std::any_of(pixels.begin(), pixels.end(), is_colored) ? 3
                                                                         : 1;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string mask_path = masks + "/" + names[i];
    const Image mask = read_mask_png(mask_path, options.classes);
    check<DataError>(mask.width == pixels[i].width && mask.height == pixels[i].height,
                     "{}: wanted a mask of its image's size {} x {}, got {} x {}", mask_path, pixels[i].width,
                     pixels[i].height, mask.width, mask.height);
    ImageSample sample;
    sample.name = names[i];
    sample.pair = {to_tensor(pixels[i], set.channels, options.normalize), to_mask(mask, options.classes, mask_path)};
    pixels[i].values = {};
    Sha256 hash;
    hash_tensor(hash, sample.pair.image);
    hash_tensor(hash, sample.pair.mask);
    sample.content = to_hex(hash.digest());
    set.samples.push_back(std::move(sample));
  }
  return set;
}

ImageSet read_images(const std::string& path, const ImageReadOptions& options) {
  check<ArgumentError>(options.classes >= 1 && options.classes <= 256, "images: wanted 1 to 256 classes, got {}",
                       options.classes);
  check<ArgumentError>(options.channels == 0 || options.channels == 1 || options.channels == 3,
                       "images: wanted 1 or 3 channels, got {}", options.channels);
  std::error_code error;
  check<DataError>(fs::exists(path, error), "{}: there is no such file or folder", path);
  return fs::is_directory(path, error) ? read_image_folder(path, options) : read_image_file(path, options);
}

std::string ImageSet::content() const {
  Sha256 hash;
  for (const ImageSample& sample : samples) {
    const std::string entry = sample.name + "\n" + sample.content + "\n";
    hash.update(entry.data(), entry.size());
  }
  return to_hex(hash.digest());
}

std::vector<std::int64_t> ImageSet::same_content(std::int64_t i) const {
  std::vector<std::int64_t> same;
  for (std::int64_t k = 0; k < size(); ++k)
    if (samples[static_cast<std::size_t>(k)].content == samples.at(static_cast<std::size_t>(i)).content)
      same.push_back(k);
  return same;
}

ImageSet ImageSet::part(std::int64_t begin, std::int64_t count) const {
  check<ArgumentError>(begin >= 0 && count >= 0 && begin <= size() - count,
                       "images: wanted a part of 0 … {}, got {} from {}", size(), count, begin);
  ImageSet set = *this;
  set.samples.assign(samples.begin() + begin, samples.begin() + begin + count);
  return set;
}

ImageSplit split_images(const ImageSet& images, double fraction) {
  const std::int64_t held_out = held_out_count(images.size(), fraction);
  const std::int64_t train = images.size() - held_out;
  check<DataError>(train >= 1, "split: {} images leave none to train on after holding out {}", images.size(), held_out);
  return {images.part(0, train), images.part(train, held_out)};
}

ImageBatch ImageBatch::without(std::span<const std::int64_t> rows) const {
  return {without_rows(images, rows), without_rows(masks, rows), origin.without(rows)};
}

StateDict ImageBatch::state() const {
  StateDict state = origin.state();
  state.put("images", images);
  state.put("masks", masks);
  return state;
}

ImageBatch ImageBatch::from_state(const StateDict& state) {
  const Tensor &images = state.tensor("images"), &masks = state.tensor("masks");
  BatchOrigin origin = BatchOrigin::from_state(state);
  check<CheckpointError>(
      images.rank() == 4 && images.dtype() == DType::f32 && masks.rank() == 3 && masks.dtype() == DType::u8 &&
          images.dim(0) == masks.dim(0) && images.dim(1) == masks.dim(1) && images.dim(2) == masks.dim(2) &&
          (origin.samples.empty() || std::ssize(origin.samples) == images.dim(0)),
      "batch: wanted images (N, H, W, C) of f32, masks (N, H, W) of u8 and N samples, got {} {}, {} {} and {}",
      name_of(images.dtype()), images.shape(), name_of(masks.dtype()), masks.shape(), origin.samples.size());
  return {images, masks, std::move(origin)};
}

Loader<ImageBatch> training_batches(const ImageSet& images, const ImageLoaderOptions& options) {
  check<ArgumentError>(options.size >= 1, "image loader: wanted a window of at least 1 pixel, got {}", options.size);
  LoaderOptions loader{.batch = options.batch,
                       .seed = options.seed,
                       .order = SampleOrder::kShuffled,
                       .samples = images.size(),
                       .content = images.content(),
                       .prefetch = options.prefetch,
                       .same_content = [images](std::int64_t i) { return images.same_content(i); }};
  return {loader, [images, options](const BatchOrigin& origin) {
            std::vector<ImagePair> pairs;
            for (std::size_t row = 0; row < origin.samples.size(); ++row) {
              const RandomStream stream{
                  .seed = options.seed, .purpose = RngPurpose::kAugment, .step = origin.slots[row]};
              const ImageSample& sample = images.samples[static_cast<std::size_t>(origin.samples[row])];
              pairs.push_back(augment(sample.pair, options.size, options.augment, stream));
            }
            return stack(pairs);
          }};
}

Loader<ImageBatch> evaluation_batches(const ImageSet& images, int prefetch) {
  LoaderOptions loader{.batch = 1,
                       .order = SampleOrder::kSequential,
                       .samples = images.size(),
                       .content = images.content(),
                       .prefetch = prefetch};
  return {loader, [images](const BatchOrigin& origin) {
            return stack({images.samples[static_cast<std::size_t>(origin.samples[0])].pair});
          }};
}

}  // namespace binade::io
