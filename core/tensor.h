#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "binade/core/device.h"
#include "binade/core/dtype.h"
#include "binade/core/shape.h"
#include "binade/core/storage.h"

namespace binade {

/// n-dimensional data. A value with shared storage: copies alias. Rows of the last dimension lie `pitch()` elements
/// apart; pitch == shape.cols() means contiguous, a larger pitch is a *channel slice* (a U-Net skip inside a
/// concatenation buffer) and the only stride there is. Images are (N, H, W, C).
///
/// A default-constructed Tensor is empty: `defined()` is false and every other call throws.
class Tensor {
 public:
  Tensor() = default;

  /// Uninitialized, contiguous. Throws OutOfMemoryError.
  static Tensor empty(const Shape& shape, DType dtype = DType::f32, Device device = Device::cpu());
  static Tensor zeros(const Shape& shape, DType dtype = DType::f32, Device device = Device::cpu());
  static Tensor full(const Shape& shape, double value, DType dtype = DType::f32, Device device = Device::cpu());
  /// Copies `values` (row-major) to a CPU tensor. Throws ShapeError when the count is not shape.numel().
  template <class T>
  static Tensor from(std::span<const T> values, const Shape& shape) {
    check<ShapeError>(static_cast<std::int64_t>(values.size()) == shape.numel(),
                      "tensor: {} values do not fill shape {}", values.size(), shape);
    Tensor t = empty(shape, kDTypeOf<T>);
    std::copy(values.begin(), values.end(), t.mutable_data<T>());
    return t;
  }
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape) {
    return from(std::span<const T>(values), shape);
  }
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
  /// Nobody else holds the storage: no other tensor or view, on any thread.
  bool sole_owner() const { return storage_.use_count() == 1; }
  bool shares_storage_with(const Tensor& other) const { return storage_ && storage_ == other.storage_; }

  /// Typed pointer to the first element. Throws DTypeError when T is not the dtype. Read-only and writable forms; the
  /// writable one does not raise the version: kernels writing to fresh outputs use it.
  template <class T>
  const T* data() const {
    check_readable_as(kDTypeOf<T>);
    return static_cast<const T*>(raw());
  }
  template <class T>
  T* mutable_data() {
    check_readable_as(kDTypeOf<T>);
    return static_cast<T*>(mutable_raw());
  }
  const void* raw() const;
  void* mutable_raw();

  /// Counts in-place writes to values that somebody may have saved. Shared by all views of one storage.
  std::uint64_t version() const { return version_ ? *version_ : 0; }
  void bump_version() {
    if (version_) ++*version_;
  }

  /// Same storage, other extents of the same count. REQUIRES contiguous (throws ShapeError with the way out).
  Tensor reshape(const Shape& shape) const;
  /// Channels [begin, begin + count) of the last dimension, no copy: a channel slice.
  Tensor channel_slice(std::int64_t begin, std::int64_t count) const;
  /// The channels of this and, behind them, those of `next`, no copy, where both are slices of one storage that lie so:
  /// equal in their other extents, as far apart from row to row, `next` right behind. Else undefined.
  Tensor joined_with(const Tensor& next) const;
  /// Rows [begin, begin + count) of dimension 0, no copy.
  Tensor narrow(std::int64_t begin, std::int64_t count) const;
  /// The same elements with a version of their own: writes through other views do not raise it, nor it theirs. For
  /// parts of a buffer that are written one by one.
  Tensor apart() const;
  /// Elements [begin, begin + shape.numel()) of a contiguous tensor seen as `shape`, no copy (flat parameter storage).
  Tensor view_at(std::int64_t begin, const Shape& shape) const;

  Tensor clone() const;                  ///< deep, contiguous copy
  Tensor contiguous_copy() const;        ///< itself when contiguous, else clone()
  Tensor to(DType dtype) const;          ///< itself when it has that dtype, else a rounded copy
  Tensor to(Device device) const;        ///< itself when it is there
  Tensor on_host() const;                ///< contiguous and on the CPU: itself where it is so
  void copy_from(const Tensor& source);  ///< same shape; converts dtype; raises the version
  void fill(double value);               ///< raises the version

  /// One element of a CPU tensor as double (any dtype), by row-major index; item() REQUIRES numel() == 1.
  double at(std::int64_t index) const;
  double item() const;
  template <class T>
  std::vector<T> to_vector() const {  ///< row-major copy on the host, converted to T
    const Tensor host = to(kDTypeOf<T>).on_host();
    return std::vector<T>(host.data<T>(), host.data<T>() + numel());
  }

  std::string to_string(std::int64_t max_elements = 64) const;  ///< "f32 (2, 3) cpu [[…]]"

 private:
  void check_readable_as(DType wanted) const;

  std::shared_ptr<Storage> storage_;
  std::shared_ptr<std::uint64_t> version_;
  Shape shape_{0};
  std::int64_t offset_ = 0;  // elements
  std::int64_t pitch_ = 0;
  DType dtype_ = DType::f32;
};

}  // namespace binade
