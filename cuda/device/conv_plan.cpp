#include "cuda/device/conv_plan.h"

#include <fmt/format.h>

#include <charconv>

namespace binade::cuda {
namespace {

constexpr const char* kPasses[] = {"forward", "data-gradient", "weight-gradient"};

/// The largest power of two up to 16 that `at` is a multiple of.
int alignment_of(const void* at) {
  int bytes = 16;
  while (reinterpret_cast<std::uintptr_t>(at) % static_cast<unsigned>(bytes) != 0) bytes /= 2;
  return bytes;
}

/// Takes the next word off the front.
std::string_view next(std::string_view& text) {
  const std::size_t from = std::min(text.find_first_not_of(' '), text.size());
  const std::size_t to = std::min(text.find(' ', from), text.size());
  const std::string_view word = text.substr(from, to - from);
  text.remove_prefix(to);
  return word;
}

bool read(std::string_view word, std::int64_t& value) {
  const char* end = word.data() + word.size();
  const auto [stopped, error] = std::from_chars(word.data(), end, value);
  return error == std::errc() && stopped == end && !word.empty();
}

}  // namespace

std::array<std::int64_t, ConvKey::kNumbers> ConvKey::numbers() const {
  const cpu::ConvShape& s = shape;
  return {static_cast<int>(pass),
          static_cast<int>(in),
          static_cast<int>(out),
          s.images,
          s.height,
          s.width,
          s.channels,
          x_pitch,
          x_alignment,
          s.out_height,
          s.out_width,
          s.filters,
          y_pitch,
          y_alignment,
          s.filter_height,
          s.filter_width,
          w_alignment,
          s.stride[0],
          s.stride[1],
          s.padding[0],
          s.padding[1],
          s.dilation[0],
          s.dilation[1],
          2 * s.groups + (bias ? 1 : 0),
          tf32 ? 1 : 0};
}

std::string ConvKey::text() const {
  const cpu::ConvShape& s = shape;
  return fmt::format(
      "conv {} {} {} x {} {} {} {} pitch {} align {} y {} {} {} pitch {} align {} w {} {} align {} stride {} {} "
      "padding "
      "{} {} dilation {} {} groups {} bias {} tf32 {}",
      kPasses[static_cast<int>(pass)], name_of(in), name_of(out), s.images, s.height, s.width, s.channels, x_pitch,
      x_alignment, s.out_height, s.out_width, s.filters, y_pitch, y_alignment, s.filter_height, s.filter_width,
      w_alignment, s.stride[0], s.stride[1], s.padding[0], s.padding[1], s.dilation[0], s.dilation[1], s.groups,
      bias ? 1 : 0, tf32 ? 1 : 0);
}

std::size_t ConvKeyHash::operator()(const ConvKey& key) const {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a, a number at a time
  for (const std::int64_t n : key.numbers()) hash = (hash ^ static_cast<std::uint64_t>(n)) * 0x100000001b3u;
  return static_cast<std::size_t>(hash ^ hash >> 32);
}

ConvKey conv_key(const ConvCall& call) {
  const cpu::ConvArgs& a = call.args;
  const int source = alignment_of(a.source), result = alignment_of(a.result);
  return {.pass = call.transposed ? ConvPass::kDataGradient : ConvPass::kForward,
          .in = a.in,
          .out = a.out,
          .shape = a.shape,
          .x_pitch = call.transposed ? a.result_pitch : a.source_pitch,
          .y_pitch = call.transposed ? a.source_pitch : a.result_pitch,
          .x_alignment = call.transposed ? result : source,
          .w_alignment = alignment_of(a.filter),
          .y_alignment = call.transposed ? source : result,
          .bias = a.bias != nullptr,
          .tf32 = a.tf32 && a.in == DType::f32};
}

ConvKey conv_key(const ConvWeightCall& call) {
  const cpu::ConvWeightArgs& a = call.args;
  return {.pass = ConvPass::kWeightGradient,
          .in = a.in,
          .out = accumulate_dtype(a.in),
          .shape = a.shape,
          .x_pitch = a.x_pitch,
          .y_pitch = a.gy_pitch,
          .x_alignment = alignment_of(a.x),
          .w_alignment = alignment_of(a.gw),
          .y_alignment = alignment_of(a.gy),
          .tf32 = a.tf32 && a.in == DType::f32};
}

std::string no_library_for(const ConvKey& key) {
  const cpu::ConvShape& s = key.shape;
  if (key.in == DType::f64) return "cuDNN is not asked for f64";
  // A result may be smaller than the formula says (conv_transpose2d with an output padding beyond the stride).
  const std::int64_t extents[2] = {s.height, s.width}, outs[2] = {s.out_height, s.out_width},
                     filters[2] = {s.filter_height, s.filter_width};
  for (int d = 0; d < 2; ++d) {
    const std::int64_t room = extents[d] + 2 * s.padding[d] - s.dilation[d] * (filters[d] - 1) - 1;
    if (room < 0 || room / s.stride[d] + 1 != outs[d]) return "its output padding goes beyond the stride";
  }
  return {};
}

std::string conv_plan_line(const std::string& key, const ConvChoice& choice) {
  if (!choice.library) return key + " = own";
  std::string line = fmt::format("{} = form {} engine {} knobs", key, static_cast<int>(choice.form), choice.engine);
  for (const auto& [type, value] : choice.knobs) line += fmt::format(" {}:{}", type, value);
  return line;
}

std::optional<ConvPlanLine> parse_conv_plan_line(std::string_view line) {
  const std::size_t equals = line.find(" = ");
  if (!line.starts_with("conv ") || equals == std::string_view::npos) return {};
  ConvPlanLine plan{.key = std::string(line.substr(0, equals)), .choice = {}};
  std::string_view rest = line.substr(equals + 3);
  if (rest == "own") return plan;
  ConvChoice& choice = plan.choice;
  choice.library = true;
  std::int64_t form = 0;
  if (next(rest) != "form" || !read(next(rest), form) || form < 0 || form > 1) return {};
  choice.form = static_cast<ConvForm>(form);
  if (next(rest) != "engine" || !read(next(rest), choice.engine) || next(rest) != "knobs") return {};
  for (std::string_view word = next(rest); !word.empty(); word = next(rest)) {
    const std::size_t colon = word.find(':');
    std::pair<std::int64_t, std::int64_t> knob;
    if (colon == std::string_view::npos || !read(word.substr(0, colon), knob.first) ||
        !read(word.substr(colon + 1), knob.second))
      return {};
    choice.knobs.push_back(knob);
  }
  return plan;
}

}  // namespace binade::cuda
