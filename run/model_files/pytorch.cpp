#include "binade/run/model_files/pytorch.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "binade/core/error.h"
#include "binade/core/version.h"
#include "binade/io/exchange/pytorch_file.h"
#include "binade/nn/attention.h"
#include "binade/nn/convolution.h"
#include "binade/nn/transformer.h"

namespace binade {

namespace {

/// Names that wrappers of PyTorch put before all names: DataParallel and DistributedDataParallel, torch.compile().
constexpr const char* kWrappers[] = {"module.", "_orig_mod."};

std::string join(const std::string& prefix, const std::string& name) {
  if (prefix.empty()) return name;
  return name.empty() ? prefix : prefix + "." + name;
}

/// Returns PyTorch's name for a member of a module.
std::string theirs_of(const nn::Module& owner, const std::string& name) {
  static const std::map<std::string, std::string> kLayer{
      {"attention", "self_attn"}, {"cross", "multihead_attn"}, {"up", "linear1"}, {"down", "linear2"}};
  const bool layer = dynamic_cast<const nn::TransformerEncoderLayer*>(&owner) != nullptr ||
                     dynamic_cast<const nn::TransformerDecoderLayer*>(&owner) != nullptr;
  const auto found = layer ? kLayer.find(name) : kLayer.end();
  return found == kLayer.end() ? name : found->second;
}

/// A parameter or buffer at one of its places in the model.
struct Place {
  std::string ours, theirs, path;  ///< path: path of its module in Binade
  std::string their_path;
  const void* identity;
  Tensor value;
  bool optional = false, only_ours = false;
};

/// Lists every place of every tensor (several if it is tied), and the modules at each path.
class Places final : public nn::Visitor {
 public:
  using Visitor::operator();
  explicit Places(nn::Module& root) : owners_{&root} {
    modules_[""].push_back(&root);
    root.visit(*this);
  }
  void operator()(const std::string& name, nn::Parameter& parameter) override {
    if (parameter.defined()) add(name, parameter.state().get(), parameter.value());
  }
  void operator()(const std::string& name, nn::Buffer& buffer) override {
    if (buffer.committed().defined()) add(name, &buffer, buffer.committed());
  }
  void operator()(const std::string& name, nn::Module& module) override {
    const auto outer = std::pair(ours_, theirs_);
    theirs_ = join(theirs_, theirs_of(*owners_.back(), name));
    ours_ = join(ours_, name);
    modules_[ours_].push_back(&module);
    their_paths_[ours_] = theirs_;
    owners_.push_back(&module);
    module.visit(*this);
    owners_.pop_back();
    std::tie(ours_, theirs_) = outer;
  }

  const std::vector<Place>& all() const { return places_; }
  /// Returns the module of type M at a path, or null.
  template <class M>
  const M* find(const std::string& path) const {
    const auto at = modules_.find(path);
    if (at == modules_.end()) return nullptr;
    for (const nn::Module* module : at->second)
      if (const auto* found = dynamic_cast<const M*>(module)) return found;
    return nullptr;
  }
  std::string kind(const std::string& path) const {
    const auto at = modules_.find(path);
    return at == modules_.end() ? "" : at->second.front()->kind();
  }
  const std::string& their_path(const std::string& path) const { return their_paths_.at(path); }

 private:
  void add(const std::string& name, const void* identity, const Tensor& value) {
    places_.push_back({.ours = join(ours_, name),
                       .theirs = join(theirs_, name),
                       .path = ours_,
                       .their_path = theirs_,
                       .identity = identity,
                       .value = value,
                       .optional = name == "num_batches_tracked",
                       .only_ours = name == "fp8_amax"});
  }

