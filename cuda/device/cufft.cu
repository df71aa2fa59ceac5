#if __has_include(<cufft.h>)
#include <cufft.h>
#include <dlfcn.h>
#endif

#include <map>
#include <string>
#include <tuple>

#include "binade/cuda/device/context.cuh"
#include "binade/cuda/device/libraries.cuh"

/// Fourier transforms by cuFFT. The library is opened at the first transform, because few programs need it.
namespace binade::cuda {

#if __has_include(<cufft.h>)
namespace {

#define BINADE_TEXT_OF(x) #x
#define BINADE_TEXT(x) BINADE_TEXT_OF(x)
constexpr const char* kLibrary = "libcufft.so." BINADE_TEXT(CUFFT_VER_MAJOR);

/// The functions of cuFFT that are used.
#define BINADE_CUFFT(X)                                                                                          \
  X(cufftCreate) X(cufftSetAutoAllocation) X(cufftMakePlanMany64) X(cufftSetStream) X(cufftSetWorkArea)           \
  X(cufftExecC2C) X(cufftExecR2C) X(cufftExecC2R) X(cufftExecZ2Z) X(cufftExecD2Z) X(cufftExecZ2D)

struct Functions {
#define BINADE_POINTER(name) decltype(&::name) name = nullptr;
  BINADE_CUFFT(BINADE_POINTER)
#undef BINADE_POINTER
  std::string missing{};  ///< why the library cannot be used

  Functions() {
    void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      missing = dlerror();
      return;
    }
#define BINADE_FIND(name)                                       \
  name = reinterpret_cast<decltype(name)>(dlsym(library, #name)); \
  if (name == nullptr) missing = std::string(kLibrary) + " has no " #name;
    BINADE_CUFFT(BINADE_FIND)
#undef BINADE_FIND
  }
};
#undef BINADE_CUFFT

const Functions& functions() {
  static const Functions* const only = new Functions;
  return *only;
}

void check_fft(cufftResult result, const char* what) {
  if (result == CUFFT_SUCCESS) return;
  throw Failure(result == CUFFT_ALLOC_FAILED ? Status::kNoMemory : Status::kFailed,
                std::string("cuFFT: ") + what + " failed with code " + std::to_string(static_cast<int>(result)));
}

struct Plan {
  cufftHandle handle{};
  std::size_t work = 0;  // bytes
};

cufftType type_of(const LibraryFft& f) {
  switch (f.kind) {
    case FftKind::kFromReal: return f.wide ? CUFFT_D2Z : CUFFT_R2C;
    case FftKind::kToReal: return f.wide ? CUFFT_Z2D : CUFFT_C2R;
    default: return f.wide ? CUFFT_Z2Z : CUFFT_C2C;
  }
}

/// Plans are never destroyed, because captured graphs read their tables. REQUIRES that the caller holds Context::mutex.
const Plan& plan_of(const LibraryFft& f) {
  using Key = std::tuple<cufftType, std::int64_t, std::int64_t>;
  static auto* const plans = new std::map<Key, Plan>;
  const Key key{type_of(f), f.n, f.lines};
  if (const auto found = plans->find(key); found != plans->end()) return found->second;
  require_no_capture("a Fourier transform of new sizes (run the step once before)");
  const Functions& fft = functions();
  Plan plan;
  check_fft(fft.cufftCreate(&plan.handle), "cufftCreate");
  check_fft(fft.cufftSetAutoAllocation(plan.handle, 0), "cufftSetAutoAllocation");
  long long n = f.n;
  check_fft(fft.cufftMakePlanMany64(plan.handle, 1, &n, nullptr, 1, 0, nullptr, 1, 0, type_of(f), f.lines, &plan.work),
            "a plan");
  check_fft(fft.cufftSetStream(plan.handle, context().stream), "cufftSetStream");
  return plans->emplace(key, plan).first->second;
}

template <class Real, class Complex, class Function>
cufftResult call(Function function, const Plan& plan, const LibraryFft& f) {
  return function(plan.handle, static_cast<Real*>(const_cast<void*>(f.from)), static_cast<Complex*>(f.to));
}

cufftResult execute(const Plan& plan, const LibraryFft& f) {
  const Functions& fft = functions();
  const int direction = f.inverse ? CUFFT_INVERSE : CUFFT_FORWARD;
  switch (type_of(f)) {
    case CUFFT_R2C: return call<cufftReal, cufftComplex>(fft.cufftExecR2C, plan, f);
    case CUFFT_D2Z: return call<cufftDoubleReal, cufftDoubleComplex>(fft.cufftExecD2Z, plan, f);
    case CUFFT_C2R: return call<cufftComplex, cufftReal>(fft.cufftExecC2R, plan, f);
    case CUFFT_Z2D: return call<cufftDoubleComplex, cufftDoubleReal>(fft.cufftExecZ2D, plan, f);
    case CUFFT_Z2Z:
      return fft.cufftExecZ2Z(plan.handle, static_cast<cufftDoubleComplex*>(const_cast<void*>(f.from)),
                              static_cast<cufftDoubleComplex*>(f.to), direction);
    default:
      return fft.cufftExecC2C(plan.handle, static_cast<cufftComplex*>(const_cast<void*>(f.from)),
                              static_cast<cufftComplex*>(f.to), direction);
  }
}

}  // namespace

bool library_fft(const LibraryFft& f) {
  if (!functions().missing.empty()) {
    add_note_once("fft: computed by Binade's own kernel, which takes n^2 operations for a line: " + functions().missing);
    return false;
  }
  const Plan& plan = plan_of(f);
  const Buffer<unsigned char> work(static_cast<std::int64_t>(plan.work));
  check_fft(functions().cufftSetWorkArea(plan.handle, work.data()), "cufftSetWorkArea");
  check_fft(execute(plan, f), "a transform");
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
