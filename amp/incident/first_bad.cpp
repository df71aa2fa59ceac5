#include "binade/amp/incident/first_bad.h"

#include <cmath>

#include "binade/amp/incident/source_place.h"
#include "binade/amp/text.h"
#include "binade/amp/watch/attention_entropy.h"
#include "binade/amp/watch/singularity.h"
#include "binade/autograd/node.h"
#include "binade/autograd/weight.h"
#include "binade/core/ops/cast.h"
#include "binade/core/step_context.h"
#include "binade/optim/gradient_scan.h"

namespace binade::amp {
namespace {

constexpr std::uint32_t kInfinity = 0x7f800000u;

std::uint32_t largest_word(const Tensor& tensor) {
  const Observation amax = observe(tensor);
  return std::max(amax.low, amax.wide);
}

double largest_of(const Tensor& tensor) { return optim::magnitude_of(largest_word(tensor)); }

std::vector<std::int64_t> index_of(const Shape& shape, std::int64_t position) {
  std::vector<std::int64_t> index(static_cast<std::size_t>(shape.rank()));
  for (int d = shape.rank() - 1; d >= 0; --d) {
    index[static_cast<std::size_t>(d)] = position % shape[d];
    position /= shape[d];
  }
  return index;
}

/// True if a row along the last dimension holds nothing but -inf.
bool has_masked_row(const Tensor& tensor) {
  if (!tensor.defined() || !is_floating(tensor.dtype()) || tensor.rank() < 1 || tensor.numel() == 0) return false;
  const std::int64_t width = tensor.dim(tensor.rank() - 1);
  const std::vector<double> values = tensor.on_host().to_vector<double>();
  for (auto row = values.begin(); row != values.end(); row += width)
    if (std::all_of(row, row + width, [](double x) { return std::isinf(x) && x < 0; })) return true;
  return false;
}

std::string text_of(double value) { return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"; }

}  // namespace

void describe_element(FirstBad& bad, const Tensor& tensor, std::int64_t position) {
  bad.value = text_of(tensor.on_host().at(position));
  bad.index = index_of(tensor.shape(), position);
}

NonFiniteScan scan_non_finite(const Tensor& tensor) {
  NonFiniteScan scan;
  if (!tensor.defined() || !is_floating(tensor.dtype()) || largest_word(tensor) < kInfinity) return scan;
  const Tensor flat = tensor.on_host();
  std::vector<std::vector<char>> has_bad;  // per dimension and index
  for (int d = 0; d < flat.rank(); ++d) has_bad.emplace_back(static_cast<std::size_t>(flat.dim(d)), 0);
  std::int64_t first_nan = -1;
  dispatch_float(flat.dtype(), "finite check", [&]<class T>(TypeTag<T>) {
    const T* x = flat.data<T>();
    for (std::int64_t i = 0; i < flat.numel(); ++i) {
      const double value = load(x[i]);
      if (std::isfinite(value)) continue;
      std::int64_t rest = i;
      for (int d = flat.rank() - 1; d >= 0; --d) {
        has_bad[static_cast<std::size_t>(d)][static_cast<std::size_t>(rest % flat.dim(d))] = 1;
        rest /= flat.dim(d);
      }
      if (std::isnan(value)) {
        scan.nan = true;
        if (first_nan < 0) first_nan = i;
      } else {
        (value > 0 ? scan.positive : scan.negative) = true;
        if (scan.position < 0) scan.position = i;
      }
    }
  });
  if (scan.position < 0) scan.position = first_nan;
  for (const std::vector<char>& flags : has_bad) {
    std::vector<std::int64_t>& indices = scan.indices.emplace_back();
    for (std::size_t i = 0; i < flags.size(); ++i)
      if (flags[i] != 0) indices.push_back(static_cast<std::int64_t>(i));
  }
  return scan;
}

FirstBad FirstBadSearch::with_facts(FirstBad bad) const {
  bad.in_loss = !leads_to_weight(bad.tape_index);
  if (const auto stack = call_stacks_.find(bad.tape_index); stack != call_stacks_.end()) bad.call_stack = stack->second;
  bad.at_singularity = at_singularity_.contains(bad.tape_index);
  bad.is_attention_scores = attention_scores_.contains(bad.tape_index);
  return bad;
}

std::optional<FirstBad> FirstBadSearch::found() const {
  if (found_) return with_facts(*found_);
  return negative_ ? std::optional(with_facts(*negative_)) : std::nullopt;
}

std::optional<FirstBad> FirstBadSearch::reader_of_mask() const {
  return reader_ ? std::optional(with_facts(*reader_)) : std::nullopt;
}

std::pair<std::string, std::string> FirstBadSearch::reader_of(const std::string& parameter) const {
  const auto reader = readers_.find(parameter);
  if (reader != readers_.end()) return reader->second;
  return {module_of(parameter), ""};
}

void FirstBadSearch::note_parts(const OpCall& call, std::span<const Variable> inputs) {
  const std::string below = call.module_path.empty() ? "" : std::string(call.module_path) + ".";
  std::vector<Part> parts(inputs.size());
  std::int64_t modules = 0, end = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined() || !inputs[i].is_leaf()) continue;
    const std::string& name = inputs[i].state()->name;
    const std::string module = name.substr(0, name.find_last_of('.') + 1);
    if (module.size() <= below.size() || !module.starts_with(below)) continue;
    parts[i].module = name.substr(0, name.rfind('.'));
    const auto known = std::ranges::find(parts, parts[i].module, &Part::module);
    if (known - parts.begin() == static_cast<std::ptrdiff_t>(i)) {
      ++modules;
      end += inputs[i].value().rank() > 0 ? inputs[i].dim(0) : 0;
    }
    parts[i].end = end;
  }
  if (modules > 1) parts_[call.tape_index] = std::move(parts);
}

