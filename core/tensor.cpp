#include "binade/core/tensor.h"

#include <algorithm>
#include <ostream>

#include "binade/core/backend.h"
#include "binade/core/error.h"
#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"

namespace binade {
namespace {

thread_local bool t_counts_writes = true;

/// Returns the element at `position` of an array of any dtype as double. Exact except for large i64 values.
double value_of(const void* data, DType dtype, std::int64_t position) {
  return dispatch_any(dtype, "at", [&]<class T>(TypeTag<T>) {
    const T x = static_cast<const T*>(data)[position];
    if constexpr (requires { x.to_float(); })
      return static_cast<double>(x.to_float());
    else
      return static_cast<double>(x);
  });
}

}  // namespace

/// A block of device memory, which is released with the last tensor that shares it.
class Storage : NonCopyable {
 public:
  Storage(std::size_t bytes, Device device) : bytes_(bytes), device_(device) {
    if (bytes_ > 0) data_ = backend_of(device_).allocate(bytes_, Stream{device_});
  }
  /// Wraps memory that it does not own.
  Storage(void* data, Device device, std::shared_ptr<const void> keep_alive)
      : data_(data), device_(device), owned_(false), keep_alive_(std::move(keep_alive)) {}
  ~Storage() {
    if (data_ != nullptr && owned_) backend_of(device_).release(data_, bytes_, Stream{device_});
  }
  void* data() const { return data_; }
  Device device() const { return device_; }

 private:
  void* data_ = nullptr;  // null if bytes_ is 0
  std::size_t bytes_ = 0;
  Device device_;
  bool owned_ = true;
  std::shared_ptr<const void> keep_alive_;
};

Device Tensor::device() const {
  check<ArgumentError>(defined(), "tensor: an undefined tensor has no device");
  return storage_->device();
}

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  Tensor t;
  t.storage_ = std::make_shared<Storage>(static_cast<std::size_t>(shape.numel()) * size_of(dtype), device);
  if (t_counts_writes) t.version_ = std::make_shared<std::atomic<std::uint64_t>>(0);
  t.shape_ = shape;
  t.pitch_ = shape.cols();
  t.dtype_ = dtype;
  return t;
}

Tensor Tensor::from_blob(void* data, const Shape& shape, DType dtype, Device device,
                         std::shared_ptr<const void> keep_alive) {
  check<ArgumentError>(data != nullptr || shape.numel() == 0, "from_blob: wanted {} elements, got a null address",
                       shape.numel());
  check<ArgumentError>(reinterpret_cast<std::uintptr_t>(data) % size_of(dtype) == 0,
                       "from_blob: wanted an address that is a multiple of {} bytes for {}", size_of(dtype),
                       name_of(dtype));
  Tensor t;
  t.storage_ = std::make_shared<Storage>(data, device, std::move(keep_alive));
  if (t_counts_writes) t.version_ = std::make_shared<std::atomic<std::uint64_t>>(0);
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
  Tensor t = empty(shape, dtype, device);
  t.fill(value);
  return t;
}

Tensor Tensor::scalar(double value, DType dtype, Device device) { return full(Shape{}, value, dtype, device); }

const void* Tensor::raw() const {
  check<ArgumentError>(defined(), "tensor: an undefined tensor has no data");
  if (storage_->data() == nullptr) return nullptr;  // no elements; offset_ of a view may still be > 0
  return static_cast<const std::byte*>(storage_->data()) + static_cast<std::size_t>(offset_) * size_of(dtype_);
}