  std::string ours_, theirs_;
  std::vector<const nn::Module*> owners_;
  std::map<std::string, std::vector<const nn::Module*>> modules_;
  std::map<std::string, std::string> their_paths_{{"", ""}};
  std::vector<Place> places_;
};

/// Builds the name rules of a model.
class Rules {
 public:
  explicit Rules(nn::Module& model) : places_(model) {
    for (const Place& place : places_.all()) {
      first_.emplace(place.identity, place.ours);
      by_name_.emplace(place.ours, &place);
    }
  }

  io::NameMap map() {
    for (const Place& place : places_.all()) add(place);
    return std::move(map_);
  }

 private:
  void add(const Place& place) {
    const std::string& ours = first_.at(place.identity);
    const bool tied = ours != place.ours;
    if (place.only_ours) {
      map_.add({.ours = {ours}, .literal = true});
      return;
    }
    if (const std::optional<io::Layout> layout = layout_of(place); layout && !tied) map_.set_layout(ours, *layout);
    std::set<std::string> names;
    const auto add_name = [&](const std::string& theirs) {
      if (names.insert(theirs).second)
        map_.add({.theirs = {theirs}, .ours = {ours}, .optional = place.optional, .tied = tied, .literal = true});
    };
    if (!add_attention_of(place)) add_name(place.theirs);
    // Other names under which a file may have the tensor.
    for (const std::string& theirs : second_names(place)) add_name(theirs);
  }

  std::vector<std::string> second_names(const Place& place) const {
    std::vector<std::string> all;
    const std::string name = place.ours.substr(place.path.empty() ? 0 : place.path.size() + 1);
    const std::string kind = places_.kind(place.path),
                      parametrized = join(place.their_path, "parametrizations.weight.");
    static const std::map<std::string, std::map<std::string, std::string>> kParametrizations{
        {"WeightNorm", {{"weight_g", "original0"}, {"weight_v", "original1"}}},
        {"SpectralNorm", {{"weight_orig", "original"}, {"weight_u", "0._u"}, {"weight_v", "0._v"}}}};
    if (const auto found = kParametrizations.find(kind); found != kParametrizations.end())
      if (const auto part = found->second.find(name); part != found->second.end())
        all.push_back(parametrized + part->second);
    all.push_back(place.ours);
    return all;
  }

  /// If the tensor is part of an attention, adds the rules of that attention, once for all of its tensors. Returns
  /// false if it is not, or if PyTorch's attention cannot have its shapes.
  bool add_attention_of(const Place& place) {
    const std::size_t dot = place.path.rfind('.');
    const std::string parent = dot == std::string::npos ? "" : place.path.substr(0, dot);
    const auto* attention = place.path.empty() ? nullptr : places_.find<nn::MultiHeadAttention>(parent);
    const std::string part = place.path.substr(dot == std::string::npos ? 0 : dot + 1);
    if (attention == nullptr || (part != "query" && part != "key" && part != "value" && part != "out")) return false;
    const std::string ours = parent.empty() ? "" : parent + ".";
    const auto shape_of = [&](const char* layer) { return by_name_.at(ours + layer + ".weight")->value.shape(); };
    const Shape q = shape_of("query"), k = shape_of("key"), v = shape_of("value");
    const std::int64_t dim = attention->options().dim;
    if (q[0] != dim || k[0] != dim || v[0] != dim) return false;
    if (!attentions_.insert(parent).second) return true;
    const std::string theirs = places_.their_path(parent);
    const std::string first = first_.at(by_name_.at(ours + "query.weight")->identity);
    const std::string owner = first.substr(0, first.size() - std::string("query.weight").size());
    io::add_attention(map_, theirs.empty() ? "" : theirs + ".", owner, !(q == k && q == v), owner != ours);
    return true;
  }