const FirstBadSearch::Part* FirstBadSearch::part_of_input(std::int64_t tape_index, std::size_t i) const {
  const auto parts = parts_.find(tape_index);
  return parts == parts_.end() || parts->second[i].module.empty() ? nullptr : &parts->second[i];
}

const FirstBadSearch::Part* FirstBadSearch::part_of_channel(std::int64_t tape_index, std::int64_t channel,
                                                            std::int64_t channels) const {
  const auto parts = parts_.find(tape_index);
  if (parts == parts_.end() || std::ranges::max(parts->second, {}, &Part::end).end != channels) return nullptr;
  return &*std::ranges::find_if(parts->second, [&](const Part& p) { return channel < p.end; });
}

/// True if an op that depends on the op at `tape_index` reads a weight. If the latter op is not differentiable, true if
/// any later op reads a weight.
bool FirstBadSearch::leads_to_weight(std::int64_t tape_index) const {
  if (!users_.contains(tape_index)) return !weight_readers_.empty() && *weight_readers_.rbegin() > tape_index;
  std::set<std::int64_t> reached{tape_index};
  for (auto next = reached.begin(); next != reached.end(); ++next) {  // users come later on the tape
    if (*next != tape_index && weight_readers_.contains(*next)) return true;
    if (const auto users = users_.find(*next); users != users_.end())
      reached.insert(users->second.begin(), users->second.end());
  }
  return false;
}

/// Returns FirstBad::possible_samples, as rows of the step's whole batch.
std::vector<std::vector<std::int64_t>> FirstBadSearch::possible_samples_of(const Tensor& tensor,
                                                                           const NonFiniteScan& scan) const {
  std::vector<std::vector<std::int64_t>> layouts;
  if (batch_ < 1) return layouts;
  const std::int64_t first = step_context().micro_batch * (stride_ > 0 ? stride_ : batch_);
  const auto add = [&](int dimension, auto&& row_of) {
    std::set<std::int64_t> rows;
    for (const std::int64_t i : scan.indices[static_cast<std::size_t>(dimension)]) rows.insert(first + row_of(i));
    std::vector<std::int64_t> layout(rows.begin(), rows.end());
    if (std::ranges::find(layouts, layout) == layouts.end()) layouts.push_back(std::move(layout));
  };
  for (int d = 0; d < tensor.rank(); ++d) {
    const std::int64_t extent = tensor.dim(d);
    if (extent < batch_ || extent % batch_ != 0) continue;
    const std::int64_t each = extent / batch_;  // indices per sample, such as heads, windows, views or time steps
    add(d, [&](std::int64_t i) { return i / each; });
    if (each > 1) add(d, [&](std::int64_t i) { return i % batch_; });
  }
  return layouts;
}