void Tensor::check_readable_as(DType wanted) const {
  check<ArgumentError>(defined(),
                       "tensor: read as {}, but it is undefined; assign it first (a gradient exists after backward)",
                       name_of(wanted));
  check<DTypeError>(dtype_ == wanted, "tensor: read as {}, but it is {}; convert it with to(DType::{})",
                    name_of(wanted), name_of(dtype_), name_of(wanted));
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

Tensor Tensor::joined_with(const Tensor& next) const {
  const std::int64_t channels = shape_.cols() + next.shape_.cols();
  const bool neighbors = shares_storage_with(next) && dtype_ == next.dtype_ && rank() >= 1 && rank() == next.rank() &&
                         shape_.with_dim(-1, channels) == next.shape_.with_dim(-1, channels) && pitch_ == next.pitch_ &&
                         channels <= pitch_ && next.offset_ == offset_ + shape_.cols();
  if (!neighbors) return {};
  Tensor t = *this;
  t.shape_ = shape_.with_dim(-1, channels);
  return t;
}

Tensor Tensor::narrow(std::int64_t begin, std::int64_t count) const {
  check<ShapeError>(rank() >= 1 && begin >= 0 && count >= 0 && begin <= shape_.dim(0) - count,
                    "narrow: wanted rows inside {}, got {} from row {}", shape_, count, begin);
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

Tensor Tensor::operator[](std::int64_t i) const {
  check<ShapeError>(rank() >= 1 && i >= -shape_.dim(0) && i < shape_.dim(0),
                    "[]: wanted a position in dimension 0 of {}, got {}", shape_, i);
  Tensor t = narrow(i < 0 ? i + shape_.dim(0) : i, 1);
  t.shape_ = Shape(shape_.dims().subspan(1));
  if (rank() == 1) t.pitch_ = 1;
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

Tensor Tensor::with_own_version() const {
  Tensor t = *this;
  if (defined()) t.version_ = std::make_shared<std::atomic<std::uint64_t>>(0);
  return t;
}

Tensor Tensor::converted(DType dtype) const {
  Tensor t = empty(shape_, dtype, device());
  t.copy_from(*this);
  if (t.version_) *t.version_ = 0;
  return t;
}

Tensor Tensor::clone() const { return converted(dtype_); }

Tensor Tensor::contiguous_copy() const { return contiguous() ? *this : clone(); }

Tensor Tensor::to(DType dtype) const { return dtype == dtype_ ? *this : converted(dtype); }

Tensor Tensor::to(Device target) const {
  if (target == device()) return *this;
  const Tensor source = contiguous_copy();
  Tensor t = empty(shape_, dtype_, target);
  const bool upload = target.type != DeviceType::kCpu;
  const Device gpu = upload ? target : device();
  backend_of(gpu).copy(t.mutable_raw(), source.raw(), bytes(),
                       upload ? CopyKind::kHostToDevice : CopyKind::kDeviceToHost, Stream{gpu});
  return t;
}

Tensor Tensor::on_host() const { return contiguous_copy().to(Device::cpu()); }

void Tensor::copy_from(const Tensor& source) {
  check<ShapeError>(source.shape_ == shape_, "copy_from: wanted {}, got {}", shape_, source.shape_);
  if (source.device() != device()) return copy_from(source.to(device()));
  if (numel() == 0) return bump_version();
  const bool flat = contiguous() && source.contiguous();
  kernels(device()).convert({{mutable_raw(), dtype_, pitch_},
                             {source.raw(), source.dtype_, source.pitch_},
                             flat ? 1 : shape_.rows(),
                             flat ? numel() : shape_.cols()});
  bump_version();
}

void Tensor::fill(double value) {
  const bool flat = contiguous();
  if (numel() > 0)
    kernels(device()).fill(
        {{mutable_raw(), dtype_, pitch_}, value, flat ? 1 : shape_.rows(), flat ? numel() : shape_.cols()});
  bump_version();
}

double Tensor::at(std::int64_t index) const {
  check<ShapeError>(index >= 0 && index < numel(), "at: wanted an element of {}, got number {}", shape_, index);
  check<DeviceError>(device() == Device::cpu(), "at: wanted a CPU tensor, got {}", device());
  const std::int64_t position = index / shape_.cols() * pitch_ + index % shape_.cols();
  return value_of(raw(), dtype_, position);
}

double Tensor::item() const {
  check<ShapeError>(numel() == 1, "item: wanted one element, got shape {}", shape_);
  return to(Device::cpu()).at(0);
}

std::string Tensor::to_string(std::int64_t max_elements) const {
  if (!defined()) return "undefined tensor";
  std::string text = fmt::format("{} {} {} ", name_of(dtype_), shape_, device());
  if (numel() == 0) return text + "[]";
  const Tensor host = to(Device::cpu());
  /// Returns how many dimensions, counted from the last one, begin at element i.
  const auto starting_at = [&](std::int64_t i) {
    int count = 0;
    for (std::int64_t block = 1; count < rank(); ++count)
      if (i % (block *= dim(-1 - count)) != 0) break;
    return static_cast<std::size_t>(count);
  };
  std::size_t open = 0;
  for (std::int64_t i = 0; i < numel(); ++i) {
    if (i >= max_elements) {
      text += (i > 0 ? ", …" : "…") + std::string(open, ']');
      return text;
    }
    const std::size_t starts = starting_at(i);
    text += (i > 0 ? ", " : "") + std::string(starts, '[');
    open += starts;
    text += dtype_ == DType::boolean ? (host.at(i) != 0 ? "true" : "false") : fmt::format("{:.6g}", host.at(i));
    const std::size_t ends = starting_at(i + 1);
    text += std::string(ends, ']');
    open -= ends;
  }
  return text;
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << tensor.to_string(); }

detail::WriteCounting::WriteCounting(bool on) : ScopedValue(t_counts_writes, on) {}

void accumulate(Tensor& into, const Tensor& from) {
  check<ShapeError>(into.shape() == from.shape(), "accumulate: wanted {}, got {}", into.shape(), from.shape());
  check<DeviceError>(into.device() == from.device(), "accumulate: wanted a tensor on {}, got one on {}", into.device(),
                     from.device());
  const bool flat = into.contiguous() && from.contiguous();
  if (into.numel() > 0)
    kernels(into.device())
        .accumulate({output_rows(into), input_rows(from), flat ? 1 : into.shape().rows(),
                     flat ? into.numel() : into.shape().cols()});
  into.bump_version();
}

}  // namespace binade
