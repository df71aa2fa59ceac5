#include "core/tensor.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/kernels/dispatch.h"
#include "core/kernels/elementwise.h"
#include "core/parallel.h"

namespace binade {
namespace {

constexpr std::int64_t kGrain = 1 << 15;

/// One rounding from any dtype to any other. Integers reach a half through float, as every count that matters fits.
template <class To, class From>
To convert(From x) {
  if constexpr (std::is_same_v<To, From>)
    return x;
  else if constexpr (std::is_same_v<To, bool>)
    return load(x) != 0;
  else if constexpr (requires { To::from_float(0.0f); })
    return To::from_float(static_cast<float>(load(x)));
  else if constexpr (requires { x.to_float(); })
    return static_cast<To>(x.to_float());
  else
    return static_cast<To>(x);
}

/// Types that the vector kernels convert between.
template <class T>
inline constexpr bool kConverted = std::is_same_v<T, float> || std::is_same_v<T, float16> ||
                                   std::is_same_v<T, bfloat16>;

template <class To, class From>
void convert_rows(To* to, std::int64_t to_pitch, const From* from, std::int64_t from_pitch, std::int64_t rows,
                  std::int64_t cols) {
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(cols, 1));
  parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      To* y = to + r * to_pitch;
      const From* x = from + r * from_pitch;
      if constexpr (std::is_same_v<To, From>) {
        std::memcpy(y, x, static_cast<std::size_t>(cols) * sizeof(To));
      } else if constexpr (kConverted<To> && kConverted<From>) {
        cpu::kernels().pointwise.elementwise->convert({x, kDTypeOf<From>}, {y, kDTypeOf<To>}, cols);
      } else {
        for (std::int64_t c = 0; c < cols; ++c) y[c] = convert<To>(x[c]);
      }
    }
  });
}

}  // namespace

Device Tensor::device() const {
  check<ArgumentError>(defined(), "tensor: an undefined tensor has no device");
  return storage_->device();
}

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  Tensor t;
  t.storage_ = std::make_shared<Storage>(static_cast<std::size_t>(shape.numel()) * size_of(dtype), device);
  t.version_ = std::make_shared<std::uint64_t>(0);
  t.shape_ = shape;
  t.pitch_ = shape.cols();
  t.dtype_ = dtype;
  return t;
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device) {
  Tensor t = empty(shape, dtype, device);
  backend_of(device).fill_zero(t.mutable_raw(), t.bytes(), Stream{device});
  return t;
}

Tensor Tensor::full(const Shape& shape, double value, DType dtype, Device device) {
  Tensor t = empty(shape, dtype, Device::cpu());
  t.fill(value);
  return t.to(device);
}

Tensor Tensor::scalar(double value, DType dtype, Device device) { return full(Shape{}, value, dtype, device); }

const void* Tensor::raw() const {
  check<ArgumentError>(defined(), "tensor: an undefined tensor has no data");
  return static_cast<const std::byte*>(storage_->data()) + static_cast<std::size_t>(offset_) * size_of(dtype_);
}

void Tensor::check_readable_as(DType wanted) const {
  check<DTypeError>(defined() && dtype_ == wanted, "tensor: read as {}, but it is {}", name_of(wanted),
                    defined() ? name_of(dtype_) : "undefined");
}

void* Tensor::mutable_raw() { return const_cast<void*>(raw()); }

Tensor Tensor::reshape(const Shape& shape) const {
  check<ShapeError>(shape.numel() == numel(), "reshape: {} has {} elements, {} has {}", shape_, numel(), shape,
                    shape.numel());
  check<ShapeError>(contiguous(),
                    "reshape: wanted a contiguous tensor, got a channel slice of {}; take contiguous_copy() first",
                    shape_);
  Tensor t = *this;
  t.shape_ = shape;
  t.pitch_ = shape.cols();
  return t;
}

Tensor Tensor::channel_slice(std::int64_t begin, std::int64_t count) const {
  check<ShapeError>(rank() >= 1 && begin >= 0 && count >= 0 && begin <= shape_.cols() - count,
                    "channel_slice: {} channels from {} of {}", count, begin, shape_);
  Tensor t = *this;
  t.shape_ = shape_.with_dim(-1, count);
  t.offset_ += begin;
  return t;
}