FirstBad FirstBadSearch::describe(const OpCall& call, const Tensor& tensor, const NonFiniteScan& scan,
                                  std::span<const Tensor> operands) const {
  FirstBad bad;
  bad.module = call.module_path;
  bad.op = call.info.name;
  bad.info = &call.info;
  bad.direction = call.direction == Direction::kForward ? "forward" : "backward";
  bad.dtype = name_of(tensor.dtype());
  for (int d = 0; d < tensor.rank(); ++d) bad.shape.push_back(tensor.dim(d));
  describe_element(bad, tensor, scan.position);
  bad.step = static_cast<std::int64_t>(step_context().step);
  bad.micro_batch = step_context().micro_batch;
  bad.tape_index = call.tape_index;
  bad.possible_samples = possible_samples_of(tensor, scan);
  if (tensor.rank() > 0 && tensor.dim(0) == batch_ && batch_ > 0) bad.samples = bad.possible_samples.front();
  if (bad.samples.size() == 1) bad.sample = bad.samples.front();
  for (const Tensor& operand : operands)
    if (operand.defined() && is_floating(operand.dtype())) bad.operand_max.push_back(largest_of(operand));
  return bad;
}

void FirstBadSearch::note_operands(const OpCall& call, std::span<const Variable> inputs, const Tensors& read) {
  if (micro_batch_ != step_context().micro_batch) {
    if (found_) return;  // later micro-batches are not examined
    micro_batch_ = step_context().micro_batch;
    users_.clear();
    weight_readers_.clear();
    parts_.clear();
    at_singularity_.clear();
    call_stacks_.clear();
    attention_scores_.clear();
  }
  note_parts(call, inputs);
  call_stacks_[call.tape_index] = capture_call_stack();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Variable& x = inputs[i];
    if (!x.defined()) continue;
    if (!x.is_leaf()) users_[x.state()->node->tape_index()].push_back(call.tape_index);
    if (!is_weight(x)) continue;
    weight_readers_.insert(call.tape_index);
    const Part* part = part_of_input(call.tape_index, i);
    readers_.try_emplace(x.state()->name, part != nullptr ? part->module : std::string(call.module_path),
                         call.info.name);
  }
  if (const Node* scores = attention_scores(call, inputs)) attention_scores_.insert(scores->tape_index());
  if (singularity_distance(call, read).binades < 0) at_singularity_.insert(call.tape_index);
}

void FirstBadSearch::name_part(FirstBad& bad, const Part* part) {
  if (part == nullptr) return;
  bad.caller = bad.module;
  bad.module = part->module;
}

FirstBad FirstBadSearch::from_batch(const OpCall& call, const Tensor& tensor, const NonFiniteScan& scan) const {
  FirstBad bad = describe(call, tensor, scan, {});
  bad.direction = "input";
  bad.tensor = "input";
  return bad;
}

FirstBad FirstBadSearch::from_weight(const OpCall& call, const Tensor& tensor, const NonFiniteScan& scan,
                                     const std::string& name) const {
  FirstBad bad = describe(call, tensor, scan, {});
  bad.tensor = bad.parameter = name;
  bad.samples.clear();  // rows of a weight are no samples
  bad.possible_samples.clear();
  bad.sample.reset();
  return bad;
}

