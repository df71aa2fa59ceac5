#include "binade/io/data/jpeg.h"

#include <memory>

#include "binade/core/error.h"
#include "binade/io/data/image_data.h"
#include "binade/io/files/read_file.h"
#include "io/optional_formats.h"

#if BINADE_JPEG
#include <turbojpeg.h>
#endif

namespace binade::io {

bool can_decode_jpeg() { return BINADE_JPEG != 0; }

#if BINADE_JPEG

Image decode_jpeg(const std::string& bytes, const std::string& name, std::int64_t max_pixels) {
  const std::unique_ptr<void, decltype(&tjDestroy)> decoder(tjInitDecompress(), &tjDestroy);
  check<OutOfMemoryError>(decoder != nullptr, "{}: no memory to decode the JPEG", name);
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  int width = 0, height = 0, subsampling = 0, colors = 0;
  const bool has_header = tjDecompressHeader3(decoder.get(), data, bytes.size(), &width, &height, &subsampling,
                                              &colors) == 0;
  check<DataError>(has_header && width > 0 && height > 0, "{}: damaged JPEG: {}", name, tjGetErrorStr2(decoder.get()));
  check<DataError>(std::int64_t{width} * height <= max_pixels, "{}: wanted an image of at most {} pixels, got {} x {}",
                   name, max_pixels, height, width);
  const bool grey = colors == TJCS_GRAY, four = colors == TJCS_CMYK || colors == TJCS_YCCK;
  const int format = grey ? TJPF_GRAY : four ? TJPF_CMYK : TJPF_RGB;
  const int stored = tjPixelSize[format];
  // n compressed bytes are assumed to hold at most 4096 n pixels. If the header states more, the file is refused before
  // the pixels are allocated.
  check<DataError>(std::int64_t{width} * height / 4096 <= static_cast<std::int64_t>(bytes.size()),
                   "{}: damaged JPEG: {} bytes cannot hold {} x {} pixels", name, bytes.size(), height, width);
  std::vector<unsigned char> pixels(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) *
                                    static_cast<std::size_t>(stored));
  // Any warning (a truncated file, a damaged block) is an error: the decoder would fill the rest with grey. The exact
  // inverse transform gives the same pixels on every machine. The limit of 500 scans bounds the time of a progressive
  // file: each scan takes a few bytes, and passes over all pixels.
  const int done = tjDecompress2(decoder.get(), data, bytes.size(), pixels.data(), width, 0, height, format,
                                 TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS);
  check<DataError>(done == 0, "{}: damaged JPEG: {}", name, tjGetErrorStr2(decoder.get()));
  Image image{.width = width, .height = height, .channels = grey ? 1 : 3, .depth = 8};
  image.values.reserve(pixels.size());
  if (!four) {
    image.values.assign(pixels.begin(), pixels.end());
    return image;
  }
  for (std::size_t i = 0; i < pixels.size(); i += 4)  // Adobe stores 255 - ink
    for (std::size_t c = 0; c < 3; ++c)
      image.values.push_back(static_cast<std::uint16_t>(pixels[i + c] * pixels[i + 3] / 255));
  return image;
}

#else

Image decode_jpeg(const std::string&, const std::string& name, std::int64_t) {
  throw ArgumentError(name + ": this build of Binade cannot decode JPEG; install libturbojpeg0-dev and build again");
}

#endif

Image read_image(const std::string& path) {
  const std::string bytes = read_file(path);
  if (bytes.starts_with("\x89PNG")) return decode_png(bytes, path);
  check<DataError>(bytes.starts_with("\xFF\xD8"), "{}: wanted a PNG or JPEG image, got another format", path);
  return decode_jpeg(bytes, path);
}

Tensor to_pixels(const Image& image, int channels) {
  return to_tensor(image, channels > 0 ? channels : image.channels >= 3 ? 3 : 1, false);
}

}  // namespace binade::io
