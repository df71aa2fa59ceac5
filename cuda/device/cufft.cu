#if __has_include(<cufft.h>)
#include <cufft.h>
#include <dlfcn.h>
#endif

#include <algorithm>
#include <list>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "binade/cuda/device/capture.cuh"
#include "binade/cuda/device/context.cuh"
#include "binade/cuda/device/libraries.cuh"
#include "binade/cuda/device/marks.cuh"

/// Fourier transforms by cuFFT. The library is opened at the first transform, because few programs need it.
namespace binade::cuda {

#if __has_include(<cufft.h>)
namespace {

/// The functions of cuFFT that are used.
struct Functions {
  std::string missing{};  ///< why the library cannot be used; empty: it can
  decltype(&::cufftCreate) create = nullptr;
  decltype(&::cufftDestroy) destroy = nullptr;
  decltype(&::cufftSetAutoAllocation) set_auto_allocation = nullptr;
  decltype(&::cufftMakePlanMany64) make_plan_many = nullptr;
  decltype(&::cufftSetStream) set_stream = nullptr;
  decltype(&::cufftSetWorkArea) set_work_area = nullptr;
  decltype(&::cufftExecC2C) complex_f32 = nullptr;
  decltype(&::cufftExecR2C) from_real_f32 = nullptr;
  decltype(&::cufftExecC2R) to_real_f32 = nullptr;
  decltype(&::cufftExecZ2Z) complex_f64 = nullptr;
  decltype(&::cufftExecD2Z) from_real_f64 = nullptr;
  decltype(&::cufftExecZ2D) to_real_f64 = nullptr;

  Functions() {
    const std::string name = "libcufft.so." + std::to_string(CUFFT_VER_MAJOR);
    void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      missing = dlerror();
      return;
    }
    const auto find = [&](auto& function, const char* symbol) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
      if (function == nullptr) missing = name + " has no " + symbol;
    };
    find(create, "cufftCreate");
    find(destroy, "cufftDestroy");
    find(set_auto_allocation, "cufftSetAutoAllocation");
    find(make_plan_many, "cufftMakePlanMany64");
    find(set_stream, "cufftSetStream");
    find(set_work_area, "cufftSetWorkArea");
    find(complex_f32, "cufftExecC2C");
    find(from_real_f32, "cufftExecR2C");
    find(to_real_f32, "cufftExecC2R");
    find(complex_f64, "cufftExecZ2Z");
    find(from_real_f64, "cufftExecD2Z");
    find(to_real_f64, "cufftExecZ2D");
  }
};

const Functions& functions() {
  static const Functions* const only = new Functions;
  return *only;
}

void check_fft(cufftResult result, const char* what) {
  if (result == CUFFT_SUCCESS) return;
  throw Failure(result == CUFFT_ALLOC_FAILED ? Status::kNoMemory : Status::kFailed,
                std::string("cuFFT: ") + what + " failed with code " + std::to_string(static_cast<int>(result)));
}

cufftType type_of(const LibraryFft& f) {
  switch (f.kind) {
    case FftKind::kFromReal: return f.wide ? CUFFT_D2Z : CUFFT_R2C;
    case FftKind::kToReal: return f.wide ? CUFFT_Z2D : CUFFT_C2R;
    default: return f.wide ? CUFFT_Z2Z : CUFFT_C2C;
  }
}