void FirstBadSearch::before_forward(const OpCall& call, std::span<const Variable> inputs, Tensors& read) {
  note_operands(call, inputs, read);
  if (found_) return;
  reads_batch_ = std::ranges::all_of(inputs,
                                     [](const Variable& x) { return !x.defined() || (x.is_leaf() && !is_weight(x)); });
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Variable& x = inputs[i];
    if (!x.defined() || !x.is_leaf()) continue;
    const bool weight = is_weight(x) && !x.state()->recomputed;
    if (batch_ == 0 && !weight && x.value().rank() >= 2) batch_ = x.dim(0);
    const NonFiniteScan own = scan_non_finite(weight ? x.value() : read[i]);
    if (!own.finite() && !weight && own.only_negative()) {  // a mask, unless an op that takes no masks reads it
      if (!mask_) mask_ = from_batch(call, read[i], own);
      continue;
    }
    if (!own.finite()) {
      found_ = weight ? from_weight(call, x.value(), own, x.state()->name) : from_batch(call, read[i], own);
      if (weight) found_->direction = "state";
      if (weight) --found_->step;
      name_part(*found_, part_of_input(call.tape_index, i));
      return;
    }
    const NonFiniteScan copy = scan_non_finite(read[i]);
    if (weight && own.finite() && !copy.finite()) {  // only the 16-bit copy is not finite
      found_ = from_weight(call, read[i], copy, x.state()->name);
      found_->tensor = "16-bit copy of " + x.state()->name;
      found_->operand_max.push_back(largest_of(x.value()));
      // Updates are never committed if a weight leaves the range of its 16-bit copy, so this weight was damaged.
      if (found_->operand_max.front() > range_of(read[i].dtype()).largest) {
        found_->direction = "state";
        --found_->step;
      }
      name_part(*found_, part_of_input(call.tape_index, i));
      return;
    }
  }
}

void FirstBadSearch::after_forward(const OpCall& call, std::span<const Tensor> read, Tensors& outputs,
                                   const Observation&) {
  if (found_) return;
  for (const Tensor& output : outputs) {
    const NonFiniteScan out = scan_non_finite(output);
    if (out.finite()) continue;
    bool broken = false, masked = false;
    for (const Tensor& operand : read) {
      const NonFiniteScan in = scan_non_finite(operand);
      broken = broken || in.nan || in.positive;
      masked = masked || in.only_negative();
    }
    if (broken) return;  // user code made an operand non-finite between two ops
    FirstBad bad = describe(call, output, out, read);
    bad.tensor = "output";
    if (!bad.index.empty())
      name_part(bad, part_of_channel(call.tape_index, bad.index.back(), output.shape()[output.rank() - 1]));
    const bool moves = call.info.observed == Observed::kMoves;  // the op only copies values: the batch is bad
    const bool narrows = reads_batch_ &&
                         bad.is<ops::Cast>();  // a cast of the batch, which exceeds the range of the dtype
    if (moves || narrows) bad.direction = "input";
    if (out.only_negative()) {
      if (!masked && !negative_) {
        negative_ = std::move(bad);
        negative_call_ = record_forward(call, read, output.dtype());
      }
      return;
    }
    found_ = std::move(bad);
    found_call_ = record_forward(call, read, output.dtype());
    if (!masked) return;
    // A -inf that an op without any relation to masks computed from finite operands is no mask.
    const bool of_mask = !negative_ || negative_->info->carries_masks;
    found_->of_mask = of_mask;
    found_->of_masked_row = of_mask && std::ranges::any_of(read, has_masked_row);
    if (call.info.numerics.non_finite == NonFinite::kMasks && of_mask) return;
    // The op that made the -inf is at fault, not the op that read it.
    if (negative_) found_call_ = negative_call_;
    if (negative_) found_ = negative_;
    // A -inf of the batch is at fault too if a product, a norm or a loss reads it, because these ops take no masks.
    else if (const OpFamily f = call.info.family; mask_ && (is_product(f) || is_loss(f) || f == OpFamily::kNorm))
      reader_ = std::exchange(found_, mask_);
    return;
  }
}

void FirstBadSearch::after_backward(const OpCall& call, std::span<const Tensor> gy, std::span<const Tensor> gx,
                                    const Observation&) {
  if (found_) return;
  for (const Tensor& gradient : gy) {
    const NonFiniteScan incoming = scan_non_finite(gradient);
    if (incoming.finite()) continue;
    // Each gradient that an op returned was finite (otherwise found_ would be set), so their sum is to blame.
    found_ = describe(call, gradient, incoming, {});
    found_->tensor = "gradient of the output, summed over its uses";
    found_->of_sum = true;
    return;
  }
  for (std::size_t i = 0; i < gx.size(); ++i) {
    const NonFiniteScan outgoing = scan_non_finite(gx[i]);
    if (outgoing.finite()) continue;
    found_ = describe(call, gx[i], outgoing, gy);
    found_->tensor = "gradient of input " + std::to_string(i);
    name_part(*found_, part_of_input(call.tape_index, i));
    return;
  }
}

}  // namespace binade::amp