  /// Returns the layout that follows from the kind of the module; std::nullopt if PyTorch has the same layout.
  std::optional<io::Layout> layout_of(const Place& place) const {
    if (places_.find<nn::Convolution>(place.path) == nullptr) return std::nullopt;
    using Kind = io::LayoutStep::Kind;
    if (place.value.rank() >= 3) return io::Layout{{.kind = Kind::kFilter}};
    const bool vector = places_.kind(place.path) == "SpectralNorm" && place.ours.ends_with("weight_v");
    if (!vector) return std::nullopt;
    // The vector has one element for each element of a filter: in the order (C, R, S) in PyTorch, whose weight is (K,
    // C, R, S), and (R, S, C) in Binade. If Binade's weight has the output channels last, the order is the same.
    const Shape& weight = by_name_.at(join(place.path, "weight_orig"))->value.shape();
    if (place.value.numel() * weight[-1] == weight.numel() && transposed(place.path)) return std::nullopt;
    return io::Layout{{.kind = Kind::kFlattened, .numbers = {weight[-1]}}};
  }

  bool transposed(const std::string& path) const {
    return places_.find<nn::Convolution>(path)->kind().starts_with("ConvTranspose");
  }

  Places places_;
  std::map<const void*, std::string> first_;  // the first name of each tensor
  std::map<std::string, const Place*> by_name_;
  std::set<std::string> attentions_;  // paths whose rules were added
  io::NameMap map_;
};

io::TensorMap tensors_of(nn::Module& model) {
  io::TensorMap tensors;
  const StateDict state = nn::state_dict(model);
  for (const auto& [name, value] : state.values()) tensors.emplace(name, std::get<Tensor>(value));
  return tensors;
}

/// Removes the prefixes of wrappers from names, if all names in the file have them and not all names of the model.
void remove_wrappers(io::NameMap& map, const io::TensorMap& theirs, const io::TensorMap& ours) {
  std::string prefix;
  const auto all_begin = [](const io::TensorMap& tensors, const std::string& text) {
    return !tensors.empty() && std::ranges::all_of(tensors, [&](const auto& t) { return t.first.starts_with(text); });
  };
  for (bool found = true; found;) {
    found = false;
    for (const char* wrapper : kWrappers) {
      if (!all_begin(theirs, prefix + wrapper) || all_begin(ours, wrapper)) continue;
      prefix += wrapper;
      found = true;
    }
  }
  if (!prefix.empty()) map.remove_prefix(prefix);
}

io::NameMap names_of(nn::Module& model, const PytorchOptions& options) {
  io::NameMap map = options.names;
  return map.append(pytorch_names(model));
}

}  // namespace

io::NameMap pytorch_names(nn::Module& model) { return Rules(model).map(); }

nn::LoadResult load_pytorch(nn::Module& model, const std::string& path, const PytorchOptions& options) {
  const io::TensorMap theirs = io::read_weights_file(path, options.entry), ours = tensors_of(model);
  io::NameMap map;
  remove_wrappers(map, theirs, ours);  // first: they are in front of the user's prefixes
  map.append(names_of(model, options));
  io::MappedTensors mapped = map.from_theirs(theirs, &ours);
  mapped.check(path,
               "wanted the state dict of a model with the same structure and names; give rules for other names "
               "(PytorchOptions::names), or load what fits with strict = false",
               options.strict);
  StateDict state;
  for (auto& [name, tensor] : mapped.tensors) state.put(name, std::move(tensor));
  nn::load_state_dict(model, state, {.strict = false});
  return {std::move(mapped.missing), std::move(mapped.unexpected)};
}

void save_pytorch(nn::Module& model, const std::string& path, const PytorchOptions& options) {
  io::MappedTensors mapped = names_of(model, options).to_theirs(tensors_of(model));
  mapped.different.insert(mapped.different.end(), mapped.unexpected.begin(), mapped.unexpected.end());
  std::string problems;
  for (const std::string& one : mapped.different) problems += (problems.empty() ? "" : ", ") + one;
  check<ArgumentError>(problems.empty(), "{}: the rules for names do not fit the model: {}", path, problems);
  io::write_safetensors(path, {.tensors = std::move(mapped.tensors),
                               .metadata = {{"format", "pt"}, {"writer", std::string(build_id())}}});
}

}  // namespace binade
