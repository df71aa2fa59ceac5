#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "binade/core/device.h"
#include "binade/core/dtype.h"
#include "binade/core/scope.h"
#include "binade/core/shape.h"

namespace binade {

class Storage;

/// An n-dimensional array with shared storage: copies are aliases. Rows of the last dimension start `pitch()` elements
/// apart. If pitch() == shape().cols(), the tensor is contiguous; a larger pitch makes it a *channel slice*, which is
/// the only other layout. Images are (N, H, W, C).
///
/// A default-constructed Tensor is undefined: defined() is false, and functions that need data throw ArgumentError.
class Tensor {
 public:
  Tensor() = default;

  /// Returns an uninitialized, contiguous tensor. Throws OutOfMemoryError.
  static Tensor empty(const Shape& shape, DType dtype = DType::f32, Device device = Device::cpu());
  static Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = Device::cpu());
  static Tensor full(const Shape& shape, double value, DType dtype = DType::f32, Device device = Device::cpu());
  /// Returns a CPU tensor with a copy of `values` (row-major). Throws ShapeError unless there are shape.numel() values.
  template <class T>
  static Tensor from(std::span<const T> values, const Shape& shape) {
    check<ShapeError>(static_cast<std::int64_t>(values.size()) == shape.numel(),
                      "tensor: {} values do not fill shape {}", values.size(), shape);
    Tensor t = empty(shape, kDTypeOf<T>);
    std::copy(values.begin(), values.end(), static_cast<T*>(t.mutable_raw()));
    return t;
  }
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape) {
    return from(std::span<const T>(values), shape);
  }
  /// Returns a CPU tensor of the values between the braces: `Tensor::from({1.f, 2.f}, {2})`, `Tensor::from({1.f, 2.f})`
  /// and `Tensor::from({{1, 2}, {3, 4}})`. Throws ShapeError if they do not fill the shape, or rows differ in length.
  template <class T>
  static Tensor from(std::initializer_list<T> values, const Shape& shape) {
    return from(std::span<const T>(values.begin(), values.size()), shape);
  }
  template <class T>
  static Tensor from(std::initializer_list<T> values) {
    return from(values, Shape{static_cast<std::int64_t>(values.size())});
  }
  template <class T>
  static Tensor from(std::initializer_list<std::initializer_list<T>> rows) {
    const std::size_t columns = rows.size() == 0 ? 0 : rows.begin()->size();
    Tensor t = empty(Shape{static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(columns)}, kDTypeOf<T>);
    T* to = t.mutable_data<T>();
    for (const std::initializer_list<T>& row : rows) {
      check<ShapeError>(row.size() == columns, "tensor: a row of {} values follows rows of {}", row.size(), columns);
      to = std::copy(row.begin(), row.end(), to);
    }
    return t;
  }
  /// Returns a contiguous tensor over memory that someone else owns, without a copy: shape.numel() elements at `data`
  /// on `device`, aligned to their size. The memory must stay valid while any tensor or view shares the storage;
  /// tensors never release it. `keep_alive`, if given, is held for that time, so that a shared_ptr can own the memory.
  /// In-place writes go to the memory. Each byte of a bool tensor must be 0 or 1. Throws ArgumentError for a null or
  /// misaligned address.
  static Tensor from_blob(void* data, const Shape& shape, DType dtype = DType::f32, Device device = Device::cpu(),
                          std::shared_ptr<const void> keep_alive = nullptr);
  static Tensor scalar(double value, DType dtype = DType::f32, Device device = Device::cpu());

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  std::int64_t dim(int i) const { return shape_.dim(i); }
  std::int64_t numel() const { return shape_.numel(); }
  DType dtype() const { return dtype_; }
  Device device() const;
  std::int64_t pitch() const { return pitch_; }
  bool contiguous() const { return pitch_ == shape_.cols() || shape_.rows() <= 1; }
  std::size_t bytes() const { return static_cast<std::size_t>(numel()) * size_of(dtype_); }
  /// True if no other tensor shares the storage.
  bool sole_owner() const { return storage_.use_count() == 1; }
  bool shares_storage_with(const Tensor& other) const { return storage_ && storage_ == other.storage_; }

  /// Returns a typed pointer to the first element. Throws DTypeError unless T is the C++ type of the dtype.
  /// mutable_data() raises the version, because the caller will write: call it again for writes after a forward that
  /// read the tensor. mutable_raw() does not; kernels use it for new outputs.
  template <class T>
  const T* data() const {
    check_readable_as(kDTypeOf<T>);
    return static_cast<const T*>(raw());
  }
  template <class T>
  T* mutable_data() {
    check_readable_as(kDTypeOf<T>);
    bump_version();
    return static_cast<T*>(mutable_raw());
  }
  const void* raw() const;
  void* mutable_raw();

  /// Returns the number of in-place writes so far. Backward compares it to detect that a saved tensor was changed. All
  /// views of a storage share the number, and threads may write to different views. 0 if writes are not counted.
  std::uint64_t version() const { return version_ ? version_->load(std::memory_order_relaxed) : 0; }
  /// True if in-place writes are counted. Only a tensor that was made in an InferenceMode (autograd/inference_mode.h)
  /// does not count them; a clone() made outside of it does.
  bool counts_writes() const { return version_ != nullptr; }
  /// Returns the tensor itself if it counts writes, else a view that does.
  Tensor with_counted_writes() const { return counts_writes() ? *this : with_own_version(); }
  void bump_version() {
    if (version_) version_->fetch_add(1, std::memory_order_relaxed);
  }

  /// Returns a view with other extents and the same number of elements. Throws ShapeError unless the tensor is
  /// contiguous.
  Tensor reshape(const Shape& shape) const;
  /// Returns a view of channels [begin, begin + count) of the last dimension.
  Tensor channel_slice(std::int64_t begin, std::int64_t count) const;
  /// Returns one view of the channels of this tensor and those of `next`. Both must be slices of the same storage,
  /// `next` directly after this one, and equal in pitch and in all extents but the last. Otherwise returns an undefined
  /// tensor.
  Tensor joined_with(const Tensor& next) const;
  /// Returns a view of rows [begin, begin + count) of dimension 0.
  Tensor narrow(std::int64_t begin, std::int64_t count) const;
  /// Returns a view at position i of dimension 0, without that dimension. A negative i counts from the end.
  Tensor operator[](std::int64_t i) const;
  /// Returns a view with its own version count, for parts of a buffer that are written separately.
  Tensor with_own_version() const;
  [[deprecated("use with_own_version()")]] Tensor apart() const { return with_own_version(); }
  /// Returns elements [begin, begin + shape.numel()) of a contiguous tensor as a view of `shape`.
  Tensor view_at(std::int64_t begin, const Shape& shape) const;

  Tensor clone() const;            ///< deep, contiguous copy
  Tensor contiguous_copy() const;  ///< itself if contiguous, else clone()
  /// Returns the tensor itself if it has that dtype, else a converted copy. To a floating dtype, numbers are rounded
  /// once. From floating to integer, they are truncated towards 0 and saturate at the limits of the dtype, and NaN
  /// becomes 0. An integer keeps its lowest bits in a narrower dtype. To bool, every number but 0 becomes true.
  Tensor to(DType dtype) const;
  Tensor to(Device device) const;        ///< itself if it is on that device, else a copy
  Tensor on_host() const;                ///< itself if it is on the CPU and contiguous, else a copy that is
  void copy_from(const Tensor& source);  ///< copies and converts a tensor of the same shape, raises the version
  void fill(double value);               ///< sets all elements to `value`, raises the version

  /// Returns one element of a CPU tensor of any dtype, by row-major index. item() REQUIRES: numel() == 1.
  double at(std::int64_t index) const;
  double item() const;
  template <class T>
  std::vector<T> to_vector() const {  ///< row-major copy on the host, converted to T
    const Tensor host = to(kDTypeOf<T>).on_host();
    return std::vector<T>(host.data<T>(), host.data<T>() + numel());
  }

  /// Returns dtype, shape, device and up to `max_elements` elements: "f32 (2, 2) cpu [[1, 2], [3, 4]]".
  std::string to_string(std::int64_t max_elements = 64) const;

 private:
  void check_readable_as(DType wanted) const;
  Tensor converted(DType dtype) const;  // a contiguous copy

  std::shared_ptr<Storage> storage_;
  std::shared_ptr<std::atomic<std::uint64_t>> version_;
  Shape shape_{0};
  std::int64_t offset_ = 0;  // position of the first element in the storage, in elements
  std::int64_t pitch_ = 0;
  DType dtype_ = DType::f32;
};

namespace detail {
/// During its lifetime, new tensors of this thread count in-place writes only if `on`. Not to count saves an allocation
/// per tensor.
class WriteCounting : ScopedValue<bool> {
 public:
  explicit WriteCounting(bool on);
};
}  // namespace detail

/// Prints to_string().
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

/// Adds `from` to `into` element by element, in float (double for f64), with one rounding to into's dtype. Both must
/// have the same shape and device. Raises into's version.
void accumulate(Tensor& into, const Tensor& from);

}  // namespace binade
