#pragma once

#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "binade/core/kernels/attention.h"
#include "binade/core/kernels/conv.h"
#include "binade/core/kernels/fft.h"
#include "binade/core/kernels/gemm.h"
#include "binade/cuda/api.h"
#include "binade/cuda/device/plan_choice.h"
#include "binade/cuda/device/plan_gate.h"

namespace binade::cuda {

/// Opens cuBLASLt and cuDNN for the open device and records in `facts` which were found.
void open_libraries(DeviceFacts& facts);

/// Computes C = A B + bias, or C = C + A B, by a library. For 16-bit types with `pre_activation` it also computes
/// GELU(A B + bias) in the tanh form, and A B times the derivative of that GELU, with the library's accuracy. Sums are
/// f32, rounded once. Results are not observed. Returns false, and does nothing, if no library can compute the product:
/// for f64, other activations, a bias of another dtype than the result, and operands of which neither the rows nor the
/// columns are contiguous. gemm_plan.h has the rules for 8-bit codes.
bool library_gemm(const GemmArgs& g);

/// Compute a convolution, or the gradient of its weights, by a library, with the same bits every time. Sums are f32,
/// rounded once. Results are not observed. Return false, and do nothing, if no library computes it in this way. Throw
/// Failure if a new plan would be needed during graph capture.
bool library_conv(const ConvArgs& a);
bool library_conv_weight(const ConvWeightArgs& a);
/// Return true if library_conv() or library_conv_weight() would compute the convolution.
bool library_has_conv(const ConvArgs& a);
bool library_has_conv(const ConvWeightArgs& a);

/// Compute attention by a library, with the same bits every time. Logits, softmax and sums are f32. Results are not
/// observed. The log-sum-exp is that of AttentionForward, so a library may run one pass and Binade's kernels the other.
/// Return false, and do nothing, if no library computes it in this way: for f32 and f64, masks, dropout, depths other
/// than multiples of 8 up to 128, and queries that attend to no key. A library multiplies a key hidden by `causal` by
/// 0, whereas Binade's kernels skip it. So a library may give NaN in more rows if k or v has a NaN or an infinity.
/// Throw Failure if a new plan would be needed during graph capture.
bool library_attention(const AttentionForward& f);
bool library_attention(const AttentionBackward& b);

/// Unscaled transforms of `lines` contiguous lines, as in FftArgs with interior = 2 for kToReal and 1 otherwise.
struct LibraryFft {
  FftKind kind = FftKind::kComplex;
  bool inverse = false;
  bool wide = false;  ///< double instead of float
  std::int64_t n = 1, lines = 0;
  const void* from = nullptr;  ///< may be overwritten
  void* to = nullptr;
};
/// Computes transforms by cuFFT. Returns false, and does nothing, if there is no cuFFT.
bool library_fft(const LibraryFft& f);

/// Returns the plans that libraries have chosen so far: for each library a line with device and version, then a line
/// for each product, convolution and attention.
std::string library_plans();
/// Adopts plans from a text of library_plans(); skips those of another device or version. Returns the number adopted.
int use_library_plans(const std::string& text);
/// Sets how plans are chosen from now on.
void choose_library_plans(const PlanOptions& options);
/// Returns the chooser of all libraries' plans.
PlanChooser& plan_chooser();
/// Returns true if Binade's own kernels must compute the key whose text `key_text()` returns. REQUIRES that the caller
/// holds Context::mutex.
template <class KeyText>
bool is_for_own_kernels(KeyText&& key_text);
/// Returns the calls that libraries could not compute, one line each, in the order in which they were first made.
std::string library_notes();
/// Adds a line to library_notes().
void add_note(const std::string& line);
/// Returns " sm_90 multiprocessors 132" for the title of a library's plans.
std::string device_title();
/// Adds a note unless it exists. REQUIRES that the caller holds Context::mutex.
void add_note_once(const std::string& line);
template <class KeyText>
bool is_for_own_kernels(KeyText&& key_text) {
  return plan_gate().refuses(std::forward<KeyText>(key_text), &add_note_once);
}

/// Returns the text of one library: its title, then its lines in order, so that the same choices give the same text.
/// Returns an empty text if there are no lines.
std::string plans_text(const std::string& title, const std::set<std::string>& lines);

/// Reads the lines after the line `title`, up to the next title (a line that `parse` does not accept), and calls
/// take(parse(line)) for each. Returns the number of lines that `take` accepted.
template <class Parse, class Take>
int take_plans(const std::string& text, const std::string& title, Parse&& parse, Take&& take) {
  std::istringstream lines(text);
  int taken = 0;
  bool ours = false;
  for (std::string line; std::getline(lines, line);) {
    const auto plan = parse(line);
    if (!plan) ours = line == title;
    if (plan && ours && take(*plan)) ++taken;
  }
  return taken;
}

// The parts of library_plans() and use_library_plans() for one kind of operation.
std::string gemm_plans();
int use_gemm_plans(const std::string& text);
void forget_conv_plans();
void forget_attention_plans();
std::string conv_plans();
int use_conv_plans(const std::string& text);
std::string attention_plans();
int use_attention_plans(const std::string& text);

}  // namespace binade::cuda
