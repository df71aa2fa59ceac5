#pragma once

#include <set>
#include <sstream>
#include <string>

#include "binade/core/kernels/attention.h"
#include "binade/core/kernels/conv.h"
#include "binade/core/kernels/gemm.h"
#include "binade/cuda/api.h"
#include "binade/cuda/device/plan_choice.h"

namespace binade::cuda {

/// Opens cuBLASLt and cuDNN for the open device and says in `facts` which were found.
void open_libraries(DeviceFacts& facts);

/// C (+)= A B, A B + bias, or of halves with `pre_activation` GELU(A B + bias) in the tanh form, or A B times that
/// GELU's slope, by a library: f32 sums, rounded once, nothing observed. How exact its GELU and slope are is its own
/// affair. False, and nothing done, where none
/// computes this product so: another activation, a bias of another dtype than the result, f64, layouts that are dense
/// in neither direction; of codes, what gemm_plan.h says.
bool library_gemm(const GemmArgs& g);

/// A convolution by a library: the same bits every time, f32 sums, rounded once, nothing observed. False, and nothing
/// done, where none computes it so. Throws Failure where a plan would have to be made while a graph is captured.
bool library_conv(const ConvArgs& a);
bool library_conv_weight(const ConvWeightArgs& a);
/// Whether the above would compute it.
bool library_has_conv(const ConvArgs& a);
bool library_has_conv(const ConvWeightArgs& a);

/// Attention by a library: the same bits every time, f32 logits, softmax and sums, nothing observed. The log-sum-exp is
/// that of AttentionForward, so that one pass may be a library's and the other our own. False, and nothing done, where
/// none computes it so: f32 and f64, masks, dropout, depths that are no multiple of 8 up to 128, queries that see no
/// key. Unlike our kernels it multiplies a key that `causal` hides by 0: where v or k hold a NaN or an infinity, more
/// rows may become NaN. Throws Failure where a plan would have to be made while a graph is captured.
bool library_attention(const AttentionForward& f);
bool library_attention(const AttentionBackward& b);

/// How libraries have chosen to compute what they were asked so far: for each library a line that names device and
/// version, then a line for each product, convolution and attention.
std::string library_plans();
/// Takes choices over from such a text; those of another device or version are passed by. Returns how many were taken.
int use_library_plans(const std::string& text);
/// How plans are chosen from now on.
void choose_library_plans(const PlanOptions& options);
PlanChooser& plan_chooser();
/// What libraries could not do, a line each, in the order in which it was found.
std::string library_notes();
void add_note(const std::string& line);
/// Unless it was told before. For those who run calls (Context::mutex).
void add_note_once(const std::string& line);

/// The text of one library: its title, then its lines in order, so that the same choices give the same text. Empty
/// where it has made none.
std::string plans_text(const std::string& title, const std::set<std::string>& lines);

/// Calls take(parse(line)) for each line that `parse` understands behind the line `title`; any other line is the title
/// of what follows. Returns how many `take` took.
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

// The parts of the two that belong to one kind of operation.
std::string gemm_plans();
int use_gemm_plans(const std::string& text);
void forget_conv_plans();
void forget_attention_plans();
std::string conv_plans();
int use_conv_plans(const std::string& text);
std::string attention_plans();
int use_attention_plans(const std::string& text);

}  // namespace binade::cuda