/// A plan with its tables in device memory.
class Plan {
 public:
  explicit Plan(const LibraryFft& f) {
    const Functions& fft = functions();
    check_fft(fft.create(&handle_), "cufftCreate");
    try {
      check_fft(fft.set_auto_allocation(handle_, 0), "cufftSetAutoAllocation");
      long long n = f.n;
      check_fft(fft.make_plan_many(handle_, 1, &n, nullptr, 1, 0, nullptr, 1, 0, type_of(f), f.lines, &work_),
                "a plan");
      check_fft(fft.set_stream(handle_, context().stream), "cufftSetStream");
    } catch (...) {
      fft.destroy(handle_);
      throw;
    }
  }
  /// Waits for the transforms that read the tables.
  ~Plan() {
    try {
      wait_until_reached(set_mark());
    } catch (const Failure&) {  // the device failed; the next call reports it
    }
    functions().destroy(handle_);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  cufftHandle handle() const { return handle_; }
  std::size_t work() const { return work_; }  ///< bytes

 private:
  cufftHandle handle_{};
  std::size_t work_ = 0;
};

constexpr std::size_t kMostPlans = 64;

/// Returns the plan for these sizes. The kMostPlans last used ones are kept, and a graph keeps those whose tables it
/// reads. REQUIRES that the caller holds Context::mutex.
std::shared_ptr<const Plan> plan_of(const LibraryFft& f) {
  using Key = std::tuple<cufftType, std::int64_t, std::int64_t>;
  static auto* const plans = new std::list<std::pair<Key, std::shared_ptr<const Plan>>>;  // the last used one first
  const Key key{type_of(f), f.n, f.lines};
  const auto found = std::find_if(plans->begin(), plans->end(), [&](const auto& plan) { return plan.first == key; });
  if (found != plans->end()) {
    plans->splice(plans->begin(), *plans, found);
  } else {
    require_no_capture("a Fourier transform of new sizes (run the step once before)");
    if (plans->size() >= kMostPlans) plans->pop_back();
    plans->emplace_front(key, std::make_shared<const Plan>(f));
  }
  const std::shared_ptr<const Plan> plan = plans->front().second;
  if (capturing()) keep_for_graph(plan);
  return plan;
}

template <class Real, class Complex, class Function>
cufftResult call(Function function, const Plan& plan, const LibraryFft& f) {
  return function(plan.handle(), static_cast<Real*>(const_cast<void*>(f.from)), static_cast<Complex*>(f.to));
}

cufftResult execute(const Plan& plan, const LibraryFft& f) {
  const Functions& fft = functions();
  const int direction = f.inverse ? CUFFT_INVERSE : CUFFT_FORWARD;
  switch (type_of(f)) {
    case CUFFT_R2C: return call<cufftReal, cufftComplex>(fft.from_real_f32, plan, f);
    case CUFFT_D2Z: return call<cufftDoubleReal, cufftDoubleComplex>(fft.from_real_f64, plan, f);
    case CUFFT_C2R: return call<cufftComplex, cufftReal>(fft.to_real_f32, plan, f);
    case CUFFT_Z2D: return call<cufftDoubleComplex, cufftDoubleReal>(fft.to_real_f64, plan, f);
    case CUFFT_Z2Z:
      return fft.complex_f64(plan.handle(), static_cast<cufftDoubleComplex*>(const_cast<void*>(f.from)),
                             static_cast<cufftDoubleComplex*>(f.to), direction);
    default:
      return fft.complex_f32(plan.handle(), static_cast<cufftComplex*>(const_cast<void*>(f.from)),
                             static_cast<cufftComplex*>(f.to), direction);
  }
}

}  // namespace

bool library_fft(const LibraryFft& f) {
  if (!functions().missing.empty()) {
    add_note_once("fft: computed by Binade's own kernel, which takes n^2 operations for a line: " +
                  functions().missing);
    return false;
  }
  const std::shared_ptr<const Plan> plan = plan_of(f);
  const Buffer<unsigned char> work(static_cast<std::int64_t>(plan->work()));
  check_fft(functions().set_work_area(plan->handle(), work.data()), "cufftSetWorkArea");
  check_fft(execute(*plan, f), "a transform");
  return true;
}

#else

bool library_fft(const LibraryFft&) {
  add_note_once(
      "fft: computed by Binade's own kernel, which takes n^2 operations for a line: the module was built without "
      "cufft.h");
  return false;
}

#endif

}  // namespace binade::cuda