Tensor Tensor::narrow(std::int64_t begin, std::int64_t count) const {
  check<ShapeError>(rank() >= 1 && begin >= 0 && count >= 0 && begin <= shape_.dim(0) - count,
                    "narrow: {} rows from {} of {}", count, begin, shape_);
  if (rank() == 1) {
    check<ShapeError>(contiguous(), "narrow: wanted a contiguous tensor");
    return view_at(begin, Shape{count});
  }
  Tensor t = *this;
  t.shape_ = shape_.with_dim(0, count);
  const std::int64_t rows_each = shape_.dim(0) > 0 ? shape_.rows() / shape_.dim(0) : 0;
  t.offset_ += begin * rows_each * pitch_;
  return t;
}

Tensor Tensor::view_at(std::int64_t begin, const Shape& shape) const {
  check<ShapeError>(contiguous() && begin >= 0 && begin <= numel() - shape.numel(),
                    "view_at: {} at element {} of a tensor of {} elements", shape, begin, numel());
  Tensor t = *this;
  t.shape_ = shape;
  t.pitch_ = shape.cols();
  t.offset_ += begin;
  return t;
}

Tensor Tensor::clone() const {
  Tensor t = empty(shape_, dtype_, device());
  t.copy_from(*this);
  *t.version_ = 0;
  return t;
}

Tensor Tensor::contiguous_copy() const { return contiguous() ? *this : clone(); }

Tensor Tensor::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  Tensor t = empty(shape_, dtype, device());
  t.copy_from(*this);
  *t.version_ = 0;
  return t;
}

Tensor Tensor::to(Device target) const {
  if (target == device()) return *this;
  const Tensor source = contiguous_copy();
  Tensor t = empty(shape_, dtype_, target);
  const bool up = target.type != DeviceType::kCpu;
  backend_of(up ? target : device())
      .copy(t.mutable_raw(), source.raw(), bytes(), up ? CopyKind::kHostToDevice : CopyKind::kDeviceToHost,
            Stream{up ? target : device()});
  return t;
}

void Tensor::copy_from(const Tensor& source) {
  check<ShapeError>(source.shape_ == shape_, "copy_from: wanted {}, got {}", shape_, source.shape_);
  check<DeviceError>(source.device() == Device::cpu() && device() == Device::cpu(),
                     "copy_from: both tensors must be on the CPU; move one with to(Device)");
  if (numel() == 0) return bump_version();
  dispatch_any(dtype_, "copy_from", [&]<class To>(TypeTag<To>) {
    dispatch_any(source.dtype_, "copy_from", [&]<class From>(TypeTag<From>) {
      const bool flat = contiguous() && source.contiguous();
      const std::int64_t rows = flat ? (numel() + kGrain - 1) / kGrain : shape_.rows();
      if (!flat)
        return convert_rows(mutable_data<To>(), pitch_, source.data<From>(), source.pitch_, rows, shape_.cols());
      parallel_blocks(rows, [&](std::int64_t block) {
        const std::int64_t begin = block * kGrain;
        convert_rows(mutable_data<To>() + begin, 0, source.data<From>() + begin, 0, 1,
                     std::min(kGrain, numel() - begin));
      });
    });
  });
  bump_version();
}

void Tensor::fill(double value) {
  check<DeviceError>(device() == Device::cpu(), "fill: wanted a CPU tensor, got {}", device());
  dispatch_any(dtype_, "fill", [&]<class T>(TypeTag<T>) {
    const T x = convert<T>(value);
    T* y = mutable_data<T>();
    for (std::int64_t r = 0; r < shape_.rows(); ++r) std::fill_n(y + r * pitch_, shape_.cols(), x);
  });
  bump_version();
}

double Tensor::at(std::int64_t index) const {
  check<ShapeError>(index >= 0 && index < numel(), "at: element {} of {}", index, shape_);
  check<DeviceError>(device() == Device::cpu(), "at: wanted a CPU tensor, got {}", device());
  const std::int64_t position = index / shape_.cols() * pitch_ + index % shape_.cols();
  return dispatch_any(dtype_, "at", [&]<class T>(TypeTag<T>) { return convert<double>(data<T>()[position]); });
}

double Tensor::item() const {
  check<ShapeError>(numel() == 1, "item: wanted one element, got shape {}", shape_);
  return to(Device::cpu()).at(0);
}

std::string Tensor::to_string(std::int64_t max_elements) const {
  if (!defined()) return "undefined tensor";
  std::string text = fmt::format("{} {} {} [", name_of(dtype_), shape_, device());
  const Tensor host = to(Device::cpu());
  for (std::int64_t i = 0; i < std::min(numel(), max_elements); ++i)
    text += fmt::format("{}{:.6g}", i > 0 ? ", " : "", host.at(i));
  return text + (numel() > max_elements ? ", …]" : "]");
}

}  // namespace binade
